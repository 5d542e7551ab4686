"""Goal: an agent that dies is an event and then an exception, and each handle still ends. Method: kills the
agents that run.sh has started: SOURCE_PID and TARGET_PID."""

import os
import signal
import time
import unittest

import harness
import kvrail
from engines import PATIENCE, Engine, EventKind, Status


class Lost(unittest.TestCase):
    def events_to_the_end(self, engine: Engine) -> list[kvrail.Event]:
        end, events = time.monotonic() + PATIENCE, list[kvrail.Event]()
        while time.monotonic() < end:
            try:
                events += engine.connection.wait(1.0)
            except kvrail.AgentLost as error:
                self.assertIn("has ended", str(error))
                return events
        raise AssertionError(f"the connection did not end; there were {events}")

    def die(self, role: str, handle: int, engine: Engine, last: EventKind) -> None:
        os.kill(int(os.environ[f"{role.upper()}_PID"]), signal.SIGKILL)
        events = self.events_to_the_end(engine)
        kinds = [event.kind for event in events]
        self.assertEqual(kinds, [EventKind.AGENT_LOST, last])
        self.assertEqual((events[1].handle, events[1].status), (handle, Status.AGENT_LOST))
        self.assertEqual(engine.connection.handles, frozenset())
        with self.assertRaises(kvrail.AgentLost) as caught:
            engine.connection.cancel(handle)
        self.assertIn("close it and open another", str(caught.exception))
        self.assertIsInstance(caught.exception, ConnectionError)
        engine.close()

    def test_of_a_source(self) -> None:
        engine = Engine("source")
        self.die("source", engine.publish("lost", [1], ready=False), engine, EventKind.SOURCE_FREE)

    def test_of_a_target(self) -> None:
        engine = Engine("target")
        nowhere = kvrail.SourceAddress("127.0.0.1:1", bytes(16), 1)
        fetch = engine.connection.target_open("lost", 16, [nowhere])
        self.die("target", fetch, engine, EventKind.FAILED)


if __name__ == "__main__":
    harness.main("python.lost")
