"""For tests of the proxy: the program itself, and servers of which a test decides each answer."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

ASKED = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 9, "min_tokens": 2, "stream": False}
SECONDS = 60 * max(1.0, int(os.environ.get("KVRAIL_TIME_SCALE", "100")) / 100)
COMPLETIONS = "/v1/completions"

Script = Callable[["Handler"], None]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {SECONDS:g} s: {what}")
        time.sleep(0.01)


class Handler(http.server.BaseHTTPRequestHandler):
    """One request to a server. A script answers it by these methods."""

    protocol_version = "HTTP/1.1"
    server: FakeServer
    body: Any = None

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/health"):
            time.sleep(self.server.health_delay)
            self.json({}, self.server.health)
        else:
            self.server.take(self)

    def do_POST(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.take(self)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.raw(
            json.dumps(value).encode(), status, **{"Content-Type": "application/json"}, **headers
        )

    def raw(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_events(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def drop(self) -> None:
        """Breaks the connection."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def wait_for_the_client_to_leave(self) -> None:
        self.connection.settimeout(SECONDS)
        assert self.connection.recv(1) == b"", "the proxy must end the connection"


class FakeServer(http.server.ThreadingHTTPServer):
    """`scripts` answer its requests in order, and the last one all the others."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, *scripts: Script) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts: queue.SimpleQueue[Script] = queue.SimpleQueue()
        for script in scripts[:-1]:
            self.scripts.put(script)
        self.last_script = scripts[-1]
        self.health = 200
        self.health_delay = 0.0
        self.requests: list[Handler] = []
        self.faults: list[BaseException] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    def take(self, handler: Handler) -> None:
        self.requests.append(handler)
        try:
            script = self.scripts.get_nowait()
        except queue.Empty:
            script = self.last_script
        try:
            script(handler)
        except AssertionError as error:
            self.faults.append(error)
            raise

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


def hand_off(handler: Handler) -> None:
    """A prefill server's answer; each hand-off has another number."""
    number = len(handler.server.requests)
    handler.json(
        {"choices": [], "kv_transfer_params": {"from": handler.server.url, "number": number}}
    )


def complete(handler: Handler) -> None:
    """A decode server's answer: what it was asked."""
    handler.json({"asked": handler.body})


def fails(status: int) -> Script:
    return lambda handler: handler.json({"error": {"message": f"status {status}"}}, status)


def drops(handler: Handler) -> None:
    handler.drop()


class Proxy:
    """The program."""

    def __init__(self, prefill: list[str], decode: list[str], *more: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        port_file = pathlib.Path(self._folder.name) / "port"
        self._log = open(pathlib.Path(self._folder.name) / "log", "w+")
        command = [sys.executable, "-m", "kvrail.proxy", "--listen", "127.0.0.1:0"]
        command += ["--prefill", *prefill, "--decode", *decode, "--port-file", str(port_file)]
        root = pathlib.Path(__file__).resolve().parents[2]
        self.process = subprocess.Popen(
            command + ["--health-interval", "0.5", *more],
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(root / "common/python")},
        )
        wait_until(lambda: port_file.exists() or self.process.poll() is not None, "it listens")
        assert self.process.poll() is None, self.log
        self.port = int(port_file.read_text())

    @property
    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)

    def open(
        self, body: Any, path: str = COMPLETIONS, **headers: str
    ) -> http.client.HTTPConnection:
        connection = self.connect()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path, data, {"Content-Type": "application/json", **named})
        return connection

    def post(self, body: Any, path: str = COMPLETIONS, **headers: str) -> tuple[int, Any]:
        """(status, the answer's JSON)"""
        connection = self.open(body, path, **headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def get(self, path: str) -> tuple[int, str]:
        connection = self.connect()
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def exchange(self, data: bytes, *, stays: bool = False) -> bytes:
        """All that the proxy answers to these bytes, until it closes the connection. A client that
        does not stay ends its direction first."""
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as connection:
            connection.sendall(data)
            if not stays:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while more := connection.recv(65536):
                answer += more
            return answer

    def metric(self, line: str) -> int:
        for each in self.get("/metrics")[1].splitlines():
            if each.startswith(line + " "):
                return int(each.split()[-1])
        return 0

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self._log.close()
            self._folder.cleanup()


class Case(unittest.TestCase):
    def serve(self, *scripts) -> FakeServer:
        server = FakeServer(*scripts)
        self.addCleanup(lambda: self.assertEqual(server.faults, []))
        self.addCleanup(server.stop)
        return server

    def start(self, prefill, decode, *more: str) -> Proxy:
        def urls(servers):
            return [getattr(server, "url", server) for server in servers]

        proxy = Proxy(urls(prefill), urls(decode), *more)
        self.addCleanup(lambda: self.assertEqual(proxy.stop(), 0))
        self.addCleanup(self.no_traceback, proxy)
        return proxy

    def no_traceback(self, proxy: Proxy) -> None:
        self.assertNotIn("Traceback", proxy.log)

    def pair(self, *more: str) -> Proxy:
        """With one server of each kind that answer every request."""
        self.p, self.d = self.serve(hand_off), self.serve(complete)
        return self.start([self.p], [self.d], *more)


def no_server() -> str:
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
