"""Goal: the example of common/docs/engines.md, "From Python", works as it stands there. Method: its text is
cut from the page and run, with two agents; run.sh starts them."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import harness
import kvrail

PAGE = Path(os.environ["KVRAIL_ROOT_DIR"]) / "common/docs/engines.md"


class Example(unittest.TestCase):
    def test_it_moves_a_request(self) -> None:
        section = PAGE.read_text(encoding="utf-8").split("\n## From Python\n")[1].split("\n## ")[0]
        examples = re.findall(r"```python\n(.*?)```", section, flags=re.S)
        self.assertEqual(len(examples), 1)
        with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
            program.write(examples[0])
            program.flush()
            sockets = [os.environ[name] for name in ("SOURCE_SOCKET", "TARGET_SOCKET")]
            ran = subprocess.run(
                [sys.executable, program.name, *sockets],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        events = [line.strip() for line in ran.stdout.splitlines()]
        self.assertIn("DONE ok", events)
        self.assertEqual(events[-1], "SOURCE_FREE ok")
        self.assertTrue(any(event.startswith("LAYER_IN") for event in events), events)

    def test_the_agent_says_where_it_is_dialed(self) -> None:
        """run.sh starts it with --advertise: a name instead of what it listens on."""
        identity = kvrail.Identity(os.urandom(16), 1, 1, 1, 1)
        with kvrail.Connection(os.environ["SOURCE_SOCKET"], identity) as connection:
            port = os.environ["SOURCE_AGENT"].rpartition(":")[2]
            self.assertEqual(connection.agent_address, f"localhost:{port}")


if __name__ == "__main__":
    harness.main("python.example")
