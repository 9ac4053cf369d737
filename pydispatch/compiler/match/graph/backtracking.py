"""Backtracking over comparisons that can succeed in several ways, because operands of some operations commute."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def ways_of_all(count: int, ways_of: Callable[[int], Iterator[None]]) -> Iterator[None]:
    """Yield None for each way in which `count` comparisons succeed together.

    A comparison is a generator that yields once for each way in which it succeeds, with its bindings recorded by the
    caller's search. If comparison 1 fails under the bindings of comparison 0, comparison 0 is resumed for its next way.
    Comparisons with 2 and 3 ways have up to 6 ways together. No comparisons succeed in one way.

    Args:
        count: Number of comparisons.
        ways_of: Function that begins comparison number i, under the bindings of those before it.
    """
    if count == 0:
        yield
        return
    ways = [ways_of(0)]  # of the first comparisons; all but the last one are suspended in a way that succeeded
    end = object()
    while ways:
        if next(ways[-1], end) is end:  # no further way: the comparison before it continues
            ways.pop()
        elif len(ways) < count:
            ways.append(ways_of(len(ways)))
        else:
            yield
