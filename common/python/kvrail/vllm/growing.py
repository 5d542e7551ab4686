"""Prefills from their first step to their last, as vLLM's SchedulerOutput tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Growing", "growth"]


@dataclass(slots=True)
class Growing:
    """A prefill whose last step is still to come."""

    request: Any
    block_ids: list[list[int]] = field(default_factory=list)  # of each KV group

    def add(self, block_ids: tuple[list[int], ...]) -> None:
        for ids, more in zip(self.block_ids, block_ids, strict=True):
            ids += more


def growth(growing: Mapping[str, Growing], output: Any) -> Iterator[tuple[str, int]]:
    """Gives the prefills of a step their new blocks: (id, tokens that were computed before). A
    prefill that was preempted begins anew, with new blocks."""
    for new in output.scheduled_new_reqs:
        if (prefill := growing.get(new.req_id)) is not None:
            prefill.block_ids = [list(ids) for ids in new.block_ids]
            yield new.req_id, new.num_computed_tokens
    cached = output.scheduled_cached_reqs
    for index, key in enumerate(cached.req_ids):
        if (prefill := growing.get(key)) is None:
            continue
        block_ids = cached.new_block_ids[index]
        if key in cached.resumed_req_ids:
            prefill.block_ids = [list(ids) for ids in block_ids]
        elif block_ids is not None:
            prefill.add(block_ids)
        yield key, cached.num_computed_tokens[index]
