"""A small model of Llama's shape with weights from a seed: its answers mean nothing, and depend on
every token of the prompt. In the form `windows` three of four layers see only the last tokens."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch
from safetensors.torch import save_file

TOKENS = 1024  # ids of the vocabulary
PROMPT_MOST = 2048

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": TOKENS,
    "max_position_embeddings": PROMPT_MOST,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rope_theta": 10000.0,
}

FORMS: dict[str, dict[str, Any]] = {
    "full": {},
    "windows": {
        "layer_types": ["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
        "sliding_window": 200,
    },
    # Half the attention and a quarter of the weights, with as much KV as `full`.
    "narrow": {"hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2},
}


def _config(form: str) -> dict[str, Any]:
    return {**CONFIG, **FORMS[form]}


def token_bytes(form: str) -> int:
    """Of a token's KV."""
    config = _config(form)
    head = config["hidden_size"] // config["num_attention_heads"]
    return config["num_hidden_layers"] * 2 * config["num_key_value_heads"] * head * 4  # float32


def _weights(config: dict[str, Any], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width, inner = config["hidden_size"], config["intermediate_size"]
    kv_width = width // config["num_attention_heads"] * config["num_key_value_heads"]

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 2 / columns**0.5

    tensors = {
        "model.embed_tokens.weight": torch.randn(TOKENS, width, generator=generator),
        "lm_head.weight": matrix(TOKENS, width),
        "model.norm.weight": torch.ones(width),
    }
    for layer in range(config["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (width, width),
            "self_attn.k_proj": (kv_width, width),
            "self_attn.v_proj": (kv_width, width),
            "self_attn.o_proj": (width, width),
            "mlp.gate_proj": (inner, width),
            "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner),
        }
        for name, (rows, columns) in shapes.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = torch.ones(width)
    return tensors


def make(
    folder: pathlib.Path, form: str = "full", seed: int = 1, prompt_most: int = PROMPT_MOST
) -> None:
    folder.mkdir()
    config = {**_config(form), "max_position_embeddings": prompt_most}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(_weights(config, seed), folder / "model.safetensors", metadata={"format": "pt"})
