"""Products of several pairs of matrices of different sizes in one launch (grouped GEMM)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

BLOCK, DEPTH, GROUPS = 16, 16, 3
"""Rows and columns of a block of a result, depth of a step, and number of products."""
Matrices = Annotated[tuple[pd.View, ...], pd.f32[None, None], GROUPS]  # one for each product


@pd.kernel(workgroup=64, grid=4)
def grouped_product(a: Matrices, b: Matrices, y: Matrices) -> None:
    """Each workgroup takes every fourth block of the results, counted through all of them."""
    block = pd.group_id(0)
    for left, right, result in zip(a, b, y, strict=True):
        columns = pd.cdiv(result.shape[1], BLOCK)
        count = pd.cdiv(result.shape[0], BLOCK) * columns
        while block < count:
            i, j = block // columns * BLOCK, block % columns * BLOCK
            total = pd.zeros((BLOCK, BLOCK), pd.f32)
            for k in range(0, left.shape[1], DEPTH):
                total += left[i : i + BLOCK, k : k + DEPTH] @ right[k : k + DEPTH, j : j + BLOCK]
            result[i : i + BLOCK, j : j + BLOCK] = total
            block += pd.grid_size(0)
        block -= count  # the next block of this workgroup, within the next result


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of three products, none of which consists of full blocks only."""
    sizes = (20, 30, 40), (50, 7, 16), (3, 33, 5)
    a = [random.standard_normal((m, k), np.float32) for m, k, _ in sizes]
    b = [random.standard_normal((k, n), np.float32) for _, k, n in sizes]
    y = [left @ right for left, right in zip(a, b, strict=True)]
    return [Case(grouped_product, (*a, *b, *map(np.zeros_like, y)), tuple(y), 1e-4)]


if __name__ == "__main__":
    run(cases)
