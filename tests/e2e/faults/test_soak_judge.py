"""The judge of a soak, on series and journals that are written here."""
import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import soak_judge  # noqa: E402
from journal import Journal, Side  # noqa: E402

BOUND_S, DEADLINE_S, END_S = 5.0, 20.0, 7200.0
TIMES = [30.0 * number for number in range(1, 241)]


def series(kib_per_hour, noise_kib=300, warm_kib=12000):
    """Tables fill up in the first quarter; then so much more in each hour."""
    rng = random.Random(1)
    return [30000 + warm_kib * min(1, at / 1500) + kib_per_hour * at / 3600 + rng.uniform(-noise_kib, noise_kib)
            for at in TIMES]


class Memory(unittest.TestCase):
    def grows(self, values):
        return soak_judge.growth_kib(TIMES, values, END_S) > soak_judge.allowed_kib(END_S / 60, 130, "1.17.1")

    def test_flat_after_the_warm_up(self):
        self.assertFalse(self.grows(series(0)))

    def test_a_megabyte_and_a_half_an_hour_is_found(self):
        """The medians of the second and the last quarter are an hour apart."""
        self.assertTrue(self.grows(series(1500)))
        self.assertAlmostEqual(soak_judge.slope_per_hour(TIMES, series(1500), END_S), 1500, delta=100)

    def test_one_version_of_libfabric_may_lose_some_for_each_fault(self):
        allowed = soak_judge.allowed_kib(40, 130, "1.17.1")
        self.assertEqual(soak_judge.allowed_kib(40, 130, None), allowed)
        self.assertEqual(soak_judge.allowed_kib(40, 130, "1.17.0"), allowed + 65 * soak_judge.LEAK_KIB_A_FAULT)
        log = "decode-1 is ready: 2 rails in 1 group; libfabric 1.17.0 of /lib/libfabric.so.1, built with its API 1.17"
        self.assertEqual(soak_judge.libfabric_of(log), "1.17.0")
        self.assertIsNone(soak_judge.libfabric_of("decode-1 is ready"))

    def test_samples_that_are_missing_are_left_out(self):
        values = series(0)
        values[100:110] = [None] * 10
        self.assertFalse(self.grows(values))
        self.assertLess(abs(soak_judge.slope_per_hour(TIMES, values, END_S)), 100)

    def test_without_samples_there_is_no_verdict(self):
        self.assertIsNone(soak_judge.growth_kib([10.0], [30000], END_S))
        self.assertIsNone(soak_judge.slope_per_hour([10.0], [30000], END_S))

    def test_each_sample_is_in_one_quarter(self):
        values = list(range(len(TIMES)))
        quarters = [soak_judge.quarter(TIMES, values, number, END_S) for number in (1, 2, 3, 4)]
        self.assertEqual(sum(quarters, []), values)

    def test_a_short_run_finds_a_gross_leak_alone(self):
        self.assertGreater(soak_judge.allowed_kib(1, 40, None), soak_judge.allowed_kib(120, 40, None))


class Waiting(unittest.TestCase):
    def limit(self, *strikes):
        return soak_judge.limit(Side("target", 1, 100.0, 8), DEADLINE_S, BOUND_S, strikes)

    def test_without_a_fault_it_is_the_deadline_and_the_bound(self):
        self.assertEqual(self.limit(), 125.0)

    def test_each_fault_that_meets_it_gives_it_the_bound_again(self):
        self.assertEqual(self.limit((90.0, 99.0)), 125.0)
        self.assertEqual(self.limit((110.0, 119.0)), 125.0)
        self.assertEqual(self.limit((118.0, 127.0)), 132.0)
        self.assertEqual(self.limit((118.0, 127.0), (131.0, 140.0)), 145.0)
        self.assertEqual(self.limit((126.0, 135.0)), 125.0)

    def test_a_fault_that_still_lasts_excuses(self):
        self.assertEqual(self.limit((110.0, float("inf"))), float("inf"))

    def hangs(self, gone, *lines):
        with tempfile.NamedTemporaryFile("w", suffix=".journal") as file:
            print(*lines, sep="\n", file=file, flush=True)
            return len(soak_judge.hangs(Journal(file.name).read(), DEADLINE_S, BOUND_S, [], gone))

    def test_a_request_that_ends_late_or_never_hangs(self):
        opened = '{"at_s": 100.0, "engine": "target", "what": "opened", "request": 1, "pages": 8}'
        ended = '{"at_s": %s, "engine": "target", "what": "done", "request": 1, "status": "ok", "terminal": true}'
        self.assertEqual(self.hangs((), opened, ended % 124.9), 0)
        self.assertEqual(self.hangs((), opened, ended % 125.1), 1)
        self.assertEqual(self.hangs((), opened), 1)
        self.assertEqual(self.hangs(("target",), opened), 0)


if __name__ == "__main__":
    unittest.main()
