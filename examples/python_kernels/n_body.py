"""Accelerations of bodies by gravity: each workgroup reads 64 bodies at a time into workgroup memory."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

BLOCK, SOFTENING = 64, 1e-2
"""Bodies that a workgroup reads at a time, and an addition to squared distances, so that none is 0."""
Bodies = Annotated[pd.View, pd.f32["n", 4]]  # x, y, z and mass


@pd.kernel(workgroup=BLOCK)
def accelerations(bodies: Bodies, result: Annotated[pd.View, pd.f32["n", 3]]) -> None:
    """Add up the pull of all bodies on each. A body is x, y, z and mass."""
    block = pd.shared((BLOCK, 4), pd.f32)
    i, lane = pd.global_id(0), pd.local_id(0)
    ax, ay, az = 0.0, 0.0, 0.0
    for begin in range(0, bodies.shape[0], BLOCK):
        for k in range(4):
            block[lane, k] = bodies[begin + lane, k] if begin + lane < bodies.shape[0] else 0.0  # without mass
        pd.barrier()
        if i < bodies.shape[0]:
            for j in range(BLOCK):
                dx, dy, dz = block[j, 0] - bodies[i, 0], block[j, 1] - bodies[i, 1], block[j, 2] - bodies[i, 2]
                near = pd.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
                pull = block[j, 3] * near * near * near
                ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        pd.barrier()
    if i < bodies.shape[0]:
        result[i, 0], result[i, 1], result[i, 2] = ax, ay, az


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 100 bodies, so that the last block is not full."""
    bodies = random.random((100, 4), np.float32)
    wide = bodies.astype(np.float64)
    between = wide[None, :, :3] - wide[:, None, :3]
    pulls = wide[:, 3] / ((between**2).sum(2) + SOFTENING) ** 1.5
    return [
        Case(accelerations, (bodies, np.zeros((100, 3), np.float32)), ((pulls[:, :, None] * between).sum(1),), 1e-4)
    ]


if __name__ == "__main__":
    run(cases)
