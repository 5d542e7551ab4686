"""Goal: which server a request goes to, and what follows a failure.

Method: each outcome by name; then random outcomes, which must end within a bound and never give one
hand-off to two decode servers that may both have seen it.
"""

from __future__ import annotations

import itertools
import random
import unittest

import support
from kvrail.proxy.route import SAME_SERVER_PAUSE, Decode, PassOn, Prefill, Refuse, Route
from kvrail.proxy.servers import Pool, Server, UrlError, parse_url

KV = {"do_remote_prefill": True}


def pool(role: str, count: int) -> Pool:
    return Pool(role, (Server(f"{role}{number}", 80) for number in range(count)))


class Case(unittest.TestCase):
    def make(self, prefills: int = 2, decodes: int = 2, **more) -> Route:
        self.p, self.d = pool("p", prefills), pool("d", decodes)
        self.route = Route(self.p, self.d, **more)
        return self.route

    def refused(self, step, status: int, words: str) -> None:
        self.assertIsInstance(step, Refuse)
        self.assertEqual(step.status, status)
        self.assertIn(words, step.sentence)


class Ways(Case):
    def test_prefill_then_decode(self) -> None:
        route = self.make()
        self.assertEqual(route.start(), Prefill(self.p.servers[0]))
        self.assertEqual(route.handed_off(KV), Decode(self.d.servers[0], KV))

    def test_without_a_hand_off(self) -> None:
        route = self.make()
        step = route.not_handed_off(route.start().server)
        self.assertEqual(step, Decode(self.d.servers[0], None))
        route = self.make(require_prefill=True)
        self.refused(route.not_handed_off(route.start().server), 502, "http://p0:80 answered")

    def test_a_refused_prefill(self) -> None:
        route = self.make()
        route.start()
        self.assertEqual(route.prefill_refused(), Decode(self.d.servers[0], None))
        route = self.make(require_prefill=True)
        route.start()
        self.assertEqual(route.prefill_refused(), PassOn())

    def test_a_request_that_one_hand_off_does_not_fit(self) -> None:
        for require in (False, True):
            route = self.make(one_handoff=False, require_prefill=require)
            self.assertEqual(route.start(), Decode(self.d.servers[0], None))

    def test_prefill_again_at_another_server_then_at_the_same(self) -> None:
        route = self.make(prefills=2, attempts=3)
        first = route.start().server
        second = route.prefill_failed(first, "broke")
        self.assertEqual(second, Prefill(self.p.servers[1]))
        third = route.prefill_failed(second.server, "broke")
        self.assertEqual(third.pause, SAME_SERVER_PAUSE)
        last = route.prefill_failed(third.server, "broke")
        self.assertEqual(last, Decode(self.d.servers[0], None))

    def test_a_required_prefill_that_fails(self) -> None:
        route = self.make(prefills=1, attempts=1, require_prefill=True)
        step = route.prefill_failed(route.start().server, "was silent", 504)
        self.refused(step, 504, "no prefill server answered: http://p0:80 was silent")

    def test_no_prefill_server_is_up(self) -> None:
        route = self.make(prefills=1)
        self.p.servers[0].down = "gone"
        self.assertEqual(route.start(), Decode(self.d.servers[0], None))
        route = self.make(prefills=1, require_prefill=True)
        self.p.servers[0].down = "gone"
        self.refused(route.start(), 503, "http://p0:80: gone")

    def test_no_decode_server_is_up(self) -> None:
        """Nothing is prefilled then: its pages would wait for nothing."""
        route = self.make(decodes=1)
        self.d.servers[0].down = "gone"
        self.refused(route.start(), 503, "no decode server is up: http://d0:80: gone")

    def test_an_unreached_decode_server_leaves_the_hand_off(self) -> None:
        route = self.make(decodes=2)
        route.start()
        step = route.decode_unreached(route.handed_off(KV).server, "refused")
        self.assertEqual(step, Decode(self.d.servers[1], KV))
        self.refused(route.decode_unreached(step.server, "refused"), 502, "http://d1:80 refused")

    def test_a_failed_decode_needs_a_new_hand_off(self) -> None:
        route = self.make(prefills=1, decodes=2)
        route.start()
        failed = route.handed_off(KV).server
        again = route.decode_failed(failed, "broke")
        self.assertEqual(again, Prefill(self.p.servers[0]))
        new = {"new": 1}
        step = route.handed_off(new)
        self.assertEqual(step, Decode(self.d.servers[1], new))
        self.refused(route.decode_failed(step.server, "broke", 504), 504, "http://d1:80 broke")

    def test_the_only_decode_server_has_a_pause(self) -> None:
        route = self.make(decodes=1)
        route.start()
        route.decode_failed(route.handed_off(KV).server, "answered with status 503", answered=True)
        step = route.handed_off(KV)
        self.assertEqual((step.server, step.pause), (self.d.servers[0], SAME_SERVER_PAUSE))
        self.assertEqual(route.decode_failed(step.server, "again", answered=True), PassOn())

    def test_a_decode_server_that_went_down_meanwhile(self) -> None:
        route = self.make(decodes=1)
        route.start()
        self.d.servers[0].down = "gone"
        self.refused(route.handed_off(KV), 503, "http://d0:80: gone")


class Servers(unittest.TestCase):
    def test_the_least_busy_is_next_and_equals_take_turns(self) -> None:
        servers = pool("p", 3)
        a, b, c = servers.servers
        self.assertEqual([servers.choose() for _ in range(4)], [a, b, c, a])
        b.running = c.running = 1
        self.assertEqual([servers.choose() for _ in range(2)], [a, a])
        self.assertEqual(servers.choose([a]), b)
        a.down = "gone"
        self.assertEqual(servers.choose(), c)
        self.assertIsNone(servers.choose([b, c]))

    def test_urls(self) -> None:
        for text, wanted in (
            ("http://a:8100", "http://a:8100"),
            ("http://a/", "http://a:80"),
            ("http://[::1]:8/v1", "http://[::1]:8"),
            ("http://a:8/b/v1/", "http://a:8/b"),
        ):
            self.assertEqual(str(parse_url(text)), wanted)
        for text in (
            *("", "a:8100", "https://a", "http://", "http://:80", "http://a:b", "http://a:99999"),
            *("http://u@a", "http://a?b", "http://a#b", "http://[a", "http://a/b c", "http://ä/"),
            *("http://a/\r\nX: y", "ftp://a"),
        ):
            with self.assertRaises(UrlError, msg=text):
                parse_url(text)


class Walk:
    """One request with random outcomes."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.pools = pool("p", draw.randrange(1, 4)), pool("d", draw.randrange(1, 4))
        self.attempts = draw.randrange(1, 4)
        self.route = Route(
            *self.pools,
            one_handoff=draw.random() < 0.9,
            attempts=self.attempts,
            require_prefill=draw.random() < 0.3,
        )
        self.handoffs = itertools.count(1)
        self.used: set[int] = set()  # hand-offs that a decode server may have seen
        self.steps: list = []
        self.answered = False  # by a server, with an answer that was not used

    def run(self) -> None:
        step = self.route.start()
        while step is not None:
            self.steps.append(step)
            if self.draw.random() < 0.2:
                chosen = self.draw.choice(self.draw.choice(self.pools).servers)
                chosen.down = self.draw.choice(("", "gone"))
            if isinstance(step, Prefill):
                step = self.prefilled(step)
            elif isinstance(step, Decode):
                step = self.decoded(step)
            else:
                assert isinstance(step, Refuse) or self.answered
                return

    def prefilled(self, step: Prefill):
        return self.draw.choice(
            (
                lambda: self.route.handed_off({"number": next(self.handoffs)}),
                lambda: self.route.not_handed_off(step.server),
                self.refuse_prefill,
                lambda: self.route.prefill_failed(step.server, "broke"),
            )
        )()

    def refuse_prefill(self):
        self.answered = True
        return self.route.prefill_refused()

    def decoded(self, step: Decode):
        number = step.handoff["number"] if step.handoff else 0
        assert number not in self.used, "a hand-off comes to a second decode server"
        outcome = self.draw.randrange(4)
        if outcome == 0:
            return None
        if outcome == 1:
            step.server.down = "refused"
            return self.route.decode_unreached(step.server, "refused")
        if number:
            self.used.add(number)
        self.answered = outcome == 2
        return self.route.decode_failed(step.server, "broke", answered=self.answered)


class Random(unittest.TestCase):
    def test_every_way_ends(self) -> None:
        draw = random.Random(4)
        lengths = []
        for _ in range(20000):
            walk = Walk(draw)
            walk.run()
            decodes = [step for step in walk.steps if isinstance(step, Decode)]
            self.assertLessEqual(len(decodes), walk.attempts + len(walk.pools[1].servers))
            prefills = sum(isinstance(step, Prefill) for step in walk.steps)
            self.assertLessEqual(prefills, walk.attempts**2)
            lengths.append(len(walk.steps))
        self.assertGreater(max(lengths), 8)


if __name__ == "__main__":
    support.main(__file__)
