"""Goal: a scheduler's commands become calls of kvrail in order, and kvrail's events results, also
with back-pressure and a lost agent."""

from __future__ import annotations

import unittest

import support
from fake_kvrail import FakeConnection
from kvrail.connector.blocks import Group
from kvrail.connector.decode import Fetch, Queue, Release
from kvrail.connector.machine import Limits
from kvrail.connector.port import SourcePort, TargetPort
from kvrail.connector.prefill import Publish, Withdraw
from kvrail.connector.rank import Rank
from kvrail.connector.target import LoadFailed, Offer

LIMITS = Limits(hold=100, lease_ms=30_000, park=5)
OFFER = Offer(3, ("p0", "p1"))
GROUPS = (Group((10, 11, 12, 13), 16), Group((0, 0, 22, 23), 16, skip=32), Group((7,), 0))
PUBLISH = Publish("p", "r", 3, 60, ((1, 2, 3, 4), (5, 6, 7, 8), (9,)))
OPENED = [("source_open", "r", 60, 3, 30_000)]
PUBLISHED = OPENED + [
    ("source_pages", 1, 0, (1, 2, 3, 4)),
    ("source_pages", 1, 1, (5, 6, 7, 8)),
    ("source_pages", 1, 2, (9,)),
    ("source_watch", 1, 0, 0, 0, 60),
    ("source_end", 1),
]
FETCHED = [
    ("target_open", "r", 60, ("p0", "p1"), 3, 16),
    ("target_skip", 1, 1, 32),
    ("target_skip", 1, 2, 0),
    ("target_pages", 1, 0, (10, 11, 12, 13)),
    ("target_pages", 1, 1, (0, 0, 22, 23)),
    ("target_pages", 1, 2, (7,)),
]


class Worker:
    """A rank with a connection for each side, as an adapter has them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tails: list[tuple[str, bytes]] = []
        self.rank = Rank(LIMITS, LIMITS, lambda key, tail: self.tails.append((key, tail)))
        self.connect()

    def connect(self) -> None:
        self.source, self.target = FakeConnection(), FakeConnection()
        self.source_port = SourcePort(
            self.source, lambda key, event: self.rank.source_event(key, event, self.now)
        )
        self.target_port = TargetPort(
            self.target, lambda key, event: self.rank.target_event(key, event, self.now)
        )
        self.rank.source_agent(True, self.now)
        self.rank.target_agent(True, self.now)
        self.carry_out()

    def carry_out(self) -> None:
        for _ in range(3):  # to carry out an action may make another
            for key, action in self.rank.source_calls():
                self.source_port.carry_out(key, action)
            for key, action in self.rank.target_calls():
                self.target_port.carry_out(key, action)

    def command(self, *commands) -> None:
        for command in commands:
            self.rank.command(command, self.now)
        self.carry_out()

    def poll(self) -> None:
        self.source_port.poll()
        self.target_port.poll()
        self.carry_out()
        self.rank.tick(self.now)
        self.carry_out()

    def lose(self) -> None:
        self.source.lost = self.target.lost = True
        self.rank.source_agent(False, self.now)
        self.rank.target_agent(False, self.now)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.worker = Worker()

    def load(self, skip: int = 16) -> None:
        self.worker.command(Queue("d", "r", OFFER), Fetch("d", "r", OFFER, 60, skip, GROUPS))

    def results(self):
        self.worker.poll()
        return self.worker.rank.take_results()


class Calls(Case):
    def test_a_publish(self) -> None:
        self.worker.command(PUBLISH)
        self.assertEqual(self.worker.source.calls, PUBLISHED)
        self.worker.source.event("SOURCE_FREE", 1)
        results = self.results()
        self.assertEqual((results.sent, results.outcomes), ({"p"}, [("p", "ok")]))
        self.assertFalse(self.worker.rank.take_results())
        self.assertEqual(self.worker.source_port.open_handles, 0)

    def test_a_fetch(self) -> None:
        self.load()
        self.assertEqual(self.worker.target.calls, FETCHED)
        self.worker.target.event("ACCEPTED", 1)
        self.worker.target.event("LAYER_IN", 1)
        self.worker.target.event("TAIL_IN", 1, payload=b"first")
        self.worker.target.event("PEER_UP", 0)
        self.worker.target.event("DONE", 1, token_end=60)
        results = self.results()
        self.assertEqual((results.received, results.failed), ({"d"}, {}))
        self.assertEqual(self.worker.tails, [("d", b"first")])

    def test_a_release(self) -> None:
        self.worker.command(Queue("d", "r", OFFER), Release("d", "r", OFFER, 60))
        self.assertEqual(self.worker.target.calls, [("target_open", "r", 60, ("p0", "p1"), 3, 60)])
        self.worker.target.event("DONE", 1)
        self.assertFalse(self.results())
        self.assertEqual(len(self.worker.rank.targets), 0)

    def test_a_lease(self) -> None:
        self.worker.command(PUBLISH)
        self.worker.source.calls.clear()
        self.worker.now = 22.5
        self.worker.source.event("LEASE_LOW", 1)
        self.worker.poll()
        self.assertEqual(self.worker.source.calls, [("renew", 1, 30_000)])
        self.worker.now = 100.0
        self.worker.poll()
        self.assertEqual(self.worker.source.calls[1:], [("cancel", 1, -21)])

    def test_withdrawn(self) -> None:
        self.worker.command(PUBLISH)
        self.load()
        self.worker.command(Withdraw("p"), Withdraw("d"))
        self.assertEqual(self.worker.source.calls[-1], ("cancel", 1, -20))
        self.assertEqual(self.worker.target.calls[-1], ("cancel", 1, -20))
        self.assertFalse(self.results(), "lent until the terminal events")
        self.worker.source.event("SOURCE_FREE", 1, "CANCELLED")
        self.worker.target.event("CANCELLED", 1, "CANCELLED")
        results = self.results()
        self.assertEqual((results.sent, results.received, results.failed), ({"p"}, {"d"}, {}))


class Failures(Case):
    def test_the_pages_are_named(self) -> None:
        self.worker.command(Queue("d", "r", OFFER), Fetch("d", "r", OFFER, 60, 16, GROUPS[:2]))
        self.worker.target.event("FAILED", 1, "PEER_LOST", token_first=40, token_end=60)
        self.assertEqual(
            self.results().failed, {"d": LoadFailed("r", 32, ((12, 13), (22, 23)), "peer_lost")}
        )

    def test_done_with_fewer_tokens(self) -> None:
        self.worker.command(Queue("d", "r", OFFER), Fetch("d", "r", OFFER, 60, 16, GROUPS[:1]))
        self.worker.target.event("DONE", 1, token_end=48)
        self.assertEqual(self.results().failed, {"d": LoadFailed("r", 48, ((13,),), "short")})

    def test_an_open_that_is_refused_ends_the_request(self) -> None:
        self.worker.source.fail = self.worker.target.fail = {0: "INVALID"}
        self.worker.command(PUBLISH)
        self.load()
        results = self.results()
        self.assertEqual(results.outcomes, [("p", "invalid")])
        self.assertEqual(results.failed["d"].status, "invalid")

    def test_pages_that_are_refused_end_the_request(self) -> None:
        self.worker.target.fail = {3: "INVALID"}
        self.load()
        self.assertIn(("cancel", 1, -20), self.worker.target.calls)
        self.worker.target.event("CANCELLED", 1, "CANCELLED")
        self.assertIn("d", self.results().failed)

    def test_an_id_in_use_waits_for_nothing(self) -> None:
        self.worker.command(PUBLISH, PUBLISH)
        self.assertEqual(self.results().outcomes, [("p", "exists")])
        self.load()
        self.load()
        self.assertEqual(self.results().failed["d"].status, "not_found")


class BackPressure(Case):
    def test_each_call_may_be_put_off_and_the_order_stays(self) -> None:
        for number in range(len(PUBLISHED)):
            with self.subTest(number):
                worker = Worker()
                worker.source.fail = {later: "AGAIN" for later in range(number, number + 4)}
                worker.command(PUBLISH)
                self.assertEqual(worker.source.calls, PUBLISHED[:number])
                for _ in range(4):
                    worker.poll()
                self.assertEqual(worker.source.calls, PUBLISHED)

    def test_the_agent_dies_before_the_call(self) -> None:
        self.worker.source.fail = self.worker.target.fail = {0: "AGAIN", 1: "AGAIN"}
        self.worker.command(PUBLISH)
        self.load()
        self.worker.lose()
        self.assertEqual(set(self.results().failed), {"d"})
        self.worker.connect()
        self.assertEqual(self.worker.source.calls, PUBLISHED, "published at the next agent")


class LostAgent(Case):
    def test_terminal_events_come_first(self) -> None:
        self.worker.command(PUBLISH)
        self.load()
        self.worker.lose()
        self.assertFalse(self.worker.rank.take_results())
        self.worker.source.event("SOURCE_FREE", 1, "AGENT_LOST")
        self.worker.target.event("FAILED", 1, "AGENT_LOST", token_first=16)
        results = self.results()
        self.assertEqual((results.sent, set(results.failed)), (set(), {"d"}))
        self.assertTrue(self.worker.source_port.dead and self.worker.target_port.dead)
        self.worker.connect()
        self.assertEqual(self.worker.source.calls, PUBLISHED)
        self.assertEqual(
            self.worker.target.calls, [("target_open", "r", 60, ("p0", "p1"), 3, 60)], "a release"
        )

    def test_a_connection_that_ends_without_them(self) -> None:
        self.worker.command(PUBLISH)
        self.load()
        self.worker.lose()
        self.assertEqual(set(self.results().failed), {"d"})

    def test_requests_that_come_meanwhile_wait(self) -> None:
        self.worker.lose()
        self.worker.poll()
        self.worker.command(PUBLISH)
        self.load()
        self.assertFalse(self.results())
        self.worker.now = 5.0
        results = self.results()
        self.assertEqual(
            (results.outcomes, results.failed["d"].status), ([("p", "expired")], "agent_lost")
        )


if __name__ == "__main__":
    support.main(__file__)
