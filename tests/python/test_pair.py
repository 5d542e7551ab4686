"""Goal: an engine in Python moves pages through two real agents, meets each kind of end, and is refused
with the library's sentence where it goes wrong. Method: a source and a target in this process; every byte of
every page is compared. run.sh starts the agents."""

import asyncio
import json
import os
import pickle
import threading
import unittest

import harness
import kvrail
from engines import LAYERS, PAGE_TOKENS, PATIENCE, Engine, EventKind, Status, same_pages

SOURCE_PAGES, TARGET_PAGES = [7, 8, 3, 60], [0, 50, 51, 52]
TOKENS = len(SOURCE_PAGES) * PAGE_TOKENS


class Pair(unittest.TestCase):
    def setUp(self) -> None:
        self.source, self.target = Engine("source"), Engine("target")
        self.addCleanup(self.target.close)
        self.addCleanup(self.source.close)
        self.request = self.id()

    def fetch(self, **options: object) -> int:
        target = self.target.connection.target_open(
            self.request, TOKENS, [self.source.address()], **options  # type: ignore[arg-type]
        )
        self.target.connection.target_pages(target, 0, TARGET_PAGES)
        return target


class Secrets(Pair):
    def test_the_source_draws_one(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES, secret=None)
        self.source.connection.source_end(publish)
        secret = self.source.connection.source_secret(publish)
        self.assertRegex(secret, "^[0-9a-f]{64}$")
        fetch = self.fetch(secret=secret)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        self.assertEqual(self.source.end_of(publish).status, Status.OK)
        with self.assertRaises(kvrail.NotFound):
            self.source.connection.source_secret(publish)

    def test_another_secret_gets_nothing(self) -> None:
        """Its fetch hears what it would hear of a request that nobody publishes; the owner's is done."""
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_end(publish)
        thief = self.fetch(secret=kvrail.secret_draw(), deadline_ms=1000)
        other = self.target.connection.target_open(
            "nobody-publishes-it", TOKENS, [self.source.address()], deadline_ms=1000
        )
        self.target.connection.target_pages(other, 0, TARGET_PAGES)
        refused = self.source.events_until(publish, EventKind.TARGET_REFUSED)[-1]
        self.assertEqual(refused.status, Status.NOT_AUTHORIZED)
        ends = {}
        while len(ends) < 2:
            for event in self.target.connection.wait(PATIENCE):
                self.assertNotEqual(event.kind, EventKind.LAYER_IN)
                if event.terminal:
                    ends[event.handle] = (event.kind, event.status, event.detail)
        self.assertEqual(ends[thief], ends[other])
        fetch = self.fetch()
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        self.assertEqual(self.source.end_of(publish).status, Status.OK)
        self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))

    def test_a_fetch_needs_one_that_cannot_be_guessed(self) -> None:
        for secret, sentence in (
            ("00" * 32, "64 hexadecimal digits"),
            ("ab" * 32, "can be guessed"),
            ("Ab" * 32, "64 hexadecimal digits"),
            ("12" * 31, "64 hexadecimal digits"),
        ):
            with self.assertRaisesRegex(kvrail.Invalid, sentence) as caught:
                self.fetch(secret=secret)
            self.assertNotIn(secret, str(caught.exception))
        with self.assertRaisesRegex(kvrail.Invalid, "can be guessed"):
            self.source.publish(self.request, SOURCE_PAGES, secret="ab" * 32)


class Moves(Pair):
    def test_pages_tail_and_words(self) -> None:
        fetch = self.fetch()
        self.target.connection.target_watch(fetch, 5, 0)
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_tail(publish, b"first \0 token")
        self.source.connection.source_end(publish)
        self.assertEqual(self.source.connection.handles, {publish})

        events = self.target.events_until(fetch)
        done = events[-1]
        self.assertEqual(
            (done.kind, done.status, done.status_name), (EventKind.DONE, Status.OK, "ok")
        )
        self.assertTrue(done.terminal)
        layers = sum(e.layer_count for e in events if e.kind == EventKind.LAYER_IN)
        self.assertEqual(layers, LAYERS)
        tails = [e.payload for e in events if e.kind == EventKind.TAIL_IN]
        self.assertEqual(tails, [b"first \0 token"])
        self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))
        self.assertEqual(self.target.connection.landed(5), LAYERS)
        self.assertEqual(
            done.bytes, LAYERS * 2 * len(SOURCE_PAGES) * self.source.region.page_stride
        )
        self.assertGreater(done.time_ns, 0)
        free = self.source.end_of(publish)
        self.assertEqual((free.kind, free.status), (EventKind.SOURCE_FREE, Status.OK))
        self.assertEqual(self.source.connection.handles, frozenset())
        # What was not asked for is as it was.
        self.assertEqual(self.target.page(0, 0, 1), bytes(self.target.region.page_stride))

    def test_agents_say_who_they_are(self) -> None:
        source, target = self.source.connection, self.target.connection
        self.assertEqual((source.agent_name, target.agent_name), ("prefill-0", "decode-0"))
        self.assertEqual(source.agent_address, os.environ["SOURCE_AGENT"])
        self.assertEqual(target.agent_address, "")

    def test_any_generation(self) -> None:
        address = self.source.address()
        address.generation = 0
        for first in ("fetch", "publish"):
            request = f"{self.request}-{first}"
            if first == "publish":
                publish = self.source.publish(request, SOURCE_PAGES)
            fetch = self.target.connection.target_open(request, TOKENS, [address])
            self.target.connection.target_pages(fetch, 0, TARGET_PAGES)
            if first == "fetch":
                publish = self.source.publish(request, SOURCE_PAGES)
            self.source.connection.source_end(publish)
            self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
            self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))
            self.assertEqual(self.source.end_of(publish).status, Status.OK)

    def test_skipped_tokens_are_not_written(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_end(publish)
        fetch = self.target.connection.target_open(self.request, TOKENS, [self.source.address()])
        self.target.connection.target_skip(fetch, 0, 2 * PAGE_TOKENS)
        self.target.connection.target_pages(fetch, 0, TARGET_PAGES)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        self.assertTrue(same_pages(self.source, SOURCE_PAGES[2:], self.target, TARGET_PAGES[2:]))
        self.assertEqual(
            self.target.page(1, 1, TARGET_PAGES[0]), bytes(self.target.region.page_stride)
        )

    def test_a_full_hit_frees_the_source(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_end(publish)
        fetch = self.target.connection.target_open(
            self.request, TOKENS, [self.source.address()], skip_tokens=TOKENS
        )
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        free = self.source.end_of(publish)
        self.assertEqual((free.status, free.bytes), (Status.OK, 0))

    def test_words_may_rise_in_another_thread(self) -> None:
        fetch = self.fetch()
        publish = self.source.publish(self.request, SOURCE_PAGES, ready=False)
        self.source.connection.source_end(publish)
        thread = threading.Thread(target=self.source.raise_word, args=(publish % kvrail.WORDS_MAX,))
        thread.start()
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        thread.join()
        self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))

    def test_asyncio_waits_without_a_thread(self) -> None:
        async def end_of(engine: Engine, handle: int) -> kvrail.Event:
            async for event in kvrail.aio.events(engine.connection):
                if event.terminal and event.handle == handle:
                    return event
            raise AssertionError("the events ended")

        async def both() -> None:
            idle = asyncio.create_task(kvrail.aio.poll(self.target.connection))
            await asyncio.sleep(0)
            idle.cancel()  # and the connection goes on
            fetch = self.fetch()
            ended = asyncio.create_task(end_of(self.target, fetch))
            await asyncio.sleep(0)
            publish = self.source.publish(self.request, SOURCE_PAGES)
            self.source.connection.source_end(publish)
            done, free = await asyncio.wait_for(
                asyncio.gather(ended, end_of(self.source, publish)), PATIENCE
            )
            self.assertEqual((done.kind, free.kind), (EventKind.DONE, EventKind.SOURCE_FREE))

        asyncio.run(both())
        self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))


class Ends(Pair):
    def test_the_source_aborts(self) -> None:
        fetch = self.fetch()
        publish = self.source.publish(self.request, SOURCE_PAGES, ready=False)
        self.target.events_until(fetch, EventKind.ACCEPTED)
        self.source.connection.source_end(publish, Status.ABORTED)
        failed = self.target.end_of(fetch)
        self.assertEqual((failed.kind, failed.status), (EventKind.FAILED, Status.ABORTED))
        self.assertEqual((failed.token_first, failed.token_end), (0, TOKENS))
        self.assertGreater(len(failed.detail), 10)
        self.assertEqual(self.source.end_of(publish).status, Status.ABORTED)

    def test_the_target_cancels(self) -> None:
        fetch = self.fetch()
        publish = self.source.publish(self.request, SOURCE_PAGES, ready=False)
        self.target.events_until(fetch, EventKind.ACCEPTED)
        self.target.connection.cancel(fetch)
        self.target.connection.cancel(fetch)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.CANCELLED)
        self.target.connection.cancel(fetch)  # it has ended
        self.assertEqual(self.source.end_of(publish).status, Status.CANCELLED)

    def test_drain_ends_all(self) -> None:
        handles = {self.source.publish(f"{self.request}-{i}", [i], ready=False) for i in range(20)}
        events = self.source.connection.drain(PATIENCE)
        self.assertEqual({e.handle for e in events if e.terminal}, handles)
        self.assertEqual(self.source.connection.handles, frozenset())

    def test_a_deadline_passes(self) -> None:
        fetch = self.fetch(deadline_ms=200)
        ended = self.target.end_of(fetch)
        self.assertIn(
            (ended.kind, ended.status),
            [(EventKind.EXPIRED, Status.EXPIRED), (EventKind.FAILED, Status.NO_SOURCE)],
        )

    def test_a_lease_is_renewed_and_ends(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES, lease_ms=2000)
        self.source.connection.source_end(publish)
        self.source.events_until(publish, EventKind.LEASE_LOW)
        self.source.connection.renew(publish, 400)
        self.source.events_until(publish, EventKind.LEASE_LOW)
        self.assertEqual(self.source.end_of(publish).status, Status.EXPIRED)

    def test_a_hold_needs_no_lease(self) -> None:
        fetch = self.target.connection.target_open(self.request, TOKENS, [self.source.address()])
        self.target.connection.target_hold(fetch)
        self.target.connection.target_hold(fetch)
        publish = self.source.publish(self.request, SOURCE_PAGES, lease_ms=2000)
        self.source.connection.source_end(publish)
        self.source.events_until(publish, EventKind.ACCEPTED)
        late = self.source.publish(f"{self.request}-late", [9], lease_ms=2000)
        events = self.source.events_until(
            late
        )  # its lease ends, after that of the first would have
        self.assertEqual(events[-1].status, Status.EXPIRED)
        self.assertNotIn(publish, {event.handle for event in events})
        self.target.connection.target_pages(fetch, 0, TARGET_PAGES)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        self.assertTrue(same_pages(self.source, SOURCE_PAGES, self.target, TARGET_PAGES))
        self.assertEqual(self.source.end_of(publish).status, Status.OK)

    def test_a_held_fetch_says_late_what_it_has(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_end(publish)
        fetch = self.target.connection.target_open(self.request, TOKENS, [self.source.address()])
        self.target.connection.target_hold(fetch)
        self.source.events_until(publish, EventKind.ACCEPTED)
        self.target.connection.target_skip(fetch, 0, 2 * PAGE_TOKENS)
        self.target.connection.target_pages(fetch, 0, TARGET_PAGES)
        done = self.target.end_of(fetch)
        self.assertEqual((done.kind, done.token_first), (EventKind.DONE, 2 * PAGE_TOKENS))
        self.assertTrue(same_pages(self.source, SOURCE_PAGES[2:], self.target, TARGET_PAGES[2:]))
        self.assertEqual(
            self.target.page(1, 1, TARGET_PAGES[0]), bytes(self.target.region.page_stride)
        )
        self.assertEqual(self.source.end_of(publish).status, Status.OK)

    def test_a_held_fetch_may_need_nothing_after_all(self) -> None:
        publish = self.source.publish(self.request, SOURCE_PAGES)
        self.source.connection.source_end(publish)
        fetch = self.target.connection.target_open(self.request, TOKENS, [self.source.address()])
        self.target.connection.target_hold(fetch)
        self.source.events_until(publish, EventKind.ACCEPTED)
        self.target.connection.target_skip(fetch, 0, TOKENS)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)
        free = self.source.end_of(publish)
        self.assertEqual((free.status, free.bytes), (Status.OK, 0))

    def test_why_brings_json(self) -> None:
        fetch = self.fetch()
        self.target.connection.why(fetch)
        said = self.target.events_until(fetch, EventKind.WHY)[-1]
        self.assertIsInstance(json.loads(said.payload), dict)

    def test_a_region_goes(self) -> None:
        self.target.connection.region_drop(self.target.region_id)
        gone = self.target.events_until(self.target.region_id, EventKind.REGION_GONE)
        self.assertEqual(gone[-1].status, Status.OK)
        with self.assertRaises(kvrail.NotFound):
            self.target.connection.region_drop(self.target.region_id)

    def test_engines_that_do_not_match(self) -> None:
        other = Engine("target", model="another")
        self.addCleanup(other.close)
        publish = self.source.publish(self.request, SOURCE_PAGES)
        fetch = other.connection.target_open(self.request, TOKENS, [self.source.address()])
        other.connection.target_pages(fetch, 0, TARGET_PAGES)
        failed = other.end_of(fetch)
        self.assertEqual(failed.status, Status.INCOMPATIBLE)
        self.assertIn("model", failed.detail)
        refused = self.source.events_until(publish, EventKind.TARGET_REFUSED)[-1]
        self.assertIn("model", refused.detail)


class Refusals(Pair):
    def test_calls_with_wrong_values(self) -> None:
        source, target = self.source.connection, self.target.connection
        publish = self.source.publish(self.request, SOURCE_PAGES)
        source.source_tail(publish, b"")
        address = self.source.address()
        bad = [
            (
                lambda: source.source_pages(publish, 99, [1]),
                kvrail.Invalid,
                "group 99 is not below",
            ),
            (lambda: source.source_pages(0, 0, [1]), kvrail.NotFound, "no publish is open"),
            (lambda: source.target_pages(publish, 0, [1]), kvrail.NotFound, "no fetch is open"),
            (lambda: source.source_watch(publish, 0, 0, 5, 6), kvrail.Invalid, "must begin at"),
            (lambda: source.source_tail(publish, b"again"), kvrail.KvrailError, "one tail"),
            (lambda: source.source_end(publish, 1), kvrail.Invalid, "outcome 1"),
            (lambda: source.ready(kvrail.WORDS_MAX, 1), kvrail.Invalid, "cannot become 1"),
            (lambda: source.cancel(publish, 0), kvrail.Invalid, "reason 0"),
            (lambda: source.renew(12345, 1), kvrail.NotFound, "handle 12345"),
            (lambda: source.region_drop(99), kvrail.NotFound, "region 99"),
            (lambda: source.source_open("", 1), kvrail.Invalid, "a request id has 1 to 127"),
            (lambda: source.source_open("x" * 128, 1), kvrail.Invalid, "a request id has 1 to 127"),
            (lambda: source.source_open("a\0b", 1), kvrail.Invalid, "NUL"),
            (lambda: source.source_open("tokens", -1), kvrail.Invalid, "tokens is -1"),
            (lambda: target.target_open("r", 1, []), kvrail.Invalid, "1 to 64 sources, not 0"),
            (lambda: target.target_open("r", 1, [address] * 65), kvrail.Invalid, "not 65"),
            (
                lambda: target.target_open("r", 1, [address], skip_tokens=2),
                kvrail.Invalid,
                "skip_tokens 2",
            ),
            (
                lambda: source.region_add(kvrail.Region(fd=self.source.memory.fd)),
                kvrail.Invalid,
                "",
            ),
        ]
        for call, kind, sentence in bad:
            with self.subTest(sentence), self.assertRaises(kind) as caught:
                call()
            self.assertIn(sentence, str(caught.exception))
        self.assertEqual(source.handles, {publish})

    def test_a_wrong_socket(self) -> None:
        identity = self.source.identity
        for path in ("/nowhere/agent.sock", os.path.realpath(__file__)):
            with self.assertRaises(kvrail.KvrailError) as caught:
                kvrail.Connection(path, identity)
            self.assertEqual(caught.exception.status, Status.SYSTEM)
            self.assertNotEqual(caught.exception.os_errno, 0)
            self.assertIn(path, str(caught.exception))

    def test_a_closed_connection(self) -> None:
        engine = Engine("target")
        engine.connection.close()
        engine.connection.close()
        self.assertTrue(engine.connection.closed)
        calls = [
            engine.connection.poll,
            engine.connection.fileno,
            lambda: engine.connection.cancel(1),
            lambda: engine.connection.landed(0),
            lambda: engine.connection.target_open("r", 1, [self.source.address()]),
        ]
        for call in calls:
            with self.assertRaises(kvrail.Closed) as caught:
                call()
            self.assertIn("was closed: open another", str(caught.exception))
        engine.memory.close()
        engine.identity.generation += 1
        with kvrail.Connection(
            os.environ["TARGET_SOCKET"], engine.identity, PATIENCE
        ) as connection:
            self.assertEqual(connection.poll(), [])
        self.assertTrue(connection.closed)

    def test_a_fork_is_refused_and_harms_nothing(self) -> None:
        connection = self.source.connection
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            said = []
            for call in (connection.poll, connection.fileno, lambda: connection.ready(0, 1)):
                try:
                    call()
                    said.append("no error")
                except kvrail.UsedAfterFork as error:
                    said.append(str(error))
            connection.close()
            self.target.connection.close()
            os.write(writing, pickle.dumps((os.getpid(), said)))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            number, said = pickle.loads(pipe.read())
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(said), 3)
        for sentence in said:
            self.assertIn(f"belongs to process {os.getpid()}", sentence)
            self.assertIn(f"this process {number}, must open its own", sentence)
        fetch, publish = self.fetch(), self.source.publish(self.request, SOURCE_PAGES)
        connection.source_end(publish)
        self.assertEqual(self.target.end_of(fetch).kind, EventKind.DONE)


if __name__ == "__main__":
    harness.main("python.pair")
