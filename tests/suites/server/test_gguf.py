"""GGUF files that `examples/llm` reads, against the weights that the `gguf` package dequantizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from config import Config, Rotary
from gguf_file import read_gguf, weight_of
from model import Decoder

import pydispatch as pd

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def permuted(weight: Array, heads: int) -> Array:
    """Return rows of Q or K in the order of llama.cpp: features that are rotated together are neighbours."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


SUPER_BLOCKS = {"Q4_K": (0, 2), "Q6_K": (208,)}
"""Offsets of the f16 of super-blocks, of the types that the gguf package does not quantize to."""


def quantized(array: Array, kind: str) -> Array:
    """Return an array in a type of GGUF; for super-blocks, the bytes of other numbers of that shape."""
    type_ = gguf.GGMLQuantizationType[kind]
    if kind not in SUPER_BLOCKS:
        return gguf.quants.quantize(array, type_)
    weights, length = gguf.GGML_QUANT_SIZES[type_]
    parts = RNG.integers(0, 256, (array.shape[0], array.shape[1] // weights, length), np.uint8)
    for offset in SUPER_BLOCKS[kind]:
        scales = RNG.uniform(1e-4, 2e-4, (*parts.shape[:2], 1)).astype(np.float16)
        parts[..., offset : offset + 2] = scales.view(np.uint8)
    return parts.reshape(array.shape[0], -1)


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", *SUPER_BLOCKS])
def test_weights_are_those_of_gguf(tmp_path: Path, kind: str) -> None:
    type_ = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    written = quantized(RNG.standard_normal((6, 512)).astype(np.float32), kind)
    writer.add_tensor("output.weight", written, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = gguf.GGUFReader(tmp_path / "model.gguf").tensors
    blocks = weight_of("model.gguf", tensor)
    assert blocks.shape == (6, 512)
    np.testing.assert_array_equal(blocks.widened(np.zeros(())), gguf.quants.dequantize(written, type_))


def test_a_model_of_blocks(tmp_path: Path) -> None:
    """The scores are those of the weights that gguf dequantizes, in the order of `transformers`."""
    width, hidden, words, heads = 256, 512, 48, 4
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for add, value in (
        (writer.add_context_length, 64), (writer.add_embedding_length, width), (writer.add_block_count, 1),
        (writer.add_head_count, heads), (writer.add_head_count_kv, 2), (writer.add_layer_norm_rms_eps, 1e-5),
        (writer.add_feed_forward_length, hidden), (writer.add_rope_freq_base, 100.0), (writer.add_eos_token_id, 7),
    ):  # fmt: skip
        add(value)
    arrays: dict[str, Array] = {}
    for name, gguf_name, shape, kind in (
        ("model.embed_tokens", "token_embd", (words, width), "Q8_0"),
        ("model.norm", "output_norm", (width,), "F32"),
        ("model.layers.0.input_layernorm", "blk.0.attn_norm", (width,), "F32"),
        ("model.layers.0.post_attention_layernorm", "blk.0.ffn_norm", (width,), "F32"),
        ("model.layers.0.self_attn.q_proj", "blk.0.attn_q", (width, width), "Q4_0"),
        ("model.layers.0.self_attn.k_proj", "blk.0.attn_k", (width // 2, width), "Q8_0"),
        ("model.layers.0.self_attn.v_proj", "blk.0.attn_v", (width // 2, width), "F16"),
        ("model.layers.0.self_attn.o_proj", "blk.0.attn_output", (width, width), "Q4_0"),
        ("model.layers.0.mlp.gate_proj", "blk.0.ffn_gate", (hidden, width), "Q4_K"),
        ("model.layers.0.mlp.up_proj", "blk.0.ffn_up", (hidden, width), "F32"),
        ("model.layers.0.mlp.down_proj", "blk.0.ffn_down", (width, hidden), "Q6_K"),
    ):
        array, type_ = RNG.standard_normal(shape).astype(np.float32) / 16, gguf.GGMLQuantizationType[kind]
        order = {"blk.0.attn_q": heads, "blk.0.attn_k": 2}.get(gguf_name)
        stored = quantized(array, kind)
        written = stored if order is None else permuted(stored, order)
        writer.add_tensor(f"{gguf_name}.weight", written, raw_dtype=type_)
        arrays[f"{name}.weight"] = gguf.quants.dequantize(stored, type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    config, weights = read_gguf(tmp_path / "model.gguf")
    plain = Config(
        "llama", words, width, 1, heads, 2, 64, config.epsilon, 64, Rotary(64, 100.0), is_tied=True, end_tokens=(7,)
    )
    tokens, pages = RNG.integers(0, words, (1, 16)).astype(np.int32), np.array([[1, 2, 3, 4]], np.int32)
    zero, scores = np.zeros(1, np.int32), []
    for some_config, some_weights in ((config, weights), (plain, arrays)):
        program: Any = pd.device("cpu").load(pd.compile(Decoder(some_config, some_weights).all_scores(1, 16)))
        scores.append(program.all_scores(tokens, zero, zero + 16, pages))
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("architecture", "tensor", "kind", "message"),
    [
        ("mamba", "output_norm.weight", "F32", "architecture 'mamba' is not one of llama, qwen2, qwen3"),
        ("llama", "rope_freqs.weight", "F32", "tensor 'rope_freqs.weight' is not part of a Llama or Qwen model"),
        ("llama", "output_norm.weight", "Q5_0", "tensor 'output_norm.weight' is Q5_0; of quantized types, Q4_0"),
    ],
)
def test_files_that_are_not_read(tmp_path: Path, architecture: str, tensor: str, kind: str, message: str) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", architecture)
    type_ = gguf.GGMLQuantizationType[kind]
    writer.add_tensor(tensor, gguf.quants.quantize(np.ones((1, 32), np.float32), type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ValueError, match=message):
        read_gguf(tmp_path / "model.gguf")
