"""One fetch of one rank, from the queued request to the pages' return (kvrail_target_*).

state     | AGENT_UP  | BLOCKS  | COVERED   | ABORT     | OFFER    | TIMER
----------|-----------|---------|-----------|-----------|----------|--------
QUEUED    | HOLDING   | PARKED  | OWING     | OWING     | =        | -
HOLDING   | -         | LOADING | RELEASING | RELEASING | =        | -
MISSED    | -         | ENDED   | ENDED     | ENDED     | QUEUED   | -
PARKED    | LOADING   | -       | -         | OWING     | =        | OWING
LOADING   | -         | -       | -         | STOPPING  | RETRYING | OVERDUE
OVERDUE   | -         | -       | -         | STOPPING  | RETRYING | -
FAILING   | -         | -       | -         | STOPPING  | RETRYING | -
STOPPING  | -         | -       | -         | =         | DROPPING | -
RETRYING  | -         | -       | -         | DROPPING  | =        | -
DROPPING  | -         | -       | -         | =         | =        | -
OWING     | RELEASING | -       | -         | =         | =        | ENDED
RELEASING | -         | -       | -         | =         | =        | =
ENDED     | -         | -       | -         | =         | =        | -

state     | ACCEPTED | TAIL | DONE  | FAILING | AGAIN   | FAILED | LOST   | CUT       | UNHELD
----------|----------|------|-------|---------|---------|--------|--------|-----------|-------
QUEUED    | -        | -    | -     | -       | -       | -      | -      | -         | -
HOLDING   | =        | -    | -     | =       | =       | MISSED | QUEUED | RELEASING | QUEUED
MISSED    | -        | -    | -     | -       | -       | -      | -      | -         | -
PARKED    | -        | -    | -     | -       | -       | -      | -      | -         | -
LOADING   | =        | =    | ENDED | FAILING | =       | ENDED  | OWING  | -         | -
OVERDUE   | =        | =    | ENDED | =       | -       | ENDED  | OWING  | -         | -
FAILING   | -        | -    | -     | -       | LOADING | ENDED  | OWING  | -         | -
STOPPING  | =        | =    | ENDED | =       | -       | ENDED  | OWING  | -         | -
RETRYING  | =        | =    | OWING | =       | -       | PARKED | PARKED | -         | -
DROPPING  | =        | =    | OWING | =       | -       | OWING  | OWING  | -         | -
OWING     | -        | -    | -     | -       | -       | -      | -      | -         | -
RELEASING | =        | =    | ENDED | =       | -       | ENDED  | OWING  | -         | -
ENDED     | -        | -    | -     | -       | -       | -      | -      | -         | -

"=" means that the state stays, "-" that the event cannot come.

  QUEUED     queued without blocks; the agent is away, or the tokens are not known yet
  HOLDING    queued without blocks; the fetch is open, and its source holds the pages
  MISSED     queued without blocks; the fetch has failed, nothing comes from this source
  PARKED     blocks are there, the agent is away
  LOADING    the fetch is open: the blocks are lent
  OVERDUE    the load took longer than Limits.load: cancelled, the blocks are lent
  FAILING    the fetch will fail; its blocks are still lent
  STOPPING   the engine gave the request up: cancelled, the blocks are lent until the terminal event
  RETRYING   a newer attempt is offered: the old one is cancelled, the newer one opens after its end
  DROPPING   as STOPPING, and a newer attempt's source is still to be released
  OWING      nothing is lent or waited for; a source is still to be released, and the agent is away
  RELEASING  a fetch that skips everything is open: it only frees the source
  ENDED      the record may go

An offer that is not newer than the last one changes nothing, whatever the state.

AGAIN is a FAILED that may be tried once more: the source publishes the next attempt by itself (it
was preempted), and Limits.attempts allows it. The next attempt is opened at the first token that is
missing.

A record that is made with `tokens` opens its fetch at once and holds the source, for at most
Limits.queue; BLOCKS brings what the local prefix has by then. CUT is a BLOCKS for fewer tokens than
the fetch was opened for: the source is released, and nothing is loaded. UNHELD is a FAILED because
an agent has too many requests: the fetch is opened again with its blocks.

The engine hears of its blocks exactly once: Loaded, LoadFailed or Stopped, and only when the agent
has handed the pages back. After COVERED (the local prefix has everything), and after an ABORT
without blocks, it hears nothing, because it has lent nothing.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from .blocks import Group, missing_pages, whole_tokens
from .machine import NEVER, OK, Limits, Rules, Ticket, follow
from .source import Cancel

State = enum.Enum(
    "State",
    "QUEUED HOLDING MISSED PARKED LOADING OVERDUE FAILING STOPPING RETRYING DROPPING OWING "
    "RELEASING ENDED",
)
On = enum.Enum(
    "On",
    "AGENT_UP BLOCKS COVERED ABORT OFFER TIMER ACCEPTED TAIL DONE FAILING AGAIN FAILED LOST CUT "
    "UNHELD",
)

# Events that the agent sends about one opening.
OF_AGENT = frozenset(
    {On.ACCEPTED, On.TAIL, On.DONE, On.FAILING, On.AGAIN, On.FAILED, On.LOST, On.UNHELD}
)

# Ends of a fetch that an agent has no room to hold.
TOO_MANY = frozenset({"full", "no_memory"})

# Ends of a source that publishes the request again under the next attempt: its engine preempted it.
SOURCE_RESTARTS = frozenset({"cancelled"})


@dataclass(frozen=True, slots=True)
class Offer:
    """Where an attempt of a request can be fetched. `sources` is opaque here: the source ranks'
    addresses."""

    attempt: int
    sources: tuple[object, ...]
    secret: str = field(default="", repr=False)  # of the request; "": none
    tenant: str = ""  # of its publish; "": the first that the engine may act for


@dataclass(frozen=True, slots=True)
class Event:
    on: On
    ticket: Ticket | None = None  # with OF_AGENT
    offer: Offer | None = None  # OFFER
    tokens: int = 0  # BLOCKS: the pages cover [0, tokens)
    skip: int = 0  # BLOCKS: [0, skip) is here
    groups: tuple[Group, ...] = ()  # BLOCKS: pages of each KV group
    tail: bytes = b""  # TAIL
    status: str = OK  # FAILING, FAILED
    token_first: int = 0  # FAILED: [skip, token_first) is in place
    token_end: int | None = None  # DONE: [0, token_end) is in place; None: all that was asked for


@dataclass(frozen=True, slots=True)
class Target:
    """One fetch. Made by `target()`."""

    request: str  # the id that both engines know
    offer: Offer
    serial: int  # unique among the records of one connection
    limits: Limits
    state: State = State.QUEUED
    opening: int = 0
    tokens: int = 0
    skip: int = 0  # tokens that were here before any fetch of this record
    have: int = 0  # tokens that are in place now: skip, and what failed fetches left
    groups: tuple[Group, ...] = ()
    next_offer: Offer | None = None  # in RETRYING and DROPPING
    let_go: int = 0  # offers that were replaced before they were opened
    missed: str = OK  # in MISSED: why
    timer: float = NEVER  # when TIMER is due

    @property
    def ticket(self) -> Ticket:
        return self.serial, self.opening

    @property
    def awaits_agent(self) -> bool:
        if self.state is State.QUEUED:
            return self.tokens > 0
        return self.state in AWAIT_AGENT

    @property
    def over(self) -> bool:
        return self.state is State.ENDED


AWAIT_AGENT = frozenset({State.PARKED, State.OWING})


# ---- actions: for kvrail ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenTarget:
    """kvrail_target_open, then _skip and _pages. With skip == tokens it only releases the source,
    without pages. With `hold` it is kvrail_target_hold instead, for so many seconds: GiveBlocks or
    SkipAll follows."""

    ticket: Ticket
    request: str
    offer: Offer
    tokens: int
    skip: int
    groups: tuple[Group, ...]
    hold: float = 0.0


@dataclass(frozen=True, slots=True)
class GiveBlocks:
    """kvrail_target_skip and _pages of a fetch that is held."""

    ticket: Ticket
    skip: int
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class SkipAll:
    """kvrail_target_skip of all tokens of every KV group: a fetch that is held only releases its
    source. An agent that is older than the library cannot: the fetch is cancelled, and the source's
    lease ends."""

    ticket: Ticket
    tokens: int


# ---- actions: for the engine ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tail:
    request: str
    bytes: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """All tokens are in place. The blocks are the engine's."""

    request: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """Tokens before token_first are in place; those in `pages` (page ids of each KV group) are to
    be computed again. The blocks are the engine's."""

    request: str
    token_first: int
    pages: tuple[tuple[int, ...], ...]
    status: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The request was given up, and its blocks are the engine's."""

    request: str


Action = OpenTarget | GiveBlocks | SkipAll | Cancel | Tail | Loaded | LoadFailed | Stopped
Result = tuple[Target, list[Action]]


def target(request: str, offer: Offer, serial: int, limits: Limits, tokens: int = 0) -> Target:
    """A request that is queued. `tokens`, where they are known: hold the source meanwhile. Feed
    AGENT_UP at once if the agent is there."""
    return Target(request, offer, serial, limits, tokens=tokens)


def _hold(t: Target, event: Event, now: float) -> Result:
    t = replace(t, opening=t.opening + 1)
    hold = t.limits.queue + t.limits.load
    return t, [OpenTarget(t.ticket, t.request, t.offer, t.tokens, 0, (), hold)]


def _hold_again(t: Target, event: Event, now: float) -> Result:
    return _hold(replace(t, offer=replace(t.offer, attempt=t.offer.attempt + 1)), event, now)


def _skip_all(t: Target, event: Event, now: float) -> Result:
    """Its source may never come: it is not waited for as long as a hold."""
    return replace(t, timer=now + t.limits.load), [SkipAll(t.ticket, t.tokens)]


def _hold_newer(t: Target, event: Event, now: float) -> Result:
    """The older fetch goes on by itself: its end has another ticket."""
    older = SkipAll(t.ticket, t.tokens)
    t, actions = _hold(replace(t, offer=_offer(event)), event, now)
    return t, [older, *actions]


def _miss(t: Target, event: Event, now: float) -> Result:
    return replace(t, missed=event.status), []


def _unhold(t: Target, event: Event, now: float) -> Result:
    return replace(t, tokens=0), []


def _offer_after_miss(t: Target, event: Event, now: float) -> Result:
    return replace(t, offer=_offer(event), missed=OK), []


def _open(t: Target, event: Event, now: float) -> Result:
    t = replace(t, opening=t.opening + 1, timer=now + t.limits.load)
    return t, [OpenTarget(t.ticket, t.request, t.offer, t.tokens, t.have, t.groups)]


def _release(t: Target, event: Event, now: float) -> Result:
    t = replace(t, opening=t.opening + 1, timer=NEVER)
    tokens = max(t.tokens, 1)
    return t, [OpenTarget(t.ticket, t.request, t.offer, tokens, tokens, ())]


def _take_blocks(t: Target, event: Event) -> Target:
    if not 0 <= event.skip < event.tokens:
        raise ValueError(f"nothing to fetch in [{event.skip}, {event.tokens}): COVERED says that")
    return replace(t, tokens=event.tokens, skip=event.skip, have=event.skip, groups=event.groups)


def _park(t: Target, event: Event, now: float) -> Result:
    return replace(_take_blocks(t, event), timer=now + t.limits.park), []


def _give(t: Target, event: Event, now: float) -> Result:
    t = replace(_take_blocks(t, event), timer=now + t.limits.load)
    return t, [GiveBlocks(t.ticket, t.skip, t.groups)]


def _cut(t: Target, event: Event, now: float) -> Result:
    released, [skip_all] = _skip_all(t, event, now)
    t, actions = _failed(_take_blocks(released, event), replace(event, status="cut"), now)
    return t, [skip_all, *actions]


def _missed_blocks(t: Target, event: Event, now: float) -> Result:
    return _failed(_take_blocks(t, event), replace(event, status=t.missed), now)


def _owe(t: Target, event: Event, now: float) -> Result:
    return replace(t, tokens=event.tokens or t.tokens, groups=(), timer=now + t.limits.hold), []


def _offer(event: Event) -> Offer:
    if event.offer is None:
        raise ValueError("OFFER names no offer")
    return event.offer


def _let_go(t: Target, offer: Offer) -> Result:
    """Releases the source of an attempt that will not be fetched. This record does not wait for the
    end: no opening of its own has the ticket. While the agent is away nothing comes of it, and the
    lease frees the source."""
    t = replace(t, let_go=t.let_go + 1)
    return t, [OpenTarget((t.serial, -t.let_go), t.request, offer, 1, 1, ())]


def _take_offer(t: Target, event: Event, now: float) -> Result:
    """Nothing of the older attempt is open."""
    return _let_go(replace(t, offer=_offer(event)), t.offer)


def _release_offer(t: Target, event: Event, now: float) -> Result:
    """The older release goes on by itself: it lends nothing, and its end changes nothing."""
    return _release(replace(t, offer=_offer(event)), event, now)


def _keep_offer(t: Target, event: Event, now: float) -> Result:
    kept = replace(t, next_offer=event.offer, timer=NEVER)
    return (kept, []) if t.next_offer is None else _let_go(kept, t.next_offer)


def _cancel(t: Target, event: Event, now: float) -> Result:
    return replace(t, timer=NEVER), [Cancel(t.ticket)]


def _quiet(t: Target, event: Event, now: float) -> Result:
    return replace(t, timer=NEVER), []


def _keep_newer(t: Target, event: Event, now: float) -> Result:
    return _keep_offer(t, event, now)[0], []


def _cancel_for_offer(t: Target, event: Event, now: float) -> Result:
    return _keep_offer(t, event, now)[0], [Cancel(t.ticket)]


def _next_offer(t: Target) -> Target:
    return t if t.next_offer is None else replace(t, offer=t.next_offer, next_offer=None)


def _progress(t: Target, event: Event) -> int:
    """The tokens that are in place after a failure, cut to whole pages of every KV group."""
    return whole_tokens(t.groups, max(t.have, min(event.token_first, t.tokens)), t.skip)


def _again(t: Target, event: Event, now: float) -> Result:
    offer = replace(t.offer, attempt=t.offer.attempt + 1)
    return _open(replace(t, have=_progress(t, event), offer=offer), event, now)


def _retry(t: Target, event: Event, now: float) -> Result:
    """The older attempt has ended: the newer one opens when the agent is there."""
    return replace(_next_offer(t), have=_progress(t, event), timer=now + t.limits.park), []


def _tail(t: Target, event: Event, now: float) -> Result:
    return t, [Tail(t.request, event.tail)]


def _loaded(t: Target, event: Event, now: float) -> Result:
    return replace(t, groups=()), [Loaded(t.request, t.tokens)]


def _loaded_late(t: Target, event: Event, now: float) -> Result:
    """The older attempt was complete before the cancel: the newer one's source is only released."""
    t, actions = _loaded(t, event, now)
    return _owe(_next_offer(t), event, now)[0], actions


def _failed(t: Target, event: Event, now: float) -> Result:
    first = _progress(t, event)
    pages = missing_pages(t.groups, first, t.tokens)
    return replace(t, groups=()), [LoadFailed(t.request, first, pages, event.status)]


def _failed_overdue(t: Target, event: Event, now: float) -> Result:
    return _failed(t, replace(event, status="expired"), now)


def _failed_owe(t: Target, event: Event, now: float) -> Result:
    t, actions = _failed(t, event, now)
    return _owe(_next_offer(t), event, now)[0], actions


def _failed_waiting(t: Target, event: Event, now: float) -> Result:
    return _failed_owe(t, replace(event, status="agent_lost"), now)


def _stopped(t: Target, event: Event, now: float) -> Result:
    return replace(t, groups=()), [Stopped(t.request)]


def _stopped_owe(t: Target, event: Event, now: float) -> Result:
    return _owe(_next_offer(t), event, now)[0], [Stopped(t.request)]


def _silent(t: Target, event: Event, now: float) -> Result:
    return replace(t, timer=NEVER), []


RULES: Rules = {
    State.QUEUED: {
        On.AGENT_UP: (State.HOLDING, _hold),
        On.BLOCKS: (State.PARKED, _park),
        On.COVERED: (State.OWING, _owe),
        On.ABORT: (State.OWING, _owe),
        On.OFFER: (State.QUEUED, _take_offer),
    },
    State.HOLDING: {
        On.BLOCKS: (State.LOADING, _give),
        On.CUT: (State.RELEASING, _cut),
        On.COVERED: (State.RELEASING, _skip_all),
        On.ABORT: (State.RELEASING, _skip_all),
        On.OFFER: (State.HOLDING, _hold_newer),
        On.ACCEPTED: (State.HOLDING, None),
        On.FAILING: (State.HOLDING, None),
        On.AGAIN: (State.HOLDING, _hold_again),
        On.FAILED: (State.MISSED, _miss),
        On.UNHELD: (State.QUEUED, _unhold),
        On.LOST: (State.QUEUED, None),
    },
    State.MISSED: {
        On.BLOCKS: (State.ENDED, _missed_blocks),
        On.COVERED: (State.ENDED, None),
        On.ABORT: (State.ENDED, None),
        On.OFFER: (State.QUEUED, _offer_after_miss),
    },
    State.PARKED: {
        On.AGENT_UP: (State.LOADING, _open),
        On.ABORT: (State.OWING, _stopped_owe),
        On.OFFER: (State.PARKED, _take_offer),
        On.TIMER: (State.OWING, _failed_waiting),
    },
    State.LOADING: {
        On.ABORT: (State.STOPPING, _cancel),
        On.OFFER: (State.RETRYING, _cancel_for_offer),
        On.ACCEPTED: (State.LOADING, None),
        On.TAIL: (State.LOADING, _tail),
        On.DONE: (State.ENDED, _loaded),
        On.FAILING: (State.FAILING, _quiet),
        On.AGAIN: (State.LOADING, _again),
        On.FAILED: (State.ENDED, _failed),
        On.LOST: (State.OWING, _failed_owe),
        On.TIMER: (State.OVERDUE, _cancel),
    },
    State.OVERDUE: {
        On.ABORT: (State.STOPPING, None),
        On.OFFER: (State.RETRYING, _keep_newer),
        On.ACCEPTED: (State.OVERDUE, None),
        On.TAIL: (State.OVERDUE, _tail),
        On.DONE: (State.ENDED, _loaded),
        On.FAILING: (State.OVERDUE, None),
        On.FAILED: (State.ENDED, _failed_overdue),
        On.LOST: (State.OWING, _failed_owe),
    },
    State.FAILING: {
        On.ABORT: (State.STOPPING, _cancel),
        On.OFFER: (State.RETRYING, _cancel_for_offer),
        On.AGAIN: (State.LOADING, _again),
        On.FAILED: (State.ENDED, _failed),
        On.LOST: (State.OWING, _failed_owe),
    },
    State.STOPPING: {
        On.ABORT: (State.STOPPING, None),
        On.OFFER: (State.DROPPING, _keep_offer),
        On.ACCEPTED: (State.STOPPING, None),
        On.TAIL: (State.STOPPING, None),
        On.DONE: (State.ENDED, _stopped),
        On.FAILING: (State.STOPPING, None),
        On.FAILED: (State.ENDED, _stopped),
        On.LOST: (State.OWING, _stopped_owe),
    },
    State.RETRYING: {
        On.ABORT: (State.DROPPING, None),
        On.OFFER: (State.RETRYING, _keep_offer),
        On.ACCEPTED: (State.RETRYING, None),
        On.TAIL: (State.RETRYING, _tail),
        On.DONE: (State.OWING, _loaded_late),
        On.FAILING: (State.RETRYING, None),
        On.FAILED: (State.PARKED, _retry),
        On.LOST: (State.PARKED, _retry),
    },
    State.DROPPING: {
        On.ABORT: (State.DROPPING, None),
        On.OFFER: (State.DROPPING, _keep_offer),
        On.ACCEPTED: (State.DROPPING, None),
        On.TAIL: (State.DROPPING, None),
        On.DONE: (State.OWING, _stopped_owe),
        On.FAILING: (State.DROPPING, None),
        On.FAILED: (State.OWING, _stopped_owe),
        On.LOST: (State.OWING, _stopped_owe),
    },
    State.OWING: {
        On.AGENT_UP: (State.RELEASING, _release),
        On.ABORT: (State.OWING, None),
        On.OFFER: (State.OWING, _take_offer),
        On.TIMER: (State.ENDED, _silent),
    },
    State.RELEASING: {
        On.ABORT: (State.RELEASING, None),
        On.OFFER: (State.RELEASING, _release_offer),
        On.TIMER: (State.RELEASING, _cancel),
        On.ACCEPTED: (State.RELEASING, None),
        On.TAIL: (State.RELEASING, None),
        On.DONE: (State.ENDED, None),
        On.FAILING: (State.RELEASING, None),
        On.FAILED: (State.ENDED, None),
        On.LOST: (State.OWING, _owe),
    },
    State.ENDED: {
        On.ABORT: (State.ENDED, None),
        On.OFFER: (State.ENDED, None),
    },
}


def _resolve(t: Target, event: Event) -> Event:
    """FAILED may be AGAIN; but an engine's own cancel is never tried again: its states have no
    AGAIN. DONE is FAILED where the source had published fewer tokens than were asked for. BLOCKS is
    CUT where they are for fewer tokens than the fetch that is held was opened for."""
    if event.on is On.BLOCKS and t.state is State.HOLDING and event.tokens < t.tokens:
        return replace(event, on=On.CUT)
    if event.on is On.FAILED and t.state is State.HOLDING and event.status in TOO_MANY:
        return replace(event, on=On.UNHELD)
    if (
        event.on is On.DONE
        and event.token_end is not None
        and event.token_end < t.tokens
        and t.state in (State.LOADING, State.OVERDUE, State.RETRYING)
    ):
        return replace(event, on=On.FAILED, token_first=event.token_end, status="short")
    if (
        event.on is On.FAILED
        and t.state in (State.HOLDING, State.LOADING, State.FAILING)
        and event.status in SOURCE_RESTARTS
        and t.opening < t.limits.attempts
    ):
        return replace(event, on=On.AGAIN)
    return event


def step(t: Target, event: Event, now: float) -> Result:
    """The fetch after one event, and the actions that follow. Raises Impossible."""
    if event.on in OF_AGENT and event.ticket != t.ticket:
        return t, []
    if event.on is On.OFFER and _offer(event).attempt <= (t.next_offer or t.offer).attempt:
        return t, []
    event = _resolve(t, event)
    return follow(RULES, t, event.on, event, now)
