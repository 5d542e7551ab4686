"""HTTP/1.1 messages over one connection of asyncio.

Every wait for the other side ends after `silence` seconds without a byte: the connection is then
aborted and Silent raised. Nothing is read before somebody asks for it, and at most BUFFER_BYTES
more than asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from .message import HEAD_BYTES_MAX, Framing, Kind, MessageError, chunk_length

__all__ = ["Gone", "Silent", "Stream", "StreamError", "TooLarge"]

READ_BYTES = 65536
BUFFER_BYTES = 1 << 20
LINE_BYTES_MAX = 256
TRAILER_LINES_MAX = 100

T = TypeVar("T")


class StreamError(Exception):
    """The connection is of no more use; the text says why."""


class Gone(StreamError):
    """The other side has closed the connection."""


class Silent(StreamError):
    """The other side has sent, or taken, nothing for too long."""


class TooLarge(Exception):
    """A body is larger than its reader takes."""


class Stream:
    """Of one task at a time, but `write` and `until_gone`, which may run beside each other."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: float
    ) -> None:
        self.silence = silence
        self._reader, self._writer = reader, writer
        self._buffer = bytearray()
        self._expired = False

    # ---- bytes ----------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._expired = True
        self._writer.transport.abort()

    async def _bounded(self, work: Awaitable[T]) -> T:
        timer = asyncio.get_running_loop().call_later(self.silence, self._expire)
        try:
            result = await work
        except (OSError, EOFError) as error:
            if not self._expired:
                raise Gone(f"broke the connection: {error}") from None
            raise Silent(f"was silent for {self.silence:g} s") from None
        finally:
            timer.cancel()
        if self._expired:
            raise Silent(f"was silent for {self.silence:g} s")
        return result

    async def _fill(self) -> bool:
        """Appends to the buffer what comes; False at the end."""
        data = await self._bounded(self._reader.read(READ_BYTES))
        self._buffer += data
        return bool(data)

    def _take(self, length: int) -> bytes:
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        return data

    async def _until(self, mark: bytes, most: int) -> bytes | None:
        """The bytes before the mark, which is taken too. None if the connection ends before it, or
        if there is no mark in `most` bytes."""
        seen = 0
        while (end := self._buffer.find(mark, max(0, seen - len(mark)))) < 0:
            seen = len(self._buffer)
            if seen > most or not await self._fill():
                return None
        return self._take(end + len(mark))[:end] if end <= most else None

    async def until_gone(self) -> None:
        """Returns when the other side closes the connection; keeps the bytes that come before."""
        while len(self._buffer) < BUFFER_BYTES:
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError:
                return
            if not data:
                return
            self._buffer += data
        await asyncio.Event().wait()  # it has sent more than is read ahead

    async def write(self, data: bytes) -> None:
        """Raises Gone or Silent."""
        if self._writer.is_closing():
            raise Gone("closed the connection")
        self._writer.write(data)
        await self._bounded(self._writer.drain())

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """After the bytes that were written have gone out."""
        try:
            self._writer.close()
            await self._bounded(self._writer.wait_closed())
        except StreamError:
            pass

    async def linger(self, seconds: float) -> None:
        """Ends this direction, and drops what still comes. To close while the other side sends
        would reset the connection, and the other side might lose what was written last."""

        timer = asyncio.get_running_loop().call_later(seconds, self.abort)
        try:
            if not self._writer.can_write_eof():  # TLS ends both directions at once
                self._writer.close()
                await self._writer.wait_closed()
                return
            self._writer.write_eof()
            while await self._reader.read(READ_BYTES):
                pass
        except OSError:
            pass
        finally:
            timer.cancel()

    # ---- messages -------------------------------------------------------------------------------

    async def head(self, within: float) -> bytes | None:
        """All before an empty line; None where the other side closes instead of sending one. Raises
        Silent where it has not all come within so many seconds."""
        timer = asyncio.get_running_loop().call_later(within, self._expire)
        try:
            head = await self._until(b"\r\n\r\n", HEAD_BYTES_MAX)
        finally:
            timer.cancel()
        if head is None and len(self._buffer) > HEAD_BYTES_MAX:
            raise MessageError(f"the head is larger than {HEAD_BYTES_MAX} bytes", 431)
        if head is None and self._buffer:
            raise Gone("closed the connection within the head of a message")
        return head

    async def body(self, framing: Framing) -> AsyncIterator[bytes]:
        """The body in the pieces in which it comes. Raises Gone where it ends too early."""
        if framing.kind is Kind.LENGTH:
            async for data in self._exactly(framing.length):
                yield data
        elif framing.kind is Kind.CHUNKED:
            while length := chunk_length(await self._line()):
                async for data in self._exactly(length):
                    yield data
                if await self._line():
                    raise MessageError("a chunk is longer than its length says")
            for _ in range(TRAILER_LINES_MAX):
                if not await self._line():
                    return
            raise MessageError("the trailer of a body is too long")
        elif framing.kind is Kind.CLOSE:
            while self._buffer or await self._fill():
                yield self._take(len(self._buffer))

    async def whole_body(self, framing: Framing, most: int) -> bytes:
        """Raises TooLarge beyond `most` bytes."""
        if framing.kind is Kind.LENGTH and framing.length > most:
            raise TooLarge
        pieces, size = [], 0
        async for data in self.body(framing):
            size += len(data)
            if size > most:
                raise TooLarge
            pieces.append(data)
        return b"".join(pieces)

    async def _exactly(self, length: int) -> AsyncIterator[bytes]:
        while length:
            if not self._buffer and not await self._fill():
                raise Gone("closed the connection within a body")
            data = self._take(length)
            length -= len(data)
            yield data

    async def _line(self) -> bytes:
        line = await self._until(b"\r\n", LINE_BYTES_MAX)
        if line is None and len(self._buffer) > LINE_BYTES_MAX:
            raise MessageError("a line of a chunked body is too long")
        if line is None:
            raise Gone("closed the connection within a body")
        return line
