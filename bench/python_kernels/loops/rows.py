"""Loops over rows of a matrix, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def softmax(x, y):
    """Write the softmax of each row of x to y."""
    for row in numba.prange(x.shape[0]):
        largest = np.float32(-np.inf)
        for j in range(x.shape[1]):
            largest = max(largest, x[row, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            power = math.exp(x[row, j] - largest)
            y[row, j] = power
            total += power
        for j in range(x.shape[1]):
            y[row, j] /= total


@jit
def cross_entropy(x, labels, losses, dx):
    """Write the loss of each row and its gradient; both are 0 for a row whose label is negative."""
    for row in numba.prange(x.shape[0]):
        largest = x[row, 0]
        for j in range(1, x.shape[1]):
            largest = max(largest, x[row, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            dx[row, j] = math.exp(x[row, j] - largest)
            total += dx[row, j]
        label = labels[row]
        for j in range(x.shape[1]):
            dx[row, j] = dx[row, j] / total - np.float32(j == label) if label >= 0 else np.float32(0)
        losses[row] = largest + math.log(total) - x[row, label] if label >= 0 else np.float32(0)


@jit
def layer_norm(x, w, b, y):
    """Write each row of x, normalized to mean 0 and variance 1, times w plus b, to y."""
    m, n = x.shape
    for row in numba.prange(m):
        total = squares = np.float32(0)
        for j in range(n):
            total += x[row, j]
        mean = total / np.float32(n)
        for j in range(n):
            squares += (x[row, j] - mean) ** 2
        scale = np.float32(1) / math.sqrt(squares / np.float32(n) + np.float32(1e-5))
        for j in range(n):
            y[row, j] = (x[row, j] - mean) * scale * w[j] + b[j]


@jit
def layer_norm_backward(x, w, dy, dx, dw, db):
    """Write dx, the gradient of x, and add those of w and b to dw and db: sums of each thread's rows at first."""
    m, n = x.shape
    threads = numba.get_num_threads()
    of_threads = np.zeros((threads, 2, n), np.float32)  # sums of the gradients of w and b
    for t in numba.prange(threads):
        for row in range(t * m // threads, (t + 1) * m // threads):
            # With g = dy * w and the normalized row: dx = (g - mean(g) - normal * mean(g * normal)) * scale.
            total = squares = g_dot_normal = g_sum = np.float32(0)
            for j in range(n):
                total += x[row, j]
            mean = total / np.float32(n)
            for j in range(n):
                squares += (x[row, j] - mean) ** 2
            scale = np.float32(1) / math.sqrt(squares / np.float32(n) + np.float32(1e-5))
            for j in range(n):
                g_dot_normal += dy[row, j] * w[j] * (x[row, j] - mean) * scale
                g_sum += dy[row, j] * w[j]
            for j in range(n):
                normal = (x[row, j] - mean) * scale
                dx[row, j] = (dy[row, j] * w[j] - (g_sum + normal * g_dot_normal) / np.float32(n)) * scale
                of_threads[t, 0, j] += dy[row, j] * normal
                of_threads[t, 1, j] += dy[row, j]
    for t in range(threads):
        for j in range(n):
            dw[j] += of_threads[t, 0, j]
            db[j] += of_threads[t, 1, j]


@jit
def top_k(x, values, indices):
    """Write the k largest elements of each row, in descending order, and their columns: insertion into a list."""
    k = values.shape[1]
    for row in numba.prange(x.shape[0]):
        for rank in range(k):
            values[row, rank], indices[row, rank] = -np.inf, 0
        for j in range(x.shape[1]):
            value = x[row, j]
            if value <= values[row, k - 1]:
                continue
            rank = k - 1
            while rank > 0 and value > values[row, rank - 1]:
                values[row, rank], indices[row, rank] = values[row, rank - 1], indices[row, rank - 1]
                rank -= 1
            values[row, rank], indices[row, rank] = value, j


@jit
def bitonic_sort(x, values, indices):
    """Sort rows of at most 128 elements in descending order, and write their columns, too."""
    size = 128  # of the network; shorter rows are filled with -inf
    n = x.shape[1]
    for row in numba.prange(x.shape[0]):
        keys, numbers = np.full(size, -np.inf, np.float32), np.arange(size).astype(np.int32)
        for j in range(n):
            keys[j] = x[row, j]
        run = 2
        while run <= size:
            distance = run // 2
            while distance > 0:
                for i in range(size):
                    other = i ^ distance
                    if other > i:
                        a, b, p, q = keys[i], keys[other], numbers[i], numbers[other]
                        is_in_order = a > b or (a == b and p < q)  # larger ones first, then lower columns
                        is_descending = i & run == 0  # runs are sorted down and up in turns, pairs of which are bitonic
                        if is_in_order != is_descending:
                            keys[i], keys[other], numbers[i], numbers[other] = b, a, q, p
                distance //= 2
            run *= 2
        for j in range(n):
            values[row, j], indices[row, j] = keys[j], numbers[j]
