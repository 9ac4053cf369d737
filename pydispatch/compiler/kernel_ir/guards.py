"""Calls of optional imports that run only where the import was found."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import AVAILABLE
from pydispatch.compiler.kernel_ir.readers import op_name, symbol


def is_guarded(op: Operation, callee: FuncOp) -> bool:
    """Return whether an operation runs only if the optional import `callee` was found at load.

    It does if it is in the first region of an `scf.if` whose condition tests that.
    """
    inner, parent = op, op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp):
            runs_if_true = inner.parent_region() is parent.true_region
            if runs_if_true and _tests_presence(parent.cond.owner, callee):
                return True
        inner, parent = parent, parent.parent_op()
    return False


def _tests_presence(op: object, callee: FuncOp) -> bool:
    """Return whether the condition that `op` computes implies that `callee` is available.

    It does if `op` asks for `callee` itself, or is a conjunction with such a condition.
    """
    if not isinstance(op, Operation):
        return False
    if op_name(op) == AVAILABLE:
        return symbol(op, "callee") == callee.sym_name.data
    return op_name(op) == "arith.andi" and any(_tests_presence(operand.owner, callee) for operand in op.operands)
