"""The judge of the rounds, on journals that are written here: what is a hang, a leak, a time."""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import main  # noqa: E402
import order  # noqa: E402
import sums  # noqa: E402
from journal import Journal, Strike, hangs, latencies_ms  # noqa: E402

BOUND_S, DEADLINE_S = 5.0, 60.0


def opened(at, request, engine="target"):
    return {"at_s": at, "engine": engine, "what": "opened", "request": request, "pages": 10}


def ended(at, request, engine="target", what="done", terminal=True):
    return {"at_s": at, "engine": engine, "what": what, "request": request, "status": "ok", "terminal": terminal}


class Judging(unittest.TestCase):
    def setUp(self):
        self.strike = Strike(DEADLINE_S, BOUND_S)
        self.strike.struck_at = self.strike.counted_from = 100.0
        self.strike.ended_at = 107.0

    def journal(self, *entries):
        with tempfile.NamedTemporaryFile("w", suffix=".journal") as file:
            for entry in entries:
                print(json.dumps(entry), file=file)
            file.flush()
            return Journal(file.name).read()

    def hangs(self, *entries):
        return len(hangs(self.journal(*entries), self.strike))

    def test_an_end_within_the_bound_after_the_fault_is_good(self):
        self.assertEqual(self.hangs(opened(99, 1), ended(111.9, 1)), 0)

    def test_an_end_later_than_that_is_a_hang(self):
        self.assertEqual(self.hangs(opened(99, 1), ended(112.1, 1)), 1)

    def test_no_end_is_a_hang(self):
        self.assertEqual(self.hangs(opened(99, 1)), 1)
        self.assertEqual(self.hangs(opened(99, 1), ended(101, 1, what="failing", terminal=False)), 1)

    def test_a_deadline_within_the_fault_counts(self):
        self.strike.deadline_s = 2.0
        self.assertEqual(self.hangs(opened(99, 1), ended(105.9, 1)), 0)
        self.assertEqual(self.hangs(opened(99, 1), ended(106.1, 1)), 1)

    def test_what_is_opened_after_the_fault_has_its_deadline(self):
        self.assertEqual(self.hangs(opened(108, 1), ended(172.9, 1)), 0)
        self.assertEqual(self.hangs(opened(108, 1), ended(173.1, 1)), 1)

    def test_an_interrupted_replay_ends_within_the_bound(self):
        self.strike.interrupted_at = 110.0
        self.assertEqual(self.hangs(opened(108, 1), ended(114.9, 1)), 0)
        self.assertEqual(self.hangs(opened(108, 1), ended(115.1, 1)), 1)

    def test_a_fetch_of_a_stopped_agent_must_be_failing(self):
        self.strike.deadline_s = 1.0
        self.strike.ended_at = 110.0
        self.strike.stopped_agents = {"target": (100.0, 110.0)}
        end = ended(112, 1, what="expired")
        self.assertEqual(self.hangs(opened(99, 1), end), 1)
        self.assertEqual(self.hangs(opened(99, 1), ended(105.1, 1, what="failing", terminal=False), end), 1)
        self.assertEqual(self.hangs(opened(99, 1), ended(104.9, 1, what="failing", terminal=False), end), 0)
        self.strike.stopped_agents["source"] = 100.0, 110.0
        self.assertEqual(self.hangs(opened(99, 1, "source"), ended(112, 1, "source", "source_free")), 0)

    def test_a_stopped_engine_has_until_it_runs_again(self):
        self.strike.deadline_s = 1.0
        self.strike.ended_at = 110.0
        self.strike.stopped_engines = {"target": (100.0, 110.0)}
        self.assertEqual(self.hangs(opened(99, 1), ended(114.9, 1)), 0)
        self.assertEqual(self.hangs(opened(99, 1), ended(115.1, 1)), 1)

    def test_a_killed_engine_is_told_nothing(self):
        self.strike.gone = {"target": 100.0}
        self.assertEqual(self.hangs(opened(99, 1)), 0)
        self.assertEqual(self.hangs(opened(99, 1, "source")), 1)

    def test_pages_without_a_terminal_event_are_leaked(self):
        finished = {"at_s": 120, "engine": "target", "what": "finished", "pages": 3}
        journal = self.journal(opened(99, 1), opened(99, 2), ended(101, 2), finished)
        self.assertEqual(journal.leaked_pages({}), 13)
        self.assertEqual(journal.leaked_pages({"target"}), 0)

    def test_times_are_of_what_was_on_its_way(self):
        journal = self.journal(opened(90, 1), ended(99, 1), opened(99, 2), ended(101, 2), opened(99, 2, "source"),
                               ended(103, 2, "source"), opened(99, 3), opened(101, 4))
        self.assertEqual(latencies_ms(journal, self.strike, 120.0), [3000.0, 20000.0])
        self.strike.counted_from = 102.0
        self.assertEqual(latencies_ms(journal, self.strike, 120.0), [1000.0, 18000.0])


class Ordering(unittest.TestCase):
    def test_thirty_rounds_meet_each_fault(self):
        for seed in range(1, 301):
            dealt = order.rounds(main.FAULTS, seed, 30)
            self.assertEqual({fault for faults in dealt for fault in faults}, set(main.FAULTS))

    def test_every_fifth_round_has_several(self):
        for number, faults in enumerate(order.rounds(main.FAULTS, 7, 200), 1):
            self.assertIn(len(faults), (2, 3) if number % 5 == 0 else (1,))

    def test_what_strikes_together_does_not_contradict(self):
        for seed in range(1, 51):
            for faults in order.rounds(main.FAULTS, seed, 60):
                for at, fault in enumerate(faults):
                    for other in faults[at + 1:]:
                        self.assertFalse(fault.touches & other.touches)
                        self.assertFalse(fault.ends_replay and other.seconds > order.SOON_S)
                        self.assertFalse(other.ends_replay and fault.seconds > order.SOON_S)

    def test_fewer_rounds_are_the_beginning_of_more(self):
        self.assertEqual(order.rounds(main.FAULTS, 7, 20), order.rounds(main.FAULTS, 7, 200)[:20])


class Adding(unittest.TestCase):
    def result(self, **more):
        return {"round": 1, "seed": 1, "faults": ["loss"], "requests": 40, "wrong_bytes": 0, "hangs": 0,
                "leaked_pages": 0, "unclean": False, "latencies_ms": [1.0], "provider": "tcp", "injected": ["loss"],
                "unavailable": {}, "problems": [],
                "seconds": 9, **more}

    def test_each_of_the_three_is_bad(self):
        self.assertTrue(sums.good(sums.add_up([self.result(), self.result()], {})))
        for name in ("wrong_bytes", "hangs", "leaked_pages", "unclean"):
            self.assertFalse(sums.good(sums.add_up([self.result(), self.result(**{name: 2})], {})))

    def test_the_99th_of_a_hundred_counts(self):
        total = sums.add_up([self.result(latencies_ms=[float(at) for at in range(1, 101)])], {}, bound_ms=98)
        self.assertEqual(total["p99_terminal_ms"]["loss"]["p99"], 99.0)
        self.assertFalse(total["p99_terminal_ms"]["loss"]["within_bound"])


if __name__ == "__main__":
    unittest.main()
