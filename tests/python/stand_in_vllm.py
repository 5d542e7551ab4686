"""Requests and a scheduler as vLLM has them, as far as the connector sees them: for tests without
vLLM."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

RequestStatus = enum.Enum(
    "RequestStatus",
    "WAITING RUNNING PREEMPTED WAITING_FOR_REMOTE_KVS FINISHED_STOPPED "
    "FINISHED_LENGTH_CAPPED FINISHED_ABORTED FINISHED_ERROR",
)


@dataclass
class Request:
    request_id: str
    num_prompt_tokens: int
    kv_transfer_params: dict[str, Any] | None = None
    num_computed_tokens: int = 0
    status: RequestStatus = RequestStatus.WAITING
    max_tokens: int = 16
    prompt_token_ids: list[int] = field(default_factory=list)
    _all_token_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.prompt_token_ids = list(range(self.num_prompt_tokens))
        self._all_token_ids = list(self.prompt_token_ids)


@dataclass
class FullAttentionSpec:
    block_size: int
    sliding_window: int | None = None


@dataclass
class SlidingWindowSpec:
    block_size: int
    sliding_window: int


@dataclass
class MambaSpec:
    block_size: int
    num_speculative_blocks: int = 0
    tp_replicated: bool = False


@dataclass
class KVCacheGroup:
    kv_cache_spec: Any


@dataclass
class KVCacheConfig:
    kv_cache_groups: list[KVCacheGroup]


def cache_config(*specs: Any) -> KVCacheConfig:
    return KVCacheConfig([KVCacheGroup(spec) for spec in specs])
