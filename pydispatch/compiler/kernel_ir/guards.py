"""Calls of optional imports that run only where the import was found."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import AVAILABLE
from pydispatch.compiler.kernel_ir.readers import op_name, symbol


def is_guarded(op: Operation, callee: FuncOp) -> bool:
    """Return whether an scf.if around the call asks for the import."""
    at: Operation | None = op
    while at is not None:
        parent = at.parent_op()
        if isinstance(parent, scf.IfOp) and _asks(parent.cond.owner, callee):
            return True
        at = parent
    return False


def _asks(op: object, callee: FuncOp) -> bool:
    if not isinstance(op, Operation):
        return False
    if op_name(op) == AVAILABLE:
        return symbol(op, "callee") == callee.sym_name.data
    return op_name(op) == "arith.andi" and any(_asks(operand.owner, callee) for operand in op.operands)
