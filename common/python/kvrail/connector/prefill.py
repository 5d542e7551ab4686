"""A request at the scheduler of a prefill engine: are its blocks free, or lent to a target?

state     | FINISHED | DROPPED   | PREEMPTED | SENT
----------|----------|-----------|-----------|-----
COMPUTING | LENT     | GONE      | =         | -
LENT      | -        | WITHDRAWN | -         | GONE
WITHDRAWN | -        | =         | -         | GONE
GONE      | -        | -         | -         | -

"=" means that the state stays, "-" that the event cannot come.

  COMPUTING  the prefill is queued or runs; nothing is published
  LENT       the prefill is complete and every rank publishes it: the blocks stay
  WITHDRAWN  the engine wants the blocks back; they stay until every rank has them back
  GONE       the blocks are free; the record may go

This is the late publish: a preempted prefill has lent nothing and is computed again. An engine that
publishes chunks early feeds PREEMPT to the ranks' records (source.py) and waits for Returned.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .machine import Rules, follow

State = enum.Enum("State", "COMPUTING LENT WITHDRAWN GONE")
On = enum.Enum("On", "FINISHED DROPPED PREEMPTED SENT")


@dataclass(frozen=True, slots=True)
class Event:
    on: On
    tokens: int = 0  # FINISHED: all of them are final
    blocks: tuple[tuple[int, ...], ...] = ()  # FINISHED: block ids of each KV group


@dataclass(frozen=True, slots=True)
class Prefill:
    key: str  # the engine's own id of the request
    request: str  # the id that both engines know
    attempt: int
    state: State = State.COMPUTING

    @property
    def over(self) -> bool:
        return self.state is State.GONE


@dataclass(frozen=True, slots=True)
class Publish:
    """To every rank: publish these blocks (source.py: CHUNK, SEAL)."""

    key: str
    request: str
    attempt: int
    tokens: int
    blocks: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Withdraw:
    """To every rank: ABORT of the publish or the fetch."""

    key: str


Action = Publish | Withdraw
Result = tuple[Prefill, list[Action]]


def _publish(p: Prefill, event: Event, now: float) -> Result:
    return p, [Publish(p.key, p.request, p.attempt, event.tokens, event.blocks)]


def _withdraw(p: Prefill, event: Event, now: float) -> Result:
    return p, [Withdraw(p.key)]


RULES: Rules = {
    State.COMPUTING: {
        On.FINISHED: (State.LENT, _publish),
        On.DROPPED: (State.GONE, None),
        On.PREEMPTED: (State.COMPUTING, None),
    },
    State.LENT: {
        On.DROPPED: (State.WITHDRAWN, _withdraw),
        On.SENT: (State.GONE, None),
    },
    State.WITHDRAWN: {
        On.DROPPED: (State.WITHDRAWN, None),
        On.SENT: (State.GONE, None),
    },
    State.GONE: {},
}


def step(p: Prefill, event: Event, now: float) -> Result:
    """The request after one event, and the commands for its ranks. Raises Impossible."""
    return follow(RULES, p, event.on, event, now)
