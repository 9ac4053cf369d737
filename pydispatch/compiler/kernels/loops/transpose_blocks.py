"""Transposition of small blocks of memory in vector registers (`pyd.transpose`), on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, StridedLayoutAttr
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.transpose import TransposeOp

SIDE = 16
"""Rows and columns of a block: 16 elements of 32 bits fill a cache line of 64 bytes."""


def view_as(
    build: Builder, buffer: SSAValue, offset: Index, sizes: Sequence[Index], strides: Sequence[Index]
) -> SSAValue:
    """Emit a view of a buffer with another offset, sizes and strides, all in elements, and return it."""
    type_ = buffer.type
    assert isinstance(type_, MemRefType)
    layout = StridedLayoutAttr(  # None for a dynamic stride or offset
        [s if isinstance(s, int) else None for s in strides], offset if isinstance(offset, int) else None
    )
    shape = [s if isinstance(s, int) else DYNAMIC_INDEX for s in sizes]
    result = MemRefType(type_.element_type, shape, layout, type_.memory_space)
    return build.add(memref.ReinterpretCastOp.from_dynamic(buffer, [offset], list(sizes), list(strides), result))


class StridedBlock(NamedTuple):
    """Block in memory whose rows are contiguous.

    Attributes:
        buffer: The memory.
        offset: Offset of the first element, in elements.
        stride: Elements between the beginnings of rows.
    """

    buffer: SSAValue
    offset: Index
    stride: Index


def transpose_block(
    build: Builder,
    source: StridedBlock,
    target: StridedBlock,
    rows: int,
    columns: int,
    stored: tuple[int, int] | None = None,
) -> None:
    """Emit the transposition of a block in memory: target[j, i] = source[i, j].

    Args:
        build: The builder.
        source, target: The two blocks. Rows of the source become columns of the target.
        rows, columns: Size of the source block, whose last rows and columns may be padding.
        stored: (rows, columns) of the source block without padding: only these are stored to the target. None for all.
    """
    stored_rows, stored_columns = stored or (rows, columns)
    shapes = ([rows, columns], [stored_columns, stored_rows])
    views = [
        view_as(build, buffer, offset, shape, [stride, 1])
        for (buffer, offset, stride), shape in zip((source, target), shapes, strict=True)
    ]
    build.add(TransposeOp(operands=views))
