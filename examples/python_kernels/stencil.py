"""A step of the heat equation: invocations walk down the columns of a block, with three rows in registers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, COLUMNS = 4, 512
"""Rows and columns of a block, which a workgroup computes."""
Grid = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=COLUMNS, grid=lambda x, *_: (pd.cdiv(x.shape[1], COLUMNS), pd.cdiv(x.shape[0], ROWS)))
def heat(x: Grid, y: Grid, rate: Annotated[float, pd.f32]) -> None:
    """Add to each element `rate` times the sum of its differences from its four neighbours, 0 outside of the grid.

    Each invocation computes a column of a block of 4 x 512 elements from top to bottom.
    """
    top, n = pd.group_id(1) * ROWS, pd.global_id(0)
    if n < x.shape[1]:
        above = x[top - 1, n] if top > 0 else 0.0
        middle = x[top, n]
        for m in range(top, min(top + ROWS, x.shape[0])):
            below = x[m + 1, n] if m + 1 < x.shape[0] else 0.0
            left = x[m, n - 1] if n > 0 else 0.0
            right = x[m, n + 1] if n + 1 < x.shape[1] else 0.0
            y[m, n] = middle + rate * (above + below + left + right - 4 * middle)
            above, middle = middle, below


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 37 x 21 elements, so that the last block is not full."""
    x = random.standard_normal((37, 21), np.float32)
    wide = np.pad(x, 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return [Case(heat, (x, np.zeros_like(x), 0.2), (x + 0.2 * (around - 4 * x),), 1e-5)]


if __name__ == "__main__":
    run(cases)
