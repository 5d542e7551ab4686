"""Faults of what a host gives a program: descriptors, disk, memory, the time of day."""
import mmap
import os
import shutil
import socket
import struct
import subprocess

from fault import Fault
from hosts import CONTROL_CABLE, run
from network_faults import from_cables
from process_faults import SIDES
from programs import limit_descriptors

FILLER = "filler"
DISK_BYTES, HOG_BYTES = 64 << 20, 512 << 20
FORWARD_S = 3600
BACK_S = 240  # certificates hold from five minutes before they were made


class OfProgram(Fault):
    """It strikes one program, which the round chooses."""
    roles = (*SIDES, "scheduler")
    touches = frozenset(roles)

    def __init__(self, rng):
        super().__init__(rng)
        self.role = rng.choice(self.roles)

    def program(self, world):
        return getattr(world, self.role)


class DescriptorsExhausted(OfProgram):
    """An agent can open no descriptor; its control connection is reset, so that it needs one."""
    name = "descriptors_exhausted"
    roles = tuple(SIDES)
    touches = frozenset([*SIDES, "control"])
    needs_cables = True
    table = "descriptor_fault"
    seconds = 5.0

    def __init__(self, rng):
        super().__init__(rng)
        self.met = self.filtering = self.healed = False

    def strike(self, world, replay):
        self.pid = self.program(world).pid
        self.limits = limit_descriptors(self.pid, self.lowest_free())
        host = self.program(world).host
        world.network.add_filter(host, self.table, [f"{from_cables([CONTROL_CABLE], host)} meta l4proto tcp counter "
                                                    "reject with tcp reset"])
        self.filtering = True

    def lowest_free(self):
        used = {int(name) for name in os.listdir(f"/proc/{self.pid}/fd")}
        return next(number for number in range(len(used) + 1) if number not in used)

    def took_effect(self, world):
        """A process that knocks at the engine socket is turned away at once. What the agent closed must not serve it
        again."""
        host = self.program(world).host
        if self.filtering and world.network.filtered(host, self.table) > 0:
            world.network.remove_filter(host, self.table)
            self.filtering = False
        if not self.healed and self.program(world).lives():
            limit_descriptors(self.pid, self.lowest_free())
            self.met = self.met or self.turned_away(world)
        return self.met

    def turned_away(self, world):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as knock:
            knock.settimeout(0.3)
            try:
                knock.connect(self.program(world).ready[-1])
                return knock.recv(1) == b""
            except ConnectionError:
                return True
            except OSError:
                return False

    def heal(self, world):
        self.healed = True
        if self.filtering:
            world.network.remove_filter(self.program(world).host, self.table)
        self.filtering = False
        if self.program(world).lives():
            limit_descriptors(self.pid, self.limits[0])


class StateFault(OfProgram):
    """It strikes a state folder. An agent needs its own while the scheduler takes no reports: it takes none."""
    table = "state_fault"

    def strike(self, world, replay):
        self.filtering = self.role != "scheduler"
        if self.filtering:
            rule = f"tcp dport {world.scheduler_port} counter drop"
            world.network.add_filter(world.scheduler.host, self.table, [rule])

    def heal(self, world):
        if self.filtering:
            world.network.remove_filter(world.scheduler.host, self.table)
        self.filtering = False


class DiskFull(StateFault):
    """The file system of a state folder fills up at run time."""
    name = "disk_full"

    def prepare(self, world):
        self.folder = world.state(self.program(world))
        os.mkdir(self.folder, 0o700)
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", self.folder)

    def fill(self):
        """True when nothing more could be written."""
        try:
            with open(os.path.join(self.folder, FILLER), "ab", buffering=0) as file:
                for _ in range(DISK_BYTES >> 16):
                    file.write(bytes(1 << 16))
                while True:
                    file.write(bytes(512))
        except OSError:
            return True

    def strike(self, world, replay):
        super().strike(world, replay)
        self.full = self.fill()

    def took_effect(self, world):
        return self.full

    def heal(self, world):
        super().heal(world)
        os.remove(os.path.join(self.folder, FILLER))

    def clean(self, world):
        run("umount", "--lazy", self.folder, check=False)


class StateRemoved(StateFault):
    """A state folder is removed at run time."""
    name = "state_removed"

    def strike(self, world, replay):
        super().strike(world, replay)
        self.folder = world.state(self.program(world))
        shutil.rmtree(self.folder)
        self.gone = not os.path.exists(self.folder)

    def took_effect(self, world):
        return self.gone


# ---- memory ----------------------------------------------------------------------------------


class Cgroup:
    """A memory cgroup below this process's own, of either version."""

    def __init__(self, name):
        self.folder = os.path.join(parent_cgroup(), name)
        os.mkdir(self.folder)
        self.old = os.path.exists(self.file("memory.limit_in_bytes"))
        if not self.old and not os.path.exists(self.file("memory.max")):
            os.rmdir(self.folder)
            raise OSError("a new cgroup has no memory controller")

    def file(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.file(name), encoding="utf-8") as file:
            return file.read()

    def usage(self):
        return int(self.read("memory.usage_in_bytes" if self.old else "memory.current"))

    def limit(self, limit):
        """None: no limit."""
        text = str(limit) if limit is not None else "-1" if self.old else "max"
        with open(self.file("memory.limit_in_bytes" if self.old else "memory.max"), "w", encoding="utf-8") as file:
            file.write(text)

    def refusals(self):
        """How often something in it could get no memory."""
        if self.old:
            return int(self.read("memory.failcnt"))
        return int(dict(line.split() for line in self.read("memory.events").splitlines())["max"])

    def enter(self):
        """The beginning of a command that runs in it."""
        return ["sh", "-c", f'echo $$ >{self.file("cgroup.procs")} && exec "$@"', "sh"]

    def close(self):
        os.rmdir(self.folder)


def parent_cgroup():
    """Where this process's memory is counted."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        groups = [line.strip().split(":", 2) for line in file]
    with open("/proc/mounts", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for _, controllers, path in groups:
        for mount in mounts:
            old = mount[2] == "cgroup" and "memory" in mount[3].split(",") and "memory" in controllers.split(",")
            if old or mount[2] == "cgroup2" and controllers == "" and has_controller(mount[1]):
                inside = mount[1] + path
                return inside if os.path.isdir(inside) else mount[1]
    raise OSError("no memory cgroup is mounted")


def has_controller(mount):
    try:
        with open(os.path.join(mount, "cgroup.controllers"), encoding="utf-8") as file:
            return "memory" in file.read().split()
    except OSError:
        return False


class MemoryFull(OfProgram):
    """The memory cgroup of an agent is full: either the agent is killed for it, or another process in it."""
    name = "memory_full"
    seconds = 4.0
    roles = tuple(SIDES)

    def __init__(self, rng):
        super().__init__(rng)
        self.spare_agent = rng.random() < 0.5

    @classmethod
    def missing(cls):
        try:
            Cgroup(f"kvrail-faults-{os.getpid()}").close()
        except OSError as reason:
            return f"no memory cgroup can be made: {reason}"
        return None

    def prepare(self, world):
        self.cgroup = Cgroup(f"kvrail-faults-{os.getpid()}-{id(self)}")
        self.program(world).prefix = self.cgroup.enter()
        self.hog = None

    def strike(self, world, replay):
        adjust = "echo 1000 >/proc/self/oom_score_adj && " if self.spare_agent else ""
        self.cgroup.limit(self.cgroup.usage() + (1 << 20))
        self.hog = subprocess.Popen([*self.cgroup.enter(), "sh", "-c", f'{adjust} exec python3 -c '
                                     f'"import time; x = b\'x\' * {HOG_BYTES}; time.sleep(60)"'],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def took_effect(self, world):
        return self.cgroup.refusals() > 0

    def heal(self, world):
        self.hog.kill()
        self.hog.wait()
        self.cgroup.limit(None)
        if not self.program(world).lives():
            world.restart(self.program(world))

    def clean(self, world):
        if self.hog is not None:
            self.hog.kill()
            self.hog.wait()
        self.cgroup.close()


# ---- time of day -----------------------------------------------------------------------------


class ClockStep(OfProgram):
    """The wall clock of one program steps, and later back (tests/support/stepped_clock.c)."""
    step_s = 0

    @staticmethod
    def library():
        return os.path.join(os.environ["KVRAIL_BIN_DIR"], "../tests/stepped_clock.so")

    @classmethod
    def missing(cls):
        return None if os.path.exists(cls.library()) else "stepped_clock.so was not built"

    def prepare(self, world):
        path = world.path(f"{self.role}.clock")
        with open(path, "wb") as file:
            file.write(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.program(world).environment = {"LD_PRELOAD": self.library(), "KVRAIL_STEPPED_CLOCK": path}

    def strike(self, world, replay):
        struct.pack_into("q", self.page, 0, self.step_s * 10**9)

    def took_effect(self, world):
        return struct.unpack_from("Q", self.page, 8)[0] > 0

    def heal(self, world):
        struct.pack_into("q", self.page, 0, 0)


class ClockForward(ClockStep):
    name = "clock_forward"
    step_s = FORWARD_S


class ClockBack(ClockStep):
    name = "clock_back"
    step_s = -BACK_S


FAULTS = (DescriptorsExhausted, DiskFull, StateRemoved, MemoryFull, ClockForward, ClockBack)
