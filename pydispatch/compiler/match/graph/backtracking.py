"""Backtracking over comparisons that can succeed in several ways, because operands of some operations commute."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def ways_of_all(count: int, ways_of: Callable[[int], Iterator[None]]) -> Iterator[None]:
    """Yield None for each way in which `count` comparisons succeed together.

    A comparison is a generator that yields once for each way in which it succeeds. A way binds variables in the
    caller's state, which later comparisons read. If comparison 1 fails under the bindings of comparison 0, comparison 0
    is resumed for its next way. Comparisons with 2 and 3 ways have up to 6 ways together. Zero comparisons succeed in
    one way.

    Args:
        count: Number of comparisons.
        ways_of: Function that begins comparison number i, under the bindings of those before it.
    """
    if count == 0:
        yield
        return
    running = [ways_of(0)]  # the first comparisons; all but the last one are suspended in a way that succeeded
    exhausted = object()
    while running:
        if next(running[-1], exhausted) is exhausted:  # no further way: the comparison before it continues
            running.pop()
        elif len(running) < count:  # the next comparison begins under the bindings of this way
            running.append(ways_of(len(running)))
        else:
            yield
