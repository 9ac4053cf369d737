"""Loop versioning on CPUs: vectors of invocations between the edges of an array are computed without masks.

    parallel j in 0..512 { y[s + j] = x[s + j] + (s + j > 0 ? x[s + j - 1] : 0) }

is vectorized with masks, which are computed by comparisons of 64-bit indices for each vector. It becomes

    for first = 0 to 512 step 16 {
        if begin <= first < end { parallel lane in 0..16 { y[s + first + lane] = ... without the comparison } }
        else                    { parallel lane in 0..16 { y[s + first + lane] = ... } }
    }

where the comparisons hold for all invocations from `begin` to `end`, which are multiples of 16. A blur in the second-
level cache takes 0.68 of the time (Intel Xeon with AMX).
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import BoolAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue

from pydispatch.compiler.kernel_ir.bounds import (
    Bound,
    bounds_of,
    conditions_of,
    difference_of,
    hoist_invariants,
    is_plain,
    range_inside,
)
from pydispatch.compiler.kernel_ir.build import INDEX, Build, Entry, Index, constant_or_value
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.vector_loops import LANES, emit_lanes
from pydispatch.ir.core.walk import is_defined_outside, walk

MOST_OPERATIONS = 48
"""Maximum number of operations of the body of a loop that is versioned; the body is emitted twice."""

FEWEST_INVOCATIONS = 128
"""Minimum number of invocations of a loop that is versioned: with fewer, most of its vectors would be at an edge."""

KERNEL = "pyd.invocations"
"""Attribute of the function of a kernel in Python. Loops of other functions stay as they are."""


def separate_edge_vectors(function: FuncOp) -> None:
    """Replace the parallel loops of a kernel that compare counters with bounds by loops over vectors, in place.

    A vector is `LANES` invocations (iterations of the loop) that run together. A vector for which all comparisons hold
    is computed without them, a vector at an edge of the array with them:

        parallel j in 0..512 { if s + j > 0 { y[j] = x[s + j - 1] } }

    becomes

        for first = 0 to 512 step 16 {
            if begin <= first < end { parallel lane in 0..16 { if true { y[first + lane] = ... } } }
            else                    { parallel lane in 0..16 { if s + first + lane > 0 { y[first + lane] = ... } } }
        }

    Loops stay as they are if they have no branches, few invocations (`FEWEST_INVOCATIONS`), many operations
    (`MOST_OPERATIONS`), or operations that may not be copied (`is_plain`).
    """
    if KERNEL not in function.attributes:
        return
    entry = Entry(function)
    for loop in [op for op in walk(function) if isinstance(op, scf.ParallelOp)]:
        has_branches = any(isinstance(op, scf.IfOp) for op in loop.body.block.ops)
        if not has_branches or not _has_many_vectors(loop):
            continue
        if not all(map(is_plain, walk(loop.body.block))):
            continue
        hoist_invariants(entry, loop)  # `bounds_of` requires starts and limits that are defined before the loop
        bounds = list(bounds_of(entry, loop))
        if bounds and sum(1 for _ in walk(loop.body.block)) <= MOST_OPERATIONS:
            _emit_vectors(Build.before(entry, loop), loop, bounds)


def _has_many_vectors(loop: scf.ParallelOp) -> bool:
    """Return whether a loop counts from 0 by 1, and may have at least `FEWEST_INVOCATIONS` steps along its last axis.

    It must have one step along each other axis, and no reductions. A loop with the attribute `WHOLE_VECTORS`, which
    becomes vectors without a loop, does not count.
    """
    axes = [
        tuple(map(constant_or_value, axis)) for axis in zip(loop.lowerBound, loop.upperBound, loop.step, strict=True)
    ]
    *outer_axes, (low, high, step) = axes
    has_outer_loops = any(axis != (0, 1, 1) for axis in outer_axes)
    if has_outer_loops or loop.initVals or WHOLE_VECTORS in loop.attributes:
        return False
    counts_from_0_by_1 = low == 0 and step == 1
    most = _maximum(high)
    return counts_from_0_by_1 and most is not None and most >= FEWEST_INVOCATIONS


def _maximum(high: Index) -> int | None:
    """Return the greatest value that an index can have: a constant itself, or the constant operand of a minimum.

    Return None for other indices, whose maximum is not known.
    """
    if isinstance(high, int):
        return high
    if not isinstance(high.owner, arith.MinSIOp):
        return None
    return next((value for value in map(constant_or_value, high.owner.operands) if isinstance(value, int)), None)


def _emit_vectors(build: Build, loop: scf.ParallelOp, bounds: list[Bound]) -> None:
    """Replace a loop over invocations by a loop over vectors of `LANES` invocations.

    The vectors between the edges of the array, where all `bounds` hold, are emitted without comparisons. With the range
    (begin, length) of these invocations by `range_inside`, the loop over j in 0..high becomes

        for first = 0 to high step 16 { if first - begin <u length { vector inside } else { vector at an edge } }
    """
    block, high = loop.body.block, constant_or_value(loop.upperBound[-1])
    invariant = [value for value in dict.fromkeys(conditions_of(block)) if is_defined_outside(value, block)]
    begin, length = range_inside(build, high, bounds, invariant)  # of the invocations for which all comparisons hold
    truth = build.let(arith.ConstantOp(BoolAttr.from_bool(True)))
    # `range_inside` has tested the invariant conditions, too: a vector inside needs none of them.
    conditions = [*(bound.comparison.result for bound in bounds), *invariant]

    def step(inner: Build, first: SSAValue, _: list[SSAValue]) -> list[SSAValue]:
        """Emit the vector of invocations from `first` on; the loop over vectors carries no values."""
        # begin <= first < begin + length in one comparison: a vector before `begin` has a negative difference, which is
        # larger than any length as an unsigned number.
        is_inside = inner.compare("ult", difference_of(inner, first, begin), length)
        _emit_versions(inner, is_inside, loop, first, dict.fromkeys(conditions, truth))
        return []

    build.loop(0, high, LANES, (), step)
    loop.detach()
    loop.erase()


def _emit_versions(
    build: Build, is_inside: SSAValue, loop: scf.ParallelOp, first: SSAValue, decided: dict[SSAValue, SSAValue]
) -> None:
    """Emit a branch between two versions of the vector of invocations from `first` on.

    If `is_inside`, the conditions of `decided` have their constants there; otherwise they are computed.
    """
    bodies = Block(), Block()
    build.op(scf.IfOp(is_inside, [], Region(bodies[0]), Region(bodies[1])))
    inside, edge = map(build.inside, bodies)
    _emit_vector(inside, loop, first, decided)
    inside.end()
    _emit_vector(edge, loop, first, {})
    edge.end()


def _emit_vector(build: Build, loop: scf.ParallelOp, first: SSAValue, decided: dict[SSAValue, SSAValue]) -> None:
    """Emit the vector of `LANES` invocations of a loop from `first` on, as a parallel loop over its lanes.

    A vector between the edges of the array becomes `parallel lane in 0..16 { body(first + lane) }`. A vector that may
    be at an edge becomes `parallel lane in 0..16 { if first + lane < high { body(first + lane) } }`, with the number of
    invocations `high`. This test is omitted if `high` is a constant multiple of 16.

    Args:
        build: Receives the parallel loop.
        loop: The loop, whose body is copied.
        first: Number of the invocation in lane 0.
        decided: Condition of the loop's body → its constant in a vector between the edges; empty for a vector that may
            be at an edge.
    """
    block, high = loop.body.block, constant_or_value(loop.upperBound[-1])
    is_inside = bool(decided)  # whether the vector is between the edges
    body = Block(arg_types=[INDEX])
    lane_build = build.inside(body)  # builds the body of the loop over lanes
    invocation = lane_build.value(lane_build.plus(first, body.args[0]))
    is_whole = is_inside or (isinstance(high, int) and high % LANES == 0)
    inner = lane_build if is_whole else lane_build.when(lane_build.compare("slt", invocation, high))
    # `clone` replaces operands by `values`, and adds the results of each copy to it. That overwrites the entry of a
    # condition that the body computes: the uses of its copy are replaced afterwards.
    values: dict[SSAValue, SSAValue] = {block.args[-1]: invocation, **decided}
    *operations, _ = block.ops  # without the terminator
    for op in operations:
        inner.insert(op.clone(values))
    for condition, constant in decided.items():
        if not is_defined_outside(condition, block):
            values[condition].replace_all_uses_with(constant)
    if not is_whole:
        inner.end()
    lane_build.op(scf.ReduceOp())
    emit_lanes(build, LANES, body)
