"""Goal: the tables in the docstrings are the code. Every cell of every machine is driven through
`step`."""

from __future__ import annotations

import enum
import unittest
from dataclasses import replace

import support
from kvrail.connector import decode, prefill, source, target
from kvrail.connector.blocks import Group
from kvrail.connector.machine import Impossible, Limits

LIMITS = Limits(hold=480, park=30, attempts=2)
OFFER = target.Offer(3, ("p0",))
NEWER = target.Offer(4, ("p1",))
NEWEST = target.Offer(5, ("p2",))
GROUPS = (Group((7, 8, 9), 16),)


def source_record(state: source.State) -> source.Source:
    return replace(source.source("r", 3, 64, 1, LIMITS), state=state, opening=1)


def source_event(on: source.On) -> source.Event:
    ticket = (1, 1) if on in source.OF_AGENT else None
    return source.Event(on, ticket, chunk=source.Chunk(((1, 2),), 32))


def target_record(state: target.State) -> target.Target:
    record = replace(
        target.target("r", OFFER, 1, LIMITS), state=state, opening=1, tokens=40, groups=GROUPS
    )
    if state in (target.State.RETRYING, target.State.DROPPING):
        record = replace(record, next_offer=NEWER)
    return record


def target_event(on: target.On) -> target.Event:
    ticket = (1, 1) if on in target.OF_AGENT else None
    return target.Event(on, ticket, offer=NEWEST, tokens=40, groups=GROUPS)


def after(machine, record, event):
    """The state after the event, by `step`; None if the event cannot come."""
    try:
        following, actions = machine.step(record, event, 10.0)
    except Impossible:
        return None
    assert all(action is not None for action in actions)
    return following.state


class Tables(unittest.TestCase):
    def check(self, machine, record, event) -> None:
        faults = support.table_faults(
            machine.__doc__,
            machine.State,
            machine.On,
            lambda s, e: after(machine, record(s), event(e)),
        )
        self.assertEqual(faults, [])

    def test_source(self) -> None:
        self.check(source, source_record, source_event)

    def test_target(self) -> None:
        self.check(target, target_record, target_event)

    def test_prefill(self) -> None:
        self.check(prefill, lambda s: prefill.Prefill("k", "r", 3, state=s), prefill.Event)

    def test_decode(self) -> None:
        self.check(decode, lambda s: decode.Decode("k", "r", OFFER, 40, s), decode.Event)


class EveryCellIsPure(unittest.TestCase):
    def test_the_record_that_goes_in_stays_as_it_is(self) -> None:
        for machine, record, event in (
            (source, source_record, source_event),
            (target, target_record, target_event),
        ):
            for state in machine.State:
                for on in machine.On:
                    before, copy = record(state), record(state)
                    after(machine, before, event(on))
                    self.assertEqual(before, copy, f"{state.name} x {on.name}")

    def test_an_event_of_another_opening_changes_nothing(self) -> None:
        for machine, record, event in (
            (source, source_record, source_event),
            (target, target_record, target_event),
        ):
            for state in machine.State:
                for on in machine.OF_AGENT:
                    for ticket in ((1, 0), (1, 2), (2, 1), None):
                        before = record(state)
                        following, actions = machine.step(
                            before, replace(event(on), ticket=ticket), 10.0
                        )
                        self.assertIs(following, before)
                        self.assertEqual(actions, [])

    def test_an_offer_that_is_not_newer_changes_nothing(self) -> None:
        for state in target.State:
            before = target_record(state)
            for offer in (OFFER, before.next_offer or OFFER, target.Offer(1, ())):
                event = target.Event(target.On.OFFER, offer=offer)
                self.assertEqual(target.step(before, event, 10.0), (before, []))


Door = enum.Enum("Door", "OPEN SHUT")
Hand = enum.Enum("Hand", "PUSHED KNOCKED")
DOOR = """
state | PUSHED | KNOCKED
------|--------|--------
OPEN  | SHUT   | =
SHUT  | -      | =
"""


class TheReaderOfTables(unittest.TestCase):
    """It must find each possible difference."""

    def faults(self, text: str) -> list[str]:
        cells = {
            (Door.OPEN, Hand.PUSHED): Door.SHUT,
            (Door.OPEN, Hand.KNOCKED): Door.OPEN,
            (Door.SHUT, Hand.KNOCKED): Door.SHUT,
        }
        return support.table_faults(text, Door, Hand, lambda s, e: cells.get((s, e)))

    def test_equal(self) -> None:
        self.assertEqual(self.faults(DOOR), [])

    def test_different(self) -> None:
        for was, is_now, words in (
            ("| SHUT ", "| OPEN ", "the table has OPEN, the code SHUT"),
            ("| -      |", "| =      |", "the table has =, the code -"),
            ("SHUT  | -      | =\n", "", "no cell SHUT x"),
            ("KNOCKED", "KICKED", "the code has not"),
            ("SHUT  | -      | =\n", "SHUT  | -      | =\nSHUT  | -      | =\n", "twice"),
            ("OPEN  | SHUT   | =", "OPEN  | SHUT", "1 cells under 2"),
            ("state | PUSHED", "thing | PUSHED", "before the row of events"),
        ):
            text = DOOR.replace(was, is_now, 1)
            self.assertNotEqual(text, DOOR)
            self.assertIn(words, "; ".join(self.faults(text)), text)


if __name__ == "__main__":
    support.main(__file__)
