"""Goal: tensors move onto sealed memory in place, and each region's formula names their bytes
there. Skipped where torch is not installed."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import unittest

import support
from kvrail.vllm.geometry import GeometryError, Kind, plan_regions
from stand_in_vllm import FullAttentionSpec, MambaSpec

try:
    import torch
    from kvrail.vllm.tensors import layer_caches, layer_number, rehome
except ImportError as error:
    torch, WHY = None, str(error)
else:
    WHY = ""

LAYERS, BLOCKS, HEADS, TOKENS, CONTENT = 3, 5, 2, 16, 8
NAMES = [f"model.layers.{number}.self_attn.attn" for number in range(LAYERS)]


@unittest.skipIf(torch is None, f"torch is not installed: {WHY}")
class Tensors(unittest.TestCase):
    def setUp(self) -> None:
        """As vLLM 0.32 on the CPU: all layers are views of one allocation."""
        shape = (LAYERS, BLOCKS, HEADS, TOKENS, CONTENT)
        self.whole = torch.zeros(shape, dtype=torch.float32)
        self.tensors = dict(zip(NAMES, self.whole.unbind(0), strict=True))
        self.memories = rehome(list(self.tensors.values()))

    def tearDown(self) -> None:
        for memory in self.memories:
            os.close(memory.fd)

    def plans(self, **fields):
        options = {"tp": 0, "tp_size": 1, "heads_total": HEADS, **fields}
        groups = [(NAMES, FullAttentionSpec(TOKENS))]
        return plan_regions(layer_caches(self.tensors, groups, self.memories, **options))

    def test_one_memory_that_cannot_shrink(self) -> None:
        (memory,) = self.memories
        self.assertTrue(fcntl.fcntl(memory.fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
        self.assertGreaterEqual(memory.bytes, self.whole.nbytes)
        with self.assertRaises(PermissionError):
            os.ftruncate(memory.fd, 4096)

    def test_the_layers_compute_in_it(self) -> None:
        (plan,) = self.plans()
        self.assertEqual(
            (plan.layer_count, plan.head_count, plan.page_tokens), (LAYERS, HEADS, TOKENS)
        )
        for layer, tensor in enumerate(self.tensors.values()):
            tensor[3, 1, 7, 5] = layer + 0.5
        with mmap.mmap(self.memories[0].fd, self.memories[0].bytes, prot=mmap.PROT_READ) as view:
            for layer in range(LAYERS):
                at = plan.offset(layer, 3, 7, 1) + 5 * 4
                self.assertEqual(struct.unpack_from("f", view, at), (layer + 0.5,))

    def test_heads_of_a_rank(self) -> None:
        self.assertEqual(self.plans(tp=3, tp_size=4, heads_total=8)[0].head_first, 6)
        self.tensors = {name: tensor[:, :1] for name, tensor in self.tensors.items()}
        firsts = [self.plans(tp=tp, tp_size=4, heads_total=2)[0].head_first for tp in range(4)]
        self.assertEqual(firsts, [0, 0, 1, 1], "neighbours hold the same head")

    def test_separate_storages_and_offsets(self) -> None:
        raw = [torch.zeros(BLOCKS * HEADS * TOKENS * CONTENT + 16) for _ in range(2)]
        view = (BLOCKS, HEADS, TOKENS, CONTENT)
        tensors = [storage[16:].view(view) for storage in raw]
        memories = rehome(tensors)
        self.assertEqual(len(memories), 2)
        groups = [(["a.0", "a.1", "a.2"], FullAttentionSpec(TOKENS))]
        caches = layer_caches(
            {"a.0": tensors[0], "a.1": tensors[1]}, groups, memories, tp=0, tp_size=1, heads_total=2
        )
        self.assertEqual([(c.memory, c.offset) for c in caches], [(0, 64), (1, 64)])
        for memory in memories:
            os.close(memory.fd)

    def test_a_state(self) -> None:
        tensors = {"m.0": torch.zeros(BLOCKS, 1, 1, 100, dtype=torch.int8)}
        memories = rehome(list(tensors.values()))
        (cache,) = layer_caches(
            tensors, [(["m.0"], MambaSpec(16))], memories, tp=0, tp_size=1, heads_total=1
        )
        self.assertEqual((cache.kind, cache.block_tokens), (Kind.STATE, 0))
        for spec, first in ((MambaSpec(16), 3), (MambaSpec(16, tp_replicated=True), 0)):
            (cache,) = layer_caches(
                tensors, [(["m.0"], spec)], memories, tp=3, tp_size=4, heads_total=8
            )
            self.assertEqual((cache.head_first, cache.replicated), (first, spec.tp_replicated))
        os.close(memories[0].fd)

    def test_layer_numbers(self) -> None:
        self.assertEqual(layer_number("model.layers.17.self_attn.attn"), 17)
        for name in ("lm_head", "a.1.b.2"):
            with self.assertRaises(GeometryError):
                layer_number(name)


if __name__ == "__main__":
    support.main(__file__)
