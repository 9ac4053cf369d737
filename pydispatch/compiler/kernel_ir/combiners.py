"""Combining operations of `scf.reduce`, and whether their order matters."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernel_ir.build import Build, create
from pydispatch.compiler.kernel_ir.readers import flags
from pydispatch.ir.op_info import Grouping, info_of


def combiners(loop: scf.ParallelOp) -> list[Operation | None]:
    """Return the operation that combines each result of a reduction; None for a result whose region has several."""
    last = loop.body.blocks[0].last_op
    combining: list[Operation | None] = []
    for region in last.regions if last is not None else ():
        ops = list(region.blocks[0].ops)
        plain = len(ops) == 2 and ops[1].operands[0] in ops[0].results
        combining.append(ops[0] if plain and set(ops[0].operands) == set(region.blocks[0].args) else None)
    return combining


def is_free(op: Operation | None) -> bool:
    """Return whether the steps of a reduction by this operation may be regrouped and reordered."""
    if op is None:
        return False
    grouping = info_of(op).grouping
    if grouping is Grouping.ROUNDED:
        return bool({"reassoc", "fast"} & set(flags(op, "fastmath").split()))
    return grouping is Grouping.EXACT


def combined(build: Build, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
    """Insert a copy of `op` that combines two values instead of the arguments of its block, and return its result."""
    assert op.parent is not None
    first = op.parent.args[0]
    operands = [left if operand is first else right for operand in op.operands]
    new = create(type(op), op.location, operands, (left.type,), dict(op.properties))
    new.attributes.update(op.attributes)
    build.insert(new)
    return new.results[0]
