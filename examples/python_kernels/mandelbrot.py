"""The Mandelbrot set: a loop with early exit."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

STEPS = 40
"""Steps of a point that does not escape."""


@pd.kernel(workgroup=(16, 4))
def mandelbrot(counts: Annotated[pd.View, pd.i32["m", "n"]], step: Annotated[float, pd.f32]) -> None:
    """Count the steps until a point is known to escape, at most 40. step: distance of neighbouring points."""
    j, i = pd.global_id(0), pd.global_id(1)
    if i >= counts.shape[0] or j >= counts.shape[1]:
        return
    x, y = pd.f32(j) * step - 2.0, pd.f32(i) * step - 1.0
    a, b, count = 0.0, 0.0, STEPS
    for k in range(STEPS):
        if a * a + b * b > 4.0:
            count = pd.i32(k)
            break
        a, b = a * a - b * b + x, 2.0 * a * b + y
    counts[i, j] = count


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 17 x 24 points; NumPy counts their steps in complex numbers."""
    del random
    step = 0.125  # a power of two: no rounding in the first steps, so that all devices agree
    rows, columns = np.mgrid[0:17, 0:24].astype(np.float32)
    c = (columns * np.float32(step) - 2) + 1j * (rows * np.float32(step) - 1)
    z, counts = np.zeros_like(c), np.full(c.shape, STEPS, np.int32)
    for k in range(STEPS):
        counts = np.where((np.abs(z) > 2) & (counts == STEPS), k, counts)
        z = np.where(counts == STEPS, z * z + c, 3)  # points that have escaped do not overflow
    return [Case(mandelbrot, (np.zeros(c.shape, np.int32), step), (counts,))]


if __name__ == "__main__":
    run(cases)
