"""A matrix of 4-bit integers, two in a byte and one scale for each 32 columns, times a vector."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

GROUP = 32
"""Columns with one scale."""


@pd.kernel(workgroup=GROUP // 2, grid=lambda w, *_: w.shape[0])
def int4_product(
    w: Annotated[pd.View, pd.u8["m", "bytes"]],
    scales: Annotated[pd.View, pd.f32["m", "groups"]],
    x: Annotated[pd.View, pd.f32["n"]],
    y: Annotated[pd.View, pd.f32["m"]],
) -> None:
    """Compute a row in each workgroup, whose invocations read one byte each of the 32 columns with one scale.

    The low half of a byte is the even column, the high half the odd one; weights from -8 to 7 are stored plus 8.
    """
    row, lane = pd.group_id(0), pd.local_id(0)
    part = 0.0
    for group in range(scales.shape[1]):
        at = group * (GROUP // 2) + lane
        byte = pd.i32(w[row, at])
        low, high = pd.f32((byte & 15) - 8), pd.f32((byte >> 4) - 8)
        part += scales[row, group] * (low * x[2 * at] + high * x[2 * at + 1])
    total = pd.group_sum(part)
    if lane == 0:
        y[row] = total


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 9x128 weights, packed so that a byte has two columns of a row."""
    weights = random.integers(-8, 8, (9, 128))
    scales, x = random.random((9, 128 // GROUP), np.float32), random.standard_normal(128, np.float32)
    stored = (weights + 8).astype(np.uint8)
    expected = (weights * np.repeat(scales, GROUP, axis=1)) @ x
    packed = stored[:, ::2] | stored[:, 1::2] << 4
    return [Case(int4_product, (packed, scales, x, np.zeros(9, np.float32)), (expected,), 1e-4)]


if __name__ == "__main__":
    run(cases)
