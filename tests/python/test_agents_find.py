"""Goal: an engine without the option `socket` finds the one agent that it needs, and a sentence
says why not. Method: the decisions alone, then sockets in a folder: of two real agents
(SOURCE_SOCKET, TARGET_SOCKET), of an agent that has ended, and a file."""

from __future__ import annotations

import os
import socket
import tempfile
import unittest

import support
from kvrail.agents.find import (
    AgentError,
    AgentMissing,
    Seen,
    check,
    choose,
    find,
    run_folders,
    wait_for,
)

FOLDERS = ("/a", "/b")


class Choice(unittest.TestCase):
    def test_the_one_of_the_side(self) -> None:
        seen = [Seen("/a/p.sock", "source"), Seen("/a/d.sock", "target"), Seen("/a/x", why="no")]
        self.assertEqual(choose("source", FOLDERS, seen), "/a/p.sock")
        self.assertEqual(choose("target", FOLDERS, seen), "/a/d.sock")

    def test_several_are_listed(self) -> None:
        seen = [Seen(f"/a/{name}.sock", "target") for name in "de"]
        with self.assertRaises(AgentError) as caught:
            choose("target", FOLDERS, seen)
        self.assertNotIsInstance(caught.exception, AgentMissing)
        self.assertIn("this engine's decode-agent: /a/d.sock, /a/e.sock", str(caught.exception))

    def test_agents_of_other_containers(self) -> None:
        unseen = [Seen("/a/x.sock"), Seen("/a/y.sock", "target"), Seen("/a/z.sock", why="no")]
        self.assertEqual(choose("source", FOLDERS, unseen), "/a/x.sock")
        self.assertEqual(choose("target", FOLDERS, unseen), "/a/y.sock")
        with self.assertRaises(AgentError) as caught:
            choose("source", FOLDERS, [*unseen, Seen("/a/w.sock")])
        self.assertIn("/a/x.sock, /a/w.sock", str(caught.exception))
        self.assertEqual(check("source", Seen("/p")), "/p")

    def test_none_says_what_was_found(self) -> None:
        seen = [Seen("/a/d.sock", "target"), Seen("/b/p.sock", why="Connection refused")]
        with self.assertRaises(AgentMissing) as caught:
            choose("source", FOLDERS, seen)
        text = str(caught.exception)
        for words in (
            "no prefill-agent has its socket in /a or /b.",
            "/a/d.sock (a decode-agent), /b/p.sock (Connection refused).",
            '"agent": "start"',
        ):
            self.assertIn(words, text)

    def test_a_socket_that_is_named(self) -> None:
        self.assertEqual(check("source", Seen("/p", "source")), "/p")
        with self.assertRaises(AgentMissing) as missing:
            check("source", Seen("/p", why="No such file or directory"))
        self.assertIn("no prefill-agent listens at /p: No such file", str(missing.exception))
        with self.assertRaises(AgentError) as wrong:
            check("source", Seen("/d", "target"))
        self.assertNotIsInstance(wrong.exception, AgentMissing)
        self.assertIn("the agent at /d is a decode-agent", str(wrong.exception))

    def test_run_folders(self) -> None:
        self.assertEqual(run_folders({}), ("/run/kvrail",))
        self.assertEqual(run_folders({"XDG_RUNTIME_DIR": ""}), ("/run/kvrail",))
        user = {"XDG_RUNTIME_DIR": "/run/user/7"}
        self.assertEqual(run_folders(user), ("/run/user/7/kvrail", "/run/kvrail"))


class Waiting(unittest.TestCase):
    def setUp(self) -> None:
        self.now, self.looks, self.warnings = 0.0, 0, list[str]()

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def look(self, failures: int, error: type[AgentError] = AgentMissing) -> str:
        self.looks += 1
        if self.looks <= failures:
            raise error("it is away")
        return "/p"

    def waited(self, failures: int, most: float, error: type[AgentError] = AgentMissing) -> str:
        def look() -> str:
            return self.look(failures, error)

        return wait_for(look, most, self.warnings.append, lambda: self.now, self.wait)

    def test_an_agent_that_comes_later(self) -> None:
        self.assertEqual(self.waited(failures=5, most=10), "/p")
        self.assertEqual(self.warnings, ["kvrail waits up to 10 s for its agent: it is away"])

    def test_without_the_option_nothing_waits(self) -> None:
        with self.assertRaises(AgentMissing):
            self.waited(failures=1, most=0)
        self.assertEqual((self.looks, self.warnings), (1, []))

    def test_it_ends(self) -> None:
        with self.assertRaises(AgentMissing):
            self.waited(failures=1000, most=10)
        self.assertAlmostEqual(self.now, 10)

    def test_what_time_does_not_mend(self) -> None:
        with self.assertRaises(AgentError):
            self.waited(failures=1000, most=10, error=AgentError)
        self.assertEqual(self.looks, 1)


@unittest.skipUnless("SOURCE_SOCKET" in os.environ, "no agents: SOURCE_SOCKET is not set")
class Sockets(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        ended = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ended.bind(f"{self.folder}/ended.sock")
        ended.close()
        with open(f"{self.folder}/file.sock", "w"), open(f"{self.folder}/readme", "w"):
            pass

    def link(self, name: str, side: str) -> str:
        path = f"{self.folder}/{name}.sock"
        os.symlink(os.environ[f"{side}_SOCKET"], path)
        return path

    def find(self, side: str, path: str = "") -> str:
        return find(side, path, ["/nowhere", self.folder])

    def test_each_side_finds_its_agent(self) -> None:
        with self.assertRaises(AgentMissing) as caught:
            self.find("source")
        self.assertIn("ended.sock (Connection refused)", str(caught.exception))
        self.assertNotIn("readme", str(caught.exception))
        p, d = self.link("p", "SOURCE"), self.link("d", "TARGET")
        self.assertEqual((self.find("source"), self.find("target")), (p, d))
        self.link("e", "TARGET")
        with self.assertRaises(AgentError) as several:
            self.find("target")
        self.assertIn(f"{d}, {self.folder}/e.sock", str(several.exception))

    def test_a_path_is_looked_at_too(self) -> None:
        source = os.environ["SOURCE_SOCKET"]
        self.assertEqual(self.find("source", source), source)
        with self.assertRaises(AgentError) as caught:
            self.find("target", source)
        self.assertIn("a prefill-agent, and this engine needs a decode", str(caught.exception))


if __name__ == "__main__":
    support.main(__file__)
