"""Replacement and removal of operations."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue


def replace_op(op: Operation, *values: SSAValue) -> None:
    """Replace the results of an operation by as many values, which inherit the names of the results, and erase it."""
    for result, value in zip(op.results, values, strict=True):
        value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    erase_op(op)


def erase_op(op: Operation, safe_erase: bool = True) -> None:
    """Detach an operation from its block and erase it.

    Args:
        op: The operation.
        safe_erase: Whether to require that its results have no uses. Without it, other uses are left dangling.
    """
    op.detach()
    op.erase(safe_erase=safe_erase)
