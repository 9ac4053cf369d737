"""Grid and in-place updates of a dispatch function: facts that dispatch formation and code generation share."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import BlockArgument, Operation, SSAValue

from pydispatch.compiler.tensor_ops.registry import rule_of
from pydispatch.compiler.tensor_ops.rule import Update

GRID = "grid"
"""The attribute of regions and dispatch functions that compute on tensors on a grid chosen by hand."""


def destination_operand(op: Operation) -> int | None:
    """Return the index of the operand whose elements an update overwrites; None for other operations."""
    rule = rule_of(op)
    return rule.destination if isinstance(rule, Update) else None


def updated_arguments(function: func.FuncOp) -> list[int]:
    """Return, for each result of a dispatch function, the argument that it updates in place, or -1 for a new tensor.

    A result updates an argument in place when a sequence of updates leads from the argument to the result, and nothing
    else in the function reads the argument or an intermediate tensor of the sequence. The kernel then writes the
    updated elements only.
    """
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    roots = [_root(value) for value in end.arguments]
    return [n if n >= 0 and roots.count(n) == 1 else -1 for n in roots]


def _root(value: SSAValue) -> int:
    updates = 0
    while isinstance(value.owner, Operation):
        if value.uses.get_length() != 1:
            return -1
        owner = value.owner
        destination = destination_operand(owner)
        if destination is not None:
            value = owner.operands[destination]
            updates += 1
        elif owner.name == "flow.dispatch.tie_shape":
            value = owner.operands[0]
        else:
            return -1
    assert isinstance(value, BlockArgument)
    return value.index if updates and value.uses.get_length() == 1 else -1
