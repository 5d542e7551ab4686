"""figures.py as vLLM's classes: a line of its log, and metrics for Prometheus.

vllm:kvrail_transfer_seconds         histogram   side
vllm:kvrail_transfer_bytes           histogram   side
vllm:kvrail_tokens_total             counter     side
vllm:kvrail_failed_transfers_total   counter     side, status
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

from . import figures

__all__ = ["KvrailPromMetrics", "KvrailStats"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BYTES = tuple(float(4**power) for power in range(5, 19))  # 1 KiB to 64 GiB


@dataclass
class KvrailStats(KVConnectorStats):
    """`data` is figures.Figures."""

    def __post_init__(self) -> None:
        if not self.data:
            self.reset()

    def reset(self) -> None:
        self.data = figures.empty()

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        if not other.is_empty():
            figures.add(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int | float]:
        return figures.summary(self.data)

    def is_empty(self) -> bool:
        return figures.is_empty(self.data)


class KvrailPromMetrics(KVConnectorPromMetrics):
    """The label values of vLLM come first: model and engine."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        of_side = [*labelnames, "side"]
        self._seconds = self._histogram_cls(
            name="vllm:kvrail_transfer_seconds",
            documentation="From the opening of a transfer to its end, of those that ended well.",
            buckets=SECONDS,
            labelnames=of_side,
        )
        self._bytes = self._histogram_cls(
            name="vllm:kvrail_transfer_bytes",
            documentation="Bytes of a transfer of one rank that ended well.",
            buckets=BYTES,
            labelnames=of_side,
        )
        self._tokens = self._counter_cls(
            name="vllm:kvrail_tokens",
            documentation="Tokens whose KV moved, counted by each rank.",
            labelnames=of_side,
        )
        self._failures = self._counter_cls(
            name="vllm:kvrail_failed_transfers",
            documentation="Transfers of one rank that did not end well, by kvrail's status.",
            labelnames=[*of_side, "status"],
        )
        self._children: dict[tuple[Any, ...], Any] = {}
        for engine in per_engine_labelvalues:  # so that a series begins with 0
            for side in figures.SIDES:
                for metric in (self._seconds, self._bytes, self._tokens):
                    self._child(metric, engine, side)

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for side, of_side in transfer_stats_data.items():
            for metric, name in ((self._seconds, "seconds"), (self._bytes, "bytes")):
                child = self._child(metric, engine_idx, side)
                for value in of_side[name]:
                    child.observe(value)
            self._child(self._tokens, engine_idx, side).inc(sum(of_side["tokens"]))
            for status, count in of_side["failures"].items():
                self._child(self._failures, engine_idx, side, status).inc(count)

    def _child(self, metric: Any, engine: int, *labels: str) -> Any:
        key = (metric, engine, *labels)
        if key not in self._children:
            self._children[key] = metric.labels(*self.per_engine_labelvalues[engine], *labels)
        return self._children[key]
