"""Goal: the proxy as a program: the way of a request, streams, clients that go away, and its end.

Method: real sockets on loopback; scripted servers (proxy_world.py). No test waits for a time: each
waits for what must come.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import support
from proxy_world import (
    ASKED,
    COMPLETIONS,
    SECONDS,
    Case,
    complete,
    fails,
    hand_off,
    wait_until,
)


class Flow(Case):
    def test_prefill_then_decode(self) -> None:
        proxy = self.pair()
        status, answer = proxy.post(ASKED, X_Request_Id="seven", Authorization="Bearer key")
        handoff = {"from": self.p.url, "number": 1}
        self.assertEqual(status, 200)
        self.assertEqual(answer, {"asked": {**ASKED, "kv_transfer_params": handoff}})
        (p,), (d,) = self.p.requests, self.d.requests
        self.assertEqual((p.body["max_tokens"], p.body["stream"]), (1, False))
        self.assertTrue(p.body["kv_transfer_params"]["do_remote_decode"])
        self.assertNotIn("min_tokens", p.body)
        for request in (p, d):
            self.assertEqual(request.path, COMPLETIONS)
            self.assertEqual(request.headers["X-Request-Id"], "seven")
            self.assertEqual(request.headers["Authorization"], "Bearer key")
            self.assertEqual(request.headers["Host"], request.server.url.removeprefix("http://"))
        self.assertEqual(proxy.metric('kvrail_proxy_prefills_total{outcome="handed_off"}'), 1)
        self.assertEqual(proxy.metric('kvrail_proxy_decodes_total{with="handoff"}'), 1)

    def test_a_request_gets_an_id(self) -> None:
        proxy = self.pair()
        for _ in range(2):
            connection = proxy.open(ASKED)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.assertEqual(
                answer.headers["X-Request-Id"], self.d.requests[-1].headers["X-Request-Id"]
            )
        first, second = (request.headers["X-Request-Id"] for request in self.p.requests)
        self.assertNotEqual(first, second)

    def test_chat(self) -> None:
        proxy = self.pair()
        chat = {"messages": [], "max_completion_tokens": 7}
        status, answer = proxy.post(chat, "/v1/chat/completions")
        self.assertEqual((status, answer["asked"]["max_completion_tokens"]), (200, 7))
        self.assertEqual(self.p.bodies[0]["max_completion_tokens"], 1)
        self.assertEqual(self.p.requests[0].path, "/v1/chat/completions")

    def test_several_answers_are_computed_by_the_decode_server(self) -> None:
        proxy = self.pair("--require-prefill")
        status, answer = proxy.post({**ASKED, "n": 2})
        self.assertEqual((status, answer), (200, {"asked": {**ASKED, "n": 2}}))
        self.assertEqual(self.p.requests, [])

    def test_a_client_cannot_make_a_hand_off(self) -> None:
        forged = {**ASKED, "n": 2, "kv_transfer_params": {"do_remote_prefill": True}}
        self.assertNotIn("kv_transfer_params", self.pair().post(forged)[1]["asked"])

    def test_the_list_of_models(self) -> None:
        proxy = self.start([self.serve(hand_off)], [self.serve(lambda handler: handler.json([1]))])
        self.assertEqual(proxy.get("/v1/models"), (200, "[1]"))

    def test_a_path_before_v1(self) -> None:
        p, d = self.serve(hand_off), self.serve(complete)
        proxy = self.start([p.url + "/a/v1"], [d])
        self.assertEqual(proxy.post(ASKED)[0], 200)
        self.assertEqual(p.requests[0].path, "/a/v1/completions")

    def test_servers_take_turns(self) -> None:
        prefills, decodes = (
            [self.serve(script) for _ in range(2)] for script in (hand_off, complete)
        )
        proxy = self.start(prefills, decodes)
        for _ in range(6):
            proxy.post(ASKED)
        self.assertEqual([len(server.requests) for server in prefills + decodes], [3] * 4)

    def test_answers_of_a_decode_server_about_the_request_pass(self) -> None:
        for status in (400, 404, 422):
            p, d = self.serve(hand_off), self.serve(fails(status))
            got, answer = self.start([p], [d]).post(ASKED)
            self.assertEqual((got, answer), (status, {"error": {"message": f"status {status}"}}))
            self.assertEqual(len(d.requests), 1)


class Heads(Case):
    def test_a_head_has_no_body(self) -> None:
        proxy = self.pair()
        for path, status in (("/health", 200), ("/nowhere", 404), (COMPLETIONS, 405)):
            with self.subTest(path):
                connection = proxy.connect()
                for method in ("HEAD", "GET", "HEAD"):  # over one connection: each answer in step
                    connection.request(method, path)
                    answer = connection.getresponse()
                    length, body = int(answer.headers["Content-Length"]), answer.read()
                    self.assertEqual(answer.status, status)
                    self.assertGreater(length, 0)
                    self.assertEqual(len(body), length if method == "GET" else 0)
                connection.close()

    def test_a_head_of_a_server_s_answer(self) -> None:
        def streams(handler) -> None:
            handler.begin_events()
            handler.event("model")
            handler.end_events()

        proxy = self.start([self.serve(hand_off)], [self.serve(streams)])
        request = b"HEAD /v1/models HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n"
        head, _, body = proxy.exchange(request, stays=True).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
        self.assertEqual(body, b"")


class Streams(Case):
    def test_each_piece_comes_as_it_is_sent(self) -> None:
        seen = threading.Semaphore(0)

        def decode(handler) -> None:
            handler.begin_events()
            for number in range(5):
                handler.event(str(number))
                self.assertTrue(seen.acquire(timeout=SECONDS), "the client has it before the next")
            handler.end_events()

        proxy = self.start([self.serve(hand_off)], [self.serve(decode)])
        connection = proxy.open({**ASKED, "stream": True})
        answer = connection.getresponse()
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream; charset=utf-8")
        for number in range(5):
            self.assertEqual(answer.readline() + answer.readline(), b"data: %d\n\n" % number)
            seen.release()
        self.assertEqual(answer.read(), b"")
        connection.close()

    def test_a_client_goes_away(self) -> None:
        begun = threading.Semaphore(0)

        def leaves(handler) -> None:
            begun.release()
            handler.wait_for_the_client_to_leave()

        def decode(handler) -> None:
            handler.begin_events()
            handler.event("a")
            leaves(handler)

        for p, d in (
            (self.serve(leaves), self.serve(complete)),
            (self.serve(hand_off), self.serve(decode)),
            (self.serve(hand_off), self.serve(leaves)),
        ):
            proxy = self.start([p], [d])
            connection = proxy.open({**ASKED, "stream": True})
            self.assertTrue(begun.acquire(timeout=SECONDS))
            connection.close()
            wait_until(lambda: proxy.metric("kvrail_proxy_clients_gone_total") == 1, "it is gone")
            wait_until(lambda: proxy.metric("kvrail_proxy_requests_running") == 1, "only this runs")

    def test_an_answer_that_breaks_off_is_no_whole_one(self) -> None:
        def within(handler) -> None:
            handler.begin_events()
            handler.event("a")
            handler.wfile.write(b"5\r\ndat")
            handler.drop()

        def between(handler) -> None:
            handler.begin_events()
            handler.event("a")
            handler.drop()

        def counted(handler) -> None:
            handler.send_response(200)
            handler.send_header("Content-Length", "10")
            handler.end_headers()
            handler.wfile.write(b"abc")
            handler.drop()

        asked = json.dumps(ASKED).encode()
        request = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(
            asked
        )
        for script, begins, ends in (
            (within, b"data: a\n\n", b"3\r\ndat\r\n"),
            (between, b"data: a\n\n", b"before its answer's end"),
            (counted, b"Content-Length: 10", b"abc"),
        ):
            proxy = self.start([self.serve(hand_off)], [self.serve(script)])
            answer = proxy.exchange(request + asked, stays=True)
            self.assertIn(begins.lower(), answer.lower())
            self.assertIn(ends, answer)
            self.assertFalse(answer.endswith(b"0\r\n\r\n"), answer)
            self.assertEqual(proxy.metric("kvrail_proxy_broken_answers_total"), 1)

    def test_two_hundred_clients(self) -> None:
        def decode(handler) -> None:
            handler.begin_events()
            for number in range(20):
                handler.event(f"{handler.body['prompt'][0]} {number}")
            handler.end_events()

        proxy = self.start([self.serve(hand_off)], [self.serve(decode)], "--quiet")
        arrived = threading.Barrier(200)

        def client(number: int) -> bool:
            arrived.wait(SECONDS)
            connection = proxy.open({**ASKED, "stream": True, "prompt": [number]})
            text = connection.getresponse().read().decode()
            connection.close()
            return text == "".join(f"data: {number} {each}\n\n" for each in range(20))

        with ThreadPoolExecutor(200) as clients:
            self.assertTrue(all(clients.map(client, range(200))))


class End(Case):
    def test_a_running_request_ends(self) -> None:
        begun, ending = threading.Event(), threading.Event()

        def decode(handler) -> None:
            handler.begin_events()
            begun.set()
            self.assertTrue(ending.wait(SECONDS))
            handler.event("last")
            handler.end_events()

        proxy = self.start([self.serve(hand_off)], [self.serve(decode)])
        idle = proxy.connect()
        idle.request("GET", "/health")
        idle.getresponse().read()
        connection = proxy.open(ASKED)
        self.assertTrue(begun.wait(SECONDS))
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(idle.sock.recv(1), b"", "an idle connection ends at once")

        def listens() -> bool:
            try:
                proxy.connect().connect()
            except OSError:
                return False
            return True

        wait_until(lambda: not listens(), "it takes no more clients")
        self.assertIsNone(proxy.process.poll())
        ending.set()
        self.assertEqual(connection.getresponse().read(), b"data: last\n\n")
        self.assertEqual(proxy.process.wait(SECONDS), 0)

    def test_the_grace_ends(self) -> None:
        begun = threading.Event()

        def decode(handler) -> None:
            begun.set()
            handler.wait_for_the_client_to_leave()

        proxy = self.start([self.serve(hand_off)], [self.serve(decode)], "--grace", "0.1")
        connection = proxy.open(ASKED)
        self.assertTrue(begun.wait(SECONDS))
        begin = time.monotonic()
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(SECONDS), 0)
        self.assertLess(time.monotonic() - begin, 30)
        with self.assertRaises(OSError):
            connection.getresponse()


if __name__ == "__main__":
    support.main(__file__)
