"""A matrix times one of packed 4-bit integers with a scale for each 32 rows: tiles are unpacked before the product."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

GROUP, ROWS, COLUMNS = 32, 32, 64
"""Rows of w with one scale, and rows and columns of a workgroup's block of the result."""


@pd.kernel(workgroup=64, grid=lambda x, w, scales, y: (pd.cdiv(y.shape[1], COLUMNS), pd.cdiv(y.shape[0], ROWS)))
def int4_matmul(
    x: Annotated[pd.View, pd.f32["m", "k"]],
    w: Annotated[pd.View, pd.u8["bytes", "n"]],
    scales: Annotated[pd.View, pd.f32["groups", "n"]],
    y: Annotated[pd.View, pd.f32["m", "n"]],
) -> None:
    """Unpack and multiply 32 rows of w at a time, which have one scale in each column.

    The low half of a byte is the even row of w, the high half the odd one; weights from -8 to 7 are stored plus 8.
    """
    i, j = pd.group_id(1) * ROWS, pd.group_id(0) * COLUMNS
    row = pd.arange(GROUP)
    total = pd.zeros((ROWS, COLUMNS), pd.f32)
    for group in range(scales.shape[0]):
        packed = pd.i32(w[group * (GROUP // 2) + row // 2, j : j + COLUMNS])
        weights = pd.f32(((packed >> row[:, None] % 2 * 4) & 15) - 8) * scales[group, j : j + COLUMNS]
        total += x[i : i + ROWS, group * GROUP : (group + 1) * GROUP] @ weights
    y[i : i + ROWS, j : j + COLUMNS] = total


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 64x70 weights, packed so that a byte has two rows of a column."""
    m, k, n = 5, 64, 70
    weights = random.integers(-8, 8, (k, n))
    scales, x = random.random((k // GROUP, n), np.float32), random.standard_normal((m, k), np.float32)
    stored = (weights + 8).astype(np.uint8)
    expected = x.astype(np.float64) @ (weights * np.repeat(scales, GROUP, axis=0))
    packed = stored[::2] | stored[1::2] << 4
    return [Case(int4_matmul, (x, packed, scales, np.zeros((m, n), np.float32)), (expected,), 1e-4)]


if __name__ == "__main__":
    run(cases)
