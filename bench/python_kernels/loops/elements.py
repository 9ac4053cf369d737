"""Loops over elements, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def saxpy(a, x, y):
    """Add a * x to y."""
    for i in numba.prange(x.shape[0]):
        y[i] = a * x[i] + y[i]


@jit
def swish(x, y, beta):
    """Write x * sigmoid(beta * x) to y."""
    for i in numba.prange(x.shape[0]):
        y[i] = x[i] / (np.float32(1) + math.exp(-beta * x[i]))


@jit
def histogram(x, bins):
    """Add to bins[b] how many elements are b, each thread in an array of its own; ignore elements without a bin."""
    threads = numba.get_num_threads()
    of_threads = np.zeros((threads, bins.shape[0]), np.int32)
    for t in numba.prange(threads):
        for i in range(t * x.shape[0] // threads, (t + 1) * x.shape[0] // threads):
            if 0 <= x[i] < bins.shape[0]:
                of_threads[t, x[i]] += 1
    for t in range(threads):
        for i in range(bins.shape[0]):
            bins[i] += of_threads[t, i]


@jit
def philox(seed, stream, words):
    """Write the four words of Philox 4x32 with 10 rounds for each counter i, of which (seed, stream) is the key."""
    for i in numba.prange(words.shape[0]):
        a, b, c, d = np.uint32(i), np.uint32(0), np.uint32(0), np.uint32(0)
        low, high = np.uint32(seed), np.uint32(stream)
        for _ in range(10):
            first, second = np.uint64(a) * np.uint64(0xD2511F53), np.uint64(c) * np.uint64(0xCD9E8D57)
            a, c = np.uint32(second >> np.uint64(32)) ^ b ^ low, np.uint32(first >> np.uint64(32)) ^ d ^ high
            b, d = np.uint32(second), np.uint32(first)
            low, high = np.uint32(low + np.uint32(0x9E3779B9)), np.uint32(high + np.uint32(0xBB67AE85))
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = a, b, c, d


@numba.njit(fastmath=True)
def eliminate(a):
    """Turn the left half of a 3x6 matrix into the identity by row operations, with pivots."""
    for step in range(3):
        for row in range(step + 1, 3):
            if abs(a[row, step]) > abs(a[step, step]):
                for column in range(6):
                    a[row, column], a[step, column] = a[step, column], a[row, column]
        scale = np.float32(1) / a[step, step]
        for column in range(6):
            a[step, column] *= scale
        for row in range(3):
            if row != step:
                factor = a[row, step]
                for column in range(6):
                    a[row, column] -= factor * a[step, column]


@jit
def inverses(x, y):
    """Invert matrices of 3x3: elimination turns [x | identity] into [identity | inverse]."""
    for i in numba.prange(x.shape[0]):
        a = np.zeros((3, 6), np.float32)
        for row in range(3):
            a[row, 3 + row] = 1
            for column in range(3):
                a[row, column] = x[i, row, column]
        eliminate(a)
        for row in range(3):
            for column in range(3):
                y[i, row, column] = a[row, 3 + column]


@jit
def rotary_embedding(x, positions, y):
    """Rotate each pair (i, i + size / 2) of a head by its token's position times 10000 ** (-i / (size / 2))."""
    tokens, heads, size = x.shape
    half = size // 2
    for token in numba.prange(tokens):
        cosines, sines = np.empty(half, np.float32), np.empty(half, np.float32)
        for pair in range(half):
            # 10000 ** (-pair / half), as a power of 2
            frequency = np.float32(2) ** (np.float32(-math.log2(10000)) * np.float32(pair) / np.float32(half))
            angle = np.float32(positions[token]) * frequency
            cosines[pair], sines[pair] = math.cos(angle), math.sin(angle)
        for head in range(heads):
            for pair in range(half):
                a, b = x[token, head, pair], x[token, head, pair + half]
                y[token, head, pair] = a * cosines[pair] - b * sines[pair]
                y[token, head, pair + half] = b * cosines[pair] + a * sines[pair]
