"""Replacement, removal and moves of operations."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue


def replace_op(op: Operation, *values: SSAValue) -> None:
    """Replace all uses of an operation's results by `values`, one per result in order, and erase the operation.

    Each value also gets the name hint of its result, None included.
    """
    for result, value in zip(op.results, values, strict=True):
        value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
    erase_op(op)


def erase_op(op: Operation, safe_erase: bool = True) -> None:
    """Detach an operation from its block and erase it.

    Args:
        op: The operation.
        safe_erase: Whether to raise ValueError if a result has uses. If False, remaining uses get an `ErasedSSAValue`.
    """
    op.detach()
    op.erase(safe_erase=safe_erase)


def move_before(block: Block, op: Operation) -> None:
    """Move all operations of a block to directly before an operation of another block."""
    around = op.parent
    assert around is not None
    for moved in list(block.ops):
        moved.detach()
        around.insert_op_before(moved, op)
