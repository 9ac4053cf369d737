"""Rows in descending order with the indices of their elements, by a bitonic sort in workgroup memory."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

ROWS, PAIRS, SIZE = 16, 16, 128
"""Rows of a workgroup, invocations for each row, and elements of a row in workgroup memory."""
Rows = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=(ROWS, PAIRS), grid=lambda x, *_: pd.cdiv(x.shape[0], ROWS))
def bitonic_sort(x: Rows, values: Rows, indices: Annotated[pd.View, pd.i32["m", "n"]]) -> None:
    """Sort rows of at most 128 elements, 16 in a workgroup. Equal elements are in the order of their indices.

    Invocations that follow each other have the same elements of different rows, so they agree in all conditions on
    indices.
    """
    keys = pd.shared((SIZE, ROWS), pd.f32)
    numbers = pd.shared((SIZE, ROWS), pd.i32)
    lane, row = pd.local_id(0), pd.global_id(0)
    for j in range(pd.local_id(1), SIZE, PAIRS):
        is_inside = row < x.shape[0] and j < x.shape[1]
        keys[j, lane] = x[row, j] if is_inside else -math.inf
        numbers[j, lane] = pd.i32(j)
    pd.barrier()
    run = 2  # elements that are sorted together; every second run is ascending
    while run <= SIZE:
        distance = run // 2
        while distance > 0:
            for pair in range(pd.local_id(1), SIZE // 2, PAIRS):
                low = 2 * pair - pair % distance  # the first of a pair of elements that are `distance` apart
                high = low + distance
                a, b, m, n = keys[low, lane], keys[high, lane], numbers[low, lane], numbers[high, lane]
                is_first = a > b or (a == b and m < n)  # a before b in the result
                stays = is_first == (low & run == 0)
                keys[low, lane], keys[high, lane] = pd.where(stays, a, b), pd.where(stays, b, a)
                numbers[low, lane], numbers[high, lane] = pd.where(stays, m, n), pd.where(stays, n, m)
            pd.barrier()
            distance //= 2
        run *= 2
    if row < x.shape[0]:
        for j in range(pd.local_id(1), x.shape[1], PAIRS):
            values[row, j], indices[row, j] = keys[j, lane], numbers[j, lane]


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of rows of 100 elements, many of them equal; NumPy sorts them in a stable way."""
    x = random.integers(-50, 50, (5, 100)).astype(np.float32)
    indices = np.argsort(-x, axis=1, kind="stable")
    operands = x, np.zeros_like(x), np.zeros((5, 100), np.int32)
    return [Case(bitonic_sort, operands, (np.take_along_axis(x, indices, 1), indices))]


if __name__ == "__main__":
    run(cases)
