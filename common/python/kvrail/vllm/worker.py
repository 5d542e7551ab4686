"""The worker's side of vLLM's connector, without torch and without kvrail: commands in, results
out.

    vLLM's call                      here
    start_load_kv                    commands
    get_finished, get_transfer_results, get_block_ids_with_load_errors    step, then results
    build_connector_worker_meta      agents, after a change
    shutdown                         shutdown

Both books of the rank, and a link to each agent: one for a producer or a consumer, two for kv_both.
With one KV group a failed load names its blocks, with several its request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..connector import decode, prefill
from ..connector.link import Link
from ..connector.machine import Limits
from ..connector.port import SourcePort, TargetPort
from ..connector.prefill import Withdraw
from ..connector.rank import Rank
from .geometry import kernel_pages
from .groups import Groups

__all__ = ["Transfers", "Worker"]

Command = prefill.Action | decode.Queue | decode.Fetch | decode.Release
Connect = Callable[[], Any]


@dataclass(slots=True)
class Transfers:
    """The results of one step, in vLLM's terms."""

    sent: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)  # of `received`, for several KV groups
    bad_blocks: set[int] = field(default_factory=set)  # with one KV group


class Worker:
    """`connect_source` and `connect_target` open a connection and register the regions; None where
    the role has no such side. `pages_of_a_block[g]` is the number of kernel blocks in a block of
    group g. Publishes' readiness word 0 must be raised to the number of layers by
    `connect_source`."""

    def __init__(
        self,
        groups: Groups,
        limits: Limits,
        *,
        connect_source: Connect | None = None,
        connect_target: Connect | None = None,
        address: Callable[[Any], Any] = lambda address: address,
        pages_of_a_block: Sequence[int] = (),
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._groups, self._warn, self._address = groups, warn, address
        self._pages_of_a_block = tuple(pages_of_a_block) or (1,) * len(groups.specs)
        self._rank = Rank(limits, limits)
        self._source = self._target = None
        if connect_source is not None:
            self._source = Link(connect_source, self._source_port, self._rank.source_agent, warn)
        if connect_target is not None:
            self._target = Link(connect_target, self._target_port, self._rank.target_agent, warn)
        self._after_step: list[prefill.Publish] = []
        self._links = [link for link in (self._source, self._target) if link is not None]
        self._now = 0.0
        self._said: dict[str, str] = {}  # why requests end
        self._told: tuple[bool, bool] | None = None

    def __len__(self) -> int:
        """Requests that have not ended."""
        return len(self._rank.sources) + len(self._rank.targets)

    @property
    def source(self) -> Link | None:
        return self._source

    @property
    def target(self) -> Link | None:
        return self._target

    def commands(self, commands: Iterable[Command], now: float) -> None:
        """The metadata of a step, before its computation. Events are taken once a step, by `step`."""
        self._now = now
        for command in commands:
            if isinstance(command, prefill.Publish) and command.after_step:
                self._after_step.append(command)
            else:
                self._rank.command(command, now)
        self._carry_out()

    def step(self, now: float) -> None:
        """After the computation: publishes what is final now, takes events, looks at timers, and
        carries out all that follows."""
        self._now = now
        for command in self._after_step:
            self._rank.command(command, now)
        self._after_step.clear()
        for link in self._links:
            link.poll(now)
        self._rank.tick(now)
        self._carry_out()

    def results(self) -> Transfers:
        results = self._rank.take_results()
        transfers = Transfers(results.sent, results.received)
        for key, status in results.outcomes:
            if status != "ok":
                self._warn(f"the publish of request {key} ended as {status}{self._why(': ', key)}")
        for key, failure in results.failed.items():
            self._warn(
                f"the KV of request {key} did not come ({failure.status}): tokens from "
                f"{failure.token_first} on must be computed again{self._why('; ', key)}"
            )
            if self._groups.hybrid:
                transfers.failed.add(key)
            else:
                transfers.bad_blocks.update(failure.pages[0])
        if self._said:
            self._said = {key: said for key, said in self._said.items() if key in self._rank}
        return transfers

    def agents(self) -> tuple[bool, bool] | None:
        """(source, target): is the agent there? None without a change since the last call."""
        now = (self._source is None or self._source.up, self._target is None or self._target.up)
        if now == self._told:
            return None
        self._told = now
        return now

    def shutdown(
        self, clock: Callable[[], float], wait: Callable[[float], None], most: float
    ) -> int:
        """Cancels everything, polls for the terminal events for at most so many seconds, and
        closes. Returns the number of handles with pages that are still lent."""
        for key in {*self._rank.sources.keys(), *self._rank.targets.keys()}:
            self._rank.command(Withdraw(key), clock())
        end = clock() + most
        self.step(clock())
        while self._open_handles() and clock() < end:
            wait(0.001)
            self.step(clock())
        left = self._open_handles()
        for link in self._links:
            link.close()
        return left

    # ---- parts ----------------------------------------------------------------------------------

    def _say(self, key: str, detail: str) -> None:
        if detail:
            self._said[key] = detail

    def _why(self, separator: str, key: str) -> str:
        return separator + self._said[key] if key in self._said else ""

    def _open_handles(self) -> int:
        return sum(link.open_handles for link in self._links)

    def _carry_out(self) -> None:
        """To carry an action out may end a request, and that may make another action."""
        while True:
            source_calls, target_calls = self._rank.source_calls(), self._rank.target_calls()
            if not source_calls and not target_calls:
                return
            for link, calls in ((self._source, source_calls), (self._target, target_calls)):
                if link is not None:
                    for key, action in calls:
                        link.carry_out(key, action)

    def _pages(self, group: int, blocks: Sequence[int]) -> Sequence[int]:
        return kernel_pages(blocks, self._pages_of_a_block[group])

    def _source_port(self, connection: Any, lost: Callable[[], None]) -> SourcePort:
        return SourcePort(
            connection,
            lambda key, event: self._rank.source_event(key, event, self._now),
            lost,
            self._pages,
            said=self._say,
        )

    def _target_port(self, connection: Any, lost: Callable[[], None]) -> TargetPort:
        return TargetPort(
            connection,
            lambda key, event: self._rank.target_event(key, event, self._now),
            lost,
            self._pages,
            self._address,
            len(self._groups.specs),
            said=self._say,
        )
