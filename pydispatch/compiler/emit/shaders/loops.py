"""Counted loops in every shader language, and the unrolling of long ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from pydispatch.compiler.emit.shaders.function import ShaderFunction, V
from pydispatch.compiler.emit.shaders.iterations import iteration_count
from pydispatch.compiler.emit.shaders.values import Index, known


@dataclass(frozen=True)
class CountedLoop(Generic[V]):
    """Counted loop that is to be emitted.

    Attributes:
        bounds: First counter, end (exclusive) and step.
        carried: (type in the language, value before the loop) of each carried value.
        body: Emits an iteration from the counter and the carried values, and returns the next carried values.
        width: Bits of the counter.
        is_unsigned: Whether counters are compared without sign.
    """

    bounds: tuple[Index, Index, Index]
    carried: Sequence[tuple[Any, V]]
    body: Callable[[V, list[V]], list[V]]
    width: int
    is_unsigned: bool = False


class LoopEmitter(ShaderFunction[V], Generic[V]):
    """Base of the emitters of shader functions: counted loops, which are unrolled if they have many iterations.

    Some devices end an invocation's loops after a number of iterations, which `self.iterations` counts. A subclass for
    each language implements the methods that raise NotImplementedError.
    """

    unrolled_widths: tuple[int, ...]
    """Bits of the counters of loops that the language can unroll."""

    def plain_loop(self, loop: CountedLoop[V]) -> list[V]:
        """Emit a loop that is not unrolled, and return the carried values after it."""
        raise NotImplementedError

    def counter_type(self, width: int) -> Any:
        """Return the type of a counter in the language."""
        raise NotImplementedError

    def counter_value(self, value: Index, width: int) -> V:
        """Return a counter, or a bound of a loop, as a runtime value; a known one becomes a constant."""
        raise NotImplementedError

    def next_counter(self, counter: V, step: int, width: int) -> V:
        """Emit the addition of the step to a counter."""
        raise NotImplementedError

    def end_before(self, lower: int, upper: V, distance: int, width: int) -> V:
        """Emit `max(upper, lower) - distance`, for signed integers of `width` bits."""
        raise NotImplementedError

    def loop(self, loop: CountedLoop[V], most_iterations: int | None = None) -> list[V]:
        """Emit a counted loop, unrolled if it has many iterations, and return the carried values after it.

        most_iterations: upper bound of the iteration count, if the bounds do not state one; None if unknown.
        """
        count = iteration_count(loop.bounds)
        most_iterations = most_iterations if count is None else count
        # An unrolled loop ends at `upper` - (copies - 1) * step: with a step known here, and in signed integers.
        can_unroll = known(loop.bounds[2]) and not loop.is_unsigned and loop.width in self.unrolled_widths
        if can_unroll:
            copies = self.iterations.unroll_factor(
                loop.bounds, carries_values=bool(loop.carried), most_iterations=most_iterations
            )
            if copies > 1:
                return self._unrolled_loop(loop, copies, most_iterations)
        with self.iterations.loop_body(most_iterations):  # code in it is counted as run that often
            return self.plain_loop(loop)

    def _unrolled_loop(self, loop: CountedLoop[V], copies: int, most_iterations: int | None) -> list[V]:
        """Emit a loop that runs `copies` iterations at a time, and then one over the remaining iterations.

        Bounds (0, end, 1) and 4 copies become these loops; k, the start of the second one, is a carried value:

            for (k = 0; k < max(end, 0) - 3; k += 4) { body(k) body(k + 1) body(k + 2) body(k + 3) }
            for (; k < end; k += 1) { body(k) }

        most_iterations: upper bound of the iteration count of the whole loop; None if unknown.
        """
        (lower, upper, step), width = loop.bounds, loop.width
        counter_type = self.counter_type(width)
        # From counters below `unrolled_end`, at least `copies` iterations are left.
        distance = (copies - 1) * step
        if known(upper):
            unrolled_end: Index = upper - distance
        else:  # `unroll_factor` ensures that `lower` is known and not negative, so that the difference cannot wrap
            unrolled_end = self.end_before(lower, upper, distance, width)

        def unrolled_body(counter: V, values: list[V]) -> list[V]:
            """Emit `copies` iterations, and return the carried values and the next counter, which is carried too."""
            values = values[:-1]
            for _ in range(copies):
                values = loop.body(counter, values)
                counter = self.next_counter(counter, step, width)
            return [*values, counter]

        with_counter = [*loop.carried, (counter_type, self.counter_value(lower, width))]
        unrolled = CountedLoop((lower, unrolled_end, copies * step), with_counter, unrolled_body, width)
        # `iterations` counts the iterations of both loops: `most_iterations` / `copies`, and up to `copies` - 1.
        with self.iterations.loop_body(None if most_iterations is None else most_iterations // copies):
            *values, reached = self.plain_loop(unrolled)
        remaining = list(zip((type_ for type_, _ in loop.carried), values, strict=True))
        with self.iterations.loop_body(copies - 1):
            return self.plain_loop(replace(loop, bounds=(reached, upper, step), carried=remaining))
