"""What long-lived agents carry in a soak: replays of many shapes, orphans, and faults that agents survive.

Each lane, the orphans and the striker are a thread of their own. What they find goes to one Tally.
"""
import contextlib
import os
import random
import signal
import subprocess
import threading
import time

import network_faults
import order
import process_faults
import resource_faults
import soak_judge
from fault import Unavailable
from hosts import CONTROL_CABLE, SCHEDULER_CABLE, address
from journal import Journal, Strike
from leftovers import wrong_bytes
from programs import BOUND_S, Program, Replay, wait_until, write_trace
from striking import strike_and_heal

LANES = 3
REQUESTS_MOST = 150
SECRET = "6b76726169006b768292a2b2c2d2e2f201122334455667788a9babbccddeeff0"  # tests/support/test_secret.h
END_S = 60  # for a replay to end by itself, or after it was told to
# No process of an agent may end, and none is started in a special way.
FAULTS = (*network_faults.FAULTS, *(fault for fault in process_faults.FAULTS if fault.name.startswith("freeze_")),
          resource_faults.DescriptorsExhausted)


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.requests = self.verified = self.failed = self.wrong_bytes = self.leaked_pages = 0
        self.replays = self.not_started = 0
        self.hangs, self.problems = [], []
        self.faults, self.ends, self.orphans = {}, {}, {}
        self.strikes = []  # [from, until]

    def count(self, counts, name):
        with self.lock:
            counts[name] = counts.get(name, 0) + 1

    def problem(self, text):
        print(text, flush=True)
        with self.lock:
            self.problems.append(text)

    def replay_ended(self, replay, deadline_s, gone):
        journal, figures = Journal(replay.journal).read(), replay.figures()
        if not figures and not journal.sides:
            self.count(self.ends, "not started")
            return
        wrong, problem = wrong_bytes(figures, replay.name)
        stuck = soak_judge.hangs(journal, deadline_s, BOUND_S, self.strikes, gone)
        for text in [problem] * bool(problem) + stuck:
            self.problem(text)
        with self.lock:
            self.replays += 1
            self.requests += len({request for _, request in journal.sides})
            self.verified += figures.get("verified", 0)
            self.failed += figures.get("failed", 0)
            self.wrong_bytes += wrong
            self.hangs += stuck
            self.leaked_pages += journal.leaked_pages(gone)


class Shape:
    """Of one replay: its model, pages, prompts, and how many at once."""

    def __init__(self, rng):
        self.deadline_s = rng.choice((2, 10, 20, 20))
        lengths, token_bytes = rng.choice((((16, 256), "8k"), ((256, 1024), "2k"), ((256, 1024), "4k"),
                                           ((1024, 4096), "1k")))
        self.lengths = lengths
        self.options = [
            "--model", rng.choice(("llama-3.1-8b", "llama-3.1-8b", "deepseek-v3", "gpt-oss-120b", "hybrid")),
            "--page-tokens", rng.choice(("16", "32", "64", "128")), "--kv-bytes-per-token", token_bytes,
            "--concurrency", rng.choice(("1", "2", "4", "12")), "--pages", rng.choice(("aged", "fresh", "shuffled")),
            "--chunk-tokens", rng.choice(("512", "8192")), "--verify", rng.choice(("full", "full", "sampled")),
            "--requests", str(rng.randrange(10, REQUESTS_MOST)), "--deadline", f"{self.deadline_s}s", "--seed",
            str(rng.randrange(1 << 30))]


class Load:
    """Runs until it is told to stop; may be run again."""

    def __init__(self, world, tally, seed, gap_s):
        self.world, self.tally, self.gap_s = world, tally, gap_s
        self.stopping = threading.Event()
        self.playing = {}  # lane -> its replay
        self.rngs = {name: random.Random(f"soak {seed} {name}") for name in (*range(LANES), "orphans", "striker")}
        self.deal = iter(order.rounds(FAULTS, seed, 10000))
        self.numbers = {name: 0 for name in self.rngs}
        self.threads = []

    def start(self):
        self.stopping.clear()
        actions = {**{lane: self.play for lane in range(LANES)}, "orphans": self.orphan, "striker": self.strike}
        self.threads = [threading.Thread(target=self.repeat, args=(name, action)) for name, action in actions.items()]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def repeat(self, name, action):
        while not self.stopping.is_set():
            self.numbers[name] += 1
            try:
                action(name, self.rngs[name], f"{name}-{self.numbers[name]}")
            except (OSError, RuntimeError, ValueError, LookupError, subprocess.SubprocessError) as failure:
                self.tally.problem(f"{name} broke off: {type(failure).__name__}: {failure}")
                time.sleep(1)

    # ---- replays -----------------------------------------------------------------------------

    def play(self, lane, rng, name):
        world, shape = self.world, Shape(rng)
        trace = world.path(f"{name}.trace")
        write_trace(trace, rng, count=REQUESTS_MOST, lengths=shape.lengths)
        decode, end = rng.choice(world.decodes), rng.choice(("whole", "whole", "cancel", "source", "target"))
        until = time.monotonic() + (END_S if end == "whole" else rng.uniform(1, 8))
        replay = Replay(world, name, "--trace", trace, *shape.options, decode=decode)
        self.playing[lane] = replay
        wait_until(lambda: not replay.program.lives() or self.stopping.is_set() or time.monotonic() > until, END_S + 1)
        gone = self.end(replay, end) if replay.program.lives() else ()
        if replay.program.wait(END_S) is None:
            with self.tally.lock:
                self.tally.hangs.append(f"{name} did not end")
        del self.playing[lane]
        replay.close()
        self.tally.replay_ended(replay, shape.deadline_s, gone)
        world.forget(replay)

    def end(self, replay, how):
        """The engines that are gone now."""
        self.tally.count(self.tally.ends, how)
        if how in ("source", "target") and not self.stopping.is_set():
            with contextlib.suppress(ProcessLookupError):
                os.kill(replay.engine(how), signal.SIGKILL)
            return (how,)
        replay.program.signal(signal.SIGINT)
        return ()

    # ---- requests whose other side never comes, or goes --------------------------------------

    def orphan(self, _, rng, name):
        world, how = self.world, rng.choice(("abandon", "killed", "target killed"))
        source = self.lone(f"{name}.source", "source", world.prefill.ready[-1], name, "2")
        target = None
        if wait_until(lambda: "generation" in read(source.log) or not source.lives(), 10) and source.lives():
            if how == "abandon":
                self.abandon(name)
            elif how == "target killed":
                generation = read(source.log).split("generation ")[1].split()[0]
                target = self.lone(f"{name}.target", "target", rng.choice(world.decodes).ready[-1], name,
                                   f"{address(CONTROL_CABLE, 1)}:{world.port}", generation)
                wait_until(lambda: "layers 1" in read(target.log) or not target.lives(), 5)
                target.kill()
            if how != "killed":
                source.wait(10)
            self.tally.count(self.tally.orphans, how if source.lives() == (how == "killed") else f"{how}, late")
        for program in filter(None, (source, target)):
            program.kill()
            os.remove(program.log)
        self.stopping.wait(rng.uniform(1, 4))

    def lone(self, name, role, socket, *arguments):
        program = Program(name, None, [os.path.join(self.world.options.bin_dir, "../tests/lone"), role, socket,
                                       *arguments], self.world.path(f"{name}.log"), [])
        program.environment = {"REQUEST_SECRET": SECRET}
        program.start()
        return program

    def abandon(self, request):
        world = self.world
        wait_until(lambda: f'"{request}"' in world.ask_scheduler(f"/api/v1/transfers?limit=1&request={request}"), 5)
        world.network.source.run(world.binary("kvrail"), "abandon", *world.credentials("tests"), "--scheduler",
                                 f"{address(SCHEDULER_CABLE, 1)}:{world.scheduler_port}", request, check=False)

    # ---- faults ------------------------------------------------------------------------------

    def strike(self, _, rng, name):
        if self.stopping.wait(rng.uniform(*self.gap_s)):
            return
        world, faults = self.world, [fault(rng) for fault in next(self.deal)]
        world.decode = rng.choice(world.decodes)
        replays = list(self.playing.values())
        if not replays:
            return
        of_this = [replay for replay in replays if replay.decode is world.decode] or replays
        span = [time.monotonic(), float("inf")]
        self.tally.strikes.append(span)
        try:
            effective = strike_and_heal(faults, world, of_this[0], Strike(0, BOUND_S))
        except Unavailable as reason:
            effective = []
            self.tally.count(self.tally.faults, f"{reason.fault.name}: {reason}")
        finally:
            span[1] = time.monotonic()
        for fault in effective:
            self.tally.count(self.tally.faults, fault)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""
