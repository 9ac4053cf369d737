"""Block-scaled weights of `examples/llm`, against NumPy."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from blocks import Blocks
from layers import embed, linear

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

RNG = np.random.default_rng(0)
Array = np.ndarray[Any, Any]


def blocks_of(kind: str, rows: int, count: int) -> tuple[Blocks, Array]:
    """Return random blocks, and their weights."""
    integers = RNG.integers(-8, 8, (rows, count, 32)) if kind == "Q4_0" else RNG.integers(-127, 128, (rows, count, 32))
    scales = RNG.uniform(0.01, 0.1, (rows, count)).astype(np.float16)
    stored = integers.astype(np.int8)
    if kind == "Q4_0":
        low, high = np.split((integers + 8).astype(np.uint8), 2, axis=-1)
        stored = low | high << 4
    return Blocks(stored, scales), (integers * scales[..., None].astype(np.float32)).reshape(rows, -1).astype(
        np.float32
    )


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0"])
def test_products_and_rows(kind: str) -> None:
    blocks, weights = blocks_of(kind, 24, 3)
    assert blocks.shape == weights.shape

    @pd.program
    def both(x: Annotated[Any, pd.f32[1, 2, 96]], tokens: Annotated[Any, pd.i32[1, 4]]) -> Any:
        return linear(x, blocks), embed(blocks, tokens)

    x, tokens = RNG.standard_normal((1, 2, 96)).astype(np.float32), np.array([[3, 0, 23, 3]], np.int32)
    products, rows = both(x, tokens)
    np.testing.assert_allclose(products, x @ weights.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rows, weights[tokens])
    formed = compile_to("dispatches", both, targets="cpu")
    assert "tensor<24x96xf32>" not in formed, "weights are widened in registers"
