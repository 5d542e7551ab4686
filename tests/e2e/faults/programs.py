"""The programs of one round: a scheduler and two agents on their hosts, and replays against them."""
import contextlib
import json
import os
import resource
import signal
import subprocess
import time

from hosts import CONTROL_CABLE, RAILS, SCHEDULER_CABLE, address

CABLES, LOCAL = "tcp", "tcp+local"
HEARTBEAT_S, QUIET_S, DRAIN_S = 1.0, 0.3, 3
HEARTBEAT_BOUND_S = 3 * HEARTBEAT_S
# To replace the endpoint of a rail, on two cores that are busy.
RECYCLE_S = 0.5
# From a fault, or from the moment when a process that must answer runs again, to a terminal event.
BOUND_S = HEARTBEAT_BOUND_S + QUIET_S + len(RAILS) * RECYCLE_S + 1


def wait_until(condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class Program:
    """One process, started again with the same options. `environment` and `prefix` may be set before."""

    def __init__(self, name, host, command, log, ready):
        self.name, self.host, self.command, self.log, self.ready = name, host, command, log, ready
        self.environment, self.prefix, self.process = {}, [], None

    def start(self):
        for path in self.ready:
            if os.path.exists(path):
                os.remove(path)
        inside = self.host.inside(*self.command) if self.host else self.command
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([*self.prefix, *inside], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env={**os.environ, **self.environment})
        if not self.ready:
            return  # it may be over soon
        wait_until(lambda: all(os.path.exists(path) for path in self.ready) or self.process.poll() is not None, 20)
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended while it started: see {self.log}")
        if not all(os.path.exists(path) for path in self.ready):
            raise RuntimeError(f"{self.name} did not get ready: see {self.log}")

    @property
    def pid(self):
        return self.process.pid

    def lives(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        if self.lives():
            os.kill(self.pid, number)

    def wait(self, seconds):
        """The exit status; None when it has not ended by then."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def is_stopped(self):
        return is_stopped(self.pid)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def is_stopped(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


class World:
    """All programs of one round, or of one soak. `folder` keeps their logs."""

    def __init__(self, options, network, tls, folder, provider, decode_agents=1):
        self.options, self.network, self.tls, self.folder, self.provider = options, network, tls, folder, provider
        os.makedirs(folder)
        self.port = self.scheduler_port = 0
        self.replays = []
        self.more_options = {"prefill": [], "decode": []}
        self.scheduler = Program("scheduler", network.source, [], self.path("scheduler.log"),
                                 [self.path("scheduler.port")])
        self.prefill = self.agent("prefill", 0, network.source, [self.path("prefill-0.port")])
        decode_host = network.source if provider == LOCAL else network.target
        self.decodes = [self.agent("decode", number, decode_host, []) for number in range(decode_agents)]
        self.decode = self.decodes[0]  # the one that a fault strikes
        self.agents = (self.prefill, *self.decodes)
        self.programs = (self.scheduler, *self.agents)

    def agent(self, role, number, host, ready):
        name = f"{role}-{number}"
        return Program(name, host, [], self.path(f"{name}.log"), [*ready, self.path(f"{name}.sock")])

    def path(self, name):
        return os.path.join(self.folder, name)

    def binary(self, name):
        return os.path.join(self.options.bin_dir, name)

    def credentials(self, name):
        return ["--tls-certificate", f"{self.tls}/{name}.pem", "--tls-key", f"{self.tls}/{name}-key.pem", "--tls-ca",
                f"{self.tls}/ca.pem"]

    def state(self, program):
        return self.path(f"{program.name}.state")

    def start(self):
        self.start_scheduler()
        self.start_prefill()
        for decode in self.decodes:
            self.start_decode(decode)

    def start_scheduler(self):
        self.scheduler.command = [
            self.binary("kvrail-scheduler"), *self.credentials("scheduler"), "--listen",
            f"{address(SCHEDULER_CABLE, 1)}:{self.scheduler_port}", "--port-file", self.path("scheduler.port"),
            "--state-dir", self.state(self.scheduler)]
        self.scheduler.start()
        self.scheduler_port = self.read_port("scheduler.port")

    def start_prefill(self):
        self.prefill.command = [
            self.binary("prefill-agent"), "--listen", f"{address(CONTROL_CABLE, 1)}:{self.port}", "--port-file",
            self.prefill.ready[0], *self.agent_options("prefill", self.prefill)]
        self.prefill.start()
        self.port = self.read_port("prefill-0.port")

    def start_decode(self, decode):
        decode.command = [self.binary("decode-agent"), *self.agent_options("decode", decode)]
        decode.start()

    def restart(self, program):
        if program is self.scheduler:
            self.start_scheduler()
        elif program is self.prefill:
            self.start_prefill()
        else:
            self.start_decode(program)

    def agent_options(self, role, program):
        rails = [word for rail in RAILS for word in ("--rail", address(rail, program.host.end))]
        scheduler = f"{address(SCHEDULER_CABLE, 1)}:{self.scheduler_port}"
        return ["--name", program.name, *self.credentials(program.name), "--engine-socket", program.ready[-1],
                "--provider", self.provider, *rails, "--scheduler", scheduler, "--state-dir",
                self.state(program), "--heartbeat", f"{int(HEARTBEAT_S * 1000)}ms", "--quiet",
                f"{int(QUIET_S * 1000)}ms", "--drain-timeout", f"{DRAIN_S}s", *self.more_options[role]]

    def read_port(self, name):
        wait_until(lambda: os.path.getsize(self.path(name)) > 0, 5)
        with open(self.path(name), encoding="utf-8") as file:
            return int(file.read())

    def ask_scheduler(self, path):
        """The body of an answer; "" when there is none."""
        return self.network.source.run(
            "curl", "-s", "-m", "5", "--cacert", f"{self.tls}/ca.pem", "--cert", f"{self.tls}/tests.pem", "--key",
            f"{self.tls}/tests-key.pem", f"https://{address(SCHEDULER_CABLE, 1)}:{self.scheduler_port}{path}",
            check=False)

    def forget(self, replay):
        """One that has ended; its files go."""
        self.replays.remove(replay)
        for suffix in ("journal", "json", "pids", "log", "trace"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(self.path(f"{replay.name}.{suffix}"))

    def close(self):
        for replay in self.replays:
            replay.close()
        for program in reversed(self.programs):
            program.kill()


class Replay:
    """`kvrail replay` with a journal, against two agents of a world."""

    def __init__(self, world, name, *arguments, decode=None):
        self.world, self.name, self.decode = world, name, decode or world.decode
        self.journal, self.figures_file = world.path(f"{name}.journal"), world.path(f"{name}.json")
        self.pids_file = world.path(f"{name}.pids")
        command = [world.binary("kvrail"), "replay", "--source-socket", world.prefill.ready[-1], "--target-socket",
                   self.decode.ready[-1], "--source-agent", f"{address(CONTROL_CABLE, 1)}:{world.port}", "--json",
                   self.figures_file, "--journal", self.journal, "--pid-file", self.pids_file,
                   "--kv-bytes-per-token", "2k", "--pool-bytes", "128M", "--no-prefix-cache", *arguments]
        self.program = Program(name, None, command, world.path(f"{name}.log"), [])
        world.replays.append(self)
        self.program.start()

    def engine(self, role):
        """The process id of an engine."""
        wait_until(lambda: os.path.exists(self.pids_file) and os.path.getsize(self.pids_file) > 0, 10)
        with open(self.pids_file, encoding="utf-8") as file:
            return int(dict(line.split() for line in file)[role])

    def figures(self):
        try:
            with open(self.figures_file, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return {}

    def close(self):
        self.program.kill()


def make_certificates(options, tls):
    """A CA of this run, and a certificate for each program."""
    os.makedirs(tls, mode=0o700)
    kvrail = os.path.join(options.bin_dir, "kvrail")
    issued = ["prefill", "prefill-0", "decode", "decode-0", "decode", "decode-1", "scheduler", "scheduler", "client",
              "tests"]
    hosts = [word for host in ("127.0.0.1", address(SCHEDULER_CABLE, 1), address(CONTROL_CABLE, 1))
             for word in ("--host", host)]
    for command in (["init", tls], ["issue", tls, *issued, *hosts]):
        subprocess.run([kvrail, "certificates", *command], check=True, stdout=subprocess.DEVNULL)


def write_trace(path, rng, count=900, every_ms=50, lengths=(512, 2048)):
    """Requests that arrive faster than the rails carry them: the replay's --concurrency decides. lengths: in tokens,
    the least, and one more than the most."""
    with open(path, "w", encoding="utf-8") as file:
        for number in range(count):
            tokens = rng.randrange(*lengths)
            blocks = [number * 32 + block for block in range((tokens + 511) // 512)]
            print(json.dumps({"timestamp": number * every_ms, "input_length": tokens, "output_length": 1,
                              "hash_ids": blocks}), file=file)


def limit_descriptors(pid, count):
    """Sets the soft limit; returns the limits that were there."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, before[1]))
    return before
