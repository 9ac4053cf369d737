"""The largest elements of each row with their indices: each is found by two reductions of the workgroup."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

SIZE, K = 128, 8


@pd.kernel(workgroup=SIZE, grid=lambda x, *_: x.shape[0])
def top_k(
    x: Annotated[pd.View, pd.f32["m", "n"]],
    values: Annotated[pd.View, pd.f32["m", K]],
    indices: Annotated[pd.View, pd.i32["m", K]],
) -> None:
    """Rows of at most 128 elements. Of equal elements the one with the lower index comes first."""
    keys = pd.shared(SIZE, pd.f32)
    numbers = pd.shared(SIZE, pd.i32)  # the lane; SIZE for elements that have been found
    row, lane = pd.group_id(0), pd.local_id(0)
    keys[lane] = x[row, lane] if lane < x.shape[1] else -math.inf
    numbers[lane] = pd.i32(lane)
    for rank in range(K):
        largest = pd.group_max(keys[lane])
        winner = pd.group_min(numbers[lane] if keys[lane] == largest else SIZE)
        if lane == winner:
            keys[lane], numbers[lane] = -math.inf, SIZE
            values[row, rank], indices[row, rank] = largest, winner


def cases(random: np.random.Generator) -> list[Case]:
    x = random.integers(-50, 50, (5, 100)).astype(np.float32)
    x[4, 3:] = -np.inf
    indices = np.argsort(-x, axis=1, kind="stable")[:, :K]
    operands = x, np.zeros((5, K), np.float32), np.zeros((5, K), np.int32)
    return [Case(top_k, operands, (np.take_along_axis(x, indices, 1), indices))]


if __name__ == "__main__":
    run(cases)
