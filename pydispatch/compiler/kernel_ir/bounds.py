"""Bounds of invocations: the conditions of a loop that compare its counter, and where all of them hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES
from pydispatch.compiler.kernel_ir.vector_loops import LANES
from pydispatch.ir.core.walk import is_defined_outside, walk
from pydispatch.ir.op_info import info_of

_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
"""Predicate of a comparison -> predicate of the comparison with exchanged operands."""

_HOISTED = (
    arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.IndexCastOp, arith.CmpiOp, arith.AndIOp, arith.ConstantOp
)  # fmt: skip
"""Operations that are moved before a loop if their operands are defined before it; none of them can fail."""

_WORKGROUP_ID = "hal.interface.workgroup.id"
"""Operation that is moved before a loop, like those of `_HOISTED`: its result is the same for all invocations."""


@dataclass(frozen=True)
class Bound:
    """Comparison `start + counter PREDICATE limit` with the counter of a loop.

    Attributes:
        comparison: The operation.
        predicate: Predicate of the comparison with the sum on the left: "slt", "sle", "sgt" or "sge".
        start: Loop-invariant part of the sum.
        limit: Loop-invariant value.
    """

    comparison: arith.CmpiOp
    predicate: str
    start: Index
    limit: Index


def is_plain(op: Operation) -> bool:
    """Return whether an operation of a loop body may be copied into the loops over vectors that replace the loop.

    It may if it is a load, a store, a branch, a terminator without a reduction, or pure.
    """
    if isinstance(op, scf.IfOp):  # the operations in its regions are examined on their own
        return True
    if op.regions:  # such as a loop, or an `scf.reduce` that combines values
        return False
    is_access_or_terminator = isinstance(op, memref.LoadOp | memref.StoreOp | scf.YieldOp | scf.ReduceOp)
    return is_access_or_terminator or info_of(op).is_pure or op.name == _WORKGROUP_ID


def hoist_invariants(entry: Entry, loop: scf.ParallelOp) -> None:
    """Move integer arithmetic and comparisons whose operands are defined before a loop to before it.

    The loop must have one invocation along each axis but the last: the counters of these axes are replaced by 0.
    """
    block = loop.body.block
    for counter in block.args[:-1]:
        counter.replace_all_uses_with(entry.constant(0, INDEX))
    parent = loop.parent
    assert parent is not None
    for op in list(walk(block)):
        is_invariant = all(is_defined_outside(operand, block) for operand in op.operands)
        if is_invariant and (isinstance(op, _HOISTED) or op.name == _WORKGROUP_ID):
            op.detach()
            parent.insert_op_before(op, loop)


def counts_from_0_by_1(loop: scf.ParallelOp) -> bool:
    """Return whether the lower bounds of a parallel loop are 0 and its steps 1 along all axes."""
    lower, steps = (list(map(constant_or_value, side)) for side in (loop.lowerBound, loop.step))
    return lower == [0] * len(lower) and steps == [1] * len(steps)


def conditions_of(block: Block) -> Iterator[SSAValue]:
    """Yield the values whose conjunctions are the conditions of the branches in a block, at any depth."""
    for op in walk(block):
        pending = [op.cond] if isinstance(op, scf.IfOp) else []
        while pending:
            value = pending.pop()
            if isinstance(value, OpResult) and isinstance(value.op, arith.AndIOp):
                pending += value.op.operands
            else:
                yield value


def bounds_of(entry: Entry, loop: scf.ParallelOp) -> Iterator[Bound]:
    """Yield the conditions of branches of a loop that compare its counter plus a start with a limit.

    The counter is that of the last axis; start and limit are the same for all iterations. The condition `n > s + j` of
    a loop over j gives the bound (comparison, "slt", start s, limit n): the sum is always on the left.

    Skip comparisons with a constant start and limit, such as `counter < 3`: they distinguish invocations, and do not
    test for the edge of an array.

    Args:
        entry: Start of the function, which receives constants.
        loop: The loop. The sums of which a start consists are inserted before it.
    """
    block, build = loop.body.block, Build.before(entry, loop)
    for condition in dict.fromkeys(conditions_of(block)):
        comparison = condition.owner
        if not isinstance(comparison, arith.CmpiOp) or not isinstance(comparison.lhs.type, IndexType):
            continue
        predicate = INT_PREDICATES[comparison.predicate.value.data]
        if predicate not in _MIRRORED:  # eq, ne or an unsigned order
            continue
        for value, limit, name in (  # the sum may be on either side
            (comparison.lhs, comparison.rhs, predicate),
            (comparison.rhs, comparison.lhs, _MIRRORED[predicate]),
        ):
            if not is_defined_outside(limit, block):
                continue
            # `value` must be the counter plus loop-invariant values: `start` is their sum, None for other values.
            start = _start(build, value, block)
            if start is not None and not (isinstance(start, int) and isinstance(constant_or_value(limit), int)):
                yield Bound(comparison, name, start, constant_or_value(limit))


def _start(build: Build, value: SSAValue, block: Block) -> Index | None:
    """Return `start` if a value is `start` plus the last counter of the loop with this body; None otherwise."""
    if value is block.args[-1]:
        return 0
    if isinstance(value.owner, arith.AddiOp):
        for left, right in (value.owner.operands, reversed(value.owner.operands)):
            if is_defined_outside(right, block):
                start = _start(build, left, block)
                return None if start is None else _sum(build, start, constant_or_value(right))
    elif isinstance(value.owner, arith.SubiOp) and is_defined_outside(value.owner.rhs, block):
        start = _start(build, value.owner.lhs, block)
        return None if start is None else difference_of(build, start, constant_or_value(value.owner.rhs))
    return None


def range_inside(build: Build, high: Index, bounds: list[Bound], invariant: list[SSAValue]) -> tuple[Index, SSAValue]:
    """Emit the range of invocations for which all conditions hold; return its first invocation and its length.

    An invocation is an iteration of the loop, whose counter is its number. The range consists of whole vectors: both
    results are multiples of `LANES`, which is 16. The bounds `j - 3 >= 0` and `j < n` hold for j from 3 to n - 1; with
    n = 100 the results are 16 and 80, for the invocations 16 to 95.

    The range is computed modulo 2^64, and then tested: each bound must hold for the first and the last of the
    invocations, and the sum that it compares must not wrap around between them. Then the bound holds for those between
    them, too. The length is 0 if a test or an invariant condition fails.

    Args:
        build: Receives the code.
        high: The number of all invocations.
        bounds: Conditions that compare the invocation plus a start with a limit.
        invariant: Conditions that are the same for all invocations.
    """
    begin, end = _whole_vectors(build, high, bounds)
    # The tests: there are such invocations, and each bound holds for the first and last one without wrap-around.
    last = build.minus(end, 1)  # number of the last invocation
    tests = [*invariant, build.compare("slt", begin, end)]
    for bound in bounds:
        lowest, highest = _sum(build, begin, bound.start), _sum(build, last, bound.start)
        tests.append(build.compare("sle", lowest, highest))
        tests += [build.compare(bound.predicate, value, bound.limit) for value in (lowest, highest)]
    holds, *others = tests
    for test in others:
        holds = build.let(arith.AndIOp(holds, test))
    return begin, build.select(holds, build.minus(end, begin), 0)


def _whole_vectors(build: Build, high: Index, bounds: list[Bound]) -> tuple[Index, Index]:
    """Emit the first invocation for which all bounds hold, and the one after the last, rounded inward to whole vectors.

    They are computed modulo 2^64, and clamped to 0..`high`: a difference that has wrapped around may be any number.
    """
    # `start + j > limit` holds from j = limit - start + 1 on, `>=` from limit - start on; `<` holds before
    # limit - start, `<=` before limit - start + 1.
    begin: Index = 0
    stop = high
    for bound in bounds:
        edge = difference_of(build, bound.limit, bound.start)
        if bound.predicate in ("sgt", "sge"):
            begin = build.most(begin, _sum(build, edge, 1 if bound.predicate == "sgt" else 0))
        else:
            stop = build.least(stop, _sum(build, edge, 1 if bound.predicate == "sle" else 0))
    end = build.most(stop, 0)  # `stop` is at most `high`
    if begin != 0:
        begin = build.most(build.least(begin, high), 0)
        begin = build.times(build.divide(build.plus(begin, LANES - 1), LANES)[0], LANES)
    return begin, build.times(build.divide(end, LANES)[0], LANES)


def _sum(build: Build, lhs: Index, rhs: Index) -> Index:
    """Return the sum of two indices modulo 2^64; `range_inside` tests whether it wrapped around."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _wrapped(lhs + rhs)
    if rhs == 0 or lhs == 0:
        return lhs if rhs == 0 else rhs
    return build.arithmetic(arith.AddiOp, (build.value(lhs), build.value(rhs)), INDEX)


def difference_of(build: Build, lhs: Index, rhs: Index) -> Index:
    """Return the difference of two indices modulo 2^64, which may wrap around."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return _wrapped(lhs - rhs)
    return lhs if rhs == 0 else build.arithmetic(arith.SubiOp, (build.value(lhs), build.value(rhs)), INDEX)


def _wrapped(value: int) -> int:
    """Return the signed 64-bit integer that is congruent to `value` modulo 2^64."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
