"""Calls of optional imports that run only where the import was found."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import AVAILABLE
from pydispatch.compiler.kernel_ir.readers import op_name, symbol


def is_guarded(op: Operation, callee: FuncOp) -> bool:
    """Return whether an enclosing `scf.if` tests that the import was found."""
    at: Operation | None = op
    while at is not None:
        parent = at.parent_op()
        if isinstance(parent, scf.IfOp) and _tests_presence(parent.cond.owner, callee):
            return True
        at = parent
    return False


def _tests_presence(op: object, callee: FuncOp) -> bool:
    """Return whether a condition implies that `callee` is available."""
    if not isinstance(op, Operation):
        return False
    if op_name(op) == AVAILABLE:
        return symbol(op, "callee") == callee.sym_name.data
    return op_name(op) == "arith.andi" and any(_tests_presence(operand.owner, callee) for operand in op.operands)
