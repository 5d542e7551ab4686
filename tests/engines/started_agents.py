"""Goal: with `"agent": "start"` two servers of vLLM need nothing beside them: their agents come,
serve them, come back when they are killed, and end with their servers, however these end.

Method: two real servers on the CPU, as in two_servers.py; agents are known by the folder of their
sockets. run.sh gives WORK_FOLDER and KVRAIL_BIN_DIR.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import time
import unittest

import harness
from kvrail.agents import find
from servers import POLL_SECONDS, Pair, Server, new_prompt, wait_until

SECONDS = 60
# Debian's libfabric brings libpsm2, which measures the clock with hundreds of short sleeps as it is
# loaded: on a busy host an agent says its first word a minute after its start.
AGAIN_SECONDS = 180
COUNTED_SECONDS = 5
ROLES = {"kv_producer": "prefill-agent", "kv_consumer": "decode-agent"}


def setUpModule() -> None:
    global pair, folder
    work = pathlib.Path(os.environ["WORK_FOLDER"]) / "started"
    work.mkdir()
    os.environ["XDG_RUNTIME_DIR"] = str(work)
    folder = work / "kvrail-engines"
    pair = Pair(work, {role: {"agent": "start"} for role in ROLES})


def tearDownModule() -> None:
    pair.stop()


def agents(program: str) -> list[int]:
    """Those that the servers of this test have started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if words[0].endswith(f"/{program}") and any(str(folder) in word for word in words):
                found.append(int(entry.name))
    return found


def log_of(program: str) -> str:
    (path,) = folder.glob(f"*{program.removesuffix('-agent')}.log")
    return path.read_text()


class Started(unittest.TestCase):
    """In this order: the last two end the servers."""

    def setUp(self) -> None:
        self.random = random.Random(self.id())

    def moves(self) -> bool:
        """Whether the KV of a prompt came as bytes. vLLM counts them a step after the answer."""
        one, before = new_prompt(self.random), pair.moved()
        self.assertEqual(pair.through_both(one), pair.alone(one))
        end = time.monotonic() + COUNTED_SECONDS
        while pair.moved() == before:
            if time.monotonic() > end:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def test_1_one_agent_each_and_vllm_names_its_log(self) -> None:
        for role, program in ROLES.items():
            (process,) = agents(program)
            log = (folder.parent / f"full_{role}.log").read_text()
            self.assertIn(
                f"kvrail started {program} as process {process}; its log is {folder}", log
            )

    def test_2_requests_move(self) -> None:
        for _ in range(8):
            self.assertTrue(self.moves())
        pair.wait_idle(SECONDS)

    def test_3_vllm_counts_them(self) -> None:
        def figures(server: Server) -> list[float]:
            names = ("transfer_seconds_count", "transfer_bytes_sum", "tokens_total")
            return [server.metric(f"kvrail_{name}") for name in names]

        def same() -> bool:
            return figures(pair.prefill)[:2] == figures(pair.decode)[:2]

        wait_until(same, SECONDS, "both servers have the same transfers and bytes")
        for server in (pair.prefill, pair.decode):
            count, moved, tokens = figures(server)
            self.assertGreaterEqual(count, 8)
            self.assertGreater(moved, 0)
            self.assertAlmostEqual(tokens, pair.hits(), delta=count)  # the last token is computed

    def test_4_agents_that_are_killed_come_back(self) -> None:
        for program in ROLES.values():
            (process,) = agents(program)
            os.kill(process, signal.SIGKILL)
            wait_until(lambda: agents(program) not in ([], [process]), SECONDS, f"{program} is new")
            wait_until(self.moves, AGAIN_SECONDS, f"requests move after the end of the {program}")
        pair.wait_idle(SECONDS)

    def end(self, program: str, *signals: int) -> None:
        server = pair.prefill if program == "prefill-agent" else pair.decode
        self.assertEqual(len(agents(program)), 1)
        server.stop(*signals)
        wait_until(lambda: not agents(program), SECONDS, f"the {program} ends with its server")
        for path in folder.glob(f"*{program.removesuffix('-agent')}.sock"):
            self.assertTrue(find.see(str(path)).why, "the socket is free for the next agent")

    def test_5_an_agent_drains_when_its_server_is_killed(self) -> None:
        self.end("decode-agent", signal.SIGKILL)
        self.assertIn("no engine holds --lifeline: taking no new work", log_of("decode-agent"))
        self.assertIn("has ended all work and stops", log_of("decode-agent"))

    def test_6_an_agent_ends_with_its_server(self) -> None:
        """vLLM, which ends itself at once, may kill the agent before it has drained."""
        self.end("prefill-agent")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are stopped at exit
    harness.main("started_agents")
