"""Blocked summation of floats: the rounding error of a long sum does not grow with its length.

Each addition rounds, and the error is proportional to the running sum. So an accumulator takes at most `MAX_STEPS`
steps, starting at -0, and is then added to an outer accumulator, in up to `MAX_LEVELS` levels. The blocks depend on the
sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index

MAX_STEPS = 4096
"""Steps of an innermost accumulator, at most. Vectorization and unrolling divide them among 16 accumulators or more."""
MAX_BLOCKS = 256
"""Maximum number of blocks that an outer accumulator adds up: the rounding error grows with their number."""
MIN_INNER_STEPS = 64
"""Steps of the inner loops below which a separate accumulator for them does not pay."""
MAX_LEVELS = 3
"""Maximum number of levels of nested accumulators. The outermost one adds up all blocks, more than `MAX_BLOCKS` if a
sum is that long."""

Carried = list[SSAValue]
"""Loop-carried values."""
Ranges = dict[int, tuple[Index, Index]]
"""Dimension -> half-open range of the indices that the next loop over it visits."""


def negative_zero(build: Builder, type_: Attribute) -> SSAValue:
    """Emit and return -0, the neutral element of float addition: adding +0 would turn -0 into +0."""
    assert isinstance(type_, AnyFloat)
    return build.pure(arith.ConstantOp(FloatAttr(-0.0, type_)))


def with_fresh_accumulators(
    build: Builder, carried: Carried, is_sum: Sequence[bool], inside: Callable[[Carried], Carried]
) -> Carried:
    """Emit a loop whose float sums start at -0.0, add the sums to those carried so far, and return the new values.

    For the carried values [total, max], of which only the first is a float sum, the loop starts with [-0.0, max]. With
    its final values [sum, new_max] the result is [total + sum, new_max].

    Args:
        build: Emits the additions after the loop.
        carried: The values before the loop.
        is_sum: For each carried value, whether it is a float sum; may be shorter than `carried`, whose further values
            are no sums. The loop begins with the carried value itself where it is no sum.
        inside: Emits the loop from its initial values, and returns its final ones.
    """
    starts_fresh = [index < len(is_sum) and is_sum[index] for index in range(len(carried))]
    initial = [negative_zero(build, v.type) if fresh else v for v, fresh in zip(carried, starts_fresh, strict=True)]
    results = inside(initial)
    return [
        build.add(arith.AddfOp(before, after)) if fresh else after
        for before, after, fresh in zip(carried, results, starts_fresh, strict=True)
    ]


@dataclass(frozen=True)
class LoopLevel:
    """Loop of a nest. A dimension that is cut into blocks has two levels: over blocks, and within a block.

    Attributes:
        loop: Number of the dimension that the loop visits.
        step: Number of indices of a block; 1 for the level within a block, and for a dimension that is not cut.
        fresh: Whether each iteration sums up in a fresh accumulator that starts at -0.0, and adds its final value to
            the sum that the loop carries.
    """

    loop: int
    step: int = 1
    fresh: bool = False


def levels_of(sizes: Sequence[Index]) -> list[LoopLevel]:
    """Return the loop levels of a sum over dimensions of `sizes`, outermost first.

    An accumulator is a loop-carried sum. Its rounding error grows with the number of additions. Therefore, at most
    `MAX_STEPS` (4096) elements are added to an innermost accumulator, and at most `MAX_BLOCKS` (256) accumulators to an
    outer one. A loop with more iterations than its accumulator has room for becomes two loops: over blocks, and within
    a block. Only the outermost loop is cut more than once, into blocks of blocks. Dynamic sizes count as too long for
    an accumulator.

    Example:
        The levels as (loop, step, fresh), where `fresh` is whether each iteration starts an accumulator, for these
        sizes:

        - [1000000]: (0, 4096, True), (0, 1, False). Each block of 4096 elements has an accumulator of its own.
        - [1000, 7]: (0, 585, True), (0, 1, False), (1, 1, False). 7 steps are too few for an accumulator: each one also
          sums up 585 iterations of loop 0, which are 585 * 7 = 4095 steps.
        - [1000, 1000]: (0, 256, True), (0, 1, True), (1, 1, False). Each iteration of loop 0 has an accumulator for
          loop 1, and each block of 256 iterations has one that adds these up.
    """
    plan = _LevelPlan()
    for loop in reversed(range(len(sizes))):
        plan.add_loop(loop, sizes[loop])
    return plan.levels[::-1]


@dataclass
class _LevelPlan:
    """Choice of the loop levels of a sum, from the innermost loop outwards.

    Attributes:
        levels: The levels of the loops that were added, innermost first.
        steps: Additions that the current accumulator takes in the levels that were added since it began.
        limit: Maximum number of additions of the current accumulator.
        accumulators_left: Further accumulators that may begin.
        is_fresh: Whether each iteration of the next level starts a fresh accumulator.
    """

    levels: list[LoopLevel] = field(default_factory=list)
    steps: int = 1
    limit: int = MAX_STEPS
    accumulators_left: int = MAX_LEVELS - 1
    is_fresh: bool = False

    def add_loop(self, loop: int, size: Index) -> None:
        """Add the levels of the loop over dimension `loop`: several if it is cut into blocks."""
        step, count = 1, size  # of the next level of this loop: indices per iteration, and iterations
        is_outermost, is_cut = loop == 0, False
        while self.accumulators_left and not self._fits(count) and (is_outermost or not is_cut):
            # Begin another accumulator, which adds up the results of the current one. With few inner steps, the current
            # one first takes a block of this loop, which is cut. With enough, the whole loop runs over fresh ones.
            if self.steps < MIN_INNER_STEPS:
                is_cut = True
                length = self.limit // self.steps  # iterations of this loop that the current accumulator has room for
                self.levels.append(LoopLevel(loop, step, self.is_fresh))
                step *= length
                count = -(-count // length) if isinstance(count, int) else count  # the number of blocks
            self.steps, self.limit, self.is_fresh = 1, MAX_BLOCKS, True
            self.accumulators_left -= 1
        self.levels.append(LoopLevel(loop, step, self.is_fresh))
        # The current accumulator takes all iterations of the level. A dynamic number of them leaves no room for more.
        self.steps = self.steps * max(1, count) if isinstance(count, int) else self.limit
        self.is_fresh = False

    def _fits(self, count: Index) -> bool:
        """Return whether the current accumulator can take `count` times the `steps` that it already takes."""
        return isinstance(count, int) and self.steps * count <= self.limit


def emit_sum_nest(
    build: Builder, levels: Sequence[LoopLevel], sizes: Sequence[Index], is_sum: Sequence[bool], carried: Carried,
    body: Callable[[Builder, dict[int, Index], Carried], Carried],
) -> Carried:  # fmt: skip
    """Emit the loops of `levels` around `body`, and return the final carried values.

    For a float sum of 1,000,000 elements with the levels (loop=0, step=4096, fresh=True) and (loop=0, step=1):

        for block = 0 to 1000000 step 4096, carried total:
            for i = block to min(block + 4096, 1000000), carried sum = -0.0:
                sum = body(i, sum)
            total = total + sum

    Args:
        build: Builder of the block that the outermost loop is added to.
        levels: The loops, outermost first.
        sizes: The size of each dimension.
        is_sum: For each carried value, whether it is a float sum: only these have accumulators for blocks. May be
            shorter than `carried`, whose further values are no sums.
        carried: The initial carried values.
        body: Emits one iteration of the innermost loop from a builder, the index of each dimension and the carried
            values; returns the next carried values.
    """
    ranges: Ranges = {dim: (0, size) for dim, size in enumerate(sizes)}
    sum_nest = _SumNest(levels, sizes, is_sum, body)
    return sum_nest.loops(depth=0, indices={}, ranges=ranges, build=build, carried=carried)


@dataclass(frozen=True)
class _SumNest:
    """Emitter of the loops of a sum; the fields are the parameters of `emit_sum_nest`, which has an example.

    `loops` emits the loop of one level, `_iteration` its body, which is again `loops` for the next level.

    Attributes:
        levels: The loops, outermost first.
        sizes: The size of each dimension.
        is_sum: For each carried value, whether it is a float sum. Each iteration of a level with `fresh` adds up a
            float sum in a new accumulator, which limits the rounding error.
        body: Emits one iteration of the innermost loop from a builder, the index of each dimension and the carried
            values; returns the next carried values.
    """

    levels: Sequence[LoopLevel]
    sizes: Sequence[Index]
    is_sum: Sequence[bool]
    body: Callable[[Builder, dict[int, Index], Carried], Carried]

    def loops(self, depth: int, indices: dict[int, Index], ranges: Ranges, build: Builder, carried: Carried) -> Carried:
        """Emit the loop `levels[depth]` with the loops inside it, and return the carried values.

        After the last level, emit the body instead.

        Args:
            depth: Position in `levels`.
            indices: Dimension -> index, for each dimension that an enclosing loop visits index by index.
            ranges: The range of each dimension: all of it or, inside a loop over its blocks, the current block.
            build: Builder of the enclosing block.
            carried: The carried values before the loop.
        """
        if depth == len(self.levels):
            return self.body(build, indices, carried)
        level = self.levels[depth]
        low, high = ranges[level.loop]
        iteration = partial(self._iteration, depth, indices, ranges)
        # `high` may be the end of a block. With the size of the dimension as a bound, divisions of the index fold.
        return build.loop(low, high, carried, iteration, step=level.step, index_below=self.sizes[level.loop])

    def _iteration(
        self, depth: int, indices: dict[int, Index], ranges: Ranges, build: Builder, index: Index, carried: Carried
    ) -> Carried:
        """Emit one iteration of `levels[depth]`, at `index` of its dimension, and return the carried values after it.

        Args:
            depth: Position in `levels`.
            indices: Dimension -> index, for each dimension that an enclosing loop visits index by index.
            ranges: The range of each dimension: all of it or, inside a loop over its blocks, the current block.
            build: Builder of the body of the loop.
            index: Index of the iteration: of the dimension, or the first one of a block.
            carried: The carried values before the iteration.
        """
        level = self.levels[depth]
        dim, size = level.loop, self.sizes[level.loop]
        if level.step == 1:  # every index of the dimension, or of the current block
            indices = {**indices, dim: index}
            if isinstance(index, SSAValue):  # record that, over all blocks, it visits 0, 1, ... size - 1
                build.assume_counts_to(index, size)
        else:  # a block from `index` on, whose indices a loop inside visits
            end = build.plus(index, level.step)
            has_whole_blocks = isinstance(size, int) and size % level.step == 0
            ranges = {**ranges, dim: (index, end if has_whole_blocks else build.least(end, size))}
        inner_loops = partial(self.loops, depth + 1, indices, ranges, build)
        if level.fresh:  # sums start from -0.0, and are added to the carried ones at the end of the iteration
            return with_fresh_accumulators(build, carried, self.is_sum, inner_loops)
        return inner_loops(carried)
