"""A real scheduler of vLLM with KvrailConnector loaded as a user loads it, and no model. For the
suites that drive it; without vLLM `vllm` is None and WHY says why."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import Any
from unittest import mock

import support  # the package's path

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
        ParallelConfig,
        SchedulerConfig,
        VllmConfig,
    )
    from vllm.sampling_params import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.request import Request, RequestStatus
    from vllm.v1.structured_output import StructuredOutputManager
except ImportError as error:
    vllm, WHY = None, f"vLLM is not installed: {error}"
else:
    WHY = ""

BLOCK, BLOCKS = 16, 100
MOST_TOKENS = 1024
TOKEN = 7  # of every answer
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
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False}


def spec(kind: type, block: int = BLOCK, **fields: Any) -> Any:
    common = {"num_kv_heads": 1, "head_size": 32, "dtype": torch.float32}
    return kind(block_size=block, **{**common, **fields})


def configuration(
    transfer: dict[str, Any],
    *,
    model: dict[str, Any] = MODEL,
    block: int = BLOCK,
    batch: int = MOST_TOKENS,
    tp: int = 1,
) -> Any:
    """vLLM's configuration of one server. `transfer` are fields of KVTransferConfig, `batch` is the
    most tokens of a step."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(model, file)
        model_config = ModelConfig(
            model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=MOST_TOKENS
        )
    connector = {"kv_connector": "KvrailConnector", "kv_connector_module_path": "kvrail.vllm"}
    return VllmConfig(
        model_config=model_config,
        cache_config=CacheConfig(block_size=block, enable_prefix_caching=True),
        device_config=DeviceConfig("cpu"),
        parallel_config=ParallelConfig(tensor_parallel_size=tp),
        scheduler_config=SchedulerConfig(
            max_num_seqs=16,
            max_num_batched_tokens=batch,
            max_model_len=MOST_TOKENS,
            is_encoder_decoder=False,
        ),
        kv_transfer_config=KVTransferConfig(**{**connector, **transfer}),
    )


class Engine:
    """A scheduler. Its caller makes the outputs of the workers. `packed`: it takes blocks for packed,
    as vLLM's attention on a CPU packs them; else their bytes lie as the strides say."""

    def __init__(
        self, config: Any, groups: list[Any], blocks: int = BLOCKS, *, packed: bool = False
    ) -> None:
        block = config.cache_config.block_size
        config.cache_config.num_gpu_blocks = blocks
        init_none_hash(sha256)
        self.blocks = blocks
        self.hasher = get_request_block_hasher(block, sha256)
        plain = mock.patch("kvrail.vllm.connector.page_form", lambda *_: "")
        with contextlib.nullcontext() if packed else plain:
            self.scheduler = Scheduler(
                vllm_config=config,
                block_size=block,
                structured_output_manager=StructuredOutputManager(config),
                kv_cache_config=KVCacheConfig(
                    num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups
                ),
            )
        self.connector = self.scheduler.connector

    def add(self, name: str, tokens: list[int], params: dict | None, max_tokens: int = 3) -> Any:
        sampling = SamplingParams(
            max_tokens=max_tokens,
            ignore_eos=True,
            extra_args={"kv_transfer_params": params} if params else None,
        )
        request = Request(
            request_id=name,
            prompt_token_ids=tokens,
            sampling_params=sampling,
            pooling_params=None,
            block_hasher=self.hasher,
        )
        self.scheduler.add_request(request)
        return request

    def output(self, scheduled: Any, connector_output: Any = None) -> Any:
        """A worker's output of a step. Each request that has no token left to compute gets one."""
        names = list(scheduled.num_scheduled_tokens)
        return ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: index for index, name in enumerate(names)},
            sampled_token_ids=[[TOKEN] if self.samples(name) else [] for name in names],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=None,
            kv_connector_output=connector_output,
        )

    def samples(self, name: str) -> bool:
        request = self.scheduler.requests[name]
        return request.num_computed_tokens >= request.num_tokens

    def update(self, scheduled: Any, output: Any) -> dict[str, Any]:
        """The end of a step: outputs by request."""
        made = self.scheduler.update_from_output(scheduled, output)
        return {o.request_id: o for outs in made.values() for o in outs.outputs}

    def abort(self, name: str) -> None:
        self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def left(self) -> list[str]:
        """What is left in a scheduler that should be empty. The null block is never free."""
        s = self.scheduler
        left = {
            "requests": s.requests,
            "waiting": list(s.waiting),
            "running": s.running,
            "received": s.finished_recving_kv_req_ids,
            "failed": s.failed_recving_kv_req_ids,
            "records": [None] * len(self.connector._side),
        }
        faults = [f"{name}: {value}" for name, value in left.items() if value]
        lent = self.blocks - 1 - s.kv_cache_manager.block_pool.get_num_free_blocks()
        return faults + ([f"{lent} blocks are not free"] if lent else [])
