"""Weights and configuration of a GGUF file, by the `gguf` package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from blocks import Blocks
from config import Config, Rotary

Array = np.ndarray[Any, Any]

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
        and integers are separated, which copies them once. Integers of 6 bits become bytes.

    Raises:
        ValueError: The architecture, the type of a tensor, or a rotary embedding is none of these here.
    """
    from gguf import GGUFReader

    reader = GGUFReader(path)
    weights = {_name(path, tensor.name): weight_of(path, tensor) for tensor in reader.tensors}
    return _config(path, {name: field.contents() for name, field in reader.fields.items()}, weights), weights


def _name(path: str | Path, name: str) -> str:
    """Return the name of `transformers` for a tensor of a GGUF file. path: of the file, for the message of an error."""
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in NAMES:
        raise ValueError(f"{path}: tensor '{name}' is not part of a Llama or Qwen model as examples/llm has it")
    layer = "" if match[1] is None else f"model.layers.{match[1]}."
    return f"{layer}{NAMES[match[2]]}.{match[3]}"


def weight_of(path: str | Path, tensor: Any) -> Any:
    """Return a tensor of a `GGUFReader` as an array, or as `Blocks` if it is quantized.

    `gguf.quants` states the layouts of blocks.
    """
    kind, data = tensor.tensor_type.name, tensor.data
    if kind in ("F32", "F16"):
        return data
    if kind not in _READERS:
        raise ValueError(
            f"{path}: tensor '{tensor.name}' is {kind}; of quantized types, {', '.join(_READERS)} are read"
        )
    length, read = _READERS[kind]
    return read(data.reshape(data.shape[0], -1, length))


def _f16(parts: Array, begin: int) -> Array:
    """Return the f16 at byte `begin` of each block. parts: u8[rows, blocks, bytes], as for all readers of blocks."""
    return np.ascontiguousarray(parts[..., begin : begin + 2]).view(np.float16)[..., 0]


def _q8_0(parts: Array) -> Blocks:
    """Read blocks of a scale f16 and 32 signed bytes."""
    return Blocks(np.ascontiguousarray(parts[..., 2:]).view(np.int8), _f16(parts, 0))


def _q4_0(parts: Array) -> Blocks:
    """Read blocks of a scale f16 and 16 bytes with two integers each."""
    return Blocks(np.ascontiguousarray(parts[..., 2:]), _f16(parts, 0))


def _q4_k(parts: Array) -> Blocks:
    """Read super-blocks of 8 blocks of 32 integers. Factors and minima of the blocks have 6 bits. Of the last four
    blocks, bytes 12 to 15 hold the low 4 bits, and the high bits of bytes 4 to 11 hold the high 2 bits.
    """
    low, low_minima, rest = (parts[..., begin : begin + 4] for begin in (4, 8, 12))
    factors = np.concatenate([low & 63, rest & 15 | low >> 2 & 48], axis=-1)
    minima = np.concatenate([low_minima & 63, rest >> 4 | low_minima >> 2 & 48], axis=-1)
    pairs = np.ascontiguousarray(parts[..., 16:]).reshape(parts.shape[0], -1, 32)
    return Blocks(pairs, _f16(parts, 0), factors, _f16(parts, 2), minima)


def _q6_k(parts: Array) -> Blocks:
    """Read super-blocks of 16 blocks of 16 integers. Bytes hold the integers, whose 4 low and 2 high bits are apart."""
    halves = parts.shape[0], -1, 2, 1, 64
    low = parts[..., :128].reshape(halves) >> np.array([[0], [4]], np.uint8) & 15
    high = parts[..., 128:192].reshape(*halves[:-1], 32) >> np.array([[0], [2], [4], [6]], np.uint8) & 3
    integers = (low.reshape(high.shape) | high << 4).astype(np.int8) - np.int8(32)
    factors = np.ascontiguousarray(parts[..., 192:208]).view(np.int8)
    return Blocks(integers.reshape(parts.shape[0], -1, 256), _f16(parts, 208), factors)


_READERS = {"Q4_0": (18, _q4_0), "Q8_0": (34, _q8_0), "Q4_K": (144, _q4_k), "Q6_K": (210, _q6_k)}
"""Bytes of a block, or of a super-block, of each type, and the reader of blocks u8[rows, blocks, bytes]."""


def _config(path: str | Path, fields: dict[str, Any], weights: dict[str, Any]) -> Config:
    """Return the configuration of a GGUF file. fields: its metadata by key; path: of the file, for messages."""
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
