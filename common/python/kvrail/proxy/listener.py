"""Clients' connections: their limits, their requests one after the other, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import uuid
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from .client import Client, log
from .message import MessageError, RequestHead, parse_request, request_framing, value_of
from .relay import Relay
from .servers import Pool, Server
from .stream import Silent, Stream, StreamError, TooLarge
from .upstream import Failed, Limits, Unreached, ask

__all__ = ["Bounds", "Listener", "watch"]

HEALTH_BYTES_MAX = 65536
LINGER_SECONDS = 2.0
HANDSHAKE_SECONDS = 10.0
# Of a request that could not be read: the answer goes to something that has these.
UNREAD = RequestHead("GET", "/", 1, (("connection", "close"),))


@dataclass(frozen=True, slots=True)
class Bounds:
    clients: int = 1024  # connections
    body: int = 64 << 20  # bytes of a request
    head: float = 75.0  # seconds for a head, and between two requests


class Listener:
    def __init__(
        self, relay: Relay, bounds: Bounds, silence: float, context: ssl.SSLContext | None = None
    ) -> None:
        """With `context` clients speak TLS."""
        self._context = context
        self._relay, self._bounds, self._silence = relay, bounds, silence
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._server: asyncio.base_events.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """The port that was bound."""
        more = {"ssl": self._context, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        self._server = await asyncio.start_server(
            self._accepted, host, port, backlog=1024, **(more if self._context else {})
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def end(self, grace: float) -> None:
        """Ends idle connections, and the others when their answers have ended or `grace` is over."""
        assert self._server is not None
        self._relay.ending = True
        self._server.close()
        for task in self._tasks - self._busy:
            task.cancel()
        if self._busy:
            log.info("ending: %d requests run, for %g s at most", len(self._busy), grace)
            await asyncio.wait(set(self._busy), timeout=grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(Stream(reader, writer, self._silence)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: Stream) -> None:
        try:
            if len(self._tasks) > self._bounds.clients:
                await _refuse(stream, 503, f"{self._bounds.clients} clients are connected already")
            else:
                while await self._one(stream):
                    pass
            await stream.close()
        except StreamError:
            self._relay.metrics.count("clients_gone")
        except Exception:
            log.exception("a client's connection ends")
        finally:
            stream.abort()

    async def _one(self, stream: Stream) -> bool:
        """One request; whether there may be another."""
        try:
            text = await stream.head(self._bounds.head)
        except Silent:
            return False
        except MessageError as error:
            return await _refuse(stream, error.status, str(error))
        if text is None:
            return False
        me = asyncio.current_task()
        assert me is not None
        self._busy.add(me)
        try:
            head = parse_request(text)
            body = await self._body(head, stream)
            return await _while_there(self._relay.handle(head, body, stream), stream)
        except MessageError as error:
            return await _refuse(stream, error.status, str(error))
        except TooLarge:
            most = self._bounds.body
            return await _refuse(stream, 413, f"the body is larger than {most} bytes (--body-max)")
        finally:
            self._busy.discard(me)

    async def _body(self, head: RequestHead, stream: Stream) -> bytes:
        framing = request_framing(head)
        expected = value_of(head.headers, "expect")
        if expected is not None and expected.lower() != "100-continue":
            raise MessageError(f"Expect must be 100-continue, not {expected[:80]!r}", 417)
        if framing.length > self._bounds.body:
            raise TooLarge
        if expected is not None and head.minor >= 1:
            await stream.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await stream.whole_body(framing, self._bounds.body)


async def _refuse(stream: Stream, status: int, sentence: str) -> bool:
    """The answer to a request that was not read to its end. Nothing more can be read after it."""
    client = Client(UNREAD, stream, uuid.uuid4().hex)
    await client.refuse(status, sentence)
    await stream.linger(LINGER_SECONDS)
    return False


async def _while_there(work: Coroutine[Any, Any, bool], stream: Stream) -> bool:
    """The result of the work, which is cancelled when the client closes its connection."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(stream.until_gone())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise StreamError("the client closed its connection")
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
        with contextlib.suppress(asyncio.CancelledError, StreamError):
            await asyncio.gather(task, gone, return_exceptions=True)


async def _healthy(server: Server, limits: Limits) -> str:
    """Why the server gets no requests; empty if it gets some. Any answer but one of 5xx will do:
    not every server has the path."""
    try:
        async with ask(server, "GET", "/health", (), b"", limits) as reply:
            await reply.whole(HEALTH_BYTES_MAX)
            status = reply.head.status
    except (Unreached, Failed) as error:
        return str(error)
    return f"answers /health with status {status}" if status >= 500 else ""


async def watch(pools: Iterable[Pool], limits: Limits, interval: float) -> None:
    """Asks every server for its health, for ever."""
    async def watch_one(role: str, server: Server) -> None:
        said = server.down
        while True:
            server.down = await _healthy(server, limits)
            if server.down != said:
                state = f"is down: {server.down}" if server.down else "is up"
                log.warning("%s server %s %s", role, server, state)
            said = server.down
            await asyncio.sleep(interval)

    await asyncio.gather(
        *(watch_one(pool.role, server) for pool in pools for server in pool.servers)
    )
