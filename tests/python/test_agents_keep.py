"""Goal: the workers of an engine start one agent between them, also again when it dies, and not in
a busy loop. Method: the decisions of keep.py alone, then many workers that decide in a random order
in a small world of one lock."""

from __future__ import annotations

import random
import unittest

import support
from kvrail.agents.keep import LASTED, PAUSE_MOST, GiveUp, Look, Start, Starts, Use, Wait, decide

FREE = Starts()


class Decisions(unittest.TestCase):
    def test_the_table(self) -> None:
        used = Starts(3, 99.0)
        for look, now, wanted in (
            (Look(True), 0, Use()),
            (Look(True, lock=FREE), 0, Use()),
            (Look(True, ended=1), 20, Use()),  # another worker's agent is there
            (Look(False, ended=2, lock=FREE), 0, GiveUp(2)),
            (Look(False, ended=-9), 20, GiveUp(-9)),
            (Look(False), 10, GiveUp()),
            (Look(False, lock=FREE), 10, GiveUp()),
            (Look(False), 5, Wait(0.05)),
            (Look(False), 9.99, Wait(10 - 9.99)),
            (Look(False, lock=FREE), 5, Start(Starts(1, 5))),
            (Look(False, lock=used), 5, Start(Starts(1, 5))),  # its time is yet to come
        ):
            with self.subTest(look=look, now=now):
                self.assertEqual(decide(look, now, 10), wanted)

    def test_the_pause_is_waited_for(self) -> None:
        starts = Starts(3, 100.0)
        self.assertEqual(decide(Look(False, lock=starts), 100.5, 200), Wait(1.5))
        self.assertEqual(decide(Look(False, lock=starts), 100.5, 101), Wait(0.5))
        self.assertEqual(decide(Look(False, lock=starts), 102, 200), Start(Starts(4, 102)))

    def test_pauses_grow_to_a_bound(self) -> None:
        starts, now, pauses = Starts(), 1000.0, list[float]()
        for _ in range(10):
            pauses.append(starts.next(now) - now)
            now = starts.next(now)
            starts = starts.after(now)
        self.assertEqual(pauses, [0, 0.5, 1, 2, 4, 8, 16, 30, 30, PAUSE_MOST])

    def test_an_agent_that_lasted_is_started_again_at_once(self) -> None:
        starts, now = Starts(7, 1000.0), 1000.0 + LASTED
        self.assertEqual(decide(Look(False, lock=starts), now, now + 1), Start(Starts(1, now)))

    def test_the_text_of_a_lock(self) -> None:
        for starts in (Starts(), Starts(1, 5.25), Starts(40, 123456.789)):
            self.assertEqual(Starts.parse(str(starts)), starts)
        for text in ("", "\n", "x", "1", "1 2 3", "one 2", "-4 nan nan", "\0\0 5"):
            self.assertEqual(Starts.parse(text), Starts())
        self.assertEqual(Starts.parse("-4 5"), Starts(0, 5.0))
        self.assertEqual(Starts(2, float("nan")).next(7.0), 7.0)


class World:
    """One agent at most, which may die at any time. Workers look one after the other."""

    def __init__(self, seed: int, dies: float) -> None:
        self.random, self.dies = random.Random(seed), dies
        self.now, self.starts, self.started = 0.0, Starts(), list[float]()
        self.runs = self.listens = False

    def turn(self) -> None:
        """A worker looks, and does what keep.py says."""
        look = Look(self.listens, lock=None if self.runs else self.starts)
        does = decide(look, self.now, self.now + 1000)
        match does:
            case Start(starts=starts):
                assert not self.runs, "two agents"
                self.starts, self.runs = starts, True
                self.started.append(self.now)
            case Use():
                assert self.listens
            case Wait(seconds=seconds):
                assert seconds > 0
        self.now += self.random.random() * 0.1
        if self.runs and not self.listens:
            self.listens = self.random.random() < 0.5
        if self.random.random() < self.dies:
            self.runs = self.listens = False


class Workers(unittest.TestCase):
    def test_one_agent_and_it_comes_back(self) -> None:
        for seed in range(50):
            world = World(seed, dies=0.002)
            for _ in range(3000):
                world.turn()
            world.dies = 0
            while not world.listens:
                before = world.now
                world.turn()
                self.assertLess(before - world.started[-1], 2 * PAUSE_MOST, f"seed {seed}")

    def test_an_agent_that_never_lasts_is_not_started_often(self) -> None:
        world = World(1, dies=0.9)
        while world.now < 300:
            world.turn()
        self.assertLess(len(world.started), 7 + 300 / PAUSE_MOST)
        self.assertGreater(len(world.started), 5)


if __name__ == "__main__":
    support.main(__file__)
