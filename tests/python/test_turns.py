"""Goal: the figures of tests/bench/engines.sh are those of its measurements, and a bench that was
stopped goes on where it was. Method: measurements written by hand."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

import support

sys.path.insert(0, str(support.ROOT / "tests/engines"))
from turns import VARIANTS, Cell, Request, Turns, figures, percentile  # noqa: E402

CELL = Cell("tcp", 256, 8)


def turn(*added: float, answer: int = 7) -> list[Request]:
    return [Request(100 + ms, ms, [answer]) for ms in added]


class Figures(unittest.TestCase):
    def test_percentiles_are_values_that_came(self) -> None:
        values = [float(value) for value in range(40, 0, -1)]
        self.assertEqual(percentile(values, 50), 20)
        self.assertEqual(percentile(values, 99), 40)
        self.assertEqual(percentile(values * 5, 99), 40)
        self.assertEqual(percentile([3.0], 50), 3)

    def test_one_bad_turn_of_three_does_not_count(self) -> None:
        turns = [turn(1, 2, 9), turn(500, 600, 700), turn(3, 4, 5)]
        got = figures(turns, [[[7]] * 3] * 3)
        self.assertEqual((got["added_p50_ms"], got["added_p99_ms"]), (4, 9))
        self.assertEqual((got["ttft_p50_ms"], got["ttft_p99_ms"]), (104, 109))
        self.assertEqual((got["wrong"], got["requests"]), (0, 9))

    def test_wrong_answers_of_all_turns_count(self) -> None:
        got = figures([turn(1, 2), turn(1, 2, answer=8)], [[[7], [6]], [[8], [8]]])
        self.assertEqual((got["wrong"], got["requests"]), (1, 4))


class Resumed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "turns.jsonl"

    def turns(self, build: str = "a") -> Turns:
        return Turns(self.file, {"kvrail": build})

    def add_turn(self, turns: Turns, number: int) -> None:
        for ms, variant in enumerate(VARIANTS):
            turns.add(CELL, number, variant, turn(ms, ms))
        turns.add_answers(CELL.tokens, number, [[7], [7]])

    def test_what_was_measured_is_there_again(self) -> None:
        before = self.turns()
        self.add_turn(before, 0)
        after = self.turns()
        self.assertTrue(after.has(CELL, 0, "nixl"))
        self.assertFalse(after.has(CELL, 1, "nixl"))
        self.assertTrue(after.has_answers(256, 0))
        cases = after.cases([CELL], 1)
        self.assertEqual(cases, before.cases([CELL], 1))
        self.assertEqual(cases[0]["kvrail"]["added_p50_ms"], 1)
        self.assertEqual(
            set(cases[0]["nixl"]),
            {"ttft_p50_ms", "ttft_p99_ms", "added_p50_ms", "added_p99_ms", "wrong", "requests"},
        )

    def test_a_turn_without_all_variants_does_not_count(self) -> None:
        turns = self.turns()
        self.add_turn(turns, 0)
        turns.add(CELL, 1, "kvrail", turn(90))
        (case,) = turns.cases([CELL, Cell("tcp", 256, 1)], 2)
        self.assertEqual((case["turns"], case["kvrail"]["requests"]), (1, 2))

    def test_requests_without_transfers_count_on_every_path(self) -> None:
        turns = self.turns()
        self.add_turn(turns, 0)
        there = Cell("same host", CELL.tokens, CELL.at_once)
        self.assertTrue(turns.has(there, 0, "none"))
        self.assertFalse(turns.has(there, 0, "kvrail"))
        self.assertFalse(turns.whole(there, 0))

    def test_another_build_is_measured_anew(self) -> None:
        self.add_turn(self.turns("a"), 0)
        self.assertFalse(self.turns("b").has(CELL, 0, "kvrail"))
        self.assertEqual(self.turns("b").cases([CELL], 1), [])

    def test_a_torn_line_is_measured_again(self) -> None:
        self.add_turn(self.turns(), 0)
        os.truncate(self.file, self.file.stat().st_size - 5)
        after = self.turns()
        self.assertFalse(after.has_answers(256, 0))
        after.add_answers(256, 0, [[7], [7]])
        self.assertTrue(self.turns().whole(CELL, 0))


if __name__ == "__main__":
    support.main(__file__)
