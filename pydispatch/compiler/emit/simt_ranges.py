"""Ranges of points in kernel IR: how many there are, and which one has a number."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.emit.simt_build import Build, Index

Range = tuple[Index, Index, Index]
"""(lower, upper, step)."""

FEW = 1 << 31
"""Points below which 32 bits number them."""


def steps(build: Build, range_: Range) -> Index:
    """How many steps a range has, 0 or less when it is empty."""
    lower, upper, step = range_
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return max(0, -(-(upper - lower) // step))
    extent = build.sub(upper, lower)
    if step == 1:
        return extent
    return build.let(arith.CeilDivSIOp(build.value(extent), build.value(step)))


def total_of(build: Build, counts: Sequence[Index]) -> Index:
    """The number of points. Two ranges may be empty at once, and their product is none."""
    total: Index = 1
    several = len([count for count in counts if not isinstance(count, int)]) > 1
    for count in counts:
        total = build.mul(total, _at_least_none(build, count) if several else count)
    return total


def _at_least_none(build: Build, count: Index) -> Index:
    return count if isinstance(count, int) else build.let(arith.MaxSIOp(count, build.value(0)))


def point_of(build: Build, bounds: Sequence[Range], counts: Sequence[Index], flat: Index, narrow: bool) -> list[Index]:
    """The point with the row-major number `flat`."""
    found: list[Index] = []
    rest = flat
    many = [number for number, count in enumerate(counts) if count != 1]
    for number in reversed(range(len(bounds))):
        lower, _, step = bounds[number]
        if number not in many:
            found.insert(0, lower)
            continue
        within = rest
        if number != many[0]:
            rest, within = build.divide(rest, counts[number], narrow)
        found.insert(0, build.add(lower, build.mul(within, step)))
    return found


def move(block: Block, build: Build, arguments: Sequence[SSAValue]) -> Operation:
    """Moves what a block does to `build`, its terminator excepted, which is returned."""
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    last = block.last_op
    assert last is not None
    for op in list(block.ops):
        if op is not last:
            op.detach()
            insert(build, op)
    return last


def insert(build: Build, op: Operation) -> None:
    if build.at is not None:
        assert build.at.parent is not None
        build.at.parent.insert_op_before(op, build.at)
    else:
        assert build.block is not None
        build.block.add_op(op)
