"""Softmax cross-entropy of rows of logits with its gradient, in one kernel.

A row whose label is below 0 has the loss 0.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

Rows = Annotated[pd.View, pd.f32["m", "n"]]
Labels = Annotated[pd.View, pd.i32["m"]]  # class of each row


@pd.kernel(workgroup=64, grid=lambda x, *_: x.shape[0])
def cross_entropy(x: Rows, labels: Labels, losses: Annotated[pd.View, pd.f32["m"]], dx: Rows) -> None:
    """Compute the losses of the logits x, and the gradient dx of their sum."""
    row, lane = pd.group_id(0), pd.local_id(0)
    top = pd.f32(-math.inf)
    for j in range(lane, x.shape[1], 64):
        top = max(top, x[row, j])
    highest = pd.group_max(top)
    part = 0.0
    for j in range(lane, x.shape[1], 64):
        power = pd.exp(x[row, j] - highest)
        dx[row, j] = power
        part += power
    total = pd.group_sum(part)
    label = labels[row]
    for j in range(lane, x.shape[1], 64):
        dx[row, j] = dx[row, j] / total - (1.0 if j == label else 0.0) if label >= 0 else 0.0
    if lane == 0:
        losses[row] = highest + pd.log(total) - x[row, label] if label >= 0 else 0.0


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 9 rows, one of them with a negative label."""
    x = random.standard_normal((9, 150), np.float32) * 4
    labels = random.integers(0, 150, 9).astype(np.int32)
    labels[4] = -1
    rows, counts = np.arange(9), labels >= 0
    log_sums = np.log(np.exp(x.astype(np.float64)).sum(1))
    losses = np.where(counts, log_sums - x[rows, labels], 0)
    dx = np.exp(x - log_sums[:, None])
    dx[rows, labels] -= 1
    dx[~counts] = 0
    return [Case(cross_entropy, (x, labels, np.zeros(9, np.float32), np.zeros_like(x)), (losses, dx), 1e-5)]


if __name__ == "__main__":
    run(cases)
