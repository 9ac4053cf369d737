"""Reductions over parallel loops, distributed over the invocations of a workgroup."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, replace
from pydispatch.compiler.kernel_ir.combiners import combined, combiners, may_be_reordered
from pydispatch.compiler.kernel_ir.simt.meet import combine_partials
from pydispatch.compiler.kernel_ir.simt.ranges import Range, distribute, inline_block, unroll_factor
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import identity_of, info_of

TYPES = (Float16Type, BFloat16Type, Float32Type, Float64Type, IntegerType, IndexType)
"""Types of values that invocations combine."""


def check_result_count(loop: scf.ParallelOp) -> None:
    """Raise CompileError if an `scf.reduce` has another number of regions than the loop has results."""
    last = loop.body.blocks[0].last_op
    combined_count = 0 if last is None else len(last.regions)
    if combined_count != len(loop.initVals):
        raise CompileError(
            f"scf.reduce combines {combined_count} values, the loop carries {len(loop.initVals)}", location_of(loop)
        )


def can_distribute(loop: scf.ParallelOp) -> bool:
    """Return whether all results of a loop may be combined in any order, so that it can be distributed."""
    check_result_count(loop)
    return all(  # a combiner is None if no single operation combines the values of that result
        op is not None and isinstance(op.results[0].type, TYPES) and may_be_reordered(op) for op in combiners(loop)
    )


def distribute_reduction(workgroup: Workgroup, loop: scf.ParallelOp, bounds: list[Range]) -> None:
    """Distribute a reduction: each invocation reduces its iterations, then the workgroup combines the partial results.

    In a sum over 256 elements by 64 invocations, each adds 4 elements, and then their 64 partial sums are added. The
    caller has already recorded the memory accesses of the loop. `bounds` has (lower bound, upper bound, step) of
    each dimension.
    """
    # No combiner is None, since the caller has checked `can_distribute`: the filter only narrows the static type.
    build, ops = workgroup.build(loop), [op for op in combiners(loop) if op is not None]
    starts = [_initial_value(workgroup, build, op, value) for op, value in zip(ops, loop.initVals, strict=True)]
    block = loop.body.blocks[0]

    def element(inner: Build, indices: list[SSAValue], carried: list[SSAValue], *, may_move: bool) -> list[SSAValue]:
        """Insert one iteration: inline the body of the loop, `block`, and combine its values with the carried ones.

        Copies of the combiners `ops` do that, one for each result of the reduction. may_move: whether the body is
        inlined for the last time, so that its operations are moved instead of copied.
        """
        yielded = inline_block(block, inner, indices, may_move=may_move)
        return [
            combined(inner, op, accumulator, value)
            for op, accumulator, value in zip(ops, carried, yielded, strict=True)
        ]

    # The partial results of each invocation, then their combination, which replaces the results of the loop.
    partial = distribute(workgroup, loop, bounds, starts, element, unroll=unroll_factor(workgroup, block))
    replace(loop, combine_partials(workgroup, loop, ops, partial))


def _initial_value(workgroup: Workgroup, build: Build, op: Operation, value: SSAValue) -> SSAValue:
    """Return the value that an invocation's partial result starts from.

    It is the initial value of the reduction, `value`, in invocation 0, and the neutral element of `op` in others.
    """
    # An idempotent operation, such as a maximum, may combine the initial value once in each invocation.
    if info_of(op).idempotent:
        return value
    identity = identity_of(op, value.type)
    assert identity is not None
    return build.let(arith.SelectOp(workgroup.is_first(), value, build.let(arith.ConstantOp(identity))))
