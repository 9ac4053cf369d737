"""Recurrences: the rows are independent, the elements of a row are computed one after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.nests import Cut
from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp

STEP_BYTES = 16
"""What a step of a recurrence costs beside what it stores, in bytes of a plain copy."""


AT_ONCE = 8
"""Carried values of the rows that are computed in one loop: about as many as there are registers."""


def row_dims(e: Elements, op: RecurrenceOp) -> list[Index]:
    """The sizes of the dimensions that count the rows."""
    dims = list(e.dims(op.res[0]))
    del dims[op.along]
    return dims


def row_bytes(e: Elements, build: Builder, op: RecurrenceOp) -> Index:
    """What a row costs, in bytes of a plain copy."""
    stored = sum(max(1, bits_of(tensor_type(r).element_type) // 8) for r in op.res)
    return build.times(e.dims(op.res[0])[op.along], STEP_BYTES + stored)


def write_rows(
    e: Elements, build: Builder, op: RecurrenceOp, buffers: dict[SSAValue, SSAValue], rows: Sequence[Sequence[Index]]
) -> None:
    """Some rows in one loop. buffers: results that are stored -> where. rows: the index of each, without the dimension
    that it lies along."""
    axis, block = op.along, op.next.block
    start: list[SSAValue] = []
    for row in rows:
        mapping: dict[SSAValue, SSAValue] = dict(zip(op.first.block.args, map(build.value, row), strict=True))
        start += clone_block(e, build, op.first.block, mapping, row)
    count = len(start) // len(rows)

    def step(inner: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        following: list[SSAValue] = []
        elements: list[tuple[SSAValue, SSAValue, list[Index]]] = []
        for place, row in enumerate(rows):
            indices = [*row[:axis], number, *row[axis:]]
            own = carried[place * count : (place + 1) * count]
            values: dict[SSAValue, SSAValue] = dict(zip(block.args, [*map(inner.value, indices), *own], strict=True))
            found = clone_block(e, inner, block, values, indices)
            following += found[:count]
            elements += [(element, value, indices) for value, element in zip(op.res, found[count:], strict=True)]
        for element, value, indices in elements:
            if value in buffers:
                e.store(inner, element, buffers[value], indices)
        return following

    build.loop(0, e.dims(op.res[0])[axis], start, step)


def emit_recurrence(
    e: Elements, build: Builder, group: Index, cut: Cut, op: RecurrenceOp, buffers: dict[SSAValue, SSAValue]
) -> None:
    """The rows of workgroup number `group` of a CPU, several at once: each waits for its own last step only."""
    dims = row_dims(e, op)
    low = build.times(group, cut.rows)
    high = build.least(build.plus(low, cut.rows), cut.outer)
    together = max(1, AT_ONCE // max(1, len(op.next.block.args) - len(dims) - 1))
    many = build.plus(low, build.times(build.quotient(build.minus(high, low), together), together))

    def rows(b: Builder, number: Index, count: int) -> None:
        found = [b.split(b.plus(number, i), dims) for i in range(count)]
        for row in found:
            if row and isinstance(row[0], SSAValue):
                b.bounded(row[0], dims[0])
        write_rows(e, b, op, buffers, found)

    def several(b: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        rows(b, number, together)
        return []

    def single(b: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        rows(b, number, 1)
        return []

    if cut.outer == 1:
        rows(build, 0, 1)
        return
    build.loop(low, many, [], several, step=together, limit=cut.outer)
    build.loop(many, high, [], single, limit=cut.outer)
