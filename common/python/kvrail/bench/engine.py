"""Both sides of the connector in one process, with one worker that has a prefill- and a decode-agent.
The methods are what vLLM does around its own work of a step."""

from __future__ import annotations

import time
from typing import Any

import kvrail

from ..connector.handoff import SourceAddress
from ..connector.machine import Limits
from ..vllm import figures
from ..vllm.figures import Figures, Meter
from ..vllm.groups import groups_of
from ..vllm.metered import MeteredConnection
from ..vllm.scheduler import Scheduler
from ..vllm.worker import Worker
from .request import Cache, Request

__all__ = ["Engine", "SOURCES", "Session"]

ENGINE = bytes(range(16))
SOURCES = (SourceAddress("10.0.0.1:9480", ENGINE.hex(), 7, 0, 0),)
LIMITS = Limits(hold=3600, queue=3600, load=3600)  # longer than any measurement


def _address(source: SourceAddress) -> kvrail.SourceAddress:
    engine = bytes.fromhex(source.engine)
    return kvrail.SourceAddress(source.agent, engine, source.generation, source.tp, source.pp)


class Session:
    """A worker with both its connections, as RankSession of vllm/session.py has them."""

    rank = (0, 0)

    def __init__(self) -> None:
        self._figures: Figures = figures.empty()
        self.worker = Worker(
            groups_of(Cache()),
            LIMITS,
            connect_source=lambda: self._connect("source"),
            connect_target=lambda: self._connect("target"),
            address=_address,
        )
        self.worker.step(self.now())

    def now(self) -> float:
        return time.monotonic()

    def take_figures(self) -> Figures | None:
        return figures.take(self._figures)

    def _connect(self, side: str) -> MeteredConnection:
        identity = kvrail.Identity(
            engine=ENGINE, generation=7, layers_total=1, kv_heads_total=1, head_dim=64
        )
        connection = MeteredConnection("none", identity)
        connection.meter = Meter(side, self._figures)
        return connection


class Engine:
    """The scheduler's and the worker's half without the class that vLLM loads."""

    driven = "the connector without the class that vLLM loads"

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scheduler = Scheduler(groups_of(Cache()), "bench", final_after_step=True)
        self._scheduler.set_sources(SOURCES)

    # ---- the scheduler --------------------------------------------------------------------------

    def queue(self, request: Request) -> None:
        self._scheduler.arrived(request)

    def allocate(self, request: Request) -> None:
        tokens, _ = self._scheduler.tokens_to_load(request, 0)
        self._scheduler.allocated(request, request.get_block_ids(), tokens)

    def metadata(self, computed: Any) -> Any:
        self._scheduler.scheduled(computed)
        return self._scheduler.take_commands()

    def finish(self, request: Request) -> dict[str, Any] | None:
        return self._scheduler.finished(request, request.get_block_ids())[1]

    def update(self, output: Any) -> None:
        self._scheduler.reported(*output)

    # ---- the worker -----------------------------------------------------------------------------

    def work(self, metadata: Any) -> Any:
        worker, now = self._session.worker, self._session.now
        worker.commands(metadata, now())
        worker.step(now())
        results = worker.results()
        agents = worker.agents()
        self._session.take_figures()
        return results.sent, results.received, agents and {self._session.rank: agents}
