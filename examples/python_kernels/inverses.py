"""Inverses of small matrices by elimination with pivots, each by one invocation in an array of its own."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from running import Case, run

import pydispatch as pd

SIZE = 3
"""Rows and columns of each matrix."""
Matrices = Annotated[pd.View, pd.f32["n", SIZE, SIZE]]


def subtract(a: pd.View, row: int, other: int, factor: Any) -> None:
    """Subtract a multiple of another row."""
    for column in range(2 * SIZE):
        a[row, column] -= factor * a[other, column]


def exchange(a: pd.View, row: int, other: int) -> None:
    """Exchange two rows."""
    for column in range(2 * SIZE):
        a[row, column], a[other, column] = a[other, column], a[row, column]


@pd.kernel(workgroup=64)
def inverses(x: Matrices, y: Matrices) -> None:
    """Gauss-Jordan: the matrix becomes the identity, and the identity beside it the inverse."""
    i = pd.global_id(0)
    if i >= x.shape[0]:
        return
    a = pd.private((SIZE, 2 * SIZE), pd.f32)
    for row in range(SIZE):
        for column in range(SIZE):
            a[row, column] = x[i, row, column]
            a[row, SIZE + column] = 1.0 if row == column else 0.0
    for step in range(SIZE):
        for row in range(step + 1, SIZE):  # the largest element becomes the pivot
            if abs(a[row, step]) > abs(a[step, step]):
                exchange(a, step, row)
        scale = 1 / a[step, step]
        for column in range(2 * SIZE):
            a[step, column] *= scale
        for row in range(SIZE):
            if row != step:
                subtract(a, row, step, a[row, step])
    for row in range(SIZE):
        for column in range(SIZE):
            y[i, row, column] = a[row, SIZE + column]


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of matrices with large elements on the other diagonal, so that rows are exchanged."""
    x = random.standard_normal((70, SIZE, SIZE), np.float32) + 3 * np.eye(SIZE, dtype=np.float32)[::-1]
    return [Case(inverses, (x, np.zeros_like(x)), (np.linalg.inv(x.astype(np.float64)),), 1e-3)]


if __name__ == "__main__":
    run(cases)
