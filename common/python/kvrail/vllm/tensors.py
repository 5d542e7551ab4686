"""vLLM's KV tensors as kvrail needs them: on sealed memory, and described as layers.

On the CPU vLLM allocates anonymous memory. `rehome` moves every tensor, in place, onto a memfd that
cannot shrink: the layers hold the same tensor objects, so they compute in it from then on.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .geometry import GeometryError, Kind, LayerCache
from .pool import refusal, vllm_asks

__all__ = ["Memory", "layer_caches", "layer_number", "rehome"]

PAGE = 4096


@dataclass(frozen=True, slots=True)
class Memory:
    """One storage on sealed memory. `fd` stays open as long as an agent may be connected to."""

    fd: int
    bytes: int
    address: int


def _sealed(name: str, size: int) -> int:
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


def rehome(tensors: Sequence[torch.Tensor]) -> list[Memory]:
    """Moves the tensors' storages, each once. Their bytes are not copied: an empty cache has
    none."""
    memories: dict[int, tuple[Memory, Any]] = {}
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise GeometryError(refusal(str(tensor.device), vllm_asks()))
        old = tensor.untyped_storage()
        if old.data_ptr() not in memories:
            size = -(-old.nbytes() // PAGE) * PAGE
            fd = _sealed("kvrail-kv", size)
            path = f"/proc/self/fd/{fd}"
            new = torch.from_file(path, shared=True, size=size, dtype=torch.uint8).untyped_storage()
            memories[old.data_ptr()] = (Memory(fd, size, new.data_ptr()), new)
        _, new = memories[old.data_ptr()]
        shape, strides, first = tensor.shape, tensor.stride(), tensor.storage_offset()
        tensor.set_(new, first, shape, strides)  # type: ignore[arg-type]
    return [memory for memory, _ in memories.values()]


def layer_number(name: str) -> int:
    """The number of a layer over the whole model, as vLLM finds it: the one number in its name."""
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", name)
    if len(numbers) != 1:
        raise GeometryError(f"layer {name}: its name must have one number, and has {len(numbers)}")
    return int(numbers[0])


def _kind(spec: Any) -> Kind:
    names = {cls.__name__ for cls in type(spec).__mro__}
    if "MambaSpec" in names:
        return Kind.STATE
    return Kind.MLA if any("MLA" in name for name in names) else Kind.KV


def _head_first(kind: Kind, heads: int, tp: int, tp_size: int, heads_total: int) -> int:
    """With fewer heads than ranks, neighbouring ranks hold the same head. A rank's part of a state
    counts as one head."""
    if kind is not Kind.KV:
        return tp if kind is Kind.STATE else 0
    return tp * heads if heads_total >= tp_size else tp * heads_total // tp_size


def layer_caches(
    tensors: Mapping[str, torch.Tensor],
    groups: Sequence[tuple[Sequence[str], Any]],
    memories: Sequence[Memory],
    *,
    tp: int,
    tp_size: int,
    heads_total: int,
) -> list[LayerCache]:
    """The layers of each KV group: `groups` has the names and the specification of each. A layer
    that has no tensor of its own shares another's, and needs no second description."""
    caches = []
    for group, (names, group_spec) in enumerate(groups):
        for name in names:
            tensor = tensors.get(name)
            if tensor is None:
                continue
            spec = getattr(group_spec, "kv_cache_specs", {}).get(name, group_spec)
            kind = _kind(spec)
            replicated = kind is Kind.STATE and getattr(spec, "tp_replicated", False)
            heads = tensor.shape[1] if kind is Kind.KV and tensor.dim() == 4 else 1
            number = next(
                i
                for i, m in enumerate(memories)
                if m.address <= tensor.data_ptr() < m.address + m.bytes
            )
            caches.append(
                LayerCache(
                    name=name,
                    layer=layer_number(name),
                    group=group,
                    kind=kind,
                    memory=number,
                    offset=tensor.data_ptr() - memories[number].address,
                    shape=tuple(tensor.shape),
                    strides=tuple(tensor.stride()),
                    element_bytes=tensor.element_size(),
                    block_tokens=0 if kind is Kind.STATE else spec.block_size,
                    head_first=_head_first(
                        kind, heads, 0 if replicated else tp, tp_size, heads_total
                    ),
                    replicated=replicated,
                )
            )
    return caches
