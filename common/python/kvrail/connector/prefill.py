"""A request at the scheduler of a prefill engine: are its blocks free, or lent to a target?

state     | ENDS   | FINISHED | DROPPED   | PREEMPTED | SENT
----------|--------|----------|-----------|-----------|-----
COMPUTING | ENDING | LENT     | GONE      | =         | -
ENDING    | =      | LENT     | WITHDRAWN | =         | -
LENT      | -      | -        | WITHDRAWN | -         | GONE
WITHDRAWN | -      | -        | =         | -         | GONE
GONE      | -      | -        | -         | -         | -

"=" means that the state stays, "-" that the event cannot come.

  COMPUTING  the prefill is queued or runs; nothing is published
  ENDING     the step that completes the prefill is on its way, and every rank publishes after it
  LENT       the prefill is complete and every rank publishes it: the blocks stay
  WITHDRAWN  the engine wants the blocks back; they stay until every rank has them back
  GONE       the blocks are free; the record may go

Both publish late, when all bytes are final: a preempted prefill has lent nothing and is computed
again. With ENDS the ranks publish as soon as they have the bytes. Without it the command goes out
after the engine's scheduler has seen the end; a scheduler that runs a step ahead sends it behind the
next step, which may be another prompt's long prefill. No target can come before FINISHED, as nothing
has named the attempt to one. The engine may preempt the request between ENDS and its end; the
adapter therefore feeds DROPPED in place of FINISHED where the blocks are not those of ENDS.

An engine that publishes chunks early feeds PREEMPT to the ranks' records (source.py) and waits for
Returned.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from .machine import Rules, follow

State = enum.Enum("State", "COMPUTING ENDING LENT WITHDRAWN GONE")
On = enum.Enum("On", "ENDS FINISHED DROPPED PREEMPTED SENT")

Pages = tuple[tuple[int, ...], ...]  # of each KV group


@dataclass(frozen=True, slots=True)
class Event:
    on: On
    tokens: int = 0  # ENDS, FINISHED: all that will be, or are, final
    blocks: Pages = ()  # ENDS, FINISHED: block ids


@dataclass(frozen=True, slots=True)
class Prefill:
    key: str  # the engine's own id of the request
    request: str  # the id that both engines know
    attempt: int
    secret: str = field(default="", repr=False)  # one for all ranks
    state: State = State.COMPUTING
    published: tuple[int, Pages] | None = None  # tokens and blocks of the first ENDS
    tenant: str = ""

    @property
    def over(self) -> bool:
        return self.state is State.GONE


@dataclass(frozen=True, slots=True)
class Publish:
    """To every rank: publish these blocks (source.py: CHUNK, SEAL). With `after_step` their bytes are
    final after the step that brings the command, and the end is not reported before Settle or
    Withdraw."""

    key: str
    request: str
    attempt: int
    tokens: int
    blocks: Pages
    after_step: bool = False
    secret: str = field(default="", repr=False)
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Settle:
    """To every rank: the engine's scheduler has seen the end, and may hear of the publish's."""

    key: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """To every rank: ABORT of the publish or the fetch."""

    key: str


Action = Publish | Settle | Withdraw
Result = tuple[Prefill, list[Action]]


def _publish(p: Prefill, event: Event, now: float) -> Result:
    publish = Publish(
        p.key, p.request, p.attempt, event.tokens, event.blocks, False, p.secret, p.tenant
    )
    return p, [publish]


def _publish_after(p: Prefill, event: Event, now: float) -> Result:
    publish = Publish(
        p.key, p.request, p.attempt, event.tokens, event.blocks, True, p.secret, p.tenant
    )
    return replace(p, published=(event.tokens, event.blocks)), [publish]


def _settle(p: Prefill, event: Event, now: float) -> Result:
    return p, [Settle(p.key)]


def _withdraw(p: Prefill, event: Event, now: float) -> Result:
    return p, [Withdraw(p.key)]


RULES: Rules = {
    State.COMPUTING: {
        On.ENDS: (State.ENDING, _publish_after),
        On.FINISHED: (State.LENT, _publish),
        On.DROPPED: (State.GONE, None),
        On.PREEMPTED: (State.COMPUTING, None),
    },
    State.ENDING: {
        On.ENDS: (State.ENDING, None),
        On.FINISHED: (State.LENT, _settle),
        On.DROPPED: (State.WITHDRAWN, _withdraw),
        On.PREEMPTED: (State.ENDING, None),
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
