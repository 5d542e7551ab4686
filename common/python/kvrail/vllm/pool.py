"""The memory in which vLLM allocates its KV cache, where the cache is not in host memory.

Host memory is moved afterwards (tensors.py). GPU memory must be allocated so that an agent can
import it: vLLM asks a connector for such a context (get_mem_pool_context). Its own allocator cumem,
on which its sleep mode depends, must stay in charge where it is on.
"""

from __future__ import annotations

from typing import Any

__all__ = ["pool_context", "refusal", "vllm_asks"]


def refusal(device: str, has_hook: bool) -> str:
    """What to say of a KV cache on such a device."""
    if not has_hook:
        return (
            f"kvrail cannot reach a KV cache on {device} that this vLLM allocates: it asks a "
            "connector for memory since 0.32 (get_mem_pool_context). Use 0.32 or later, or vLLM "
            "on a CPU"
        )
    return (
        f"kvrail cannot allocate a KV cache on {device} yet: this version moves KV in host memory. "
        "Use vLLM on a CPU, or another connector"
    )


def vllm_asks() -> bool:
    """Whether this vLLM asks a connector for such a context."""
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1

    return hasattr(KVConnectorBase_V1, "get_mem_pool_context")


def pool_context(device: str, cumem: bool) -> Any:
    """None: vLLM allocates as it does without a connector. `cumem`: its own allocator is on."""
    if device == "cpu" or cumem:
        return None
    raise RuntimeError(refusal(device, has_hook=True))
