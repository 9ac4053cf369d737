"""Weights and configuration of a GGUF file, by the `gguf` package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from blocks import Blocks
from config import Config, Rotary

NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
"""Names of `transformers` for those of GGUF."""


def read_gguf(path: str | Path) -> tuple[Config, dict[str, Any]]:
    """Read a model of the Llama or Qwen type.

    Returns:
        The configuration, and arrays or `Blocks` by the names of `transformers`. Arrays are mapped; of blocks, scales
        and integers are separated, which copies them once.

    Raises:
        ValueError: The architecture, the type of a tensor, or a rotary embedding is none of these here.
    """
    from gguf import GGUFReader

    reader = GGUFReader(path)
    weights = {_name(path, tensor.name): _weight(path, tensor) for tensor in reader.tensors}
    return _config(path, {name: field.contents() for name, field in reader.fields.items()}, weights), weights


def _name(path: str | Path, name: str) -> str:
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in NAMES:
        raise ValueError(f"{path}: tensor '{name}' is not part of a Llama or Qwen model as examples/llm has it")
    layer = "" if match[1] is None else f"model.layers.{match[1]}."
    return f"{layer}{NAMES[match[2]]}.{match[3]}"


def _weight(path: str | Path, tensor: Any) -> Any:
    kind, data = tensor.tensor_type.name, tensor.data
    if kind in ("F32", "F16"):
        return data
    if kind not in ("Q8_0", "Q4_0"):
        raise ValueError(f"{path}: tensor '{tensor.name}' is {kind}; of quantized types, Q4_0 and Q8_0 are read")
    length = 34 if kind == "Q8_0" else 18  # an f16 and the integers
    parts = data.reshape(data.shape[0], -1, length)
    stored = parts[..., 2:].view(np.int8 if kind == "Q8_0" else np.uint8)
    blocks = Blocks(np.ascontiguousarray(stored), np.ascontiguousarray(parts[..., :2]).view(np.float16)[..., 0])
    blocks.stored.flags.writeable = blocks.scales.flags.writeable = False  # a program then uses them without a copy
    return blocks


def _config(path: str | Path, fields: dict[str, Any], weights: dict[str, Any]) -> Config:
    architecture = fields["general.architecture"]
    if architecture not in ("llama", "qwen2", "qwen3"):
        raise ValueError(f"{path}: architecture {architecture!r} is not one of llama, qwen2, qwen3")
    values = {name.removeprefix(f"{architecture}."): value for name, value in fields.items()}
    if values.get("rope.scaling.type", "none") != "none":
        raise ValueError(f"{path}: rotary embeddings scaled by '{values['rope.scaling.type']}' are not read")
    width, heads = values["embedding_length"], values["attention.head_count"]
    size = values.get("attention.key_length", width // heads)
    end = values.get("tokenizer.ggml.eos_token_id")
    return Config(
        architecture, weights["model.embed_tokens.weight"].shape[0], width, values["block_count"], heads,
        values.get("attention.head_count_kv", heads), size, values["attention.layer_norm_rms_epsilon"],
        values["context_length"],
        Rotary(size, values.get("rope.freq_base", 10000.0), is_interleaved=architecture == "llama"),
        has_qk_norm=architecture == "qwen3", is_tied="lm_head.weight" not in weights,
        end_tokens=() if end is None else (int(end),),
    )  # fmt: skip
