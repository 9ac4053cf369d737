"""The largest elements of each row with their indices: each invocation inserts the elements of a row into a list."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, COLUMNS, K = 64, 32, 8
"""Rows of a workgroup, columns that it reads at a time, and elements that are found in each row."""


@pd.kernel(workgroup=ROWS, grid=lambda x, *_: pd.cdiv(x.shape[0], ROWS))
def top_k(
    x: Annotated[pd.View, pd.f32["m", "n"]],
    values: Annotated[pd.View, pd.f32["m", K]],
    indices: Annotated[pd.View, pd.i32["m", K]],
) -> None:
    """Write the K largest elements of each row in descending order, of equal ones that with the lower index first.

    Rows have K elements or more, none of them NaN: a NaN would be written as infinity with the index 0. The invocations
    read a block of x row by row, 32 neighbouring elements at a time, and then each its own row from workgroup memory.
    """
    block = pd.shared((COLUMNS, ROWS + 1), pd.f32)  # one column more: a row of x is stored in other banks
    largest = pd.shared((K + 1, ROWS), pd.f32)  # infinity, then those of each row in descending order
    numbers = pd.shared((K + 1, ROWS), pd.i32)
    first, lane = pd.group_id(0) * ROWS, pd.local_id(0)
    largest[0, lane], numbers[0, lane] = math.inf, 0
    for rank in range(1, K + 1):
        largest[rank, lane], numbers[rank, lane] = math.nan, 0  # no element is less or equal
    for begin in range(0, x.shape[1], COLUMNS):
        for row in range(min(ROWS, x.shape[0] - first)):
            if lane < COLUMNS and begin + lane < x.shape[1]:
                block[lane, row] = x[first + row, begin + lane]
        pd.barrier()
        for j in range(begin, min(begin + COLUMNS, x.shape[1])):
            element, column = block[j - begin, lane], pd.i32(j)
            for step in range(K):
                rank = K - step
                value, index = largest[rank, lane], numbers[rank, lane]
                before, index_before = largest[rank - 1, lane], numbers[rank - 1, lane]
                # Stay, take the element, or move down the one before, from the last rank to the first.
                largest[rank, lane] = value if element <= value else element if element <= before else before
                numbers[rank, lane] = index if element <= value else column if element <= before else index_before
        pd.barrier()
    row = first + lane
    if row < x.shape[0]:
        for rank in range(K):
            values[row, rank], indices[row, rank] = largest[rank + 1, lane], numbers[rank + 1, lane]


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of rows with many equal elements; one row has three elements above -inf."""
    x = random.integers(-50, 50, (70, 100)).astype(np.float32)
    x[4, 3:] = -np.inf
    indices = np.argsort(-x, axis=1, kind="stable")[:, :K]
    operands = x, np.zeros((70, K), np.float32), np.zeros((70, K), np.int32)
    return [Case(top_k, operands, (np.take_along_axis(x, indices, 1), indices))]


if __name__ == "__main__":
    run(cases)
