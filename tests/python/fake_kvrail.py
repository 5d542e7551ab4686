"""A connection with the methods of kvrail.Connection: it writes down the calls, and gives the
events of a test."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

Status = enum.IntEnum(
    "Status",
    {
        "OK": 0,
        "AGAIN": 1,
        "INVALID": -1,
        "NOT_FOUND": -3,
        "TIMED_OUT": -8,
        "UNSUPPORTED": -6,
        "CANCELLED": -20,
        "EXPIRED": -21,
        "NO_SOURCE": -22,
        "PEER_LOST": -50,
        "AGENT_LOST": -61,
    },
)
Kind = enum.Enum(
    "Kind",
    "ACCEPTED LAYER_IN TAIL_IN DONE FAILING FAILED CANCELLED EXPIRED SOURCE_FREE WHY AGENT_LOST "
    "LEASE_LOW LEASE_END TARGET_REFUSED PEER_UP AGENT_SILENT AGENT_BACK",
)
TERMINAL = {Kind.DONE, Kind.FAILED, Kind.CANCELLED, Kind.EXPIRED, Kind.SOURCE_FREE}


class KvrailError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(f"the call answers {name}")
        self.status = Status[name]


class Event(NamedTuple):
    kind: Kind
    terminal: bool
    handle: int
    status: Status
    status_name: str
    token_first: int = 0
    token_end: int = 0
    payload: bytes = b""
    detail: str = ""


CALLS_MOST = 100_000


class FakeConnection:
    """`fail[n]` is the name of the failure of the n-th call from now on, counted from 0."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.events: list[Event] = []
        self.fail: dict[int, str] = {}
        self.count = 0
        self.handles = 0
        self.deadlines: list[int] = []  # of the fetches, in milliseconds
        self.secrets: list[str | None] = []  # of publishes and fetches, as they were opened
        self.tenants: list[str | None] = []  # the same
        self.lost = self.closed = False

    def _call(self, *call: Any) -> None:
        number, self.count = self.count, self.count + 1
        assert number < CALLS_MOST, "calls without end"
        if self.lost:
            raise KvrailError("AGENT_LOST")
        if number in self.fail:
            raise KvrailError(self.fail[number])
        self.calls.append(call)

    def _open(self, *call: Any) -> int:
        self._call(*call)
        self.handles += 1
        return self.handles

    def source_open(self, request, tokens, *, attempt, lease_ms, secret, tenant):
        self.secrets.append(secret)
        self.tenants.append(tenant)
        return self._open("source_open", request, tokens, attempt, lease_ms)

    def source_pages(self, source, group, ids):
        self._call("source_pages", source, group, tuple(ids))

    def source_watch(self, source, word, base, token_first, token_end):
        self._call("source_watch", source, word, base, token_first, token_end)

    def source_tail(self, source, tail):
        self._call("source_tail", source, tail)

    def source_end(self, source):
        self._call("source_end", source)

    def target_open(
        self, request, tokens, sources, *, attempt, skip_tokens, deadline_ms, secret, tenant
    ):
        self.secrets.append(secret)
        self.tenants.append(tenant)
        self.deadlines.append(deadline_ms)
        return self._open("target_open", request, tokens, tuple(sources), attempt, skip_tokens)

    def target_skip(self, target, group, skip_tokens):
        self._call("target_skip", target, group, skip_tokens)

    def target_hold(self, target):
        self._call("target_hold", target)

    def target_pages(self, target, group, ids):
        self._call("target_pages", target, group, tuple(ids))

    def cancel(self, handle, reason):
        self._call("cancel", handle, reason)

    def renew(self, source, lease_ms):
        self._call("renew", source, lease_ms)

    def event(self, kind: str, handle: int, status: str = "OK", **fields: Any) -> None:
        of = Kind[kind]
        self.events.append(
            Event(of, of in TERMINAL, handle, Status[status], status.lower(), **fields)
        )

    def poll(self) -> list[Event]:
        events, self.events = self.events, []
        if not events and self.lost:
            raise KvrailError("AGENT_LOST")
        return events

    def close(self) -> None:
        self.closed = True
