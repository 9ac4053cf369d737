"""Causal attention with grouped queries, for Numba: a query or a key at a time."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


SCALE = np.float32(0.25)
"""1 / sqrt(16), for heads of 16."""


@numba.njit(fastmath=True, inline="always")
def dot(a, b):
    """Return the dot product of two heads' vectors of 16 elements; inlined into its callers."""
    total = np.float32(0)
    for c in range(16):
        total += a[c] * b[c]
    return total


@jit
def attention(q, k, v, y, log_sums):
    """Write y = softmax(q kT * SCALE) v, where a query sees the keys up to its own position.

    log_sums: of each query, the logarithm of the sum of the exponentials of its scores; with it the gradients compute
    exp(score - log_sum), the weights.
    """
    heads, n, size = q.shape
    for row in numba.prange(heads * n):
        head, i = row // n, row % n
        group = head // (heads // k.shape[0])
        # weights: scores at first, then their exponentials, relative to the largest so that none overflows.
        weights, result = np.empty(n, np.float32), np.zeros(size, np.float32)
        largest, total = np.float32(-np.inf), np.float32(0)
        for j in range(i + 1):
            weights[j] = dot(q[head, i], k[group, j]) * SCALE
            largest = max(largest, weights[j])
        for j in range(i + 1):
            weights[j] = math.exp(weights[j] - largest)
            total += weights[j]
        for j in range(i + 1):
            for c in range(size):
                result[c] += weights[j] * v[group, j, c]
        for c in range(size):
            y[head, i, c] = result[c] / total
        log_sums[head, i] = largest + math.log(total)


@jit
def attention_of_queries(q, k, v, y, dy, log_sums, dq):
    """Write dq, the gradient of the queries. dy: the gradient of y. log_sums: the second result of `attention`."""
    heads, n, size = q.shape
    for row in numba.prange(heads * n):
        head, i = row // n, row % n
        group = head // (heads // k.shape[0])
        total, delta = np.zeros(size, np.float32), dot(dy[head, i], y[head, i])
        for j in range(i + 1):
            weight = math.exp(dot(q[head, i], k[group, j]) * SCALE - log_sums[head, i])
            # As in FlashAttention; delta is the effect of dividing by the sum of exponentials.
            score_gradient = weight * (dot(dy[head, i], v[group, j]) - delta) * SCALE
            for c in range(size):
                total[c] += score_gradient * k[group, j, c]
        for c in range(size):
            dq[head, i, c] = total[c]


@jit
def attention_of_keys(q, k, v, y, dy, log_sums, dk, dv):
    """Write dk and dv, the gradients of keys and values. dy: the gradient of y. log_sums: a result of `attention`.

    They are sums over the queries at and after each key's position in all heads that share the key.
    """
    heads, n, size = q.shape
    groups = k.shape[0]
    share = heads // groups  # heads of queries for each head of keys and values
    delta = np.empty((heads, n), np.float32)  # of each query, the product of dy and y
    for row in numba.prange(heads * n):
        delta[row // n, row % n] = dot(dy[row // n, row % n], y[row // n, row % n])
    for row in numba.prange(groups * n):
        group, j = row // n, row % n
        keys, values = np.zeros(size, np.float32), np.zeros(size, np.float32)
        for head in range(group * share, (group + 1) * share):
            for i in range(j, n):
                weight = math.exp(dot(q[head, i], k[group, j]) * SCALE - log_sums[head, i])
                # As in FlashAttention; delta is the effect of dividing by the sum of exponentials.
                score_gradient = weight * (dot(dy[head, i], v[group, j]) - delta[head, i]) * SCALE
                for c in range(size):
                    values[c] += weight * dy[head, i, c]
                    keys[c] += score_gradient * q[head, i, c]
        for c in range(size):
            dk[group, j, c], dv[group, j, c] = keys[c], values[c]
