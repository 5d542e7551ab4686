"""Goal: an agent that an engine starts lives as long as the engine's workers, and serves them all.

Method: the built agents (KVRAIL_BIN_DIR) in a folder of this test. Workers are objects of this
process, or processes of their own where they are killed. Skipped without the programs."""

from __future__ import annotations

import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from functools import partial
from unittest import mock

import support
import kvrail
from kvrail.agents.certificates import make_own, name_in, own
from kvrail.agents.command import Advertised, advertised, command
from kvrail.agents.find import AgentError, AgentMissing, see
from kvrail.agents import place as place_module
from kvrail.agents.place import SUFFIXES, Place, make_folder, old_places
from kvrail.agents.start import StartedAgent
from kvrail.vllm.agents import _startable
from kvrail.vllm.settings import StartSettings

BIN = os.environ.get("KVRAIL_BIN_DIR", "")
PATIENCE = 60.0 * int(os.environ.get("KVRAIL_TIME_SCALE", "100")) / 100
WORKER = """
    import sys, time
    from functools import partial
    from kvrail.agents.certificates import make_own, own
    from kvrail.agents.command import command
    from kvrail.agents.place import Place
    from kvrail.agents.start import StartedAgent
    place = Place(sys.argv[1], "target")
    arguments = command("target", "target", place, None, {}, tls=own(place).options())
    agent = StartedAgent("target", place, arguments, print, partial(make_own, "target", place))
    agent.ensure(60)
    print("ready", flush=True)
    time.sleep(600)
"""


def processes_of(place: Place) -> list[int]:
    """Agents with that socket."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"-agent") and place.socket.encode() in words:
                found.append(int(entry.name))
    return found


@unittest.skipUnless(os.access(f"{BIN}/decode-agent", os.X_OK), "the agents are not built")
class Started(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Place(folder.name, "target")
        self.told: list[str] = []
        self.addCleanup(self.kill_all)

    def kill_all(self) -> None:
        for process in processes_of(self.place):
            os.kill(process, signal.SIGKILL)

    def worker(self, side: str = "target", advertise: str = "", **options: object) -> StartedAgent:
        to = advertised(advertise) if advertise else None
        return self.at(self.place, side, to, **options)

    def at(
        self, place: Place, side: str, to: Advertised | None = None, **options: object
    ) -> StartedAgent:
        arguments = command(side, place.stem, place, to, options, tls=own(place).options())
        prepare = partial(make_own, side, place)
        agent = StartedAgent(side, place, arguments, self.told.append, prepare)
        self.addCleanup(agent.close)
        return agent

    def log(self) -> str:
        return pathlib.Path(self.place.log).read_text()

    def until(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what}; the log is {self.log()}")
            time.sleep(0.05)

    def until_ended(self) -> None:
        self.until(lambda: not processes_of(self.place), "the agent has not ended")
        self.assertIn("has ended all work and stops", self.log())

    def test_one_agent_serves_all_workers_and_ends_with_the_last(self) -> None:
        first, second = self.worker(), self.worker()
        tries = [threading.Thread(target=one.ensure, args=(PATIENCE,)) for one in (first, second)]
        for one in tries:
            one.start()
        for one in tries:
            one.join()
        (process,) = processes_of(self.place)
        self.assertEqual(
            self.told,
            [f"kvrail started decode-agent as process {process}; its log is {self.place.log}"],
        )
        first.close()
        first.close()
        second.ensure(PATIENCE)
        time.sleep(0.3)  # an agent that took the first end for the last would drain now
        self.assertNotIn("taking no new work", self.log())
        self.assertEqual(processes_of(self.place), [process])
        second.close()
        self.until_ended()
        with self.assertRaises(AgentError):
            second.ensure(PATIENCE)

    def test_an_agent_that_dies_is_started_again(self) -> None:
        starter, other = self.worker(), self.worker()
        starter.ensure(PATIENCE)
        for worker in (other, starter):
            (process,) = processes_of(self.place)
            os.kill(process, signal.SIGKILL)
            self.until(lambda: see(self.place.socket).why, "the agent did not die")
            worker.ensure(PATIENCE)
            (new,) = processes_of(self.place)
            self.assertNotEqual(new, process)
        starter.ensure(PATIENCE)
        self.assertTrue(any("was ended by signal 9; its log" in line for line in self.told))
        starter.close()
        other.close()
        self.until_ended()

    def port(self) -> str:
        path = pathlib.Path(self.place.port)
        self.until(path.exists, "the agent has not written its port")
        return path.read_text()

    def test_an_agent_that_dies_comes_back_at_its_port(self) -> None:
        starter, other = self.worker("source"), self.worker("source")
        starter.ensure(PATIENCE)
        other.ensure(PATIENCE)
        first = self.port()
        for worker in (other, starter):
            (process,) = processes_of(self.place)
            os.kill(process, signal.SIGKILL)
            self.until(lambda: see(self.place.socket).why, "the agent did not die")
            worker.ensure(PATIENCE)
            with socket.create_connection(("127.0.0.1", int(first)), PATIENCE):
                pass
            self.assertEqual(self.port(), first)
        starter.close()
        other.close()
        self.until_ended()

    def test_an_engine_s_last_life_has_no_port(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            pathlib.Path(self.place.port).write_text(f"{taken.getsockname()[1]}\n")
            self.worker("source").ensure(PATIENCE)
            self.assertNotEqual(int(self.port()), taken.getsockname()[1])

    def test_a_port_that_is_taken(self) -> None:
        worker = self.worker("source")
        worker.ensure(PATIENCE)
        port = int(self.port())
        (process,) = processes_of(self.place)
        os.kill(process, signal.SIGKILL)
        self.until(lambda: see(self.place.socket).why, "the agent did not die")
        with socket.create_server(("127.0.0.1", port)):
            with self.assertRaises(AgentMissing) as caught:
                worker.ensure(PATIENCE)
            self.assertIn(str(port), str(caught.exception))
        worker.ensure(PATIENCE)
        self.assertEqual(int(self.port()), port)

    def test_a_folder_that_is_removed(self) -> None:
        worker = self.worker()
        shutil.rmtree(self.place.folder)
        worker.ensure(PATIENCE)
        shutil.rmtree(self.place.folder)
        pathlib.Path(self.place.folder).touch()
        with self.assertRaises(AgentMissing) as caught:
            worker.ensure(PATIENCE)
        self.assertIn(f"{self.place.folder}, the folder of the agent", str(caught.exception))
        os.unlink(self.place.folder)
        worker.ensure(PATIENCE)

    def test_too_many_open_files(self) -> None:
        worker = self.worker()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with self.assertRaises(AgentMissing) as caught:
                worker.ensure(PATIENCE)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assertIn("Too many open files", str(caught.exception))
        worker.ensure(PATIENCE)

    def test_certificates(self) -> None:
        make_own("target", self.place)
        files = own(self.place)
        self.assertEqual(name_in("target", files.certificate), "target")
        self.assertEqual(os.stat(files.key).st_mode & 0o777, 0o600)
        before = pathlib.Path(files.certificate).read_bytes()
        make_own("target", self.place)
        self.assertEqual(pathlib.Path(files.certificate).read_bytes(), before)
        with self.assertRaises(AgentError) as caught:
            name_in("source", files.certificate)
        self.assertIn("has no identity kvrail://FLEET/prefill/NAME", str(caught.exception))
        with self.assertRaises(AgentError) as caught:
            name_in("target", files.key)
        self.assertIn("no certificate", str(caught.exception))
        for path in (files.certificate, files.key):
            os.unlink(path)
        folder = os.path.dirname(files.ca)
        words = ["issue", folder, "decode", "target", "--days", "1", "--age", "48h"]
        subprocess.run([f"{BIN}/kvrail", "certificates", *words], check=True, capture_output=True)
        with self.assertRaises(AgentError) as caught:
            name_in("target", files.certificate)
        self.assertIn("has expired", str(caught.exception))
        make_own("target", self.place)
        self.assertEqual(name_in("target", files.certificate), "target")

    def test_idle_workers_keep_it(self) -> None:
        workers = [self.worker(), self.worker()]
        for worker in workers:
            worker.ensure(PATIENCE)
            worker.keep(PATIENCE)
        for _ in range(2):
            (process,) = processes_of(self.place)
            os.kill(process, signal.SIGKILL)
            self.until(lambda: processes_of(self.place) not in ([], [process]), "no new agent")
            self.until(lambda: not see(self.place.socket).why, "the new agent does not listen")
        self.assertEqual(sum("kvrail started" in line for line in self.told), 3)
        for worker in workers:
            worker.close()
        self.until_ended()
        time.sleep(0.3)  # in which a worker that was closed could start another
        self.assertEqual(processes_of(self.place), [])

    def test_workers_that_are_killed(self) -> None:
        def start() -> subprocess.Popen[str]:
            code = textwrap.dedent(WORKER)
            words = [sys.executable, "-c", code, self.place.folder]
            path = {"PYTHONPATH": os.path.dirname(os.path.dirname(kvrail.__file__))}
            worker = subprocess.Popen(
                words, stdout=subprocess.PIPE, text=True, env=os.environ | path
            )
            self.addCleanup(worker.wait)
            self.addCleanup(worker.kill)
            assert worker.stdout is not None
            self.addCleanup(worker.stdout.close)
            while worker.stdout.readline() != "ready\n":
                self.assertIsNone(worker.poll())
            return worker

        workers = [start(), start()]
        (process,) = processes_of(self.place)
        workers[0].kill()  # it started the agent
        workers[0].wait()
        workers.append(start())
        workers[1].kill()
        workers[1].wait()
        self.assertEqual(processes_of(self.place), [process])
        workers[2].kill()
        workers[2].wait()
        self.until_ended()

    def test_a_child_of_fork_does_not_keep_the_agent(self) -> None:
        worker = self.worker()
        worker.ensure(PATIENCE)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
        try:
            worker.close()
            self.until_ended()
        finally:
            os.close(write)
            os.waitpid(child, 0)

    def test_an_option_that_is_not_allowed(self) -> None:
        with self.assertRaises(AgentError) as caught:
            self.worker(heartbeat="soon").ensure(PATIENCE)
        self.assertNotIsInstance(caught.exception, AgentMissing)
        text = str(caught.exception)
        for words in ("decode-agent ended with status 2", "--heartbeat", "soon", self.place.log):
            self.assertIn(words, text)

    def test_an_agent_that_cannot_start(self) -> None:
        worker = self.worker(rail="no-such-card")
        for _ in range(2):
            with self.assertRaises(AgentMissing) as caught:
                worker.ensure(PATIENCE)
            self.assertIn("ended with status 1 when it was started: ", str(caught.exception))
            self.assertIn("no-such-card", str(caught.exception))
        with self.assertRaises(AgentMissing) as caught:
            worker.ensure(0.2)  # the pause of the back-off is longer
        self.assertIn("does not listen at", str(caught.exception))

    def test_the_agent_is_not_bound_to_the_worker_s_core(self) -> None:
        cores = os.sched_getaffinity(0)
        if len(cores) < 2:
            self.skipTest("one core")
        os.sched_setaffinity(0, {min(cores)})
        try:
            self.worker().ensure(PATIENCE)
            (process,) = processes_of(self.place)
            self.assertEqual(os.sched_getaffinity(process), cores)
            self.assertEqual(os.sched_getaffinity(0), {min(cores)})
        finally:
            os.sched_setaffinity(0, cores)

    @unittest.skipIf(sys.version_info < (3, 11), "Python 3.10 cannot give a child a process group")
    def test_ctrl_c_is_not_for_the_agent_and_its_session_is_the_engine_s(self) -> None:
        self.worker().ensure(PATIENCE)
        (process,) = processes_of(self.place)
        self.assertEqual(os.getsid(process), os.getsid(0))
        self.assertNotEqual(os.getpgid(process), os.getpgid(0))

    def test_where_peers_dial_it(self) -> None:
        for advertise, host in (("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")):
            worker = self.worker("source", advertise)
            worker.ensure(PATIENCE)
            identity = kvrail.Identity(bytes(16), 1, 1, 1, 1)
            try:
                with kvrail.Connection(worker.socket, identity, PATIENCE) as connection:
                    self.assertRegex(connection.agent_address, f"^{re.escape(host)}:[1-9]")
            except kvrail.LibraryError as error:
                self.skipTest(str(error))
            self.assertIn(f"rail 0: {host} over", self.log())
            worker.close()
            self.until(lambda: not processes_of(self.place), "the agent has not ended")

    def test_files_of_yesterday_are_removed(self) -> None:
        def make(stem: str, age: float) -> Place:
            place = Place(self.place.folder, stem)
            for suffix in SUFFIXES:
                path = pathlib.Path(place.folder, stem + suffix)
                path.touch()
                os.utime(path, (time.time() - age, time.time() - age))
            return place

        old = make("old", 90_000)
        make_own("target", old)
        make("new", 3600)
        worker = self.worker()
        worker.ensure(PATIENCE)
        left = {entry.split(".")[0] for entry in os.listdir(self.place.folder)}
        self.assertEqual(left, {"new", "target", "tls"})
        self.assertFalse(os.path.exists(own(old).certificate))
        os.utime(self.place.lock, (0, 0))  # an agent that has run for long
        self.assertEqual(old_places(self.place.folder), [self.place])
        other = Place(self.place.folder, "other")
        second = self.at(other, "target")
        second.ensure(PATIENCE)
        self.assertTrue(os.path.exists(self.place.lock))
        second.close()
        self.until(lambda: not processes_of(other), "the second agent has not ended")


@unittest.skipUnless(os.access(f"{BIN}/kvrail", os.X_OK), "the programs are not built")
class Certificates(unittest.TestCase):
    """Of an agent that vLLM starts; the agent itself is not started."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        patch = mock.patch.object(place_module, "folders_of", lambda *_: [f"{self.folder}/run"])
        patch.start()
        self.addCleanup(patch.stop)

    def words(self, settings: StartSettings, side: str = "target") -> dict[str, str]:
        agent = _startable(side, settings, "engine-1", print)
        self.addCleanup(agent.close)
        words = agent._command[1:]
        return {
            word: after for word, after in zip(words, [*words[1:], ""]) if word.startswith("--")
        }

    def test_one_host_has_a_ca_of_its_own(self) -> None:
        words = self.words(StartSettings())
        name = words["--name"]
        self.assertEqual(words["--tls-certificate"], f"{self.folder}/run/tls/{name}.pem")
        self.assertEqual(words["--tls-ca"], f"{self.folder}/run/tls/ca.pem")

    def test_between_hosts_certificates_are_given(self) -> None:
        with self.assertRaises(AgentError) as caught:
            self.words(StartSettings("127.0.0.1"))
        self.assertIn("give tls_certificate, tls_key and tls_ca", str(caught.exception))
        insecure = self.words(StartSettings("127.0.0.1", {"insecure": True}))
        self.assertNotIn("--tls-certificate", insecure)
        self.assertIn("--insecure", insecure)

        fleet = f"{self.folder}/fleet"
        for more in (["init", fleet], ["issue", fleet, "decode", "d7"]):
            command = [f"{BIN}/kvrail", "certificates", *more]
            subprocess.run(command, check=True, capture_output=True)
        files = (f"{fleet}/d7.pem", f"{fleet}/d7-key.pem", f"{fleet}/ca.pem")
        words = self.words(StartSettings("127.0.0.1", tls={"target": files}))
        self.assertEqual((words["--name"], words["--tls-certificate"]), ("d7", files[0]))
        with self.assertRaises(AgentError) as caught:
            self.words(StartSettings("127.0.0.1", tls={"source": files}), "source")
        self.assertIn("has no identity kvrail://FLEET/prefill/NAME", str(caught.exception))

    def test_the_environment_may_have_it(self) -> None:
        with mock.patch.dict(os.environ, {"KVRAIL_INSECURE": "yes"}):
            self.assertNotIn("--tls-certificate", self.words(StartSettings("127.0.0.1")))
            words = self.words(StartSettings("", {"insecure": False}))
            self.assertIn("--no-insecure", words)
            self.assertIn("--tls-certificate", words)
        with mock.patch.dict(os.environ, {"KVRAIL_INSECURE": "no"}):
            self.assertIn("--tls-certificate", self.words(StartSettings()))


class Folder(unittest.TestCase):
    """The three places are made to lie in one folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.places = [f"{folder.name}/{name}" for name in ("user", "run", "tmp")]
        patch = mock.patch.object(place_module, "folders_of", lambda *_: self.places)
        patch.start()
        self.addCleanup(patch.stop)

    def test_it_is_of_this_user_alone(self) -> None:
        for _ in range(2):
            self.assertEqual(make_folder(), self.places[0])
        self.assertEqual(os.stat(self.places[0]).st_mode & 0o777, 0o700)

    def test_one_that_cannot_be_made(self) -> None:
        self.places[0] = "/nowhere/at/all"
        self.assertEqual(make_folder(), self.places[1])

    def test_one_that_others_may_change(self) -> None:
        os.mkdir(self.places[0])
        os.chmod(self.places[0], 0o777)
        os.mkdir(f"{self.places[0]}/elsewhere", 0o700)
        os.symlink(f"{self.places[0]}/elsewhere", self.places[1])
        self.assertEqual(make_folder(), self.places[2])
        os.chmod(self.places[2], 0o720)
        with self.assertRaises(AgentError) as caught:
            make_folder()
        for words in (*self.places, "other users can write to it", "Set XDG_RUNTIME_DIR"):
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    support.main(__file__)
