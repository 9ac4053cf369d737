"""Attention with causal mask and grouped queries, forward and backward, a block of keys at a time."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from running import Case, run

import pydispatch as pd

BLOCK, HEAD = 16, 16
"""Queries and keys of a block, and features of a head."""
SCALE = 1 / math.sqrt(HEAD)
"""Factor of the products of queries and keys."""
Queries = Annotated[pd.View, pd.f32["heads", "n", HEAD]]  # queries, and results of their shape
Keys = Annotated[pd.View, pd.f32["groups", "n", HEAD]]  # keys or values; several heads of queries share a group
Sums = Annotated[pd.View, pd.f32["heads", "n"]]  # one number for each query


@pd.kernel(workgroup=64, grid=lambda q, *_: (pd.cdiv(q.shape[1], BLOCK), q.shape[0]))
def attention(q: Queries, k: Keys, v: Keys, y: Queries, log_sums: Sums) -> None:
    """Compute 16 queries of a head in each workgroup. Heads of queries that share keys and values are a group.

    log_sums: log(sum(exp(scores))) of each query, from which the backward kernels get the probabilities again.
    """
    i, head = pd.group_id(0) * BLOCK, pd.group_id(1)
    group = head // (q.shape[0] // k.shape[0])
    queries, rows = q[head, i : i + BLOCK, :], i + pd.arange(BLOCK)[:, None]
    top, total = pd.full((BLOCK, 1), -math.inf, pd.f32), pd.zeros((BLOCK, 1), pd.f32)
    result = pd.zeros((BLOCK, HEAD), pd.f32)
    for j in range(0, min(i + BLOCK, k.shape[1]), BLOCK):
        scores = queries @ k[group, j : j + BLOCK, :].T * SCALE
        scores = pd.where(j + pd.arange(BLOCK) <= rows, scores, -math.inf)
        highest = pd.maximum(top, pd.max(scores, axis=1, keepdims=True))
        powers = pd.exp(scores - highest)
        scale = pd.exp(top - highest)
        total = total * scale + pd.sum(powers, axis=1, keepdims=True)
        result = result * scale + powers @ v[group, j : j + BLOCK, :]
        top = highest
    y[head, i : i + BLOCK, :] = result / total
    log_sums[head, i : i + BLOCK] = pd.sum(top + pd.log(total), axis=1)


def gradient_of_scores(
    q: pd.View, k: pd.View, v: pd.View, y: pd.View, dy: pd.View, log_sums: pd.View, head: int, i: int, j: int
) -> Any:
    """Return the probabilities of a block, and SCALE times the gradient of its scores.

    i, j: first query and first key of the block. dy: gradient of the result y.
    """
    group = head // (q.shape[0] // k.shape[0])
    rows, columns = i + pd.arange(BLOCK)[:, None], j + pd.arange(BLOCK)
    outer = dy[head, i : i + BLOCK, :]
    scores = q[head, i : i + BLOCK, :] @ k[group, j : j + BLOCK, :].T * SCALE
    powers = pd.where(columns <= rows, pd.exp(scores - log_sums[head, i : i + BLOCK][:, None]), 0.0)
    along = pd.sum(outer * y[head, i : i + BLOCK, :], axis=1, keepdims=True)
    inner = outer @ v[group, j : j + BLOCK, :].T
    return powers, powers * (inner - along) * SCALE


@pd.kernel(workgroup=64, grid=lambda q, *_: (pd.cdiv(q.shape[1], BLOCK), q.shape[0]))
def attention_of_queries(q: Queries, k: Keys, v: Keys, y: Queries, dy: Queries, log_sums: Sums, dq: Queries) -> None:
    """Compute the gradient of 16 queries of a head in each workgroup."""
    i, head = pd.group_id(0) * BLOCK, pd.group_id(1)
    total = pd.zeros((BLOCK, HEAD), pd.f32)
    for j in range(0, min(i + BLOCK, k.shape[1]), BLOCK):
        _, scores = gradient_of_scores(q, k, v, y, dy, log_sums, head, i, j)
        total += scores @ k[head // (q.shape[0] // k.shape[0]), j : j + BLOCK, :]
    dq[head, i : i + BLOCK, :] = total


@pd.kernel(workgroup=64, grid=lambda q, k, *_: (pd.cdiv(k.shape[1], BLOCK), k.shape[0]))
def attention_of_keys(
    q: Queries, k: Keys, v: Keys, y: Queries, dy: Queries, log_sums: Sums, dk: Keys, dv: Keys
) -> None:
    """Compute the gradients of 16 keys and values in each workgroup, over the queries of all heads that share them."""
    j, group = pd.group_id(0) * BLOCK, pd.group_id(1)
    share = q.shape[0] // k.shape[0]
    keys, values = pd.zeros((BLOCK, HEAD), pd.f32), pd.zeros((BLOCK, HEAD), pd.f32)
    for head in range(group * share, (group + 1) * share):
        for i in range(j, q.shape[1], BLOCK):  # earlier queries do not see these keys
            powers, scores = gradient_of_scores(q, k, v, y, dy, log_sums, head, i, j)
            values += powers.T @ dy[head, i : i + BLOCK, :]
            keys += scores.T @ q[head, i : i + BLOCK, :]
    dk[group, j : j + BLOCK, :] = keys
    dv[group, j : j + BLOCK, :] = values


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of each kernel, with 37 tokens, so that the last block is not full, and shared keys."""
    heads, groups, n = 4, 2, 37
    q, dy = random.standard_normal((2, heads, n, HEAD), np.float32)
    k, v = random.standard_normal((2, groups, n, HEAD), np.float32)
    every_k, every_v = (
        np.repeat(heads_of_group, heads // groups, axis=0).astype(np.float64) for heads_of_group in (k, v)
    )
    scores = np.where(np.tri(n, dtype=bool), q @ every_k.transpose(0, 2, 1) * SCALE, -np.inf)
    log_sums = np.log(np.exp(scores).sum(2))
    powers = np.exp(scores - log_sums[:, :, None])
    y = powers @ every_v
    dv = powers.transpose(0, 2, 1) @ dy
    inner = dy @ every_v.transpose(0, 2, 1) - (dy * y).sum(2, keepdims=True)
    dscores = powers * inner * SCALE
    dq, dk = dscores @ every_k, dscores.transpose(0, 2, 1) @ q
    dk, dv = (heads_of_group.reshape(groups, -1, n, HEAD).sum(1) for heads_of_group in (dk, dv))
    passed = q, k, v, y.astype(np.float32), dy, log_sums.astype(np.float32)
    return [
        Case(attention, (q, k, v, np.zeros_like(q), np.zeros((heads, n), np.float32)), (y, log_sums), 1e-4),
        Case(attention_of_queries, (*passed, np.zeros_like(q)), (dq,), 1e-4),
        Case(attention_of_keys, (*passed, np.zeros_like(k), np.zeros_like(v)), (dk, dv), 1e-4),
    ]


if __name__ == "__main__":
    run(cases)
