"""A product of matrices with a bias and leaky ReLU, in an order of blocks that reads memory while it is cached."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, COLUMNS, DEPTH = 32, 32, 16
"""Rows and columns of a block of the result, and depth of a step."""
BAND = 4
"""Rows of blocks of which workgroups take all columns before those of the next rows: they share blocks of b."""


@pd.kernel(
    workgroup=64,
    grid=lambda a, b, *_: pd.cdiv(a.shape[0], ROWS) * pd.cdiv(b.shape[1], COLUMNS),
)
def product_with_epilogue(
    a: Annotated[pd.View, pd.f32["m", "k"]],
    b: Annotated[pd.View, pd.f32["k", "n"]],
    bias: Annotated[pd.View, pd.f32["n"]],
    y: Annotated[pd.View, pd.f32["m", "n"]],
) -> None:
    """Compute a block of y = leaky_relu(a @ b + bias) in each workgroup."""
    down, across = pd.cdiv(y.shape[0], ROWS), pd.cdiv(y.shape[1], COLUMNS)
    first = pd.group_id(0) // (BAND * across) * BAND
    height = min(down - first, BAND)
    in_band = pd.group_id(0) - first * across
    i, j = (first + in_band % height) * ROWS, in_band // height * COLUMNS
    total = pd.zeros((ROWS, COLUMNS), pd.f32)
    for k in range(0, a.shape[1], DEPTH):
        total += a[i : i + ROWS, k : k + DEPTH] @ b[k : k + DEPTH, j : j + COLUMNS]
    total += bias[j : j + COLUMNS]
    y[i : i + ROWS, j : j + COLUMNS] = pd.where(total > 0, total, 0.01 * total)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of six rows of blocks: a whole band and a part of one."""
    a, b = random.standard_normal((170, 40), np.float32), random.standard_normal((40, 70), np.float32)
    bias = random.standard_normal(70, np.float32)
    total = a @ b + bias
    operands = a, b, bias, np.zeros_like(total)
    return [Case(product_with_epilogue, operands, (np.where(total > 0, total, 0.01 * total),), 1e-4)]


if __name__ == "__main__":
    run(cases)
