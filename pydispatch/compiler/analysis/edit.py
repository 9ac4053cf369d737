"""Insertion of operations into blocks, their replacement and removal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op, replace_op


def insert_before(new: Operation, op: Operation) -> SSAValue:
    """Insert `new` before `op`, with its location, and return the first result of `new`."""
    assert op.parent is not None
    set_location(new, op)
    op.parent.insert_op_before(new, op)
    return new.results[0]


def replace_with(op: Operation, new_ops: Sequence[Operation]) -> None:
    """Replace `op` by operations, producers first, which get its location; the last one computes the result."""
    assert op.parent is not None
    for new in new_ops:
        set_location(new, op)
    op.parent.insert_ops_before(new_ops, op)
    replace_op(op, new_ops[-1].results[0])


def erase_unused(ops: Iterable[Operation]) -> None:
    """Erase the operations without used results. ops: producers first."""
    for op in reversed(list(ops)):
        if not any(result.uses.get_length() for result in op.results):
            erase_op(op)
