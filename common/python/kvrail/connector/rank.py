"""Both books of one rank, driven by the commands of a scheduler in another process.

A command of prefill.py or decode.py becomes events of the books. The machines' actions for kvrail
are taken with `source_calls` and `target_calls`, in order; the answers to the scheduler gather in
`take_results`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import decode, prefill, source, target
from .blocks import missing_pages
from .book import Book
from .machine import Limits

__all__ = ["Rank", "Results"]

Command = prefill.Action | decode.Queue | decode.Fetch | decode.Release


@dataclass(slots=True)
class Results:
    """What has ended since the last look, by the engine's own ids. A failed load is in `received`
    too."""

    sent: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    failed: dict[str, target.LoadFailed] = field(default_factory=dict)
    outcomes: list[tuple[str, str]] = field(default_factory=list)  # of publishes: (id, status)

    def __bool__(self) -> bool:
        return bool(self.sent or self.received)


class Rank:
    """One connection's requests. Not for several threads. `tail` takes (id, bytes) of a source's
    tail."""

    def __init__(
        self,
        source_limits: Limits,
        target_limits: Limits,
        tail: Callable[[str, bytes], None] = lambda key, data: None,
    ) -> None:
        self.sources: Book[source.Source] = Book(
            source.step, source.Event(source.On.AGENT_UP), source.Event(source.On.TIMER)
        )
        self.targets: Book[target.Target] = Book(
            target.step, target.Event(target.On.AGENT_UP), target.Event(target.On.TIMER)
        )
        self._source_limits, self._target_limits, self._tail = source_limits, target_limits, tail
        self._results = Results()
        self._unsettled: dict[str, str] = {}  # publishes whose end waits for Settle: its status
        self._source_calls: list[tuple[str, Any]] = []
        self._target_calls: list[tuple[str, Any]] = []

    def __contains__(self, key: str) -> bool:
        """It has not ended, or its end has not been reported."""
        return key in self.sources or key in self.targets or key in self._unsettled

    def command(self, command: Command, now: float) -> None:
        match command:
            case prefill.Publish():
                self._publish(command, now)
            case prefill.Settle():
                self._settle(command.key)
            case decode.Queue():
                self._queue(command, now)
            case decode.Fetch():
                self._fetch(command, now)
            case decode.Release():
                self.targets.feed(
                    command.key, target.Event(target.On.COVERED, tokens=command.tokens), now
                )
            case prefill.Withdraw():
                self._settle(command.key)
                self.sources.feed(command.key, source.Event(source.On.ABORT), now)
                self.targets.feed(command.key, target.Event(target.On.ABORT), now)
        self._sort()

    def source_event(self, key: str, event: source.Event, now: float) -> None:
        self.sources.feed(key, event, now)
        self._sort()

    def target_event(self, key: str, event: target.Event, now: float) -> None:
        self.targets.feed(key, event, now)
        self._sort()

    def source_agent(self, is_up: bool, now: float) -> None:
        self.sources.agent(is_up, now)
        self._sort()

    def target_agent(self, is_up: bool, now: float) -> None:
        self.targets.agent(is_up, now)
        self._sort()

    def tick(self, now: float) -> None:
        self.sources.tick(now)
        self.targets.tick(now)
        self._sort()

    def source_calls(self) -> list[tuple[str, Any]]:
        """The publishes' actions for kvrail since the last call: (id, action). To carry one out may
        make more."""
        calls, self._source_calls = self._source_calls, []
        return calls

    def target_calls(self) -> list[tuple[str, Any]]:
        """As source_calls, of the fetches."""
        calls, self._target_calls = self._target_calls, []
        return calls

    def take_results(self) -> Results:
        """The caller's to keep: nothing is added to it later."""
        results, self._results = self._results, Results()
        return results

    # ---- parts ----------------------------------------------------------------------------------

    def _publish(self, command: prefill.Publish, now: float) -> None:
        """Late: all pages and the seal at once. An id that is in use already cannot be published:
        its blocks are the engine's."""
        if command.after_step:
            self._unsettled[command.key] = ""
        if command.key in self.sources:
            self._end_source(command.key, "exists")
            return
        record = source.source(
            command.request,
            command.attempt,
            command.tokens,
            self.sources.next_serial(),
            self._source_limits,
            command.secret,
            command.tenant,
        )
        self.sources.add(command.key, record, now)
        chunk = source.Chunk(command.blocks, command.tokens)
        self.sources.feed(command.key, source.Event(source.On.CHUNK, chunk=chunk), now)
        self.sources.feed(command.key, source.Event(source.On.SEAL), now)

    def _queue(self, command: decode.Queue, now: float) -> None:
        if command.key not in self.targets:
            record = target.target(
                command.request,
                command.offer,
                self.targets.next_serial(),
                self._target_limits,
                command.tokens,
            )
            self.targets.add(command.key, record, now)

    def _fetch(self, command: decode.Fetch, now: float) -> None:
        """A fetch that no record takes has failed: its request must not wait for ever."""
        event = target.Event(
            target.On.BLOCKS, tokens=command.tokens, skip=command.skip, groups=command.groups
        )
        if not self.targets.feed(command.key, event, now):
            pages = missing_pages(command.groups, command.skip, command.tokens)
            self._results.received.add(command.key)
            self._results.failed[command.key] = target.LoadFailed(
                command.request, command.skip, pages, "not_found"
            )

    def _settle(self, key: str) -> None:
        if status := self._unsettled.pop(key, ""):
            self._end_source(key, status)

    def _end_source(self, key: str, status: str) -> None:
        if key in self._unsettled:
            self._unsettled[key] = status
            return
        self._results.sent.add(key)
        self._results.outcomes.append((key, status))

    def _sort(self) -> None:
        """Actions for kvrail stay in order; answers go to the results."""
        for key, action in self.sources.take():
            if isinstance(action, source.Freed):
                self._end_source(key, action.status)
            elif not isinstance(action, source.Returned):
                self._source_calls.append((key, action))
        for key, action in self.targets.take():
            match action:
                case target.Loaded() | target.Stopped():
                    self._results.received.add(key)
                case target.LoadFailed():
                    self._results.received.add(key)
                    self._results.failed[key] = action
                case target.Tail():
                    self._tail(key, action.bytes)
                case _:
                    self._target_calls.append((key, action))
