"""Blocked summation of floats: the rounding error of a long sum does not grow with its length.

Each addition rounds, and the error is proportional to the running sum. So an accumulator takes at most `BLOCK` steps,
starting at -0, and is then added to an outer accumulator, in up to `LEVELS` levels. The blocks depend on the sizes
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index

BLOCK = 4096
"""Steps of an innermost accumulator, at most. Vectorization and unrolling divide them among 16 accumulators or more."""
BLOCKS = 256
"""Blocks that an outer accumulator adds up, at most."""
FEWEST = 64
"""Steps of the inner loops below which a separate accumulator for them does not pay."""
LEVELS = 3
"""Levels of nested accumulators, at most."""

Carried = list[SSAValue]


def negative_zero(build: Builder, type_: Attribute) -> SSAValue:
    """Emit and return -0, the neutral element of float addition: adding +0 would turn -0 into +0."""
    assert isinstance(type_, AnyFloat)
    return build.pure(arith.ConstantOp(FloatAttr(-0.0, type_)))


def with_fresh_accumulators(
    build: Builder, carried: Carried, sums: Sequence[bool], inside: Callable[[Carried], Carried]
) -> Carried:
    """Emit `inside` with accumulators that start at -0, add its sums to the carried ones, and return the new values.

    sums: whether each carried value is a float sum; the others are passed to `inside` unchanged.
    """
    fresh = [index < len(sums) and sums[index] for index in range(len(carried))]
    results = inside([negative_zero(build, v.type) if own else v for v, own in zip(carried, fresh, strict=True)])
    return [
        build.add(arith.AddfOp(before, after)) if own else after
        for before, after, own in zip(carried, results, fresh, strict=True)
    ]


@dataclass(frozen=True)
class LoopLevel:
    """Loop of a nest. A dimension that is cut into blocks has two levels: over blocks, and within a block.

    Attributes:
        loop: The dimension.
        step: Indices of a block; 1 for the level within a block.
        fresh: Whether each iteration starts with fresh accumulators.
    """

    loop: int
    step: int = 1
    fresh: bool = False


def levels_of(sizes: Sequence[Index]) -> list[LoopLevel]:
    """Return the loop levels of a sum over `sizes`, outermost first; long loops are cut into blocks.

    The levels are chosen from the innermost loop outwards. An accumulator takes at most `limit` steps, of which the
    levels inside have `steps` already; where a loop does not fit, a fresh accumulator begins, and long loops are blocks
    of them.
    """
    levels: list[LoopLevel] = []
    steps, limit, fresh, left = 1, BLOCK, False, LEVELS - 1

    def fits(size: Index) -> bool:
        """Return whether the current accumulator can take all iterations of a loop."""
        return isinstance(size, int) and steps * size <= limit

    for loop in reversed(range(len(sizes))):
        step, size = 1, sizes[loop]
        while left and not fits(size) and (step == 1 or loop == 0):
            if steps < FEWEST:  # too few inner steps: the accumulator also takes a block of this loop
                length = limit // steps
                levels.append(LoopLevel(loop, step, fresh))
                step, size = step * length, -(-size // length) if isinstance(size, int) else size
            steps, limit, fresh, left = 1, BLOCKS, True, left - 1
        levels.append(LoopLevel(loop, step, fresh))
        steps, fresh = steps * max(1, size) if isinstance(size, int) else limit, False
    return levels[::-1]


def nest(
    build: Builder, levels: Sequence[LoopLevel], sizes: Sequence[Index], sums: Sequence[bool], carried: Carried,
    body: Callable[[Builder, dict[int, Index], Carried], Carried],
) -> Carried:  # fmt: skip
    """Emit the loops of `levels` around `body`, and return the carried values.

    body: emits an iteration from a builder, the index of each dimension and the carried values; returns the next ones.
    """
    where: dict[int, Index] = {}
    ranges: dict[int, tuple[Index, Index]] = {i: (0, size) for i, size in enumerate(sizes)}

    def run(at: Builder, depth: int, values: Carried) -> Carried:
        """Emit the loop of level `depth` and, within it, those below; the body at the innermost."""
        if depth == len(levels):
            return body(at, where, values)
        level = levels[depth]
        (low, high), size = ranges[level.loop], sizes[level.loop]

        def step(inner: Builder, index: Index, inside: Carried) -> Carried:
            """Emit one iteration of a level: over single steps, or over a block of them whose range the inner levels
            see."""
            if level.step == 1:
                where[level.loop] = index
                if isinstance(index, SSAValue):
                    inner.counts(index, size)  # the levels of a loop together
            else:
                end = inner.plus(index, level.step)
                whole = isinstance(size, int) and size % level.step == 0
                ranges[level.loop] = index, end if whole else inner.least(end, size)
            if level.fresh:
                return with_fresh_accumulators(inner, inside, sums, lambda own: run(inner, depth + 1, own))
            return run(inner, depth + 1, inside)

        results = at.loop(low, high, values, step, step=level.step, limit=size)
        ranges[level.loop] = low, high
        return results

    return run(build, 0, carried)
