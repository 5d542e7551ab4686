"""The parts that all state machines of the connector share.

A machine is a table of rules and pure functions. A record is one request at one place, frozen.
`step` takes the record, one event and the time, and returns the record that follows with the
actions that an adapter must carry out, in their order. No rule reads a clock, calls kvrail or keeps
anything outside the record.

Times are seconds of one monotonic clock, the caller's. Statuses are the names of kvrail_status_name
("ok", "peer_lost"), so that an unknown one of a later library needs no change here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["Impossible", "Limits", "NEVER", "OK", "Ticket", "follow"]

NEVER = float("inf")
OK = "ok"

# Names one opening of a publish or fetch: the record's serial, and the number of the opening within
# it. An event of the agent carries the ticket of the opening that it belongs to, so that an event
# of an older attempt, or of an earlier request with the same id, changes nothing.
Ticket = tuple[int, int]

R = TypeVar("R")
Act = Callable[[Any, Any, float], tuple[Any, list[Any]]]
Rules = Mapping[Any, Mapping[Any, tuple[Any, "Act | None"]]]


class Impossible(Exception):
    """An event that cannot come in this state: a mistake of the adapter or of the agent. The record
    is as before."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How long a request waits. Seconds, but for lease_ms."""

    # How long a complete publish waits for its target to ask for it, from the seal on. A target that
    # is queued asks at once.
    hold: float = 60.0
    # One lease and each renewal. The agent frees the pages after it if this process hangs.
    lease_ms: int = 30_000
    # How long a queued request holds its source, and how long a load may take from its blocks on.
    queue: float = 480.0
    load: float = 60.0
    # How long a request waits for an agent that is away. Then its tokens are computed here.
    park: float = 30.0
    # How many attempts one fetch may use: more than 1 where the source publishes again by itself.
    attempts: int = 1

    def __post_init__(self) -> None:
        if min(self.hold, self.queue, self.load) <= 0 or self.park < 0 or self.lease_ms <= 0 or self.attempts < 1:
            raise ValueError(f"limits must be positive: {self}")


def follow(rules: Rules, record: R, on: Any, event: Any, now: float) -> tuple[R, list[Any]]:
    """The record and the actions after one rule. Raises Impossible where the table has none."""
    state = record.state  # type: ignore[attr-defined]
    rule = rules[state].get(on)
    if rule is None:
        raise Impossible(f"{on.name} cannot come in {state.name}: {record}")
    following, act = rule
    actions: list[Any] = []
    if act is not None:
        record, actions = act(record, event, now)
    if following is not state:
        record = dataclasses.replace(record, state=following)  # type: ignore[type-var]
    return record, actions
