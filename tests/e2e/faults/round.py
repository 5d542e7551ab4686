"""One round: fresh agents, one replay, one strike, and what became of every request."""
import os
import signal
import subprocess
import time

from fault import Unavailable
from hosts import Network
from journal import Journal, Journals, Strike, hangs, latencies_ms
from leftovers import alarms, nothing_held, wrong_bytes
from programs import BOUND_S, CABLES, LOCAL, Replay, World, wait_until, write_trace
from striking import attempt, strike_and_heal

CONCURRENCY = 8
REQUESTS_MIN = 40
WARM_REQUESTS = 5
ROUND_S = 30
LOCAL_SHARE = 1 / 3
TOKENS_PER_S = {CABLES: 200000, LOCAL: 12000}  # what the cables carry is slower; copies are faster
CLEAN_REQUESTS, CLEAN_S = 12, 15
class Round:
    def __init__(self, options, tls, folder, faults, rng, number):
        self.options, self.tls, self.folder, self.number, self.rng = options, tls, folder, number, rng
        self.faults = [fault(rng) for fault in faults]
        self.result = {"round": number, "seed": options.seed, "faults": [fault.name for fault in self.faults],
                       "requests": 0, "wrong_bytes": 0, "hangs": 0, "leaked_pages": 0, "unclean": False, "in_flight": 0,
                       "latencies_ms": [], "injected": [], "unavailable": {}, "problems": []}
        self.provider = CABLES
        share = {CABLES: 0, LOCAL: 1}.get(options.provider, LOCAL_SHARE)
        if not any(fault.needs_cables for fault in self.faults) and rng.random() < share:
            self.provider = LOCAL
        self.result["provider"] = self.provider

    def problem(self, text):
        self.result["unclean"] = True
        self.result["problems"].append(text)

    def run(self):
        """The result, a value for JSON."""
        began = time.monotonic()
        network = Network()
        world = World(self.options, network, self.tls, self.folder, self.provider)
        prepared = []
        try:
            for fault in self.faults:
                attempt(fault, fault.prepare, world)
                prepared.append(fault)
            world.start()
            self.play(world, began)
            self.settle(world)
        except Unavailable as reason:
            self.result["unavailable"] = {reason.fault.name: str(reason)}
        except (RuntimeError, OSError, subprocess.SubprocessError) as failure:
            self.problem(f"the round broke off: {failure}")
        finally:
            world.close()
            for fault in prepared:
                fault.clean(world)
            network.close()
        self.result["seconds"] = round(time.monotonic() - began, 1)
        return self.result

    # ---- the replay that is struck -----------------------------------------------------------

    def play(self, world, began):
        write_trace(world.path("trace"), self.rng)
        deadline_s = min(fault.deadline_s for fault in self.faults)
        count = max(fault.replays for fault in self.faults)
        replays = [Replay(world, f"replay-{number}", "--trace", world.path("trace"), "--speed", "1", "--concurrency",
                          str(CONCURRENCY // count), "--prefill-tokens-per-s",
                          str(TOKENS_PER_S[self.provider]), "--deadline",
                          f"{deadline_s}s", "--reconnect", "--progress", "--seed", str(self.options.seed + number))
                   for number in range(count)]
        journals, strike = Journals([replay.journal for replay in replays]), Strike(deadline_s, BOUND_S)
        warm = REQUESTS_MIN - CONCURRENCY if any(fault.ends_replay for fault in self.faults) else WARM_REQUESTS
        # A replay whose engines have not attached yet ends where its agent does, and tells nothing.
        if not wait_until(lambda: (journals.read().ended_requests() >= warm and journals.begun() == count)
                          or not playing(replays), 15):
            raise RuntimeError("the replay made no progress before any fault")
        time.sleep(self.rng.uniform(0, 0.4))
        self.result["injected"] = strike_and_heal(self.faults, world, replays[0], strike)
        self.wait_for_requests(replays, journals, strike, began)
        strike.interrupted_at = time.monotonic()
        for replay in replays:
            replay.program.signal(signal.SIGINT)
        for replay in replays:
            if replay.program.wait(BOUND_S + 20) is None:
                self.problem(f"{replay.name} did not end")
        self.judge(replays, journals.read(), strike)

    def wait_for_requests(self, replays, journals, strike, began):
        """Until all that was on its way has ended, or had to, and enough was played."""
        bound = max(strike.ended_at, strike.counted_from) + BOUND_S + 0.5
        wait_until(lambda: not journals.read().open_sides(strike.ended_at) or not playing(replays),
                   max(0, bound - time.monotonic()))
        wait_until(lambda: journals.read().ended_requests() >= REQUESTS_MIN or not playing(replays),
                   max(0, began + ROUND_S - 8 - time.monotonic()))

    def judge(self, replays, journal, strike):
        result = self.result
        stuck = hangs(journal, strike)
        result["requests"] = len({(number, request) for number, _, request in journal.sides})
        if result["requests"] < REQUESTS_MIN:
            self.problem(f"only {result['requests']} requests were played")
        result["hangs"] = len(stuck)
        result["problems"] += stuck[:4]
        result["latencies_ms"] = latencies_ms(journal, strike, time.monotonic())
        result["in_flight"] = len(result["latencies_ms"])
        result["counted_from"] = "strike" if strike.counted_from == strike.struck_at else "heal"
        result["failures"] = {}
        result["leaked_pages"] += journal.leaked_pages(strike.gone)
        for replay in replays:
            for reason, count in replay.figures().get("failures", {}).items():
                result["failures"][reason] = result["failures"].get(reason, 0) + count
            self.count_wrong(replay.figures(), replay.name)

    def count_wrong(self, figures, whose):
        wrong, problem = wrong_bytes(figures, whose)
        self.result["wrong_bytes"] += wrong
        if problem:
            self.problem(problem)

    # ---- what is left ------------------------------------------------------------------------

    def settle(self, world):
        """A clean replay on the same agents; then they must hold nothing."""
        for program in world.programs:
            if not program.lives():
                self.problem(f"{program.name} had ended with {program.process.returncode}")
                world.restart(program)
        if self.replay_cleanly(world, "clean") == {"peer_restarted"}:
            # The decode-agent had not met the new prefill-agent yet: those that went first tell that.
            self.replay_cleanly(world, "clean-2", met=True)
        held = []
        if not wait_until(lambda: nothing_held(world, held), BOUND_S + 5):
            self.problem(f"the agents hold something at the end: {'; '.join(held) or 'no metrics'}")
            self.result["leaked_pages"] += len(held)
        for line in alarms(world):
            self.problem(f"an alarm: {line}")

    def replay_cleanly(self, world, name, met=False):
        """The reasons of its failures. met: the agents know each other, and there may be none."""
        replay = Replay(world, name, "--requests", str(CLEAN_REQUESTS), "--trace", world.path("trace"), "--deadline",
                        f"{CLEAN_S}s", "--seed", str(self.options.seed + 1))
        status = replay.program.wait(CLEAN_S + 10)
        failures = replay.figures().get("failures") or {}
        if status != 0 and (met or set(failures) != {"peer_restarted"}):
            self.problem(f"a clean replay afterwards ended with {status}: {failures}")
        self.result["leaked_pages"] += Journal(replay.journal).read().leaked_pages({})
        self.count_wrong(replay.figures(), f"the replay {name}")
        replay.program.kill()
        return set(failures)


def playing(replays):
    return any(replay.program.lives() for replay in replays)


def keep_logs(folder):
    """The folder stays; what is large and tells nothing goes."""
    for name in ("trace",):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
