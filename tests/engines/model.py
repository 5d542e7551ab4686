"""A small model of Llama's shape with weights from a seed: its answers mean nothing, and depend on
every token of the prompt. In the form `windows` three of four layers see only the last tokens."""

from __future__ import annotations

import json
import pathlib

import torch
from safetensors.torch import save_file

WIDTH, LAYERS, HEADS, KV_HEADS, INNER = 256, 4, 4, 2, 512
TOKENS = 1024  # ids of the vocabulary
PROMPT_MOST = 2048
BYTES = LAYERS * 2 * KV_HEADS * (WIDTH // HEADS) * 4  # of a token's KV in float32

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
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

FORMS = {
    "full": {},
    "windows": {
        "layer_types": ["sliding_attention"] * 2 + ["full_attention", "sliding_attention"],
        "sliding_window": 200,
    },
}


def weights(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 2 / columns**0.5

    kv_width = WIDTH // HEADS * KV_HEADS
    tensors = {
        "model.embed_tokens.weight": torch.randn(TOKENS, WIDTH, generator=generator),
        "lm_head.weight": matrix(TOKENS, WIDTH),
        "model.norm.weight": torch.ones(WIDTH),
    }
    for layer in range(LAYERS):
        shapes = {
            "self_attn.q_proj": (WIDTH, WIDTH),
            "self_attn.k_proj": (kv_width, WIDTH),
            "self_attn.v_proj": (kv_width, WIDTH),
            "self_attn.o_proj": (WIDTH, WIDTH),
            "mlp.gate_proj": (INNER, WIDTH),
            "mlp.up_proj": (INNER, WIDTH),
            "mlp.down_proj": (WIDTH, INNER),
        }
        for name, (rows, columns) in shapes.items():
            tensors[f"model.layers.{layer}.{name}.weight"] = matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{name}.weight"] = torch.ones(WIDTH)
    return tensors


def make(
    folder: pathlib.Path, form: str = "full", seed: int = 1, prompt_most: int = PROMPT_MOST
) -> None:
    folder.mkdir()
    config = {**CONFIG, **FORMS[form], "max_position_embeddings": prompt_most}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights(seed), folder / "model.safetensors", metadata={"format": "pt"})
