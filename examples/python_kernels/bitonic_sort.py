"""Rows in descending order with the indices of their elements, by a bitonic sort in workgroup memory."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

SIZE = 128
Rows = Annotated[pd.View, pd.f32["m", "n"]]


@pd.kernel(workgroup=SIZE, grid=lambda x, *_: x.shape[0])
def bitonic_sort(x: Rows, values: Rows, indices: Annotated[pd.View, pd.i32["m", "n"]]) -> None:
    """Rows of at most 128 elements. Equal elements are in the order of their indices."""
    keys = pd.shared(SIZE, pd.f32)
    numbers = pd.shared(SIZE, pd.i32)
    row, lane = pd.group_id(0), pd.local_id(0)
    keys[lane] = x[row, lane] if lane < x.shape[1] else -math.inf
    numbers[lane] = pd.i32(lane)
    pd.barrier()
    run = 2
    while run <= SIZE:
        distance = run // 2
        while distance > 0:
            other = lane ^ distance
            if other > lane:
                a, b, m, n = keys[lane], keys[other], numbers[lane], numbers[other]
                is_first = a > b or (a == b and m < n)
                if is_first != (lane & run == 0):
                    keys[lane], keys[other], numbers[lane], numbers[other] = b, a, n, m
            pd.barrier()
            distance //= 2
        run *= 2
    if lane < x.shape[1]:
        values[row, lane], indices[row, lane] = keys[lane], numbers[lane]


def cases(random: np.random.Generator) -> list[Case]:
    x = random.integers(-50, 50, (5, 100)).astype(np.float32)
    indices = np.argsort(-x, axis=1, kind="stable")
    operands = x, np.zeros_like(x), np.zeros((5, 100), np.int32)
    return [Case(bitonic_sort, operands, (np.take_along_axis(x, indices, 1), indices))]


if __name__ == "__main__":
    run(cases)
