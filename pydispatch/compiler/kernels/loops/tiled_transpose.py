"""Nests whose operands are contiguous along another dimension than their results, as in transpositions: square tiles.

A workgroup computes each tile into workgroup memory, in the order in which operands are contiguous, and then copies it
to the results in their order. So every cache line is read and written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.nests import Partition
from pydispatch.compiler.kernels.loops.tiles import elements_per_workgroup
from pydispatch.compiler.kernels.loops.transpose_blocks import transpose_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend

Store = tuple[SSAValue, SSAValue]
"""(value, buffer)"""

BLOCKS = (16, 8)
"""Candidates for the side of a block, in elements: the first that divides both dimensions, else 16 with partial
blocks."""


def block_of(dims: Sequence[Index], along: int) -> tuple[int, bool]:
    """Return the side of a square block in elements, and whether it divides both dimensions of the transposition.

    These dimensions are the last one and `along`.
    """
    for side in BLOCKS:
        if all(isinstance(n, int) and n % side == 0 for n in (dims[along], dims[-1])):
            return side, True
    return BLOCKS[0], False


def transposed_dim(loads: Sequence[tuple[SSAValue, tuple[Index, ...]]], indices: Sequence[Index]) -> int:
    """Return the dimension along which most loads of a nest are contiguous; -1 if it is the last one, or there is none.

    loads: (tensor, indices) of each load; indices: counters of the loops of the nest.
    """
    if len(indices) < 2:
        return -1
    last_index = indices[-1]
    last_indices = [where[-1] for _, where in loads if where]
    column_loads = [where for _, where in loads if where and where[-1] in indices[:-1] and last_index in where[:-1]]
    if not column_loads or sum(index is last_index for index in last_indices) > len(column_loads):
        return -1
    return list(indices).index(column_loads[0][-1])


def partition_transposed(
    build: Builder, backend: Backend, dims: Sequence[Index], along: int, bytes_per_element: Index
) -> Partition:
    """Return the partition of a nest into workgroups of square blocks, by the cost of its elements in bytes.

    An outer iteration of the partition is a row of blocks. `along` is the dimension that is transposed with the last.
    """
    side, _ = block_of(dims, along)
    budget = elements_per_workgroup(build, backend, build.times(bytes_per_element, side))
    width = build.times(build.most(build.quotient(budget, side), 1), side)
    tile = build.least(dims[-1], width)
    rows = build.most(build.quotient(budget, build.most(tile, 1)), 1)
    outer_elements = build.product([n for d, n in enumerate(dims[:-1]) if d != along])
    outer = build.times(outer_elements, build.ceil_quotient(dims[along], side))
    tiles = build.ceil_quotient(dims[-1], tile)
    return Partition(
        outer=outer, rows=rows, tile=tile, tiles=tiles, workgroups=build.times(build.ceil_quotient(outer, rows), tiles)
    )


def emit_transposed(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    dims: Sequence[Index],
    along: int,
    stores: Sequence[Store],
) -> None:
    """Emit the blocks of workgroup number `group`.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        group: The number of the workgroup.
        partition: The partition of the nest, see `partition_transposed`.
        dims: Sizes of the dimensions of the nest.
        along: The dimension along which operands are contiguous.
        stores: The results, each with its buffer.
    """
    _TiledTranspose(elements, build, list(dims), along, stores).run(build, group, partition)


@dataclass(frozen=True)
class _Square:
    """Position of a square block in the results.

    Attributes:
        outer: Indices of all dimensions but the last; that of the transposed dimension is not used.
        top, bottom: Its half-open range along the transposed dimension: its rows.
        left, right: Its half-open range along the last dimension: its columns.
    """

    outer: list[Index]
    top: Index
    bottom: Index
    left: Index
    right: Index


class _TiledTranspose:
    """Emitter of the square blocks of one nest.

    Each block is computed column by column into a buffer in workgroup memory, and then copied to the results.

    Attributes:
        elements: Tensors of the kernel.
        dims: Sizes of the dimensions of the nest.
        along: The dimension that is transposed with the last one.
        stores: The results, each with its buffer.
        side: Rows, and columns, of a block.
        is_whole: Whether `side` divides both dimensions.
        buffers: For each result, workgroup memory of one block, column-major.
        in_registers: Whether elements are whole bytes, so that full blocks are transposed in registers.
    """

    def __init__(
        self, elements: Elements, build: Builder, dims: list[Index], along: int, stores: Sequence[Store]
    ) -> None:
        self.elements, self.dims, self.along, self.stores = elements, dims, along, stores
        self.side, self.is_whole = block_of(dims, along)
        types = [tensor_type(value).element_type for value, _ in stores]
        self.buffers = [elements.fresh(type_, self.side * self.side) for type_ in types]
        self.in_registers = all((bit_width(type_) or 1) % 8 == 0 for type_ in types)

    def run(self, build: Builder, group: Index, partition: Partition) -> None:
        """Emit the loops over the blocks of workgroup `group`."""
        dims, along, side = self.dims, self.along, self.side
        other_dims = [d for d in range(len(dims) - 1) if d != along]
        blocks = build.ceil_quotient(dims[along], side)
        tile, outer_tile = build.remainder(group, partition.tiles), build.quotient(group, partition.tiles)
        low = build.times(tile, partition.tile)
        high = build.least(build.plus(low, partition.tile), dims[-1])
        first_row = build.times(outer_tile, partition.rows)
        end_row = build.least(build.plus(first_row, partition.rows), partition.outer)

        def row_of_blocks(builder: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the blocks of row `index` of blocks, from column `low` to `high`."""
            *other_indices, row_block = builder.split(index, [*(dims[d] for d in other_dims), blocks])
            outer: list[Index] = [0] * (len(dims) - 1)
            for dimension, index_in_dim in zip(other_dims, other_indices, strict=True):
                outer[dimension] = (
                    index_in_dim if isinstance(index_in_dim, int) else builder.bounded(index_in_dim, dims[dimension])
                )
            top = builder.times(row_block, side)
            bottom = builder.plus(top, side) if self.is_whole else builder.least(builder.plus(top, side), dims[along])

            def block(builder: Builder, left: Index, unused: list[SSAValue]) -> list[SSAValue]:
                """Emit one block."""
                right = builder.plus(left, side) if self.is_whole else builder.least(builder.plus(left, side), high)
                self._block(builder, _Square(outer=outer, top=top, bottom=bottom, left=left, right=right))
                return []

            builder.loop(low, high, [], block, step=side, limit=dims[-1])
            return []

        build.loop(first_row, end_row, [], row_of_blocks, limit=partition.outer)

    def _block(self, build: Builder, square: _Square) -> None:
        """Emit the computation of a block into the buffers, and its copy to the results.

        Full blocks of elements of whole bytes are transposed in registers, others are copied element by element.
        """

        def column(builder: Builder, j: Index, unused: list[SSAValue]) -> list[SSAValue]:
            """Emit column `j` of a square."""
            builder.parallel(
                square.top, square.bottom, lambda p, i: self._compute(p, square, i, j), limit=self.dims[self.along]
            )
            return []

        build.loop(square.left, square.right, [], column, limit=self.dims[-1])
        if not self.in_registers:
            self._copy_elementwise(build, square)
        elif self.is_whole:
            self._transpose_in_registers(build, square)
        else:
            sides = build.least(build.minus(square.bottom, square.top), build.minus(square.right, square.left))
            full = build.less(self.side - 1, sides)
            build.when(full, lambda b: self._transpose_in_registers(b, square))
            build.when(opposite(build, full), lambda b: self._copy_elementwise(b, square))

    def _result_indices(self, square: _Square, row: Index, column: Index) -> list[Index]:
        """Return the indices of the results at a row and a column of a block."""
        return [*square.outer[: self.along], row, *square.outer[self.along + 1 :], column]

    def _buffer_offset(self, build: Builder, square: _Square, row: Index, column: Index) -> Index:
        """Return the offset of an element of a block in its column-major buffer."""
        return build.plus(build.times(build.minus(column, square.left), self.side), build.minus(row, square.top))

    def _compute(self, build: Builder, square: _Square, row: Index, column: Index) -> None:
        """Emit the elements of all results at a row and a column, and their stores into the buffers."""
        offset = self._buffer_offset(build, square, row, column)
        for (value, _), buffer in zip(self.stores, self.buffers, strict=True):
            element = self.elements.at(build, value, self._result_indices(square, row, column))
            self.elements.store(build, element, buffer, [offset])

    def _copy_elementwise(self, build: Builder, square: _Square) -> None:
        """Emit the copy of a block from the buffers to the results, element by element."""

        def element(builder: Builder, row: Index, column: Index) -> None:
            """Emit the copy of one element of each buffer to its result."""
            offset = self._buffer_offset(builder, square, row, column)
            for (_, result), buffer in zip(self.stores, self.buffers, strict=True):
                value = builder.add(memref.LoadOp.get(buffer, [builder.value(offset)]))
                self.elements.store(builder, value, result, self._result_indices(square, row, column))

        def row(builder: Builder, i: Index, unused: list[SSAValue]) -> list[SSAValue]:
            """Copy the elements of one row of the square."""
            builder.parallel(square.left, square.right, lambda p, j: element(p, i, j), limit=self.dims[-1])
            return []

        build.loop(square.top, square.bottom, [], row, limit=self.dims[self.along])

    def _transpose_in_registers(self, build: Builder, square: _Square) -> None:
        """Emit the copy of a full block from the buffers to the results as a `pyd.transpose`."""
        strides: list[Index] = [1]
        for size in reversed(self.dims[1:]):
            strides.insert(0, build.times(strides[0], size))
        offset: Index = 0
        for index, stride in zip(self._result_indices(square, square.top, square.left), strides, strict=True):
            offset = build.plus(offset, build.times(index, stride))
        for (_, result), buffer in zip(self.stores, self.buffers, strict=True):
            transpose_block(build, (buffer, 0, self.side), (result, offset, strides[self.along]), self.side, self.side)
