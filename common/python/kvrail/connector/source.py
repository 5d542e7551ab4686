"""One publish of one rank, from the engine's wish to the pages' return (kvrail_source_*).

state      | AGENT_UP | CHUNK | SEAL | ACCEPTED | LEASE_LOW | LEASE_END | REFUSED
-----------|----------|-------|------|----------|-----------|-----------|--------
PARKED     | OFFERED  | =     | =    | -        | -         | -         | -
OFFERED    | -        | =     | =    | TAKEN    | =         | =         | =
TAKEN      | -        | =     | =    | =        | =         | =         | =
STOPPING   | -        | =     | =    | =        | =         | =         | =
RESTARTING | -        | =     | =    | =        | =         | =         | =
FREE       | -        | =     | =    | -        | -         | -         | -

state      | ENDED   | LOST    | ABORT    | PREEMPT    | TIMER
-----------|---------|---------|----------|------------|---------
PARKED     | -       | -       | FREE     | =          | FREE
OFFERED    | FREE    | PARKED  | STOPPING | RESTARTING | STOPPING
TAKEN      | FREE    | FREE    | STOPPING | RESTARTING | -
STOPPING   | FREE    | FREE    | =        | =          | -
RESTARTING | OFFERED | PARKED  | STOPPING | =          | -
FREE       | -       | -       | =        | =          | -

"=" means that the state stays, "-" that the event cannot come.

  PARKED      the agent is away: the publish is opened when the agent is back
  OFFERED     published, whole or in part; no target has come, so the lease runs
  TAKEN       a target has come: its end frees the source, no lease is needed for it
  STOPPING    cancelled; the pages are lent until the terminal event
  RESTARTING  preempted: cancelled, and opened again under the next attempt after the terminal event
  FREE        the pages are the engine's; the record may go

A publish is given in chunks. With a late publish there is one, at the end of the prefill, and its
seal follows at once. The bytes of a chunk are final when the adapter carries GivePages out, or
become final in the order of a stream that the adapter knows.

A complete publish is held for a target that is still queued: each LEASE_LOW renews the lease, up to
Limits.hold after the seal. Then the publish ends as expired. While the prefill runs, the limit does
not count.

If the agent dies before a target has come, the same attempt is published again at the next agent,
if that one comes within Limits.park. If a target had come, that fetch has failed, and another one
cannot name the same attempt: the pages are freed.

Chunks that come in RESTARTING belong to the next attempt. A second preemption drops them: they were
not lent.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from .machine import NEVER, OK, Limits, Rules, Ticket, follow

State = enum.Enum("State", "PARKED OFFERED TAKEN STOPPING RESTARTING FREE")
On = enum.Enum(
    "On", "AGENT_UP CHUNK SEAL ACCEPTED LEASE_LOW LEASE_END REFUSED ENDED LOST ABORT PREEMPT TIMER"
)

# Events that the agent sends about one opening.
OF_AGENT = frozenset({On.ACCEPTED, On.LEASE_LOW, On.LEASE_END, On.REFUSED, On.ENDED, On.LOST})


@dataclass(frozen=True, slots=True)
class Chunk:
    """Pages of the next tokens. pages[g] continues the page ids of KV group g; token_end is the
    token after the chunk's last. `ready` is the adapter's own: how it learns that the bytes are
    final."""

    pages: tuple[tuple[int, ...], ...]
    token_end: int
    ready: object = None


@dataclass(frozen=True, slots=True)
class Event:
    on: On
    ticket: Ticket | None = None  # with OF_AGENT
    chunk: Chunk | None = None  # CHUNK
    tail: bytes = b""  # SEAL: bytes of the engine's own for the target
    status: str = OK  # ENDED, REFUSED: the reason


@dataclass(frozen=True, slots=True)
class Source:
    """One publish. Made by `source()`."""

    request: str  # the id that both engines know
    attempt: int
    tokens: int  # upper bound
    serial: int  # unique among the records of one connection
    limits: Limits
    secret: str = field(default="", repr=False)  # that a target must know; "": the library draws it
    state: State = State.PARKED
    opening: int = 0  # publishes that were opened for this record
    chunks: tuple[Chunk, ...] = ()
    sealed: bool = False
    tail: bytes = b""
    hold_until: float = NEVER  # the limit of all renewals; from the seal on
    timer: float = NEVER  # when TIMER is due
    tenant: str = ""  # "": the first that the engine may act for

    @property
    def ticket(self) -> Ticket:
        return self.serial, self.opening

    @property
    def awaits_agent(self) -> bool:
        return self.state is State.PARKED

    @property
    def over(self) -> bool:
        return self.state is State.FREE


# ---- actions: for kvrail ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSource:
    ticket: Ticket
    request: str
    attempt: int
    tokens: int
    lease_ms: int
    secret: str = field(default="", repr=False)
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class GivePages:
    """kvrail_source_pages of each group, then kvrail_source_watch of [token_first,
    chunk.token_end)."""

    ticket: Ticket
    chunk: Chunk
    token_first: int


@dataclass(frozen=True, slots=True)
class EndSource:
    ticket: Ticket
    tail: bytes


@dataclass(frozen=True, slots=True)
class Renew:
    ticket: Ticket
    lease_ms: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """kvrail_cancel, of a publish or a fetch. The pages are lent until the terminal event."""

    ticket: Ticket
    reason: str = "cancelled"


# ---- actions: for the engine ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freed:
    """The publish has ended: all its pages are the engine's again. `status` is the outcome."""

    request: str
    status: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The pages of the preempted attempt are the engine's again; the request goes on as attempt +
    1."""

    request: str
    attempt: int


Action = OpenSource | GivePages | EndSource | Renew | Cancel | Freed | Returned
Result = tuple[Source, list[Action]]


def source(
    request: str,
    attempt: int,
    tokens: int,
    serial: int,
    limits: Limits,
    secret: str = "",
    tenant: str = "",
) -> Source:
    """A publish that waits for the agent. Feed AGENT_UP at once if the agent is there."""
    return Source(request, attempt, tokens, serial, limits, secret, tenant=tenant)


def _open(s: Source) -> Result:
    """Opens all that has been given so far."""
    s = replace(s, opening=s.opening + 1, timer=s.hold_until)
    actions: list[Action] = [
        OpenSource(s.ticket, s.request, s.attempt, s.tokens, s.limits.lease_ms, s.secret, s.tenant)
    ]
    first = 0
    for chunk in s.chunks:
        actions.append(GivePages(s.ticket, chunk, first))
        first = chunk.token_end
    if s.sealed:
        actions.append(EndSource(s.ticket, s.tail))
    return s, actions


def _publish(s: Source, event: Event, now: float) -> Result:
    return _open(s)


def _keep_chunk(s: Source, event: Event, now: float) -> Result:
    """Keeps a chunk for the next opening."""
    chunk, first = event.chunk, s.chunks[-1].token_end if s.chunks else 0
    if chunk is None or not first < chunk.token_end <= s.tokens or s.sealed:
        raise ValueError(f"a chunk {chunk} does not follow token {first} of {s}")
    return replace(s, chunks=s.chunks + (chunk,)), []


def _give_chunk(s: Source, event: Event, now: float) -> Result:
    first = s.chunks[-1].token_end if s.chunks else 0
    s, _ = _keep_chunk(s, event, now)
    return s, [GivePages(s.ticket, s.chunks[-1], first)]


def _keep_seal(s: Source, event: Event, now: float) -> Result:
    if s.sealed:
        raise ValueError(f"sealed before: {s}")
    return replace(s, sealed=True, tail=event.tail, hold_until=now + s.limits.hold), []


def _park_seal(s: Source, event: Event, now: float) -> Result:
    return _park(_keep_seal(s, event, now)[0], event, now)


def _seal(s: Source, event: Event, now: float) -> Result:
    s, _ = _keep_seal(s, event, now)
    return replace(s, timer=s.hold_until), [EndSource(s.ticket, s.tail)]


def _seal_taken(s: Source, event: Event, now: float) -> Result:
    s, _ = _keep_seal(s, event, now)
    return s, [EndSource(s.ticket, s.tail)]


def _quiet(s: Source, event: Event, now: float) -> Result:
    """The agent's end of this publish is certain: no timer."""
    return replace(s, timer=NEVER), []


def _park(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=min(s.hold_until, now + s.limits.park) if s.sealed else NEVER), []


def _renew(s: Source, event: Event, now: float) -> Result:
    """Up to the limit, and never beyond it: the agent then frees the pages by itself. LEASE_LOW
    comes when a quarter of the lease is left."""
    left_ms = (s.hold_until - now) * 1000
    if left_ms <= s.limits.lease_ms / 4:
        return s, []
    return s, [Renew(s.ticket, int(min(s.limits.lease_ms, left_ms)))]


def _stop(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=NEVER), [Cancel(s.ticket)]


def _expire(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=NEVER), [Cancel(s.ticket, "expired")]


def _drop_chunks(s: Source, event: Event, now: float) -> Result:
    return replace(s, chunks=(), sealed=False, tail=b"", hold_until=NEVER, timer=NEVER), []


def _restart(s: Source, event: Event, now: float) -> Result:
    return _drop_chunks(s, event, now)[0], [Cancel(s.ticket)]


def _preempt_parked(s: Source, event: Event, now: float) -> Result:
    """Nothing is lent, and no target has come: the attempt is used again."""
    return _drop_chunks(s, event, now)[0], [Returned(s.request, s.attempt)]


def _next_attempt(s: Source, event: Event, now: float) -> Result:
    returned = Returned(s.request, s.attempt)
    s, actions = _open(replace(s, attempt=s.attempt + 1))
    return s, [returned, *actions]


def _park_next_attempt(s: Source, event: Event, now: float) -> Result:
    returned = Returned(s.request, s.attempt)
    return _park(replace(s, attempt=s.attempt + 1), event, now)[0], [returned]


def _free(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=NEVER), [Freed(s.request, event.status, s.attempt)]


def _free_aborted(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=NEVER), [Freed(s.request, "cancelled", s.attempt)]


def _free_expired(s: Source, event: Event, now: float) -> Result:
    return replace(s, timer=NEVER), [Freed(s.request, "expired", s.attempt)]


RULES: Rules = {
    State.PARKED: {
        On.AGENT_UP: (State.OFFERED, _publish),
        On.CHUNK: (State.PARKED, _keep_chunk),
        On.SEAL: (State.PARKED, _park_seal),
        On.ABORT: (State.FREE, _free_aborted),
        On.PREEMPT: (State.PARKED, _preempt_parked),
        On.TIMER: (State.FREE, _free_expired),
    },
    State.OFFERED: {
        On.CHUNK: (State.OFFERED, _give_chunk),
        On.SEAL: (State.OFFERED, _seal),
        On.ACCEPTED: (State.TAKEN, _quiet),
        On.LEASE_LOW: (State.OFFERED, _renew),
        On.LEASE_END: (State.OFFERED, None),
        On.REFUSED: (State.OFFERED, None),
        On.ENDED: (State.FREE, _free),
        On.LOST: (State.PARKED, _park),
        On.ABORT: (State.STOPPING, _stop),
        On.PREEMPT: (State.RESTARTING, _restart),
        On.TIMER: (State.STOPPING, _expire),
    },
    State.TAKEN: {
        On.CHUNK: (State.TAKEN, _give_chunk),
        On.SEAL: (State.TAKEN, _seal_taken),
        On.ACCEPTED: (State.TAKEN, None),
        On.LEASE_LOW: (State.TAKEN, _renew),
        On.LEASE_END: (State.TAKEN, None),
        On.REFUSED: (State.TAKEN, None),
        On.ENDED: (State.FREE, _free),
        On.LOST: (State.FREE, _free),
        On.ABORT: (State.STOPPING, _stop),
        On.PREEMPT: (State.RESTARTING, _restart),
    },
    State.STOPPING: {
        On.CHUNK: (State.STOPPING, None),
        On.SEAL: (State.STOPPING, None),
        On.ACCEPTED: (State.STOPPING, None),
        On.LEASE_LOW: (State.STOPPING, None),
        On.LEASE_END: (State.STOPPING, None),
        On.REFUSED: (State.STOPPING, None),
        On.ENDED: (State.FREE, _free),
        On.LOST: (State.FREE, _free),
        On.ABORT: (State.STOPPING, None),
        On.PREEMPT: (State.STOPPING, None),
    },
    State.RESTARTING: {
        On.CHUNK: (State.RESTARTING, _keep_chunk),
        On.SEAL: (State.RESTARTING, _keep_seal),
        On.ACCEPTED: (State.RESTARTING, None),
        On.LEASE_LOW: (State.RESTARTING, None),
        On.LEASE_END: (State.RESTARTING, None),
        On.REFUSED: (State.RESTARTING, None),
        On.ENDED: (State.OFFERED, _next_attempt),
        On.LOST: (State.PARKED, _park_next_attempt),
        On.ABORT: (State.STOPPING, _stop),
        On.PREEMPT: (State.RESTARTING, _drop_chunks),
    },
    State.FREE: {
        On.CHUNK: (State.FREE, None),
        On.SEAL: (State.FREE, None),
        On.ABORT: (State.FREE, None),
        On.PREEMPT: (State.FREE, None),
    },
}


def step(s: Source, event: Event, now: float) -> Result:
    """The publish after one event, and the actions that follow. Raises Impossible."""
    if event.on in OF_AGENT and event.ticket != s.ticket:
        return s, []
    return follow(RULES, s, event.on, event, now)
