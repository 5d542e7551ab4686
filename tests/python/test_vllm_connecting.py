"""Goal: a worker's steps go on while a connection to an agent is opened. Method: a `connect` that
waits for this test."""

from __future__ import annotations

import threading
import time
import unittest

import support
from fake_kvrail import FakeConnection, KvrailError
from kvrail.connector.machine import Limits
from kvrail.connector.prefill import Publish
from kvrail.vllm.connecting import Connecting
from kvrail.vllm.groups import groups_of
from kvrail.vllm.worker import Worker
from stand_in_vllm import FullAttentionSpec, cache_config

SECONDS = 30
PUBLISH = Publish("p", "r", 1, 40, ((1, 2, 3),))


class Agent:
    """`gate` lets a try go on; with `away` it fails."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.away = False
        self.tries = 0
        self.connection = FakeConnection()

    def connect(self) -> FakeConnection:
        self.tries += 1
        assert self.gate.acquire(timeout=SECONDS)
        if self.away:
            raise KvrailError("INVALID")
        return self.connection


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.agent = Agent()
        self.connecting = Connecting(self.agent.connect)
        self.addCleanup(self.agent.gate.release)  # a thread that waits ends

    def until(self, condition) -> None:
        end = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)


class Calls(Case):
    def outcome(self):
        got = []
        self.until(lambda: got.append(self.connecting()) or got[-1] is not None)
        return got[-1]

    def test_none_and_then_the_connection(self) -> None:
        for _ in range(100):
            self.assertIsNone(self.connecting())
        self.agent.gate.release()
        self.assertIs(self.outcome(), self.agent.connection)
        self.assertEqual(self.agent.tries, 1)

    def test_a_failure_and_then_another_try(self) -> None:
        self.agent.away = True
        self.assertIsNone(self.connecting())
        self.agent.gate.release()
        with self.assertRaises(KvrailError):
            self.outcome()
        self.agent.away = False
        self.assertIsNone(self.connecting())
        self.agent.gate.release()
        self.assertIs(self.outcome(), self.agent.connection)
        self.assertEqual(self.agent.tries, 2)

    def test_closed_before_a_try(self) -> None:
        self.assertTrue(self.connecting.close())

    def test_closed_while_a_try_is_under_way(self) -> None:
        self.connecting()
        self.until(lambda: self.agent.tries == 1)
        self.assertFalse(self.connecting.close())
        self.assertFalse(self.agent.connection.closed)
        self.agent.gate.release()
        self.until(lambda: self.agent.connection.closed)

    def test_closed_before_the_connection_is_taken(self) -> None:
        self.connecting()
        self.agent.gate.release()
        self.until(lambda: self.connecting._outcome is not None)
        self.assertTrue(self.connecting.close())
        self.assertTrue(self.agent.connection.closed)


class Steps(Case):
    def test_a_lost_agent_does_not_stop_the_steps(self) -> None:
        lost, after = FakeConnection(), FakeConnection()
        groups = groups_of(cache_config(FullAttentionSpec(16)))
        worker = Worker(groups, Limits(hold=100, park=50), connect_source=self.connecting)
        self.agent.connection = lost
        self.agent.gate.release()
        now = 0.0

        def step() -> None:
            nonlocal now
            now += 0.001
            worker.step(now)

        def up() -> bool:
            step()
            return worker.source.up

        self.until(up)
        self.agent.connection = after
        lost.lost = True
        step()
        self.assertEqual(worker.agents(), (False, True))
        now += 1
        worker.commands([PUBLISH], now)
        for _ in range(100):  # none of them waits for the gate
            step()
        self.assertEqual((self.agent.tries, after.calls), (2, []))
        self.agent.gate.release()
        self.until(up)
        step()
        self.assertEqual(after.calls[0][0], "source_open")
        self.assertEqual(worker.agents(), (True, True))


if __name__ == "__main__":
    support.main(__file__)
