"""Moves pages between two tensors that PyTorch's allocator placed on a GPU, by two agents, and compares them.
SOURCE_SOCKET and TARGET_SOCKET of the environment say where the agents are."""

from __future__ import annotations

import os
import random
import sys
import time

import kvrail
import torch

LAYERS, PAGE_TOKENS, PAGES, HEADS, HEAD_BYTES = 4, 16, 512, 8, 256
PATIENCE = 30.0


class Engine:
    """One rank with its pages in a tensor."""

    def __init__(self, role: str) -> None:
        self.identity = kvrail.Identity(
            engine=os.urandom(16),
            generation=time.time_ns(),
            layers_total=LAYERS,
            kv_heads_total=HEADS,
            head_dim=HEAD_BYTES // 2,
            model="torch",
            dtype="bfloat16",
            name=f"torch-{role}",
        )
        self.region = kvrail.Region(
            name="kv",
            layer_count=LAYERS,
            head_count=HEADS,
            page_tokens=PAGE_TOKENS,
            page_count=PAGES,
            head_bytes=HEAD_BYTES,
        ).dense()
        size = self.region.bytes
        self.beside = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")  # no tensor begins a segment
        self.pages = torch.zeros(size, dtype=torch.uint8, device="cuda")
        if role == "source":
            self.pages.random_(0, 256)
        torch.cuda.synchronize()
        self.region.of_device(self.pages.data_ptr())
        self.connection = kvrail.Connection(os.environ[f"{role.upper()}_SOCKET"], self.identity, PATIENCE)
        self.connection.region_add(self.region, PATIENCE)

    def await_end(self, handle: int) -> kvrail.Event:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for event in self.connection.wait(1.0):
                if event.handle == handle and event.terminal:
                    return event
        raise SystemExit(f"{self.identity.name}: no end in {PATIENCE} s")


def move(source: Engine, target: Engine, count: int) -> None:
    """All layers of so many random pages."""
    from_pages, to_pages = (random.sample(range(PAGES), count) for _ in range(2))
    tokens = count * PAGE_TOKENS
    published = source.connection.source_open("torch", tokens)
    source.connection.source_pages(published, 0, from_pages)
    source.connection.source_watch(published, 0, 0, 0, tokens)
    stream = torch.cuda.current_stream().cuda_stream
    for layer in range(LAYERS):
        source.connection.ready_on_stream(0, layer + 1, stream)
    source.connection.source_end(published)
    address = kvrail.SourceAddress(
        source.connection.agent_address, source.identity.engine, source.identity.generation
    )
    secret = source.connection.source_secret(published)
    fetched = target.connection.target_open("torch", tokens, [address], secret=secret)
    target.connection.target_pages(fetched, 0, to_pages)
    end = target.await_end(fetched)
    if end.kind != kvrail.EventKind.DONE:
        raise SystemExit(f"the fetch ended in {end.status_name}: {end.detail}")
    source.await_end(published)
    shape = (LAYERS, 2, PAGES, -1)
    got, expected = target.pages.view(shape), torch.zeros_like(target.pages).view(shape)
    expected[:, :, to_pages] = source.pages.view(shape)[:, :, from_pages]
    if not torch.equal(got, expected):
        raise SystemExit("bytes are wrong")


def main() -> int:
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU")
        return 77
    source, target = Engine("source"), Engine("target")
    move(source, target, PAGES // 2)
    kind = source.region
    for engine in (source, target):
        engine.connection.close()
    print(f"torch {torch.__version__}, {kind.memory.name} over {max(kind.allocation_count, 1)}, every byte right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
