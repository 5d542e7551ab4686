"""Goal: real processes that stand still for longer than deadlines. Engines hear of it in time, no page
comes back before the agent runs again or has ended, and who did not run blames nobody. Method: SIGSTOP
and SIGCONT for the agents that run.sh has started (SOURCE_PID and TARGET_PID), and for this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import unittest
from collections.abc import Iterator

import harness
import kvrail
from engines import PATIENCE, Engine, EventKind, Status

BOUND = 3.0  # without a sign of life an agent is silent
LATE = 2.0 * PATIENCE / 30  # a busy machine
STOPPED_MORE = 1.5


def pid_of(role: str) -> int:
    return int(os.environ[f"{role.upper()}_PID"])


@contextlib.contextmanager
def stopped(role: str) -> Iterator[None]:
    os.kill(pid_of(role), signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid_of(role), signal.SIGCONT)


def stand_still(seconds: float, *, resume: str = "") -> None:
    """This process, by a helper that lets it go on, and then an agent that is stopped."""
    script = f"sleep {seconds}; kill -CONT $1"
    if resume:
        script += f"; sleep 0.3; kill -CONT {pid_of(resume)}"
    subprocess.Popen(["sh", "-c", script, "helper", str(os.getpid())])
    os.kill(os.getpid(), signal.SIGSTOP)


class Silent(unittest.TestCase):
    def setUp(self) -> None:
        self.ahead: list[tuple[kvrail.Event, float]] = []  # events that came together with others
        self.nothing = Engine("source")  # it publishes nothing
        self.sources = [self.nothing.address()]
        self.addCleanup(self.nothing.close)

    def events_for(self, engine: Engine, seconds: float) -> list[kvrail.Event]:
        end, events = time.monotonic() + seconds, list[kvrail.Event]()
        while (left := end - time.monotonic()) > 0:
            events += self.wait(engine, left)
        return events

    def wait(self, engine: Engine, seconds: float) -> list[kvrail.Event]:
        """What other agents do is not watched here."""
        events = engine.connection.wait(seconds)
        return [event for event in events if not event.kind.name.startswith("PEER_")]

    def next_event(self, engine: Engine, seconds: float) -> tuple[kvrail.Event, float]:
        """The event, and when it came."""
        end = time.monotonic() + seconds
        while not self.ahead and (left := end - time.monotonic()) > 0:
            self.ahead = [(event, time.monotonic()) for event in self.wait(engine, left)]
        self.assertTrue(self.ahead, "no event came")
        return self.ahead.pop(0)

    def assert_silent(self, engine: Engine, since: float) -> None:
        event, at = self.next_event(engine, BOUND + LATE)
        self.assertEqual((event.kind, event.handle), (EventKind.AGENT_SILENT, 0))
        self.assertLess(abs(event.time_ns / 1e9 - since), 1.0 + LATE)
        self.assertLess(at - since, BOUND + LATE)
        self.assertIn("no sign of life", event.detail)

    def test_1_a_target(self) -> None:
        engine = Engine("target")
        opened = time.monotonic()
        fetch = engine.connection.target_open("frozen", 16, self.sources, deadline_ms=4000)
        engine.connection.target_pages(fetch, 0, [5])
        time.sleep(0.2)  # else the agent may have read nothing, which is another case
        with stopped("target"):
            self.assert_silent(engine, time.monotonic())
            event, at = self.next_event(engine, 2.0 + LATE)
            self.assertEqual((event.kind, event.handle), (EventKind.FAILING, fetch))
            self.assertEqual((event.status, event.terminal), (Status.EXPIRED, False))
            self.assertLess(abs(at - opened - 4.0), LATE)
            self.assertEqual(self.events_for(engine, STOPPED_MORE), [], "no page comes back")
            self.assertIn(fetch, engine.connection.handles)
            late = engine.connection.target_open("unread", 16, self.sources, deadline_ms=500)
            event, at = self.next_event(engine, 0.5 + LATE)
            self.assertEqual((event.kind, event.handle), (EventKind.FAILING, late))
        events = engine.events_until(late)
        kinds = [
            (event.kind, event.handle, event.status)
            for event in events
            if not event.kind.name.startswith("PEER_")
        ]
        self.assertEqual(
            kinds,
            [
                (EventKind.AGENT_BACK, 0, Status.OK),
                (EventKind.EXPIRED, fetch, Status.EXPIRED),
                (EventKind.EXPIRED, late, Status.EXPIRED),
            ],
        )
        engine.close()

    def test_2_a_source(self) -> None:
        """Its publish keeps its pages, and goes on afterwards."""
        source, target = Engine("source"), Engine("target")
        publish = source.publish("kept", [1, 2], ready=False, lease_ms=60_000)
        time.sleep(0.2)
        with stopped("source"):
            self.assert_silent(source, time.monotonic())
            self.assertEqual(self.events_for(source, STOPPED_MORE), [])
        event, _ = self.next_event(source, 1.0 + LATE)
        self.assertEqual(event.kind, EventKind.AGENT_BACK)
        fetch = target.connection.target_open("kept", 32, [source.address()])
        target.connection.target_pages(fetch, 0, [3, 4])
        source.raise_word(publish % kvrail.WORDS_MAX)
        source.connection.source_end(publish)
        self.assertEqual(target.end_of(fetch).kind, EventKind.DONE)
        self.assertEqual(source.end_of(publish).status, Status.OK)
        source.close()
        target.close()

    def test_3_an_engine(self) -> None:
        """It blames neither an agent that ran, nor one that stood still with it."""
        engine = Engine("target")
        fetch = engine.connection.target_open("mine", 16, self.sources, deadline_ms=60_000)
        time.sleep(0.2)
        stand_still(BOUND + 2)
        self.assertEqual(self.events_for(engine, 1.5), [])
        os.kill(pid_of("target"), signal.SIGSTOP)
        stand_still(BOUND + 2, resume="target")
        kinds = [event.kind for event in self.events_for(engine, BOUND + 0.5)]
        self.assertNotIn(EventKind.AGENT_SILENT, kinds)
        engine.connection.cancel(fetch)  # the source's agent may have given it up
        engine.close()

    def test_4_a_silent_agent_is_killed(self) -> None:
        """Its end hands the pages back: once, and with no second FAILING."""
        engine = Engine("target")
        fetch = engine.connection.target_open("killed", 16, self.sources, deadline_ms=1000)
        engine.connection.target_pages(fetch, 0, [7])
        time.sleep(0.2)
        os.kill(pid_of("target"), signal.SIGSTOP)
        self.assert_silent(engine, time.monotonic())
        event, _ = self.next_event(engine, LATE)
        self.assertEqual((event.kind, event.handle), (EventKind.FAILING, fetch))
        os.kill(pid_of("target"), signal.SIGKILL)
        events = engine.events_until(fetch)
        self.assertEqual([e.kind for e in events], [EventKind.AGENT_LOST, EventKind.FAILED])
        self.assertEqual(events[1].status, Status.AGENT_LOST)
        self.assertEqual(engine.connection.handles, frozenset())
        engine.close()


if __name__ == "__main__":
    harness.main("python.silent")
