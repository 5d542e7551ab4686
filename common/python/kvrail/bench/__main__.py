"""python3 -m kvrail.bench: options and report."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

from .engine import Engine, Session
from .library import Library
from .measure import BATCH, Bench, Cost, measure

TITLES = {
    "publish": "a publish, from its arrival to its end",
    "fetch": "a fetch, from its arrival to its end",
    "step": "a step without transfers",
}


def engine_class() -> Any:
    """Adapter where vLLM is installed."""
    try:
        from .adapter import Adapter
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        return Engine
    return Adapter


def figures(costs: dict[str, Cost]) -> dict[str, float]:
    """Medians over the rounds, and their ends."""
    found: dict[str, float] = {}
    for name, cost in costs.items():
        for part, values in (
            (f"{name}_scheduler_us", cost.scheduler),
            (f"{name}_worker_us", cost.worker),
            (f"{name}_us", cost.together),
        ):
            found[part] = round(statistics.median(values), 3)
            found[f"{part}_least"] = round(min(values), 3)
            found[f"{part}_most"] = round(max(values), 3)
        found[f"{name}_calls"] = round(cost.calls, 2)
    return found


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):6.1f} ({min(values):.1f} … {max(values):.1f})"


def table(costs: dict[str, Cost], options: argparse.Namespace, driven: str) -> str:
    lines = [
        f"{options.requests} requests in flight, half of them publishes; {options.pages} pages each",
        f"driven: {driven}, one worker, Python {platform.python_version()}",
        "",
        f"{'µs: median (least … most)':40}{'scheduler':>26}{'worker':>26}{'calls':>8}",
    ]
    for name, cost in costs.items():
        sides = "".join(f"{_spread(values):>26}" for values in (cost.scheduler, cost.worker))
        lines.append(f"{TITLES[name]:40}{sides}{cost.calls:8.1f}")
    return "\n".join(
        [
            *lines,
            "",
            f"{BATCH} publishes or fetches share their steps. calls: of libkvrail, in whose place a",
            "stand-in of Python takes them; neither the library nor vLLM's own work is measured.",
        ]
    )


def _count(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 to 1000000")
    return value


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m kvrail.bench", description=__doc__)
    parser.add_argument("--requests", type=_count, default=1000, help="in flight (1000)")
    parser.add_argument("--pages", type=_count, default=64, help="of each request (64)")
    parser.add_argument("--rounds", type=_count, default=101, help="figures are medians of so many")
    parser.add_argument("--json", metavar="FILE", default="", help="-: in place of the table")
    return parser.parse_args(arguments)


def _write(path: str, report: dict[str, Any]) -> int:
    text = json.dumps(report, indent=2) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return 0
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"kvrail bench: {path} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    library = Library()
    library.install()
    engine = engine_class()(Session())
    costs = measure(Bench(engine, library, options.pages), options.requests, options.rounds)
    if options.json != "-":
        print(table(costs, options, engine.driven))
    if not options.json:
        return 0
    report = {
        "requests": options.requests,
        "pages": options.pages,
        "rounds": options.rounds,
        "driven": engine.driven,
        "python": platform.python_version(),
        **figures(costs),
    }
    return _write(options.json, report)


if __name__ == "__main__":
    sys.exit(main())
