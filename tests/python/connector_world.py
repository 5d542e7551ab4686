"""A world for the connector's machines: two engines with a scheduler and a rank each, two agents that move pages
for them as kvrail.h promises, and chance. One seed, one run; time is virtual.

The agents delay every event, fail, lose the connection, die and come back. They read and write pages up to the
terminal event, also after a cancel. Checks, at each read and write of a page and at the end of the run:

    1  a page that a transfer reads belongs to the publish and has not been freed
    2  a page that a transfer writes belongs to the fetch, is lent, and is not of the shared local prefix
    3  the model gets a block only when it is in, and only right bytes
    4  every request ends, every block is free at the end, no record and no handle is left
    5  no event comes that cannot come
    6  a source is not held until its limit when its target has decided, unless an agent was lost
    7  a failed load names a first token that is true: all tokens before it are right
"""
from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kvrail.connector import decode, prefill, source, target
from kvrail.connector.blocks import Group
from kvrail.connector.book import Book
from kvrail.connector.machine import Limits

PAGE = 4
STEP = 0.01  # of an engine's scheduler
LEASE = 3.0
HOLD = 20.0
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
    """The blocks of one engine. A freed block is scribbled on at once, as the next request would."""

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
                raise Violation(f"{self.name}: {owner} frees block {block} of {self.owner.get(block)}")
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
    reader: "Transfer | None" = None
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
    over: bool = False


class Rank:
    """One rank: a book, and the connection to its agent. Sends the book's actions to the mover."""

    def __init__(self, world: "World", name: str, machine) -> None:
        self.world, self.name, self.machine = world, name, machine
        self.book: Book = Book(machine.step, machine.Event(machine.On.AGENT_UP), machine.Event(machine.On.TIMER))
        self.up = True
        self.life = 0  # of the agent
        self.last_event = 0.0
        self.book.agent(True, 0.0)
        self.reports: Callable[[str, object], None]

    def feed(self, key: str, event) -> None:
        self.book.feed(key, event, self.world.clock.now)
        self.act()

    def notice(self, key: str, event, terminal: bool = False) -> None:
        """An event of the agent: delivered in order, after a delay."""
        world, life = self.world, self.life
        at = max(world.clock.now + world.random.expovariate(100), self.last_event)
        self.last_event = at
        world.clock.at(at - world.clock.now, lambda: self.deliver(key, event, life))
        if world.random.random() < 0.2:  # once more, late: it belongs to an older opening by then
            world.clock.at(at - world.clock.now + world.random.random() * 5, lambda: self.stale(key, event))

    def deliver(self, key: str, event, life: int) -> None:
        if life == self.life or event.on.name == "LOST":
            self.feed(key, event)

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
            if isinstance(action, (source.OpenSource, source.GivePages, source.EndSource, source.Renew,
                                   source.Cancel, target.OpenTarget, target.Hold)):
                self.world.call(self, key, action)
            else:
                self.reports(key, action)

    def tick(self) -> None:
        self.book.tick(self.world.clock.now)
        self.act()


class World:
    def __init__(self, seed: int, requests: int = 12) -> None:
        self.random = random.Random(seed)
        self.clock = Clock()
        self.counts: dict[str, int] = {name: 0 for name in (
            "stale", "done", "failed", "stopped", "freed", "restarts", "lost", "covered", "again", "expired",
            "partial", "aborts", "offers", "preempted")}
        self.pools = {"P": Pool("P", 60), "D": Pool("D", 60)}
        self.p, self.d = Rank(self, "P", source), Rank(self, "D", target)
        self.publishes: dict[tuple[int, int], Publish] = {}
        self.transfers: dict[tuple[int, int], Transfer] = {}
        self.agent_trouble = False
        self.users = [self.make_user(number) for number in range(requests)]
        self.by_key = {key: user for user in self.users for key in user.keys}
        self.p.reports = lambda key, report: self.by_key[key].p_report(key, report)
        self.d.reports = lambda key, report: self.by_key[key].d_report(key, report)
        self.troubles = self.random.random() < 0.4
        if self.troubles:
            for rank in (self.p, self.d):
                if self.random.random() < 0.6:
                    self.clock.at(self.random.random() * 8, lambda rank=rank: self.lose_agent(rank))
        self.ticker()

    def make_user(self, number: int) -> "User":
        kind = User if self.random.random() < 0.6 else ChunkedUser
        return kind(self, number)

    def ticker(self) -> None:
        self.p.tick()
        self.d.tick()
        for publish in list(self.publishes.values()):
            self.lease(publish)
        for transfer in list(self.transfers.values()):
            if transfer.publish is None and not transfer.status and self.clock.now > transfer.deadline:
                self.fail(transfer, "no_source")
        if self.clock.now < END:
            self.clock.at(0.05, self.ticker)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def soon(self, mean: float, call: Callable[[], None]) -> None:
        self.clock.at(self.random.expovariate(1 / mean), call)

    # ---- the agents -----------------------------------------------------------------------------

    def call(self, rank: Rank, key: str, action) -> None:
        if not rank.up:  # kvrail answers AGENT_LOST; the terminal event of an open handle comes by itself
            if isinstance(action, source.OpenSource):
                rank.notice(key, source.Event(source.On.LOST, action.ticket))
            elif isinstance(action, target.OpenTarget):
                rank.notice(key, target.Event(target.On.LOST, action.ticket))
        elif isinstance(action, source.OpenSource):
            self.publishes[action.ticket] = Publish(key, action.ticket, action.request, action.attempt,
                                                    self.clock.now + action.lease_ms / 1000)
            self.match(action.request, action.attempt)
        elif isinstance(action, target.OpenTarget):
            self.open_target(key, action)
        elif isinstance(action, target.Hold):
            pass
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
                self.fail(publish.reader, "cancelled")
            else:
                self.soon(0.1, lambda: self.end_publish(publish, "cancelled"))

    def open_target(self, key: str, action: target.OpenTarget) -> None:
        pages = action.groups[0].pages if action.groups else ()
        for other in self.transfers.values():
            if not other.over and set(pages[action.skip // PAGE:]) & set(other.pages[other.skip // PAGE:]):
                raise Violation(f"two fetches write the same pages: {action} and {other}")
        fails_at = self.random.randrange(0, max(1, len(pages))) if self.chance(0.15) else -1
        transfer = Transfer(key, action.ticket, action.request, action.offer.attempt, action.tokens, action.skip,
                            pages, self.clock.now + DEADLINE, fails_at, copied=action.skip // PAGE)
        self.transfers[action.ticket] = transfer
        self.match(action.request, action.offer.attempt)

    def match(self, request: str, attempt: int) -> None:
        publish = next((p for p in self.publishes.values() if (p.request, p.attempt) == (request, attempt)
                        and not p.over and not p.cancelled and not p.taken), None)
        transfer = next((t for t in self.transfers.values() if (t.request, t.attempt) == (request, attempt)
                         and not t.over and not t.status and t.publish is None), None)
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
        if transfer.over or transfer.status or publish is None or index != transfer.copied:
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
            self.d.notice(transfer.key, target.Event(target.On.DONE, transfer.ticket), True)
            publish.reader = None
            self.soon(0.05, lambda: self.end_publish(publish, "ok"))

    def write(self, transfer: Transfer, publish: Publish, index: int) -> None:
        here, there = publish.pages[index], transfer.pages[index]
        if self.pools["P"].owner.get(here) != publish.key:
            raise Violation(f"check 1: a transfer reads block {here} of {publish.key}, which was freed")
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
            self.d.notice(transfer.key, target.Event(target.On.FAILED, transfer.ticket, status=transfer.status,
                                                     token_first=transfer.copied * PAGE,
                                                     token_end=transfer.tokens), True)
        if transfer.publish is not None:
            transfer.publish.reader = None
            self.soon(0.05, lambda: self.end_publish(transfer.publish, transfer.status))

    def end_publish(self, publish: Publish, status: str) -> None:
        if publish.over or publish.reader is not None:
            return
        publish.over = True
        self.publishes.pop(publish.ticket, None)
        if self.p.up:
            self.p.notice(publish.key, source.Event(source.On.ENDED, publish.ticket, status=status), True)

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
        rank.life += 1
        rank.book.agent(False, self.clock.now)
        handles = list((self.publishes if rank is self.p else self.transfers).values())
        for handle in handles:
            handle.over = True
            if rank is self.p:
                del self.publishes[handle.ticket]
                rank.notice(handle.key, source.Event(source.On.LOST, handle.ticket, status="agent_lost"), True)
                if handle.reader is not None:
                    reader, handle.reader = handle.reader, None
                    self.soon(0.5, lambda reader=reader: self.fail(reader, "peer_lost"))
            else:
                del self.transfers[handle.ticket]
                rank.notice(handle.key, target.Event(target.On.LOST, handle.ticket, status="agent_lost"), True)
                if handle.publish is not None:
                    handle.publish.reader = None
                    self.soon(0.5, lambda publish=handle.publish: self.end_publish(publish, "peer_lost"))
        self.clock.at(self.random.choice((0.5, 2.0, 60.0)) + self.random.random(), lambda: self.agent_back(rank))

    def agent_back(self, rank: Rank) -> None:
        rank.up = True
        rank.book.agent(True, self.clock.now)
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
                raise Violation(f"check 4: {pool.count - len(pool.free)} blocks of {pool.name} leaked: {pool.owner}")
        for rank in (self.p, self.d):
            if len(rank.book):
                raise Violation(f"check 4: records are left at {rank.name}: {rank.book.keys()}")
            if rank.book.impossible:
                raise Violation(f"check 5: {rank.book.last_impossible}")
        if self.publishes or self.transfers:
            raise Violation(f"check 4: handles are left: {self.publishes} {self.transfers}")
        return self.counts


class User:
    """One request through both engines, published late: prefill, hand-off, queue at the decode engine, load,
    decode. Both schedulers are here."""

    attempts = 1
    hold = HOLD

    def __init__(self, world: World, number: int) -> None:
        self.world, self.name = world, f"r{number}"
        self.p_key, self.d_key = f"p{number}", f"d{number}"
        self.keys = [self.p_key, self.d_key]
        self.tokens = world.random.randrange(1, 9) * PAGE
        self.attempt = world.random.randrange(1000)
        self.limits = Limits(hold=self.hold, lease_ms=int(LEASE * 1000), park=2.0, attempts=self.attempts)
        self.p_blocks: list[int] = []
        self.d_blocks: list[int] = []
        self.d_lent = False  # the blocks may be written from outside
        self.skip = 0
        self.p_over = self.d_over = False
        self.d_never = world.chance(0.07)  # the hand-off is lost on its way
        self.aborted_at_p = False
        self.restarted = False  # a target that failed meanwhile does not ask for the next attempt
        self.prefill = prefill.Prefill(self.p_key, self.name, self.attempt)
        self.decode: decode.Decode | None = None
        world.clock.at(world.random.random() * 5, self.p_start)

    def kv(self, index: int) -> tuple[str, int]:
        return self.name, index

    # ---- the prefill engine ---------------------------------------------------------------------

    def p_start(self) -> None:
        blocks = self.world.pools["P"].take(self.p_key, self.tokens // PAGE)
        if blocks is None:
            self.world.soon(0.5, self.p_start)
            return
        self.p_blocks = blocks
        self.world.soon(0.3, self.p_finish)

    def p_step(self, event: prefill.Event) -> None:
        self.prefill, commands = prefill.step(self.prefill, event, self.world.clock.now)
        for command in commands:
            self.world.clock.at(STEP, lambda command=command: self.p_command(command))

    def p_finish(self) -> None:
        world = self.world
        if world.chance(0.1):  # aborted in the prefill: nothing was published
            self.aborted_at_p = True
            self.p_step(prefill.Event(prefill.On.DROPPED))
            self.p_end()
            self.d_over = True
            return
        for index, block in enumerate(self.p_blocks):
            world.pools["P"].content[block] = self.kv(index)
        self.p_step(prefill.Event(prefill.On.FINISHED, self.tokens, (tuple(self.p_blocks),)))
        if world.chance(0.07):
            world.soon(1.0, self.p_abort)
        if self.d_never:
            self.d_over = True
        else:
            world.soon(0.2, self.d_arrive)

    def p_abort(self) -> None:
        if not self.p_over:
            self.world.counts["aborts"] += 1
            self.aborted_at_p = True
            self.p_step(prefill.Event(prefill.On.DROPPED))

    def p_command(self, command) -> None:
        rank, now = self.world.p, self.world.clock.now
        if isinstance(command, prefill.Publish):
            rank.book.add(command.key, source.source(command.request, command.attempt, command.tokens,
                                                     rank.book.next_serial(), self.limits), now)
            rank.act()
            rank.feed(command.key, source.Event(source.On.CHUNK, chunk=source.Chunk(command.blocks, command.tokens)))
            rank.feed(command.key, source.Event(source.On.SEAL))
        else:
            rank.feed(command.key, source.Event(source.On.ABORT))

    def p_report(self, key: str, report) -> None:
        self.world.clock.at(STEP, lambda: self.p_freed(report))

    def p_freed(self, report: source.Freed) -> None:
        self.p_step(prefill.Event(prefill.On.SENT))
        self.check_not_held(report)
        self.p_end()

    def check_not_held(self, report: source.Freed) -> None:
        if report.status == "expired":
            self.world.counts["expired"] += 1
            if not (self.d_never or self.aborted_at_p or self.restarted or self.world.agent_trouble):
                raise Violation(f"check 6: the source of {self.name} was held to its limit")
        self.world.counts["freed"] += 1

    def p_end(self) -> None:
        self.world.pools["P"].give_back(self.p_key, self.p_blocks)
        self.p_blocks, self.p_over = [], True

    # ---- the decode engine ----------------------------------------------------------------------

    def d_step(self, event: decode.Event) -> None:
        self.decode, commands = decode.step(self.decode, event, self.world.clock.now)
        for command in commands:
            self.world.clock.at(STEP, lambda command=command: self.d_command(command))

    def d_arrive(self) -> None:
        offer = target.Offer(self.attempt, ("p0",))
        self.decode, commands = decode.decode(self.d_key, self.name, offer, self.tokens)
        for command in commands:
            self.world.clock.at(STEP, lambda command=command: self.d_command(command))
        if self.world.chance(0.15):
            self.world.soon(0.6, self.d_abort)
        self.world.soon(self.world.random.choice((0.1, 1.0, 4.0)), self.d_schedule)

    def d_abort(self) -> None:
        """The client has gone."""
        if self.d_over or self.decode.over:
            return
        self.world.counts["aborts"] += 1
        waits = self.decode.state is decode.State.LOADING
        self.d_step(decode.Event(decode.On.FINISHED))
        if not waits:
            self.d_end()

    def d_schedule(self) -> None:
        world = self.world
        if self.d_over or self.decode.state is not decode.State.WAITING:
            return
        blocks = world.pools["D"].take(self.d_key, self.tokens // PAGE)
        if blocks is None:
            world.soon(0.3, self.d_schedule)
            return
        self.d_blocks = blocks
        self.skip = world.random.choice((0, 0, PAGE, self.tokens // PAGE // 2 * PAGE, self.tokens))
        for index in range(self.skip // PAGE):
            world.pools["D"].content[blocks[index]] = self.kv(index)
        if decode.tokens_to_load(self.decode, self.skip, agent_is_up=world.d.book.agent_is_up) == 0:
            world.counts["covered"] += 1
            self.d_step(decode.Event(decode.On.COVERED))
            self.d_run(self.skip)
        else:
            self.d_lent = True
            self.d_step(decode.Event(decode.On.ALLOCATED, self.skip, (Group(tuple(blocks), PAGE),)))

    def d_command(self, command) -> None:
        rank, now = self.world.d, self.world.clock.now
        if isinstance(command, decode.Queue):
            rank.book.add(command.key, target.target(command.request, command.offer, rank.book.next_serial(),
                                                     self.limits), now)
            rank.act()
        elif isinstance(command, decode.Fetch):
            rank.feed(command.key, target.Event(target.On.BLOCKS, tokens=command.tokens, skip=command.skip,
                                                groups=command.groups))
        elif isinstance(command, decode.Release):
            rank.feed(command.key, target.Event(target.On.COVERED, tokens=command.tokens))
        else:
            rank.feed(command.key, target.Event(target.On.ABORT))

    def check_may_write(self, block: int) -> None:
        if self.world.pools["D"].owner.get(block) != self.d_key:
            raise Violation(f"check 2: a transfer writes block {block}, which {self.d_key} has freed")
        if not self.d_lent:
            raise Violation(f"check 2: a transfer writes block {block} after {self.d_key} got it back")
        if self.d_blocks.index(block) < self.skip // PAGE:
            raise Violation(f"check 2: a transfer writes block {block} of the local prefix of {self.d_key}")

    def d_report(self, key: str, report) -> None:
        if isinstance(report, target.Tail):
            return
        if not self.d_lent:
            raise Violation(f"{self.name} gets its blocks back twice: {report}")
        self.d_lent = False
        self.world.clock.at(STEP, lambda: self.d_arrived(report))

    def d_arrived(self, report) -> None:
        """What the scheduler does with the report: nothing of it for a request that has ended."""
        self.d_step(decode.Event(decode.On.ARRIVED))
        if self.decode.over:
            self.world.counts["stopped"] += 1
            self.d_end()
        else:
            self.d_take(report)

    def d_take(self, report) -> None:
        if isinstance(report, target.Loaded):
            self.world.counts["done"] += 1
            self.d_run(report.tokens)
        elif isinstance(report, target.LoadFailed):
            self.world.counts["failed"] += 1
            if report.token_first > self.skip:
                self.world.counts["partial"] += 1
            if report.pages != (tuple(self.d_blocks[report.token_first // PAGE:]),):
                raise Violation(f"check 7: {report} does not name the blocks of {self.d_blocks}")
            self.d_run(report.token_first)
        else:
            raise Violation(f"{self.name} was not given up, and is reported as {report}")

    def d_run(self, tokens: int) -> None:
        """The model reads the first tokens, and computes the others."""
        for index in range(tokens // PAGE):
            content = self.world.pools["D"].content[self.d_blocks[index]]
            if content != self.kv(index):
                raise Violation(f"check 3: block {index} of {self.name} holds {content} when the model reads it")
        if self.world.chance(0.1):
            self.world.counts["preempted"] += 1
            self.d_step_preempted()
        self.world.soon(0.5, self.d_finish)

    def d_step_preempted(self) -> None:
        self.d_step(decode.Event(decode.On.PREEMPTED))

    def d_finish(self) -> None:
        if not self.d_over:
            self.d_step(decode.Event(decode.On.FINISHED))
            self.d_end()

    def d_end(self) -> None:
        self.world.pools["D"].give_back(self.d_key, self.d_blocks)
        self.d_blocks, self.d_over = [], True

    def check_ended(self) -> None:
        if not self.p_over or not self.d_over:
            raise Violation(f"check 4: {self.name} has not ended: P {self.p_over}, D {self.d_over}, {self.prefill}, "
                            f"{self.decode}")


class ChunkedUser(User):
    """Published in chunks while the prefill runs, both legs at once: no scheduler between engine and rank (as
    with SGLang). The prefill may be preempted, and the router may offer another attempt."""

    attempts = 3

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.given = 0
        self.stopped = self.restarting = False
        self.aborting = False
        self.second: SecondPrefill | None = None

    def p_start(self) -> None:
        world, rank = self.world, self.world.p
        if self.p_over:  # its publish ended while it waited for blocks
            return
        blocks = world.pools["P"].take(self.p_key, self.tokens // PAGE)
        if blocks is None:
            world.soon(0.5, self.p_start)
            return
        self.p_blocks = blocks
        if self.p_key not in rank.book:
            rank.book.add(self.p_key, source.source(self.name, self.attempt, self.tokens, rank.book.next_serial(),
                                                    self.limits), world.clock.now)
            rank.act()
            if self.d_never:
                self.d_over = True
            else:
                world.soon(0.2, self.d_arrive)
        self.given = 0
        world.soon(0.1, self.p_chunk)

    def p_chunk(self) -> None:
        world, rank = self.world, self.world.p
        if self.p_over or self.stopped or self.restarting:
            return
        if world.chance(0.06):
            self.stopped = self.aborted_at_p = True
            world.counts["aborts"] += 1
            rank.feed(self.p_key, source.Event(source.On.ABORT))
            return
        if world.chance(0.08):
            self.restarting = self.restarted = True
            world.counts["restarts"] += 1
            rank.feed(self.p_key, source.Event(source.On.PREEMPT))
            return
        if self.given == self.tokens:
            rank.feed(self.p_key, source.Event(source.On.SEAL))
            return
        count = min(world.random.randrange(1, 4), (self.tokens - self.given) // PAGE)
        first = self.given // PAGE
        for index in range(first, first + count):
            world.pools["P"].content[self.p_blocks[index]] = self.kv(index)
        self.given += count * PAGE
        rank.feed(self.p_key, source.Event(source.On.CHUNK, chunk=source.Chunk(
            (tuple(self.p_blocks[first:first + count]),), self.given)))
        world.soon(0.1, self.p_chunk)

    def p_report(self, key: str, report) -> None:
        if self.second is not None and key == self.second.key:
            self.second.report(report)
        elif isinstance(report, source.Returned):
            self.world.pools["P"].give_back(self.p_key, self.p_blocks)
            self.p_blocks, self.restarting = [], False
            self.world.soon(0.3, self.p_start)
        else:
            self.check_not_held(report)
            self.p_end()

    def d_arrive(self) -> None:
        world, rank = self.world, self.world.d
        if self.d_over:
            return
        rank.book.add(self.d_key, target.target(self.name, target.Offer(self.attempt, ("p0",)),
                                                rank.book.next_serial(), self.limits), world.clock.now)
        rank.act()
        if world.chance(0.15):
            world.soon(0.6, self.d_abort)
        world.soon(world.random.choice((0.1, 1.0)), self.d_schedule)
        if world.chance(0.3):
            world.soon(1.0, self.d_offer)

    def d_offer(self) -> None:
        """The router has let another prefill run: a higher attempt, with blocks of its own."""
        if self.d_over or self.aborting or self.d_key not in self.world.d.book:
            return
        blocks = self.world.pools["P"].take(f"{self.p_key}b", self.tokens // PAGE)
        if blocks is None:
            return
        self.world.counts["offers"] += 1
        self.second = SecondPrefill(self, f"{self.p_key}b", blocks)
        self.world.by_key[self.second.key] = self
        self.second.publish()
        offer = target.Offer(self.second.attempt, ("p1",))
        self.world.d.feed(self.d_key, target.Event(target.On.OFFER, offer=offer))

    def d_abort(self) -> None:
        if self.d_over or self.d_key not in self.world.d.book or self.aborting:
            return
        self.world.counts["aborts"] += 1
        self.aborting = True
        waits = self.d_lent
        self.world.d.feed(self.d_key, target.Event(target.On.ABORT))
        if not waits:
            self.d_end()

    def d_schedule(self) -> None:
        world, rank = self.world, self.world.d
        if self.d_over or self.aborting:
            return
        blocks = world.pools["D"].take(self.d_key, self.tokens // PAGE)
        if blocks is None:
            world.soon(0.3, self.d_schedule)
            return
        self.d_blocks = blocks
        self.skip = world.random.choice((0, PAGE, self.tokens))
        for index in range(self.skip // PAGE):
            world.pools["D"].content[blocks[index]] = self.kv(index)
        if self.skip >= self.tokens:
            world.counts["covered"] += 1
            rank.feed(self.d_key, target.Event(target.On.COVERED, tokens=self.tokens))
            self.d_run(self.tokens)
            return
        self.d_lent = True
        rank.feed(self.d_key, target.Event(target.On.BLOCKS, tokens=self.tokens, skip=self.skip,
                                           groups=(Group(tuple(blocks), PAGE),)))

    def d_report(self, key: str, report) -> None:
        if isinstance(report, target.Tail):
            return
        if not self.d_lent:
            raise Violation(f"{self.name} gets its blocks back twice: {report}")
        self.d_lent = False
        if self.aborting:
            self.world.counts["stopped"] += 1
            self.d_end()
        else:
            self.d_take(report)

    def d_step_preempted(self) -> None:
        pass

    def d_finish(self) -> None:
        if not self.d_over:
            self.d_end()


class SecondPrefill:
    """Another prefill of the same request, late."""

    def __init__(self, user: ChunkedUser, key: str, blocks: list[int]) -> None:
        self.user, self.key, self.blocks = user, key, blocks
        self.attempt = user.attempt + 50

    def publish(self) -> None:
        world, user, rank = self.user.world, self.user, self.user.world.p
        for index, block in enumerate(self.blocks):
            world.pools["P"].content[block] = user.kv(index)
        rank.book.add(self.key, source.source(user.name, self.attempt, user.tokens, rank.book.next_serial(),
                                              user.limits), world.clock.now)
        rank.act()
        rank.feed(self.key, source.Event(source.On.CHUNK, chunk=source.Chunk((tuple(self.blocks),), user.tokens)))
        rank.feed(self.key, source.Event(source.On.SEAL))

    def report(self, report: source.Freed) -> None:
        self.user.check_not_held(report)
        self.user.world.pools["P"].give_back(self.key, self.blocks)
