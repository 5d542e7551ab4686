"""The measurements of a bench in turns: kept in a file, one line each, and made into figures."""

from __future__ import annotations

import json
import math
import pathlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

VARIANTS = ("none", "kvrail", "nixl")


@dataclass(frozen=True, slots=True)
class Cell:
    path: str
    tokens: int  # of a prompt
    at_once: int

    def measured_as(self, variant: str) -> Cell:
        """Without a transfer there is no path: one measurement serves all."""
        return replace(self, path="") if variant == "none" else self


@dataclass(frozen=True, slots=True)
class Request:
    ttft_ms: float
    added_ms: float
    answer: list[int]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def figures(turns: Sequence[Sequence[Request]], wanted: Sequence[Sequence[list[int]]]) -> dict:
    """Of one variant: each percentile is the median of those of the turns."""
    result: dict[str, Any] = {}
    for name in ("ttft_ms", "added_ms"):
        for percent in (50, 99):
            of_turns = [percentile([getattr(r, name) for r in turn], percent) for turn in turns]
            key = name.replace("_ms", f"_p{percent}_ms")
            result[key] = round(statistics.median(of_turns), 3)
    result["wrong"] = sum(
        request.answer != answer
        for turn, answers in zip(turns, wanted, strict=True)
        for request, answer in zip(turn, answers, strict=True)
    )
    result["requests"] = sum(map(len, turns))
    return result


class Turns:
    """What was measured of `subject`; lines of another subject in the file are passed over. A
    bench that was stopped takes up again where it was."""

    def __init__(self, file: pathlib.Path, subject: dict[str, Any]) -> None:
        self._file, self._subject = file, subject
        self._measured: dict[tuple[Cell, int, str], list[Request]] = {}
        self._wanted: dict[tuple[int, int], list[list[int]]] = {}
        if file.exists():
            for line in file.read_text().splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:  # the bench was stopped while it wrote
            return
        if entry.pop("subject") != self._subject:
            return
        if "answers" in entry:
            self._wanted[entry["tokens"], entry["turn"]] = entry["answers"]
        else:
            requests = [Request(*values) for values in entry["requests"]]
            self._measured[Cell(**entry["cell"]), entry["turn"], entry["variant"]] = requests

    def _write(self, entry: dict[str, Any]) -> None:
        torn = self._file.exists() and not self._file.read_bytes().endswith(b"\n")
        with self._file.open("a") as output:
            output.write("\n" * torn + json.dumps({"subject": self._subject, **entry}) + "\n")

    def has(self, cell: Cell, turn: int, variant: str) -> bool:
        return (cell.measured_as(variant), turn, variant) in self._measured

    def add(self, cell: Cell, turn: int, variant: str, requests: list[Request]) -> None:
        cell = cell.measured_as(variant)
        self._measured[cell, turn, variant] = requests
        values = [(r.ttft_ms, r.added_ms, r.answer) for r in requests]
        self._write({"cell": asdict(cell), "turn": turn, "variant": variant, "requests": values})

    def has_answers(self, tokens: int, turn: int) -> bool:
        return (tokens, turn) in self._wanted

    def add_answers(self, tokens: int, turn: int, answers: list[list[int]]) -> None:
        """Those of one server alone."""
        self._wanted[tokens, turn] = answers
        self._write({"tokens": tokens, "turn": turn, "answers": answers})

    def whole(self, cell: Cell, turn: int) -> bool:
        measured = all(self.has(cell, turn, variant) for variant in VARIANTS)
        return measured and self.has_answers(cell.tokens, turn)

    def cases(self, cells: Iterable[Cell], turns: int) -> list[dict[str, Any]]:
        """Of the cells' whole turns. A cell without one is left out."""
        cases = []
        for cell in cells:
            whole = [turn for turn in range(turns) if self.whole(cell, turn)]
            if not whole:
                continue
            wanted = [self._wanted[cell.tokens, turn] for turn in whole]
            case = {**asdict(cell), "turns": len(whole)}
            for variant in VARIANTS:
                place = cell.measured_as(variant)
                of_turns = [self._measured[place, turn, variant] for turn in whole]
                case[variant] = figures(of_turns, wanted)
            cases.append(case)
        return cases
