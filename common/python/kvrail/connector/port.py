"""Actions of one side as calls of kvrail, and kvrail's events as events of that side.

kvrail is not imported: a connection is anything with the methods of kvrail.Connection. Its failures
are exceptions with a `status`, an enum with the names of kvrail_status_name. AGAIN puts a call off,
and all that follow it, to the next `flush`: calls of one connection stay in order.

`feed` takes (request, event). `lost` is called once, when no new work may come: before the terminal
events of a lost agent. `pages` turns an engine's block ids of a KV group into page ids.

`runs`, a member, is called when the agent's process stands still (False, with kvrail's sentence), and
when it runs again (True). What is lent then stays lent: only terminal events hand pages back.

A port lives as long as its connection. When the agent is lost, kvrail gives the terminal events
first; then `poll` raises, the port is `dead`, and what it never could open is reported as lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from . import source, target
from .blocks import Group
from .machine import Ticket

__all__ = ["Connection", "SourcePort", "TargetPort"]


class Connection(Protocol):
    def source_open(
        self,
        request: str,
        tokens: int,
        *,
        attempt: int,
        lease_ms: int,
        secret: str | None,
        tenant: str | None,
    ) -> int: ...
    def source_pages(self, source: int, group: int, ids: Sequence[int]) -> None: ...
    def source_watch(
        self, source: int, word: int, base: int, token_first: int, token_end: int
    ) -> None: ...
    def source_tail(self, source: int, tail: bytes) -> None: ...
    def source_end(self, source: int) -> None: ...
    def target_open(
        self,
        request: str,
        tokens: int,
        sources: Sequence[Any],
        *,
        attempt: int,
        skip_tokens: int,
        deadline_ms: int,
        secret: str | None,
        tenant: str | None,
    ) -> int: ...
    def target_skip(self, target: int, group: int, skip_tokens: int) -> None: ...
    def target_hold(self, target: int) -> None: ...
    def target_pages(self, target: int, group: int, ids: Sequence[int]) -> None: ...
    def cancel(self, handle: int, reason: int) -> None: ...
    def renew(self, source: int, lease_ms: int) -> None: ...
    def poll(self) -> list[Any]: ...
    def close(self) -> None: ...


CONNECTION_ENDS = frozenset({"AGENT_LOST", "REFUSED"})  # events; terminal events follow
AGENT_RUNS = {"AGENT_SILENT": False, "AGENT_BACK": True}  # events of the agent's process
CANCEL_REASONS = {"cancelled": -20, "expired": -21}  # KVRAIL_CANCELLED, KVRAIL_EXPIRED
AGENT_LOST = "agent_lost"


def status_of(error: BaseException) -> str:
    """The status' name, or "" for an exception that is not kvrail's."""
    name = getattr(getattr(error, "status", None), "name", "")
    return str(name).lower()


class _Port:
    """Both directions of one connection. `said` takes the sentence of a request that ends."""

    def __init__(
        self,
        connection: Connection,
        feed: Callable[[str, Any], None],
        lost: Callable[[], None],
        pages: Callable[[int, Sequence[int]], Sequence[int]],
        said: Callable[[str, str], None],
    ) -> None:
        self.connection = connection
        self.losing = self.dead = False
        self.runs: Callable[[bool, str], None] = lambda runs, detail: None
        self.dead_reason = ""
        self._feed, self._lost, self._pages, self._said = feed, lost, pages, said
        self._handles: dict[Ticket, int] = {}
        self._owners: dict[int, tuple[str, Ticket]] = {}
        self._unopened: dict[Ticket, str] = {}  # asked for, not opened yet
        self._backlog: deque[Callable[[], None]] = deque()

    @property
    def open_handles(self) -> int:
        return len(self._handles)

    def carry_out(self, key: str, action: Any) -> None:
        """May feed events, and these may make further actions."""
        if isinstance(action, (source.OpenSource, target.OpenTarget)):
            if self.dead:
                self._feed(key, self._ended(action.ticket, AGENT_LOST))
                return
            self._unopened[action.ticket] = key
        self._backlog.extend(self._calls(key, action))
        self.flush()

    def flush(self) -> None:
        """Calls as far as the connection takes them."""
        while self._backlog and not self.dead:
            try:
                self._backlog[0]()
            except Exception as error:
                name = status_of(error)
                if name == "again":
                    return
                if name == AGENT_LOST:
                    break
                if not name:
                    raise
            self._backlog.popleft()
        if self.dead:
            self._backlog.clear()

    def poll(self) -> None:
        """Takes every event that has come, and flushes."""
        while not self.dead:
            try:
                events = self.connection.poll()
            except Exception as error:
                if not status_of(error):
                    raise
                self._die(error)
                return
            for event in events:
                self._take(event)
            if not events:
                break
        self.flush()

    # ---- parts ----------------------------------------------------------------------------------

    def _calls(self, key: str, action: Any) -> Iterable[Callable[[], None]]:
        raise NotImplementedError

    def _event(self, event: Any, ticket: Ticket) -> Any:
        raise NotImplementedError

    def _ended(self, ticket: Ticket, status: str) -> Any:
        raise NotImplementedError

    def _open(self, key: str, ticket: Ticket, call: Callable[[], int]) -> Callable[[], None]:
        """Opens, and remembers the handle. A failure is the terminal event; a lost agent's comes with
        the next poll, after all have been told of the loss: else the record would be opened at once
        at the same connection, and again without end."""

        def opened() -> None:
            try:
                handle = call()
            except Exception as error:
                name = status_of(error)
                if name in ("", "again", AGENT_LOST):
                    raise
                del self._unopened[ticket]
                self._said(key, str(error))
                self._feed(key, self._ended(ticket, name))
                return
            del self._unopened[ticket]
            self._handles[ticket] = handle
            self._owners[handle] = (key, ticket)

        return opened

    def _on(
        self, ticket: Ticket, call: Callable[..., Any], *arguments: Any, must: bool = True
    ) -> Callable[[], None]:
        """A call for an open handle. One that fails for good ends the request: without its pages it
        would wait for ever."""

        def called() -> None:
            handle = self._handles.get(ticket)
            if handle is None:
                return
            try:
                call(handle, *arguments)
            except Exception as error:
                if not must or status_of(error) in ("", "again", AGENT_LOST, "not_found"):
                    raise
                self.connection.cancel(handle, CANCEL_REASONS["cancelled"])

        return called

    def _take(self, event: Any) -> None:
        if event.kind.name in CONNECTION_ENDS:
            self._losing()
        if (runs := AGENT_RUNS.get(event.kind.name)) is not None:
            self.runs(runs, event.detail)
        owner = self._owners.get(event.handle)
        if owner is None:
            return
        key, ticket = owner
        if event.terminal:
            del self._owners[event.handle], self._handles[ticket]
            self._said(key, event.detail)
        ours = self._event(event, ticket)
        if ours is not None:
            self._feed(key, ours)

    def _losing(self) -> None:
        """No new work, from before the first terminal event on."""
        if not self.losing:
            self.losing = True
            self._lost()

    def _die(self, error: BaseException) -> None:
        """There will never be another event."""
        self._losing()
        self.dead, self.dead_reason = True, str(error)
        self._backlog.clear()
        left = [*self._owners.values(), *((key, ticket) for ticket, key in self._unopened.items())]
        self._owners, self._handles, self._unopened = {}, {}, {}
        for key, ticket in left:
            self._feed(key, self._ended(ticket, AGENT_LOST))


class SourcePort(_Port):
    """`word` is a readiness word that has been raised to the number of layers, so that a chunk's
    bytes are ready when the chunk is announced (late publish)."""

    def __init__(
        self,
        connection: Connection,
        feed: Callable[[str, Any], None],
        lost: Callable[[], None] = lambda: None,
        pages: Callable[[int, Sequence[int]], Sequence[int]] = lambda group, blocks: blocks,
        word: int = 0,
        said: Callable[[str, str], None] = lambda key, detail: None,
    ) -> None:
        super().__init__(connection, feed, lost, pages, said)
        self._word = word

    def _calls(self, key: str, action: Any) -> Iterable[Callable[[], None]]:
        to, ticket = self.connection, action.ticket
        match action:
            case source.OpenSource(request=request, attempt=attempt, tokens=tokens):
                lease_ms, secret, tenant = action.lease_ms, action.secret, action.tenant
                yield self._open(
                    key,
                    ticket,
                    lambda: to.source_open(
                        request,
                        tokens,
                        attempt=attempt,
                        lease_ms=lease_ms,
                        secret=secret or None,
                        tenant=tenant or None,
                    ),
                )
            case source.GivePages(chunk=chunk, token_first=first):
                for group, ids in enumerate(chunk.pages):
                    if ids:
                        yield self._on(ticket, to.source_pages, group, self._pages(group, ids))
                yield self._on(ticket, to.source_watch, self._word, 0, first, chunk.token_end)
            case source.EndSource(tail=tail):
                if tail:
                    yield self._on(ticket, to.source_tail, tail)
                yield self._on(ticket, to.source_end)
            case source.Renew(lease_ms=lease_ms):
                yield self._on(ticket, to.renew, lease_ms, must=False)
            case source.Cancel(reason=reason):
                yield self._on(ticket, to.cancel, CANCEL_REASONS[reason], must=False)

    def _ended(self, ticket: Ticket, status: str) -> source.Event:
        on = source.On.LOST if status == AGENT_LOST else source.On.ENDED
        return source.Event(on, ticket, status=status)

    def _event(self, event: Any, ticket: Ticket) -> source.Event | None:
        if event.terminal:
            return self._ended(ticket, event.status_name)
        on = {
            "ACCEPTED": source.On.ACCEPTED,
            "LEASE_LOW": source.On.LEASE_LOW,
            "LEASE_END": source.On.LEASE_END,
            "TARGET_REFUSED": source.On.REFUSED,
        }.get(event.kind.name)
        return None if on is None else source.Event(on, ticket, status=event.status_name)


class TargetPort(_Port):
    """`address` turns an offer's sources into kvrail.SourceAddress. `kv_groups` is the number of
    the engine's KV groups."""

    def __init__(
        self,
        connection: Connection,
        feed: Callable[[str, Any], None],
        lost: Callable[[], None] = lambda: None,
        pages: Callable[[int, Sequence[int]], Sequence[int]] = lambda group, blocks: blocks,
        address: Callable[[Any], Any] = lambda address: address,
        kv_groups: int = 1,
        said: Callable[[str, str], None] = lambda key, detail: None,
    ) -> None:
        super().__init__(connection, feed, lost, pages, said)
        self._address, self._kv_groups = address, kv_groups

    def _calls(self, key: str, action: Any) -> Iterable[Callable[[], None]]:
        match action:
            case target.OpenTarget():
                yield from self._open_calls(key, action)
            case target.GiveBlocks():
                yield from self._block_calls(action.ticket, action.groups, action.skip)
            case target.SkipAll(ticket=ticket, tokens=tokens):
                for number in range(self._kv_groups):
                    yield self._on(ticket, self.connection.target_skip, number, tokens)
            case source.Cancel(ticket=ticket, reason=reason):
                cancel = self.connection.cancel
                yield self._on(ticket, cancel, CANCEL_REASONS[reason], must=False)

    def _open_calls(self, key: str, action: target.OpenTarget) -> Iterable[Callable[[], None]]:
        to, ticket = self.connection, action.ticket
        sources = [self._address(address) for address in action.offer.sources]
        yield self._open(
            key,
            ticket,
            lambda: to.target_open(
                action.request,
                action.tokens,
                sources,
                attempt=action.offer.attempt,
                skip_tokens=action.skip,
                deadline_ms=int(action.hold * 1000),
                secret=action.offer.secret or None,
                tenant=action.offer.tenant or None,
            ),
        )
        if action.hold:
            yield self._on(ticket, to.target_hold)
        else:
            yield from self._block_calls(ticket, action.groups, None)

    def _block_calls(
        self, ticket: Ticket, groups: Sequence[Group], held_skip: int | None
    ) -> Iterable[Callable[[], None]]:
        """held_skip: of a fetch that is held, which was opened with none."""
        to = self.connection
        for number, group in enumerate(groups):
            skip = 0 if group.page_tokens == 0 else group.skip
            if skip is None and held_skip is not None:
                skip = held_skip // group.page_tokens * group.page_tokens
            if skip if held_skip is not None else skip is not None:
                yield self._on(ticket, to.target_skip, number, skip)
        for number, group in enumerate(groups):
            pages = self._pages(number, group.pages)
            yield self._on(ticket, to.target_pages, number, pages)

    def _ended(self, ticket: Ticket, status: str) -> target.Event:
        on = target.On.LOST if status == AGENT_LOST else target.On.FAILED
        return target.Event(on, ticket, status=status)

    def _event(self, event: Any, ticket: Ticket) -> target.Event | None:
        name = event.kind.name
        if name == "DONE":
            return target.Event(target.On.DONE, ticket, token_end=event.token_end)
        if event.terminal:
            on = target.On.LOST if event.status_name == AGENT_LOST else target.On.FAILED
            return target.Event(on, ticket, status=event.status_name, token_first=event.token_first)
        if name == "TAIL_IN":
            return target.Event(target.On.TAIL, ticket, tail=event.payload)
        kinds = {"ACCEPTED": target.On.ACCEPTED, "FAILING": target.On.FAILING}
        return (
            target.Event(kinds[name], ticket, status=event.status_name) if name in kinds else None
        )
