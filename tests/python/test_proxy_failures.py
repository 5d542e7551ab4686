"""Goal: the proxy as a program, between servers that fail, break and stay silent, and clients that
send garbage.

Method: as in test_proxy.py.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import unittest

import support
from kvrail.proxy.listener import watch
from kvrail.proxy.servers import Pool, parse_url
from kvrail.proxy.upstream import Limits
from proxy_world import (
    ASKED,
    COMPLETIONS,
    SECONDS,
    Case,
    complete,
    drops,
    fails,
    hand_off,
    no_server,
    wait_until,
)


class Failures(Case):
    def test_a_prefill_that_fails_goes_to_another_server(self) -> None:
        for script in (fails(503), fails(500), drops, lambda handler: handler.raw(b"<html>")):
            bad, good, d = self.serve(script), self.serve(hand_off), self.serve(complete)
            proxy = self.start([bad, good], [d])
            status, answer = proxy.post(ASKED)
            self.assertEqual(status, 200)
            self.assertEqual(answer["asked"]["kv_transfer_params"]["from"], good.url)
            self.assertEqual(len(bad.requests), 1)

    def test_the_only_prefill_server_is_asked_again(self) -> None:
        p, d = self.serve(fails(503), hand_off), self.serve(complete)
        _, answer = self.start([p], [d]).post(ASKED)
        self.assertEqual(answer["asked"]["kv_transfer_params"]["number"], 2)

    def test_without_a_prefill_the_decode_server_computes(self) -> None:
        for script, count in (
            (fails(503), 2),
            (drops, 2),
            (fails(400), 1),
            (lambda handler: handler.json({"choices": []}), 1),
        ):
            p, d = self.serve(script), self.serve(complete)
            self.assertEqual(self.start([p], [d]).post(ASKED), (200, {"asked": ASKED}))
            self.assertEqual(len(p.requests), count)
        proxy = self.start([no_server()], [self.serve(complete)])
        self.assertEqual(proxy.post(ASKED), (200, {"asked": ASKED}))

    def test_a_prefill_is_required(self) -> None:
        for script, status, words in (
            (fails(503), 502, "answered with status 503; http"),
            (fails(400), 400, "status 400"),
            (lambda handler: handler.json({}), 502, "without kv_transfer_params"),
        ):
            p, d = self.serve(script), self.serve(complete)
            got, answer = self.start([p], [d], "--require-prefill").post(ASKED)
            self.assertEqual(got, status)
            self.assertIn(words, answer["error"]["message"])
            self.assertEqual(d.requests, [])

    def test_a_decode_that_fails_gets_a_new_hand_off(self) -> None:
        for script in (fails(503), drops):
            p, bad, good = self.serve(hand_off), self.serve(script), self.serve(complete)
            status, answer = self.start([p], [bad, good]).post(ASKED)
            self.assertEqual(status, 200)
            self.assertEqual(bad.bodies[0]["kv_transfer_params"]["number"], 1)
            self.assertEqual(answer["asked"]["kv_transfer_params"]["number"], 2)

    def test_the_last_answer_of_failing_decode_servers_passes(self) -> None:
        p, d = self.serve(hand_off), self.serve(fails(503))
        self.assertEqual(
            self.start([p], [d]).post(ASKED), (503, {"error": {"message": "status 503"}})
        )
        self.assertEqual(len(d.requests), 2)
        p, d = self.serve(hand_off), self.serve(drops)
        status, answer = self.start([p], [d]).post(ASKED)
        self.assertEqual(status, 502)
        self.assertIn("closed the connection before it answered", answer["error"]["message"])

    def test_an_unreached_decode_server_costs_no_prefill(self) -> None:
        p, gone, d = self.serve(hand_off), no_server(), self.serve(complete)
        proxy = self.start([p], [gone, d])
        for _ in range(3):
            self.assertEqual(proxy.post(ASKED)[0], 200)
        self.assertEqual(len(p.requests), 3)

    def test_a_server_is_down_and_up_again(self) -> None:
        proxy = self.pair("--health-interval", "0.1")
        for server, role in ((self.p, "prefill"), (self.d, "decode")):
            server.health = 500
            line = f'kvrail_proxy_server_up{{role="{role}",server="{server.url}"}}'
            wait_until(lambda: proxy.metric(line) == 0, "it is down")  # noqa: B023
        status, page = proxy.get("/health")
        self.assertEqual(status, 503)
        self.assertIn("status 500", json.loads(page)["decode"][0]["why"])
        status, answer = proxy.post(ASKED)
        self.assertEqual(status, 503)
        self.assertIn("answers /health with status 500", answer["error"]["message"])
        self.assertEqual(self.p.requests, [])
        self.d.health = 200
        wait_until(lambda: proxy.get("/health")[0] == 200, "it is up")
        self.assertEqual(proxy.post(ASKED), (200, {"asked": ASKED}))
        self.assertEqual(self.p.requests, [], "no prefill server is up")

    def test_a_late_answer_about_health(self) -> None:
        proxy = self.pair("--health-interval", "0.1", "--health-timeout", "0.3")
        self.d.health_delay = 1.0
        wait_until(lambda: proxy.get("/health")[0] == 503, "it is down")
        self.assertIn("silent for 0.3 s", proxy.get("/health")[1])
        self.d.health_delay = 0.0
        wait_until(lambda: proxy.get("/health")[0] == 200, "it is up")

    def test_silence_ends(self) -> None:
        def silent(handler) -> None:
            handler.wait_for_the_client_to_leave()

        p, d = self.serve(silent), self.serve(silent)
        proxy = self.start([p], [d], "--timeout", "0.3", "--attempts", "1")
        status, answer = proxy.post(ASKED)
        self.assertEqual(status, 504)
        self.assertIn("was silent for 0.3 s", answer["error"]["message"])
        self.assertEqual((len(p.requests), len(d.requests)), (1, 1))

    def test_wrong_answers(self) -> None:
        def says(data: bytes):
            def script(handler) -> None:
                handler.wfile.write(data)
                handler.drop()

            return script

        for data in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"garbage\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nA: " + b"a" * 40000,
            b"HTTP/1.1 101 Switching\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" * 9,
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"\x00" * 100000,
        ):
            p, d = self.serve(says(data)), self.serve(says(data))
            status, answer = self.start([p], [d], "--attempts", "1").post(ASKED)
            self.assertEqual(status, 502, data[:40])
            self.assertIn(d.url, answer["error"]["message"])


class Watch(unittest.TestCase):
    def test_it_ends_whenever_it_is_cancelled(self) -> None:
        async def answer(reader, writer) -> None:
            if await reader.readline():
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        async def run() -> None:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            draw = random.Random(6)
            for _ in range(100):
                pool = Pool("prefill", [parse_url(url) for _ in range(10)])
                watching = asyncio.ensure_future(watch([pool], Limits(), 0.0))
                await asyncio.sleep(draw.random() * 0.01)
                watching.cancel()
                ended, _ = await asyncio.wait((watching,), timeout=SECONDS)
                self.assertTrue(ended)

        asyncio.run(run())


class Clients(Case):
    def test_bad_requests(self) -> None:
        proxy = self.pair("--body-max", "100")

        def post(body: bytes, *lines: bytes) -> bytes:
            head = (b"POST /v1/completions HTTP/1.1", b"Host: a", b"Connection: close", *lines)
            return b"\r\n".join(head) + b"\r\n\r\n" + body

        for data, status, words in (
            (b"GARBAGE\r\n\r\n", 400, "not a request"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", 400, "not a request"),
            (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
            (b"GET / HTTP/1.0\r\n\r\n", 404, "the proxy serves /v1/completions"),
            (b"PUT /v1/completions HTTP/1.0\r\n\r\n", 405, "takes POST, not PUT"),
            (b"POST /health HTTP/1.0\r\n\r\n", 405, "takes GET"),
            (b"GET / HTTP/3.0\r\n\r\n", 505, "HTTP/3.0"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 40000, 431, "32768 bytes"),
            (post(b""), 400, "not JSON"),
            (post(b"[]", b"Content-Length: 2"), 400, "JSON object, not list"),
            (post(b"", b"Content-Length: 101"), 413, "larger than 100 bytes (--body-max)"),
            (post(b"ff\r\n" + b"a" * 255, b"Transfer-Encoding: chunked"), 413, "--body-max"),
            (post(b"zz\r\n", b"Transfer-Encoding: chunked"), 400, "length of a chunk"),
            (post(b"", b"Transfer-Encoding: gzip"), 501, "must be chunked"),
            (post(b"", b"Content-Length: 1", b"Transfer-Encoding: chunked"), 400, "both"),
            (post(b"{}", b"Content-Length: 2", b"Expect: all"), 417, "100-continue"),
        ):
            answer = proxy.exchange(data, stays=True)
            self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), (data[:60], answer))
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            self.assertEqual(error["code"], status)
            self.assertIn(words, error["message"])
        self.assertEqual(proxy.exchange(b""), b"")
        self.assertEqual(self.p.requests + self.d.requests, [])

    def test_random_bytes(self) -> None:
        proxy = self.pair("--quiet")
        body = json.dumps(ASKED).encode()
        whole = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(
            body
        )
        draw = random.Random(5)
        for _ in range(300):
            data = bytearray((whole + body) * draw.randrange(1, 3))
            for _ in range(draw.randrange(6)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            answer = proxy.exchange(bytes(data[: draw.randrange(len(data) + 1)]))
            self.assertTrue(not answer or answer.startswith(b"HTTP/1.1 "), answer[:80])
        self.assertEqual(proxy.post(ASKED)[0], 200)

    def test_one_connection_for_several_requests(self) -> None:
        proxy = self.pair()
        connection = proxy.connect()
        for number in range(3):
            connection.request("POST", COMPLETIONS, json.dumps({**ASKED, "seed": number}))
            answer = json.loads(connection.getresponse().read())
            self.assertEqual(answer["asked"]["seed"], number)
        connection.close()
        body = json.dumps(ASKED).encode()
        one = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        with socket.create_connection(("127.0.0.1", proxy.port), SECONDS) as client:
            client.sendall((one + body) * 3)  # before the first answer
            answer = b""
            while answer.count(b'"asked"') < 3:
                answer += client.recv(65536)

    def test_a_body_in_chunks(self) -> None:
        proxy = self.pair()
        connection = proxy.connect()
        pieces = json.dumps(ASKED)
        connection.request(
            *("POST", COMPLETIONS),
            body=(pieces[each : each + 7].encode() for each in range(0, len(pieces), 7)),
            encode_chunked=True,
            headers={"Transfer-Encoding": "chunked"},
        )
        asked = json.loads(connection.getresponse().read())["asked"]
        self.assertEqual(asked, {**ASKED, "kv_transfer_params": asked["kv_transfer_params"]})
        connection.close()

    def test_http_1_0_and_expect(self) -> None:
        proxy = self.pair()
        body = json.dumps(ASKED).encode()
        request = b"POST /v1/completions HTTP/1.%d\r\nHost: a\r\nContent-Length: %d\r\n%b\r\n%b"
        answer = proxy.exchange(request % (0, len(body), b"", body), stays=True)
        self.assertIn(b"connection: close", answer)
        with socket.create_connection(("127.0.0.1", proxy.port), SECONDS) as client:
            client.sendall(request % (1, len(body), b"Expect: 100-continue\r\n", b""))
            interim = client.recv(65536)
            self.assertEqual(interim, b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(body)
            self.assertTrue(client.recv(65536).startswith(b"HTTP/1.1 200 OK"))

    def test_too_many_clients(self) -> None:
        proxy = self.pair("--clients-max", "2")
        held = [socket.create_connection(("127.0.0.1", proxy.port), SECONDS) for _ in range(2)]

        def refused() -> bool:
            return b"2 clients are connected already" in proxy.exchange(b"")

        wait_until(refused, "a third one is refused")
        for each in held:
            each.close()
        wait_until(lambda: not refused(), "there is room again")


if __name__ == "__main__":
    support.main(__file__)
