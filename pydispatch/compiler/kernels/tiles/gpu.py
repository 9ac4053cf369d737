"""Tiles on GPUs: copies and products as loops over elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.tiles.parts import converted, element_of, part_of, put, shape_of
from pydispatch.ir.dialects.pyd.tiles import MatmulOp, ReadTileOp

BLOCKS = ((8, 8), (8, 4), (4, 4), (4, 2), (2, 2), (2, 1), (1, 1))
"""(rows, columns) of the block of C that an invocation computes, largest first."""


def read(build: Builder, op: ReadTileOp) -> None:
    """Lower a `pyd.read_tile` to a loop over elements; adjacent invocations load adjacent elements of the view."""
    part, (rows, columns) = part_of(op), shape_of(op.tile)

    def copy_element(builder: Builder, position: Index) -> None:
        """Copy one element of the part of the view to the tile; elements outside of the view are zero."""
        row, column = part.split(builder, position, shape=(rows, columns))
        put(builder, part.element(builder, row, column), op.tile, row, column)

    build.parallel(low=0, high=rows * columns, body=copy_element)


def multiply(build: Builder, op: MatmulOp, invocations: int) -> None:
    """Lower a `pyd.matmul` (C += A·B) to a parallel loop over blocks of C.

    One invocation sums up a block in registers. Blocks have the largest shape of `BLOCKS` that divides C and leaves a
    block for each of the `invocations` of a workgroup. Elements of a block are not adjacent but strided by the number
    of blocks, so that adjacent invocations access adjacent elements. For a C of 16 x 16 and 64 invocations, there are
    8 x 8 blocks of 2 x 2 elements: the block of invocation 0 is C[0, 0], C[0, 8], C[8, 0] and C[8, 8], and that of
    invocation 1 is C[0, 1], C[0, 9], C[8, 1] and C[8, 9].
    """
    rows, columns = shape_of(op.c)
    # Shapes that divide C, largest first. The last one, 1 x 1, always does.
    fitting = [(h, w) for h, w in BLOCKS if rows % h == 0 and columns % w == 0]
    # 1 x 1 is also used if C has fewer elements than there are invocations.
    height, width = next(((h, w) for h, w in fitting if rows * columns // (h * w) >= invocations), fitting[-1])
    grid_rows, grid_columns = rows // height, columns // width  # the grid of blocks

    def multiply_block(builder: Builder, block_index: Index) -> None:
        """Emit the product of one block: height x width elements of C.

        Neighbours in a block are grid_rows rows, or grid_columns columns, apart in C.
        """
        top, left = builder.split(block_index, [grid_rows, grid_columns])  # row and column of the first element
        positions = [
            (builder.plus(top, r * grid_rows), builder.plus(left, c * grid_columns))
            for r in range(height)
            for c in range(width)
        ]
        _multiply_block(builder, op, positions, width)

    build.parallel(0, grid_rows * grid_columns, multiply_block)


def _multiply_block(build: Builder, op: MatmulOp, positions: Sequence[tuple[Index, Index]], width: int) -> None:
    """Emit C += A·B for some elements of C, whose sums are in registers during the loop over K.

    Args:
        build: Receives the code.
        op: The product.
        positions: (row, column) of each element of C, row by row; all rows have the same columns.
        width: Number of these columns.
    """
    type_ = element_of(op.c)
    rows, columns = [row for row, _ in positions[::width]], [column for _, column in positions[:width]]
    initial = [build.add(memref.LoadOp.get(op.c, [build.value(row), build.value(column)])) for row, column in positions]

    def step(inner: Builder, k: Index, sums: list[SSAValue]) -> list[SSAValue]:
        """Add A[row, k] * B[k, column] to the sum of each pair of `rows` and `columns`, and return the sums."""
        step_index = inner.value(k)
        factors_a = [_factor(inner, op.a, row, step_index, type_) for row in rows]
        factors_b = [_factor(inner, op.b, step_index, column, type_) for column in columns]
        pairs = [(x, y) for x in factors_a for y in factors_b]
        return [_added(inner, x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

    steps = shape_of(op.a)[1]  # K
    for total, (row, column) in zip(build.loop(0, steps, initial, step), positions, strict=True):
        put(build, total, op.c, row, column)


def _factor(build: Builder, tile: SSAValue, row: Index, column: Index, type_: object) -> SSAValue:
    """Emit the load of an element of A or B, and return it converted to `type_`, the type of the sums."""
    value = build.add(memref.LoadOp.get(tile, [build.value(row), build.value(column)]))
    return converted(build, value, type_)  # type: ignore[arg-type]


def _added(build: Builder, lhs: SSAValue, rhs: SSAValue, total: SSAValue) -> SSAValue:
    """Emit total + lhs · rhs, of floats or integers, and return it."""
    if isinstance(total.type, AnyFloat):
        return build.add(arith.AddfOp(total, build.add(arith.MulfOp(lhs, rhs))))
    return build.add(arith.AddiOp(total, build.add(arith.MuliOp(lhs, rhs))))
