"""Index-set splitting: a loop with conditions on its counter becomes loops in which they are known.

Pads ask for each element on which side of an edge it lies. LLVM vectorises that with masks where neighbours are read,
but not where a stride lies between them. There, between the edges, nothing is asked: columns of 3x3 windows, stride 2,
of 56x56x128 took about 445 us before and 180 us after, the product beside them taken off (Zen 5, one worker).

Concatenations ask which of two tensors an element is of: a loop over either asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import BoolAttr, IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Entry, Index, known
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.ir.core.walk import walk

MOST_OPERATIONS = 48
"""Of the body of a loop that is written up to three times."""

FEWEST = 16
"""Iterations below which those between the edges fill no vectors: a convolution with rows of 14 went from 1,040 to
1,214 us when all its loops were split."""


@dataclass(frozen=True)
class Linear:
    """slope * counter + start; start: in terms of what is known before the loop."""

    slope: int
    start: Index


def split_index_sets(function: FuncOp) -> None:
    """Split the innermost parallel loops of a function, in place."""
    entry = Entry(function)
    pending = [op for op in walk(function) if isinstance(op, scf.ParallelOp)]
    while pending:
        op = pending.pop()
        if not _is_simple(op):
            continue
        build = Build.before(entry, op)
        if (cut := _cut(build, op)) is not None:
            pending += [op, cut]
        elif conditions := list(dict.fromkeys(_conditions(op.body.block))):
            _split(build, op, conditions)


def _is_simple(loop: scf.ParallelOp) -> bool:
    """Return whether a loop is innermost, has a short body and a counter that goes up by one."""
    block = loop.body.block
    if len(block.args) != 1 or loop.initVals or known(loop.step[0]) != 1:
        return False
    low, high = known(loop.lowerBound[0]), known(loop.upperBound[0])
    if isinstance(low, int) and isinstance(high, int) and high - low < FEWEST:
        return False
    ops = [op for op in walk(block) if op is not loop]
    return len(ops) <= MOST_OPERATIONS and all(not op.regions or isinstance(op, scf.IfOp) for op in ops)


def _conditions(block: Block) -> Iterator[arith.CmpiOp]:
    """Yield the comparisons of the loop's body of which all have to hold for one of its branches."""
    for op in block.ops:
        pending = [op.cond] if isinstance(op, scf.IfOp) else []
        while pending:
            value = pending.pop()
            if isinstance(value, OpResult) and value.op.parent is block:
                if isinstance(value.op, arith.AndIOp):
                    pending += value.op.operands
                elif isinstance(value.op, arith.CmpiOp):
                    yield value.op


def _cut(build: Build, loop: scf.ParallelOp) -> scf.ParallelOp | None:
    """Make two loops of one in which a comparison decides which of two tensors is read: this one, where it holds or
    does not, and the one that is returned. None where there is no such comparison, or a loop would be short."""
    low, high, block = known(loop.lowerBound[0]), known(loop.upperBound[0]), loop.body.block
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    for branch in [op for op in walk(block) if isinstance(op, scf.IfOp)]:
        condition = branch.cond.owner
        if not isinstance(condition, arith.CmpiOp) or condition.parent is not block:
            continue
        if not all(map(_reads, branch.regions)):
            continue
        distance = _distance(build, condition, block)
        if distance is None or abs(distance.slope) != 1 or not isinstance(distance.start, int):
            continue
        # It holds for counters from -start on, or up to start.
        edge = -distance.start if distance.slope > 0 else distance.start + 1
        if edge - low < FEWEST or high - edge < FEWEST:
            continue
        place = list(block.ops).index(condition)
        rest = loop.clone()
        build.op(rest)
        loop.operands[1] = rest.operands[0] = build.value(edge)
        _decide(build, condition, distance.slope < 0)
        again = list(rest.body.block.ops)[place]
        assert isinstance(again, arith.CmpiOp)
        _decide(build, again, distance.slope > 0)
        return rest
    return None


def _reads(region: Region) -> bool:
    return any(isinstance(op, memref.LoadOp) for op in walk(region))


def _decide(build: Build, condition: arith.CmpiOp, holds: bool) -> None:
    """Put what is known of a comparison in its place."""
    truth = arith.ConstantOp(BoolAttr.from_bool(holds))
    Build.before(build.entry, condition).op(truth)
    condition.result.replace_all_uses_with(truth.result)


def _split(build: Build, loop: scf.ParallelOp, conditions: list[arith.CmpiOp]) -> None:
    """Split a parallel loop into the counters before, within and after the range in which the conditions hold."""
    low, high = known(loop.lowerBound[0]), known(loop.upperBound[0])
    first, last, decided = low, high, list[arith.CmpiOp]()
    for condition in conditions:
        distance = _distance(build, condition, loop.body.block)
        if distance is None or abs(distance.slope) < 2:
            continue
        decided.append(condition)
        if distance.slope > 0:  # it holds from here on
            first = build.most(first, _ceil(build, build.minus(0, distance.start), distance.slope))
        else:  # it holds up to here
            last = build.least(last, _ceil(build, build.plus(distance.start, 1), -distance.slope))
    if not decided:
        return
    begin = low if first is low else build.least(first, high)
    end = high if last is high else build.most(last, begin)
    for lower, upper in ((low, begin), (end, high)):
        if lower is not upper and lower != upper:
            rest = build.op(loop.clone())
            rest.operands[0], rest.operands[1] = build.value(lower), build.value(upper)
    for condition in decided:
        _decide(build, condition, True)
    loop.operands[0], loop.operands[1] = build.value(begin), build.value(end)


def _ceil(build: Build, lhs: Index, rhs: int) -> Index:
    """max(a, 0) / b, rounded up."""
    return build.divide(build.plus(build.most(lhs, 0), rhs - 1), rhs)[0]


def _distance(build: Build, condition: arith.CmpiOp, block: Block) -> Linear | None:
    """Return a linear form that is not negative where a comparison of indices holds; None for other comparisons."""
    if not isinstance(condition.lhs.type, IndexType):
        return None
    left, right = (_linear(build, value, block) for value in (condition.lhs, condition.rhs))
    predicate = INT_PREDICATES[condition.predicate.value.data]
    if left is None or right is None or predicate not in ("slt", "sle", "sgt", "sge"):
        return None
    low, high = (left, right) if predicate[1] == "l" else (right, left)
    between = build.minus(high.start, low.start)
    return Linear(high.slope - low.slope, build.minus(between, 1) if predicate[2] == "t" else between)


def _linear(build: Build, value: SSAValue, block: Block) -> Linear | None:
    """Return a value in terms of the counter of a loop; None where it is not linear in it."""
    if value is block.args[0]:
        return Linear(1, 0)
    if not isinstance(value, OpResult) or not _is_inside(value.op, block):
        return Linear(0, known(value))
    if isinstance(known(value), int):
        return Linear(0, known(value))
    if not isinstance(value.op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    left, right = (_linear(build, operand, block) for operand in value.op.operands)
    if left is None or right is None:
        return None
    if isinstance(value.op, arith.AddiOp):
        return Linear(left.slope + right.slope, build.plus(left.start, right.start))
    if isinstance(value.op, arith.SubiOp):
        return Linear(left.slope - right.slope, build.minus(left.start, right.start))
    if isinstance(left.start, int) and left.slope == 0:
        left, right = right, left
    if isinstance(right.start, int) and right.slope == 0:
        return Linear(left.slope * right.start, build.times(left.start, right.start))
    return Linear(0, build.times(left.start, right.start)) if left.slope == right.slope == 0 else None


def _is_inside(op: Operation, block: Block) -> bool:
    at: Block | None = op.parent
    while at is not None and at is not block:
        around = at.parent_op()
        at = None if around is None else around.parent
    return at is block
