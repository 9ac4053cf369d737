"""A step of the heat equation: each workgroup reads its block with a halo into workgroup memory."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, COLUMNS = 4, 64
Grid = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=(COLUMNS, ROWS))
def heat(x: Grid, y: Grid, rate: Annotated[float, pd.f32]) -> None:
    """Elements outside of the grid are 0."""
    block = pd.shared((ROWS + 2, COLUMNS + 2), pd.f32)
    column, row = pd.local_id(0), pd.local_id(1)
    top, left = pd.group_id(1) * ROWS - 1, pd.group_id(0) * COLUMNS - 1
    for i in range(row, ROWS + 2, ROWS):
        for j in range(column, COLUMNS + 2, COLUMNS):
            is_inside = 0 <= top + i < x.shape[0] and 0 <= left + j < x.shape[1]
            block[i, j] = x[top + i, left + j] if is_inside else 0.0
    pd.barrier()
    m, n = pd.global_id(1), pd.global_id(0)
    if m < y.shape[0] and n < y.shape[1]:
        middle = block[row + 1, column + 1]
        around = (
            block[row, column + 1] + block[row + 2, column + 1] + block[row + 1, column] + block[row + 1, column + 2]
        )
        y[m, n] = middle + rate * (around - 4 * middle)


def cases(random: np.random.Generator) -> list[Case]:
    x = random.standard_normal((37, 21), np.float32)
    wide = np.pad(x, 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return [Case(heat, (x, np.zeros_like(x), 0.2), (x + 0.2 * (around - 4 * x),), 1e-5)]


if __name__ == "__main__":
    run(cases)
