"""Calls of optional imports that run only where the import was found."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import AVAILABLE
from pydispatch.compiler.kernel_ir.readers import op_name, symbol


def is_guarded(op: Operation, callee: FuncOp) -> bool:
    """Return whether an operation runs only where an import was found: an enclosing `scf.if` tests it."""
    enclosing: Operation | None = op
    while enclosing is not None:
        parent = enclosing.parent_op()
        if isinstance(parent, scf.IfOp) and _tests_presence(parent.cond.owner, callee):
            return True
        enclosing = parent
    return False


def _tests_presence(op: object, callee: FuncOp) -> bool:
    """Return whether a condition implies that `callee` is available."""
    if not isinstance(op, Operation):
        return False
    if op_name(op) == AVAILABLE:
        return symbol(op, "callee") == callee.sym_name.data
    return op_name(op) == "arith.andi" and any(_tests_presence(operand.owner, callee) for operand in op.operands)
