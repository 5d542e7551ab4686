"""Goal: vLLM's own scheduler, with KvrailConnector loaded as a user loads it, in every state of a
request.

Method: the real Scheduler without a model; the outputs of the workers are made here. Skipped where
vLLM is not installed. After each test the scheduler is empty: no request, no block, nothing that
waits.
"""

from __future__ import annotations

import inspect
import unittest

import support
import vllm_engine
from vllm_engine import WHY, vllm

if vllm is not None:
    from vllm.distributed.kv_transfer.kv_connector.v1.base import (
        KVConnectorBase_V1,
        KVConnectorRole,
    )
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheGroupSpec, SlidingWindowSpec
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request, RequestStatus

from kvrail.connector import decode, prefill
from kvrail.vllm.groups import Groups, GroupSpec

ENGINE = "00112233445566778899aabbccddeeff"
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


class Engine(vllm_engine.Engine):
    """A scheduler, and workers that are only outputs."""

    def __init__(self, role: str, *, hybrid: bool = False, **transfer) -> None:
        groups = [KVCacheGroupSpec(["full"], vllm_engine.spec(FullAttentionSpec))]
        if hybrid:
            window = vllm_engine.spec(SlidingWindowSpec, sliding_window=32)
            groups.append(KVCacheGroupSpec(["window"], window))
        transfer = {"kv_load_failure_policy": "recompute", **transfer}
        config = vllm_engine.configuration({"kv_role": role, "engine_id": "e", **transfer})
        super().__init__(config, groups)
        from kvrail.vllm.connector import KvrailHandshake

        self.connector.set_xfer_handshake_metadata_pp_aware(
            {(0, 0): KvrailHandshake("10.0.0.1:9480", ENGINE, 7)}
        )

    def prompt(self, name: str, tokens: int, params: dict | None, **more) -> Request:
        return self.add(name, list(range(1, 1 + tokens)), params, **more)

    def step(self, **connector_output):
        """One step: (commands of the metadata, outputs by request)."""
        scheduled = self.scheduler.schedule()
        theirs = KVConnectorOutput(**connector_output) if connector_output else None
        outputs = self.update(scheduled, self.output(scheduled, theirs))
        return scheduled.kv_connector_metadata.commands, outputs

    def finish(self, name: str) -> None:
        """Steps until the request has ended."""
        for _ in range(20):
            _, outputs = self.step()
            if name in outputs and outputs[name].finished:
                return
        raise AssertionError(f"{name} does not end")

    def faults(self) -> list[str]:
        self.step()
        return self.left()


NAMES_FAILED = vllm is not None and hasattr(KVConnectorOutput(), "failed_recving")
by_name = unittest.skipUnless(NAMES_FAILED, "this vLLM does not take failed loads by name")


def kinds(commands) -> list[str]:
    return [type(command).__name__ for command in commands]


@unittest.skipIf(vllm is None, WHY)
class Case(unittest.TestCase):
    role, policy, hybrid = "kv_consumer", "recompute", False

    def setUp(self) -> None:
        self.engine = Engine(
            self.role, hybrid=self.hybrid, kv_load_failure_policy=self.policy
        )

    def tearDown(self) -> None:
        self.assertEqual(self.engine.faults(), [])


class Prefill(Case):
    role = "kv_producer"

    def prefilled(self) -> dict:
        self.engine.prompt("p", 40, dict(REMOTE_DECODE), max_tokens=1)
        (self.publish,), outputs = self.engine.step()
        self.assertTrue(outputs["p"].finished)
        return outputs["p"].kv_transfer_params

    def test_blocks_stay_until_sent(self) -> None:
        params = self.prefilled()
        self.assertEqual(params["kvrail"]["tokens"], 40)
        self.assertEqual(len(params["remote_block_ids"][0]), 3)
        self.assertTrue(self.engine.scheduler.has_requests(), "the idle engine must go on stepping")
        self.assertTrue(self.publish.after_step)
        blocks = tuple(tuple(ids) for ids in params["remote_block_ids"])
        self.assertEqual((self.publish.tokens, self.publish.blocks), (40, blocks))
        self.assertEqual(kinds(self.engine.step()[0]), ["Settle"])
        self.assertIn("p", self.engine.scheduler.requests)
        self.engine.step(finished_sending={"p"})
        self.assertFalse(self.engine.scheduler.has_requests())

    def test_an_answer_of_several_tokens_is_published_at_its_end(self) -> None:
        self.engine.prompt("p", 40, dict(REMOTE_DECODE), max_tokens=2)
        self.engine.finish("p")
        (publish,), _ = self.engine.step()
        self.assertIsInstance(publish, prefill.Publish)
        self.assertFalse(publish.after_step)
        self.engine.step(finished_sending={"p"})

    def test_aborted_in_its_last_step(self) -> None:
        self.engine.prompt("p", 40, dict(REMOTE_DECODE), max_tokens=1)
        self.engine.scheduler.schedule()
        self.engine.abort("p")
        self.assertEqual(kinds(self.engine.step()[0]), ["Withdraw"])
        self.engine.step(finished_sending={"p"})

    def test_aborted_in_the_queue_and_in_the_prefill(self) -> None:
        self.engine.prompt("p", 40, dict(REMOTE_DECODE))
        self.engine.abort("p")
        self.engine.prompt("q", 40, dict(REMOTE_DECODE))
        self.engine.scheduler.schedule()
        self.engine.abort("q")


class Decode(Case):
    left = 0  # prompt tokens at the end that the engine always computes

    def offer(self, name: str = "d", tokens: int = 40) -> Request:
        params = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[1, 2, 3]],
            "kvrail": {
                "version": 2,
                "request": "p",
                "attempt": 1,
                "tokens": tokens,
                "engine": ENGINE,
                "secret": "5e" * 32,
                "sources": [["10.0.0.1:9480", 7, 0, 0]],
            },
        }
        return self.engine.prompt(name, tokens, params)

    def load(self, computed: int = 0, tokens: int = 40) -> decode.Fetch:
        request = self.offer(tokens=tokens)
        (queue, fetch), outputs = self.engine.step()
        self.assertEqual(kinds((queue, fetch)), ["Queue", "Fetch"])
        self.assertEqual((fetch.tokens, fetch.skip), (tokens - self.left, computed))
        self.assertIs(request.status, RequestStatus.WAITING_FOR_REMOTE_KVS)
        self.assertEqual(outputs, {})
        return fetch

    def warm(self, tokens: int) -> None:
        """Puts the prompt's beginning into the local prefix cache."""
        self.engine.prompt("w", tokens, None, max_tokens=1)
        self.engine.finish("w")

    def test_loads_and_decodes(self) -> None:
        self.load()
        self.assertEqual(self.engine.step()[1], {})
        self.engine.step(finished_recving={"d"})
        self.engine.finish("d")

    def test_after_the_local_prefix(self) -> None:
        self.warm(16)
        fetch = self.load(computed=16)
        self.assertEqual(len(fetch.groups[0].pages), 3)
        self.engine.step(finished_recving={"d"})
        self.engine.finish("d")

    def test_the_whole_prompt_is_loaded_and_its_last_token_computed(self) -> None:
        self.load(tokens=48)
        self.engine.step(finished_recving={"d"})
        scheduled = self.engine.scheduler.schedule()
        self.assertEqual(scheduled.num_scheduled_tokens, {"d": 1})
        self.engine.abort("d")

    def test_a_full_hit_only_releases(self) -> None:
        """vLLM always computes the last token itself: a hit of all but that one needs nothing from
        outside."""
        self.warm(48)
        self.offer(tokens=33)
        self.assertEqual(kinds(self.engine.step()[0]), ["Queue", "Release"])
        self.engine.finish("d")

    def test_a_hit_is_whole_blocks(self) -> None:
        self.warm(48)
        self.load(computed=16, tokens=32)
        self.engine.step(finished_recving={"d"})
        self.engine.finish("d")

    def test_aborted_before_it_was_scheduled(self) -> None:
        self.offer()
        self.engine.abort("d")
        self.assertEqual(kinds(self.engine.step()[0]), ["Queue", "Release"])

    def test_aborted_while_it_loads(self) -> None:
        self.load()
        self.engine.abort("d")
        self.assertEqual(kinds(self.engine.step()[0]), ["Withdraw"])
        self.assertIn("d", self.engine.scheduler.requests, "the blocks are lent")
        self.engine.step(finished_recving={"d"})
        self.assertNotIn("d", self.engine.scheduler.requests)

    def test_aborted_when_it_has_loaded(self) -> None:
        self.load()
        self.engine.step(finished_recving={"d"})
        self.engine.abort("d")

    def test_a_failed_load_is_computed_again_from_its_first_bad_block(self) -> None:
        fetch = self.load()
        self.engine.step(finished_recving={"d"}, invalid_block_ids=set(fetch.groups[0].pages[1:]))
        scheduled = self.engine.scheduler.schedule()
        self.assertEqual(scheduled.num_scheduled_tokens, {"d": 24})
        self.engine.abort("d")

    def test_a_load_of_which_nothing_came_is_not_asked_for_again(self) -> None:
        fetch = self.load()
        self.engine.step(finished_recving={"d"}, invalid_block_ids=set(fetch.groups[0].pages))
        commands, _ = self.engine.step()
        self.assertEqual(kinds(commands), [])
        self.engine.finish("d")

    @by_name
    def test_failed_by_name(self) -> None:
        self.load()
        self.engine.step(finished_recving={"d"}, failed_recving={"d"})
        self.assertEqual(kinds(self.engine.step()[0]), [])
        self.engine.finish("d")

    def test_preempted_after_the_load(self) -> None:
        request = self.offer()
        self.engine.step()
        self.engine.step(finished_recving={"d"})
        self.engine.step()
        self.engine.scheduler.running.remove(request)
        self.engine.scheduler._preempt_request(request, 0.0)
        self.assertEqual(kinds(self.engine.step()[0]), [], "the source's pages are gone")
        self.engine.finish("d")

    def test_the_agent_is_away(self) -> None:
        from kvrail.vllm.connector import KvrailWorkerMeta

        self.engine.prompt("x", 16, None)
        self.engine.step(kv_connector_worker_meta=KvrailWorkerMeta({(0, 0): (True, False)}))
        self.offer()
        self.assertEqual(kinds(self.engine.step()[0]), ["Queue", "Release"])
        self.engine.finish("d")
        self.engine.scheduler.finish_requests("x", RequestStatus.FINISHED_ABORTED)


class PolicyFail(Decode):
    policy = "fail"

    def test_a_failed_load_is_computed_again_from_its_first_bad_block(self) -> None:
        fetch = self.load()
        _, outputs = self.engine.step(
            finished_recving={"d"}, invalid_block_ids={fetch.groups[0].pages[1]}
        )
        self.assertEqual(str(outputs["d"].finish_reason), "error")

    def test_a_load_of_which_nothing_came_is_not_asked_for_again(self) -> None:
        self.test_a_failed_load_is_computed_again_from_its_first_bad_block()

    @by_name
    def test_failed_by_name(self) -> None:
        self.load()
        _, outputs = self.engine.step(finished_recving={"d"}, failed_recving={"d"})
        self.assertEqual(str(outputs["d"].finish_reason), "error")


class Hybrid(Decode):
    """Full attention and a window. Blocks cannot be named there, so a load fails as a whole."""

    hybrid, left = True, 1

    @by_name
    def test_a_failed_load_is_computed_again_from_its_first_bad_block(self) -> None:
        fetch = self.load(tokens=80)
        self.assertEqual([len(group.pages) for group in fetch.groups], [5, 5])
        self.assertEqual(fetch.groups[1].skip, 48)
        self.engine.step(finished_recving={"d"}, failed_recving={"d"})
        scheduled = self.engine.scheduler.schedule()
        self.assertEqual(scheduled.num_scheduled_tokens, {"d": 80})
        self.engine.abort("d")

    @by_name
    def test_a_load_of_which_nothing_came_is_not_asked_for_again(self) -> None:
        self.test_failed_by_name()


@unittest.skipIf(vllm is None, WHY)
class DivergentHits(unittest.TestCase):
    def test_vllm_is_told_what_the_groups_allow(self) -> None:
        from kvrail.vllm.connector import KvrailConnector

        for window, wanted in ((0, True), (32, False)):
            connector = KvrailConnector.__new__(KvrailConnector)
            connector._groups = Groups((GroupSpec(0, 16), GroupSpec(1, 16, window=window)))
            self.assertIs(connector.supports_divergent_local_hybrid_hits, wanted)


@unittest.skipIf(vllm is None, WHY)
class Signatures(unittest.TestCase):
    def test_every_method_takes_what_vllm_gives(self) -> None:
        from kvrail.vllm.connector import KvrailConnector

        for name, ours in vars(KvrailConnector).items():
            theirs = getattr(KVConnectorBase_V1, name, None)
            if name.startswith("_") or not inspect.isfunction(ours) or theirs is None:
                continue
            self.assertEqual(
                list(inspect.signature(ours).parameters),
                list(inspect.signature(theirs).parameters),
                name,
            )
        self.assertEqual(KvrailConnector.__abstractmethods__, frozenset())

    def test_under_the_name_of_the_nixl_connector(self) -> None:
        engine = Engine(
            "kv_producer",
            kv_connector="NixlConnector",
            kv_connector_module_path="kvrail.vllm.as_nixl",
        )
        self.assertEqual(type(engine.connector).__name__, "NixlConnector")
        self.assertIs(engine.connector.role, KVConnectorRole.SCHEDULER)


if __name__ == "__main__":
    support.main(__file__)
