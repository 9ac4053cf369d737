"""Number of loop iterations that one invocation of an entry point executes.

lavapipe ends every loop of a shader when an invocation has executed 65,535 iterations, summed over all loops; the code
after the loop then runs as if the loop had ended normally. A long loop of known length is therefore unrolled, so that
it has fewer iterations. Where the limit may be exceeded nevertheless, the shader checks itself: a loop of two
iterations runs at the end of the shader, and if that loop is cut short, an earlier one was too; see `watch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pydispatch.compiler.emit.shaders.values import Index, known

LIMIT = 65_000
"""Iterations of an invocation that lavapipe never cuts short, somewhat below its limit."""
ALLOWED_ITERATIONS = 40_000
"""Iterations of a loop, in all its runs, up to which it is not unrolled; below LIMIT, to leave room for other loops."""
MOST_COPIES = 256
"""Maximum number of copies of the body of a loop that is unrolled to have fewer iterations."""
UNKNOWN_COPIES = 16
"""Number of copies of the body to which a loop of unknown length is unrolled, so that it runs a 16th of its iterations.
Every invocation runs all iterations of such a loop: without unrolling, they could exceed `LIMIT`."""


class Iterations:
    """Upper bound of the loop iterations that one invocation executes, counted while its entry point is emitted.

    Attributes:
        total: Iterations of all loops so far, at most; None if unknown.
    """

    def __init__(self) -> None:
        """Begin outside of all loops: no iterations so far, and code that runs once."""
        self.total: int | None = 0
        self._runs: int | None = 1  # how often the code at the current position runs, at most; None if unknown

    @property
    def may_exceed_limit(self) -> bool:
        """Return whether an invocation may execute so many loop iterations that lavapipe cuts a loop short."""
        return self.total is None or self.total > LIMIT

    @property
    def is_outside_loops(self) -> bool:
        """Return whether the code that is being emitted is in no loop that may run its body more than once."""
        return self._runs == 1

    def mark_unknown(self) -> None:
        """Mark the total as unknown.

        The entry point calls code that this emitter did not generate, or has a loop that ends only when no other
        invocation interferes.
        """
        self.total = None

    def add(self, count: int | None) -> None:
        """Add the loop iterations of one run of the code at the current position; None for an unknown count."""
        if self._runs is None or count is None or self.total is None:
            self.total = None
        else:
            self.total += self._runs * count

    @contextmanager
    def loop_body(self, count: int | None) -> Iterator[None]:
        """Add the iterations of a loop, and count loops that are emitted in this context as parts of its body.

        count: iterations of one run of the loop, at most; None if unknown.
        """
        outer = self._runs
        self.add(None if count is None else count + 1)  # the test that ends a loop is an iteration too
        # A body that never runs is counted like one that runs once.
        self._runs = None if outer is None or count is None else outer * max(count, 1)
        try:
            yield
        finally:
            self._runs = outer

    def copies(self, count: int | None) -> int:
        """Return how often to write the body of a loop of at most `count` iterations (None: unknown), a power of two.

        It is 1 (the loop is not unrolled) if `count` is unknown, or if all runs of the loop together have at most
        ALLOWED_ITERATIONS iterations. Otherwise it is the smallest power of two that reduces the iterations to at most
        ALLOWED_ITERATIONS, but never more than `count` or MOST_COPIES.
        """
        if count is None or self._runs is None or count * self._runs <= ALLOWED_ITERATIONS:
            return 1
        # Example: 300 iterations in code that runs 1,000 times. 8 copies leave 38,000 iterations.
        needed = -(-count * self._runs // ALLOWED_ITERATIONS)  # rounded up
        needed_power = 1 << (needed - 1).bit_length()  # the next power of two that is not below
        most_for_count = 1 << (count.bit_length() - 1)  # the largest power of two up to `count`
        return min(needed_power, most_for_count, MOST_COPIES)

    def unroll_factor(
        self, bounds: tuple[Index, Index, Index], carries_values: bool, most_iterations: int | None
    ) -> int:
        """Return how often to write the body of a counted loop at the current position; 1 if it is not unrolled.

        Args:
            bounds: First counter, end (exclusive), and step.
            carries_values: Whether the loop has loop-carried values.
            most_iterations: At most so many iterations; None if unknown.
        """
        lower, upper, _ = bounds
        if most_iterations is not None and known(upper):
            return self.copies(most_iterations)
        # A loop with a dynamic end is unrolled only if each invocation runs all its iterations, as a sum over a dynamic
        # size does. A loop without carried values, or with a runtime lower bound, may be distributed to invocations,
        # so that each runs few. Loops of unknown length inside of others are not unrolled either.
        has_static_start = known(lower) and lower >= 0
        if not (has_static_start and carries_values and self.is_outside_loops):
            return 1
        return UNKNOWN_COPIES if most_iterations is None else self.copies(most_iterations)


def iteration_count(bounds: tuple[Index, Index, Index]) -> int | None:
    """Return the number of iterations of a loop from its first counter, end (exclusive), and step; None if unknown."""
    lower, upper, step = bounds
    if known(lower) and known(upper) and known(step) and step > 0:
        return max(0, -(-(upper - lower) // step))  # rounded up
    return None
