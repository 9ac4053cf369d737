"""Rotary position embedding of queries: each pair of elements is turned by an angle that grows with the position."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from running import Case, run

import pydispatch as pd

BASE = 10000.0
"""Frequencies of pairs fall from 1 towards 1 / BASE."""
Heads = Annotated[pd.View, pd.f32["tokens", "heads", "size"]]


@pd.kernel(workgroup=64)
def rotary_embedding(x: Heads, positions: Annotated[pd.View, pd.i32["tokens"]], y: Heads) -> None:
    """Turn one pair of a token in each invocation, for all heads, which have the same angle.

    Pair p consists of the elements p and p + size / 2.
    """
    pair, token = pd.global_id(0), pd.group_id(1)
    half = x.shape[2] // 2
    if pair < half:
        frequency = pd.exp2(-math.log2(BASE) * pd.f32(pair) / pd.f32(half))
        angle = pd.f32(positions[token]) * frequency
        cosine, sine = pd.cos(angle), pd.sin(angle)
        for head in range(x.shape[1]):
            a, b = x[token, head, pair], x[token, head, pair + half]
            y[token, head, pair] = a * cosine - b * sine
            y[token, head, pair + half] = b * cosine + a * sine


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of 7 tokens from position 5 on, with 3 heads of 32 elements."""
    x = random.standard_normal((7, 3, 32), np.float32)
    positions = np.arange(5, 12, dtype=np.int32)
    angles = positions[:, None, None] * BASE ** (-np.arange(16) / 16)
    a, b = x[:, :, :16], x[:, :, 16:]
    y = np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], axis=2)
    return [Case(rotary_embedding, (x, positions, np.zeros_like(x)), (y,), 1e-4)]


if __name__ == "__main__":
    run(cases)
