"""Goal: a request has up to 32 KV groups, each with its page table and its skip. Method: engines with a layer
in each group and random bytes, through two agents; run.sh starts them."""

import os
import random
import time
import unittest

import harness
import kvrail
from engines import PATIENCE, EventKind

GROUPS, PAGES = kvrail.GROUPS_MAX, 4


class Hybrid:
    """One layer in each group; group g has pages of 16 · (1 + g mod 2) tokens."""

    def __init__(self, role: str) -> None:
        self.identity = kvrail.Identity(
            os.urandom(16),
            time.time_ns(),
            GROUPS,
            1,
            64,
            model="hybrid",
            dtype="bfloat16",
            name=role,
        )
        self.connection = kvrail.Connection(
            os.environ[f"{role.upper()}_SOCKET"], self.identity, PATIENCE
        )
        self.regions, self.memories = [], []
        for group in range(GROUPS):
            region = kvrail.Region(
                group=group,
                layer_first=group,
                layer_count=1,
                head_count=1,
                page_tokens=16 * (1 + group % 2),
                page_count=PAGES,
                head_bytes=128,
            ).dense()
            memory = kvrail.Memory(f"group-{group}", region.bytes)
            region.fd = memory.fd
            if role == "source":
                with memory.view as view:
                    view[: region.bytes] = random.randbytes(region.bytes)
            self.connection.region_add(region, PATIENCE)
            self.regions.append(region)
            self.memories.append(memory)

    def page(self, group: int, part: int, page: int) -> bytes:
        region = self.regions[group]
        at = part * region.part_stride + page * region.page_stride
        with self.memories[group].view as view:
            return bytes(view[at : at + region.page_stride])

    def end_of(self, handle: int) -> kvrail.Event:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for event in self.connection.wait(1.0):
                if event.terminal and event.handle == handle:
                    return event
        raise AssertionError(f"handle {handle} did not end")


class Groups(unittest.TestCase):
    def test_each_has_its_pages_and_its_skip(self) -> None:
        source, target = Hybrid("source"), Hybrid("target")
        tokens = 64
        publish = source.connection.source_open("hybrid", tokens)
        address = kvrail.SourceAddress(
            os.environ["SOURCE_AGENT"], source.identity.engine, source.identity.generation
        )
        fetch = target.connection.target_open("hybrid", tokens, [address])
        skipped = {GROUPS - 1: 1, 5: 1}  # pages
        for group, pages in skipped.items():
            target.connection.target_skip(fetch, group, pages * target.regions[group].page_tokens)
        tables = {}
        for group in range(GROUPS):
            count = tokens // source.regions[group].page_tokens
            tables[group] = (
                random.sample(range(PAGES), count),
                random.sample(range(PAGES), count),
            )
            source.connection.source_pages(publish, group, tables[group][0])
            target.connection.target_pages(fetch, group, tables[group][1])
        source.connection.source_watch(publish, 0, 0, 0, tokens)
        source.connection.ready(0, GROUPS)
        source.connection.source_end(publish)
        done = target.end_of(fetch)
        self.assertEqual(done.kind, EventKind.DONE, done.detail)
        self.assertEqual(source.end_of(publish).status, kvrail.Status.OK)
        for group, (from_pages, to_pages) in tables.items():
            for i, (a, b) in enumerate(zip(from_pages, to_pages)):
                for part in (0, 1):
                    wanted = source.page(group, part, a)
                    if i < skipped.get(group, 0):
                        wanted = bytes(len(wanted))
                    self.assertEqual(target.page(group, part, b), wanted, f"group {group}")

    def test_there_is_no_thirty_third(self) -> None:
        engine = Hybrid("target")
        region = kvrail.Region(
            fd=engine.memories[0].fd, group=GROUPS, layer_count=1, head_count=1, head_bytes=128
        )
        region.page_tokens, region.page_count = 16, PAGES
        with self.assertRaises(kvrail.KvrailError) as caught:
            engine.connection.region_add(region.dense())
        self.assertIn("group is 32, allowed are 0 to 31", str(caught.exception))


if __name__ == "__main__":
    harness.main("python.groups")
