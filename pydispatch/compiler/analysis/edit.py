"""Insertion of operations into blocks."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from pydispatch.ir.core.locations import set_location


def insert_before(new: Operation, op: Operation) -> SSAValue:
    """Insert `new` before `op`, with its location, and return the first result of `new`."""
    assert op.parent is not None
    set_location(new, op)
    op.parent.insert_op_before(new, op)
    return new.results[0]
