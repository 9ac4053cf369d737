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
    """Write y, and the logarithms of the sums of exponentials, from which the gradients compute weights again."""
    heads, n, size = q.shape
    for row in numba.prange(heads * n):
        head, i = row // n, row % n
        group = head // (heads // k.shape[0])
        powers, result = np.empty(n, np.float32), np.zeros(size, np.float32)
        top, total = np.float32(-np.inf), np.float32(0)
        for j in range(i + 1):
            powers[j] = dot(q[head, i], k[group, j]) * SCALE
            top = max(top, powers[j])
        for j in range(i + 1):
            powers[j] = math.exp(powers[j] - top)
            total += powers[j]
        for j in range(i + 1):
            for c in range(size):
                result[c] += powers[j] * v[group, j, c]
        for c in range(size):
            y[head, i, c] = result[c] / total
        log_sums[head, i] = top + math.log(total)


@jit
def attention_of_queries(q, k, v, y, dy, log_sums, dq):
    """Write dq, the gradient of queries. dy: the gradient of y."""
    heads, n, size = q.shape
    for row in numba.prange(heads * n):
        head, i = row // n, row % n
        group = head // (heads // k.shape[0])
        total, along = np.zeros(size, np.float32), dot(dy[head, i], y[head, i])
        for j in range(i + 1):
            power = math.exp(dot(q[head, i], k[group, j]) * SCALE - log_sums[head, i])
            score = power * (dot(dy[head, i], v[group, j]) - along) * SCALE
            for c in range(size):
                total[c] += score * k[group, j, c]
        for c in range(size):
            dq[head, i, c] = total[c]


@jit
def attention_of_keys(q, k, v, y, dy, log_sums, dk, dv):
    """Write dk and dv, sums over the queries at and after each key's position in all heads that share the key."""
    heads, n, size = q.shape
    groups = k.shape[0]
    share = heads // groups  # heads of queries for each head of keys and values
    along = np.empty((heads, n), np.float32)  # of each query, the product of dy and y
    for row in numba.prange(heads * n):
        along[row // n, row % n] = dot(dy[row // n, row % n], y[row // n, row % n])
    for row in numba.prange(groups * n):
        group, j = row // n, row % n
        keys, values = np.zeros(size, np.float32), np.zeros(size, np.float32)
        for head in range(group * share, (group + 1) * share):
            for i in range(j, n):
                power = math.exp(dot(q[head, i], k[group, j]) * SCALE - log_sums[head, i])
                score = power * (dot(dy[head, i], v[group, j]) - along[head, i]) * SCALE
                for c in range(size):
                    values[c] += power * dy[head, i, c]
                    keys[c] += score * q[head, i, c]
        for c in range(size):
            dk[group, j, c], dv[group, j, c] = keys[c], values[c]
