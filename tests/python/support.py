"""For the Python tests: the path of the package, tables of states, and the last line of a suite.

python3 tests/python/test_connector_source.py       one suite; its last line counts its tests
python3 -m unittest discover -s tests/python        all of them
"""

from __future__ import annotations

import pathlib
import sys

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/python"))


class TableFault(Exception):
    """A table that cannot be read."""


def read_table(text: str, first_cell: str = "state") -> dict[tuple[str, str], str]:
    """The table of states in a docstring: {(state, event): cell}. A table that is too wide stands
    in parts. Each part begins with a row of events, after `first_cell`."""
    cells: dict[tuple[str, str], str] = {}
    columns: list[str] | None = None
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) < 2 or set(line) <= set("-| "):
            if len(parts) < 2:
                columns = None
            continue
        if parts[0] == first_cell:
            columns = parts[1:]
            continue
        if columns is None:
            raise TableFault(f"a row before the row of events: {line}")
        if len(parts) != len(columns) + 1:
            raise TableFault(f"{len(parts) - 1} cells under {len(columns)} events: {line}")
        for event, cell in zip(columns, parts[1:], strict=True):
            if (parts[0], event) in cells:
                raise TableFault(f"{parts[0]} x {event} stands twice")
            cells[parts[0], event] = cell
    return cells


def table_faults(text: str, states: type, events: type, following) -> list[str]:
    """Where the table of `text` differs from `following(state, event)`, which returns a state, or
    None for an event that cannot come. Also where the table lacks a cell, or has one too many."""
    try:
        cells = read_table(text)
    except TableFault as fault:
        return [str(fault)]
    wanted = {(s.name, e.name) for s in states for e in events}
    faults = [f"the table has no cell {s} x {e}" for s, e in sorted(wanted - cells.keys())]
    faults += [
        f"the table has a cell {s} x {e}, and the code has not"
        for s, e in sorted(cells.keys() - wanted)
    ]
    for state in states:
        for event in events:
            cell = cells.get((state.name, event.name))
            if cell is None:
                continue
            after = following(state, event)
            said = "-" if after is None else "=" if after is state else after.name
            if said != cell:
                faults.append(f"{state.name} x {event.name}: the table has {cell}, the code {said}")
    return faults


def main(file: str) -> None:
    """Runs the tests of one file; the last line of its output counts them."""
    harness.main(pathlib.Path(file).stem.removeprefix("test_"))
