"""Index-set splitting: a loop with conditions on its counter becomes several loops in which the conditions are
constant.

Padding tests each element against the edges. LLVM vectorizes that with masks for contiguous accesses, but not for
strided ones, so strided loops are split at the edges. im2col of 3x3 windows with stride 2 on 56x56x128 took about 445
us before and 180 us after (Zen 5, one worker).

A concatenation tests from which tensor an element comes; its loop is split into one for each tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import BoolAttr, IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.ir.core.walk import is_inside, walk

MOST_OPERATIONS = 48
"""Maximum number of operations of the body of a loop that is split: the body is emitted up to three times."""

FEWEST = 16
"""Minimum number of iterations of a loop that is split, and of each of the two loops into which that of a concatenation
is split. With fewer, the iterations between the edges fill no vectors: a convolution with rows of 14 took 1,040 us, and
1,214 with all its loops split."""


@dataclass(frozen=True)
class Linear:
    """An index that is linear in a loop counter: slope * counter + start.

    `start` is loop-invariant: an int if it is known while compiling, else a value.
    """

    slope: int
    start: Index


def split_index_sets(function: FuncOp) -> None:
    """Split the innermost parallel loops of a function at the iterations where a condition changes, in place.

    The parts then need no branches. A loop that concatenates tensors is split where the next tensor begins, and its
    parts again; other loops are split where padding begins and ends.
    """
    entry = Entry(function)
    pending = [op for op in walk(function) if isinstance(op, scf.ParallelOp)]
    while pending:
        op = pending.pop()
        if not _is_simple(op):
            continue
        build = Build.before(entry, op)
        if (second_part := _split_at_selection(build, op)) is not None:
            pending += [op, second_part]  # `op` is the first part now
        elif conditions := list(dict.fromkeys(_conditions(op.body.block))):
            _split_at_bounds(build, op, conditions)


def _is_simple(loop: scf.ParallelOp) -> bool:
    """Return whether a loop may be split.

    It must be innermost, with one counter, a step of 1, a short body, and at least `FEWEST` iterations if their number
    is known. A loop with the mark `WHOLE_VECTORS` is not split: its iterations are lanes of vectors.
    """
    block = loop.body.block
    counts_by_1 = len(block.args) == 1 and constant_or_value(loop.step[0]) == 1
    if not counts_by_1 or loop.initVals or WHOLE_VECTORS in loop.attributes:
        return False
    low, high = constant_or_value(loop.lowerBound[0]), constant_or_value(loop.upperBound[0])
    if isinstance(low, int) and isinstance(high, int) and high - low < FEWEST:
        return False
    ops = [op for op in walk(block) if op is not loop]
    return len(ops) <= MOST_OPERATIONS and all(not op.regions or isinstance(op, scf.IfOp) for op in ops)


def _conditions(block: Block) -> Iterator[arith.CmpiOp]:
    """Yield the comparisons whose conjunctions are the conditions of the branches of a loop body.

    Only branches directly in `block` count, and only comparisons that are computed in it.
    """
    for op in block.ops:
        pending = [op.cond] if isinstance(op, scf.IfOp) else []
        while pending:
            value = pending.pop()
            if isinstance(value, OpResult) and value.op.parent is block:
                if isinstance(value.op, arith.AndIOp):
                    pending += value.op.operands
                elif isinstance(value.op, arith.CmpiOp):
                    yield value.op


def _split_at_selection(build: Build, loop: scf.ParallelOp) -> scf.ParallelOp | None:
    """Split a loop in which a comparison with a constant selects one of two loads: `loop` becomes the first part.

    A concatenation has such loops: `parallel i in 0..96 { y[i] = if i < 64 { a[i] } else { b[i - 64] } }` becomes one
    loop over 0..64, where the condition is true, and one over 64..96, where it is false.

    Return the second part; None, with no change, if there is no such comparison, if the bounds are not known, or if a
    part would have fewer than `FEWEST` iterations.
    """
    low, high, block = constant_or_value(loop.lowerBound[0]), constant_or_value(loop.upperBound[0]), loop.body.block
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    for branch in [op for op in walk(block) if isinstance(op, scf.IfOp)]:
        condition = branch.cond.owner
        if not isinstance(condition, arith.CmpiOp) or condition.parent is not block:
            continue
        if not all(map(_has_load, branch.regions)):  # a load in one region alone is that of padding, no selection
            continue
        distance = _nonnegative_form(build, condition, block)
        if distance is None or abs(distance.slope) != 1 or not isinstance(distance.start, int):
            continue
        # The condition is slope * counter + start >= 0. If the slope is 1, it holds from -start on; if it is -1, up to
        # and including start. The second part begins at `edge`.
        edge = -distance.start if distance.slope > 0 else distance.start + 1
        if edge - low >= FEWEST and high - edge >= FEWEST:
            return _split_at(build, loop, edge, condition, holds_after=distance.slope > 0)
    return None


def _split_at(
    build: Build, loop: scf.ParallelOp, edge: int, condition: arith.CmpiOp, holds_after: bool
) -> scf.ParallelOp:
    """Split a loop into the iterations before `edge`, which `loop` becomes, and those from it on, which are returned.

    `condition` is a comparison in the body. It holds either before or after the edge (`holds_after`), so that it
    becomes a constant in each part.
    """
    condition_index = list(loop.body.block.ops).index(condition)  # finds its copy in the clone
    second_part = loop.clone()
    build.op(second_part)
    # Operands of a loop of one axis are its lower bound, upper bound and step.
    loop.operands[1] = second_part.operands[0] = build.value(edge)
    _fold_condition(build, condition, holds=not holds_after)
    cloned_condition = list(second_part.body.block.ops)[condition_index]
    assert isinstance(cloned_condition, arith.CmpiOp)
    _fold_condition(build, cloned_condition, holds=holds_after)
    return second_part


def _has_load(region: Region) -> bool:
    """Return whether a region contains a load."""
    return any(isinstance(op, memref.LoadOp) for op in walk(region))


def _fold_condition(build: Build, condition: arith.CmpiOp, holds: bool) -> None:
    """Replace all uses of a comparison by the constant `holds`; the comparison itself stays, unused."""
    truth = arith.ConstantOp(BoolAttr.from_bool(holds))
    Build.before(entry=build.entry, op=condition).op(truth)
    condition.result.replace_all_uses_with(truth.result)


def _split_at_bounds(build: Build, loop: scf.ParallelOp, conditions: list[arith.CmpiOp]) -> None:
    """Split a parallel loop into the iterations before, within and after the range where all conditions hold.

    Padding has such conditions: a loop over i in 0..28 that loads `x[2 * i - 1]` if 0 <= 2 * i - 1 and 2 * i - 1 < 40
    becomes loops over 0..1, 1..21 and 21..28; in the second one both conditions are true.

    `loop` becomes the loop within the range, and its conditions become constants. The loops before and after the range
    are clones that still test the conditions; they are omitted where they are known to be empty. The slope of a
    condition is the change of its operands' difference from one iteration to the next. Only conditions whose slope is
    at least 2 or at most -2 count: LLVM vectorizes others with masks.
    """
    low, high = constant_or_value(loop.lowerBound[0]), constant_or_value(loop.upperBound[0])
    first, stop, decided = _range_of(build, loop.body.block, conditions, low, high)
    if not decided:
        return
    # The range within is [begin, end): [first, stop) limited to the loop, and empty if stop < first.
    begin = low if first is low else build.least(first, high)
    end = high if stop is high else build.most(stop, begin)
    # Emit the loops before and after it.
    for lower, upper in ((low, begin), (end, high)):
        if lower is not upper and lower != upper:  # the same value or the same number: there are no such iterations
            outside = build.op(loop.clone())
            outside.operands[0], outside.operands[1] = build.value(lower), build.value(upper)
    for condition in decided:
        _fold_condition(build, condition, holds=True)
    loop.operands[0], loop.operands[1] = build.value(begin), build.value(end)


def _range_of(
    build: Build, block: Block, conditions: list[arith.CmpiOp], low: Index, high: Index
) -> tuple[Index, Index, list[arith.CmpiOp]]:
    """Return (first, stop, decided): the conditions `decided` hold from iteration `first` on and before `stop`.

    Conditions of the loop from `low` to `high` with the body `block` count only if their slope is at least 2 or at most
    -2. `first` is `low`, or `stop` is `high`, if no condition limits it.
    """
    first, stop, decided = low, high, list[arith.CmpiOp]()
    for condition in conditions:
        # distance: slope * i + start, which is 0 or more exactly for the iterations i where the condition holds
        distance = _nonnegative_form(build, condition, block)
        if distance is None or abs(distance.slope) < 2:
            continue
        decided.append(condition)
        if distance.slope > 0:  # it holds from here on
            first = build.most(first, _ceil(build, build.minus(0, distance.start), distance.slope, low))
        else:  # it holds up to here
            stop = build.least(stop, _ceil(build, build.plus(distance.start, 1), -distance.slope, low))
    return first, stop, decided


def _ceil(build: Build, lhs: Index, rhs: int, low: Index) -> Index:
    """Return the maximum of lhs / rhs, rounded up, and a lower limit: 0 if `low` is a constant >= 0, else `low`.

    `low` is the first iteration of the loop, and `rhs` is positive. With lhs = 5, rhs = 2 and low = 0, return 3.

    The division is unsigned. So it divides the distance of `lhs` from limit * rhs, clamped to at least 0:

        limit + (max(lhs - limit * rhs, 0) + rhs - 1) / rhs
    """
    # The caller limits the result to at least `low`. For a constant low >= 0, the limit 0 suffices, and saves code.
    if isinstance(low, int) and low >= 0:
        low = 0
    dividend = build.most(build.minus(lhs, build.times(low, rhs)), 0)
    return build.plus(low, build.divide(build.plus(dividend, rhs - 1), rhs)[0])


def _nonnegative_form(build: Build, condition: arith.CmpiOp, block: Block) -> Linear | None:
    """Return a linear form that is >= 0 exactly where a signed comparison of indices holds; None for others.

    The form of `2 * i < n` is -2 * i + (n - 1). It is linear in the counter of the loop whose body is `block`; `build`
    inserts the arithmetic of its start before the loop.
    """
    if not isinstance(condition.lhs.type, IndexType):
        return None
    left, right = (_linear(build, value, block) for value in (condition.lhs, condition.rhs))
    predicate = INT_PREDICATES[condition.predicate.value.data]
    if left is None or right is None or predicate not in ("slt", "sle", "sgt", "sge"):
        return None
    # The comparison is low < high, if `is_strict`, or low <= high: then high - low - 1, or high - low, is >= 0.
    is_less, is_strict = predicate in ("slt", "sle"), predicate in ("slt", "sgt")
    low, high = (left, right) if is_less else (right, left)
    between = build.minus(high.start, low.start)
    return Linear(high.slope - low.slope, build.minus(between, 1) if is_strict else between)


def _linear(build: Build, value: SSAValue, block: Block) -> Linear | None:
    """Return an index as a linear form of the counter of the loop with the body `block`; None if it is not linear.

    With the counter i and a loop-invariant n, 2 * i + n has the slope 2 and the start n. Loop-invariant values have the
    slope 0.
    """
    if value is block.args[0]:  # the counter itself
        return Linear(1, 0)
    if not isinstance(value, OpResult) or not is_inside(value.op, block):  # loop-invariant
        return Linear(0, constant_or_value(value))
    int_or_value = constant_or_value(value)
    if isinstance(int_or_value, int):
        return Linear(0, int_or_value)
    if not isinstance(value.op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        return None
    # Slopes and starts are combined as the operands are; `build` emits the sum of two starts if one is no constant.
    left, right = (_linear(build, operand, block) for operand in value.op.operands)
    if left is None or right is None:
        return None
    if isinstance(value.op, arith.AddiOp):
        return Linear(left.slope + right.slope, build.plus(left.start, right.start))
    if isinstance(value.op, arith.SubiOp):
        return Linear(left.slope - right.slope, build.minus(left.start, right.start))
    # A product is linear if one factor is a constant, which is made the right one, or if both are invariant.
    if isinstance(left.start, int) and left.slope == 0:
        left, right = right, left
    if isinstance(right.start, int) and right.slope == 0:
        return Linear(left.slope * right.start, build.times(left.start, right.start))
    return Linear(0, build.times(left.start, right.start)) if left.slope == right.slope == 0 else None
