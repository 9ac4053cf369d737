"""Loops over the points of a grid, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def blur(x, y):
    """Write a fifth of the sum of each point and its four neighbours; those outside of the grid count as 0."""
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
def heat(x, y, rate):
    """Compute one step of the heat equation; points outside of the grid have the value 0."""
    m, n = x.shape
    for i in numba.prange(m):
        for j in range(n):
            around = (x[i - 1, j] if i > 0 else np.float32(0)) + (x[i + 1, j] if i + 1 < m else np.float32(0))
            around += (x[i, j - 1] if j > 0 else np.float32(0)) + (x[i, j + 1] if j + 1 < n else np.float32(0))
            y[i, j] = x[i, j] + rate * (around - np.float32(4) * x[i, j])


@jit
def mandelbrot(counts, step):
    """Count iterations, at most 40, until a point leaves the circle of radius 2. step: distance of points."""
    for i in numba.prange(counts.shape[0]):
        for j in range(counts.shape[1]):
            x, y = np.float32(j) * step - np.float32(2), np.float32(i) * step - np.float32(1)
            a = b = np.float32(0)
            count = 0
            while count < 40 and a * a + b * b <= np.float32(4):
                a, b = a * a - b * b + x, np.float32(2) * a * b + y
                count += 1
            counts[i, j] = count
