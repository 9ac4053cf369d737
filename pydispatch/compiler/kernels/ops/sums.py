"""Long sums of floats in blocks, so that their error does not grow with their length.

A running sum in one accumulator loses with every step what lies below its last digit. Here an accumulator takes BLOCK
steps at most and begins at nothing; what it has is then added to the sum of the blocks, and so on outwards. How a sum
is cut depends on its sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index

BLOCK = 4096
"""Steps that one accumulator takes; vectors and unrolling divide them among 16 of them or more."""
BLOCKS = 256
"""Blocks that one accumulator takes."""
FEWEST = 64
"""Steps of inner loops that are worth an accumulator of their own."""
LEVELS = 3
"""Accumulators inside of each other, at most."""

Carried = list[SSAValue]


def nothing(build: Builder, type_: Attribute) -> SSAValue:
    """Return the initial value of a sum: -0, the number whose addition changes no other."""
    assert isinstance(type_, AnyFloat)
    return build.pure(arith.ConstantOp(FloatAttr(-0.0, type_)))


def afresh(build: Builder, carried: Carried, sums: Sequence[bool], inside: Callable[[Carried], Carried]) -> Carried:
    """`inside` with sums of its own, which are then added to those so far."""
    fresh = [index < len(sums) and sums[index] for index in range(len(carried))]
    results = inside([nothing(build, v.type) if own else v for v, own in zip(carried, fresh, strict=True)])
    return [
        build.add(arith.AddfOp(before, after)) if own else after
        for before, after, own in zip(carried, results, fresh, strict=True)
    ]


@dataclass(frozen=True)
class LoopLevel:
    """Loop of a nest, over the part of the range of `loop` that the enclosing levels leave, in steps of `step`.

    fresh: whether the loop body has accumulators of its own.
    """

    loop: int
    step: int = 1
    fresh: bool = False


def levels_of(sizes: Sequence[Index]) -> list[LoopLevel]:
    """Return the loops over `sizes`, outermost first, with those that are long cut into blocks."""
    levels: list[LoopLevel] = []
    steps, limit, fresh, left = 1, BLOCK, False, LEVELS - 1

    def fits(size: Index) -> bool:
        return isinstance(size, int) and steps * size <= limit

    for loop in reversed(range(len(sizes))):
        step, size = 1, sizes[loop]
        while left and not fits(size) and (step == 1 or loop == 0):
            if steps < FEWEST:  # too little for an accumulator: a block of this loop is inside too
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
    """Emit the loops of `levels` around `body`, which receives the index of every loop, and return the
    carried values.
    """
    where: dict[int, Index] = {}
    ranges: dict[int, tuple[Index, Index]] = {i: (0, size) for i, size in enumerate(sizes)}

    def run(at: Builder, depth: int, values: Carried) -> Carried:
        if depth == len(levels):
            return body(at, where, values)
        level = levels[depth]
        (low, high), size = ranges[level.loop], sizes[level.loop]

        def step(inner: Builder, index: Index, inside: Carried) -> Carried:
            if level.step == 1:
                where[level.loop] = index
                if isinstance(index, SSAValue):
                    inner.counts(index, size)  # the levels of a loop together
            else:
                end = inner.plus(index, level.step)
                whole = isinstance(size, int) and size % level.step == 0
                ranges[level.loop] = index, end if whole else inner.least(end, size)
            if level.fresh:
                return afresh(inner, inside, sums, lambda own: run(inner, depth + 1, own))
            return run(inner, depth + 1, inside)

        results = at.loop(low, high, values, step, step=level.step, limit=size)
        ranges[level.loop] = low, high
        return results

    return run(build, 0, carried)
