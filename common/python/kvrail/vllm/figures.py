"""What the transfers of a worker came to: counted by a Meter, gathered over workers and steps.

    figures = {"source": {"seconds": […], "bytes": […], "tokens": […], "failures": {status: count}},
               "target": the same}

An entry of the lists is one transfer of one rank that ended well: the time from the opening of a
publish, or the first pages of a fetch, to the terminal event; the bytes that moved, and the tokens
that they hold. A transfer that moved nothing, because the target had all tokens, is not listed.
Plain dicts and lists, as vLLM sends them between its processes.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Figures", "Meter", "SIDES", "add", "empty", "is_empty", "summary", "take"]

SIDES = ("source", "target")
SERIES = ("seconds", "bytes", "tokens")
MEGABYTE = 1e6

Figures = dict[str, dict[str, Any]]


def empty() -> Figures:
    return {side: {**{name: [] for name in SERIES}, "failures": {}} for side in SIDES}


def is_empty(figures: Figures) -> bool:
    return not any(of_side["seconds"] or of_side["failures"] for of_side in figures.values())


def add(to: Figures, other: Figures) -> None:
    for side, of_side in other.items():
        for name in SERIES:
            to[side][name].extend(of_side[name])
        failures = to[side]["failures"]
        for status, count in of_side["failures"].items():
            failures[status] = failures.get(status, 0) + count


def take(figures: Figures) -> Figures | None:
    """Leaves nothing behind. None: there was nothing."""
    if is_empty(figures):
        return None
    taken = empty()
    add(taken, figures)
    for of_side in figures.values():
        for values in of_side.values():
            values.clear()
    return taken


def _of_side(side: str, figures: dict[str, Any]) -> dict[str, int | float]:
    seconds, count = figures["seconds"], len(figures["seconds"])
    found: dict[str, int | float] = {}
    if count:
        found["transfers"] = count
        found["MB"] = round(sum(figures["bytes"]) / MEGABYTE, 3)
        found["tokens"] = sum(figures["tokens"])
        found["mean ms"] = round(statistics.fmean(seconds) * 1e3, 3)
        found["p90 ms"] = round(sorted(seconds)[(count * 9 - 1) // 10] * 1e3, 3)
    for status, failed in sorted(figures["failures"].items()):
        found[f"failed ({status})"] = failed
    return {f"{side} {name}": value for name, value in found.items()}


def summary(figures: Figures) -> dict[str, int | float]:
    """A few numbers for a line of vLLM's log. A side without transfers is left away."""
    return {
        name: value
        for side in SIDES
        for name, value in _of_side(side, figures.get(side, empty()[side])).items()
    }


@dataclass(slots=True)
class _Transfer:
    tokens: int
    skip: int  # of a group that is not in `skips`
    at: float
    began: bool = False
    skips: dict[int, int] = field(default_factory=dict)
    groups: set[int] = field(default_factory=set)  # that got pages

    @property
    def moved_tokens(self) -> int:
        """Of the group that skips least."""
        skips = (self.skips.get(group, self.skip) for group in self.groups)
        return self.tokens - min(skips, default=self.skip)


class Meter:
    """Of one connection. `figures` are the worker's, which may have two connections."""

    def __init__(self, side: str, figures: Figures) -> None:
        self._of_side = figures[side]
        self._open: dict[int, _Transfer] = {}  # by handle

    def opened(self, handle: int, tokens: int, now: float, skip: int = 0) -> None:
        """`skip` is that of each group, unless `skips` says another."""
        self._open[handle] = _Transfer(tokens, skip, now)

    def skips(self, handle: int, group: int, tokens: int) -> None:
        if handle in self._open:
            self._open[handle].skips[group] = tokens

    def begins(self, handle: int, now: float) -> None:
        """The fetch got pages, for the first time or again."""
        if handle in self._open and not self._open[handle].began:
            self._open[handle].at, self._open[handle].began = now, True

    def gets(self, handle: int, group: int) -> None:
        """The fetch got pages of a group that holds tokens."""
        if handle in self._open:
            self._open[handle].groups.add(group)

    def ended(self, handle: int, status: str, moved: int, now: float) -> None:
        transfer = self._open.pop(handle, _Transfer(0, 0, now))
        if status != "ok":
            failures = self._of_side["failures"]
            failures[status] = failures.get(status, 0) + 1
        elif moved:
            self._of_side["seconds"].append(now - transfer.at)
            self._of_side["bytes"].append(moved)
            self._of_side["tokens"].append(transfer.moved_tokens)
