"""A request at the scheduler of a decode engine: does it wait for the KV of another engine?

state      | ALLOCATED | COVERED | FINISHED   | PREEMPTED | ARRIVED
-----------|-----------|---------|------------|-----------|--------
WAITING    | LOADING   | LOCAL   | GONE       | -         | -
LOADING    | =         | =       | CANCELLING | -         | LOCAL
CANCELLING | -         | -       | -          | -         | GONE
LOCAL      | -         | =       | GONE       | =         | -
GONE       | -         | -       | -          | -         | -

"=" means that the state stays, "-" that the event cannot come.

  WAITING     queued; the source holds its pages
  LOADING     every rank fetches into the blocks
  CANCELLING  finished or aborted while it loaded: the blocks stay until every rank has them back
  LOCAL       nothing more comes from outside: it was loaded, or the local prefix has everything
  GONE        the record may go

The engine asks `tokens_to_load` before it allocates, as often as it likes. ALLOCATED comes when it
has blocks for tokens from outside, COVERED when it needs none; some engines call once more after
the load. ARRIVED comes when every rank has loaded, or has failed to: a failed load is the engine's
to compute again. A preempted request keeps nothing, and computes its tokens itself: the source's
pages are gone.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .blocks import Group
from .machine import Rules, follow
from .prefill import Withdraw
from .target import Offer

State = enum.Enum("State", "WAITING LOADING CANCELLING LOCAL GONE")
On = enum.Enum("On", "ALLOCATED COVERED FINISHED PREEMPTED ARRIVED")


@dataclass(frozen=True, slots=True)
class Event:
    on: On
    tokens: int = 0  # ALLOCATED: the blocks are for [skip, tokens); 0: all that the source offers
    skip: int = 0  # ALLOCATED: tokens of the local prefix
    groups: tuple[Group, ...] = ()  # ALLOCATED


@dataclass(frozen=True, slots=True)
class Decode:
    key: str  # the engine's own id of the request
    request: str  # the id that both engines know
    offer: Offer
    tokens: int  # that the source offers
    state: State = State.WAITING

    @property
    def over(self) -> bool:
        return self.state is State.GONE


@dataclass(frozen=True, slots=True)
class Queue:
    """To every rank: the request waits for blocks (target.py: a new record). With `tokens` its source
    is held meanwhile."""

    key: str
    request: str
    offer: Offer
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """To every rank: fetch (target.py: BLOCKS)."""

    key: str
    request: str
    offer: Offer
    tokens: int
    skip: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """To every rank: fetch nothing, and free the source (target.py: COVERED)."""

    key: str
    request: str
    offer: Offer
    tokens: int


Action = Queue | Fetch | Release | Withdraw
Result = tuple[Decode, list[Action]]


def decode(key: str, request: str, offer: Offer, tokens: int, *, hold: bool = True) -> Result:
    """A new request, and the command that holds its source."""
    queue = Queue(key, request, offer, tokens if hold else 0)
    return Decode(key, request, offer, tokens), [queue]


def tokens_to_load(
    d: Decode | None, computed: int, threshold: int = 0, *, agent_is_up: bool = True
) -> int:
    """How many tokens after the local prefix come from outside. None below `threshold`, and none
    while the agent is away: to compute them is sooner than to wait."""
    if d is None or d.state is not State.WAITING or not agent_is_up:
        return 0
    count = d.tokens - computed
    return count if count > 0 and count >= threshold else 0


def _fetch(d: Decode, event: Event, now: float) -> Result:
    return d, [Fetch(d.key, d.request, d.offer, event.tokens or d.tokens, event.skip, event.groups)]


def _release(d: Decode, event: Event, now: float) -> Result:
    return d, [Release(d.key, d.request, d.offer, d.tokens)]


def _withdraw(d: Decode, event: Event, now: float) -> Result:
    return d, [Withdraw(d.key)]


RULES: Rules = {
    State.WAITING: {
        On.ALLOCATED: (State.LOADING, _fetch),
        On.COVERED: (State.LOCAL, _release),
        On.FINISHED: (State.GONE, _release),
    },
    State.LOADING: {
        On.ALLOCATED: (State.LOADING, None),
        On.COVERED: (State.LOADING, None),
        On.FINISHED: (State.CANCELLING, _withdraw),
        On.ARRIVED: (State.LOCAL, None),
    },
    State.CANCELLING: {
        On.ARRIVED: (State.GONE, None),
    },
    State.LOCAL: {
        On.COVERED: (State.LOCAL, None),
        On.FINISHED: (State.GONE, None),
        On.PREEMPTED: (State.LOCAL, None),
    },
    State.GONE: {},
}


def step(d: Decode, event: Event, now: float) -> Result:
    """The request after one event, and the commands for its ranks. Raises Impossible."""
    return follow(RULES, d, event.on, event, now)
