"""KV tensors as kvrail's regions: from addresses, shapes and strides, never from the name of a
layout.

vLLM and torch are not imported. A tensor of attention is [block, head, token, content] in its
logical order, with K and V side by side in the content; MLA's is the same with one head, or without
that dimension. A state's is [block, …]. In memory the dimensions may lie in any order.

The kernels' block may be smaller than the scheduler's: a region's page is then the kernel's block,
and `kernel_pages` multiplies block ids out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

__all__ = ["GeometryError", "Kind", "LayerCache", "RegionPlan", "kernel_pages", "plan_regions"]

REGIONS_MAX = 512  # of one connection

Kind = enum.Enum("Kind", "KV MLA STATE")


class GeometryError(ValueError):
    """Tensors that kvrail's formula cannot describe; the text names the layer and the remedy."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """One layer's tensor. Shape and strides are in elements, as torch has them."""

    name: str
    layer: int  # its number over the whole model
    group: int  # its KV group
    kind: Kind
    memory: int  # which of the engine's memories it lies in
    offset: int  # of its first byte there
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    block_tokens: int  # of the scheduler's block; a state: 0
    head_first: int = 0  # of the model's heads
    replicated: bool = False


@dataclass(frozen=True, slots=True)
class RegionPlan:
    """The fields of kvrail.Region that geometry decides. Strides are bytes."""

    memory: int
    group: int
    kind: Kind
    layer_first: int
    layer_count: int
    replicated: bool
    head_first: int
    head_count: int
    page_tokens: int  # a state: 0
    page_count: int
    base: int
    layer_stride: int
    page_stride: int
    token_stride: int
    head_stride: int
    head_bytes: int
    pages_of_a_block: int  # kernel blocks in one block of the scheduler

    def offset(self, layer: int, page: int, token: int, head: int) -> int:
        """kvrail's formula."""
        return (
            self.base
            + (layer - self.layer_first) * self.layer_stride
            + page * self.page_stride
            + token * self.token_stride
            + (head - self.head_first) * self.head_stride
        )


def _dense(cache: LayerCache, first: int) -> bool:
    """Whether the dimensions from `first` on lie side by side in their order."""
    expected = 1
    for size, stride in zip(
        reversed(cache.shape[first:]), reversed(cache.strides[first:]), strict=True
    ):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _attention(cache: LayerCache) -> RegionPlan:
    shape, strides = cache.shape, cache.strides
    if cache.kind is Kind.MLA and len(shape) == 3:
        shape, strides = (shape[0], 1, *shape[1:]), (strides[0], 0, *strides[1:])
    if len(shape) != 4:
        raise GeometryError(
            f"layer {cache.name}: its KV tensor {shape} is not [block, head, token, content]"
        )
    if shape[3] > 1 and strides[3] != 1:
        raise GeometryError(f"layer {cache.name}: the content of a head does not lie side by side")
    blocks, heads, tokens, content = shape
    if cache.block_tokens % tokens:
        raise GeometryError(
            f"layer {cache.name}: a block of {cache.block_tokens} tokens is not whole pages of "
            f"{tokens}"
        )
    if cache.kind is Kind.MLA and heads != 1:
        raise GeometryError(f"layer {cache.name}: a latent has one head, not {heads}")
    page, head, token, _ = (stride * cache.element_bytes for stride in strides)
    return RegionPlan(
        memory=cache.memory,
        group=cache.group,
        kind=cache.kind,
        layer_first=cache.layer,
        layer_count=1,
        replicated=cache.replicated or cache.kind is Kind.MLA,
        head_first=cache.head_first,
        head_count=heads,
        page_tokens=tokens,
        page_count=blocks,
        base=cache.offset,
        layer_stride=0,
        page_stride=page,
        token_stride=token if tokens > 1 else 0,
        head_stride=head if heads > 1 else 0,
        head_bytes=content * cache.element_bytes,
        pages_of_a_block=cache.block_tokens // tokens,
    )


def _state(cache: LayerCache) -> RegionPlan:
    if not _dense(cache, 1):
        raise GeometryError(f"layer {cache.name}: the bytes of a state do not lie side by side")
    return RegionPlan(
        memory=cache.memory,
        group=cache.group,
        kind=cache.kind,
        layer_first=cache.layer,
        layer_count=1,
        replicated=cache.replicated,
        head_first=cache.head_first,
        head_count=1,
        page_tokens=0,
        page_count=cache.shape[0],
        base=cache.offset,
        layer_stride=0,
        page_stride=cache.strides[0] * cache.element_bytes,
        token_stride=0,
        head_stride=0,
        head_bytes=prod(cache.shape[1:]) * cache.element_bytes,
        pages_of_a_block=1,
    )


def _continues(run: RegionPlan, one: RegionPlan) -> RegionPlan | None:
    """The run with one more layer at its end, or None."""
    if one.layer_first != run.layer_first + run.layer_count:
        return None
    stride = run.layer_stride if run.layer_count > 1 else one.base - run.base
    if stride <= 0 or one.base != run.base + run.layer_count * stride:
        return None
    same = replace(one, layer_first=run.layer_first, base=run.base)
    if same != replace(run, layer_count=1, layer_stride=0):
        return None
    return replace(run, layer_count=run.layer_count + 1, layer_stride=stride)


def plan_regions(caches: Iterable[LayerCache]) -> list[RegionPlan]:
    """The fewest regions: layers in a row at equal distances are one. Layers of several KV groups
    may lie in the same bytes. Raises GeometryError."""
    plans: list[RegionPlan] = []
    for cache in sorted(caches, key=lambda cache: (cache.group, cache.memory, cache.layer)):
        one = _state(cache) if cache.kind is Kind.STATE else _attention(cache)
        longer = _continues(plans[-1], one) if plans else None
        if longer is not None:
            plans[-1] = longer
        else:
            plans.append(one)
    if len(plans) > REGIONS_MAX:
        raise GeometryError(
            f"the KV cache needs {len(plans)} regions, and a connection has {REGIONS_MAX}: its "
            "layers do not lie at equal distances"
        )
    return plans


def kernel_pages(blocks: Sequence[int], pages_of_a_block: int) -> Sequence[int]:
    """Page ids of a region from the scheduler's block ids."""
    if pages_of_a_block == 1:
        return blocks
    return [block * pages_of_a_block + page for block in blocks for page in range(pages_of_a_block)]
