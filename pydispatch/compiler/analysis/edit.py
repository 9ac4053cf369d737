"""Operations that are put before others."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from pydispatch.ir.core.locations import set_location


def before(new: Operation, op: Operation) -> SSAValue:
    """Put `new` before `op`; its result."""
    assert op.parent is not None
    set_location(new, op)
    op.parent.insert_op_before(new, op)
    return new.results[0]
