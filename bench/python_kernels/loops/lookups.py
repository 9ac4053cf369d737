"""Loops that read or write by indices, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def embedding_bag(table, numbers, starts, y):
    """Write the mean of each bag's rows; its numbers end where the next bag begins. An empty bag gives zeros."""
    bags, n = y.shape
    for bag in numba.prange(bags):
        begin, end = starts[bag], starts[bag + 1] if bag + 1 < bags else numbers.shape[0]
        for j in range(n):
            y[bag, j] = 0
        for k in range(begin, end):
            for j in range(n):
                y[bag, j] += table[numbers[k], j]
        for j in range(n):
            y[bag, j] /= np.float32(max(end - begin, 1))


@jit
def gathered_rows(table, numbers, y):
    """Copy row numbers[i] of the table to row i; zeros for a number outside of the table."""
    for i in numba.prange(numbers.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = table[numbers[i], j] if 0 <= numbers[i] < table.shape[0] else np.float32(0)


@jit
def scattered_rows(dy, numbers, dtable):
    """Add row i to row numbers[i] of dtable. A thread adds to 64 columns of its own, without atomic operations."""
    for block in numba.prange((dy.shape[1] + 63) // 64):
        for i in range(numbers.shape[0]):
            if 0 <= numbers[i] < dtable.shape[0]:
                for j in range(block * 64, min(dy.shape[1], block * 64 + 64)):
                    dtable[numbers[i], j] += dy[i, j]


@jit
def sparse_product(starts, columns, values, b, y):
    """Multiply a sparse matrix in CSR by b; elements of row r begin at starts[r] and end before starts[r + 1]."""
    m, n = y.shape
    for row in numba.prange(m):
        for j in range(n):
            y[row, j] = 0
        for k in range(starts[row], starts[row + 1]):
            for j in range(n):
                y[row, j] += values[k] * b[columns[k], j]


@numba.njit
def root_of(parents, vertex):
    """Return the root of a vertex's tree; a root is its own parent."""
    while parents[vertex] != vertex:
        vertex = parents[vertex]
    return vertex


@numba.njit
def connected_components(edges, parents):
    """Join the trees of both ends of each edge; roots are the lowest vertices of their trees.

    One thread does it: Numba has no compare-and-swap on CPUs, with which several could.
    """
    for i in range(edges.shape[0]):
        a, b = root_of(parents, edges[i, 0]), root_of(parents, edges[i, 1])
        parents[max(a, b)] = min(a, b)
