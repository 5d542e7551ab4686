"""The engines' side of the simulation: requests through a prefill and a decode engine
(connector_world.py)."""

from __future__ import annotations

from connector_world import LEASE, PAGE, SECOND, STEP, Violation, World
from kvrail.connector import decode, prefill, source, target
from kvrail.connector.blocks import Group
from kvrail.connector.machine import Limits

HOLD = 2 * LEASE


def make_user(world: World, number: int) -> User:
    return (User if world.chance(0.6) else ChunkedUser)(world, number)


class User:
    """One request through both engines, published late: prefill, hand-off, queue at the decode
    engine, load, decode. Both schedulers are here."""

    attempts = 1
    hold = HOLD

    def __init__(self, world: World, number: int) -> None:
        self.world, self.name = world, f"r{number}"
        self.p_key, self.d_key = f"p{number}", f"d{number}"
        self.keys = [self.p_key, self.d_key]
        self.tokens = world.random.randrange(1, 9) * PAGE
        self.attempt = world.random.randrange(1000)
        self.limits = Limits(
            hold=self.hold,
            lease_ms=int(LEASE * 1000),
            park=2.0,
            queue=20.0,
            load=10.0,
            attempts=self.attempts,
        )
        self.p_blocks: list[int] = []
        self.d_blocks: list[int] = []
        self.d_lent = False  # the blocks may be written from outside
        self.skip = 0
        self.p_over = self.d_over = False
        self.d_never = world.chance(0.07)  # the hand-off is lost on its way
        self.decided_at = float("inf")  # when the target had blocks, or needed none
        self.refused = False  # the target's agent had no room: the source does not hear of it
        self.queued_at = float("inf")  # when the target's rank knew of it
        self.aborted_at_p = False
        self.restarted = False  # a target that failed meanwhile does not ask for the next attempt
        self.p_unsettled = None  # a publish's end that the scheduler may not hear of yet
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
        self.world.soon(0.3, self.p_last if self.world.chance(0.5) else self.p_finish)

    def p_last(self) -> None:
        """The last step is scheduled; its end comes after the publish, or much later."""
        self.p_step(prefill.Event(prefill.On.ENDS, self.tokens, (tuple(self.p_blocks),)))
        self.p_compute()
        self.world.soon(self.world.random.choice((2 * STEP, 1.0, 3 * LEASE)), self.p_finish)

    def p_compute(self) -> None:
        for index, block in enumerate(self.p_blocks):
            self.world.pools["P"].content[block] = self.kv(index)

    def p_step(self, event: prefill.Event) -> None:
        self.prefill, commands = prefill.step(self.prefill, event, self.world.clock.now)
        for command in commands:
            self.world.clock.at(STEP, lambda command=command: self.p_command(command))

    def p_finish(self) -> None:
        world = self.world
        if world.chance(0.1):  # aborted in the prefill: nothing was published
            self.aborted_at_p = True
            self.p_step(prefill.Event(prefill.On.DROPPED))
            if self.prefill.over:
                self.p_end()
            self.d_over = True
            return
        self.p_compute()
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
            rank.book.add(
                command.key,
                source.source(
                    command.request,
                    command.attempt,
                    command.tokens,
                    rank.book.next_serial(),
                    self.limits,
                ),
                now,
            )
            rank.act()
            rank.feed(
                command.key,
                source.Event(source.On.CHUNK, chunk=source.Chunk(command.blocks, command.tokens)),
            )
            rank.feed(command.key, source.Event(source.On.SEAL))
            return
        report, self.p_unsettled = self.p_unsettled, None
        if report is not None:
            self.world.clock.at(STEP, lambda: self.p_freed(report))
        if isinstance(command, prefill.Withdraw):
            rank.feed(command.key, source.Event(source.On.ABORT))

    def p_report(self, key: str, report) -> None:
        if self.prefill.state is prefill.State.ENDING:
            self.p_unsettled = report
            return
        self.world.clock.at(STEP, lambda: self.p_freed(report))

    def p_freed(self, report: source.Freed) -> None:
        self.p_step(prefill.Event(prefill.On.SENT))
        self.check_not_held(report)
        self.p_end()

    def check_not_held(self, report: source.Freed) -> None:
        if report.status == "expired":
            self.world.counts["expired"] += 1
            decided = self.decided_at < self.world.clock.now - LEASE
            queued = self.queued_at < self.world.clock.now - LEASE
            excused = self.aborted_at_p or self.restarted or self.refused
            if not (excused or self.world.agent_trouble):
                if decided:
                    raise Violation(f"check 6: the source of {self.name} was held to its limit")
                if queued:
                    raise Violation(f"check 9: the source of {self.name} was not held")
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
        self.world.soon(self.world.random.choice((0.1, 1.0, 4.0, 12.0)), self.d_schedule)

    def d_abort(self) -> None:
        """The client has gone."""
        if self.d_over or self.decode.over:
            return
        self.world.counts["aborts"] += 1
        self.decided_at = self.world.clock.now
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
        self.decided_at = min(self.decided_at, world.clock.now)
        self.skip = world.random.choice((0, 0, PAGE, self.tokens // PAGE // 2 * PAGE, self.tokens))
        for index in range(self.skip // PAGE):
            world.pools["D"].content[blocks[index]] = self.kv(index)
        if decode.tokens_to_load(self.decode, self.skip, agent_is_up=world.d.book.agent_is_up) == 0:
            world.counts["covered"] += 1
            self.d_step(decode.Event(decode.On.COVERED))
            self.d_run(self.skip)
        else:
            self.d_lent = True
            self.d_step(
                decode.Event(decode.On.ALLOCATED, 0, self.skip, (Group(tuple(blocks), PAGE),))
            )

    def d_command(self, command) -> None:
        rank, now = self.world.d, self.world.clock.now
        if isinstance(command, decode.Queue):
            self.queued_at = now
            rank.book.add(
                command.key,
                target.target(
                    command.request,
                    command.offer,
                    rank.book.next_serial(),
                    self.limits,
                    command.tokens,
                ),
                now,
            )
            rank.act()
        elif isinstance(command, decode.Fetch):
            rank.feed(
                command.key,
                target.Event(
                    target.On.BLOCKS,
                    tokens=command.tokens,
                    skip=command.skip,
                    groups=command.groups,
                ),
            )
        elif isinstance(command, decode.Release):
            rank.feed(command.key, target.Event(target.On.COVERED, tokens=command.tokens))
        else:
            rank.feed(command.key, target.Event(target.On.ABORT))

    def check_may_write(self, block: int) -> None:
        if self.world.pools["D"].owner.get(block) != self.d_key:
            raise Violation(
                f"check 2: a transfer writes block {block}, which {self.d_key} has freed"
            )
        if not self.d_lent:
            raise Violation(
                f"check 2: a transfer writes block {block} after {self.d_key} got it back"
            )
        if self.d_blocks.index(block) < self.skip // PAGE:
            raise Violation(
                f"check 2: a transfer writes block {block} of the local prefix of {self.d_key}"
            )

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
            if report.status in ("expired", "cut", "no_source"):
                self.world.counts["missed"] += 1
            if report.token_first > self.skip:
                self.world.counts["partial"] += 1
            if report.pages != (tuple(self.d_blocks[report.token_first // PAGE :]),):
                raise Violation(f"check 7: {report} does not name the blocks of {self.d_blocks}")
            self.d_run(report.token_first)
        else:
            raise Violation(f"{self.name} was not given up, and is reported as {report}")

    def d_run(self, tokens: int) -> None:
        """The model reads the first tokens, and computes the others."""
        for index in range(tokens // PAGE):
            content = self.world.pools["D"].content[self.d_blocks[index]]
            if content != self.kv(index):
                raise Violation(
                    f"check 3: block {index} of {self.name} holds {content} when the model reads it"
                )
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
            raise Violation(
                f"check 4: {self.name} has not ended: P {self.p_over}, D {self.d_over}, "
                f"{self.prefill}, "
                f"{self.decode}"
            )


class ChunkedUser(User):
    """Published in chunks while the prefill runs, both legs at once: no scheduler between engine
    and rank (as with SGLang). The prefill may be preempted, and the router may offer another
    attempt."""

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
            rank.book.add(
                self.p_key,
                source.source(
                    self.name, self.attempt, self.tokens, rank.book.next_serial(), self.limits
                ),
                world.clock.now,
            )
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
        rank.feed(
            self.p_key,
            source.Event(
                source.On.CHUNK,
                chunk=source.Chunk((tuple(self.p_blocks[first : first + count]),), self.given),
            ),
        )
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
        self.queued_at = world.clock.now
        offer = target.Offer(self.attempt, ("p0",))
        rank.book.add(
            self.d_key,
            target.target(
                self.name, offer, rank.book.next_serial(), self.limits, self.tokens
            ),
            world.clock.now,
        )
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
        self.decided_at = self.world.clock.now
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
        self.decided_at = min(self.decided_at, world.clock.now)
        self.skip = world.random.choice((0, PAGE, self.tokens))
        for index in range(self.skip // PAGE):
            world.pools["D"].content[blocks[index]] = self.kv(index)
        if self.skip >= self.tokens:
            world.counts["covered"] += 1
            rank.feed(self.d_key, target.Event(target.On.COVERED, tokens=self.tokens))
            self.d_run(self.tokens)
            return
        self.d_lent = True
        rank.feed(
            self.d_key,
            target.Event(
                target.On.BLOCKS,
                tokens=self.tokens,
                skip=self.skip,
                groups=(Group(tuple(blocks), PAGE),),
            ),
        )

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
        self.attempt = user.attempt + SECOND

    def publish(self) -> None:
        world, user, rank = self.user.world, self.user, self.user.world.p
        for index, block in enumerate(self.blocks):
            world.pools["P"].content[block] = user.kv(index)
        rank.book.add(
            self.key,
            source.source(
                user.name, self.attempt, user.tokens, rank.book.next_serial(), user.limits
            ),
            world.clock.now,
        )
        rank.act()
        rank.feed(
            self.key,
            source.Event(source.On.CHUNK, chunk=source.Chunk((tuple(self.blocks),), user.tokens)),
        )
        rank.feed(self.key, source.Event(source.On.SEAL))

    def report(self, report: source.Freed) -> None:
        self.user.check_not_held(report)
        self.user.world.pools["P"].give_back(self.key, self.blocks)
