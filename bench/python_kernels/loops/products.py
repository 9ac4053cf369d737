"""Products of matrices, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import ml_dtypes
import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def matmul(a, b, c):
    """Write the product of a and b to c, a row on one thread."""
    for i in numba.prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@jit
def int4_product(w, scales, x, y):
    """Multiply w by x. A byte has two weights, offset by 8, the even column in low bits; 32 columns have a scale."""
    for row in numba.prange(w.shape[0]):
        total = np.float32(0)
        for g in range(scales.shape[1]):
            group_total = np.float32(0)
            for p in range(16 * g, 16 * (g + 1)):  # pairs of columns
                byte = np.int32(w[row, p])
                group_total += np.float32((byte & 15) - 8) * x[2 * p] + np.float32((byte >> 4) - 8) * x[2 * p + 1]
            total += scales[row, g] * group_total
        y[row] = total


@jit
def grouped_product(a, a2, a3, b, b2, b3, y, y2, y3):
    """Compute three products of different sizes one after another: y = a @ b, y2 = a2 @ b2, y3 = a3 @ b3."""
    matmul(a, b, y)
    matmul(a2, b2, y2)
    matmul(a3, b3, y3)


@jit
def product_with_epilogue(a, b, bias, y):
    """Compute leaky ReLU of a @ b + bias, with a slope of 0.01 below 0."""
    for i in numba.prange(a.shape[0]):
        for j in range(b.shape[1]):
            y[i, j] = bias[j]
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                y[i, j] += a[i, k] * b[k, j]
        for j in range(b.shape[1]):
            y[i, j] = y[i, j] if y[i, j] > 0 else np.float32(0.01) * y[i, j]


@jit
def int4_matmul(x, w, scales, y):
    """Multiply x by w. A byte has the 4-bit weights, offset by 8, of two rows in a column, the even one in low bits.

    A group of 32 rows is unpacked for 256 columns at a time, which stay in the first-level cache.
    """
    m, n = y.shape
    for block in numba.prange((n + 255) // 256):
        begin, end = block * 256, min(n, block * 256 + 256)
        weights = np.empty((32, 256), np.float32)
        y[:, begin:end] = 0
        for group in range(scales.shape[0]):
            for pair in range(16):
                for j in range(begin, end):
                    byte = np.int32(w[16 * group + pair, j])
                    weights[2 * pair, j - begin] = np.float32((byte & 15) - 8) * scales[group, j]
                    weights[2 * pair + 1, j - begin] = np.float32((byte >> 4) - 8) * scales[group, j]
            for i in range(m):
                for k in range(32):
                    for j in range(begin, end):
                        y[i, j] += x[i, 32 * group + k] * weights[k, j - begin]


E4M3 = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
"""By the bits of an 8-bit float its value: Numba has no such type."""


@jit
def scaled_product(a, a_scales, b, b_scales, y):
    """Multiply a by the transpose of b, bytes of 8-bit floats with a scale for each 32 columns of a row."""
    m, k = a.shape
    right = np.empty((k, b.shape[0]), np.float32)
    for p in numba.prange(k):
        for j in range(b.shape[0]):
            right[p, j] = E4M3[b[j, p]] * b_scales[j, p // 32]
    for i in numba.prange(m):
        for j in range(b.shape[0]):
            y[i, j] = 0
        for p in range(k):
            left = E4M3[a[i, p]] * a_scales[i, p // 32]
            for j in range(b.shape[0]):
                y[i, j] += left * right[p, j]
