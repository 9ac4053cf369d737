"""Ranges of points in kernel IR: how many there are, and which one has a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.simt.build import Build, Index, known
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.core.locations import set_location

Range = tuple[Index, Index, Index]
"""(lower, upper, step)."""

FEW = 1 << 31
"""Points below which 32 bits number them."""


def steps(build: Build, range_: Range) -> Index:
    """How many steps a range has, 0 or less when it is empty."""
    lower, upper, step = range_
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        return max(0, -(-(upper - lower) // step))
    distance = _beyond(upper, lower)
    extent = build.sub(upper, lower) if distance is None else distance
    if step == 1:
        return extent
    if isinstance(extent, int) and isinstance(step, int):
        return max(0, -(-extent // step))
    return build.let(arith.CeilDivSIOp(build.value(extent), build.value(step)))


def _beyond(upper: Index, lower: Index) -> int | None:
    """How far a bound that was made by adding a constant to the other lies beyond it."""
    op = upper.op if isinstance(upper, OpResult) else None
    if isinstance(op, arith.AddiOp):
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            distance = known(other)
            if one is lower and isinstance(distance, int):
                return distance
    return None


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


Turn = Callable[[Build, Index, list[SSAValue]], list[SSAValue]]
"""Code for the point of a number: gets and returns the carried values."""

AT_ONCE = 4
"""Points of an invocation that follow each other without a test between, so that memory reads several at once; twice
as many where elements have 16 bits and less."""

SMALL = 32
"""Operations of a body that is repeated."""


def repeats(block: Block) -> int:
    """How many times a body is written: more than once only where it is small, and has no loops."""
    ops = list(block.ops)
    if len(ops) > SMALL or any(op.regions for op in ops[:-1]):
        return 1
    types = [value.type for op in ops for value in op.operands if isinstance(value.type, MemRefType)]
    return AT_ONCE if any(bit_width(type_.element_type) > 16 for type_ in types) else 2 * AT_ONCE


def rounds(
    build: Build, own: SSAValue, total: Index, n: int, times: int, carried: Sequence[SSAValue], turn: Turn
) -> list[SSAValue]:
    """Runs `turn` for the numbers own, own + n, ... below `total`, in this order; it is written up to times + 1 times.

    Up to a round that is not full, `times` of them stand in one turn of a loop.
    """
    values = list(carried)
    if isinstance(total, int) and total <= n:
        return values if total <= 0 else _once(build, own, total, n, values, turn)
    if isinstance(total, int) and total % n == 0:
        return build.loop(0, total // n, 1, values, lambda b, k, v: turn(b, b.add(b.mul(k, n), own), v))
    start: Index = 0
    if times > 1 and n & (n - 1) == 0 and not (isinstance(total, int) and total < times * n):
        many = times * n

        def several(inner: Build, base: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
            first = inner.add(base, own)
            for number in range(times):
                values = turn(inner, inner.add(first, number * n), values)
            return values

        if isinstance(total, int):
            start = total // many * many
        else:
            known_total = build.let(arith.MaxSIOp(total, build.value(0)))
            start = build.let(arith.AndIOp(known_total, build.value(-many)))
        values = build.loop(0, start, many, values, several)
    return build.loop(build.add(start, own), total, n, values, turn)


def _once(build: Build, own: SSAValue, total: int, n: int, values: list[SSAValue], turn: Turn) -> list[SSAValue]:
    """At most one point for each."""
    if total == n:
        return turn(build, own, values)
    ways = [Block(), Block()]
    inner, other = build.inside(ways[0]), build.inside(ways[1])
    condition = build.less(own, total)
    results = turn(inner, own, values)
    inner.op(scf.YieldOp(*results))
    other.op(scf.YieldOp(*values))
    otherwise = Region(ways[1]) if values else Region()
    return list(build.op(scf.IfOp(condition, [v.type for v in values], Region(ways[0]), otherwise)).results)


def cloned(block: Block, build: Build, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """Writes what a block does once more, its terminator excepted, whose operands are returned."""
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
    last = block.last_op
    assert last is not None
    for op in block.ops:
        if op is not last:
            made = op.clone(value_mapper=values)
            for new, old in zip(made.walk(), op.walk(), strict=True):
                set_location(new, old)
            build.insert(made)
    return [values.get(operand, operand) for operand in last.operands]
