"""Repetition of the operations of a region, whose values its derivative needs again."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import info_of
from pydispatch.programs.trace import Trace

_CONTROL = ("scf.for", "scf.if", "scf.while", "scf.condition", "scf.yield", "builtin.unrealized_conversion_cast")
"""Operations that have no effects of their own, beside those that `op_info` lists as pure."""


def repeated(trace: Trace, body: Sequence[Operation], values: dict[SSAValue, SSAValue]) -> list[Operation]:
    """Add clones of the operations of a region to the current block, and return them.

    The derivative of a region computes the values of the region again. With values {%x: %x1}, the operation
    `%y = math.exp %x` is cloned as `%y1 = math.exp %x1`, and %y: %y1 is added to `values`.

    Run-time checks among the operations (`cf.assert`) are not cloned: they have run in the region itself.

    Args:
        trace: Builder of the program.
        body: The operations, without the terminator.
        values: Maps values of the region, such as its arguments, to those that clones use instead. The results of the
            operations are added, with the results of their clones.
    """
    clones = []
    for op in body:
        if op.name == "cf.assert":
            continue
        clones.append(trace.add(op.clone(values)))
        region_owner = op.parent_op()  # the loop or branch
        # A clone has the shape that the trace has recorded for the result. If the region itself computes a size of it,
        # that size is not defined here: no shape is recorded, and sizes are read from the clone when they are needed.
        for result, clone in zip(op.results, clones[-1].results, strict=True):
            shape = trace.shapes.get(result)
            if shape is not None and region_owner is not None and trace.has_sizes_outside(shape, region_owner):
                trace.shapes[clone] = shape
    return clones


def erase_unused(ops: Sequence[Operation]) -> None:
    """Erase operations without effects whose results are not used. ops: operations of a block, in order."""
    for op in reversed(ops):
        is_used = any(result.first_use is not None for result in op.results)
        if not is_used and all(info_of(inner).is_pure or inner.name in _CONTROL for inner in walk(op)):
            op.detach()
            op.erase()
