"""Goal: the worker's half of vLLM's connector: commands to calls, events to results, agents that
come and go."""

from __future__ import annotations

import time
import timeit
import unittest

import support
from fake_kvrail import FakeConnection, KvrailError
from kvrail.connector.blocks import Group
from kvrail.connector.decode import Fetch, Queue, Release
from kvrail.connector.machine import Limits
from kvrail.connector.prefill import Publish, Settle, Withdraw
from kvrail.connector.target import Offer
from kvrail.vllm.groups import groups_of
from kvrail.vllm.worker import Worker
from stand_in_vllm import FullAttentionSpec, SlidingWindowSpec, cache_config

LIMITS = Limits(hold=100, park=5)
OFFER = Offer(1, ("p0",))
PUBLISH = Publish("p", "r", 1, 40, ((1, 2, 3),))
WITH_STEP = Publish("p", "r", 1, 40, ((1, 2, 3),), after_step=True)
ONE, TWO = (FullAttentionSpec(16),), (FullAttentionSpec(16), SlidingWindowSpec(16, 32))
IN_FLIGHT = 1000


class Agent:
    """Where a worker connects: each connection is a new one, and `away` refuses them."""

    def __init__(self) -> None:
        self.connections: list[FakeConnection] = []
        self.away = False
        self.tries = 0

    def connect(self) -> FakeConnection:
        self.tries += 1
        if self.away:
            raise KvrailError("INVALID")
        self.connections.append(FakeConnection())
        return self.connections[-1]

    @property
    def now(self) -> FakeConnection:
        return self.connections[-1]


class Case(unittest.TestCase):
    specs = ONE
    ratio = 1

    def setUp(self) -> None:
        self.p, self.d = Agent(), Agent()
        self.warnings: list[str] = []
        groups = groups_of(cache_config(*self.specs))
        self.worker = Worker(
            groups,
            LIMITS,
            connect_source=self.p.connect,
            connect_target=self.d.connect,
            pages_of_a_block=(self.ratio,) * len(groups.specs),
            warn=self.warnings.append,
        )
        self.worker.step(0.0)

    def run_commands(self, *commands, now: float = 0.0):
        self.worker.commands(commands, now)
        self.worker.step(now)
        return self.worker.results()

    def load(self) -> None:
        groups = tuple(Group((11, 12, 13), spec.block_size) for spec in self.specs)
        self.run_commands(Queue("d", "r", OFFER), Fetch("d", "r", OFFER, 40, 0, groups))


class OneGroup(Case):
    def test_both_roles_have_their_own_agent(self) -> None:
        self.run_commands(PUBLISH)
        self.load()
        self.assertEqual(
            [call[0] for call in self.p.now.calls],
            ["source_open", "source_pages", "source_watch", "source_end"],
        )
        self.assertEqual([call[0] for call in self.d.now.calls], ["target_open", "target_pages"])
        self.p.now.event("SOURCE_FREE", 1)
        self.d.now.event("DONE", 1, token_end=40)
        results = self.run_commands()
        self.assertEqual(
            (results.sent, results.received, results.bad_blocks, len(self.worker)),
            ({"p"}, {"d"}, set(), 0),
        )
        self.assertEqual(self.warnings, [])

    def test_published_after_the_step_that_computes_it(self) -> None:
        self.worker.commands([WITH_STEP], 0.0)
        self.assertEqual(self.p.now.calls, [], "the bytes are not final")
        self.worker.step(0.0)
        self.assertEqual(
            [call[0] for call in self.p.now.calls],
            ["source_open", "source_pages", "source_watch", "source_end"],
        )
        self.run_commands(Settle("p"))
        self.p.now.event("SOURCE_FREE", 1)
        self.assertEqual(self.run_commands().sent, {"p"})

    def test_an_end_is_not_told_before_the_engine_has_seen_its_own(self) -> None:
        """vLLM would free the blocks of a request that runs."""
        for last in (Settle("p"), Withdraw("p")):
            self.run_commands(WITH_STEP)
            self.p.now.event("FAILED", self.p.now.handles, "INVALID")
            self.assertEqual(self.run_commands().sent, set())
            self.assertEqual(self.run_commands(last).sent, {"p"})
            self.assertEqual(len(self.worker), 0)

    def test_a_publish_is_withdrawn_when_the_engine_drops_the_request(self) -> None:
        self.run_commands(WITH_STEP)
        self.assertEqual(self.run_commands(Withdraw("p")).sent, set())
        self.assertEqual(self.p.now.calls[-1][0], "cancel")
        self.p.now.event("FAILED", 1, "CANCELLED")
        self.assertEqual(self.run_commands().sent, {"p"})

    def test_warnings_say_what_the_agent_said(self) -> None:
        self.run_commands(WITH_STEP)
        self.load()
        self.p.now.event("FAILED", 1, "INVALID", detail="the lease was too long")
        self.d.now.event("FAILED", 1, "PEER_LOST", detail="the peer hung up")
        self.run_commands()
        self.run_commands(Settle("p"))
        self.load()
        self.d.now.event("DONE", 2, token_end=40)
        self.run_commands(PUBLISH)
        self.p.now.event("FAILED", 2, "INVALID")
        self.run_commands()
        self.assertEqual(
            self.warnings,
            [
                "the KV of request d did not come (peer_lost): tokens from 0 on must be computed "
                "again; the peer hung up",
                "the publish of request p ended as invalid: the lease was too long",
                "the publish of request p ended as invalid",
            ],
        )

    def test_the_results_of_a_step_stay_as_they_were(self) -> None:
        """With async scheduling vLLM looks at them after the next step."""
        self.load()
        before = self.run_commands()
        self.d.now.event("DONE", 1, token_end=40)
        self.assertEqual(self.run_commands().received, {"d"})
        self.assertEqual(before.received, set())

    def test_failed_blocks_are_named_in_the_same_step(self) -> None:
        self.load()
        self.d.now.event("FAILING", 1, "PEER_LOST")
        self.assertFalse(self.run_commands().received)
        self.d.now.event("FAILED", 1, "PEER_LOST", token_first=20)
        results = self.run_commands()
        self.assertEqual(
            (results.received, results.bad_blocks, results.failed), ({"d"}, {12, 13}, set())
        )
        self.assertIn("tokens from 16 on", self.warnings[0])

    def test_a_lost_agent(self) -> None:
        self.assertEqual(self.worker.agents(), (True, True))
        self.assertIsNone(self.worker.agents())
        self.run_commands(PUBLISH)
        self.load()
        self.p.away = self.d.away = True
        for agent in (self.p, self.d):
            agent.now.lost = True
            agent.now.event("AGENT_LOST", 0, "AGENT_LOST")
        self.p.now.event("SOURCE_FREE", 1, "AGENT_LOST")
        self.d.now.event("FAILED", 1, "AGENT_LOST", token_first=16)
        results = self.run_commands(now=1.0)
        self.assertEqual((results.sent, results.bad_blocks), (set(), {12, 13}))
        self.assertEqual(self.worker.agents(), (False, False))
        self.assertTrue(self.p.now.closed and self.d.now.closed)
        for now in (1.05, 1.1, 1.2, 1.3, 1.5, 2.0):
            self.run_commands(now=now)
        self.assertLess(self.p.tries, 6, "with back-off")
        self.p.away = self.d.away = False
        self.run_commands(now=4.0)
        self.assertEqual(self.worker.agents(), (True, True))
        self.assertEqual(self.p.now.calls[0][:2], ("source_open", "r"), "published again")
        self.assertEqual(self.d.now.calls, [("target_open", "r", 40, ("p0",), 1, 40)])

    def test_a_silent_agent_keeps_the_blocks(self) -> None:
        """FAILING hands nothing back, whoever made it; new blocks are not lent to such an agent."""
        self.worker.agents()
        self.run_commands(PUBLISH)
        self.load()
        for agent in (self.p, self.d):
            agent.now.event("AGENT_SILENT", 0, "TIMED_OUT", detail="agent a0 gives no sign")
        self.d.now.event("FAILING", 1, "EXPIRED")
        results = self.run_commands(now=1.0)
        self.assertEqual((results.sent, results.received, results.bad_blocks), (set(), set(), set()))
        self.assertEqual(self.worker.agents(), (False, False))
        self.assertEqual([w.split("; ")[0] for w in self.warnings], 2 * ["agent a0 gives no sign"])
        self.assertIn("restart it", self.warnings[0])
        asked = len(self.d.now.calls)
        self.run_commands(
            Queue("e", "s", OFFER), Fetch("e", "s", OFFER, 16, 0, (Group((14,), 16),)), now=2.0
        )
        results = self.run_commands(now=LIMITS.load + 500.0)  # whatever the limits
        self.assertEqual(results.received, {"e"}, "computed here: it was never lent")
        self.assertEqual((self.p.tries, self.d.tries), (1, 1), "the connection lives")
        self.assertEqual(len(self.d.now.calls), asked)

        self.d.now.event("AGENT_BACK", 0)
        self.d.now.event("EXPIRED", 1, "EXPIRED", token_first=16)
        results = self.run_commands(now=LIMITS.load + 501.0)
        self.assertEqual((results.received, results.bad_blocks), ({"d"}, {12, 13}))
        self.assertEqual(self.worker.agents(), (False, True))
        self.assertIn("runs again", self.warnings[-2])
        self.load()
        self.assertGreater(len(self.d.now.calls), asked, "and is asked again")

    def test_a_silent_agent_that_is_restarted(self) -> None:
        """The end of its process hands the blocks back."""
        self.load()
        self.d.now.event("AGENT_SILENT", 0, "TIMED_OUT", detail="agent d0 gives no sign")
        self.d.now.event("FAILING", 1, "EXPIRED")
        self.assertFalse(self.run_commands().received)
        self.d.now.event("AGENT_LOST", 0, "AGENT_LOST")
        self.assertFalse(self.run_commands().received)
        self.d.now.lost = True
        self.d.now.event("FAILED", 1, "AGENT_LOST", token_first=0)
        results = self.run_commands(now=1.0)
        self.assertEqual((results.received, results.bad_blocks), ({"d"}, {11, 12, 13}))
        self.run_commands(now=2.0)
        self.assertEqual((len(self.d.connections), self.worker.agents()), (2, (True, True)))

    def test_an_agent_that_is_lost_unheard(self) -> None:
        """The calls of a step find that out, before any event."""
        self.p.now.lost = self.d.now.lost = True
        self.run_commands(PUBLISH)
        self.load()
        results = self.run_commands(now=2.0)
        self.assertEqual((results.sent, results.received), (set(), set()))
        self.assertEqual(self.p.now.calls[0][:2], ("source_open", "r"), "published at the next")
        self.assertEqual(self.d.now.calls[0][:2], ("target_open", "r"))

    def test_the_agent_stays_away(self) -> None:
        self.p.now.lost = self.d.now.lost = self.p.away = self.d.away = True
        self.run_commands(now=1.0)
        self.run_commands(PUBLISH, now=1.0)
        self.load()
        results = self.run_commands(now=6.0)
        self.assertEqual((results.sent, results.received), ({"p"}, {"d"}))

    def test_shutdown_waits_for_the_terminal_events(self) -> None:
        self.run_commands(PUBLISH)
        self.load()
        self.run_commands(Queue("e", "s", OFFER), Release("e", "s", OFFER, 16))
        clock = [0.0]

        def wait(seconds: float) -> None:
            clock[0] += seconds
            if self.p.now.calls[-1][0] == "cancel":
                self.p.now.event("SOURCE_FREE", 1, "CANCELLED")
                self.d.now.event("CANCELLED", 1, "CANCELLED")
                self.d.now.event("DONE", 2)

        self.assertEqual(self.worker.shutdown(lambda: clock[0], wait, 1.0), 0)
        self.assertTrue(self.p.now.closed and self.d.now.closed)
        self.assertLess(clock[0], 1.0)

    def test_shutdown_does_not_wait_for_ever(self) -> None:
        self.run_commands(PUBLISH)
        clock = [0.0]

        def wait(seconds: float) -> None:
            clock[0] += seconds

        self.assertEqual(self.worker.shutdown(lambda: clock[0], wait, 0.5), 1)

    def test_withdrawn_in_the_step_in_which_it_came(self) -> None:
        self.run_commands(PUBLISH, Withdraw("p"))
        self.assertEqual(self.p.now.calls[-1], ("cancel", 1, -20))

    def test_an_ordinary_mistake_is_not_hidden(self) -> None:
        def broken() -> None:
            raise ZeroDivisionError

        worker = Worker(groups_of(cache_config(*ONE)), LIMITS, connect_source=broken)
        with self.assertRaises(ZeroDivisionError):
            worker.step(0.0)


class SmallerKernelBlocks(Case):
    ratio = 2

    def test_block_ids_are_multiplied_out(self) -> None:
        self.run_commands(PUBLISH)
        self.load()
        self.assertEqual(self.p.now.calls[1], ("source_pages", 1, 0, (2, 3, 4, 5, 6, 7)))
        self.assertEqual(self.d.now.calls[1], ("target_pages", 1, 0, (22, 23, 24, 25, 26, 27)))
        self.d.now.event("FAILED", 1, "PEER_LOST", token_first=20)
        self.assertEqual(self.run_commands().bad_blocks, {12, 13}, "the scheduler's own ids")


class TwoGroups(Case):
    specs = TWO

    def test_a_failed_load_names_its_request(self) -> None:
        self.load()
        self.d.now.event("FAILED", 1, "PEER_LOST", token_first=20)
        results = self.run_commands()
        self.assertEqual(
            (results.received, results.failed, results.bad_blocks), ({"d"}, {"d"}, set())
        )


class Costs(Case):
    def test_a_step_without_transfers(self) -> None:
        for number in range(IN_FLIGHT):
            self.worker.commands([Publish(f"p{number}", f"p{number}", 1, 16, ((1,),))], 0.0)
        self.worker.step(0.0)

        def turn() -> None:
            self.worker.step(1.0)
            self.worker.results()
            self.worker.agents()

        best = min(timeit.repeat(turn, number=500, repeat=7, timer=time.process_time)) / 500 * 1e6
        print(f"a worker's step without transfers, {IN_FLIGHT} requests in flight: {best:.1f} us")
        self.assertLess(best, 20)


if __name__ == "__main__":
    support.main(__file__)
