"""A long mixed load on agents that are never started again: see tests/e2e/soak.sh."""
import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import samples  # noqa: E402
import soak_judge  # noqa: E402
from hosts import Network  # noqa: E402
from leftovers import alarms, nothing_held  # noqa: E402
from programs import BOUND_S, CABLES, Replay, World, make_certificates, wait_until, write_trace  # noqa: E402
from soak_load import Load, Tally  # noqa: E402

CAMPAIGN_MINUTES, CI_MINUTES = 120.0, 0.75
SAMPLE_S, SAMPLES_LEAST = 30, 32
GAP_S, SHORT_GAP_S = (5, 25), (1, 3)  # between two strikes
CLEAN_REQUESTS, CLEAN_S = 24, 15
DECODE_AGENTS = 2
RESTS, REST_S = 10, 4
# A decode-agent that lost so many would come to a stop. Each slot is used in a minute.
SLOTS = 64
SKIPPED = 77


def parse(arguments):
    parser = argparse.ArgumentParser(prog="soak.sh", description="A mixed load with faults on agents that live long: "
                                     "their memory, descriptors and all that they lend must stay as they were.")
    parser.add_argument("--minutes", type=float, help=f"how long ({CI_MINUTES}; with --campaign {CAMPAIGN_MINUTES:.0f})")
    parser.add_argument("--seed", type=int, default=1, help="of the load and the order of the faults (1)")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--campaign", action="store_true", help="two hours; so does KVRAIL_CAMPAIGN=1")
    parser.add_argument("--keep", action="store_true", help="keep the logs, whatever the outcome")
    options = parser.parse_args(arguments)
    options.campaign = options.campaign or bool(os.environ.get("KVRAIL_CAMPAIGN"))
    options.minutes = options.minutes or (CAMPAIGN_MINUTES if options.campaign else CI_MINUTES)
    options.bin_dir = os.environ["KVRAIL_BIN_DIR"]
    return options


class Soak:
    def __init__(self, options, world):
        self.options, self.world, self.tally = options, world, Tally()
        self.seconds = options.minutes * 60
        short = options.minutes < soak_judge.SHORT_MINUTES
        self.load = Load(world, self.tally, options.seed, SHORT_GAP_S if short else GAP_S)
        self.interval_s = min(SAMPLE_S, self.seconds / SAMPLES_LEAST)
        self.samples = samples.Samples(world)
        self.idle = []  # after the warm-up, and at the end
        self.checks = []  # (what, is it so, what was seen)

    def run(self):
        self.play(self.seconds / 4)
        self.come_to_rest()
        self.play(self.seconds)
        self.come_to_rest()
        self.judge()

    def play(self, until_s):
        self.load.start()
        try:
            while time.monotonic() < self.samples.began + until_s:
                time.sleep(self.interval_s)
                self.samples.take()
                for program in self.world.programs:
                    if not program.lives():
                        raise RuntimeError(f"{program.name} ended with {program.process.returncode}")
        finally:
            self.load.stop()

    def come_to_rest(self):
        """A clean replay on each pair of agents, so that all ways are open; then nothing is held. The clock of the
        samples stands still."""
        began = time.monotonic()
        time.sleep(BOUND_S)
        for decode in self.world.decodes:
            write_trace(self.world.path("clean.trace"), random.Random(decode.name))
            replay = Replay(self.world, "clean", "--trace", self.world.path("clean.trace"), "--requests",
                            str(CLEAN_REQUESTS), "--deadline", f"{CLEAN_S}s", decode=decode)
            status = replay.program.wait(CLEAN_S + 10)
            if status != 0:
                self.tally.problem(f"a clean replay at {decode.name} ended with {status}: "
                                   f"{replay.figures().get('failures')}")
            replay.close()
            self.tally.replay_ended(replay, CLEAN_S, ())
            self.world.forget(replay)
        held = []
        if not wait_until(lambda: nothing_held(self.world, held), BOUND_S + 5):
            self.tally.problem(f"the agents hold something at rest: {'; '.join(held) or 'no metrics'}")
            self.tally.leaked_pages += len(held)
        self.idle.append(self.least())
        for program in self.world.programs:
            self.idle[-1][program.name]["mappings"] = samples.mappings(program.pid)
        self.samples.began += time.monotonic() - began

    def least(self):
        """What each has in common of some looks: a connection may be on its way."""
        looks = []
        for _ in range(RESTS):
            looks.append(self.samples.look())
            time.sleep(REST_S / RESTS)
        return {name: {key: min(look[name][key] for look in looks if key in look[name]) for key in values}
                for name, values in looks[-1].items()}

    # ---- the verdict -------------------------------------------------------------------------

    def check(self, what, good, seen):
        self.checks.append((what, good, seen))
        print(f"{'ok' if good else 'NOT OK'}: {what}: {seen}", flush=True)

    def judge(self):
        tally = self.tally
        for problem in alarms(self.world):
            tally.problem(f"an alarm: {problem}")
        self.check("no wrong byte", tally.wrong_bytes == 0, tally.wrong_bytes)
        self.check("no hang", not tally.hangs, len(tally.hangs))
        self.check("no leaked page", tally.leaked_pages == 0, tally.leaked_pages)
        self.check("nothing else is odd", not tally.problems, "; ".join(tally.problems[:4]) or "nothing")
        self.check("requests were verified", tally.verified > 0, f"{tally.verified} of {tally.requests}")
        self.check("faults struck", len(tally.faults) > 0, sum(tally.faults.values()))
        for agent in self.world.agents:
            self.judge_agent(agent)

    def judge_agent(self, agent):
        name = agent.name
        warm, end = self.idle[0][name], self.idle[1][name]
        for key in ("fds", "threads", *samples.HELD):
            good = key in warm and key in end and end[key] <= warm[key]
            self.check(f"{name} has no more {key} at the end than after the warm-up", good,
                       f"{warm.get(key)}, then {end.get(key)}")
        with open(agent.log, encoding="utf-8") as log:
            libfabric = soak_judge.libfabric_of(log.read())
        growth, allowed = self.growth_kib(name), soak_judge.allowed_kib(
            self.options.minutes, sum(self.tally.faults.values()), libfabric)
        self.check(f"{name}'s memory is flat", growth is not None and growth <= allowed,
                   f"{growth} KiB more in the last quarter than in the second, {allowed} are allowed "
                   f"with libfabric {libfabric}; {self.slope(name)} KiB an hour")

    def growth_kib(self, name):
        return soak_judge.growth_kib(self.samples.times, self.samples.of[name]["anon_kib"], self.seconds)

    def slope(self, name):
        slope = soak_judge.slope_per_hour(self.samples.times, self.samples.of[name]["anon_kib"], self.seconds)
        return None if slope is None else round(slope)

    def figures(self):
        tally = self.tally
        programs = {name: {**series, "growth_kib": self.growth_kib(name), "slope_kib_per_hour": self.slope(name),
                           "at_rest": [idle.get(name) for idle in self.idle]}
                    for name, series in self.samples.of.items()}
        scheduler = programs.pop(self.world.scheduler.name)
        return {"minutes": self.options.minutes, "seed": self.options.seed, "replays": tally.replays,
                "requests": tally.requests, "verified": tally.verified, "failed": tally.failed,
                "wrong_bytes": tally.wrong_bytes, "hangs": len(tally.hangs), "leaked_pages": tally.leaked_pages,
                "faults": dict(sorted(tally.faults.items())), "replays_ended": tally.ends, "orphans": tally.orphans,
                "problems": tally.problems, "at_s": self.samples.times, "agents": programs, "scheduler": scheduler,
                "checks": [{"what": what, "good": good, "seen": seen} for what, good, seen in self.checks]}


def interrupt(number, frame):
    raise KeyboardInterrupt


def play(options, network, work):
    """The soak; None: it broke off."""
    tls = os.path.join(work, "tls")
    make_certificates(options, tls)
    world = World(options, network, tls, os.path.join(work, "soak"), CABLES, decode_agents=DECODE_AGENTS)
    world.more_options["decode"] = ["--slots", str(SLOTS)]
    try:
        world.start()
        soak = Soak(options, world)
        try:
            soak.run()
        except (RuntimeError, OSError) as failure:
            soak.check("the programs live to the end", False, failure)
        return soak
    finally:
        world.close()


def main(arguments):
    options = parse(arguments)
    try:
        network = Network()
    except OSError as reason:
        print(f"this host has no cables for faults: {reason}", file=sys.stderr)
        return SKIPPED
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    work = tempfile.mkdtemp(prefix="kvrail-soak.")
    try:
        soak = play(options, network, work)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        shutil.rmtree(work)
        return 130
    finally:
        network.close()
    figures = soak.figures()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    print(f"{figures['replays']} replays, {figures['requests']} requests, {figures['verified']} verified, "
          f"{figures['failed']} failed, {sum(figures['faults'].values())} faults")
    passed = sum(good for _, good, _ in soak.checks)
    failed = len(soak.checks) - passed
    if failed or options.keep:
        print(f"the logs: {work}")
    else:
        shutil.rmtree(work)
    print(f"soak: {passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
