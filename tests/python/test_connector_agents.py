"""Goal: the connector on real agents: publishes, prefix hits, releases, aborts; every byte checked.

Method: two ranks (connector/rank.py with its ports and links) as workers have them, in this
process, on the agents that SOURCE_SOCKET and TARGET_SOCKET name. Skipped without them.
"""

from __future__ import annotations

import os
import random
import time
import unittest
from dataclasses import replace

import support
from kvrail.connector.blocks import Group
from kvrail.connector.decode import Fetch, Queue, Release
from kvrail.connector.machine import Limits
from kvrail.connector.prefill import Publish, Withdraw
from kvrail.connector.target import Offer
from kvrail.vllm.groups import groups_of
from kvrail.vllm.worker import Worker
from stand_in_vllm import FullAttentionSpec, cache_config

try:
    from engines import LAYERS, PAGE_TOKENS, PAGES, PATIENCE, SECRET, Engine
except (ImportError, KeyError, OSError) as error:
    WHY = f"no kvrail library: {error}"
else:
    WHY = "" if "SOURCE_SOCKET" in os.environ else "no agents: SOURCE_SOCKET is not set"

LIMITS = Limits(hold=30, lease_ms=10_000, park=5)


@unittest.skipIf(WHY, WHY)
class Agents(unittest.TestCase):
    def setUp(self) -> None:
        self.source, self.target = Engine("source"), Engine("target")
        self.warnings: list[str] = []
        self.source.connection.ready(0, LAYERS)
        groups = groups_of(cache_config(FullAttentionSpec(PAGE_TOKENS)))
        self.p = self.source_worker(LIMITS)
        self.d = Worker(
            groups,
            LIMITS,
            connect_target=lambda: self.target.connection,
            warn=self.warnings.append,
        )
        self.sent: set[str] = set()
        self.received: set[str] = set()
        self.bad: set[int] = set()
        self.step()
        self.offer_sources = (self.source.address(),)

    def source_worker(self, limits: Limits) -> Worker:
        return Worker(
            groups_of(cache_config(FullAttentionSpec(PAGE_TOKENS))),
            limits,
            connect_source=lambda: self.source.connection,
            warn=self.warnings.append,
        )

    def step(self) -> None:
        for worker in (self.p, self.d):
            worker.step(time.monotonic())
            results = worker.results()
            self.sent |= results.sent
            self.received |= results.received
            self.bad |= results.bad_blocks

    def until(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, f"{what} did not come: {self.warnings}")
            self.step()

    def publish(self, name: str, blocks: list[int], tokens: int) -> Offer:
        command = Publish(f"p-{name}", name, 1, tokens, (tuple(blocks),), secret=SECRET)
        self.p.commands([command], time.monotonic())
        return Offer(1, self.offer_sources, SECRET)

    def fetch(self, name: str, offer: Offer, blocks: list[int], tokens: int, skip: int) -> None:
        groups = (Group(tuple(blocks), PAGE_TOKENS),)
        commands = [Queue(f"d-{name}", name, offer, tokens)]
        commands.append(Fetch(f"d-{name}", name, offer, tokens, skip, groups))
        self.d.commands(commands, time.monotonic())

    def page(self, engine: Engine, page: int) -> list[bytes]:
        return [engine.page(layer, part, page) for layer in range(LAYERS) for part in (0, 1)]

    def tearDown(self) -> None:
        self.assertEqual((len(self.p), len(self.d)), (0, 0))
        left = [w.shutdown(time.monotonic, time.sleep, PATIENCE) for w in (self.p, self.d)]
        self.assertEqual(left, [0, 0])

    def test_after_the_local_prefix(self) -> None:
        before = self.page(self.target, 21)
        offer = self.publish("a", [1, 2, 3], 48)
        self.fetch("a", offer, [21, 22, 23], 48, 16)
        self.until(lambda: self.sent and self.received, "the end")
        self.assertEqual((self.sent, self.received, self.bad), ({"p-a"}, {"d-a"}, set()))
        self.assertEqual(self.page(self.target, 21), before)
        for here, there in ((22, 2), (23, 3)):
            self.assertEqual(self.page(self.target, here), self.page(self.source, there))
        self.assertEqual(self.warnings, [])

    def test_a_release_frees_the_source(self) -> None:
        offer = self.publish("b", [1, 2], 32)
        commands = [Queue("d-b", "b", offer, 32), Release("d-b", "b", offer, 32)]
        self.d.commands(commands, time.monotonic())
        self.until(lambda: self.sent and not len(self.d), "SOURCE_FREE")
        self.assertEqual(self.received, set())

    def test_a_release_without_knowing_the_tokens(self) -> None:
        """As after an abort in the queue: one token, of one."""
        offer = self.publish("c", [1, 2], 32)
        self.d.commands([Queue("d-c", "c", offer), Withdraw("d-c")], time.monotonic())
        self.until(lambda: self.sent and not len(self.d), "SOURCE_FREE")

    def test_a_source_is_held_for_a_queued_request(self) -> None:
        """Longer than its lease; the local prefix is known at the end."""
        self.p = self.source_worker(replace(LIMITS, hold=1, lease_ms=500))
        offer = self.publish("q", [1, 2, 3], 48)
        self.d.commands([Queue("d-q", "q", offer, 48)], time.monotonic())
        self.until(lambda: self.d.target.open_handles, "the fetch")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            self.step()
        self.assertEqual((self.sent, self.received), (set(), set()))
        groups = (Group((21, 22, 23), PAGE_TOKENS),)
        self.d.commands([Fetch("d-q", "q", offer, 48, 32, groups)], time.monotonic())
        self.until(lambda: self.sent and self.received, "the end")
        self.assertEqual(self.page(self.target, 23), self.page(self.source, 3))
        self.assertEqual(self.warnings, [])

    def test_withdrawn_at_either_side(self) -> None:
        offer = Offer(1, self.offer_sources, SECRET)
        self.fetch("e", offer, [21], 16, 0)
        self.step()
        self.d.commands([Withdraw("d-e")], time.monotonic())
        self.until(lambda: "d-e" in self.received, "the end of a fetch without a source")
        self.publish("f", [1], 16)
        self.step()
        self.p.commands([Withdraw("p-f")], time.monotonic())
        self.until(lambda: "p-f" in self.sent, "the end of a publish without a target")

    def test_a_source_that_gives_up_names_the_blocks(self) -> None:
        offer = Offer(2, self.offer_sources, SECRET)  # this attempt is never published
        self.fetch("g", offer, [21, 22], 32, 16)
        self.step()
        self.d.commands([Withdraw("d-g")], time.monotonic())
        self.until(lambda: "d-g" in self.received, "the end")

    def test_many(self) -> None:
        chance = random.Random(1)
        for turn in range(20):
            free_p, free_d = list(range(PAGES)), list(range(PAGES))
            chance.shuffle(free_p)
            chance.shuffle(free_d)
            pairs, aborted = [], set()
            for number in range(8):
                name, count = f"m{turn}-{number}", chance.randrange(1, 7)
                here, there = (
                    [free_d.pop() for _ in range(count)],
                    [free_p.pop() for _ in range(count)],
                )
                skip = chance.randrange(count) * PAGE_TOKENS
                offer = self.publish(name, there, count * PAGE_TOKENS)
                self.fetch(name, offer, here, count * PAGE_TOKENS, skip)
                if chance.random() < 0.2:
                    self.d.commands([Withdraw(f"d-{name}")], time.monotonic())
                    aborted.add(name)
                pairs += [
                    (name, *pair) for pair in list(zip(here, there, strict=True))[skip // 16 :]
                ]
            self.until(lambda: not len(self.d), "the end of all fetches")
            # One may have been cancelled before its source's agent knew the publish.
            self.p.commands([Withdraw(f"p-{name}") for name in aborted], time.monotonic())
            self.until(lambda: not len(self.p), "the end of all publishes")
            for name, here, there in pairs:
                if name not in aborted:
                    self.assertEqual(self.page(self.target, here), self.page(self.source, there))
        self.assertEqual(len(self.sent), 160)
        self.assertEqual(len(self.received), 160)


if __name__ == "__main__":
    support.main(__file__)
