"""Goal: the life of a request as vLLM's scheduler leads it, on both sides, through the connector.

Method: scripts of the scheduler's calls in the order in which vLLM 0.32 makes them
(v1/core/sched/scheduler.py), with stand-in requests: new request, prefix lookup, allocation,
metadata, worker's results, finish, abort in each state, preemption, failed loads. The workers are
the rank and the ports of connector/, with a fake connection.
"""

from __future__ import annotations

import json
import time
import timeit
import unittest
from types import SimpleNamespace

import support
from fake_kvrail import FakeConnection
from kvrail.connector.handoff import HandOffError, SourceAddress, parse, request_id
from kvrail.connector.machine import Limits
from kvrail.connector.port import SourcePort, TargetPort
from kvrail.connector.prefill import Prefill as Record
from kvrail.connector.prefill import Publish
from kvrail.connector.rank import Rank
from kvrail.connector.source import OpenSource, source
from kvrail.connector.target import Offer
from kvrail.vllm.groups import groups_of
from kvrail.vllm.scheduler import Scheduler
from stand_in_vllm import (
    FullAttentionSpec,
    MambaSpec,
    Request,
    RequestStatus,
    SlidingWindowSpec,
    cache_config,
)

BLOCK = 16
ENGINE = "00112233445566778899aabbccddeeff"
ROUTERS = "7d3c0c1e5a904f2be1b6a8c2d4f60718293a4b5c6d7e8f90a1b2c3d4e5f60718"  # a secret
SOURCES = (SourceAddress("10.0.0.1:9480", ENGINE, 7, 0, 0),)
REMOTE_DECODE = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
LIMITS = Limits(hold=480, park=30)


class Engine:
    """One vLLM: the scheduler's half of the connector, and one worker."""

    def __init__(
        self,
        *specs,
        backoff: int = 0,
        threshold: int = 0,
        pages: str = "",
        tenant: str = "",
        final_after_step: bool = False,
    ) -> None:
        self.warnings: list[str] = []
        groups = groups_of(cache_config(*(specs or (FullAttentionSpec(BLOCK),))))
        self.scheduler = Scheduler(
            groups,
            "engine-p",
            threshold=threshold,
            backoff=backoff,
            pages=pages,
            tenant=tenant,
            final_after_step=final_after_step,
            warn=self.warnings.append,
        )
        self.scheduler.set_sources(SOURCES)
        self.rank = Rank(LIMITS, LIMITS)
        self.connection = FakeConnection()
        self.ports = [
            SourcePort(self.connection, lambda key, event: self.rank.source_event(key, event, 0.0)),
            TargetPort(self.connection, lambda key, event: self.rank.target_event(key, event, 0.0)),
        ]
        self.rank.source_agent(True, 0.0)
        self.rank.target_agent(True, 0.0)

    def step(self) -> tuple[set[str], set[str], dict]:
        """One engine step: metadata to the worker, the worker's calls and results, and the
        scheduler's update."""
        for command in self.scheduler.take_commands():
            self.rank.command(command, 0.0)
        self.carry_out()
        handles = {handle: port for port in self.ports for handle in port._owners}
        for event in self.connection.poll():
            if event.handle in handles:
                handles[event.handle]._take(event)
        self.carry_out()
        results = self.rank.take_results()
        self.scheduler.reported(results.sent, results.received)
        return results.sent, results.received, results.failed

    def carry_out(self) -> None:
        source, target = self.ports
        for key, action in self.rank.source_calls():
            source.carry_out(key, action)
        for key, action in self.rank.target_calls():
            target.carry_out(key, action)

    def calls(self) -> list[str]:
        names = [call[0] for call in self.connection.calls]
        self.connection.calls.clear()
        return names


def prefill(
    engine: Engine,
    name: str = "cmpl-1-0-p",
    tokens: int = 40,
    status: str = "FINISHED_LENGTH_CAPPED",
    asked: dict | None = None,
):
    """A prefill from its arrival to its end: (request, blocks stay, params)."""
    request = Request(name, tokens, dict(asked or REMOTE_DECODE))
    engine.scheduler.arrived(request)
    assert engine.scheduler.tokens_to_load(request, 0) == (0, False)
    engine.scheduler.allocated(request, ([1, 2, 3],), 0)
    engine.step()
    request.num_computed_tokens, request.status = request.num_prompt_tokens, RequestStatus[status]
    stay, params = engine.scheduler.finished(request, ([1, 2, 3],))
    return request, stay, params


def handed_off(tokens: int = 40) -> dict:
    _, stay, params = prefill(Engine(), tokens=tokens)
    assert stay
    return json.loads(json.dumps(params))  # as it comes through HTTP


PUBLISH = ["source_open", "source_pages", "source_watch", "source_end"]
FETCH = ["target_open", "target_hold", "target_skip", "target_pages"]
RELEASE = ["target_open", "target_hold", "target_skip"]


class Prefill(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = Engine()

    def test_blocks_stay_until_the_worker_has_sent(self) -> None:
        request, stay, params = prefill(self.engine)
        self.assertTrue(stay)
        self.assertEqual(self.engine.calls(), [])
        self.engine.step()
        self.assertEqual(self.engine.calls(), PUBLISH)
        self.assertEqual(self.engine.step(), (set(), set(), {}))
        self.engine.connection.event("SOURCE_FREE", 1)
        self.assertEqual(self.engine.step()[0], {request.request_id})
        self.assertEqual(len(self.engine.scheduler), 0)

    def test_the_dict_for_the_router(self) -> None:
        params = handed_off()
        self.assertEqual(
            {key: params[key] for key in REMOTE_DECODE},
            {
                "do_remote_decode": False,
                "do_remote_prefill": True,
                "remote_engine_id": "engine-p",
                "remote_block_ids": [[1, 2, 3]],
                "remote_host": "10.0.0.1",
                "remote_port": 9480,
            },
        )
        self.assertEqual(
            params["kvrail"],
            {
                "version": 2,
                "secret": params["kvrail"]["secret"],
                "request": "cmpl-1-0-p",
                "attempt": 1,
                "tokens": 40,
                "engine": ENGINE,
                "sources": [["10.0.0.1:9480", 7, 0, 0]],
            },
        )

    def test_each_request_has_a_secret(self) -> None:
        """Its ranks publish with that of the dict; another request has another one, and a router that
        names one keeps it."""
        secrets = []
        for number, router in enumerate((None, None, {"secret": ROUTERS}, {"secret": "short"})):
            asked = {**REMOTE_DECODE, "kvrail": router}
            secrets.append(prefill(self.engine, f"{number}", asked=asked)[2]["kvrail"]["secret"])
            self.engine.step()
        self.assertEqual(self.engine.connection.secrets, secrets)
        self.assertEqual((len(set(secrets)), secrets[2]), (4, ROUTERS))
        self.assertTrue(all(len(secret) == 64 for secret in secrets))
        self.assertEqual(len(self.engine.warnings), 1)
        self.assertNotIn("short", self.engine.warnings[0])

    def test_the_tenant_is_the_requests_or_the_engines(self) -> None:
        """It publishes with that of the dict. A name that cannot be used is no reason to publish for
        another tenant."""
        for own, router, wanted in (
            ("", {}, None),
            ("red", {}, "red"),
            ("red", {"tenant": "blue-2"}, "blue-2"),
        ):
            engine = Engine(tenant=own)
            params = prefill(engine, asked={**REMOTE_DECODE, "kvrail": router})[2]
            engine.step()
            self.assertEqual(params["kvrail"].get("tenant"), wanted)
            self.assertEqual(engine.connection.tenants, [wanted])
        for name in ("", "a b", "x" * 64, 5, None, "-a"):
            engine = Engine(tenant="red")
            asked = {**REMOTE_DECODE, "kvrail": {"tenant": name}}
            self.assertEqual(prefill(engine, asked=asked)[1:], (False, None))
            engine.step()
            self.assertEqual(engine.connection.calls, [])
            self.assertEqual(len(engine.warnings), 1)
            self.assertIn("is not handed off: kv_transfer_params: tenant", engine.warnings[0])

    def test_no_record_shows_its_secret(self) -> None:
        """Records and commands are printed where something is wrong with them."""
        publish = Publish("k", "r", 1, 40, ((1, 2, 3),), secret=ROUTERS)
        shown = repr(
            (
                Record("k", "r", 1, ROUTERS),
                publish,
                Offer(1, SOURCES, ROUTERS),
                OpenSource((1, 1), "r", 1, 40, 30_000, ROUTERS),
                source("r", 1, 40, 1, LIMITS, ROUTERS),
            )
        )
        self.assertNotIn(ROUTERS, shown)
        params = handed_off()
        self.assertNotIn(params["kvrail"]["secret"], repr(parse(params)))

    def test_attempts_of_one_id_differ(self) -> None:
        attempts = [prefill(self.engine)[2]["kvrail"]["attempt"]]
        self.engine.step()
        self.engine.connection.event("SOURCE_FREE", 1)
        self.engine.step()
        attempts.append(prefill(self.engine)[2]["kvrail"]["attempt"])
        self.assertLess(attempts[0], attempts[1])

    def test_nothing_is_published_of_an_aborted_prefill(self) -> None:
        for status in ("FINISHED_ABORTED", "FINISHED_ERROR"):
            _, stay, params = prefill(self.engine, status=status)
            self.assertEqual((stay, params, self.engine.step()), (False, None, (set(), set(), {})))
        self.assertEqual((self.engine.calls(), len(self.engine.scheduler)), ([], 0))

    def test_aborted_before_it_was_scheduled(self) -> None:
        request = Request("r", 40, dict(REMOTE_DECODE))
        self.engine.scheduler.arrived(request)
        request.status = RequestStatus.FINISHED_ABORTED
        self.assertEqual(self.engine.scheduler.finished(request, ([],)), (False, None))
        self.assertEqual(len(self.engine.scheduler), 0)

    def test_only_prompt_tokens_are_published(self) -> None:
        request = Request("r", 40, dict(REMOTE_DECODE))
        self.engine.scheduler.arrived(request)
        request.num_computed_tokens, request.status = 45, RequestStatus.FINISHED_STOPPED
        _, params = self.engine.scheduler.finished(request, ([1, 2, 3, 4],))
        self.assertEqual(params["kvrail"]["tokens"], 40)

    def test_without_an_agent_the_request_goes_on_elsewhere(self) -> None:
        self.engine.scheduler.reported((), (), {(0, 0): (False, True)})
        self.assertEqual(prefill(self.engine)[1:], (False, None))
        self.assertIn("lost its agent", self.engine.warnings[0])
        self.engine.scheduler.reported((), (), {(0, 0): (True, True)})
        self.assertTrue(prefill(self.engine)[1])

    def test_requests_of_others_are_not_touched(self) -> None:
        request = Request("r", 40)
        self.engine.scheduler.arrived(request)
        self.assertEqual(self.engine.scheduler.tokens_to_load(request, 0), (0, False))
        self.engine.scheduler.allocated(request, ([1],), 0)
        self.assertEqual(self.engine.scheduler.finished(request, ([1],)), (False, None))
        self.assertEqual(self.engine.scheduler.take_commands(), ())


def output(
    tokens: int, computed: int, blocks: list[int] | None, new: bool = False, resumed: bool = False
) -> SimpleNamespace:
    """vLLM's SchedulerOutput of a step that computes so many tokens of request "p"."""
    block_ids = None if blocks is None else (blocks,)
    of_new = SimpleNamespace(req_id="p", block_ids=block_ids, num_computed_tokens=computed)
    cached = SimpleNamespace(
        req_ids=["other", "p"][: 1 if new else 2],
        resumed_req_ids={"p"} if resumed else set(),
        new_block_ids=[([9],), block_ids],
        num_computed_tokens=[1, computed],
    )
    return SimpleNamespace(
        scheduled_new_reqs=[of_new] if new else [],
        scheduled_cached_reqs=cached,
        num_scheduled_tokens={"other": 1, "p": tokens},
    )


class PublishedWithTheLastStep(unittest.TestCase):
    """Where vLLM schedules a step ahead, a command after the end would wait for that step."""

    def setUp(self) -> None:
        self.engine = Engine(final_after_step=True)
        self.request = Request("p", 40, dict(REMOTE_DECODE), max_tokens=1)

    def arrive(self) -> None:
        self.engine.scheduler.arrived(self.request)

    def schedule(self, *arguments, **keywords) -> list[str]:
        self.engine.scheduler.scheduled(output(*arguments, **keywords))
        self.engine.step()
        return self.engine.calls()

    def finish(self, blocks: list[int], status: str = "FINISHED_LENGTH_CAPPED"):
        self.request.num_computed_tokens, self.request.status = 40, RequestStatus[status]
        return self.engine.scheduler.finished(self.request, (blocks,))

    def check_sent(self) -> None:
        self.assertEqual(self.engine.step()[0], set())
        self.engine.connection.event("SOURCE_FREE", 1)
        self.assertEqual(self.engine.step()[0], {"p"})
        self.assertEqual((len(self.engine.scheduler), self.engine.warnings), (0, []))

    def test_in_one_step(self) -> None:
        self.arrive()
        self.assertEqual(self.schedule(40, 0, [1, 2, 3], new=True), PUBLISH)
        stay, params = self.finish([1, 2, 3])
        self.assertTrue(stay)
        self.assertEqual(params["kvrail"]["tokens"], 40)
        self.engine.step()
        self.assertEqual(self.engine.calls(), [])
        self.check_sent()

    def test_in_chunks(self) -> None:
        self.arrive()
        self.assertEqual(self.schedule(16, 0, [1], new=True), [])
        self.assertEqual(self.schedule(16, 16, [2]), [])
        self.assertEqual(self.schedule(8, 32, [3]), PUBLISH)
        self.assertTrue(self.finish([1, 2, 3])[0])
        self.check_sent()

    def test_a_step_without_a_new_block(self) -> None:
        self.arrive()
        self.assertEqual(self.schedule(36, 0, [1, 2, 3], new=True), [])
        self.assertEqual(self.schedule(4, 36, None), PUBLISH)
        self.assertTrue(self.finish([1, 2, 3])[0])
        self.check_sent()

    def test_preempted_before_its_last_step(self) -> None:
        self.arrive()
        self.schedule(16, 0, [1], new=True)
        self.engine.scheduler.scheduled(output(40, 0, [4, 5, 6], resumed=True))
        self.engine.step()
        self.assertIn(("source_pages", 1, 0, (4, 5, 6)), self.engine.connection.calls)
        self.assertTrue(self.finish([4, 5, 6])[0])
        self.check_sent()

    def test_preempted_after_its_last_step_was_scheduled(self) -> None:
        """The blocks that were published are another request's: no target hears of them."""
        for blocks in ([], [4, 5, 6]):
            with self.subTest(blocks):
                self.setUp()
                self.arrive()
                self.schedule(40, 0, [1, 2, 3], new=True)
                self.assertEqual(self.finish(blocks), (True, None))
                self.engine.step()
                self.assertEqual(self.engine.calls(), ["cancel"])
                self.engine.connection.event("FAILED", 1, "CANCELLED")
                self.assertEqual(self.engine.step()[0], {"p"})
                self.assertEqual(len(self.engine.scheduler), 0)

    def test_aborted_in_its_last_step(self) -> None:
        self.arrive()
        self.schedule(40, 0, [1, 2, 3], new=True)
        self.assertEqual(self.finish([1, 2, 3], "FINISHED_ABORTED"), (True, None))
        self.engine.step()
        self.assertEqual(self.engine.calls(), ["cancel"])

    def test_aborted_before_its_last_step(self) -> None:
        self.arrive()
        self.schedule(16, 0, [1], new=True)
        self.assertEqual(self.finish([1], "FINISHED_ABORTED"), (False, None))
        self.assertEqual(self.schedule(40, 0, [1, 2, 3], new=True), [])

    def test_without_an_agent(self) -> None:
        self.engine.scheduler.reported((), (), {(0, 0): (False, True)})
        self.arrive()
        self.assertEqual(self.schedule(40, 0, [1, 2, 3], new=True), [])
        self.assertEqual(self.finish([1, 2, 3]), (False, None))

    def test_an_answer_of_several_tokens_is_published_at_its_end(self) -> None:
        self.request.max_tokens = 2
        self.arrive()
        self.assertEqual(self.schedule(40, 0, [1, 2, 3], new=True), [])
        self.assertTrue(self.finish([1, 2, 3])[0])

    def test_a_window_is_published_at_the_end(self) -> None:
        self.engine = Engine(SlidingWindowSpec(BLOCK, 32), final_after_step=True)
        self.arrive()
        self.assertEqual(self.schedule(40, 0, [1, 2, 3], new=True), [])
        self.assertTrue(self.finish([1, 2, 3])[0])


class Decode(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = Engine()
        self.request = Request("cmpl-1-0-d", 40, handed_off())
        self.blocks = ([11, 12, 13],)

    def load(self, computed: int = 16) -> None:
        self.engine.scheduler.arrived(self.request)
        self.engine.step()
        self.assertEqual(
            self.engine.scheduler.tokens_to_load(self.request, computed), (40 - computed, True)
        )
        self.assertEqual(
            self.engine.scheduler.tokens_to_load(self.request, computed), (40 - computed, True)
        )
        self.engine.scheduler.allocated(self.request, self.blocks, 40 - computed)
        self.request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
        self.request.num_computed_tokens = 40
        self.engine.step()

    def finish(self, status: str = "FINISHED_STOPPED"):
        self.request.status = RequestStatus[status]
        return self.engine.scheduler.finished(self.request, self.blocks)

    def end(self, kind: str, status: str = "OK", **fields):
        self.engine.connection.event(kind, self.engine.connection.handles, status, **fields)
        return self.engine.step()

    def check_empty(self) -> None:
        self.assertEqual((len(self.engine.scheduler), len(self.engine.rank.targets)), (0, 0))
        self.assertEqual(self.engine.warnings, [])

    def test_the_fetch_names_the_secret_and_the_answer_does_not(self) -> None:
        self.load()
        secret = self.request.kv_transfer_params["kvrail"]["secret"]
        self.assertEqual(self.engine.connection.secrets, [secret])
        self.end("DONE", token_end=40)
        self.engine.scheduler.allocated(self.request, self.blocks, 0)
        self.assertEqual(self.finish(), (False, None))

    def test_the_fetch_is_of_the_publishs_tenant(self) -> None:
        for handed, own, wanted in (
            ("blue", "", "blue"),
            ("blue", "red", "blue"),
            ("", "red", "red"),
            ("", "", None),
        ):
            self.setUp()
            self.engine = Engine(tenant=own)
            if handed:
                self.request.kv_transfer_params["kvrail"]["tenant"] = handed
            self.load()
            self.assertEqual(self.engine.connection.tenants, [wanted])

    def test_after_the_local_prefix(self) -> None:
        self.load()
        self.assertEqual(
            self.engine.connection.calls,
            [
                ("target_open", "cmpl-1-0-p", 40, SOURCES, 1, 0),
                ("target_hold", 1),
                ("target_skip", 1, 0, 16),
                ("target_pages", 1, 0, (11, 12, 13)),
            ],
        )
        self.assertEqual(self.engine.connection.deadlines, [540_000])
        self.assertEqual(self.end("DONE", token_end=40), (set(), {"cmpl-1-0-d"}, {}))
        self.engine.scheduler.allocated(self.request, self.blocks, 0)  # vLLM calls once more
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (0, False))
        self.assertEqual(self.finish(), (False, None))
        self.check_empty()

    def test_a_full_hit_frees_the_source_and_reports_nothing(self) -> None:
        self.engine.scheduler.arrived(self.request)
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 40), (0, False))
        self.engine.scheduler.allocated(self.request, self.blocks, 0)
        self.engine.step()
        self.assertEqual(self.engine.connection.calls[-1], ("target_skip", 1, 0, 40))
        self.assertEqual(self.engine.calls(), RELEASE)
        self.assertEqual(
            self.end("DONE"), (set(), set(), {}), "vLLM asserts on ids that it does not expect"
        )
        self.finish()
        self.check_empty()

    def test_a_full_hit_with_an_older_agent_leaves_the_source_to_its_lease(self) -> None:
        self.engine.scheduler.arrived(self.request)
        self.engine.scheduler.tokens_to_load(self.request, 40)
        self.engine.scheduler.allocated(self.request, self.blocks, 0)
        self.engine.connection.fail[2] = "UNSUPPORTED"
        self.engine.step()
        self.assertEqual(self.engine.calls(), ["target_open", "target_hold", "cancel"])
        self.assertEqual(self.end("CANCELLED", "CANCELLED"), (set(), set(), {}))
        self.finish()
        self.check_empty()

    def test_vllm_cuts_the_promise(self) -> None:
        self.engine.scheduler.arrived(self.request)
        self.engine.scheduler.tokens_to_load(self.request, 16)
        self.engine.scheduler.allocated(self.request, self.blocks, 16)
        failed = self.engine.step()[2]["cmpl-1-0-d"]
        self.assertEqual((failed.token_first, failed.pages), (16, ((12,),)), "all 40 or none")
        self.assertEqual(self.engine.calls(), RELEASE)
        self.assertEqual(failed.status, "cut")
        later = Request("cmpl-2-0-d", 40, handed_off())
        self.engine.scheduler.arrived(later)
        self.engine.step()
        self.assertEqual(self.engine.calls(), [], "vLLM may cut again: it names the tokens first")
        self.engine.scheduler.tokens_to_load(later, 16)
        self.engine.scheduler.allocated(later, self.blocks, 16)
        self.engine.step()
        self.assertEqual(
            self.engine.connection.calls,
            [("target_open", "cmpl-1-0-p", 32, SOURCES, 1, 16), ("target_pages", 2, 0, (11, 12))],
        )

    def test_aborted_in_the_queue_frees_the_source(self) -> None:
        self.engine.scheduler.arrived(self.request)
        self.assertEqual(self.finish("FINISHED_ABORTED"), (False, None))
        self.engine.step()
        self.assertEqual(self.engine.calls(), RELEASE)
        self.assertEqual(self.end("DONE"), (set(), set(), {}))
        self.check_empty()

    def test_aborted_while_it_loads(self) -> None:
        self.load()
        self.engine.calls()
        self.finish("FINISHED_ABORTED")
        self.assertEqual(self.engine.step(), (set(), set(), {}), "the blocks are lent")
        self.assertEqual(self.engine.calls(), ["cancel"])
        self.assertEqual(self.end("CANCELLED", "CANCELLED")[1], {"cmpl-1-0-d"})
        self.check_empty()

    def test_aborted_in_the_step_in_which_the_load_ends(self) -> None:
        self.load()
        self.engine.connection.event("DONE", 1, token_end=40)
        self.finish("FINISHED_ABORTED")  # before the worker's results are read
        self.assertEqual(self.engine.step()[1], {"cmpl-1-0-d"})
        self.check_empty()

    def test_preempted_after_the_load_it_computes_itself(self) -> None:
        self.load()
        self.end("DONE", token_end=40)
        self.request.status, self.request.num_computed_tokens = RequestStatus.PREEMPTED, 0
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (0, False))
        self.engine.scheduler.allocated(self.request, self.blocks, 0)
        self.engine.step()
        self.assertEqual(self.engine.calls(), FETCH)
        self.finish()
        self.check_empty()

    def test_a_failed_load_names_its_blocks_in_the_same_pass(self) -> None:
        self.load(computed=0)
        self.assertEqual(
            self.end("FAILING", "PEER_LOST"), (set(), set(), {}), "the blocks are lent"
        )
        sent, received, failed = self.end("FAILED", "PEER_LOST", token_first=20)
        self.assertEqual((received, failed["cmpl-1-0-d"].pages), ({"cmpl-1-0-d"}, ((12, 13),)))
        self.assertEqual(
            self.engine.scheduler.tokens_to_load(self.request, 0), (0, False), "computed here now"
        )
        self.finish()
        self.check_empty()

    def test_a_failed_load_under_the_policy_fail(self) -> None:
        """vLLM finishes the request with an error before it reads that the load has ended."""
        self.load()
        self.engine.connection.event("FAILED", 1, "PEER_LOST", token_first=16)
        self.finish("FINISHED_ERROR")
        self.assertEqual(self.engine.step()[1], {"cmpl-1-0-d"})
        self.check_empty()

    def test_while_the_agent_is_away_it_computes_itself(self) -> None:
        self.engine.scheduler.arrived(self.request)
        self.engine.scheduler.reported((), (), {(0, 0): (True, False)})
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (0, False))
        self.engine.scheduler.allocated(self.request, self.blocks, 0)
        self.engine.step()
        self.assertEqual(self.engine.calls(), RELEASE)

    def test_below_the_threshold_it_computes_itself(self) -> None:
        self.engine = Engine(threshold=30)
        self.engine.scheduler.arrived(self.request)
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (40, True))
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 16), (0, False))

    def test_a_shorter_prompt_than_the_sources(self) -> None:
        self.request = Request("cmpl-1-0-d", 39, handed_off())
        self.engine.scheduler.arrived(self.request)
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (39, True))

    def test_a_dict_of_another_connector_is_computed_here(self) -> None:
        del self.request.kv_transfer_params["kvrail"]
        self.engine.scheduler.arrived(self.request)
        self.assertIn("runs another connector", self.engine.warnings[0])
        self.assertEqual(self.engine.scheduler.tokens_to_load(self.request, 0), (0, False))
        self.assertEqual(self.finish(), (False, None))

    def test_results_of_unknown_requests_change_nothing(self) -> None:
        self.engine.scheduler.reported({"x"}, {"y"})
        self.check_empty()


class Hybrid(unittest.TestCase):
    SPECS = (
        FullAttentionSpec(16),
        SlidingWindowSpec(16, 32),
        MambaSpec(16, num_speculative_blocks=2),
    )

    def test_both_sides_stop_before_the_last_token_of_a_state(self) -> None:
        source = Engine(*self.SPECS, backoff=1)
        request = Request("p", 65, dict(REMOTE_DECODE))
        source.scheduler.arrived(request)
        self.assertEqual(
            (request.num_prompt_tokens, len(request.prompt_token_ids), request.max_tokens),
            (64, 64, 1),
        )
        source.scheduler.arrived(request)
        self.assertEqual(request.num_prompt_tokens, 64, "once")
        request.num_computed_tokens, request.status = 64, RequestStatus.FINISHED_LENGTH_CAPPED
        stay, params = source.scheduler.finished(
            request, ([1, 2, 3, 4], [0, 0, 7, 8], [0, 9, 90, 91])
        )
        source.step()
        self.assertEqual(
            source.connection.calls[1:5],
            [
                ("source_pages", 1, 0, (1, 2, 3, 4)),
                ("source_pages", 1, 1, (0, 0, 7, 8)),
                ("source_pages", 1, 2, (9,)),
                ("source_watch", 1, 0, 0, 0, 64),
            ],
        )
        target = Engine(*self.SPECS, backoff=1)
        wants = Request("d", 65, params)
        target.scheduler.arrived(wants)
        self.assertEqual(target.scheduler.tokens_to_load(wants, 16), (48, True))
        target.scheduler.allocated(wants, ([21, 22, 23, 24], [0, 0, 27, 28], [0, 29, 92, 93]), 48)
        target.step()
        self.assertEqual(
            target.connection.calls,
            [
                ("target_open", "p", 64, SOURCES, 1, 0),
                ("target_hold", 1),
                ("target_skip", 1, 0, 16),
                ("target_skip", 1, 1, 32),
                ("target_pages", 1, 0, (21, 22, 23, 24)),
                ("target_pages", 1, 1, (0, 0, 27, 28)),
                ("target_pages", 1, 2, (29,)),
            ],
        )

    def test_a_window_larger_than_the_prompt_is_loaded_after_the_prefix(self) -> None:
        groups = groups_of(cache_config(SlidingWindowSpec(16, 1024)))
        self.assertEqual(groups.tables(([1, 2, 3, 4],), 64, 16)[0].skip, 16)

    def test_which_local_hits_of_groups_may_end_at_different_tokens(self) -> None:
        full, state, window = FullAttentionSpec(16), MambaSpec(64), SlidingWindowSpec(16, 32)
        for specs, wanted in (
            ((full,), True),
            ((full, state), True),
            ((full, window), False),
            ((full, state, window), False),
        ):
            with self.subTest(specs):
                self.assertEqual(groups_of(cache_config(*specs)).complete_divergent_hits, wanted)

    def test_a_window_that_has_gone_on_is_not_published(self) -> None:
        engine = Engine(FullAttentionSpec(16), SlidingWindowSpec(16, 32))
        for blocks, stays in (([0, 0, 7, 8, 9], True), ([0, 0, 0, 8, 9], False)):
            request = Request("p", 64, dict(REMOTE_DECODE))
            engine.scheduler.arrived(request)
            request.num_computed_tokens = 75
            request.status = RequestStatus.FINISHED_STOPPED
            stay, params = engine.scheduler.finished(request, ([1, 2, 3, 4, 5], blocks))
            self.assertEqual((stay, params is not None), (stays, stays))
            engine.step()
            engine.connection.event("SOURCE_FREE", 1)
            engine.step()
        self.assertIn("has freed blocks", engine.warnings[0])

    def test_a_page_that_the_source_has_freed_in_part_is_not_loaded(self) -> None:
        """The source's blocks are smaller: it has freed the beginning of the target's first one."""
        source = Engine(FullAttentionSpec(16), SlidingWindowSpec(16, 48))
        request = Request("p", 75, dict(REMOTE_DECODE), num_computed_tokens=75)
        source.scheduler.arrived(request)
        request.status = RequestStatus.FINISHED_STOPPED
        _, params = source.scheduler.finished(request, ([1, 2, 3, 4, 5], [0, 2, 3, 4, 5]))
        self.assertEqual(params["kvrail"]["held"], [0, 16])
        target = Engine(FullAttentionSpec(32), SlidingWindowSpec(32, 48))
        wants = Request("d", 76, json.loads(json.dumps(params)))
        target.scheduler.arrived(wants)
        self.assertEqual(target.scheduler.tokens_to_load(wants, 0), (0, False))
        self.assertIn("must not be smaller", target.warnings[0])
        self.assertEqual(target.scheduler.tokens_to_load(wants, 32), (43, True), "not needed")

    def test_pages_of_another_form_are_not_loaded(self) -> None:
        source = Engine(pages="float32, packed for a CPU (vec, blocks of 128)")
        request = Request("p", 75, dict(REMOTE_DECODE), num_computed_tokens=75)
        source.scheduler.arrived(request)
        request.status = RequestStatus.FINISHED_STOPPED
        _, params = source.scheduler.finished(request, ([1, 2, 3, 4, 5],))
        for form, wanted in (
            ("float32, packed for a CPU (vec, blocks of 128)", (75, True)),
            ("float32, packed for a CPU (vec, blocks of 64)", (0, False)),
            ("fp8_e4m3", (0, False)),
            ("", (0, False)),
        ):
            with self.subTest(form):
                target = Engine(pages=form)
                wants = Request("d", 76, json.loads(json.dumps(params)))
                target.scheduler.arrived(wants)
                self.assertEqual(target.scheduler.tokens_to_load(wants, 0), wanted)
                said = ["blocks of 128)" in text for text in target.warnings]
                self.assertEqual(said, [] if wanted[1] else [True])

    def test_missing_blocks_are_refused(self) -> None:
        groups = groups_of(cache_config(*self.SPECS))
        for ids in (([1], [2, 3, 4, 5], [6, 7, 8]), ([1, 2, 3, 4], [2, 3, 4, 5], [6, 7])):
            with self.assertRaises(ValueError):
                groups.tables(ids, 64, 0)


class Costs(unittest.TestCase):
    def test_a_step_without_transfers(self) -> None:
        engine, params = Engine(), handed_off()
        for number in range(1000):
            engine.scheduler.arrived(Request(f"d{number}", 40, params))
        engine.scheduler.take_commands()
        other = Request("x", 40)

        def turn() -> None:
            engine.scheduler.arrived(other)
            engine.scheduler.tokens_to_load(other, 0)
            engine.scheduler.allocated(other, ([1],), 0)
            engine.scheduler.take_commands()
            engine.scheduler.reported(None, None, None)
            engine.scheduler.finished(other, ([1],))

        best = min(timeit.repeat(turn, number=500, repeat=7, timer=time.process_time)) / 500 * 1e6
        print(f"a scheduler's step without transfers, 1000 requests in flight: {best:.1f} us")
        self.assertLess(best, 20)


class HandOffs(unittest.TestCase):
    def test_what_comes_from_outside_is_checked(self) -> None:
        good = handed_off()
        self.assertEqual(parse(good).sources, SOURCES)
        for name, value in (
            ("version", 1),
            ("version", 3),
            ("version", "2"),
            ("version", None),
            ("request", ""),
            ("request", "x" * 128),
            ("request", "a\nb"),
            ("request", 5),
            ("attempt", -1),
            ("attempt", 2**32),
            ("attempt", True),
            ("tokens", 1.5),
            ("tokens", 2**50),
            ("engine", "xyz"),
            ("engine", None),
            ("sources", []),
            ("sources", "abc"),
            ("secret", None),
            ("secret", "0" * 63),
            ("secret", "0" * 65),
            ("secret", "G" * 64),
            ("tenant", ""),
            ("tenant", None),
            ("tenant", "a b"),
            ("tenant", "x" * 64),
            ("pages", 5),
            ("pages", "x" * 1025),
            ("sources", [["a", 1, 2]]),
            ("sources", [["", 1, 0, 0]]),
            ("sources", [["a:1", -1, 0, 0]]),
            ("sources", [["a:1", 1, 0, 0]] * 65),
        ):
            with self.subTest(name, value=value), self.assertRaises(HandOffError):
                parse({**good, "kvrail": {**good["kvrail"], name: value}})
        for params in (None, {}, {"do_remote_prefill": False, "kvrail": 5}):
            self.assertIsNone(parse(params))
        for ours in (None, 5, []):
            with self.assertRaises(HandOffError):
                parse({"do_remote_prefill": True, "kvrail": ours})

    def test_request_ids(self) -> None:
        self.assertEqual(request_id("cmpl-1"), "cmpl-1")
        for name in ("x" * 128, "é", "a b\n", "", "\ud800"):
            made = request_id(name)
            self.assertTrue(made.isprintable() and made.isascii() and 0 < len(made) <= 127, made)
            self.assertNotEqual(made, request_id(name + "2"))


if __name__ == "__main__":
    support.main(__file__)
