"""Two small engines for the tests with agents: SOURCE_SOCKET, TARGET_SOCKET and SOURCE_AGENT of the
environment say where the agents are."""

from __future__ import annotations

import os
import random
import time

import kvrail
from kvrail import EventKind, Status

LAYERS, PAGE_TOKENS, PAGES = 4, 16, 64
PATIENCE = 30.0 * int(os.environ.get("KVRAIL_TIME_SCALE", "100")) / 100


SECRET = "6b76726169006b768292a2b2c2d2e2f201122334455667788a9babbccddeeff0"


def connect(role: str, identity: kvrail.Identity) -> kvrail.Connection:
    """Of kvrail.Connection, which a test may replace. All requests have one secret, unless a test
    names another, or None."""

    class Connection(kvrail.Connection):  # type: ignore[name-defined, misc]
        def source_open(self, request: str, tokens: int, **options: object) -> int:
            options = {"secret": SECRET, **options}
            return super().source_open(request, tokens, **options)  # type: ignore[arg-type]

        def target_open(self, request: str, tokens: int, sources: object, **options: object) -> int:
            options = {"secret": SECRET, **options}
            return super().target_open(request, tokens, sources, **options)  # type: ignore[arg-type]

    return Connection(os.environ[f"{role.upper()}_SOCKET"], identity, PATIENCE)


class Engine:
    """One rank with host memory of 64 pages; the source's bytes are random."""

    def __init__(self, role: str, **identity: object) -> None:
        fields = {
            "engine": os.urandom(16),
            "generation": time.time_ns(),
            "layers_total": LAYERS,
            "kv_heads_total": 2,
            "head_dim": 64,
            "model": "tests",
            "dtype": "bfloat16",
            "name": f"python-{role}",
        }
        self.identity = kvrail.Identity(**{**fields, **identity})  # type: ignore[arg-type]
        self.region = kvrail.Region(
            name="kv",
            layer_count=LAYERS,
            head_count=2,
            page_tokens=PAGE_TOKENS,
            page_count=PAGES,
            head_bytes=128,
        ).dense()
        self.memory = kvrail.Memory(f"python-{role}", self.region.bytes)
        self.region.fd = self.memory.fd
        if role == "source":
            with self.memory.view as view:
                view[: self.region.bytes] = random.randbytes(self.region.bytes)
        self.connection = connect(role, self.identity)
        self.words: dict[int, int] = {}
        self.region_id = self.connection.region_add(self.region, PATIENCE)

    def page(self, layer: int, part: int, page: int) -> bytes:
        at = layer * self.region.layer_stride + part * self.region.part_stride
        at += page * self.region.page_stride
        with self.memory.view as view:
            return bytes(view[at : at + self.region.page_stride])

    def address(self) -> kvrail.SourceAddress:
        """By which a target names this source."""
        own = self.identity
        return kvrail.SourceAddress(self.connection.agent_address, own.engine, own.generation)

    def publish(self, request: str, pages: list[int], ready: bool = True, **options: object) -> int:
        """Opens a publish of these pages, with all layers ready, and leaves the end to the caller."""
        tokens = len(pages) * PAGE_TOKENS
        source = self.connection.source_open(request, tokens, **options)  # type: ignore[arg-type]
        self.connection.source_pages(source, 0, pages)
        word = source % kvrail.WORDS_MAX
        self.connection.source_watch(source, word, self.words.get(word, 0), 0, tokens)
        if ready:
            self.raise_word(word)
        return source

    def raise_word(self, word: int) -> None:
        for _ in range(LAYERS):
            self.words[word] = self.words.get(word, 0) + 1
            self.connection.ready(word, self.words[word])

    def events_until(self, handle: int, kind: EventKind | None = None) -> list[kvrail.Event]:
        """All events up to this one of the handle, or up to its terminal event."""
        end, events = time.monotonic() + PATIENCE, list[kvrail.Event]()
        while time.monotonic() < end:
            for event in self.connection.wait(1.0):
                events.append(event)
                if event.handle == handle and (
                    event.terminal if kind is None else event.kind == kind
                ):
                    return events
        raise AssertionError(f"no end of {handle} in {PATIENCE} s; there were {events}")

    def end_of(self, handle: int) -> kvrail.Event:
        return self.events_until(handle)[-1]

    def close(self) -> None:
        try:
            self.connection.drain(PATIENCE)
        except kvrail.KvrailError:
            pass
        self.connection.close()
        self.memory.close()


def same_pages(source: Engine, from_pages: list[int], target: Engine, to_pages: list[int]) -> bool:
    return all(
        source.page(layer, part, a) == target.page(layer, part, b)
        for layer in range(LAYERS)
        for part in (0, 1)
        for a, b in zip(from_pages, to_pages)
    )


__all__ = [
    "Engine",
    "EventKind",
    "LAYERS",
    "PAGES",
    "PAGE_TOKENS",
    "PATIENCE",
    "SECRET",
    "Status",
    "connect",
    "same_pages",
]
