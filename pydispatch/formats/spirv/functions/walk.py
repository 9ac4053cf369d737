"""The depth-first walk that finds loops: of blocks within a function, of functions that call each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


def back_edges(roots: Iterable[int], edges: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield the back edges (from, to) of a graph in a depth-first search from `roots`: `to` is on the path to `from`.

    The edges {1: [2], 2: [3], 3: [2]} from the root 1 give (3, 2).
    """
    entered: set[int] = set()
    on_path: set[int] = set()
    for root in roots:
        stack = [(root, False)]  # nodes, and whether all that is reached from the node has been searched
        while stack:
            node, is_done = stack.pop()
            if is_done:
                on_path.remove(node)
            elif node not in entered:
                entered.add(node)
                on_path.add(node)
                stack.append((node, True))
                for target in edges[node]:
                    if target in on_path:
                        yield node, target
                    stack.append((target, False))
