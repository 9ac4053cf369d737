"""Prefix sums in one pass: each workgroup looks back at the sums of those before it (decoupled look-back).

Merrill, Garland: Single-pass parallel prefix scan with decoupled look-back. NVIDIA, 2016.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

LANES, SHARE = 128, 128
"""Invocations of a workgroup, and elements that each of them adds up. Fewer make workgroups wait for each other."""
BLOCK = LANES * SHARE
"""Elements of a workgroup."""
OWN, ALL = 1 << 29, 1 << 30
"""Marks in the word of a block: the sum of its elements, and that of all elements up to its end."""
Integers = Annotated[pd.View, pd.i32["n"]]


@pd.kernel(workgroup=LANES, grid=lambda x, *_: pd.cdiv(x.shape[0], BLOCK))
def prefix_sum(
    x: Integers, y: Integers, blocks: Annotated[pd.View, pd.i32["blocks"]], ticket: Annotated[pd.View, pd.i32[1]]
) -> None:
    """Compute sums below 2^29 of elements from 0 on: words of blocks with negative sums would not have their marks.

    A workgroup takes the next block when it begins, so that none waits for a later one.

    blocks: a word for each block, its sum plus a mark, 0 before. ticket: the number of blocks taken, 0 before.
    """
    sums = pd.shared((2, LANES), pd.i32)  # up to the end of each invocation's elements: of a step and of the one before
    shared = pd.shared(2, pd.i32)  # the number of the block, and the sum of the elements before it
    lane = pd.local_id(0)
    if lane == 0:
        shared[0] = pd.atomic_add(ticket, 0, 1)
    pd.barrier()
    begin = shared[0] * BLOCK + lane * SHARE
    part = 0
    for i in range(begin, min(begin + SHARE, x.shape[0])):
        part += x[i]
    sums[0, lane] = part
    pd.barrier()
    step, last = 1, 0
    while step < LANES:
        sums[1 - last, lane] = sums[last, lane] + (sums[last, lane - step] if lane >= step else 0)
        pd.barrier()
        step, last = 2 * step, 1 - last
    if lane == 0:
        block, own, before = shared[0], sums[last, LANES - 1], 0
        pd.atomic_exchange(blocks, block, own + OWN)
        earlier = block - 1
        while earlier >= 0:
            word = pd.atomic_or(blocks, earlier, 0)  # an atomic load
            if word >= ALL:
                before += word - ALL
                break
            if word >= OWN:  # else the block has no sum yet, and is read again
                before += word - OWN
                earlier -= 1
        pd.atomic_exchange(blocks, block, before + own + ALL)
        shared[1] = before
    pd.barrier()
    first = shared[0] * BLOCK + lane * SHARE
    total = shared[1] + (sums[last, lane - 1] if lane > 0 else 0)
    for j in range(first, min(first + SHARE, y.shape[0])):
        total += x[j]
        y[j] = total


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case with two whole blocks and a partial one. The kernel writes y, the blocks' words and the ticket."""
    x = random.integers(0, 1000, 2 * BLOCK + 100).astype(np.int32)
    sums = np.cumsum(x)
    words = (np.append(sums[BLOCK - 1 :: BLOCK], sums[-1]) + ALL).astype(np.int32)  # the sum up to each block's end
    operands = x, np.zeros_like(x), np.zeros_like(words), np.zeros(1, np.int32)
    return [Case(prefix_sum, operands, expected=(sums, words, len(words)))]


if __name__ == "__main__":
    run(cases)
