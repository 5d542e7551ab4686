"""What one client gets for one request: a whole answer, one in pieces, or an error."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

from .message import (
    AnswerHead,
    Framing,
    Headers,
    Kind,
    RequestHead,
    end_to_end,
    render,
    stays_open,
    value_of,
)
from .stream import Stream

__all__ = ["JSON_TYPE", "Client", "error_body", "log"]

log = logging.getLogger("kvrail.proxy")

JSON_TYPE = ("content-type", "application/json")


def error_body(status: int, sentence: str) -> bytes:
    """An error in the form of OpenAI's API."""
    kind = HTTPStatus(status).phrase.replace(" ", "")
    error = {"message": sentence, "type": kind, "param": None, "code": status}
    return json.dumps({"error": error}).encode() + b"\n"


class Client:
    """One request. Every write raises StreamError where the client is gone."""

    def __init__(self, head: RequestHead, stream: Stream, id_: str) -> None:
        self.head, self.id = head, id_
        self.keep = stays_open(head)  # the connection, for another request
        self.way = ""  # for the log: the servers that it went through
        self.status = 0  # of the answer, once it has begun
        self._stream = stream
        self._has_body = head.method != "HEAD"  # the answer's head is that of a GET
        self._kind = Kind.NONE
        self._events = False  # the answer is a stream of events
        self._tail = b""

    async def begin(self, head: AnswerHead, framing: Framing) -> None:
        """The head of an answer whose body comes in pieces."""
        headers = [*end_to_end(head.headers, ("content-length",))]
        self._kind = framing.kind
        if self._kind in (Kind.CHUNKED, Kind.CLOSE):
            self._kind = Kind.CHUNKED if self.head.minor >= 1 else Kind.CLOSE
        if self._kind is Kind.LENGTH:
            headers.append(("content-length", str(framing.length)))
        if self._kind is Kind.CHUNKED:
            headers.append(("transfer-encoding", "chunked"))
        if self._kind is Kind.CLOSE:
            self.keep = False
        headers.append(("connection", "keep-alive" if self.keep else "close"))
        if value_of(head.headers, "x-request-id") is None:
            headers.append(("x-request-id", self.id))
        type_ = value_of(head.headers, "content-type") or ""
        self._events, self._tail = type_.startswith("text/event-stream"), b"\n\n"
        self.status = head.status
        await self._stream.write(render(f"HTTP/1.1 {head.status} {head.reason}", headers))

    async def piece(self, data: bytes) -> None:
        if not self._has_body:
            return
        self._tail = (self._tail + data[-2:])[-2:]
        if self._kind is Kind.CHUNKED:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        await self._stream.write(data)

    async def end(self) -> None:
        if self._kind is Kind.CHUNKED and self._has_body:
            await self._stream.write(b"0\r\n\r\n")

    async def break_off(self, status: int, sentence: str) -> None:
        """Ends an answer that has no end, so that the client cannot take it for a whole one. A
        stream of events gets an error as its last one, unless it broke within an event."""
        log.warning("%s: %s", self.id, sentence)
        self.keep = False
        if self._kind is Kind.CLOSE:
            self._stream.abort()
        elif self._kind is Kind.CHUNKED and self._events and self._tail == b"\n\n":
            await self.piece(b"data: " + error_body(status, sentence) + b"\n")

    async def whole(self, head: AnswerHead, body: bytes) -> None:
        await self.begin(head, Framing(Kind.LENGTH, len(body)))
        await self.piece(body)

    async def answer(self, status: int, body: bytes, headers: Headers) -> None:
        await self.whole(AnswerHead(status, HTTPStatus(status).phrase, 1, headers), body)

    async def refuse(self, status: int, sentence: str, allow: str = "") -> None:
        log.warning("%s: %d: %s", self.id, status, sentence)
        headers = (JSON_TYPE, ("allow", allow)) if allow else (JSON_TYPE,)
        await self.answer(status, error_body(status, sentence), headers)
