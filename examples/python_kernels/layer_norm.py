"""Layer normalization, forward and backward, with atomic additions to the gradients of the weights."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]  # weights and biases
Rows = Annotated[pd.View, pd.f32["m", "n"]]
Share = Annotated[int, pd.static]  # rows of a workgroup
EPSILON = 1e-5
"""Addition to the variance, so that rows of equal elements are not divided by 0."""


@pd.kernel(workgroup=64, grid=lambda x, *_: x.shape[0])
def layer_norm(x: Rows, w: Vector, b: Vector, y: Rows) -> None:
    """Normalize a row in each workgroup, then apply the weights w and the biases b."""
    row, lane, n = pd.group_id(0), pd.local_id(0), x.shape[1]
    part = 0.0
    for j in range(lane, n, pd.group_size(0)):
        part += x[row, j]
    total = pd.group_sum(part)
    mean = total / pd.f32(n)
    squares = 0.0
    for j in range(lane, n, pd.group_size(0)):
        squares += (x[row, j] - mean) ** 2
    variance = pd.group_sum(squares)
    scale = pd.rsqrt(variance / pd.f32(n) + EPSILON)
    for j in range(lane, n, pd.group_size(0)):
        y[row, j] = (x[row, j] - mean) * scale * w[j] + b[j]


@pd.kernel(workgroup=64, grid=lambda x, w, dy, dx, dw, db, share: pd.cdiv(x.shape[0], share))
def layer_norm_backward(x: Rows, w: Vector, dy: Rows, dx: Rows, dw: Vector, db: Vector, share: Share = 128) -> None:
    """Compute the gradients of x, w and b from that of the result, dy. dw and db are added to.

    A workgroup takes `share` rows, so that one atomic addition adds that many terms of the gradient of a weight.
    """
    moments = pd.shared((share, 2), pd.f32)  # the mean of each row, and one over its standard deviation
    first, lane = pd.group_id(0) * share, pd.local_id(0)
    end = min(first + share, x.shape[0])
    n = pd.f32(x.shape[1])
    for row in range(first, end):
        part = 0.0
        for j in range(lane, x.shape[1], pd.group_size(0)):
            part += x[row, j]
        total = pd.group_sum(part)
        mean = total / n
        part, slope_part, shift_part = 0.0, 0.0, 0.0  # the gradient of a row has neither slope along x nor mean
        for j in range(lane, x.shape[1], pd.group_size(0)):
            part += (x[row, j] - mean) ** 2
            slope_part += dy[row, j] * w[j] * (x[row, j] - mean)
            shift_part += dy[row, j] * w[j]
        squares = pd.group_sum(part)
        slope = pd.group_sum(slope_part)
        shift = pd.group_sum(shift_part)
        scale = pd.rsqrt(squares / n + EPSILON)
        mean_shift, mean_slope = shift / n, slope * scale / n
        for j in range(lane, x.shape[1], pd.group_size(0)):
            normal = (x[row, j] - mean) * scale
            dx[row, j] = (dy[row, j] * w[j] - mean_shift - normal * mean_slope) * scale
        if lane == 0:
            moments[row - first, 0], moments[row - first, 1] = mean, scale
    pd.barrier()
    for begin in range(0, x.shape[1], 64):
        column = begin + lane
        if column < x.shape[1]:
            outer, outer_normal = 0.0, 0.0
            for row in range(first, end):
                normal = (x[row, column] - moments[row - first, 0]) * moments[row - first, 1]
                outer += dy[row, column]
                outer_normal += dy[row, column] * normal
            pd.atomic_add(db, column, outer)
            pd.atomic_add(dw, column, outer_normal)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of each kernel, with 40 rows; in the second, two workgroups add to dw and db."""
    x, dy = random.standard_normal((2, 40, 70), np.float32)
    w, b = random.standard_normal((2, 70), np.float32)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(1, keepdims=True) + EPSILON)
    normal = (wide - wide.mean(1, keepdims=True)) * scale
    g = dy.astype(np.float64) * w
    dx = (g - g.mean(1, keepdims=True) - normal * (g * normal).mean(1, keepdims=True)) * scale
    zeros, backward = np.zeros_like, layer_norm_backward.specialize(share=32)
    return [
        Case(layer_norm, (x, w, b, zeros(x)), (normal * w + b,), 1e-4),
        Case(backward, (x, w, dy, zeros(x), zeros(w), zeros(w)), (dx, (dy * normal).sum(0), dy.sum(0)), 1e-4),
    ]


if __name__ == "__main__":
    run(cases)
