"""A world for the connector's machines: two engines with a scheduler and a rank each, two agents
that move pages for them as kvrail.h promises, and chance. One seed, one run; time is virtual.

The agents delay every event, fail, lose the connection, die and come back. They read and write
pages up to the terminal event, also after a cancel. Checks, at each read and write of a page and at
the end of the run:

    1  a page that a transfer reads belongs to the publish and has not been freed
    2  a page that a transfer writes belongs to the fetch, is lent, is not of the local prefix
    3  the model gets a block only when it is in, and only right bytes
    4  every request ends, every block is free at the end, no record and no handle is left
    5  no event comes that cannot come
    6  a source is not held until its limit when its target has decided, unless an agent was lost
    7  a failed load names a first token that is true: all tokens before it are right
    8  nothing waits for an agent that is there
    9  a source is held as long as its target is queued
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvrail.connector import source, target
from kvrail.connector.book import Book

PAGE = 4
STEP = 0.01  # of an engine's scheduler
LEASE = 3.0
SECOND = 50  # attempts by which another prefill of a request lies above the first
DEADLINE = 30.0
END = 400.0


class Violation(AssertionError):
    pass


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0

    def at(self, delay: float, call: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.queue, (self.now + delay, self.count, call))

    def run(self, end: float) -> None:
        while self.queue and self.queue[0][0] <= end:
            self.now, _, call = heapq.heappop(self.queue)
            call()
        self.now = end


class Pool:
    """The blocks of one engine. A freed block is scribbled on at once, as the next request
    would."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.free = list(range(count))
        self.count = count
        self.owner: dict[int, str] = {}
        self.content: dict[int, object] = {}

    def take(self, owner: str, count: int) -> list[int] | None:
        if len(self.free) < count:
            return None
        blocks = [self.free.pop(0) for _ in range(count)]
        for block in blocks:
            self.owner[block] = owner
            self.content[block] = "empty"
        return blocks

    def give_back(self, owner: str, blocks: list[int]) -> None:
        for block in blocks:
            if self.owner.get(block) != owner:
                raise Violation(
                    f"{self.name}: {owner} frees block {block} of {self.owner.get(block)}"
                )
            del self.owner[block]
            self.content[block] = "another's"
            self.free.append(block)


@dataclass
class Publish:
    key: str
    ticket: tuple[int, int]
    request: str
    attempt: int
    lease_end: float
    pages: list[int] = field(default_factory=list)
    token_end: int = 0
    sealed: bool = False
    cancelled: bool = False
    reader: Transfer | None = None
    taken: bool = False
    asked_low: bool = False
    over: bool = False


@dataclass
class Transfer:
    """A fetch."""

    key: str
    ticket: tuple[int, int]
    request: str
    attempt: int
    tokens: int
    skip: int
    pages: tuple[int, ...]
    deadline: float
    fails_at: int
    publish: Publish | None = None
    copied: int = 0
    status: str = ""  # not empty: it is failing
    held: bool = False  # its pages come later
    over: bool = False


class Rank:
    """One rank: a book, and the connection to its agent. Sends the book's actions to the mover."""

    def __init__(self, world: World, name: str, machine) -> None:
        self.world, self.name, self.machine = world, name, machine
        self.book: Book = Book(
            machine.step, machine.Event(machine.On.AGENT_UP), machine.Event(machine.On.TIMER)
        )
        self.up = True
        self.last_event = 0.0
        self.book.agent(True, 0.0)
        self.reports: Callable[[str, object], None]

    def feed(self, key: str, event) -> None:
        self.book.feed(key, event, self.world.clock.now)
        self.act()

    def notice(self, key: str, event) -> None:
        """An event of the agent: delivered in order, after a delay."""
        world = self.world
        at = max(world.clock.now + world.random.expovariate(100), self.last_event)
        self.last_event = at
        world.clock.at(at - world.clock.now, lambda: self.feed(key, event))
        if world.random.random() < 0.2:  # once more, late: it belongs to an older opening by then
            world.clock.at(
                at - world.clock.now + world.random.random() * 5, lambda: self.stale(key, event)
            )

    def stale(self, key: str, event) -> None:
        record = self.book.get(key)
        if record is not None and record.ticket != event.ticket:
            before = record
            self.world.counts["stale"] += 1
            self.feed(key, event)
            if self.book.get(key) is not before:
                raise Violation(f"{self.name}: an event of an older opening changed {key}: {event}")

    def act(self) -> None:
        for key, action in self.book.take():
            if isinstance(
                action,
                (
                    source.OpenSource,
                    source.GivePages,
                    source.EndSource,
                    source.Renew,
                    source.Cancel,
                    target.OpenTarget,
                    target.GiveBlocks,
                    target.SkipAll,
                ),
            ):
                self.world.call(self, key, action)
            else:
                self.reports(key, action)

    def tick(self) -> None:
        self.book.tick(self.world.clock.now)
        self.act()


class World:
    def __init__(
        self, seed: int, make_user: Callable[[World, int], Any], requests: int = 12
    ) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.counts: dict[str, int] = {
            name: 0
            for name in (
                "stale",
                "done",
                "failed",
                "stopped",
                "freed",
                "restarts",
                "lost",
                "covered",
                "again",
                "expired",
                "partial",
                "aborts",
                "offers",
                "preempted",
                "held",
                "missed",
                "unheld",
            )
        }
        self.pools = {"P": Pool("P", 60), "D": Pool("D", 60)}
        self.p, self.d = Rank(self, "P", source), Rank(self, "D", target)
        self.publishes: dict[tuple[int, int], Publish] = {}
        self.transfers: dict[tuple[int, int], Transfer] = {}
        self.agent_trouble = False
        self.users = [make_user(self, number) for number in range(requests)]
        self.by_key = {key: user for user in self.users for key in user.keys}
        self.p.reports = lambda key, report: self.by_key[key].p_report(key, report)
        self.d.reports = lambda key, report: self.by_key[key].d_report(key, report)
        self.troubles = self.random.random() < 0.4
        if self.troubles:
            for rank in (self.p, self.d):
                if self.random.random() < 0.6:
                    self.clock.at(self.random.random() * 8, lambda rank=rank: self.lose_agent(rank))
        self.ticker()

    def ticker(self) -> None:
        self.p.tick()
        self.d.tick()
        for publish in list(self.publishes.values()):
            self.lease(publish)
        for transfer in list(self.transfers.values()):
            if (
                transfer.publish is None
                and not transfer.status
                and self.clock.now > transfer.deadline
            ):
                self.fail(transfer, "no_source")
        if self.clock.now < END:
            self.clock.at(0.05, self.ticker)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def soon(self, mean: float, call: Callable[[], None]) -> None:
        self.clock.at(self.random.expovariate(1 / mean), call)

    # ---- the agents -----------------------------------------------------------------------------

    def call(self, rank: Rank, key: str, action) -> None:
        if (
            not rank.up
        ):  # kvrail answers AGENT_LOST; the terminal event of an open handle comes by itself
            if isinstance(action, source.OpenSource):
                rank.notice(key, source.Event(source.On.LOST, action.ticket))
            elif isinstance(action, target.OpenTarget):
                rank.notice(key, target.Event(target.On.LOST, action.ticket))
        elif isinstance(action, source.OpenSource):
            self.publishes[action.ticket] = Publish(
                key,
                action.ticket,
                action.request,
                action.attempt,
                self.clock.now + action.lease_ms / 1000,
            )
            self.match(action.request, action.attempt)
        elif isinstance(action, target.OpenTarget):
            self.open_target(key, action)
        elif isinstance(action, (target.GiveBlocks, target.SkipAll)):
            self.end_hold(key, action)
        elif isinstance(action, source.Cancel) and rank is self.d:
            if (transfer := self.transfers.get(action.ticket)) is not None:
                self.fail(transfer, "cancelled")
        elif (publish := self.publishes.get(action.ticket)) is not None:
            self.call_publish(publish, action)

    def call_publish(self, publish: Publish, action) -> None:
        publish.lease_end, publish.asked_low = self.clock.now + LEASE, False
        if isinstance(action, source.GivePages):
            if action.token_first != publish.token_end:
                raise Violation(f"a chunk of {publish} begins at {action.token_first}")
            publish.pages.extend(action.chunk.pages[0])
            publish.token_end = action.chunk.token_end
            self.move(publish.reader)
        elif isinstance(action, source.EndSource):
            publish.sealed = True
            self.move(publish.reader)
        elif isinstance(action, source.Renew):
            publish.lease_end = self.clock.now + action.lease_ms / 1000
        elif isinstance(action, source.Cancel):
            publish.cancelled = True
            if publish.reader is not None:
                self.fail(publish.reader, action.reason)
            else:
                self.soon(0.1, lambda: self.end_publish(publish, action.reason))

    def check_alone(self, pages: tuple[int, ...], skip: int) -> None:
        for other in self.transfers.values():
            if not other.over and set(pages[skip // PAGE :]) & set(
                other.pages[other.skip // PAGE :]
            ):
                raise Violation(f"two fetches write the same pages: {pages} and {other}")

    def end_hold(self, key: str, action: target.GiveBlocks | target.SkipAll) -> None:
        """What is skipped, and the pages: the fetch goes on."""
        transfer = self.transfers.get(action.ticket)
        if transfer is None or transfer.over:
            return
        if not transfer.held:
            raise Violation(f"{key}: {action} of a fetch that is not held")
        transfer.held = False
        if isinstance(action, target.GiveBlocks):
            pages, skip = action.groups[0].pages, action.skip
            self.check_alone(pages, skip)
            transfer.pages, transfer.skip, transfer.copied = pages, skip, skip // PAGE
        else:
            transfer.skip, transfer.copied = action.tokens, action.tokens // PAGE
        self.move(transfer)

    def open_target(self, key: str, action: target.OpenTarget) -> None:
        pages = action.groups[0].pages if action.groups else ()
        self.check_alone(pages, action.skip)
        count = max(1, action.tokens // PAGE)
        fails_at = self.random.randrange(count) if self.chance(0.15) else -1
        transfer = Transfer(
            key,
            action.ticket,
            action.request,
            action.offer.attempt,
            action.tokens,
            action.skip,
            pages,
            self.clock.now + DEADLINE,
            fails_at,
            copied=action.skip // PAGE,
            held=action.hold > 0,
        )
        self.transfers[action.ticket] = transfer
        if transfer.held:
            self.counts["held"] += 1
            transfer.deadline = self.clock.now + action.hold
            if self.chance(0.05):
                self.counts["unheld"] += 1
                self.by_key[key].refused = True
                self.fail(transfer, "full")
                return
        if 0 < action.offer.attempt - self.by_key[key].attempt < SECOND:
            self.counts["again"] += 1
        self.match(action.request, action.offer.attempt)

    def match(self, request: str, attempt: int) -> None:
        publish = next(
            (
                p
                for p in self.publishes.values()
                if (p.request, p.attempt) == (request, attempt)
                and not p.over
                and not p.cancelled
                and not p.taken
            ),
            None,
        )
        transfer = next(
            (
                t
                for t in self.transfers.values()
                if (t.request, t.attempt) == (request, attempt)
                and not t.over
                and not t.status
                and t.publish is None
            ),
            None,
        )
        if publish is None or transfer is None or not self.p.up or not self.d.up:
            return
        publish.taken, publish.reader, transfer.publish = True, transfer, publish
        self.p.notice(publish.key, source.Event(source.On.ACCEPTED, publish.ticket))
        self.d.notice(transfer.key, target.Event(target.On.ACCEPTED, transfer.ticket))
        self.move(transfer)

    def move(self, transfer: Transfer | None) -> None:
        if transfer is not None:
            self.soon(0.02, lambda: self.copy(transfer, transfer.copied))

    def copy(self, transfer: Transfer, index: int) -> None:
        """Copies one page, and looks for the end."""
        publish = transfer.publish
        if (
            transfer.over
            or transfer.status
            or publish is None
            or publish.over
            or index != transfer.copied
            or transfer.held
        ):
            return
        if index == transfer.fails_at:
            self.fail(transfer, "copy_failed")
        elif index < len(transfer.pages) and (index + 1) * PAGE <= publish.token_end:
            self.write(transfer, publish, index)
            transfer.copied += 1
            self.move(transfer)
        elif publish.sealed and max(index * PAGE, transfer.skip) >= transfer.tokens:
            transfer.over = True
            del self.transfers[transfer.ticket]
            self.d.notice(transfer.key, target.Event(target.On.DONE, transfer.ticket))
            publish.reader = None
            self.soon(0.05, lambda: self.end_publish(publish, "ok"))

    def write(self, transfer: Transfer, publish: Publish, index: int) -> None:
        here, there = publish.pages[index], transfer.pages[index]
        if self.pools["P"].owner.get(here) != publish.key:
            raise Violation(
                f"check 1: a transfer reads block {here} of {publish.key}, which was freed"
            )
        self.by_key[transfer.key].check_may_write(there)
        self.pools["D"].content[there] = self.pools["P"].content[here]

    def fail(self, transfer: Transfer, status: str) -> None:
        """FAILING at once; writes that were posted still arrive; then the terminal event."""
        if transfer.over or transfer.status:
            return
        transfer.status = status
        self.d.notice(transfer.key, target.Event(target.On.FAILING, transfer.ticket, status=status))
        for _ in range(self.random.randrange(3)):
            self.soon(0.05, lambda: self.late_write(transfer))
        self.soon(0.1, lambda: self.end_transfer(transfer))

    def late_write(self, transfer: Transfer) -> None:
        publish = transfer.publish
        if transfer.over or publish is None or publish.over or not transfer.pages:
            return
        index = self.random.randrange(transfer.copied, len(transfer.pages) + 1)
        if index < len(transfer.pages) and index < len(publish.pages):
            self.write(transfer, publish, index)
            if self.chance(0.5):
                self.pools["D"].content[transfer.pages[index]] = "half a page"

    def end_transfer(self, transfer: Transfer) -> None:
        if transfer.over:
            return
        transfer.over = True
        del self.transfers[transfer.ticket]
        if self.d.up:
            self.d.notice(
                transfer.key,
                target.Event(
                    target.On.FAILED,
                    transfer.ticket,
                    status=transfer.status,
                    token_first=0 if transfer.held else transfer.copied * PAGE,
                ),
            )
        if transfer.publish is not None:
            transfer.publish.reader = None
            self.soon(0.05, lambda: self.end_publish(transfer.publish, transfer.status))

    def end_publish(self, publish: Publish, status: str) -> None:
        if publish.over or publish.reader is not None:
            return
        publish.over = True
        self.publishes.pop(publish.ticket, None)
        if self.p.up:
            self.p.notice(publish.key, source.Event(source.On.ENDED, publish.ticket, status=status))

    def lease(self, publish: Publish) -> None:
        if publish.over or publish.taken or not self.p.up:
            return
        if self.clock.now > publish.lease_end:
            self.p.notice(publish.key, source.Event(source.On.LEASE_END, publish.ticket))
            publish.taken = True  # a target that comes now finds nothing
            self.end_publish(publish, "expired")
        elif self.clock.now > publish.lease_end - LEASE / 4 and not publish.asked_low:
            publish.asked_low = True
            self.p.notice(publish.key, source.Event(source.On.LEASE_LOW, publish.ticket))

    def lose_agent(self, rank: Rank) -> None:
        """AGENT_LOST at once, the terminal events when the process is gone; later another agent."""
        self.counts["lost"] += 1
        self.agent_trouble = True
        rank.up = False
        rank.book.agent(False, self.clock.now)
        handles = list((self.publishes if rank is self.p else self.transfers).values())
        for handle in handles:
            handle.over = True
            if rank is self.p:
                del self.publishes[handle.ticket]
                rank.notice(
                    handle.key, source.Event(source.On.LOST, handle.ticket, status="agent_lost")
                )
                if handle.reader is not None:
                    reader, handle.reader = handle.reader, None
                    self.soon(0.5, lambda reader=reader: self.fail(reader, "peer_lost"))
            else:
                del self.transfers[handle.ticket]
                rank.notice(
                    handle.key, target.Event(target.On.LOST, handle.ticket, status="agent_lost")
                )
                if handle.publish is not None:
                    handle.publish.reader = None
                    self.soon(
                        0.5, lambda publish=handle.publish: self.end_publish(publish, "peer_lost")
                    )
        self.clock.at(
            self.random.choice((0.5, 2.0, 60.0, 2 * END)) + self.random.random(),
            lambda: self.agent_back(rank),
        )

    def agent_back(self, rank: Rank) -> None:
        rank.up = True
        rank.book.agent(True, self.clock.now)
        waiting = [
            key
            for key in list(rank.book.keys())
            if rank.book.get(key).state.name in ("PARKED", "OWING")
        ]
        if waiting:
            raise Violation(
                f"check 8: {waiting} still wait for the agent of {rank.name}, which is back"
            )
        rank.act()
        for publish in list(self.publishes.values()):
            self.match(publish.request, publish.attempt)

    # ---- the end --------------------------------------------------------------------------------

    def run(self) -> dict[str, int]:
        self.clock.run(END)
        for user in self.users:
            user.check_ended()
        for pool in self.pools.values():
            if len(pool.free) != pool.count:
                raise Violation(f"check 4: blocks of {pool.name} leaked: {pool.owner}")
        for rank in (self.p, self.d):
            if len(rank.book):
                raise Violation(f"check 4: records are left at {rank.name}: {rank.book.keys()}")
            if rank.book.impossible:
                raise Violation(f"check 5: {rank.book.last_impossible}")
        if self.publishes or self.transfers:
            raise Violation(f"check 4: handles are left: {self.publishes} {self.transfers}")
        return self.counts
