"""Prefix sums in one pass: each workgroup looks back at the sums of those before it (decoupled look-back).

Merrill, Garland: Single-pass parallel prefix scan with decoupled look-back. NVIDIA, 2016.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

BLOCK = 64
OWN, ALL = 1 << 29, 1 << 30
"""Marks in the word of a block: the sum of its elements, and that of all elements up to its end."""
Integers = Annotated[pd.View, pd.i32["n"]]


@pd.kernel(workgroup=BLOCK, grid=lambda x, *_: pd.cdiv(x.shape[0], BLOCK))
def prefix_sum(
    x: Integers, y: Integers, blocks: Annotated[pd.View, pd.i32["blocks"]], ticket: Annotated[pd.View, pd.i32[1]]
) -> None:
    """Sums are below 2^29. Blocks are taken in the order in which workgroups begin: none waits for a later one."""
    sums = pd.shared((2, BLOCK), pd.i32)
    shared = pd.shared(2, pd.i32)  # the number of the block, and the sum of the elements before it
    lane = pd.local_id(0)
    if lane == 0:
        shared[0] = pd.atomic_add(ticket, 0, 1)
    pd.barrier()
    i = shared[0] * BLOCK + lane
    sums[0, lane] = x[i] if i < x.shape[0] else 0
    pd.barrier()
    step, last = 1, 0
    while step < BLOCK:
        sums[1 - last, lane] = sums[last, lane] + (sums[last, lane - step] if lane >= step else 0)
        pd.barrier()
        step, last = 2 * step, 1 - last
    if lane == 0:
        block, own, before = shared[0], sums[last, BLOCK - 1], 0
        pd.atomic_exchange(blocks, block, own + OWN)
        earlier = block - 1
        while earlier >= 0:
            word = pd.atomic_or(blocks, earlier, 0)
            if word >= ALL:
                before += word - ALL
                break
            if word >= OWN:
                before += word - OWN
                earlier -= 1
        pd.atomic_exchange(blocks, block, before + own + ALL)
        shared[1] = before
    pd.barrier()
    j = shared[0] * BLOCK + lane
    if j < y.shape[0]:
        y[j] = shared[1] + sums[last, lane]


def cases(random: np.random.Generator) -> list[Case]:
    x = random.integers(0, 1000, 300).astype(np.int32)
    sums = np.cumsum(x)
    ends = np.append(sums[BLOCK - 1 :: BLOCK], sums[-1]) + ALL
    operands = x, np.zeros_like(x), np.zeros(5, np.int32), np.zeros(1, np.int32)
    return [Case(prefix_sum, operands, (sums, ends, 5))]


if __name__ == "__main__":
    run(cases)
