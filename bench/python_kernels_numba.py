"""The kernels of examples/python_kernels as plain loops, as users of Numba write them: bench/python_kernels.py."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def saxpy(a, x, y):
    for i in numba.prange(x.shape[0]):
        y[i] = a * x[i] + y[i]


@jit
def swish(x, y, beta):
    for i in numba.prange(x.shape[0]):
        y[i] = x[i] / (np.float32(1) + math.exp(-beta * x[i]))


@jit
def softmax(x, y):
    for row in numba.prange(x.shape[0]):
        top = np.float32(-np.inf)
        for j in range(x.shape[1]):
            top = max(top, x[row, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            power = math.exp(x[row, j] - top)
            y[row, j] = power
            total += power
        for j in range(x.shape[1]):
            y[row, j] /= total


@jit
def matmul(a, b, c):
    for i in numba.prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@jit
def histogram(x, bins):
    threads = numba.get_num_threads()
    parts = np.zeros((threads, bins.shape[0]), np.int32)
    for t in numba.prange(threads):
        for i in range(t * x.shape[0] // threads, (t + 1) * x.shape[0] // threads):
            if 0 <= x[i] < bins.shape[0]:
                parts[t, x[i]] += 1
    for t in range(threads):
        for i in range(bins.shape[0]):
            bins[i] += parts[t, i]


@jit
def blur(x, y):
    rows, columns = x.shape
    for i in numba.prange(rows):
        for j in range(columns):
            total = x[i, j]
            if i > 0:
                total += x[i - 1, j]
            if i + 1 < rows:
                total += x[i + 1, j]
            if j > 0:
                total += x[i, j - 1]
            if j + 1 < columns:
                total += x[i, j + 1]
            y[i, j] = total / np.float32(5)


@jit
def prefix_sums(x, y):
    for block in numba.prange((x.shape[0] + 127) // 128):
        total = np.float32(0)
        for i in range(block * 128, min(x.shape[0], block * 128 + 128)):
            total += x[i]
            y[i] = total


FUNCTIONS = {each.__name__: each for each in (saxpy, swish, softmax, matmul, histogram, blur, prefix_sums)}
