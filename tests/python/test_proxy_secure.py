"""Goal: the proxy is reached from other hosts with a certificate alone, or on purpose without; a
renewed certificate serves the next client; a bad file ends in a sentence.

Method: the program with certificates that `kvrail certificates` makes (KVRAIL_BIN_DIR). Skipped
without it."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

import support
from proxy_world import ASKED, COMPLETIONS, SECONDS, Case, Proxy, wait_until
from kvrail.proxy.__main__ import options

BIN = os.environ.get("KVRAIL_BIN_DIR", "")
SERVERS = ["--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2"]


class Refusals(unittest.TestCase):
    def refused(self, *words: str) -> str:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as caught:
            options([*SERVERS, *words])
        self.assertEqual(caught.exception.code, 2)
        return said.getvalue()

    def test_beyond_this_host(self) -> None:
        for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:8000", "no-such-host.invalid:1"):
            with self.subTest(listen):
                said = self.refused("--listen", listen)
                self.assertIn("--tls-certificate and --tls-key, or --insecure", said)
        options([*SERVERS, "--listen", "0.0.0.0:0", "--insecure"])
        for listen in ("127.0.0.1:0", "127.9.9.9:0", "localhost:0", "[::1]:0"):
            options([*SERVERS, "--listen", listen])

    def test_what_does_not_fit(self) -> None:
        self.assertIn("belong together", self.refused("--tls-key", "/k"))
        both = ("--tls-certificate", "/c", "--tls-key", "/k")
        self.assertIn("contradict", self.refused(*both, "--insecure"))
        self.assertIn("/c and /k are no certificate", self.refused(*both))


@unittest.skipUnless(os.access(f"{BIN}/kvrail", os.X_OK), "the programs are not built")
class Secure(Case):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.make("init", str(self.folder))
        self.issue("proxy")
        self.trusted = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))

    def make(self, *words: str) -> None:
        subprocess.run(
            [f"{BIN}/kvrail", "certificates", *words], check=True, stdout=subprocess.DEVNULL
        )

    def issue(self, name: str) -> None:
        self.make("issue", str(self.folder), "scheduler", name, "--host", "127.0.0.1")

    def secure_pair(self) -> Proxy:
        files = (self.folder / "proxy.pem", self.folder / "proxy-key.pem")
        return self.pair("--tls-certificate", str(files[0]), "--tls-key", str(files[1]))

    def post(self, proxy: Proxy) -> int:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", proxy.port, timeout=SECONDS, context=self.trusted
        )
        connection.request("POST", COMPLETIONS, json.dumps(ASKED))
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    def serial(self, proxy: Proxy) -> str:
        """Of the certificate that a client sees now."""
        with socket.create_connection(("127.0.0.1", proxy.port), SECONDS) as plain:
            with self.trusted.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                certificate = secure.getpeercert()
                assert certificate is not None
                return str(certificate["serialNumber"])

    def test_requests_over_tls(self) -> None:
        proxy = self.secure_pair()
        for _ in range(3):
            self.assertEqual(self.post(proxy), 200)
        # A client without TLS gets no answer; one that leaves within the handshake ends nothing.
        with socket.create_connection(("127.0.0.1", proxy.port), SECONDS) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertNotIn(b"HTTP/1.1", plain.recv(65536))
        socket.create_connection(("127.0.0.1", proxy.port), SECONDS).close()
        self.assertEqual(self.post(proxy), 200)

    def test_a_request_that_is_refused_ends_in_an_answer(self) -> None:
        proxy = self.secure_pair()
        with socket.create_connection(("127.0.0.1", proxy.port), SECONDS) as plain:
            with self.trusted.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                secure.sendall(b"NONSENSE\r\n\r\n")
                self.assertIn(b" 400 ", secure.recv(65536))

    def test_a_renewed_certificate(self) -> None:
        proxy = self.secure_pair()
        first = self.serial(proxy)
        self.issue("next")
        for end in (".pem", "-key.pem"):
            shutil.copy(self.folder / f"next{end}", self.folder / f"proxy{end}")
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.serial(proxy) != first, "the new certificate is shown")
        second = self.serial(proxy)
        (self.folder / "proxy.pem").write_text("no certificate")
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "goes on with the certificate" in proxy.log, "the bad file is named")
        self.assertEqual(self.serial(proxy), second)
        self.assertEqual(self.post(proxy), 200)


if __name__ == "__main__":
    support.main(__file__)
