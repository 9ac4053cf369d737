"""The assignment of k-means: the nearest centre of each point and its distance, centres in workgroup memory."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

CENTRES, SIZE = 16, 3
"""Number of centres, and coordinates of a point."""


@pd.kernel(workgroup=64)
def nearest_centre(
    points: Annotated[pd.View, pd.f32["n", SIZE]],
    centres: Annotated[pd.View, pd.f32[CENTRES, SIZE]],
    numbers: Annotated[pd.View, pd.i32["n"]],
    distances: Annotated[pd.View, pd.f32["n"]],
) -> None:
    """Write the index of the nearest centre of each point to `numbers`; of equal distances, the lowest index."""
    near = pd.shared((CENTRES, SIZE), pd.f32)
    lane, i = pd.local_id(0), pd.global_id(0)
    if lane < CENTRES * SIZE:
        near[lane // SIZE, lane % SIZE] = centres[lane // SIZE, lane % SIZE]
    pd.barrier()
    if i < points.shape[0]:
        least, best = pd.f32(math.inf), 0
        for c in range(CENTRES):
            distance = 0.0
            for k in range(SIZE):
                distance += (points[i, k] - near[c, k]) ** 2
            if distance < least:
                least, best = distance, pd.i32(c)
        numbers[i], distances[i] = best, pd.sqrt(least)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 150 random points."""
    points, centres = (
        random.standard_normal((150, SIZE), np.float32),
        random.standard_normal((CENTRES, SIZE), np.float32),
    )
    distances = np.sqrt(((points[:, None] - centres) ** 2).sum(2))
    operands = points, centres, np.zeros(150, np.int32), np.zeros(150, np.float32)
    return [Case(nearest_centre, operands, (distances.argmin(1), distances.min(1)), 1e-5)]


if __name__ == "__main__":
    run(cases)
