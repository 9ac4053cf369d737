"""Sums of the segments of a sorted list: an atomic addition where a segment ends within what an invocation reads."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

SHARE = 64
"""Elements that each invocation adds up."""


@pd.kernel(workgroup=64, grid=lambda x, *_: pd.cdiv(x.shape[0], 64 * SHARE))
def segmented_sum(
    x: Annotated[pd.View, pd.f32["n"]],
    segments: Annotated[pd.View, pd.i32["n"]],
    sums: Annotated[pd.View, pd.f32["segments"]],
) -> None:
    begin = pd.global_id(0) * SHARE
    end = min(begin + SHARE, x.shape[0])
    total = 0.0
    for i in range(begin, end):
        total += x[i]
        if i + 1 == end or segments[i + 1] != segments[i]:
            pd.atomic_add(sums, segments[i], total)
            total = 0.0


def cases(random: np.random.Generator) -> list[Case]:
    x, segments = random.standard_normal(900, np.float32), np.sort(random.integers(0, 50, 900)).astype(np.int32)
    sums = np.bincount(segments, x.astype(np.float64), minlength=50)
    return [Case(segmented_sum, (x, segments, np.zeros(50, np.float32)), (sums,), 1e-5)]


if __name__ == "__main__":
    run(cases)
