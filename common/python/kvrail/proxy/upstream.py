"""One request to one server, over a connection of its own.

A connection for each request costs a round trip, and spares the question whether a server has
closed an idle one just when a request goes out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from .message import (
    AnswerHead,
    Framing,
    MessageError,
    answer_framing,
    parse_answer,
    render,
)
from .servers import Server
from .stream import Silent, Stream, StreamError, TooLarge

__all__ = ["Failed", "Limits", "Reply", "Unreached", "ask"]

INTERIM_MAX = 8  # answers 1xx before the real one


class Unreached(Exception):
    """The server has seen nothing of the request."""


class Failed(Exception):
    """The server may have seen the request, and has not answered it as a whole. `status` is what a
    client gets for it."""

    def __init__(self, reason: str, status: int = 502) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    connect: float = 5.0  # seconds
    silence: float = 600.0


@dataclass(slots=True)
class Reply:
    """A head that has come, and a body that comes. Reading raises Failed."""

    head: AnswerHead
    framing: Framing
    _stream: Stream

    async def pieces(self) -> AsyncIterator[bytes]:
        with _as_failed():
            async for data in self._stream.body(self.framing):
                yield data

    async def whole(self, most: int) -> bytes:
        with _as_failed():
            return await self._stream.whole_body(self.framing, most)


@contextlib.contextmanager
def _as_failed() -> Iterator[None]:
    try:
        yield
    except Silent as error:
        raise Failed(str(error), 504) from None
    except StreamError as error:
        raise Failed(str(error)) from None
    except MessageError as error:
        raise Failed(f"sent a wrong answer: {error}") from None
    except TooLarge:
        raise Failed("sent an answer that is too large") from None


async def _connect(server: Server, limits: Limits) -> Stream:
    """Without asyncio.wait_for: before CPython 3.12 it may swallow a cancel."""
    opening = asyncio.ensure_future(asyncio.open_connection(server.host, server.port))
    try:
        await asyncio.wait((opening,), timeout=limits.connect)
        if not opening.done():
            raise Unreached(f"took no connection within {limits.connect:g} s")
        reader, writer = opening.result()
    except asyncio.CancelledError:
        if opening.done() and not opening.cancelled() and not opening.exception():
            opening.result()[1].transport.abort()
        raise
    except OSError as error:
        raise Unreached(f"cannot be connected to: {error.strerror or error}") from None
    finally:
        opening.cancel()
    return Stream(reader, writer, limits.silence)


async def _answer_head(stream: Stream) -> AnswerHead:
    for _ in range(INTERIM_MAX):
        bytes_ = await stream.head(stream.silence)
        if bytes_ is None:
            raise Failed("closed the connection before it answered")
        head = parse_answer(bytes_)
        if head.status == 101:
            raise MessageError("it changes to another protocol")
        if head.status >= 200:
            return head
    raise MessageError("it sends only interim answers")


@contextlib.asynccontextmanager
async def ask(
    server: Server,
    method: str,
    path: str,
    headers: Iterable[tuple[str, str]],
    body: bytes,
    limits: Limits,
) -> AsyncIterator[Reply]:
    """Leaving the block ends the connection, and with it the request at the server. Raises
    Unreached, which also marks the server as down, or Failed."""
    try:
        stream = await _connect(server, limits)
    except Unreached as error:
        server.down = str(error)
        raise
    try:
        own = [("host", server.authority), ("connection", "close")]
        if method == "POST":
            own.append(("content-length", str(len(body))))
        with _as_failed():
            await stream.write(render(f"{method} {server.path}{path} HTTP/1.1", [*own, *headers]))
            await stream.write(body)
            head = await _answer_head(stream)
            framing = answer_framing(head)
        yield Reply(head, framing, stream)
    finally:
        stream.abort()
