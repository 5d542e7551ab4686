"""Goal: one publish, step by step: late and in chunks, leases, preemption, a lost agent."""

from __future__ import annotations

import unittest

import support
from kvrail.connector.machine import NEVER, Limits
from kvrail.connector.source import (
    Cancel,
    Chunk,
    EndSource,
    Event,
    Freed,
    GivePages,
    On,
    OpenSource,
    Renew,
    Returned,
    Source,
    State,
    source,
    step,
)

LIMITS = Limits(hold=100, lease_ms=30_000, park=5)
CHUNKS = (Chunk(((1, 2), (9,)), 32), Chunk(((3,), ()), 40))


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.record: Source = source("r", 7, 64, 1, LIMITS)
        self.now = 0.0

    def feed(self, on: On, **fields) -> list:
        """Feeds one event, with the ticket of the present opening if the test names no other."""
        fields.setdefault("ticket", self.record.ticket)
        self.record, actions = step(self.record, Event(on, **fields), self.now)
        return actions

    def offer(self) -> tuple[int, int]:
        self.feed(On.AGENT_UP)
        for chunk in CHUNKS:
            self.feed(On.CHUNK, chunk=chunk)
        self.feed(On.SEAL, tail=b"first")
        return self.record.ticket


class Late(Case):
    def test_calls_in_order(self) -> None:
        self.assertEqual(self.feed(On.AGENT_UP), [OpenSource((1, 1), "r", 7, 64, 30_000)])
        self.assertEqual(self.feed(On.CHUNK, chunk=CHUNKS[0]), [GivePages((1, 1), CHUNKS[0], 0)])
        self.assertEqual(self.feed(On.CHUNK, chunk=CHUNKS[1]), [GivePages((1, 1), CHUNKS[1], 32)])
        self.assertEqual(self.feed(On.SEAL, tail=b"first"), [EndSource((1, 1), b"first")])
        self.assertEqual(self.feed(On.ACCEPTED), [])
        self.assertEqual(self.feed(On.ENDED), [Freed("r", "ok", 7)])
        self.assertTrue(self.record.over)

    def test_pages_stay_lent_after_an_abort(self) -> None:
        self.offer()
        self.assertEqual(self.feed(On.ABORT), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.ABORT), [])
        self.assertEqual(self.feed(On.ENDED, status="cancelled"), [Freed("r", "cancelled", 7)])

    def test_a_target_that_fails_frees_the_source(self) -> None:
        self.offer()
        self.feed(On.ACCEPTED)
        self.assertEqual(self.feed(On.ENDED, status="peer_lost"), [Freed("r", "peer_lost", 7)])

    def test_a_chunk_must_follow(self) -> None:
        self.feed(On.AGENT_UP)
        for chunk in (None, Chunk(((1,),), 0), Chunk(((1,),), 65)):
            with self.assertRaises(ValueError):
                self.feed(On.CHUNK, chunk=chunk)
        self.offer_from_here()
        for on, fields in ((On.CHUNK, {"chunk": Chunk(((5,),), 64)}), (On.SEAL, {})):
            with self.assertRaises(ValueError):
                self.feed(on, **fields)

    def offer_from_here(self) -> None:
        self.feed(On.CHUNK, chunk=CHUNKS[0])
        self.feed(On.SEAL)


class Leases(Case):
    def test_renewed_up_to_the_limit(self) -> None:
        self.now = 10.0
        self.offer()
        self.assertEqual(self.record.timer, 110.0)
        self.now = 32.5
        self.assertEqual(self.feed(On.LEASE_LOW), [Renew((1, 1), 30_000)])
        self.now = 95.0
        self.assertEqual(self.feed(On.LEASE_LOW), [Renew((1, 1), 15_000)], "not beyond the limit")
        self.now = 103.0
        self.assertEqual(self.feed(On.LEASE_LOW), [], "the lease ends about when the limit does")
        self.assertEqual(self.feed(On.LEASE_END), [])
        self.assertEqual(self.feed(On.ENDED, status="expired"), [Freed("r", "expired", 7)])

    def test_a_silent_agent_does_not_stretch_the_limit(self) -> None:
        self.offer()
        self.now = 100.0
        self.assertEqual(self.feed(On.TIMER), [Cancel((1, 1), "expired")])
        self.assertIs(self.record.state, State.STOPPING)

    def test_no_limit_while_the_prefill_runs(self) -> None:
        self.feed(On.AGENT_UP)
        self.now = 5000.0
        self.assertEqual(self.feed(On.LEASE_LOW), [Renew((1, 1), 30_000)])
        self.assertEqual(self.record.timer, NEVER)

    def test_a_target_that_has_come_needs_no_timer(self) -> None:
        self.offer()
        self.feed(On.ACCEPTED)
        self.assertEqual(self.record.timer, NEVER)


class LostAgent(Case):
    def test_published_again_if_no_target_had_come(self) -> None:
        self.offer()
        self.now = 20.0
        self.assertEqual(self.feed(On.LOST), [])
        self.assertIs(self.record.state, State.PARKED)
        self.assertEqual(self.record.timer, 25.0)
        self.now = 22.0
        self.assertEqual(
            self.feed(On.AGENT_UP),
            [
                OpenSource((1, 2), "r", 7, 64, 30_000),
                GivePages((1, 2), CHUNKS[0], 0),
                GivePages((1, 2), CHUNKS[1], 32),
                EndSource((1, 2), b"first"),
            ],
        )
        self.assertEqual(self.record.timer, 100.0, "the limit counts from the seal")

    def test_freed_if_the_agent_stays_away(self) -> None:
        self.offer()
        self.feed(On.LOST)
        self.now = 5.0
        self.assertEqual(self.feed(On.TIMER), [Freed("r", "expired", 7)])

    def test_freed_if_a_target_had_come(self) -> None:
        self.offer()
        self.feed(On.ACCEPTED)
        self.assertEqual(self.feed(On.LOST, status="agent_lost"), [Freed("r", "agent_lost", 7)])

    def test_chunks_wait_for_the_agent(self) -> None:
        self.assertEqual(self.feed(On.CHUNK, chunk=CHUNKS[0]), [])
        self.assertEqual(self.record.timer, NEVER)
        self.assertEqual(self.feed(On.SEAL), [])
        self.assertEqual(self.record.timer, 5.0)
        self.assertEqual(len(self.feed(On.AGENT_UP)), 3)
        self.assertIs(self.record.state, State.OFFERED)

    def test_an_abort_without_an_agent_needs_no_event(self) -> None:
        self.feed(On.CHUNK, chunk=CHUNKS[0])
        self.assertEqual(self.feed(On.ABORT), [Freed("r", "cancelled", 7)])


class Preemption(Case):
    def test_next_attempt_after_the_terminal_event(self) -> None:
        self.feed(On.AGENT_UP)
        self.feed(On.CHUNK, chunk=CHUNKS[0])
        self.feed(On.ACCEPTED)
        self.assertEqual(self.feed(On.PREEMPT), [Cancel((1, 1))])
        self.assertEqual(
            self.feed(On.CHUNK, chunk=Chunk(((20, 21), (5,)), 32)), [], "for the next attempt"
        )
        self.assertEqual(
            self.feed(On.ENDED, status="cancelled"),
            [
                Returned("r", 7),
                OpenSource((1, 2), "r", 8, 64, 30_000),
                GivePages((1, 2), Chunk(((20, 21), (5,)), 32), 0),
            ],
        )
        self.assertIs(self.record.state, State.OFFERED)

    def test_preempted_twice_before_the_terminal_event(self) -> None:
        self.offer()
        self.feed(On.PREEMPT)
        self.feed(On.CHUNK, chunk=CHUNKS[0])
        self.assertEqual(self.feed(On.PREEMPT), [])
        self.assertEqual(
            self.feed(On.ENDED, status="cancelled"),
            [Returned("r", 7), OpenSource((1, 2), "r", 8, 64, 30_000)],
        )

    def test_aborted_before_the_terminal_event(self) -> None:
        self.offer()
        self.feed(On.PREEMPT)
        self.assertEqual(self.feed(On.ABORT), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.ENDED, status="cancelled"), [Freed("r", "cancelled", 7)])

    def test_without_an_agent_nothing_is_lent(self) -> None:
        self.feed(On.CHUNK, chunk=CHUNKS[0])
        self.assertEqual(self.feed(On.PREEMPT), [Returned("r", 7)])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenSource((1, 1), "r", 7, 64, 30_000)])

    def test_the_agent_dies_meanwhile(self) -> None:
        self.offer()
        self.feed(On.PREEMPT)
        self.assertEqual(self.feed(On.LOST), [Returned("r", 7)])
        self.assertEqual((self.record.state, self.record.attempt), (State.PARKED, 8))


if __name__ == "__main__":
    support.main(__file__)
