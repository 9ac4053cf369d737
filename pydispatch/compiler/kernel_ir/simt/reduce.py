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
from pydispatch.compiler.kernel_ir.combiners import combined, combiners, is_free
from pydispatch.compiler.kernel_ir.simt.meet import meet
from pydispatch.compiler.kernel_ir.simt.ranges import Range, distribute, placed, repeats
from pydispatch.compiler.kernel_ir.simt.workgroup import Workgroup
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.op_info import identity_of, info_of

TYPES = (Float16Type, BFloat16Type, Float32Type, Float64Type, IntegerType, IndexType)


def check(loop: scf.ParallelOp) -> None:
    """CompileError where scf.reduce has another number of combinations than the loop has values."""
    last = loop.body.blocks[0].last_op
    combined_count = 0 if last is None else len(last.regions)
    if combined_count != len(loop.initVals):
        raise CompileError(
            f"scf.reduce combines {combined_count} values, the loop carries {len(loop.initVals)}", location_of(loop)
        )


def regroups(loop: scf.ParallelOp) -> bool:
    """Return whether all results may be combined in any order."""
    check(loop)
    return all(op is not None and isinstance(op.results[0].type, TYPES) and is_free(op) for op in combiners(loop))


def regrouped(workgroup: Workgroup, loop: scf.ParallelOp, bounds: list[Range]) -> None:
    """Replace the loop: an invocation combines what its iterations give, then the invocations meet. What the loop
    accesses has been noted."""
    build, ops = workgroup.build(loop), [op for op in combiners(loop) if op is not None]
    starts = [_start(workgroup, build, op, value) for op, value in zip(ops, loop.initVals, strict=True)]
    block = loop.body.blocks[0]

    def element(inner: Build, indices: list[SSAValue], carried: list[SSAValue], last: bool) -> list[SSAValue]:
        yielded = placed(block, inner, indices, last)
        return [combined(inner, *pair) for pair in zip(ops, carried, yielded, strict=True)]

    partial = distribute(workgroup, loop, bounds, starts, element, repeats(workgroup, block))
    replace(loop, meet(workgroup, loop, ops, partial))


def _start(workgroup: Workgroup, build: Build, op: Operation, value: SSAValue) -> SSAValue:
    """Return the value that an invocation combines its first element with; the value before the loop counts once."""
    if info_of(op).idempotent:
        return value
    identity = identity_of(op, value.type)
    assert identity is not None
    return build.let(arith.SelectOp(workgroup.first(), value, build.let(arith.ConstantOp(identity))))
