"""Inverses of matrices of 3x3, each by one invocation in registers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from running import Case, run

import pydispatch as pd

Matrices = Annotated[pd.View, pd.f32["n", 3, 3]]


def cross(a: Any, b: Any) -> Any:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@pd.kernel(workgroup=64)
def inverses(x: Matrices, y: Matrices) -> None:
    """The columns of the inverse are products of two rows, divided by the determinant."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        a = x[i, 0, 0], x[i, 0, 1], x[i, 0, 2]
        b = x[i, 1, 0], x[i, 1, 1], x[i, 1, 2]
        c = x[i, 2, 0], x[i, 2, 1], x[i, 2, 2]
        bc, ca, ab = cross(b, c), cross(c, a), cross(a, b)
        scale = 1 / (a[0] * bc[0] + a[1] * bc[1] + a[2] * bc[2])
        y[i, 0, 0], y[i, 0, 1], y[i, 0, 2] = bc[0] * scale, ca[0] * scale, ab[0] * scale
        y[i, 1, 0], y[i, 1, 1], y[i, 1, 2] = bc[1] * scale, ca[1] * scale, ab[1] * scale
        y[i, 2, 0], y[i, 2, 1], y[i, 2, 2] = bc[2] * scale, ca[2] * scale, ab[2] * scale


def cases(random: np.random.Generator) -> list[Case]:
    x = random.standard_normal((70, 3, 3), np.float32) + 3 * np.eye(3, dtype=np.float32)
    return [Case(inverses, (x, np.zeros_like(x)), (np.linalg.inv(x.astype(np.float64)),), 1e-3)]


if __name__ == "__main__":
    run(cases)
