"""Recurrences: the rows are independent, the elements of a row are computed one after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.bits import bits_of
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.dialects.pyd.recurrence import RecurrenceOp

STEP_BYTES = 16
"""What a step of a recurrence costs beside what it stores, in bytes of a plain copy."""


def row_dims(e: Elements, op: RecurrenceOp) -> list[Index]:
    """The sizes of the dimensions that count the rows."""
    dims = list(e.dims(op.res[0]))
    del dims[op.along]
    return dims


def row_bytes(e: Elements, build: Builder, op: RecurrenceOp) -> Index:
    """What a row costs, in bytes of a plain copy."""
    stored = sum(max(1, bits_of(tensor_type(r).element_type) // 8) for r in op.res)
    return build.times(e.dims(op.res[0])[op.along], STEP_BYTES + stored)


def write_row(
    e: Elements, build: Builder, op: RecurrenceOp, buffers: dict[SSAValue, SSAValue], row: Sequence[Index]
) -> None:
    """One row. buffers: results that are stored -> where. row: its index, without the dimension it lies along."""
    axis, block = op.along, op.next.block
    outer = dict(zip(op.first.block.args, map(build.value, row), strict=True))
    start = clone_block(e, build, op.first.block, {**outer}, row)

    def step(inner: Builder, number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        indices = [*row[:axis], number, *row[axis:]]
        mapping = dict(zip(block.args, [*map(inner.value, indices), *carried], strict=True))
        found = clone_block(e, inner, block, {**mapping}, indices)
        for result, element in zip(op.res, found[len(carried) :], strict=True):
            if result in buffers:
                e.store(inner, element, buffers[result], indices)
        return found[: len(carried)]

    build.loop(0, e.dims(op.res[0])[axis], start, step)
