"""Requests that come and go beside those in flight, and the time of each side's calls."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._abi import EventKind
from .library import Library
from .request import Request, prefilled, step_of

__all__ = ["Bench", "Cost", "measure"]

BATCH = 4  # requests that come in one step, and go through their steps together
STEPS = 20  # of one round, without transfers
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}

Clock = Callable[[], int]


@dataclass(slots=True)
class Cost:
    """Of one kind of work. The lists have one figure a round, in µs for each request or step."""

    scheduler: list[float] = field(default_factory=list)
    worker: list[float] = field(default_factory=list)
    calls: float = 0  # of libkvrail

    def add(self, scheduler_ns: int, worker_ns: int, count: int) -> None:
        self.scheduler.append(scheduler_ns / count / 1000)
        self.worker.append(worker_ns / count / 1000)

    @property
    def together(self) -> list[float]:
        return [one + other for one, other in zip(self.scheduler, self.worker, strict=True)]


class Bench:
    """`engine` is an Engine or an Adapter. `pages` are those of each request with a transfer."""

    def __init__(
        self, engine: Any, library: Library, pages: int, clock: Clock = time.perf_counter_ns
    ) -> None:
        self._engine, self._library, self._pages, self._clock = engine, library, pages, clock
        self._numbers = itertools.count(1)
        self._params: dict[str, Any] = {}  # of a fetch, as a router passes them on
        self.scheduler_ns = self.worker_ns = 0

    def step(
        self,
        queue: Sequence[Request] = (),
        allocate: Sequence[Request] = (),
        finish: Sequence[Request] = (),
    ) -> None:
        """One step of vLLM, with the requests that come, get blocks and end in it."""
        engine, clock = self._engine, self._clock
        computed = step_of(allocate)
        begun = clock()
        for request in queue:
            engine.queue(request)
        for request in allocate:
            engine.allocate(request)
        metadata = engine.metadata(computed)
        scheduled = clock()
        output = engine.work(metadata)
        worked = clock()
        engine.update(output)
        for request in finish:
            self._params = engine.finish(request) or self._params
        self.scheduler_ns += scheduled - begun + clock() - worked
        self.worker_ns += worked - scheduled

    def publish(self, count: int) -> list[int]:
        """The handles of so many publishes that wait for their targets."""
        requests, before = self._requests(count, REMOTE_DECODE), len(self._library.opened)
        for request in requests:
            prefilled(request)
        self.step(queue=requests, allocate=requests, finish=requests)
        self.step()
        return self._library.opened[before:]

    def fetch(self, count: int) -> tuple[list[Request], list[int]]:
        """So many fetches that load."""
        requests, before = self._requests(count, self._params), len(self._library.opened)
        self.step(queue=requests)
        self.step(allocate=requests)
        return requests, self._library.opened[before:]

    def published(self) -> None:
        """Publishes from their arrival to the end."""
        for handle in self.publish(BATCH):
            self._library.end(handle, EventKind.SOURCE_FREE)
        self.step()

    def fetched(self) -> None:
        """Fetches from their arrival to the end. vLLM asks once more after a load."""
        requests, handles = self.fetch(BATCH)
        for handle in handles:
            self._library.end(handle, EventKind.DONE)
        self.step()
        self.step(allocate=requests, finish=requests)

    def idle(self) -> None:
        """Steps in each of which one request without a transfer comes and ends."""
        for request in self._requests(STEPS, None, pages=1):
            self.step(queue=(request,), allocate=(request,), finish=(request,))

    def cost(self, work: Callable[[], None], count: int, rounds: int) -> Cost:
        """Of `work`, which does `count` of something."""
        work()
        cost, calls = Cost(), self._library.calls
        for _ in range(rounds):
            self.scheduler_ns = self.worker_ns = 0
            work()
            cost.add(self.scheduler_ns, self.worker_ns, count)
        cost.calls = (self._library.calls - calls) / count / rounds
        return cost

    def _requests(
        self, count: int, params: dict[str, Any] | None, pages: int = 0
    ) -> list[Request]:
        return [
            Request(
                f"cmpl-{next(self._numbers):020}-0",
                list(range(1, (pages or self._pages) + 1)),
                copy.deepcopy(params),
            )
            for _ in range(count)
        ]


def measure(bench: Bench, in_flight: int, rounds: int) -> dict[str, Cost]:
    """With so many requests in flight, half of them publishes: what another one costs, and what a
    step costs without any."""
    bench.publish(in_flight - in_flight // 2)
    bench.fetch(in_flight // 2)
    return {
        "publish": bench.cost(bench.published, BATCH, rounds),
        "fetch": bench.cost(bench.fetched, BATCH, rounds),
        "step": bench.cost(bench.idle, STEPS, rounds),
    }
