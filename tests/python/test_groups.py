"""Goal: a request has up to 32 KV groups, each with its page table and its skip. Method: engines with a layer
in each group and random bytes, through two agents; run.sh starts them."""

import json
import os
import random
import time
import unittest

import harness
import kvrail
import scheduler
from engines import PATIENCE, EventKind, connect

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
        self.connection = connect(role, self.identity)
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
        return end_of(self.connection, handle)


def end_of(connection: kvrail.Connection, handle: int) -> kvrail.Event:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for event in connection.wait(1.0):
            if event.terminal and event.handle == handle:
                return event
    raise AssertionError(f"handle {handle} did not end")


class SharedMemory:
    """Two layouts over the same bytes, as vLLM's KV groups have them: a layer of attention with
    pages of tokens, and a state with one page a request. Both take pages of one pool."""

    PAGE_BYTES = 2 * 16 * 128  # K and V of 16 tokens
    STATE_BYTES = 3000

    def __init__(self, role: str) -> None:
        self.identity = kvrail.Identity(
            os.urandom(16), time.time_ns(), 2, 1, 64, model="shared", dtype="bfloat16", name=role
        )
        self.connection = connect(role, self.identity)
        size = PAGES * 4 * self.PAGE_BYTES
        self.memory = kvrail.Memory(f"shared-{role}-{os.getpid()}", size)
        if role == "source":
            with self.memory.view as view:
                view[:size] = random.randbytes(size)
        fields = {"layer_count": 1, "head_count": 1, "page_count": PAGES * 4, "bytes": size}
        attention = kvrail.Region(
            fd=self.memory.fd,
            parts=(kvrail.Part.K, kvrail.Part.V),
            page_tokens=16,
            page_stride=self.PAGE_BYTES,
            part_stride=self.PAGE_BYTES // 2,
            token_stride=128,
            head_bytes=128,
            **fields,
        )
        first = self.connection.region_add(attention, PATIENCE)
        state = kvrail.Region(
            memory_of=first,
            group=1,
            layer_first=1,
            parts=(kvrail.Part.STATE,),
            page_tokens=0,
            page_stride=self.PAGE_BYTES,
            head_bytes=self.STATE_BYTES,
            **fields,
        )
        self.connection.region_add(state, PATIENCE)

    def page(self, page: int) -> bytes:
        at = page * self.PAGE_BYTES
        with self.memory.view as view:
            return bytes(view[at : at + self.PAGE_BYTES])


def mappings(pid: str, name: str) -> int:
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return sum(f"memfd:{name} " in line for line in maps)


def figures(name: str) -> dict[str, int]:
    """What the scheduler shows of the engine's regions."""
    with scheduler.ask(os.environ["SCHEDULER"], "/api/v1/agents", PATIENCE) as answer:
        agents = json.load(answer)["agents"]
    engines = [engine for agent in agents for engine in agent["engines"]]
    return next((engine for engine in engines if engine["model"] == name), {})


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

    def test_two_layouts_share_one_memory(self) -> None:
        source, target = SharedMemory("source"), SharedMemory("target")
        for role in ("source", "target"):
            pid = os.environ[f"{role.upper()}_PID"]
            self.assertEqual(mappings(pid, f"shared-{role}-{os.getpid()}"), 1)
        pages = random.sample(range(PAGES * 4), 4), random.sample(range(PAGES * 4), 4)
        before = [target.page(page) for page in range(PAGES * 4)]
        tokens = 40  # two pages and a half; a state has one page of any number of tokens
        publish = source.connection.source_open("shared", tokens)
        address = kvrail.SourceAddress(
            os.environ["SOURCE_AGENT"], source.identity.engine, source.identity.generation
        )
        fetch = target.connection.target_open("shared", tokens, [address])
        for group, which in ((0, slice(0, 3)), (1, slice(3, 4))):
            source.connection.source_pages(publish, group, pages[0][which])
            target.connection.target_pages(fetch, group, pages[1][which])
        source.connection.source_watch(publish, 0, 0, 0, tokens)
        source.connection.ready(0, 2)
        source.connection.source_end(publish)
        done = end_of(target.connection, fetch)
        self.assertEqual(done.kind, EventKind.DONE, done.detail)
        self.assertEqual(done.bytes, 3 * source.PAGE_BYTES + source.STATE_BYTES)
        end_of(source.connection, publish)
        for a, b in zip(pages[0][:3], pages[1][:3]):
            self.assertEqual(target.page(b), source.page(a))
        state, rest = target.page(pages[1][3]), before[pages[1][3]][source.STATE_BYTES :]
        self.assertEqual(state, source.page(pages[0][3])[: source.STATE_BYTES] + rest)
        for page in set(range(PAGES * 4)) - set(pages[1]):
            self.assertEqual(target.page(page), before[page], "a page that is not the request's")

    def test_shared_memory_counts_once(self) -> None:
        source = SharedMemory("source")
        end = time.monotonic() + PATIENCE
        while (shown := figures("shared")).get("regions") != 2 and time.monotonic() < end:
            time.sleep(0.2)
        self.assertEqual((shown["regions"], shown["region_bytes"]), (2, source.memory.bytes))

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
