"""Goal: the agent that an engine starts serves this host alone, or with `advertise` other hosts
too, on free ports unless one is named."""

from __future__ import annotations

import os
import pathlib
import socket
import tempfile
import unittest

import support
from kvrail.agents import command as command_module
from kvrail.agents.certificates import Credentials
from kvrail.agents.command import Advertised, advertised, at_port, command, flags, name_of, program
from kvrail.agents.find import AgentError
from kvrail.agents.place import Place, folders_of

PLACE = Place("/f", "s")
ALWAYS = {"--name": "a", "--engine-socket": "/f/s.sock", "--lifeline": "/f/s.pipe"}
HERE = Advertised("10.0.0.7", 0, "10.0.0.7")


def pairs(words: list[str]) -> dict[str, str]:
    """{"--name": "a"}; a flag without a value has ""."""
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        if word.startswith("--"):
            found[word] = "" if after.startswith("--") else after
    return found


class Commands(unittest.TestCase):
    environment: dict[str, str] = {}

    def of(self, side: str, to: Advertised | None = None, **options: object) -> dict[str, str]:
        found = pairs(command(side, "a", PLACE, to, options, self.environment))
        for name, value in ALWAYS.items():
            self.assertEqual(found.pop(name), value)
        return found

    def test_for_this_host(self) -> None:
        here = {"--listen": "127.0.0.1:0", "--port-file": "/f/s.port"}
        self.assertEqual(self.of("source"), here)
        self.assertEqual(self.of("target"), {})

    def test_for_other_hosts(self) -> None:
        open_to_all = {"--rail": "10.0.0.7"}
        self.assertEqual(self.of("target", HERE), open_to_all)
        source = {"--listen": "10.0.0.7:0", "--advertise": "10.0.0.7", "--port-file": "/f/s.port"}
        self.assertEqual(self.of("source", HERE), open_to_all | source)
        with_port = self.of("source", Advertised("p.example", 9480, "10.0.0.7"))
        self.assertEqual(with_port["--listen"], "10.0.0.7:9480")
        self.assertEqual(with_port["--advertise"], "p.example:9480")
        six = self.of("source", Advertised("fd00::7", 0, "fd00::7"))
        self.assertEqual((six["--listen"], six["--advertise"]), ("[fd00::7]:0", "[fd00::7]"))

    def test_a_certificate(self) -> None:
        words = command("target", "a", PLACE, None, {}, {}, Credentials("/c", "/k", "/a").options())
        found = pairs(words)
        for name, value in (("certificate", "/c"), ("key", "/k"), ("ca", "/a")):
            self.assertEqual(found[f"--tls-{name}"], value)

    def test_an_address_that_the_network_translates(self) -> None:
        to = Advertised("203.0.113.5", 9480)
        source = self.of("source", to, rail="eth0")
        self.assertEqual((source["--listen"], source["--rail"]), ("0.0.0.0:9480", "eth0"))
        with self.assertRaises(AgentError) as caught:
            self.of("target", to)
        self.assertIn('"agent_options": {"rail": "eth0"}', str(caught.exception))
        self.of("target", to, provider="efa+local")  # EFA's cards have no address of ours

    def test_options_of_the_user_win(self) -> None:
        found = self.of("source", HERE, listen="0.0.0.0:1", rail="eth0", libfabric="/opt/efa")
        self.assertEqual((found["--listen"], found["--rail"]), ("0.0.0.0:1", "eth0"))
        self.assertEqual(found["--libfabric"], "/opt/efa")
        self.assertNotIn("--rail", self.of("target", HERE, group="eth0+eth1"))
        # Such agents take every card by themselves; over tcp the word says the same.
        self.assertNotIn("--rail", self.of("target", HERE, provider="verbs"))
        self.assertEqual(self.of("target", HERE, rail="all")["--rail"], "all")

    def test_variables_of_the_environment_are_options_too(self) -> None:
        translated = Advertised("203.0.113.5", 9480)
        for name, value in (
            ("KVRAIL_PROVIDER", "efa+local"),
            ("KVRAIL_RAIL", "eth0"),
            ("KVRAIL_GROUP", "eth0+eth1"),
        ):
            with self.subTest(name):
                self.environment = {name: value}
                for to in (HERE, translated):
                    self.assertEqual(self.of("target", to), {})
        self.environment = {"KVRAIL_PROVIDER": "efa+local"}
        self.assertEqual(self.of("target", HERE, provider="tcp")["--rail"], "10.0.0.7")
        self.environment = {"KVRAIL_PROVIDER": "tcp"}
        self.assertEqual(self.of("target", HERE)["--rail"], "10.0.0.7")

    def test_a_port_in_the_place_of_a_free_one(self) -> None:
        for listen, port, wanted in (
            ("127.0.0.1:0", 4711, "127.0.0.1:4711"),
            ("[::1]:0", 4711, "[::1]:4711"),
            ("127.0.0.1:9480", 4711, "127.0.0.1:9480"),
            ("127.0.0.1:0", 0, "127.0.0.1:0"),
        ):
            words = ["--name", "a", "--listen", listen, "--insecure"]
            self.assertEqual(
                at_port(words, port), ["--name", "a", "--listen", wanted, "--insecure"]
            )
        self.assertEqual(at_port(["--name", "a"], 4711), ["--name", "a"])

    def test_flags(self) -> None:
        options = {"rail": ["a", "b"], "insecure": True, "warm-up": False, "slots": 5}
        words = "--rail a --rail b --insecure --no-warm-up --slots 5".split()
        self.assertEqual(flags(options), words)

    def test_names(self) -> None:
        for side, role in (("source", "prefill"), ("target", "decode")):
            name = name_of(side, "0123456789ab")
            self.assertTrue(name.endswith(f"-0123456789ab-{role}"))
            self.assertLess(len(name), 64)


class Advertise(unittest.TestCase):
    def test_addresses_and_ports(self) -> None:
        for text, wanted in (
            ("127.0.0.1", Advertised("127.0.0.1", 0, "127.0.0.1")),
            ("127.0.0.1:9480", Advertised("127.0.0.1", 9480, "127.0.0.1")),
            ("lo", Advertised("127.0.0.1", 0, "127.0.0.1")),
            ("lo:7", Advertised("127.0.0.1", 7, "127.0.0.1")),
            ("203.0.113.5:9480", Advertised("203.0.113.5", 9480, "")),
        ):
            self.assertEqual(advertised(text), wanted)
        self.assertEqual(advertised("localhost").host, "localhost")

    def test_six(self) -> None:
        for text, port in (("[2001:db8::1]:9480", 9480), ("[2001:db8::1]", 0), ("2001:db8::1", 0)):
            self.assertEqual(advertised(text), Advertised("2001:db8::1", port, ""))

    def test_mistakes(self) -> None:
        for text in ("host:port", "127.0.0.1:0", "127.0.0.1:70000", ":9480"):
            with self.subTest(text), self.assertRaises(AgentError) as caught:
                advertised(text)
            self.assertIn("advertise is", str(caught.exception))

    def test_a_name_without_an_address(self) -> None:
        def fails(*arguments: object, **more: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        before = socket.getaddrinfo
        socket.getaddrinfo = fails  # type: ignore[assignment]
        self.addCleanup(setattr, socket, "getaddrinfo", before)
        with self.assertRaises(AgentError) as caught:
            advertised("eth99")
        self.assertIn(
            "eth99 is neither an interface of this host nor a name", str(caught.exception)
        )


class Programs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make(self, folder: pathlib.Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "prefill-agent"
        path.touch(0o755)
        return str(path)

    def test_a_folder_that_is_named(self) -> None:
        path = self.make(self.folder)
        environment = {"KVRAIL_BIN_DIR": str(self.folder)}
        self.assertEqual(program("prefill-agent", environment), path)
        with self.assertRaises(AgentError) as caught:
            program("decode-agent", environment)
        self.assertIn(f"no program decode-agent in {self.folder}", str(caught.exception))

    def test_beside_the_package_and_in_the_path(self) -> None:
        own = command_module.__file__
        command_module.__file__ = str(self.folder / "kvrail/agents/command.py")
        self.addCleanup(setattr, command_module, "__file__", own)
        path_before = os.environ["PATH"]
        os.environ["PATH"] = str(self.folder / "path")
        self.addCleanup(os.environ.__setitem__, "PATH", path_before)
        with self.assertRaises(AgentError) as caught:
            program("prefill-agent", {})
        self.assertIn("in the kvrail package or in PATH", str(caught.exception))
        in_path = self.make(self.folder / "path")
        self.assertEqual(program("prefill-agent", {}), in_path)
        beside = self.make(self.folder / "kvrail/bin")
        self.assertEqual(program("prefill-agent", {}), beside)

    def test_folders(self) -> None:
        run, temporary = "/run/kvrail-engines", "/tmp/kvrail-engines-7"
        self.assertEqual(folders_of({}, 7), [run, temporary])
        user = {"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/t"}
        own = "/run/user/7/kvrail-engines"
        self.assertEqual(folders_of(user, 7), [own, run, "/t/kvrail-engines-7"])


if __name__ == "__main__":
    support.main(__file__)
