"""Sums of the segments of a sorted list: an atomic addition where a segment ends within what an invocation reads."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

SHARE, RUN = 256, 8
"""Elements that each invocation adds up, in runs of RUN elements."""


@pd.kernel(workgroup=64, grid=lambda x, *_: pd.cdiv(x.shape[0], 64 * SHARE))
def segmented_sum(
    x: Annotated[pd.View, pd.f32["n"]],
    segments: Annotated[pd.View, pd.i32["n"]],
    sums: Annotated[pd.View, pd.f32["segments"]],
) -> None:
    """Add x[i] to sums[segments[i]], where segments are sorted and sums are 0 before.

    If the last element of a run is of the current segment, so are those before it, and no other is compared.
    """
    begin = pd.global_id(0) * SHARE
    end = min(begin + SHARE, x.shape[0])
    if begin < end:
        segment, total = segments[begin], 0.0
        for first in range(begin, end, RUN):
            last = first + RUN - 1
            if last < end and segments[last] == segment:
                run = 0.0
                for k in range(RUN):
                    run += x[first + k]
                total += run
            else:
                for i in range(first, min(first + RUN, end)):
                    if segments[i] != segment:
                        pd.atomic_add(sums, segment, total)
                        segment, total = segments[i], 0.0
                    total += x[i]
        pd.atomic_add(sums, segment, total)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 900 elements in up to 50 segments."""
    x, segments = random.standard_normal(900, np.float32), np.sort(random.integers(0, 50, 900)).astype(np.int32)
    sums = np.bincount(segments, x.astype(np.float64), minlength=50)
    return [Case(segmented_sum, (x, segments, np.zeros(50, np.float32)), (sums,), 1e-5)]


if __name__ == "__main__":
    run(cases)
