"""Combining operations of `scf.reduce`, and whether their order matters."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, create
from pydispatch.compiler.kernel_ir.readers import flags
from pydispatch.ir.op_info import Grouping, info_of


def combiners(loop: scf.ParallelOp) -> list[Operation | None]:
    """Return for each result of a reduction the operation that combines two values.

    It is None for a result that is not combined by a single operation on the two values.
    """
    terminator = loop.body.blocks[0].last_op  # an scf.reduce, with a region for each result
    combining: list[Operation | None] = []
    for region in terminator.regions if terminator is not None else ():
        ops = list(region.blocks[0].ops)
        # A single operation and the scf.reduce.return of its result.
        is_single = len(ops) == 2 and ops[1].operands[0] in ops[0].results
        combines_the_values = is_single and set(ops[0].operands) == set(region.blocks[0].args)
        combining.append(ops[0] if combines_the_values else None)
    return combining


def may_be_reordered(op: Operation | None) -> bool:
    """Return whether the steps of a reduction by this operation may be regrouped and reordered.

    Floating-point steps may if the operation has the fast-math flag `reassoc`; None, an unknown combination, may not.
    """
    if op is None:
        return False
    grouping = info_of(op).grouping
    if grouping is Grouping.ROUNDED:
        return bool({"reassoc", "fast"} & set(flags(op, "fastmath").split()))
    return grouping is Grouping.EXACT


def combined(build: Build, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
    """Insert a copy of `op` that combines `left` and `right`, and return its result.

    op: an operation that `combiners` has returned. `left` replaces the first argument of its block, `right` the second.
    """
    assert op.parent is not None
    first_argument = op.parent.args[0]
    operands = [left if operand is first_argument else right for operand in op.operands]
    new = create(type(op), op.location, operands, (left.type,), dict(op.properties))
    new.attributes.update(op.attributes)
    build.insert(new)
    return new.results[0]
