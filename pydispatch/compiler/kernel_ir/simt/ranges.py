"""Ranges of parallel loops: how many iterations there are, which one has a number, and those of an invocation.

Iteration number p of a loop belongs to invocation p modulo their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Index, create, known, move
from pydispatch.compiler.kernel_ir.readers import operands_of
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.compiler.kernel_ir.types import bit_width
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.walk import walk

Range = tuple[Index, Index, Index]
"""(lower, upper, step); the step is positive."""

FEW = 1 << 31
"""Iterations below which 32 bits number them."""


def steps(build: Build, range_: Range) -> Index:
    """Return how many steps a range has, 0 or less when it is empty."""
    lower, upper, step = range_
    if type(lower) is int and type(upper) is int and type(step) is int:
        return max(0, -(-(upper - lower) // step))
    distance = _beyond(upper, lower)
    extent = build.minus(upper, lower) if distance is None else distance
    if step == 1:
        return extent
    if type(extent) is int and type(step) is int:
        return max(0, -(-extent // step))
    return build.binary(arith.CeilDivSIOp, extent, step)


def _beyond(upper: Index, lower: Index) -> int | None:
    """Return how far a bound that was made by adding a constant to the other lies beyond it."""
    op = upper.op if isinstance(upper, OpResult) else None
    if isinstance(op, arith.AddiOp):
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            distance = known(other)
            if one is lower and type(distance) is int:
                return distance
    return None


def total_of(build: Build, counts: Sequence[Index]) -> Index:
    """Return the number of iterations. Two ranges may be empty at once, and their product is none."""
    total: Index = 1
    several = len([count for count in counts if type(count) is not int]) > 1
    for count in counts:
        total = build.times(total, build.most(count, 0) if several else count)
    return total


def indices_of(
    build: Build, bounds: Sequence[Range], counts: Sequence[Index], linear: Index, narrow: bool
) -> list[Index]:
    """Return the indices of the iteration with the row-major number `number`."""
    indices: list[Index] = []
    rest = linear
    many = [dimension for dimension, count in enumerate(counts) if count != 1]
    for dimension in reversed(range(len(bounds))):
        lower, _, step = bounds[dimension]
        if dimension not in many:
            indices.insert(0, lower)
            continue
        within = rest
        if dimension != many[0]:
            rest, within = build.divide(rest, counts[dimension], narrow)
        indices.insert(0, build.plus(lower, build.times(within, step)))
    return indices


Element = Callable[[Build, list[SSAValue], list[SSAValue], bool], list[SSAValue]]
"""Writes the iteration at some indices: gets and returns the carried values. The bool: it is written for the last
time."""

Body = Callable[[Build, Index, list[SSAValue], bool], list[SSAValue]]
"""The same for the iteration of a number."""

AT_ONCE = 4
"""Iterations of an invocation that follow each other without a test between, so that memory reads several at once;
twice as many where elements have 16 bits and less."""

SMALL = 32
"""Operations of a body that is repeated."""


def repeats(workgroup: Workgroup, block: Block) -> int:
    """Return how many times a body is written: more than once only where it is small, and has no loops."""
    if not workgroup.machine.unrolls:
        return 1
    ops = list(block.ops)
    if len(ops) > SMALL or any(op.regions or op.name == "memref.copy" for op in ops[:-1]):
        return 1
    types = [value.type for op in ops for value in op.operands if isinstance(value.type, MemRefType)]
    return AT_ONCE if any(bit_width(type_.element_type) > 16 for type_ in types) else 2 * AT_ONCE


def distribute(
    workgroup: Workgroup,
    op: Operation,
    bounds: Sequence[Range],
    carried: Sequence[SSAValue],
    element: Element,
    times: int,
) -> list[SSAValue]:
    """Write, before `op`, the iterations of this invocation; `element` writes one. times: see `_rounds`."""
    build = workgroup.build(op)
    counts = [steps(build, range_) for range_ in bounds]
    total = total_of(build, counts)
    narrow = workgroup.narrow or (workgroup.machine.divides_in_words and type(total) is int and total < FEW)

    def at(inner: Build, linear: Index, values: list[SSAValue], last: bool) -> list[SSAValue]:
        indices = indices_of(inner, bounds, counts, linear, narrow)
        return element(inner, [inner.value(index) for index in indices], values, last)

    return _rounds(build, workgroup.own(), total, workgroup.count, times, carried, at)


def _rounds(
    build: Build, own: SSAValue, total: Index, n: int, times: int, carried: Sequence[SSAValue], body: Body
) -> list[SSAValue]:
    """Run `body` for the numbers own, own + n, ... below `total`, in this order; it is written up to times + 1 times.

    Up to a round that is not full, `times` of them stand in one iteration of a loop.
    """
    values = list(carried)
    if type(total) is int and total <= n:
        return values if total <= 0 else _at_most_one(build, own, total, n, values, body)
    if type(total) is int and total % n == 0:
        return build.loop(0, total // n, 1, values, lambda b, k, v: body(b, b.plus(b.times(k, n), own), v, True))
    start: Index = 0
    if times > 1 and n & (n - 1) == 0 and not (type(total) is int and total < times * n):
        many = times * n

        def several(inner: Build, base: SSAValue, values: list[SSAValue]) -> list[SSAValue]:
            first = inner.plus(base, own)
            for round_ in range(times):
                values = body(inner, inner.plus(first, round_ * n), values, False)
            return values

        if type(total) is int:
            start = total // many * many
        else:
            start = build.binary(arith.AndIOp, build.most(total, 0), -many)
        values = build.loop(0, start, many, values, several)
    most = -(-(total - start) // n) if type(total) is int and type(start) is int else None
    return build.loop(build.plus(start, own), total, n, values, lambda b, k, v: body(b, k, v, True), most)


def _at_most_one(build: Build, own: SSAValue, total: int, n: int, values: list[SSAValue], body: Body) -> list[SSAValue]:
    """Insert at most one iteration for each invocation, and return its values."""
    if total == n:
        return body(build, own, values, True)
    condition, block = build.compare("slt", own, total), Block()
    inner = build.inside(block)
    inner.end(body(inner, own, values, True))
    otherwise = Region()
    if values:
        otherwise.add_block(Block())
        build.inside(otherwise.blocks[0]).end(values)
    branch = create(scf.IfOp, build.like.location, (condition,), [value.type for value in values])
    branch.add_region(Region(block))
    branch.add_region(otherwise)
    build.insert(branch)
    return list(branch.results)


def placed(block: Block, build: Build, arguments: Sequence[SSAValue], last: bool) -> list[SSAValue]:
    """Write what a block does, its terminator excepted, whose operands are returned. last: the block is not needed
    any more, and its operations are moved; else they are copied."""
    end = block.last_op
    assert end is not None
    if not last:
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op is not end:
                clone = op.clone(value_mapper=values)
                for new, old in zip(walk(clone), walk(op), strict=True):
                    set_location(new, old)
                build.insert(clone)
        return [values.get(operand, operand) for operand in end.operands]
    for argument, value in zip(block.args, arguments, strict=True):
        argument.replace_all_uses_with(value)
    first = block.first_op
    if first is not None and first is not end:
        move(first, end, build.insert)
    return list(operands_of(end))
