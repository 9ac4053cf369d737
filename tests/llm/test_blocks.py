"""Block-scaled weights of `examples/llm`, against NumPy."""

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
import pytest
from blocks import Blocks
from layers import embed, linear

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def blocks_of(kind: str, rows: int, columns: int) -> tuple[Blocks, Array]:
    """Return random blocks of 32 columns, or of 16 for Q6_K, and their weights."""
    size = 16 if kind == "Q6_K" else 32
    low, high = {"Q4_0": (-8, 8), "Q4_K": (0, 16), "Q6_K": (-32, 32), "Q8_0": (-127, 128)}[kind]
    integers = RNG.integers(low, high, (rows, columns // size, size))
    groups = columns // 256 if kind in ("Q4_K", "Q6_K") else columns // size
    scales, offsets = RNG.uniform(0.01, 0.1, (2, rows, groups)).astype(np.float16)
    stored = integers.astype(np.int8)
    if kind in ("Q4_0", "Q4_K"):
        parts = (integers - low).astype(np.uint8).reshape(rows, -1, 2, 16 if kind == "Q4_0" else 32)
        stored = parts[:, :, 0] | parts[:, :, 1] << 4
    if kind in ("Q4_0", "Q8_0"):
        return Blocks(stored, scales), _weights(integers, scales)
    limits, dtype = ((0, 64), np.uint8) if kind == "Q4_K" else ((-128, 128), np.int8)
    factors, minima = RNG.integers(*limits, (2, rows, groups, 256 // size)).astype(dtype)
    weights = _weights(integers, scales[..., None] * factors.astype(np.float32))
    if kind == "Q6_K":
        return Blocks(stored, scales, factors), weights
    subtracted = _weights(np.ones_like(integers), offsets[..., None] * minima.astype(np.float32))
    return Blocks(stored, scales, factors, offsets, minima), weights - subtracted


def _weights(integers: Array, scales: Array) -> Array:
    """Return integers [rows, blocks, size] times the scales of their blocks: f32[rows, columns]."""
    by_block = scales.astype(np.float32).reshape(*integers.shape[:2], 1)
    return (integers.astype(np.float32) * by_block).reshape(len(integers), -1)


@pytest.mark.parametrize(
    ("kind", "panels"), [("Q4_0", "x4x2xi4>"), ("Q8_0", "x4xi8>"), ("Q4_K", "x4x2xi4>"), ("Q6_K", "x4xi8>")]
)
def test_products_and_rows(kind: str, panels: str) -> None:
    blocks, weights = blocks_of(kind, 64, 768)
    assert blocks.shape == weights.shape

    @pd.program
    def both(x: Annotated[Any, pd.f32[1, 2, 768]], tokens: Annotated[Any, pd.i32[1, 4]]) -> Any:
        return linear(x, blocks), embed(blocks, tokens)

    x, tokens = RNG.standard_normal((1, 2, 768)).astype(np.float32), np.array([[3, 0, 23, 3]], np.int32)
    products, rows = both(x, tokens)
    bound = 1e-6 * np.abs(x).max() * np.abs(weights).sum(1).max()
    np.testing.assert_allclose(products, x @ weights.T, rtol=0, atol=bound)
    np.testing.assert_array_equal(rows, weights[tokens])
    formed = compile_to("dispatches", both, targets="cpu")
    calls = re.search(r"func\.func @both\(.*?\n  }", formed, re.DOTALL)
    assert calls is not None and "64x768xf32" not in formed, "weights are widened in registers"
    (product,) = re.findall(r"func\.func @both_dispatch_\d+_matmul.*", formed)
    assert panels in product, "integers are multiplied as they are stored"
    assert calls[0].count("flow.dispatch") == 2
