"""Many publishes or fetches of one connection.

A call costs O(requests that have something to do): those that an event names, those with a timer
that is due, and at the agent's return those that wait for it. A turn without events costs one
comparison, whatever the number of requests in flight.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from .machine import NEVER, Impossible, Ticket

__all__ = ["Book", "Record"]


class Record(Protocol):
    @property
    def state(self) -> Any: ...

    @property
    def ticket(self) -> Ticket: ...

    @property
    def serial(self) -> int: ...

    @property
    def timer(self) -> float: ...

    @property
    def awaits_agent(self) -> bool: ...

    @property
    def over(self) -> bool: ...


R = TypeVar("R", bound=Record)
Step = Callable[[Any, Any, float], tuple[Any, list[Any]]]


class Book(Generic[R]):
    """The records of one side, by the engine's own id of each request.

    `step` is source.step or target.step. `agent_up` and `timer` are the events AGENT_UP and TIMER
    of that side. Actions gather until `take`; each is a pair (key, action). Not for several
    threads."""

    def __init__(self, step: Step, agent_up: Any, timer: Any) -> None:
        self._step, self._agent_up, self._timer = step, agent_up, timer
        self._records: dict[str, R] = {}
        self._awaiting: dict[str, None] = {}  # in the order in which they came
        self._timers: list[tuple[float, str, int]] = []
        self._actions: list[tuple[str, Any]] = []
        self._serial = 0
        self.agent_is_up = False
        self.impossible = 0  # events that could not come: a count to be watched
        self.last_impossible = ""

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: str) -> bool:
        return key in self._records

    def get(self, key: str) -> R | None:
        return self._records.get(key)

    def keys(self) -> list[str]:
        return list(self._records)

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def add(self, key: str, record: R, now: float) -> None:
        """A new record, made with `next_serial`. Raises KeyError if the key is in use."""
        if key in self._records:
            raise KeyError(f"request {key} is in the book already")
        self._put(key, record)
        if self.agent_is_up and record.awaits_agent:
            self._apply(key, self._agent_up, now)

    def feed(self, key: str, event: Any, now: float) -> bool:
        """One event of a record. False: no such record, or the event could not come; nothing was
        changed."""
        before = self._records.get(key)
        if before is None or not self._apply(key, event, now):
            return False
        record = self._records.get(key)
        if (
            self.agent_is_up
            and record is not None
            and record.awaits_agent
            and record.state is not before.state
        ):
            self._apply(key, self._agent_up, now)
        return True

    def agent(self, is_up: bool, now: float) -> None:
        """The connection is open and its regions are registered; or the agent is lost. After a loss
        the terminal event of each open handle is still to be fed."""
        if is_up and not self.agent_is_up:
            self.agent_is_up = True
            for key in list(self._awaiting):
                self._apply(key, self._agent_up, now)
        self.agent_is_up = is_up

    def tick(self, now: float) -> None:
        """Feeds TIMER to every record with a timer that is due."""
        timers = self._timers
        while timers and timers[0][0] <= now:
            _, key, serial = heapq.heappop(timers)
            record = self._records.get(key)
            if record is not None and record.serial == serial and record.timer <= now:
                self._apply(key, self._timer, now)

    def next_timer(self) -> float:
        """Not later than the next time at which `tick` has something to do; NEVER without one."""
        return self._timers[0][0] if self._timers else NEVER

    def take(self) -> list[tuple[str, Any]]:
        """The actions since the last call, in order."""
        if not self._actions:
            return []
        actions, self._actions = self._actions, []
        return actions

    def _apply(self, key: str, event: Any, now: float) -> bool:
        before = self._records[key]
        try:
            record, actions = self._step(before, event, now)
        except Impossible as error:
            self.impossible += 1
            self.last_impossible = str(error)
            return False
        if record is not before:
            self._put(key, record)
        for action in actions:
            self._actions.append((key, action))
        return True

    def _put(self, key: str, record: R) -> None:
        if record.over:
            self._records.pop(key, None)
            self._awaiting.pop(key, None)
            return
        before = self._records.get(key)
        self._records[key] = record
        if record.awaits_agent:
            self._awaiting[key] = None
        else:
            self._awaiting.pop(key, None)
        if record.timer != NEVER and (before is None or before.timer != record.timer):
            heapq.heappush(self._timers, (record.timer, key, record.serial))
            if len(self._timers) > 64 + 2 * len(self._records):
                self._forget_old_timers()

    def _forget_old_timers(self) -> None:
        """Timers of ended records leave the heap before they are due."""
        self._timers = [
            (r.timer, key, r.serial) for key, r in self._records.items() if r.timer != NEVER
        ]
        heapq.heapify(self._timers)
