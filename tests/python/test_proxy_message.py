"""Goal: heads and bodies of HTTP/1.1 are read as they are meant, or refused with a sentence; no
bytes are read in two ways.

Method: examples of each rule; then heads with random mistakes, which either parse or raise
MessageError; and messages cut into random pieces, which give the same body as uncut ones.
"""

from __future__ import annotations

import asyncio
import random
import unittest

import support
from kvrail.proxy import message
from kvrail.proxy.message import Framing, Kind, MessageError
from kvrail.proxy.stream import Gone, Stream, TooLarge

REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: a:1\r\nContent-Length: 2"
ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"


def request(*lines: str, first: str = "POST /v1/completions HTTP/1.1", host: str = "Host: a"):
    return message.parse_request("\r\n".join((first, host, *lines)).encode("latin-1"))


class Heads(unittest.TestCase):
    def refused(self, status: int, words: str, *lines: str, **more: str) -> None:
        with self.assertRaises(MessageError) as caught:
            message.request_framing(request(*lines, **more))
        self.assertIn(words, str(caught.exception))
        self.assertEqual(caught.exception.status, status)

    def test_a_request(self) -> None:
        head = request(
            "X-Request-ID:  seven\t", "Accept: a", "accept: b", first="GET /a?b=1 HTTP/1.1"
        )
        self.assertEqual((head.method, head.target, head.path), ("GET", "/a?b=1", "/a"))
        self.assertEqual(message.value_of(head.headers, "x-request-id"), "seven")
        self.assertEqual(message.value_of(head.headers, "accept"), "a")
        self.assertIsNone(message.value_of(head.headers, "cookie"))

    def test_an_answer(self) -> None:
        head = message.parse_answer(ANSWER)
        self.assertEqual((head.status, head.reason), (200, "OK"))
        self.assertEqual(message.answer_framing(head), Framing(Kind.CHUNKED))
        for text in (b"HTTP/1.1 204", b"HTTP/1.1 304 No\r\nContent-Length: 7"):
            self.assertEqual(message.answer_framing(message.parse_answer(text)), Framing(Kind.NONE))
        self.assertEqual(
            message.answer_framing(message.parse_answer(b"HTTP/1.0 200 OK")), Framing(Kind.CLOSE)
        )
        for text in (b"", b"HTTP/2 200 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 200OK", b"200 OK"):
            with self.assertRaises(MessageError):
                message.parse_answer(text)

    def test_wrong_first_lines(self) -> None:
        for first in ("", "GET", "GET /", "GET / HTTP/1", "G@T / HTTP/1.1", "GET  / HTTP/1.1"):
            self.refused(400, "not a request", first=first)
        self.refused(505, "HTTP/2.0", first="PRI / HTTP/2.0")
        for target in ("http://a/", "*", "a", "/\x7f", "/ü"):
            self.refused(400, "target", first=f"GET {target} HTTP/1.1")

    def test_wrong_lines(self) -> None:
        for line in ("", "a", "a : b", ": b", " a: b", "a\t: b", "a: \x00", "a: b\x7f", "ü: b"):
            self.refused(400, "header line", line)
        for line in ("a: b\n", "a: b\nc: d", "a: b\rc: d"):
            self.refused(400, "CR or LF", line)
        self.refused(431, "header lines", *("a: b" for _ in range(100)))

    def test_one_host(self) -> None:
        self.refused(400, "Host", "Host: b")
        self.refused(400, "Host", host="Hosts: b")
        request(host="a: b", first="GET / HTTP/1.0")

    def test_lengths_that_two_readers_might_read_apart(self) -> None:
        for lines in (
            ("Content-Length: 1", "Transfer-Encoding: chunked"),
            ("Content-Length: 1", "Content-Length: 2"),
            ("Content-Length: 1, 1",),
            ("Content-Length: -1",),
            ("Content-Length: +1",),
            ("Content-Length: 0x1",),
            ("Content-Length:",),
            ("Content-Length: 1_0",),
            ("Content-Length: ²",),
            ("Content-Length: " + "9" * 16,),
        ):
            with self.assertRaises(MessageError, msg=lines):
                message.request_framing(request(*lines))
        self.refused(501, "chunked", "Transfer-Encoding: gzip, chunked")
        self.refused(501, "chunked", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")
        self.refused(400, "HTTP/1.0", "Transfer-Encoding: chunked", first="POST / HTTP/1.0")
        twice = request("Content-Length: 3", "Content-Length: 3")
        self.assertEqual(message.request_framing(twice), Framing(Kind.LENGTH, 3))
        self.assertEqual(message.request_framing(request()), Framing(Kind.NONE))

    def test_which_connection_stays_open(self) -> None:
        old = "GET / HTTP/1.0"
        self.assertTrue(message.stays_open(request()))
        self.assertFalse(message.stays_open(request("Connection: a, Close")))
        self.assertFalse(message.stays_open(request(first=old)))
        self.assertTrue(message.stays_open(request("Connection: keep-alive", first=old)))

    def test_headers_of_one_connection_stay(self) -> None:
        head = request("Connection: X-Mine, close", "X-Mine: 1", "TE: trailers", "A: b", "Via: c")
        self.assertEqual(message.end_to_end(head.headers, ("host", "via")), (("a", "b"),))

    def test_lengths_of_chunks(self) -> None:
        for line, length in ((b"0", 0), (b"aF", 175), (b"5 ;a=b", 5), (b"5;a", 5)):
            self.assertEqual(message.chunk_length(line), length)
        for line in (b"", b" 5", b"-5", b"0x5", b"5a b", b"5_0", b"5\n", b"1" * 13, b";a"):
            with self.assertRaises(MessageError, msg=line):
                message.chunk_length(line)

    def test_a_rendered_head_is_read_again(self) -> None:
        text = message.render("GET /a HTTP/1.1", (("host", "a"), ("b", "c é")))
        head = message.parse_request(text[:-4])
        self.assertEqual(head.headers, (("host", "a"), ("b", "c é")))

    def test_random_mistakes(self) -> None:
        draw = random.Random(1)
        parsed = 0
        for _ in range(20000):
            text = bytearray(REQUEST + b"\r\nTransfer-Encoding: chunked" * draw.randrange(2))
            for _ in range(draw.randrange(4)):
                place = draw.randrange(len(text))
                text[place : place + draw.randrange(3)] = bytes(
                    draw.choice(b"\r\n :\x00\xff,;1GH/") for _ in range(draw.randrange(3))
                )
            try:
                framing = message.request_framing(message.parse_request(bytes(text)))
            except MessageError as error:
                self.assertIn(error.status, (400, 431, 501, 505))
                continue
            self.assertIn(framing.kind, (Kind.NONE, Kind.LENGTH, Kind.CHUNKED))
            parsed += 1
        self.assertGreater(parsed, 1000)


class FakeTransport(asyncio.Transport):
    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return True


def read(data: bytes, work, cut: random.Random | None = None, silence: float = 60):
    """What `work(stream)` makes of the bytes, which come in random pieces, and then the end."""

    async def run():
        reader = asyncio.StreamReader()
        writer = asyncio.StreamWriter(
            FakeTransport(), asyncio.Protocol(), reader, asyncio.get_running_loop()
        )

        async def feed() -> None:
            rest = data
            while rest:
                size = cut.randrange(1, 9) if cut else len(rest)
                reader.feed_data(rest[:size])
                rest = rest[size:]
                await asyncio.sleep(0)
            reader.feed_eof()

        feeding = asyncio.create_task(feed())
        try:
            return await work(Stream(reader, writer, silence))
        finally:
            feeding.cancel()

    return asyncio.run(run())


class Bodies(unittest.TestCase):
    def body(self, data: bytes, framing: Framing, most: int = 1000, cut=None) -> bytes:
        return read(data, lambda stream: stream.whole_body(framing, most), cut)

    def test_each_framing(self) -> None:
        self.assertEqual(self.body(b"abcd", Framing(Kind.LENGTH, 3)), b"abc")
        self.assertEqual(self.body(b"abcd", Framing(Kind.CLOSE)), b"abcd")
        self.assertEqual(self.body(b"abcd", Framing(Kind.NONE)), b"")
        chunks = b"2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\nT: u\r\n\r\nnext"
        self.assertEqual(self.body(chunks, Framing(Kind.CHUNKED)), b"ab0123456789")

    def test_any_cut_gives_the_same(self) -> None:
        draw = random.Random(2)
        for _ in range(50):
            parts = [draw.randbytes(draw.randrange(1, 30)) for _ in range(draw.randrange(5))]
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
            data = REQUEST + b"\r\n\r\n" + chunks + b"0\r\n\r\n" + b"GET / HTTP/1.1\r\n\r\n"

            async def both(stream: Stream):
                first = await stream.head(60)
                body = await stream.whole_body(Framing(Kind.CHUNKED), 1000)
                return first, body, await stream.head(60), await stream.head(60)

            first, body, second, third = read(data, both, draw)
            self.assertEqual((first, body), (REQUEST, b"".join(parts)))
            self.assertEqual((second, third), (b"GET / HTTP/1.1", None))

    def test_early_ends(self) -> None:
        for data, framing in (
            (b"ab", Framing(Kind.LENGTH, 3)),
            (b"", Framing(Kind.CHUNKED)),
            (b"5\r\nabc", Framing(Kind.CHUNKED)),
            (b"2\r\nab", Framing(Kind.CHUNKED)),
            (b"2\r\nab\r\n", Framing(Kind.CHUNKED)),
            (b"2\r\nab\r\n0\r\n", Framing(Kind.CHUNKED)),
        ):
            with self.assertRaises(Gone, msg=data):
                self.body(data, framing)
        with self.assertRaises(Gone):
            read(b"GET / HT", lambda stream: stream.head(60))

    def test_wrong_chunks(self) -> None:
        for data in (
            b"2\r\nabc\r\n0\r\n\r\n",
            b"x\r\nab\r\n0\r\n\r\n",
            b"1" * 300,
            b"0\r\n" + b"a: b\r\n" * 200,
            b"1;" + b"a" * 300 + b"\r\nb\r\n0\r\n\r\n",
        ):
            with self.assertRaises(MessageError, msg=data[:20]):
                self.body(data, Framing(Kind.CHUNKED))

    def test_limits(self) -> None:
        with self.assertRaises(TooLarge):
            self.body(b"abcd", Framing(Kind.LENGTH, 4), most=3)
        with self.assertRaises(TooLarge):
            self.body(b"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n", Framing(Kind.CHUNKED), most=3)
        longest = b"a" * message.HEAD_BYTES_MAX
        self.assertEqual(read(longest + b"\r\n\r\n", lambda stream: stream.head(60)), longest)
        for data in (longest + b"a\r\n\r\n", longest + b"a" * 9):
            with self.assertRaises(MessageError) as caught:
                read(data, lambda stream: stream.head(60))
            self.assertEqual(caught.exception.status, 431)


if __name__ == "__main__":
    support.main(__file__)
