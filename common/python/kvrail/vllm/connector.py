"""The class that vLLM loads: KVConnectorBase_V1 with the hybrid memory allocator.

It only translates: scheduler.py is the scheduler's half, worker.py with session.py the worker's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)
from vllm.logger import init_logger

from ..connector.handoff import SourceAddress
from .agents import Agents
from .form import page_form
from .groups import Groups, groups_of
from .pool import pool_context
from .scheduler import Command, Scheduler
from .settings import settings_of
from .stats import KvrailPromMetrics, KvrailStats
from .worker import Transfers

if TYPE_CHECKING:
    import torch

    from vllm.config import VllmConfig
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request

    from .session import RankSession

logger = init_logger("vllm.kvrail")  # below vllm's, which has the handler

__all__ = ["KvrailConnector", "KvrailHandshake", "KvrailMetadata", "KvrailWorkerMeta"]


@dataclass
class KvrailMetadata(KVConnectorMetadata):
    """From the scheduler to every worker: the commands of one step, in order."""

    commands: tuple[Command, ...] = ()


@dataclass
class KvrailHandshake(KVConnectorHandshakeMetadata):
    """From each worker to the scheduler, once: where its agent is dialed, and which start of the
    engine it is. A worker that only fetches has no agent to be dialed: `agent` is empty."""

    agent: str
    engine: str
    generation: int


@dataclass
class KvrailWorkerMeta(KVConnectorWorkerMetadata):
    """From a worker to the scheduler when its agents are lost or back: {(pp, tp): (source,
    target)}."""

    agents: dict[tuple[int, int], tuple[bool, bool]] = field(default_factory=dict)

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        assert isinstance(other, KvrailWorkerMeta)
        return KvrailWorkerMeta({**self.agents, **other.agents})


def sources_of(metadata: dict[tuple[int, int], Any]) -> tuple[SourceAddress, ...]:
    """The source addresses of one engine, from its workers' handshakes by (pp, tp)."""
    return tuple(
        SourceAddress(shake.agent, shake.engine, shake.generation, tp, pp)
        for (pp, tp), shake in sorted(metadata.items())
        if shake is not None and shake.agent
    )


def backoff_of(vllm_config: Any, groups: Groups) -> int:
    """Prompt tokens at the end that the decode engine computes itself, and the prefill engine does
    not. The last one with a recurrent state: it must be that before the last token. Also with a
    window: after the last token vLLM frees the block that only this token saw. And what the draft
    heads look ahead."""
    ahead = getattr(vllm_config, "num_prefill_lookahead_tokens", 0)
    return max(1 if groups.has_state or groups.has_window else 0, int(ahead) - 1, 0)


def computes_at_once(vllm_config: Any) -> bool:
    """Whether a step's bytes are in memory when its computation returns. On a GPU they follow in the
    order of a stream."""
    return str(vllm_config.device_config.device_type) == "cpu"


def refuse_context_parallel(parallel_config: Any) -> None:
    """Tokens striped over ranks have no form in kvrail's page tables."""
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        size = getattr(parallel_config, name, 1)
        if size > 1:
            raise ValueError(f"kvrail cannot transfer the KV of {name}={size}: set it to 1")


class KvrailConnector(KVConnectorBase_V1, SupportsHMA):
    """One instance in the scheduler's process, one in each worker."""

    def __init__(
        self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig
    ) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        refuse_context_parallel(vllm_config.parallel_config)
        self._groups = groups_of(kv_cache_config)
        self._scheduler: Scheduler | None = None
        self._session: RankSession | None = None
        self._bad_blocks: set[int] = set()
        self._agents: Agents | None = None
        transfer = self._kv_transfer_config
        is_scheduler = role == KVConnectorRole.SCHEDULER
        self._settings = settings_of(str(transfer.kv_role), transfer.kv_connector_extra_config)
        if is_scheduler:
            self._scheduler = Scheduler(
                self._groups,
                str(transfer.engine_id),
                threshold=self._settings.threshold,
                backoff=backoff_of(vllm_config, self._groups),
                pages=page_form(vllm_config, kv_cache_config),
                tenant=self._settings.tenant,
                final_after_step=computes_at_once(vllm_config),
                warn=logger.warning,
            )
        else:
            self._agents = Agents(
                self._settings, str(transfer.engine_id), logger.info, logger.warning
            )

    # ---- the scheduler's side -------------------------------------------------------------------

    @property
    def _side(self) -> Scheduler:
        assert self._scheduler is not None, "a call for the scheduler's side, in a worker"
        return self._scheduler

    @property
    def supports_divergent_local_hybrid_hits(self) -> bool:
        return self._groups.complete_divergent_hits

    def get_loaded_kv_cache_group_ids(self, request: Request) -> tuple[int, ...]:
        return tuple(spec.index for spec in self._groups.specs)

    def on_new_request(self, request: Request) -> None:
        self._side.arrived(request)

    def get_num_new_matched_tokens(
        self, request: Request, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        return self._side.tokens_to_load(request, num_computed_tokens)

    def update_state_after_alloc(
        self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int
    ) -> None:
        self._side.allocated(request, blocks.get_block_ids(), num_external_tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVConnectorMetadata:
        self._side.scheduled(scheduler_output)
        return KvrailMetadata(self._side.take_commands())

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        meta = getattr(connector_output, "kv_connector_worker_meta", None)
        self._side.reported(
            connector_output.finished_sending,
            connector_output.finished_recving,
            meta.agents if isinstance(meta, KvrailWorkerMeta) else None,
        )

    def request_finished(
        self, request: Request, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self._side.finished(request, (block_ids,))

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self._side.finished(request, block_ids)

    def set_xfer_handshake_metadata_pp_aware(
        self, metadata: dict[tuple[int, int], KVConnectorHandshakeMetadata]
    ) -> None:
        self._side.set_sources(sources_of(metadata))

    def set_xfer_handshake_metadata(
        self, metadata: dict[int, KVConnectorHandshakeMetadata]
    ) -> None:
        self._side.set_sources(sources_of({(0, tp): shake for tp, shake in metadata.items()}))

    # ---- the worker's side ----------------------------------------------------------------------

    @property
    def _rank(self) -> RankSession:
        assert self._session is not None, "register_kv_caches was not called in this worker"
        return self._session

    def get_mem_pool_context(self) -> Any:
        """vLLM 0.32 and later ask for it before they allocate the KV cache."""
        config = self._vllm_config
        return pool_context(
            str(config.device_config.device_type),
            cumem=getattr(config.model_config, "enable_cumem_allocator", False),
        )

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        """Moves the cache onto sealed memory, and connects. An agent that is missing ends the
        engine's start with a sentence."""
        from .session import RankSession

        assert self._agents is not None, "a call for a worker, in the scheduler's process"
        self._session = RankSession(
            self._vllm_config,
            self._kv_cache_config,
            self._groups,
            kv_caches,
            self._settings,
            self._agents,
        )

    def get_handshake_metadata(self) -> KVConnectorHandshakeMetadata | None:
        return KvrailHandshake(*self._rank.address)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, KvrailMetadata)
        self._rank.worker.commands(metadata.commands, self._rank.now())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are complete before a request is scheduled."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Nothing to do for each layer: what is final is published after the step."""

    def wait_for_save(self) -> None:
        """The blocks stay until the publish has ended."""

    def get_transfer_results(self, finished_req_ids: set[str]) -> Any:
        """Of 0.30 and later; older versions call get_finished."""
        results = self._take_results()
        return base.KVConnectorTransferResults(results.sent, results.received, results.failed)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        results = self._take_results()
        if results.failed:
            raise RuntimeError(
                f"the KV of {', '.join(sorted(results.failed))} did not come, and with several KV "
                "groups this vLLM cannot compute it again: use 0.32 or later"
            )
        return results.sent, results.received

    def get_block_ids_with_load_errors(self) -> set[int]:
        bad, self._bad_blocks = self._bad_blocks, set()
        return bad

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        if self._session is None or (agents := self._session.worker.agents()) is None:
            return None
        return KvrailWorkerMeta({self._session.rank: agents})

    def get_kv_connector_stats(self) -> KvrailStats | None:
        """Of this worker since the last call. The scheduler's side has none."""
        taken = self._session.take_figures() if self._session is not None else None
        return None if taken is None else KvrailStats(taken)

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KvrailStats | None:
        return KvrailStats() if data is None else KvrailStats(data)

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: VllmConfig,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KvrailPromMetrics:
        return KvrailPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def shutdown(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.shutdown()
        if self._agents is not None:
            self._agents.close()

    def _take_results(self) -> Transfers:
        self._rank.worker.step(self._rank.now())
        results = self._rank.worker.results()
        self._bad_blocks |= results.bad_blocks
        return results
