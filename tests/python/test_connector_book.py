"""Goal: many requests in one book: only those that an event names cost anything, and nothing is
left behind."""

from __future__ import annotations

import time
import timeit
import unittest

import support
from kvrail.connector import source, target
from kvrail.connector.book import Book
from kvrail.connector.machine import NEVER, Limits

LIMITS = Limits(hold=100, lease_ms=30_000, park=5)
IN_FLIGHT = 1000
STEP_US_MAX = 20.0  # of a scheduler step without transfers


def source_book() -> Book:
    return Book(source.step, source.Event(source.On.AGENT_UP), source.Event(source.On.TIMER))


def target_book() -> Book:
    return Book(target.step, target.Event(target.On.AGENT_UP), target.Event(target.On.TIMER))


def add_source(book: Book, key: str, now: float = 0.0) -> tuple[int, int]:
    book.add(key, source.source(key, 1, 16, book.next_serial(), LIMITS), now)
    book.feed(key, source.Event(source.On.CHUNK, chunk=source.Chunk(((1,),), 16)), now)
    book.feed(key, source.Event(source.On.SEAL), now)
    return book.get(key).ticket


class TheBook(unittest.TestCase):
    def test_goes_on_at_once_if_the_agent_is_there(self) -> None:
        book = source_book()
        book.agent(True, 0.0)
        add_source(book, "a")
        self.assertEqual(
            [type(action).__name__ for _, action in book.take()],
            ["OpenSource", "GivePages", "EndSource"],
        )
        self.assertEqual(book.take(), [])

    def test_waits_for_the_agent_in_order(self) -> None:
        book = source_book()
        for key in "cab":
            add_source(book, key)
        self.assertEqual(book.take(), [])
        book.agent(True, 1.0)
        self.assertEqual(
            [key for key, action in book.take() if isinstance(action, source.OpenSource)],
            list("cab"),
        )
        book.agent(True, 2.0)
        self.assertEqual(book.take(), [], "a second report of the same agent")

    def test_a_queued_fetch_asks_once_for_each_agent(self) -> None:
        book = target_book()
        book.agent(True, 0.0)
        queued = target.target("a", target.Offer(1, ()), book.next_serial(), LIMITS, 40)
        book.add("a", queued, 0.0)
        book.feed("a", target.Event(target.On.OFFER, offer=target.Offer(2, ())), 0.0)
        opened = [action for _, action in book.take() if isinstance(action, target.OpenTarget)]
        self.assertEqual([action.offer.attempt for action in opened], [1, 2])
        self.assertTrue(all(action.hold > 0 for action in opened))
        book.agent(False, 1.0)
        book.feed("a", target.Event(target.On.LOST, opened[1].ticket), 1.0)
        book.agent(True, 2.0)
        self.assertEqual([action.offer.attempt for _, action in book.take()], [2])

    def test_a_fetch_of_unknown_tokens_waits_for_its_blocks(self) -> None:
        book = target_book()
        book.agent(True, 0.0)
        book.add("a", target.target("a", target.Offer(1, ()), book.next_serial(), LIMITS), 0.0)
        self.assertEqual(book.take(), [])

    def test_ended_records_leave_nothing(self) -> None:
        book = source_book()
        book.agent(True, 0.0)
        for number in range(500):
            key = f"r{number}"
            ticket = add_source(book, key, float(number))
            book.feed(key, source.Event(source.On.ENDED, ticket), float(number))
        self.assertEqual(len(book), 0)
        self.assertLess(len(book._timers), 100)
        self.assertEqual(book._awaiting, {})

    def test_timers(self) -> None:
        book = source_book()
        book.agent(True, 0.0)
        self.assertEqual(book.next_timer(), NEVER)
        add_source(book, "a", 0.0)
        add_source(book, "b", 10.0)
        book.take()
        self.assertEqual(book.next_timer(), 100.0)
        book.tick(99.9)
        self.assertEqual(book.take(), [])
        book.tick(100.0)
        self.assertEqual(book.take(), [("a", source.Cancel((1, 1), "expired"))])
        book.tick(1000.0)
        self.assertEqual(book.take(), [("b", source.Cancel((2, 1), "expired"))])

    def test_a_timer_of_an_ended_request_does_not_strike_the_next_with_its_id(self) -> None:
        book = source_book()
        book.agent(True, 0.0)
        ticket = add_source(book, "a", 0.0)
        book.feed("a", source.Event(source.On.ENDED, ticket), 1.0)
        again = add_source(book, "a", 50.0)
        book.take()
        book.tick(120.0)
        self.assertEqual(book.take(), [])
        book.feed("a", source.Event(source.On.ENDED, ticket), 121.0)
        self.assertIn("a", book, "an event of the earlier request")
        book.feed("a", source.Event(source.On.ENDED, again), 121.0)
        self.assertNotIn("a", book)

    def test_an_impossible_event_changes_nothing_and_is_counted(self) -> None:
        book = source_book()
        book.agent(True, 0.0)
        add_source(book, "a")
        before = book.get("a")
        self.assertFalse(book.feed("a", source.Event(source.On.AGENT_UP), 1.0))
        self.assertIs(book.get("a"), before)
        self.assertEqual(book.impossible, 1)
        self.assertIn("AGENT_UP cannot come in OFFERED", book.last_impossible)
        self.assertFalse(book.feed("x", source.Event(source.On.ABORT), 1.0))

    def test_one_record_for_each_id(self) -> None:
        book = source_book()
        add_source(book, "a")
        with self.assertRaises(KeyError):
            add_source(book, "a")


class Costs(unittest.TestCase):
    def fill(self) -> tuple[Book, Book]:
        sources, targets = source_book(), target_book()
        for book in (sources, targets):
            book.agent(True, 0.0)
        for number in range(IN_FLIGHT):
            add_source(sources, f"s{number}")
            key = f"t{number}"
            targets.add(
                key, target.target(key, target.Offer(1, ()), targets.next_serial(), LIMITS), 0.0
            )
            targets.feed(key, target.Event(target.On.BLOCKS, tokens=16, groups=()), 0.0)
        sources.take()
        targets.take()
        return sources, targets

    def test_a_step_without_transfers(self) -> None:
        sources, targets = self.fill()

        def turn() -> None:
            for book in (sources, targets):
                book.tick(1.0)
                book.take()

        best = min(timeit.repeat(turn, timer=time.process_time, number=1000, repeat=7)) * 1000
        print(
            f"a step without transfers, {IN_FLIGHT} requests in flight in each book: {best:.2f} us"
        )
        self.assertLess(best, STEP_US_MAX)

    def test_a_whole_request(self) -> None:
        sources, targets = self.fill()

        def one() -> None:
            ticket = add_source(sources, "x", 1.0)
            sources.feed("x", source.Event(source.On.ACCEPTED, ticket), 1.0)
            sources.feed("x", source.Event(source.On.ENDED, ticket), 1.0)
            sources.take()
            targets.add(
                "x", target.target("x", target.Offer(1, ()), targets.next_serial(), LIMITS), 1.0
            )
            targets.feed("x", target.Event(target.On.BLOCKS, tokens=16, groups=()), 1.0)
            ticket = targets.get("x").ticket
            targets.feed("x", target.Event(target.On.ACCEPTED, ticket), 1.0)
            targets.feed("x", target.Event(target.On.DONE, ticket), 1.0)
            targets.take()

        best = min(timeit.repeat(one, timer=time.process_time, number=200, repeat=5)) / 200 * 1e6
        print(f"a publish and a fetch from begin to end beside {IN_FLIGHT} others: {best:.0f} us")
        self.assertLess(best, 1000)


if __name__ == "__main__":
    support.main(__file__)
