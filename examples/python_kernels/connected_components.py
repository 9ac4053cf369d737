"""Connected components of a graph: trees of vertices that are joined by compare-and-swap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from running import Case, run

import pydispatch as pd

Edges = Annotated[pd.View, pd.i32["m", 2]]  # two vertices each


def root_of(parents: pd.View, vertex: int) -> int:
    """Return the root of the tree of a vertex; other invocations may join trees at the same time."""
    here = vertex
    above = pd.atomic_or(parents, here, 0)  # an atomic load
    while above != here:
        here = above
        above = pd.atomic_or(parents, here, 0)
    return here


@pd.kernel(workgroup=64)
def connected_components(edges: Edges, parents: Annotated[pd.View, pd.i32["n"]]) -> None:
    """Join the trees of both ends of each edge: the root with the larger number below the other one.

    parents[v] is the parent of vertex v, and v itself for a root, as for all vertices before.
    """
    i = pd.global_id(0)
    if i >= edges.shape[0]:
        return
    a, b = root_of(parents, edges[i, 0]), root_of(parents, edges[i, 1])
    while a != b:
        low, high = min(a, b), max(a, b)
        seen = pd.atomic_cas(parents, high, high, low)
        if seen == high:  # it was still a root; else another invocation has joined it
            break
        a, b = root_of(parents, seen), root_of(parents, low)


def cases(random: np.random.Generator) -> list[Case]:
    """Return a case of a random graph; each vertex is expected to have the lowest of its component as root."""
    n = 40
    edges = random.integers(0, n, (30, 2)).astype(np.int32)
    lowest = np.arange(n)  # the lowest vertex of the component of each: the root of its tree
    for _ in range(n):
        for a, b in edges:
            lowest[lowest == max(lowest[a], lowest[b])] = min(lowest[a], lowest[b])
    return [Components(connected_components, (edges, np.arange(n, dtype=np.int32)), (lowest,))]


class Components(Case):
    """The trees depend on the order in which invocations come; their roots do not."""

    def compare(self, results: Sequence[Any]) -> None:
        """Follow all parents up to the roots, and compare those."""
        (parents,) = results
        for _ in parents:
            parents = parents[parents]
        super().compare([parents])


if __name__ == "__main__":
    run(cases)
