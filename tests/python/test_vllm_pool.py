"""Goal: vLLM learns before it allocates its KV cache that kvrail cannot use it, and its own
allocator stays in charge where it is on. Method: the decision alone; then the hook of vLLM's class, and a
tensor that is in no host memory, where vLLM and torch are installed."""

from __future__ import annotations

import types
import unittest

import support
from kvrail.vllm.pool import pool_context, refusal

try:
    import torch
    from kvrail.vllm.connector import KvrailConnector
    from kvrail.vllm.geometry import GeometryError
    from kvrail.vllm.tensors import rehome
except ImportError as error:
    WHY = f"no vLLM: {error}"
else:
    WHY = ""


class Decision(unittest.TestCase):
    def test_host_memory_and_cumem_need_no_context(self) -> None:
        self.assertIsNone(pool_context("cpu", cumem=False))
        self.assertIsNone(pool_context("cuda", cumem=True))

    def test_a_gpu_is_refused(self) -> None:
        with self.assertRaises(RuntimeError) as caught:
            pool_context("cuda", cumem=False)
        self.assertIn("cannot allocate a KV cache on cuda yet", str(caught.exception))

    def test_a_vllm_without_the_hook(self) -> None:
        self.assertIn("Use 0.32 or later", refusal("cuda:0", has_hook=False))


@unittest.skipIf(WHY, WHY)
class InVllm(unittest.TestCase):
    def context(self, device: str, **model: bool) -> object:
        connector = object.__new__(KvrailConnector)
        connector._vllm_config = types.SimpleNamespace(
            device_config=types.SimpleNamespace(device_type=device),
            model_config=types.SimpleNamespace(**model),
        )
        return connector.get_mem_pool_context()

    def test_the_hook(self) -> None:
        self.assertIsNone(self.context("cpu", enable_cumem_allocator=False))
        self.assertIsNone(self.context("cuda", enable_cumem_allocator=True))
        for model in ({"enable_cumem_allocator": False}, {}):
            with self.assertRaises(RuntimeError):
                self.context("cuda", **model)

    def test_a_tensor_that_is_elsewhere(self) -> None:
        with self.assertRaises(GeometryError) as caught:
            rehome([torch.zeros(4, device="meta")])
        self.assertIn("cannot allocate a KV cache on meta yet", str(caught.exception))


if __name__ == "__main__":
    support.main(__file__)
