"""A worker's connections: the rank's identity, its regions, and the agents that it connects to."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import kvrail
import torch

from vllm.distributed.parallel_state import get_pp_group, get_tp_group
from vllm.logger import init_logger

from ..agents.find import wrong_side
from ..connector.handoff import SourceAddress
from . import figures
from .agents import Agents
from .connecting import Connecting
from .figures import Meter
from .geometry import Kind, RegionPlan, plan_regions
from .groups import Groups
from .metered import MeteredConnection
from .settings import Settings
from .tensors import Memory, layer_caches, rehome
from .worker import Worker

logger = init_logger("vllm.kvrail")  # below vllm's, which has the handler

__all__ = ["RankSession", "engine_id_of", "model_tag"]

SHUTDOWN_SECONDS = 5.0
CONNECT_SECONDS = 0.01  # between two looks at the start
PARTS = {Kind.KV: kvrail.Part.KV, Kind.MLA: kvrail.Part.MLA, Kind.STATE: kvrail.Part.STATE}


def engine_id_of(engine_id: str) -> bytes:
    """16 bytes for kvrail, from vLLM's engine_id. Data-parallel engines have one each."""
    return hashlib.sha256(engine_id.encode()).digest()[:16]


def model_tag(vllm_config: Any) -> str:
    """Equal on both sides where the caches are: the model's name without its folder, its revision,
    the cache's type and the draft model, as a readable beginning and a hash."""
    model, cache = vllm_config.model_config, vllm_config.cache_config
    draft = getattr(vllm_config, "speculative_config", None)
    name = os.path.basename(str(model.model).rstrip("/"))
    parts = (name, model.revision, model.dtype, cache.cache_dtype, getattr(draft, "model", None))
    digest = hashlib.sha256(repr(tuple(str(part) for part in parts)).encode()).hexdigest()[:16]
    return f"{name.encode('ascii', 'replace').decode()[:40]}.{digest}"


class RankSession:
    """Made once, when vLLM has allocated its cache. Raises a RuntimeError with a sentence if an
    agent is missing."""

    def __init__(
        self,
        vllm_config: Any,
        kv_cache_config: Any,
        groups: Groups,
        kv_caches: Mapping[str, torch.Tensor],
        settings: Settings,
        agents: Agents,
    ) -> None:
        transfer = vllm_config.kv_transfer_config
        self._settings, self._agents = settings, agents
        self.rank = (get_pp_group().rank_in_group, get_tp_group().rank_in_group)
        self._memories = rehome(list(kv_caches.values()))
        plans = self._plans(vllm_config, kv_cache_config, groups, kv_caches)
        self._regions = [self._region(plan) for plan in plans]
        self._identity = self._who(vllm_config, transfer, plans)
        self._figures = figures.empty()
        self._connecting: list[Connecting] = []
        self.worker = self._worker(groups, plans)
        self._connect()

    def now(self) -> float:
        return time.monotonic()

    @property
    def address(self) -> tuple[str, str, int]:
        """(agent, engine, generation) of a source; agent is "" for a rank that only fetches."""
        source = self.worker.source
        agent = source.connection.agent_address if source is not None and source.up else ""
        return agent, self._identity.engine.hex(), self._identity.generation

    def take_figures(self) -> figures.Figures | None:
        """What ended since the last call; None: nothing did."""
        return figures.take(self._figures)

    def shutdown(self) -> None:
        left = self.worker.shutdown(self.now, time.sleep, SHUTDOWN_SECONDS)
        if left:
            logger.warning("kvrail: %d transfers had not ended after %g s", left, SHUTDOWN_SECONDS)
        if all([connecting.close() for connecting in self._connecting]):
            for memory in self._memories:  # else a thread may yet name their descriptors
                os.close(memory.fd)

    # ---- parts ----------------------------------------------------------------------------------

    def _connect(self) -> None:
        """An agent may have ended since its socket was found."""
        end = self.now() + self._agents.patience
        self.worker.step(self.now())
        for link in (self.worker.source, self.worker.target):
            while link is not None and not link.up:
                if link.last_error and self.now() >= end:
                    raise RuntimeError(f"kvrail: {link.last_error}")
                time.sleep(CONNECT_SECONDS)
                self.worker.step(self.now())

    def _plans(
        self, vllm_config: Any, kv_cache_config: Any, groups: Groups, kv_caches: Mapping[str, Any]
    ) -> list[RegionPlan]:
        chosen = [kv_cache_config.kv_cache_groups[spec.index] for spec in groups.specs]
        return plan_regions(
            layer_caches(
                kv_caches,
                [(group.layer_names, group.kv_cache_spec) for group in chosen],
                self._memories,
                tp=self.rank[1],
                tp_size=get_tp_group().world_size,
                heads_total=vllm_config.model_config.get_total_num_kv_heads(),
            )
        )

    def _region(self, plan: RegionPlan) -> kvrail.Region:
        memory: Memory = self._memories[plan.memory]
        return kvrail.Region(
            name=f"group {plan.group} layers {plan.layer_first}+{plan.layer_count}",
            fd=memory.fd,
            bytes=memory.bytes,
            parts=(PARTS[plan.kind],),
            replicated=plan.replicated,
            group=plan.group,
            layer_first=plan.layer_first,
            layer_count=plan.layer_count,
            head_first=plan.head_first,
            head_count=plan.head_count,
            page_tokens=plan.page_tokens,
            page_count=plan.page_count,
            base=plan.base,
            layer_stride=plan.layer_stride,
            page_stride=plan.page_stride,
            token_stride=plan.token_stride,
            head_stride=plan.head_stride,
            head_bytes=plan.head_bytes,
        )

    def _who(self, vllm_config: Any, transfer: Any, plans: list[RegionPlan]) -> kvrail.Identity:
        model = vllm_config.model_config
        layers = max(plan.layer_first + plan.layer_count for plan in plans)
        return kvrail.Identity(
            engine=engine_id_of(str(transfer.engine_id)),
            generation=time.time_ns(),
            layers_total=max(layers, model.get_total_num_hidden_layers()),
            kv_heads_total=model.get_total_num_kv_heads(),
            head_dim=model.get_head_size(),
            model=self._settings.model or model_tag(vllm_config),
            dtype=str(vllm_config.cache_config.cache_dtype)[:15],
            name=self._settings.name or f"vllm-{transfer.kv_role}"[:63],
            tp=self.rank[1],
            tp_size=get_tp_group().world_size,
            pp=self.rank[0],
            pp_size=get_pp_group().world_size,
        )

    def _worker(self, groups: Groups, plans: list[RegionPlan]) -> Worker:
        ratios = [1] * len(groups.specs)
        for plan in plans:
            ratios[plan.group] = plan.pages_of_a_block
        sockets = self._agents.sockets
        return Worker(
            groups,
            self._settings.limits,
            connect_source=self._connects("source") if "source" in sockets else None,
            connect_target=self._connects("target") if "target" in sockets else None,
            address=_address,
            pages_of_a_block=ratios,
            warn=logger.warning,
        )

    def _connects(self, side: str) -> Connecting:
        socket = self._agents.sockets[side]

        def connect() -> kvrail.Connection:
            timeout = self._settings.connect_timeout
            self._agents.ensure(side)
            connection = MeteredConnection(socket, self._identity, timeout)
            connection.meter = Meter(side, self._figures)
            try:
                if (side == "source") != bool(connection.agent_address):
                    raise wrong_side(socket, side)
                numbers: dict[int, int] = {}  # of the region that brought each memory
                for region in self._regions:
                    shared = replace(region, memory_of=numbers.get(region.fd, 0))
                    number = connection.region_add(shared, timeout)
                    numbers.setdefault(region.fd, number)
                connection.ready(0, self._identity.layers_total)
            except BaseException:
                connection.close()
                raise
            return connection

        connecting = Connecting(connect)
        self._connecting.append(connecting)
        return connecting


def _address(source: SourceAddress) -> kvrail.SourceAddress:
    engine = bytes.fromhex(source.engine)
    return kvrail.SourceAddress(source.agent, engine, source.generation, source.tp, source.pp)
