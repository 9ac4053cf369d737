"""Insertion of operations into blocks, and their removal."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op


def insert_before(new: Operation, op: Operation) -> SSAValue:
    """Insert `new` before `op`, with its location, and return the first result of `new`."""
    assert op.parent is not None
    set_location(new, op)
    op.parent.insert_op_before(new, op)
    return new.results[0]


def erase_unused(ops: Iterable[Operation]) -> None:
    """Erase the operations without used results. ops: producers first."""
    for op in reversed(list(ops)):
        if not any(result.uses.get_length() for result in op.results):
            erase_op(op)
