"""A sparse matrix in compressed rows times a dense one: a workgroup for each row."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd


@pd.kernel(workgroup=64, grid=lambda starts, columns, values, b, y: (pd.cdiv(y.shape[1], 64), y.shape[0]))
def sparse_product(
    starts: Annotated[pd.View, pd.i32["starts"]],
    columns: Annotated[pd.View, pd.i32["count"]],
    values: Annotated[pd.View, pd.f32["count"]],
    b: Annotated[pd.View, pd.f32["k", "n"]],
    y: Annotated[pd.View, pd.f32["m", "n"]],
) -> None:
    """Multiply a matrix whose row r has values[starts[r] : starts[r + 1]] in the columns of the same indices."""
    row, j = pd.group_id(1), pd.global_id(0)
    if j < y.shape[1]:
        total = 0.0
        for at in range(starts[row], starts[row + 1]):
            total += values[at] * b[columns[at], j]
        y[row, j] = total


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of a matrix with about a fifth of its elements; NumPy multiplies the dense one."""
    dense = random.standard_normal((20, 30), np.float32) * (random.random((20, 30)) < 0.2)
    b = random.standard_normal((30, 70), np.float32)
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(21)).astype(np.int32)
    operands = starts, columns.astype(np.int32), dense[rows, columns], b, np.zeros((20, 70), np.float32)
    return [Case(sparse_product, operands, (dense @ b,), 1e-5)]


if __name__ == "__main__":
    run(cases)
