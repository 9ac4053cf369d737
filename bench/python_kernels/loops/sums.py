"""Prefix sums and sums of segments, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def prefix_sums(x, y):
    """Compute inclusive prefix sums of each block of 128 elements."""
    for block in numba.prange((x.shape[0] + 127) // 128):
        total = np.float32(0)
        for i in range(block * 128, min(x.shape[0], block * 128 + 128)):
            total += x[i]
            y[i] = total


@jit
def prefix_sum(x, y, blocks, ticket):
    """Compute inclusive prefix sums of all elements, in two passes over equal shares of x, one for each thread.

    blocks and ticket are scratch memory that only our own kernel, with the same parameters, needs.
    """
    threads = numba.get_num_threads()
    share = (x.shape[0] + threads - 1) // threads
    before = np.zeros(threads + 1, np.int32)  # of each thread, the sum of the elements before its share
    if threads > 1:  # a single thread has no elements before its share
        for t in numba.prange(threads):
            total = np.int32(0)
            for i in range(t * share, min((t + 1) * share, x.shape[0])):
                total += x[i]
            before[t + 1] = total
        for t in range(threads):  # sums of single shares become sums of all shares before
            before[t + 1] += before[t]
    for t in numba.prange(threads):
        total = before[t]
        for i in range(t * share, min((t + 1) * share, x.shape[0])):
            total += x[i]
            y[i] = total


@jit
def segmented_sum(x, segments, sums):
    """Add to sums[s] the elements of segment s, each thread in an array of its own first."""
    threads = numba.get_num_threads()
    of_threads = np.zeros((threads, sums.shape[0]), np.float32)
    for t in numba.prange(threads):
        for i in range(t * x.shape[0] // threads, (t + 1) * x.shape[0] // threads):
            of_threads[t, segments[i]] += x[i]
    for t in range(threads):
        for s in range(sums.shape[0]):
            sums[s] += of_threads[t, s]
