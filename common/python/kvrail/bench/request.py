"""A request as the connector sees it in vLLM's scheduler, and vLLM's shapes of its blocks."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__all__ = ["BLOCK_TOKENS", "Cache", "Request", "prefilled", "step_of"]

BLOCK_TOKENS = 16

Status = enum.Enum("Status", "RUNNING FINISHED_LENGTH_CAPPED FINISHED_STOPPED")


@dataclass(slots=True)
class Request:
    """`block_ids` are those of the one KV group."""

    request_id: str
    block_ids: list[int]
    kv_transfer_params: dict[str, Any] | None = None
    num_computed_tokens: int = 0
    status: Status = Status.RUNNING
    max_tokens: int = 1
    num_prompt_tokens: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_prompt_tokens = len(self.block_ids) * BLOCK_TOKENS

    def get_block_ids(self) -> tuple[list[int], ...]:
        return (self.block_ids,)


def step_of(requests: Sequence[Request]) -> Any:
    """vLLM's SchedulerOutput of a step that computes these whole prompts."""
    return SimpleNamespace(
        scheduled_new_reqs=[
            SimpleNamespace(
                req_id=request.request_id, block_ids=request.get_block_ids(), num_computed_tokens=0
            )
            for request in requests
        ],
        scheduled_cached_reqs=SimpleNamespace(req_ids=[]),
        num_scheduled_tokens={each.request_id: each.num_prompt_tokens for each in requests},
    )


def prefilled(request: Request) -> None:
    """The prompt is computed, and with it the request ends."""
    request.num_computed_tokens = request.num_prompt_tokens
    request.status = Status.FINISHED_LENGTH_CAPPED


@dataclass(frozen=True, slots=True)
class Spec:
    block_size: int = BLOCK_TOKENS
    sliding_window: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    kv_cache_spec: Spec = Spec()
    layer_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cache:
    """vLLM's KVCacheConfig, with one KV group of full attention."""

    kv_cache_groups: tuple[Group, ...] = (Group(),)
