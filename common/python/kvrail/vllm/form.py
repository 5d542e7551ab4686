"""How bytes lie inside the pages of vLLM's KV cache, as a text that both engines must share.

Shape and strides say where a page, a head and a token begin. They do not name the type of the
elements. And vLLM's attention on a CPU packs the tokens of a whole block for the processor's matrix
instructions: such a block can only be copied as a whole, to an engine that packs in the same way.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["page_form"]


def page_form(vllm_config: Any, kv_cache_config: Any) -> str:
    """`float16`, or `float16, packed for a CPU (vec, blocks of 128)`."""
    kind = vllm_config.cache_config.cache_dtype
    if kind == "auto":
        kind = str(vllm_config.model_config.dtype).removeprefix("torch.")
    if str(vllm_config.device_config.device_type) != "cpu":
        return str(kind)
    packed = sorted({_packed(spec) for spec in _attentions(kv_cache_config)})
    return f"{kind}, packed for a CPU ({'; '.join(packed)})" if packed else str(kind)


def _attentions(kv_cache_config: Any) -> Iterator[Any]:
    for group in kv_cache_config.kv_cache_groups:
        if hasattr(group.kv_cache_spec, "head_size"):
            yield group.kv_cache_spec


def _packed(spec: Any) -> str:
    return f"{_instructions(spec)}, blocks of {spec.block_size}"


def _instructions(spec: Any) -> str:
    """vLLM's own name for the instructions that it packs for; else the processor's."""
    try:
        from vllm.v1.attention.backends.cpu_attn import _get_attn_isa

        return str(_get_attn_isa(spec.dtype, spec.block_size, spec.head_size))
    except (ImportError, TypeError):
        return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
