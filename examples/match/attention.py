"""A pattern that finds attention written in NumPy, and a kernel in Python that replaces it on every target."""

import math
from typing import Annotated, Any

import numpy as np

import pydispatch as pd

QUERIES = pd.f32["sequence", "query", "group", "member", "feature"]
"""Heads that share keys and values are members of one group."""
KEYS = pd.f32["sequence", "key", "group", "feature"]
"""Type of keys and of values, one head for each group."""
SEEN = pd.i1["sequence", 1, 1, "query", "key"]
"""Whether a query attends to a key, in all heads."""


@pd.pattern
@pd.program
def attention(
    q: Annotated[Any, QUERIES], k: Annotated[Any, KEYS], v: Annotated[Any, KEYS], seen: Annotated[Any, SEEN]
) -> Any:
    """softmax(q @ k.T where seen) @ v, as `examples/llm/layers.py` has it."""
    scores = np.where(seen, np.einsum("stgmf,skgf->sgmtk", q, k), np.float32(-np.inf))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    return np.einsum("sgmtk,skgf->stgmf", shares, v)


@attention.replace
@pd.kernel(workgroup=64, grid=lambda q, k, v, seen, out: pd.cdiv(math.prod(q.shape[:4]), 64))
def one_query_each(
    q: Annotated[pd.View, QUERIES],
    k: Annotated[pd.View, KEYS],
    v: Annotated[pd.View, KEYS],
    seen: Annotated[pd.View, SEEN],
    out: Annotated[pd.View, QUERIES],
) -> None:
    """Compute one query of one head in each invocation; scores are never in memory.

    `total` and `out` are sums relative to exp(highest), so that a new highest score scales them down (online softmax).
    """
    row = pd.global_id(0)  # counts [sequence, query, group, member], members first
    member, rest = row % q.shape[3], row // q.shape[3]
    group, rest = rest % q.shape[2], rest // q.shape[2]
    query, sequence = rest % q.shape[1], rest // q.shape[1]
    if sequence < q.shape[0]:
        highest = -math.inf
        total = 0.0
        for i in range(q.shape[4]):
            out[sequence, query, group, member, i] = 0.0
        for key in range(k.shape[1]):
            if seen[sequence, 0, 0, query, key]:
                score = 0.0
                for i in range(q.shape[4]):
                    score += q[sequence, query, group, member, i] * k[sequence, key, group, i]
                before = highest
                highest = pd.maximum(highest, score)
                scale, power = pd.exp(before - highest), pd.exp(score - highest)
                total = total * scale + power
                for i in range(q.shape[4]):
                    value = power * v[sequence, key, group, i]
                    out[sequence, query, group, member, i] = out[sequence, query, group, member, i] * scale + value
        for i in range(q.shape[4]):
            out[sequence, query, group, member, i] = out[sequence, query, group, member, i] / total
