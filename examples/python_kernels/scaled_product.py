"""A product of matrices of 8-bit floats with one scale for each 32 columns of a row, as in the MX formats."""

from __future__ import annotations

from typing import Annotated

import ml_dtypes
import numpy as np
from running import Case, run

import pydispatch as pd

BLOCK, GROUP = 32, 32
"""Rows and columns of a block of the result, and columns of a and b with one scale."""


@pd.kernel(workgroup=64)
def scaled_product(
    a: Annotated[pd.View, pd.f8E4M3FN["m", "k"]],
    a_scales: Annotated[pd.View, pd.f32["m", "groups"]],
    b: Annotated[pd.View, pd.f8E4M3FN["n", "k"]],
    b_scales: Annotated[pd.View, pd.f32["n", "groups"]],
    y: Annotated[pd.View, pd.f32["m", "n"]],
) -> None:
    """Compute a times b transposed, where scales[i, g] is the factor of the columns from 32 * g on of row i."""
    i, j = pd.group_id(1) * BLOCK, pd.group_id(0) * BLOCK
    total = pd.zeros((BLOCK, BLOCK), pd.f32)
    for group in range(a_scales.shape[1]):
        k = group * GROUP
        left = pd.f32(a[i : i + BLOCK, k : k + GROUP]) * a_scales[i : i + BLOCK, group][:, None]
        right = pd.f32(b[j : j + BLOCK, k : k + GROUP]) * b_scales[j : j + BLOCK, group][:, None]
        total += left @ right.T
    y[i : i + BLOCK, j : j + BLOCK] = total


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 20 and 30 rows with two scales each, which are powers of two."""
    a, b = (random.standard_normal((rows, 64)).astype(ml_dtypes.float8_e4m3fn) for rows in (20, 30))
    scales = [2.0 ** random.integers(-9, -5, (rows, 2)) for rows in (20, 30)]
    wide = [
        matrix.astype(float) * np.repeat(scale, GROUP, axis=1) for matrix, scale in zip((a, b), scales, strict=True)
    ]
    a_scales, b_scales = (scale.astype(np.float32) for scale in scales)
    operands = a, a_scales, b, b_scales, np.zeros((20, 30), np.float32)
    return [Case(scaled_product, operands, (wide[0] @ wide[1].T,), 1e-4)]


if __name__ == "__main__":
    run(cases)
