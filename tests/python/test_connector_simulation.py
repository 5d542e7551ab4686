"""Goal: no order of events frees a block under a transfer, hands the model a wrong one, or leaks
one.

Method: connector_world.py runs two engines through the machines, with delays, failures, lost
agents, aborts and preemptions from a seed. Each mutant is a deliberate defect of one rule: the
simulation must find it. A failure
prints its seed:  python3 tests/python/test_connector_simulation.py SEED
"""

from __future__ import annotations

import contextlib
import os
import sys
import unittest
from dataclasses import replace
from unittest import mock

import support
from connector_users import make_user
from connector_world import Violation, World
from kvrail.connector import book, decode, source, target

SEEDS = int(os.environ.get("KVRAIL_CONNECTOR_SEEDS", "200"))
SEEDS_OF_A_MUTANT = 200  # within these it must be found


def run(seed: int) -> dict[str, int]:
    try:
        return World(seed, make_user).run()
    except Violation:
        raise
    except Exception as error:  # a rule that breaks on an event is a finding too
        raise Violation(f"{type(error).__name__}: {error}") from error


class Simulation(unittest.TestCase):
    def test_seeds(self) -> None:
        sums: dict[str, int] = {}
        for seed in range(SEEDS):
            try:
                counts = run(seed)
            except Violation as violation:
                self.fail(f"seed {seed}: {violation}")
            for name, count in counts.items():
                sums[name] = sums.get(name, 0) + count
        print(
            f"{SEEDS} seeds:", ", ".join(f"{count} {name}" for name, count in sorted(sums.items()))
        )
        for name, count in sums.items():
            self.assertGreater(count, SEEDS // 30, f"{name} comes too rarely to prove anything")


@contextlib.contextmanager
def rule(machine, state: str, on: str, following: str, act):
    """The machine with one rule replaced."""
    rules = machine.RULES[machine.State[state]]
    with mock.patch.dict(rules, {machine.On[on]: (machine.State[following], act)}):
        yield


def both(*patches):
    stack = contextlib.ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def never_renew_ends(s, event, now):
    return s, [source.Renew(s.ticket, s.limits.lease_ms)]


def no_limit(s, event, now):
    return replace(s, sealed=True), [source.EndSource(s.ticket, b"")]


def whole_load(t, event, now):
    return t, [target.Loaded(t.request, t.tokens)]


def one_page_more(t, event, now):
    t, actions = target._failed(t, event, now)
    first = min(t.tokens - 4, actions[0].token_first + 4)
    return t, [replace(actions[0], token_first=first, pages=(actions[0].pages[0][1:],))]


def open_from_zero(t, event, now):
    t, actions = target._open(t, event, now)
    return t, [replace(actions[0], skip=0)]


def open_next_at_once(t, event, now):
    return target._open(replace(t, offer=event.offer), event, now)


def hold_without_end(t, event, now):
    return t, []


def give_from_zero(t, event, now):
    t, actions = target._give(t, event, now)
    return t, [replace(actions[0], skip=0)]


MUTANTS = {
    "a queued target does not hold its source": lambda: rule(
        target, "QUEUED", "AGENT_UP", "QUEUED", None
    ),
    "a held fetch forgets the local prefix": lambda: rule(
        target, "HOLDING", "BLOCKS", "LOADING", give_from_zero
    ),
    "a full hit leaves its fetch held": lambda: rule(
        target, "HOLDING", "COVERED", "RELEASING", hold_without_end
    ),
    "an abort leaves its fetch held": lambda: rule(target, "HOLDING", "ABORT", "ENDED", None),
    "a newer attempt leaves the older one held": lambda: rule(
        target, "HOLDING", "OFFER", "HOLDING", target._release_offer
    ),
    "a fetch that failed in the queue is waited for": lambda: rule(
        target, "HOLDING", "FAILED", "HOLDING", None
    ),
    "a cancelled source is freed before SOURCE_FREE": lambda: rule(
        source, "OFFERED", "ABORT", "FREE", source._free_aborted
    ),
    "a cancelled source that is read is freed before SOURCE_FREE": lambda: rule(
        source, "TAKEN", "ABORT", "FREE", source._free_aborted
    ),
    "a preempted source's blocks return before SOURCE_FREE": lambda: rule(
        source, "TAKEN", "PREEMPT", "PARKED", source._preempt_parked
    ),
    "the source's limit does not end its renewals": lambda: both(
        rule(source, "OFFERED", "LEASE_LOW", "OFFERED", never_renew_ends),
        rule(source, "OFFERED", "SEAL", "OFFERED", no_limit),
    ),
    "a source of a lost agent is forgotten": lambda: rule(source, "OFFERED", "LOST", "FREE", None),
    "a preempted source keeps its blocks": lambda: rule(
        source, "RESTARTING", "ENDED", "OFFERED", source._publish
    ),
    "FAILING hands the target's blocks back": lambda: rule(
        target, "LOADING", "FAILING", "ENDED", target._failed
    ),
    "an abort hands the target's blocks back": lambda: rule(
        target, "LOADING", "ABORT", "ENDED", target._stopped
    ),
    "a failed load counts as loaded": lambda: rule(
        target, "FAILING", "FAILED", "ENDED", whole_load
    ),
    "a failed load names one block too few": lambda: rule(
        target, "FAILING", "FAILED", "ENDED", one_page_more
    ),
    "a fetch forgets the local prefix": lambda: rule(
        target, "PARKED", "AGENT_UP", "LOADING", open_from_zero
    ),
    "a newer attempt opens before the older one's end": lambda: rule(
        target, "LOADING", "OFFER", "LOADING", open_next_at_once
    ),
    "a full hit releases no source": lambda: rule(decode, "WAITING", "COVERED", "LOCAL", None),
    "an abort in the queue releases no source": lambda: rule(
        decode, "WAITING", "FINISHED", "GONE", None
    ),
    "a fetch waits for a lost agent without end": lambda: rule(
        target, "PARKED", "TIMER", "PARKED", None
    ),
    "an event of an older attempt counts at the source": lambda: mock.patch.object(
        source, "OF_AGENT", frozenset()
    ),
    "an event of an older attempt counts at the target": lambda: mock.patch.object(
        target, "OF_AGENT", frozenset()
    ),
    "timers are not looked at": lambda: mock.patch.object(
        book.Book, "tick", lambda self, now: None
    ),
    "a request that waited for the agent goes on waiting": lambda: mock.patch.object(
        book.Book, "agent", lambda self, is_up, now: setattr(self, "agent_is_up", is_up)
    ),
}


class Mutants(unittest.TestCase):
    def test_each_is_found(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name):
                found = None
                with mutant():
                    for seed in range(SEEDS_OF_A_MUTANT):
                        try:
                            run(seed)
                        except Violation as violation:
                            found = seed, violation
                            break
                self.assertIsNotNone(found, f"{SEEDS_OF_A_MUTANT} seeds did not find it")
                if os.environ.get("KVRAIL_VERBOSE"):
                    print(f"{name}: seed {found[0]}: {found[1]}")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(World(int(sys.argv[1]), make_user).run())
    else:
        support.main(__file__)
