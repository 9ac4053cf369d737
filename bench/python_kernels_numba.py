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


@jit
def heat(x, y, rate):
    m, n = x.shape
    for i in numba.prange(m):
        for j in range(n):
            around = (x[i - 1, j] if i > 0 else np.float32(0)) + (x[i + 1, j] if i + 1 < m else np.float32(0))
            around += (x[i, j - 1] if j > 0 else np.float32(0)) + (x[i, j + 1] if j + 1 < n else np.float32(0))
            y[i, j] = x[i, j] + rate * (around - np.float32(4) * x[i, j])


@jit
def mandelbrot(counts, step):
    for i in numba.prange(counts.shape[0]):
        for j in range(counts.shape[1]):
            x, y = np.float32(j) * step - np.float32(2), np.float32(i) * step - np.float32(1)
            a = b = np.float32(0)
            count = 0
            while count < 40 and a * a + b * b <= np.float32(4):
                a, b = a * a - b * b + x, np.float32(2) * a * b + y
                count += 1
            counts[i, j] = count


@jit
def accelerations(bodies, result):
    for i in numba.prange(bodies.shape[0]):
        ax = ay = az = np.float32(0)
        for j in range(bodies.shape[0]):
            dx, dy, dz = bodies[j, 0] - bodies[i, 0], bodies[j, 1] - bodies[i, 1], bodies[j, 2] - bodies[i, 2]
            near = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + np.float32(1e-2))
            pull = bodies[j, 3] * near * near * near
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        result[i, 0], result[i, 1], result[i, 2] = ax, ay, az


@jit
def nearest_centre(points, centres, numbers, distances):
    for i in numba.prange(points.shape[0]):
        least, best = np.float32(np.inf), 0
        for c in range(centres.shape[0]):
            distance = np.float32(0)
            for k in range(centres.shape[1]):
                distance += (points[i, k] - centres[c, k]) ** 2
            if distance < least:
                least, best = distance, c
        numbers[i], distances[i] = best, math.sqrt(least)


@jit
def int4_product(w, scales, x, y):
    for row in numba.prange(w.shape[0]):
        total = np.float32(0)
        for g in range(scales.shape[1]):
            part = np.float32(0)
            for at in range(16 * g, 16 * (g + 1)):
                byte = np.int32(w[row, at])
                part += np.float32((byte & 15) - 8) * x[2 * at] + np.float32((byte >> 4) - 8) * x[2 * at + 1]
            total += scales[row, g] * part
        y[row] = total


@jit
def cross_entropy(x, labels, losses, dx):
    for row in numba.prange(x.shape[0]):
        top = x[row, 0]
        for j in range(1, x.shape[1]):
            top = max(top, x[row, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            dx[row, j] = math.exp(x[row, j] - top)
            total += dx[row, j]
        label = labels[row]
        for j in range(x.shape[1]):
            dx[row, j] = dx[row, j] / total - np.float32(j == label) if label >= 0 else np.float32(0)
        losses[row] = top + math.log(total) - x[row, label] if label >= 0 else np.float32(0)


FUNCTIONS = {
    kernel.__name__: kernel
    for kernel in (
        saxpy, swish, softmax, matmul, histogram, blur, prefix_sums, heat, mandelbrot, accelerations, nearest_centre,
        int4_product, cross_entropy,
    )
}  # fmt: skip
