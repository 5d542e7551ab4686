"""Goal: one fetch, step by step: prefix hits, failures, new attempts, aborts, a lost agent."""

from __future__ import annotations

import unittest
from dataclasses import replace

import support
from kvrail.connector.blocks import Group, missing_pages, whole_tokens
from kvrail.connector.machine import Limits
from kvrail.connector.target import (
    Cancel,
    Event,
    GiveBlocks,
    Loaded,
    LoadFailed,
    Offer,
    On,
    OpenTarget,
    SkipAll,
    State,
    Stopped,
    Tail,
    Target,
    step,
    target,
)

LIMITS = Limits(hold=100, park=5, attempts=1)
FIRST, SECOND, THIRD = (Offer(attempt, (f"p{attempt}",)) for attempt in (1, 2, 3))
GROUPS = (Group((10, 11, 12, 13), 16),)


class Case(unittest.TestCase):
    limits = LIMITS

    def setUp(self) -> None:
        self.record: Target = target("r", FIRST, 1, self.limits)
        self.now = 0.0

    def feed(self, on: On, **fields) -> list:
        fields.setdefault("ticket", self.record.ticket)
        self.record, actions = step(self.record, Event(on, **fields), self.now)
        return actions

    def load(self, skip: int = 16, tokens: int = 60) -> list:
        self.feed(On.BLOCKS, tokens=tokens, skip=skip, groups=GROUPS)
        return self.feed(On.AGENT_UP)


class Load(Case):
    def test_after_the_local_prefix(self) -> None:
        self.assertEqual(self.load(), [OpenTarget((1, 1), "r", FIRST, 60, 16, GROUPS)])
        self.assertEqual(self.feed(On.ACCEPTED), [])
        self.assertEqual(self.feed(On.TAIL, tail=b"first"), [Tail("r", b"first")])
        self.assertEqual(self.feed(On.DONE), [Loaded("r", 60)])
        self.assertTrue(self.record.over)

    def test_a_full_hit_only_releases(self) -> None:
        self.assertEqual(self.feed(On.COVERED, tokens=60), [])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenTarget((1, 1), "r", FIRST, 60, 60, ())])
        self.assertEqual(self.feed(On.DONE), [], "the engine does not wait for it")
        self.assertTrue(self.record.over)

    def test_nothing_to_fetch_is_refused(self) -> None:
        for skip in (60, 61, -1):
            with self.assertRaises(ValueError):
                self.feed(On.BLOCKS, tokens=60, skip=skip, groups=GROUPS)


class Held(Case):
    """The tokens are known: the fetch is opened while the request is queued."""

    HELD = OpenTarget((1, 1), "r", FIRST, 60, 0, (), 540.0)

    def setUp(self) -> None:
        super().setUp()
        self.record = target("r", FIRST, 1, self.limits, 60)
        self.assertEqual(self.feed(On.AGENT_UP), [self.HELD])

    def blocks(self, tokens: int = 60) -> list:
        return self.feed(On.BLOCKS, tokens=tokens, skip=16, groups=GROUPS)

    def test_the_blocks_come_later(self) -> None:
        self.assertEqual(self.blocks(), [GiveBlocks((1, 1), 16, GROUPS)])
        self.assertEqual(self.feed(On.DONE, token_end=60), [Loaded("r", 60)])
        self.assertTrue(self.record.over)

    def test_a_full_hit_and_an_abort_release_the_source(self) -> None:
        held = self.record
        for on in (On.COVERED, On.ABORT):
            self.record = held
            self.assertEqual(self.feed(on, tokens=60), [SkipAll((1, 1), 60)])
            self.assertEqual(self.feed(On.DONE), [])
            self.assertTrue(self.record.over)

    def test_a_release_does_not_wait_for_a_source_that_never_comes(self) -> None:
        self.now = 10.0
        self.feed(On.ABORT)
        self.assertEqual(self.record.timer, 70.0)
        self.now = 70.0
        self.assertEqual(self.feed(On.TIMER), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.FAILED, status="cancelled"), [])
        self.assertTrue(self.record.over)

    def test_its_source_ends_meanwhile(self) -> None:
        self.assertEqual(self.feed(On.FAILING, status="expired"), [])
        self.assertEqual(self.feed(On.FAILED, status="expired"), [])
        missed = self.record
        self.assertEqual(self.blocks(), [LoadFailed("r", 16, ((11, 12, 13),), "expired")])
        self.assertTrue(self.record.over)
        self.record = missed
        self.assertEqual(self.feed(On.OFFER, offer=SECOND), [])
        self.assertEqual(self.feed(On.AGENT_UP)[0].offer, SECOND)

    def test_an_agent_with_too_many_requests_is_asked_again_with_the_blocks(self) -> None:
        self.assertEqual(self.feed(On.FAILED, status="full"), [])
        self.assertFalse(self.record.awaits_agent)
        self.assertEqual(self.blocks(), [])
        self.assertEqual(
            self.feed(On.AGENT_UP), [OpenTarget((1, 2), "r", FIRST, 60, 16, GROUPS)]
        )

    def test_the_agent_dies(self) -> None:
        self.assertEqual(self.feed(On.LOST, status="agent_lost"), [])
        self.assertEqual(self.feed(On.AGENT_UP), [replace(self.HELD, ticket=(1, 2))])

    def test_a_newer_attempt_is_held_instead(self) -> None:
        self.assertEqual(
            self.feed(On.OFFER, offer=SECOND),
            [SkipAll((1, 1), 60), replace(self.HELD, ticket=(1, 2), offer=SECOND)],
        )
        self.assertEqual(self.feed(On.DONE, ticket=(1, 1)), [], "of the older attempt")
        self.assertEqual(self.blocks(), [GiveBlocks((1, 2), 16, GROUPS)])

    def test_blocks_for_fewer_tokens(self) -> None:
        self.assertEqual(
            self.blocks(48), [SkipAll((1, 1), 60), LoadFailed("r", 16, ((11, 12),), "cut")]
        )
        self.assertIs(self.record.state, State.RELEASING)

    def test_a_load_that_takes_too_long_is_cancelled(self) -> None:
        self.now = 400.0
        self.blocks()
        self.assertEqual(self.record.timer, 460.0)
        self.now = 460.0
        self.assertEqual(self.feed(On.TIMER), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.FAILING, status="cancelled"), [], "still lent")
        self.assertEqual(
            self.feed(On.FAILED, status="cancelled", token_first=32),
            [LoadFailed("r", 32, ((12, 13),), "expired")],
        )


class Failures(Case):
    def test_the_blocks_to_compute_again_are_named(self) -> None:
        self.load()
        self.assertEqual(self.feed(On.FAILING, status="peer_lost"), [], "still lent")
        self.assertEqual(
            self.feed(On.FAILED, status="peer_lost", token_first=47),
            [LoadFailed("r", 32, ((12, 13),), "peer_lost")],
        )

    def test_not_below_the_local_prefix(self) -> None:
        self.load(skip=20)
        self.assertEqual(
            self.feed(On.FAILED, status="expired", token_first=20),
            [LoadFailed("r", 20, ((11, 12, 13),), "expired")],
        )

    def test_the_agent_names_more_than_there_is(self) -> None:
        self.load()
        self.assertEqual(
            self.feed(On.FAILED, status="expired", token_first=2**40),
            [LoadFailed("r", 48, ((13,),), "expired")],
        )

    def test_the_agent_dies(self) -> None:
        self.load()
        self.assertEqual(
            self.feed(On.LOST, status="agent_lost"),
            [LoadFailed("r", 16, ((11, 12, 13),), "agent_lost")],
        )
        self.assertEqual(
            self.feed(On.AGENT_UP),
            [OpenTarget((1, 2), "r", FIRST, 60, 60, ())],
            "the source may not have heard of it",
        )

    def test_the_agent_stays_away(self) -> None:
        self.feed(On.BLOCKS, tokens=60, skip=16, groups=GROUPS)
        self.assertEqual(self.record.timer, 5.0)
        self.now = 5.0
        self.assertEqual(self.feed(On.TIMER), [LoadFailed("r", 16, ((11, 12, 13),), "agent_lost")])
        self.assertIs(self.record.state, State.OWING)
        self.now = 105.0
        self.assertEqual(self.feed(On.TIMER), [])
        self.assertTrue(self.record.over)

    def test_a_cancelled_source_is_not_tried_again_with_one_attempt(self) -> None:
        self.load()
        self.assertIsInstance(
            self.feed(On.FAILED, status="cancelled", token_first=32)[0], LoadFailed
        )


class NextAttempt(Case):
    limits = replace(LIMITS, attempts=2)

    def test_of_a_preempted_source(self) -> None:
        self.load()
        self.feed(On.FAILING, status="cancelled")
        self.assertEqual(
            self.feed(On.FAILED, status="cancelled", token_first=50),
            [OpenTarget((1, 2), "r", replace(FIRST, attempt=2), 60, 48, GROUPS)],
        )
        self.assertEqual(self.feed(On.DONE, ticket=(1, 1)), [], "of the older attempt")
        self.assertEqual(
            self.feed(On.FAILED, status="cancelled", token_first=48),
            [LoadFailed("r", 48, ((13,),), "cancelled")],
            "two attempts and no more",
        )

    def test_not_for_other_failures(self) -> None:
        self.load()
        self.assertIsInstance(
            self.feed(On.FAILED, status="digest_mismatch", token_first=32)[0], LoadFailed
        )

    def test_not_after_an_abort(self) -> None:
        self.load()
        self.feed(On.ABORT)
        self.assertEqual(self.feed(On.FAILED, status="cancelled", token_first=32), [Stopped("r")])


class Offers(Case):
    def test_opens_after_the_older_one_has_ended(self) -> None:
        self.load()
        self.assertEqual(self.feed(On.OFFER, offer=SECOND), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.FAILING, status="cancelled"), [])
        self.assertEqual(self.feed(On.FAILED, status="cancelled", token_first=32), [])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenTarget((1, 2), "r", SECOND, 60, 32, GROUPS)])

    def test_the_older_one_was_done(self) -> None:
        self.load()
        self.feed(On.OFFER, offer=SECOND)
        self.assertEqual(self.feed(On.DONE), [Loaded("r", 60)])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenTarget((1, 2), "r", SECOND, 60, 60, ())])

    def test_in_the_queue_the_older_source_is_released(self) -> None:
        self.assertEqual(
            self.feed(On.OFFER, offer=SECOND),
            [OpenTarget((1, -1), "r", FIRST, 1, 1, ())],
        )
        self.assertEqual(
            self.feed(On.OFFER, offer=THIRD),
            [OpenTarget((1, -2), "r", SECOND, 1, 1, ())],
        )
        self.assertEqual(self.load()[0].offer, THIRD)

    def test_two_offers_while_the_first_attempt_ends(self) -> None:
        self.load()
        self.feed(On.OFFER, offer=SECOND)
        self.assertEqual(
            self.feed(On.OFFER, offer=THIRD), [OpenTarget((1, -1), "r", SECOND, 1, 1, ())]
        )
        self.feed(On.FAILED, status="cancelled")
        self.assertEqual(self.feed(On.AGENT_UP)[0].offer, THIRD)

    def test_of_an_aborted_request_is_released(self) -> None:
        self.load()
        self.feed(On.ABORT)
        self.feed(On.OFFER, offer=SECOND)
        self.assertEqual(self.feed(On.FAILED, status="cancelled"), [Stopped("r")])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenTarget((1, 2), "r", SECOND, 60, 60, ())])


class Aborts(Case):
    def test_in_the_queue_frees_the_source(self) -> None:
        self.assertEqual(self.feed(On.ABORT), [])
        self.assertEqual(self.feed(On.AGENT_UP), [OpenTarget((1, 1), "r", FIRST, 1, 1, ())])

    def test_while_loading_the_blocks_stay(self) -> None:
        self.load()
        self.assertEqual(self.feed(On.ABORT), [Cancel((1, 1))])
        self.assertEqual(self.feed(On.FAILING, status="cancelled"), [])
        self.assertEqual(self.feed(On.FAILED, status="cancelled"), [Stopped("r")])

    def test_done_was_on_its_way(self) -> None:
        self.load()
        self.feed(On.ABORT)
        self.assertEqual(self.feed(On.DONE), [Stopped("r")])

    def test_without_an_agent(self) -> None:
        self.feed(On.BLOCKS, tokens=60, skip=16, groups=GROUPS)
        self.assertEqual(self.feed(On.ABORT), [Stopped("r")])


class Blocks(unittest.TestCase):
    FULL, WINDOW, STATE = Group((1, 2, 3, 4), 16), Group((0, 0, 7, 8), 16, skip=32), Group((99,), 0)

    def test_groups_of_other_page_sizes(self) -> None:
        groups = (Group((1, 2), 32), Group((5, 6, 7, 8), 16))
        self.assertEqual(whole_tokens(groups, 63, 0), 32)
        self.assertEqual(missing_pages(groups, 32, 60), ((2,), (7, 8)))
        self.assertEqual(missing_pages(groups, 32, 33), ((2,), (7,)))

    def test_a_window_names_no_page_before_it(self) -> None:
        self.assertEqual(missing_pages((self.FULL, self.WINDOW), 16, 64), ((2, 3, 4), (7, 8)))
        self.assertEqual(missing_pages((self.FULL, self.WINDOW), 48, 64), ((4,), (8,)))

    def test_a_state_is_right_only_at_the_end(self) -> None:
        self.assertEqual(whole_tokens((self.FULL, self.STATE), 63, 16), 16)
        self.assertEqual(missing_pages((self.FULL, self.STATE), 16, 64), ((2, 3, 4), (99,)))
        self.assertEqual(missing_pages((self.FULL, self.STATE), 64, 64), ((), ()))
        with self.assertRaises(ValueError):
            Group((1, 2), 0)


if __name__ == "__main__":
    support.main(__file__)
