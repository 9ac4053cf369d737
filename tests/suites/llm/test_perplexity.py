"""Perplexity of the small model of `examples/llm` on this documentation, with weights in the blocks of GGUF files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from blocks import Blocks
from config import Config
from model import Decoder
from tokenizers import Tokenizer
from weights import Weights

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "examples" / "llm" / "small"
LENGTH, ROWS = 256, 8
Array = np.ndarray[Any, Any]


@cache
def weights_of(kind: str) -> dict[str, Any]:
    """Return the weights as f32, or matrices as `Blocks` of the type Q8_0 or Q4_0."""
    weights = {name: array.astype(np.float32) for name, array in Weights(FOLDER).items()}
    return weights if kind == "f32" else {name: quantized(array, kind) for name, array in weights.items()}


def quantized(array: Array, kind: str) -> Any:
    if array.ndim == 1:
        return array
    packed = gguf.quants.quantize(array, gguf.GGMLQuantizationType[kind])
    parts = packed.reshape(array.shape[0], array.shape[1] // 32, -1)
    scales = np.ascontiguousarray(parts[..., :2]).view(np.float16)[..., 0]
    return Blocks(np.ascontiguousarray(parts[..., 2:]).view(np.int8 if kind == "Q8_0" else np.uint8), scales)


@cache
def perplexity(kind: str, activation_bits: int = 24) -> float:
    """Return the perplexity of the last half of ROWS texts of LENGTH tokens."""
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    ids = tokenizer.encode((ROOT / "docs" / "architecture.md").read_text()).ids[: ROWS * LENGTH]
    tokens = np.array(ids, np.int32).reshape(ROWS, LENGTH)
    decoder = Decoder(Config.read(FOLDER), weights_of(kind), max_sequences=1, max_tokens=LENGTH)
    artifact = pd.compile(decoder.all_scores(1, LENGTH), cpu="native", activation_bits=activation_bits)
    program = pd.device("cpu").load(artifact)
    pages = 1 + np.arange(LENGTH // decoder.page_size, dtype=np.int32)[None]
    losses = []
    for row in tokens:
        zero = np.zeros(1, np.int32)
        scores = np.asarray(program["all_scores"](row[None], zero, zero + LENGTH, pages), np.float64)[0]
        shares = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        losses.append(-shares[np.arange(LENGTH // 2 - 1, LENGTH - 1), row[LENGTH // 2 :]])
    return float(np.exp(np.mean(losses)))


@pytest.mark.parametrize(("kind", "bits", "bound"), [("Q8_0", 24, 0.01), ("Q8_0", 8, 0.01), ("Q4_0", 24, 0.05)])
def test_quantized_weights_keep_the_perplexity(kind: str, bits: int, bound: float) -> None:
    assert perplexity("f32") < 150  # a model that knows nothing has 1,024, the number of its tokens
    assert abs(perplexity(kind, bits) / perplexity("f32") - 1) < bound


def test_bytes_of_activations_keep_the_perplexity_of_blocks_of_4_bits() -> None:
    assert abs(perplexity("Q4_0", 8) / perplexity("Q4_0") - 1) < 0.01
