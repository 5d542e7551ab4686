"""Events for asyncio. The connection is used in the loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from .connection import Connection
from .values import Event


async def poll(connection: Connection) -> list[Event]:
    """As Connection.poll, but waits for the first event. One task of a connection at a time."""
    loop = asyncio.get_running_loop()
    while True:
        events = connection.poll()
        if events:
            return events
        readable: asyncio.Future[None] = loop.create_future()
        descriptor = connection.fileno()
        loop.add_reader(descriptor, _set, readable)
        try:
            await readable
        finally:
            loop.remove_reader(descriptor)


def _set(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


async def events(connection: Connection) -> AsyncIterator[Event]:
    """Each event, until the connection ends with the exception of Connection.poll."""
    while True:
        for event in await poll(connection):
            yield event
