"""Stands in for libkvrail, below kvrail.Connection: what Python does for a call is measured, and the
call itself does nothing."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

from .. import _library
from .._abi import EventKind

__all__ = ["Library"]


class Library:
    """Every call is OK. `opened` are the handles in the order in which they were opened, and `calls`
    counts."""

    def __init__(self) -> None:
        self.calls = 0
        self.opened: list[int] = []
        self._connections = itertools.count(1)
        self._handles = itertools.count(1)
        self._owners: dict[int, int] = {}  # of an open handle: its connection
        self._events: dict[int, deque[tuple[int, EventKind]]] = {}  # by connection
        for name in ("pages", "watch", "tail", "end"):
            setattr(self, f"kvrail_source_{name}", self._taken)
        for name in ("pages", "skip", "hold"):
            setattr(self, f"kvrail_target_{name}", self._taken)
        self.kvrail_cancel = self.kvrail_renew = self.kvrail_close = self._taken
        self.kvrail_source_open = self.kvrail_target_open = self._open

    def install(self) -> None:
        """In this process, for all connections that are opened from now on."""
        _library._loaded = self

    def end(self, handle: int, kind: EventKind) -> None:
        """The terminal event comes with the next poll."""
        self._events[self._owners.pop(handle)].append((handle, kind))

    # ---- calls of the library -------------------------------------------------------------------

    def _taken(self, *arguments: Any) -> int:
        self.calls += 1
        return 0

    def _open(self, connection: Any, options: Any, ret_handle: Any) -> int:
        self.calls += 1
        ret_handle.value = handle = next(self._handles)
        self.opened.append(handle)
        self._owners[handle] = connection.value
        return 0

    def kvrail_open(self, path: bytes, identity: Any, ms: int, ret_own: Any, error: Any) -> int:
        ret_own._obj.value = number = next(self._connections)
        self._events[number] = deque()
        return 0

    def kvrail_agent_name(self, connection: Any) -> bytes:
        return b"none"

    def kvrail_agent_address(self, connection: Any) -> bytes:
        return b"none:1"

    def kvrail_event_fd(self, connection: Any) -> int:
        return -1

    def kvrail_poll_sized(self, connection: Any, events: Any, most: int, size: int) -> int:
        self.calls += 1
        come = self._events[connection.value]
        count = min(len(come), most)
        for place in range(count):
            event = events[place]
            event.handle, event.kind = come.popleft()
            event.terminal, event.status_name = 1, b"ok"
            event.bytes, event.token_end = 1, 1 << 40
        return count
