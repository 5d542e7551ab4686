"""Two engines of vLLM without a model: real schedulers, and workers with KV tensors of host memory,
on the agents that SOURCE_SOCKET and TARGET_SOCKET name.

The KV of a token is made of all tokens up to it. Before a step computes tokens, everything that
they see is compared: a wrong byte is found at its first use.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import vllm_engine
from vllm_engine import vllm

if vllm is not None:
    import torch
    from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
    from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
        MLAAttentionSpec,
        SlidingWindowSpec,
    )
    from vllm.v1.outputs import KVConnectorOutput

PATIENCE = 300.0 * int(os.environ.get("KVRAIL_TIME_SCALE", "100")) / 100
PRIME = 4194301  # numbers below it are exact in float32
HEADS, CONTENT = 2, 8
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


class Warnings(logging.Handler):
    """The connectors' warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        logging.getLogger("vllm.kvrail").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@dataclass(frozen=True)
class Layout:
    """KV groups: the window of each (0: full attention), with so many layers each."""

    windows: tuple[int, ...] = (0,)
    layers_of_a_group: int = 2
    heads: int = HEADS
    latent: bool = False  # MLA

    def heads_of(self, tp: int, tp_size: int) -> list[int]:
        if self.latent:
            return [0]
        if self.heads >= tp_size:
            count = self.heads // tp_size
            return list(range(tp * count, (tp + 1) * count))
        return [tp * self.heads // tp_size]

    def names(self, group: int) -> list[str]:
        layers = range(group, len(self.windows) * self.layers_of_a_group, len(self.windows))
        return [f"model.layers.{layer}.self_attn.attn" for layer in layers]

    def groups(self, block: int, tp_size: int) -> list[Any]:
        return [
            KVCacheGroupSpec(self.names(group), self.spec(window, block, tp_size))
            for group, window in enumerate(self.windows)
        ]

    def spec(self, window: int, block: int, tp_size: int) -> Any:
        fields = {"num_kv_heads": len(self.heads_of(0, tp_size)), "head_size": CONTENT // 2}
        if self.latent:
            return vllm_engine.spec(
                MLAAttentionSpec, block, **{**fields, "head_size": CONTENT}
            )
        if window:
            return vllm_engine.spec(SlidingWindowSpec, block, sliding_window=window, **fields)
        return vllm_engine.spec(FullAttentionSpec, block, **fields)

    def model(self) -> dict[str, Any]:
        return {
            **vllm_engine.MODEL,
            "num_hidden_layers": len(self.windows) * self.layers_of_a_group,
            "num_attention_heads": 4,
            "num_key_value_heads": self.heads,
        }


def chains(tokens: Sequence[int]) -> torch.Tensor:
    """For each token a number that depends on all tokens up to it."""
    chain, numbers = 1, []
    for token in tokens:
        chain = 1 + (chain * 75611 + token) % (PRIME - 1)
        numbers.append(chain)
    return torch.tensor(numbers, dtype=torch.int64)


@dataclass
class Member:
    """Of a group of ranks, as vLLM's parallel_state has it."""

    rank_in_group: int = 0
    world_size: int = 1


class Rank:
    """One worker: its heads of every layer. Layers of several KV groups share their memory, as in
    vLLM's hybrid allocator."""

    def __init__(
        self, config: Any, layout: Layout, block: int, blocks: int, tp: Member
    ) -> None:
        self.layout, self.block = layout, block
        self.heads = layout.heads_of(tp.rank_in_group, tp.world_size)
        shape = (blocks, len(self.heads), block, CONTENT)
        if layout.latent:
            shape = (blocks, block, CONTENT)
        count = len(layout.windows)
        slots = [torch.zeros(shape) for _ in range(layout.layers_of_a_group)]
        self.tensors = {
            name: slots[at][:]
            for group in range(count)
            for at, name in enumerate(layout.names(group))
        }
        kv_cache = KVCacheConfig(
            num_blocks=blocks,
            kv_cache_tensors=[],
            kv_cache_groups=layout.groups(block, tp.world_size),
        )
        from kvrail.vllm import KvrailConnector

        self.connector = KvrailConnector(config, KVConnectorRole.WORKER, kv_cache)
        session = {"get_tp_group": lambda: tp, "get_pp_group": Member}
        with mock.patch.multiple("kvrail.vllm.session", **session):
            self.connector.register_kv_caches(self.tensors)

    def run(self, metadata: Any, compute: Callable[[Rank], None]) -> Any:
        """One step, with the calls of vLLM's model runner."""
        connector = self.connector
        connector.bind_connector_metadata(metadata)
        connector.start_load_kv(None)
        compute(self)
        connector.wait_for_save()
        output = KVConnectorOutput()
        if hasattr(output, "failed_recving"):
            results = connector.get_transfer_results(set())
            output.finished_sending = results.finished_sending
            output.finished_recving = results.finished_recving
            output.failed_recving = results.failed_recving
        else:
            output.finished_sending, output.finished_recving = connector.get_finished(set())
        output.invalid_block_ids = connector.get_block_ids_with_load_errors()
        output.kv_connector_worker_meta = connector.build_connector_worker_meta()
        connector.clear_connector_metadata()
        return output

    def kv(self, chain: torch.Tensor, layer: int) -> torch.Tensor:
        """[token, head, content] of this rank."""
        heads = torch.tensor(self.heads).view(1, -1, 1)
        content = torch.arange(CONTENT).view(1, 1, -1)
        factor = 1 + (layer * 16 + heads) * CONTENT + content
        return (chain.view(-1, 1, 1) * factor % PRIME).to(torch.float32)

    def places(self, ids: Sequence[int], first: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.arange(first, end)
        return torch.tensor(ids, dtype=torch.int64)[tokens // self.block], tokens % self.block

    def view(self, name: str) -> torch.Tensor:
        """[block, token, head, content]"""
        tensor = self.tensors[name]
        return tensor.unsqueeze(2) if self.layout.latent else tensor.transpose(1, 2)

    def write(self, chain: torch.Tensor, ids: Sequence[Sequence[int]], first: int) -> None:
        for group in range(len(self.layout.windows)):
            blocks, slots = self.places(ids[group], first, len(chain))
            for name in self.layout.names(group):
                layer = int(name.split(".")[2])
                self.view(name)[blocks, slots] = self.kv(chain[first:], layer)

    def faults(self, chain: torch.Tensor, ids: Sequence[Sequence[int]], end: int) -> list[str]:
        """Tokens before `end` that the next token sees, and whose KV is not theirs."""
        faults = []
        for group, window in enumerate(self.layout.windows):
            first = max(0, end - window + 1) if window else 0
            blocks, slots = self.places(ids[group], first, end)
            for name in self.layout.names(group):
                layer = int(name.split(".")[2])
                good = self.view(name)[blocks, slots] == self.kv(chain[first:end], layer)
                bad = (~good.flatten(1).all(1)).nonzero().flatten() + first
                if len(bad):
                    faults.append(f"group {group} layer {layer}: tokens {bad.tolist()} of {end}")
        return faults


class Side(vllm_engine.Engine):
    """One engine: a scheduler and its workers."""

    def __init__(
        self,
        role: str,
        layout: Layout,
        *,
        tp: int = 1,
        block: int = vllm_engine.BLOCK,
        blocks: int = vllm_engine.BLOCKS,
        batch: int = 256,
        policy: str = "recompute",
        hold_s: float = 60,
        packed: bool = False,
        extra: dict[str, Any] | None = None,
    ) -> None:
        side = "SOURCE" if role == "kv_producer" else "TARGET"
        options = {"socket": os.environ[f"{side}_SOCKET"], "lease_s": 30, "hold_s": hold_s, "model": "m"}
        transfer = {
            "kv_role": role,
            "kv_load_failure_policy": policy,
            "kv_connector_extra_config": {**options, **(extra or {})},
        }
        config = vllm_engine.configuration(
            transfer, model=layout.model(), block=block, batch=batch, tp=tp
        )
        super().__init__(config, layout.groups(block, tp), blocks, packed=packed)
        self.ranks = [Rank(config, layout, block, blocks, Member(n, tp)) for n in range(tp)]
        self.connector.set_xfer_handshake_metadata_pp_aware(
            {(0, n): rank.connector.get_handshake_metadata() for n, rank in enumerate(self.ranks)}
        )
        self.aggregator = KVOutputAggregator(tp)
        self.faults: list[str] = []
        self.ended: dict[str, Any] = {}  # the last output of each request
        self.had: dict[str, int] = {}  # tokens with their KV when a request first ran
        self.computed_tokens = self.preemptions = 0

    def step(self) -> None:
        scheduled = self.scheduler.schedule()
        metadata = scheduled.kv_connector_metadata
        outputs = [
            self.output(scheduled, rank.run(metadata, lambda rank: self.compute(rank, scheduled)))
            for rank in self.ranks
        ]
        for new in scheduled.scheduled_new_reqs:  # some versions name resumed requests here too
            self.had.setdefault(new.req_id, new.num_computed_tokens)
        self.computed_tokens += scheduled.total_num_scheduled_tokens
        self.preemptions += len(scheduled.preempted_req_ids or ())
        made = self.update(scheduled, self.aggregator.aggregate(outputs, 0))
        self.ended |= {name: output for name, output in made.items() if output.finished}
        if not scheduled.num_scheduled_tokens:
            time.sleep(0.001)

    def compute(self, rank: Rank, scheduled: Any) -> None:
        """Compares what the scheduled tokens see, and writes their KV."""
        for name, count in scheduled.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            end = request.num_computed_tokens
            chain = chains(request.all_token_ids[:end])
            ids = self.scheduler.kv_cache_manager.get_block_ids(name)
            faults = rank.faults(chain, ids, end - count)
            self.faults += [f"{name}: {fault}" for fault in faults]
            rank.write(chain, ids, end - count)

    def until(self, condition: Callable[[], Any], what: str, *others: Side) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
            for side in (self, *others):
                side.step()

    def shutdown(self) -> None:
        for rank in self.ranks:
            rank.connector.shutdown()


@dataclass
class Pair:
    """A prefill engine and a decode engine, and the router between them."""

    prefill: Side
    decode: Side
    waiting: dict[str, tuple[list[int], int]] = field(default_factory=dict)  # for a hand-off
    aborted: set[str] = field(default_factory=set)

    def ask(self, name: str, tokens: list[int], answer: int = 3) -> None:
        """As a router does: the prefill, then the decode with the hand-off."""
        self.prefill.add(f"p-{name}", list(tokens), dict(REMOTE_DECODE), 1)
        self.waiting[name] = (tokens, answer)

    def abort(self, name: str) -> None:
        """As when the client goes away. A request that has ended stays ended."""
        if name in self.decode.ended:
            return
        self.aborted.add(name)
        self.waiting.pop(name, None)
        self.prefill.abort(f"p-{name}")
        self.decode.abort(name)

    def step(self) -> None:
        self.prefill.step()
        for name in list(self.waiting):
            output = self.prefill.ended.get(f"p-{name}")
            if output is not None:
                tokens, answer = self.waiting.pop(name)
                self.decode.add(name, list(tokens), output.kv_transfer_params, answer)
        self.decode.step()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
            self.step()
