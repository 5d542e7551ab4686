"""One connection of one engine rank to the agent on its host."""

from __future__ import annotations

import ctypes
import os
import select
import time
import weakref
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._abi import Digest, Status, Store
from ._closing import Closing
from ._library import library, text
from .errors import Closed, Invalid, RegionPending, UsedAfterFork, check, error_of
from .values import (
    Event,
    Identity,
    PageIds,
    Region,
    SourceAddress,
    encoded,
    event_of,
    fill,
    page_ids,
    u32,
    u64,
)

_EVENTS_PER_POLL = 64
_EVENT_BYTES = ctypes.sizeof(_abi.kvrail_event)


_process = object()  # this process; to ask the kernel for its number would cost each call more


def _is_another_process() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_is_another_process)


def _close(own: Any, process: object) -> None:
    # In a child of fork, closing would end the parent's connection.
    if process is _process:
        library().kvrail_close(own)


def secret_draw() -> str:
    """A secret for a request: for an engine with several ranks, or a router that starts both
    engines."""
    secret = ctypes.create_string_buffer(_abi.SECRET_BYTES)
    library().kvrail_secret_draw(secret)
    return secret.value.decode()


def _secret(text: str | None) -> bytes | None:
    return None if text is None else encoded(text, "a secret")


def _milliseconds(seconds: float) -> int:
    return min(max(int(seconds * 1000), 0), (1 << 32) - 1)


class Connection(Closing):
    """kvrail.h explains each call; they have its names here. One thread at a time may use a
    connection; only `ready` and `landed` may be called from any thread. No call waits but the
    constructor, `region_add`, `wait` and `drain`.

    Every publish and every fetch that was opened ends in exactly one terminal event, also after
    `cancel`. Before it the pages are not yours: cancel, poll for the terminal events (`drain` does
    both), then close."""

    def __init__(self, socket_path: str, identity: Identity, timeout: float = 10.0) -> None:
        """Connects to the agent that listens there and waits so many seconds for its answer."""
        own, error = ctypes.c_void_p(), _abi.kvrail_error()
        path = encoded(socket_path, "the socket path")
        check(
            library().kvrail_open(
                path, identity.to_c(), _milliseconds(timeout), ctypes.byref(own), error
            ),
            error,
        )
        self._library = library()
        self._own: ctypes.c_void_p | None = own
        self._process, self._process_number = _process, os.getpid()
        self._finalize = weakref.finalize(self, _close, own, self._process)
        self._events = (_abi.kvrail_event * _EVENTS_PER_POLL)()
        self._handles: set[int] = set()
        self.socket_path = socket_path
        self.agent_name: str = text(self._library.kvrail_agent_name(own))
        # Where targets dial a prefill-agent: SourceAddress.agent.
        self.agent_address: str = text(self._library.kvrail_agent_address(own))
        self._fd: int = self._library.kvrail_event_fd(own)

    # ---- life ----------------------------------------------------------------------------------

    @property
    def _live(self) -> Any:
        """The library's connection, if it may be used here."""
        if self._own is None:
            raise Closed(
                Status.INVALID,
                f"the connection to agent '{self.agent_name}' was closed: open another",
            )
        if self._process is not _process:
            raise UsedAfterFork(
                Status.INVALID,
                f"the connection to agent '{self.agent_name}' belongs to process "
                f"{self._process_number}: a fork, as this process {os.getpid()}, must open its own",
            )
        return self._own

    def _check(self, status: int) -> None:
        if status != Status.OK:
            check(status, self._library.kvrail_last_error(self._own).contents)

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return self._own is None

    @property
    def handles(self) -> frozenset[int]:
        """Publishes and fetches whose terminal event has not come."""
        return frozenset(self._handles)

    def close(self) -> None:
        """Ends the connection; any number of times. The agent cancels open handles, and no event says
        when their pages are free. In a child of fork it does nothing to the parent's connection."""
        self._own = None
        self._finalize()

    # ---- regions -------------------------------------------------------------------------------

    def region_add(self, region: Region, timeout: float = 60.0) -> int:
        """Registers memory with the agent's cards and waits for it. Returns the region's number.
        RegionPending: an event REGION_READY or REGION_GONE follows."""
        number = ctypes.c_uint32()
        status = self._library.kvrail_region_add(
            self._live, region.to_c(), _milliseconds(timeout), number
        )
        if status == Status.TIMED_OUT:
            pending = RegionPending(
                status, text(self._library.kvrail_last_error(self._own).contents.detail)
            )
            pending.region = number.value
            raise pending
        self._check(status)
        return number.value

    def region_drop(self, region: int) -> None:
        """Asks for the region back: event REGION_GONE follows."""
        self._check(self._library.kvrail_region_drop(self._live, u32(region, "region")))

    # ---- source --------------------------------------------------------------------------------

    def source_open(
        self,
        request: str,
        tokens: int,
        *,
        attempt: int = 0,
        consumers: int = 0,
        lease_ms: int = 0,
        priority: int = 0,
        secret: str | None = None,
        tenant: str | None = None,
    ) -> int:
        """Announces a request that this rank computes, and returns its handle. Without `secret` one
        is drawn: source_secret returns it."""
        options = _abi.kvrail_source_options(
            size=ctypes.sizeof(_abi.kvrail_source_options),
            request=encoded(request, "a request id"),
            secret=_secret(secret),
            tenant=None if tenant is None else encoded(tenant, "a tenant"),
        )
        fill(
            options,
            tokens=tokens,
            attempt=attempt,
            consumers=consumers,
            lease_ms=lease_ms,
            priority=priority,
        )
        return self._opened(self._library.kvrail_source_open, options)

    def _opened(self, open_: Any, options: ctypes.Structure) -> int:
        handle = ctypes.c_uint64()
        self._check(open_(self._live, options, handle))
        self._handles.add(handle.value)
        return handle.value

    def source_secret(self, source: int) -> str:
        """The secret of an open publish, for the target engine and no one else."""
        secret = ctypes.create_string_buffer(_abi.SECRET_BYTES)
        self._check(
            self._library.kvrail_source_secret(self._live, u64(source, "source"), secret)
        )
        return secret.value.decode()

    def _pages(self, give: Any, handle: int, group: int, ids: PageIds) -> None:
        own = page_ids(ids)
        address, count = own.buffer_info()
        self._check(give(self._live, u64(handle, "handle"), u32(group, "group"), address, count))

    def source_pages(self, source: int, group: int, ids: PageIds) -> None:
        """Appends physical page ids of one KV group, in logical order."""
        self._pages(self._library.kvrail_source_pages, source, group, ids)

    def source_watch(
        self, source: int, word: int, base: int, token_first: int, token_end: int
    ) -> None:
        """Announces a segment: when `word` has reached base + n, its first n layers are final."""
        self._check(
            self._library.kvrail_source_watch(
                self._live,
                u64(source, "source"),
                u32(word, "word"),
                u64(base, "base"),
                u64(token_first, "token_first"),
                u64(token_end, "token_end"),
            )
        )

    def ready(self, word: int, value: int) -> None:
        """Raises a readiness word: what was stored to the pages before may be read. Any thread."""
        status = self._library.kvrail_ready(self._live, u32(word, "word"), u64(value, "value"))
        if status == Status.INVALID:
            raise Invalid(
                status,
                f"word {word} cannot become {value}: there are {_abi.WORDS_MAX}, and they only grow",
            )
        if status != Status.OK:
            raise error_of(status)

    def words_on_device(self) -> int:
        """The address of the readiness words on the GPU of the current context."""
        return self._address(self._library.kvrail_words_on_device)

    def _address(self, call: Any) -> int:
        address = ctypes.c_uint64()
        self._check(call(self._live, address))
        return address.value

    def _on_stream(self, call: Any, word: int, value: int, stream: int) -> Store:
        by = ctypes.c_int()
        self._check(call(self._live, u32(word, "word"), u64(value, "value"), stream, by))
        return Store(by.value)

    def ready_on_stream(self, word: int, value: int, stream: int) -> Store:
        """ready in the order of a CUDA stream (torch.cuda.Stream.cuda_stream)."""
        return self._on_stream(self._library.kvrail_ready_on_stream, word, value, stream)

    def source_tail(self, source: int, tail: bytes) -> None:
        """Sends bytes of the engine's own to the targets, once for each publish."""
        own = bytes(tail)
        self._check(
            self._library.kvrail_source_tail(self._live, u64(source, "source"), own, len(own))
        )

    def source_end(self, source: int, outcome: int = Status.OK) -> None:
        """OK: nothing more will be published. A failure aborts the request with that status."""
        self._check(
            self._library.kvrail_source_end(self._live, u64(source, "source"), int(outcome))
        )

    # ---- target --------------------------------------------------------------------------------

    def target_open(
        self,
        request: str,
        tokens: int,
        sources: Sequence[SourceAddress],
        *,
        attempt: int = 0,
        skip_tokens: int = 0,
        deadline_ms: int = 0,
        priority: int = 0,
        digest: Digest = Digest.DEFAULT,
        secret: str | None = None,
        tenant: str | None = None,
    ) -> int:
        """Asks for the KV of a request, and returns its handle. `secret` is that of its publish; only
        an agent with --insecure takes a fetch without one."""
        own = (_abi.kvrail_source_address * max(len(sources), 1))()
        for to, source in zip(own, sources):
            source.set_c(to)
        options = _abi.kvrail_target_options(
            size=ctypes.sizeof(_abi.kvrail_target_options),
            request=encoded(request, "a request id"),
            digest=digest,
            sources=own,
            secret=_secret(secret),
            tenant=None if tenant is None else encoded(tenant, "a tenant"),
        )
        fill(
            options,
            tokens=tokens,
            attempt=attempt,
            skip_tokens=skip_tokens,
            deadline_ms=deadline_ms,
            priority=priority,
            source_count=len(sources),
        )
        return self._opened(self._library.kvrail_target_open, options)

    def target_skip(self, target: int, group: int, skip_tokens: int) -> None:
        """Sets skip_tokens of one KV group, before the first target_pages; after target_hold it may
        only grow. Where every group would skip all tokens, an older agent makes it UNSUPPORTED:
        cancel the fetch."""
        self._check(
            self._library.kvrail_target_skip(
                self._live,
                u64(target, "target"),
                u32(group, "group"),
                u64(skip_tokens, "skip_tokens"),
            )
        )

    def target_hold(self, target: int) -> None:
        """The sources learn of the fetch before it has pages: its publish needs no lease.
        target_skip may follow. Nothing happens where the agent is older than the library."""
        self._check(self._library.kvrail_target_hold(self._live, u64(target, "target")))

    def target_pages(self, target: int, group: int, ids: PageIds) -> None:
        """As source_pages; logical page 0 holds token 0, skipped tokens included."""
        self._pages(self._library.kvrail_target_pages, target, group, ids)

    def target_watch(self, target: int, word: int, base: int) -> None:
        """Binds the fetch to a landed word, so that a stream can wait for its layers."""
        self._check(
            self._library.kvrail_target_watch(
                self._live, u64(target, "target"), u32(word, "word"), u64(base, "base")
            )
        )

    def landed(self, word: int) -> int:
        """The value of a landed word. Any thread."""
        value: int = self._library.kvrail_landed(self._live, u32(word, "word"))
        return value

    def landed_on_device(self) -> int:
        """The address of the landed words on the GPU of the current context."""
        return self._address(self._library.kvrail_landed_on_device)

    def landed_on_stream(self, word: int, value: int, stream: int) -> Store:
        """Lets a CUDA stream wait until the landed word is at least `value`."""
        return self._on_stream(self._library.kvrail_landed_on_stream, word, value, stream)

    # ---- both ----------------------------------------------------------------------------------

    def cancel(self, handle: int, reason: int = Status.CANCELLED) -> None:
        """Asks to stop; the terminal event follows. In any state, any number of times."""
        self._check(self._library.kvrail_cancel(self._live, u64(handle, "handle"), int(reason)))

    def renew(self, source: int, lease_ms: int) -> None:
        """Sets the end of a publish's lease to so many ms from now."""
        self._check(
            self._library.kvrail_renew(self._live, u64(source, "source"), u32(lease_ms, "lease_ms"))
        )

    def why(self, handle: int) -> None:
        """Asks what a handle waits for: event WHY brings JSON as payload."""
        self._check(self._library.kvrail_why(self._live, u64(handle, "handle")))

    # ---- events --------------------------------------------------------------------------------

    def fileno(self) -> int:
        """A descriptor that is readable when poll has something to do: for select, asyncio."""
        _ = self._live
        return self._fd

    def poll(self) -> list[Event]:
        """The events that have come, oldest first, and sends queued requests. Never waits. AgentLost,
        or another failure: the connection has ended, and there will never be another event."""
        got: int = self._library.kvrail_poll_sized(
            self._live, self._events, _EVENTS_PER_POLL, _EVENT_BYTES
        )
        if got == 0:
            return []
        if got < 0:
            raise error_of(got, f"the connection to agent '{self.agent_name}' has ended")
        events = [event_of(self._events[i]) for i in range(got)]
        for event in events:
            if event.terminal:
                self._handles.discard(event.handle)
        return events

    def wait(self, timeout: float | None = None) -> list[Event]:
        """As poll, but waits for the first event, at most so many seconds: then the list is empty."""
        end = None if timeout is None else time.monotonic() + timeout
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        while True:
            events = self.poll()
            left = None if end is None else (end - time.monotonic()) * 1000
            if events or (left is not None and left <= 0):
                return events
            poller.poll(left)

    def drain(self, timeout: float | None = None) -> list[Event]:
        """Cancels every open handle and waits for their terminal events. Returns all events that came.
        TimedOut with the handles that are still open: their pages are not free."""
        end = None if timeout is None else time.monotonic() + timeout
        events: list[Event] = []
        asked: set[int] = set()
        while self._handles:
            for handle in self._handles - asked:
                status = self._library.kvrail_cancel(self._live, handle, Status.CANCELLED)
                if status == Status.OK:
                    asked.add(handle)
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise error_of(
                    Status.TIMED_OUT,
                    f"{len(self._handles)} publishes and fetches have not ended after {timeout} s",
                )
            events += self.wait(left)
        return events
