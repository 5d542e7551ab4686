"""Faults of processes: agents, engines, the scheduler."""
import contextlib
import os
import signal

from fault import Fault
from programs import BOUND_S, DRAIN_S, is_stopped

SIDES = {"prefill": "source", "decode": "target"}  # the engine of an agent


class AgentFault(Fault):
    role = ""

    def program(self, world):
        return getattr(world, self.role)


class Kill(AgentFault):
    """SIGKILL; it is started again."""
    seconds = 1.0
    number = signal.SIGKILL

    def strike(self, world, replay):
        self.struck = self.program(world).process
        self.program(world).signal(self.number)

    def took_effect(self, world):
        return self.struck.poll() == -self.number

    def heal(self, world):
        self.struck.wait(5)
        world.restart(self.program(world))


class Terminate(Kill):
    """SIGTERM: an agent drains first. It is started again."""
    number = signal.SIGTERM

    def took_effect(self, world):
        return self.struck.poll() == 0

    def heal(self, world):
        self.struck.wait(DRAIN_S + BOUND_S + 5)
        world.restart(self.program(world))


class Freeze(AgentFault):
    """SIGSTOP for longer than the deadline of every request and the bound after it."""
    deadline_s = 3
    seconds = 3 + BOUND_S + 1.5
    counts_from_heal = True

    def __init__(self, rng):
        super().__init__(rng)
        self.met = False

    def process_ids(self, world):
        return [self.program(world).pid]

    def strike(self, world, replay):
        self.struck = self.process_ids(world)
        for pid in self.struck:
            os.kill(pid, signal.SIGSTOP)

    def took_effect(self, world):
        self.met = self.met or all(is_stopped(pid) for pid in self.struck)
        return self.met

    def heal(self, world):
        for pid in self.struck:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class FreezeBothAgents(Freeze):
    name = "freeze_both_agents"
    touches = frozenset(SIDES)
    stops_agents = tuple(SIDES.values())

    def process_ids(self, world):
        return [world.prefill.pid, world.decode.pid]


class FreezeEngine(Freeze):
    engine = ""

    def strike(self, world, replay):
        self.struck = [replay.engine(self.engine)]
        os.kill(self.struck[0], signal.SIGSTOP)


class KillEngine(Fault):
    """SIGKILL. The replay ends with it."""
    seconds = 1.0
    ends_replay = True
    engine = ""

    def strike(self, world, replay):
        self.replay = replay
        os.kill(replay.engine(self.engine), signal.SIGKILL)

    def took_effect(self, world):
        try:
            with open(self.replay.program.log, encoding="utf-8") as log:
                return f"the {self.engine} engine's process ended" in log.read()
        except OSError:
            return False


class RollingRestart(Fault):
    """SIGTERM to each program, one after the other; each is back before the next one goes."""
    name = "rolling_restart"
    seconds = 0.0
    alone = True
    replays = 8
    touches = frozenset([*SIDES, "scheduler"])

    def strike(self, world, replay):
        self.statuses = []
        for program in (world.prefill, world.decode, world.scheduler):
            program.signal(signal.SIGTERM)
            self.statuses.append(program.wait(DRAIN_S + BOUND_S + 5))
            world.restart(program)

    def took_effect(self, world):
        return self.statuses == [0, 0, 0]


def of_role(kind, role, name, **attributes):
    return type(name, (kind,), {"name": name, "role": role, "touches": frozenset([role]), **attributes})


def of_engine(kind, engine, name, **attributes):
    return type(name, (kind,), {"name": name, "engine": engine, "touches": frozenset([engine, "replay"]),
                                **attributes})


FAULTS = (
    of_role(Kill, "prefill", "kill_prefill_agent"),
    of_role(Kill, "decode", "kill_decode_agent"),
    of_role(Kill, "scheduler", "kill_scheduler"),
    of_role(Terminate, "prefill", "term_prefill_agent"),
    of_role(Terminate, "decode", "term_decode_agent"),
    of_role(Freeze, "prefill", "freeze_prefill_agent", stops_agents=("source",)),
    of_role(Freeze, "decode", "freeze_decode_agent", stops_agents=("target",)),
    of_role(Freeze, "scheduler", "freeze_scheduler", counts_from_heal=False, deadline_s=60),
    FreezeBothAgents,
    RollingRestart,
    of_engine(FreezeEngine, "source", "freeze_source_engine", stops_engines=("source",)),
    of_engine(FreezeEngine, "target", "freeze_target_engine", stops_engines=("target",)),
    of_engine(KillEngine, "source", "kill_source_engine", kills_engines=("source",)),
    of_engine(KillEngine, "target", "kill_target_engine", kills_engines=("target",)),
)
