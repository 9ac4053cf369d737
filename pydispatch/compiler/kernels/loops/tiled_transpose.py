"""Nests with transposed operands: contiguous along another dimension than the results. They are computed in blocks.

A workgroup computes each block into workgroup memory, in the order in which operands are contiguous, and then copies it
to the results in their order. So every cache line is read and written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil

from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.nests import Partition
from pydispatch.compiler.kernels.loops.tiles import elements_per_workgroup
from pydispatch.compiler.kernels.loops.transpose_blocks import StridedBlock, transpose_block
from pydispatch.compiler.kernels.loops.transposition import Transposition
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import both, equal, opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend

Store = tuple[SSAValue, SSAValue]
"""(result of the dispatch function, memref that its elements are stored into)"""

BLOCKS = (16, 8)
"""Candidates for the columns of a block, in elements: the first that divides both dimensions, else 16 with partial
blocks."""

VECTOR_ROWS = 16
"""Number of rows of a column that CPUs compute at once: whole vectors of words, which have 4, 8 or 16 lanes."""

FEWEST_COLUMNS, FEWEST_ROWS, FEWEST_ROWS_OF_BYTES = 2, 4, 2
"""Fewest columns and rows of a partial block that is transposed in registers. Columns of fewer rows are written in
short pieces, which are slow to read as vectors: f32 of 224x224x3 to 3x224x224 take 60 us in registers, 29 by elements;
bytes 45 us in registers, 61 by elements (AMD EPYC Zen 4)."""


def block_shape(dims: Sequence[Index], along: int, squares: int) -> tuple[int, int]:
    """Return the (rows, columns) of the blocks in which two dimensions are transposed: `along` and the last one.

    Rows of a block are indices of dimension `along`, columns are indices of the last one. A block is a column of at
    most `squares` squares of side 16 or 8: 4 squares of 16 x 16 have 64 rows and 16 columns. `dims` are the sizes of
    all dimensions.
    """
    rows, columns = dims[along], dims[-1]
    # The first candidate that divides both sizes, so that no block is partial, else the first one.
    sides = (side for side in BLOCKS if all(isinstance(n, int) and n % side == 0 for n in (rows, columns)))
    side = next(sides, BLOCKS[0])
    if not isinstance(rows, int):  # a dynamic size may be too small for more than one square
        return side, side
    return min(squares, max(1, ceil(rows / side))) * side, side


def partition_transposed(
    build: Builder,
    backend: Backend,
    nest_dims: Sequence[Index],
    transposition: Transposition,
    bytes_per_element: Index,
) -> Partition:
    """Return the partition of a nest into workgroups of blocks, by the cost of its elements in bytes.

    The outer iterations of the partition are rows of blocks: adjacent blocks along the last dimension. Its tiles are
    ranges of columns, the indices of the last dimension. 96x64 elements that are transposed in blocks of 16x16 are 6
    rows of blocks; with 2048 elements per workgroup, each of 3 workgroups has two whole rows of blocks.

    Args:
        build: Emits the arithmetic of dynamic sizes.
        backend: Its `workgroup_bytes` are the budget of a workgroup.
        nest_dims: Sizes of the dimensions of the nest.
        transposition: The transposed dimension, and the dimensions to join.
        bytes_per_element: Estimate of the bytes that the computation of an element loads and stores.
    """
    dims, along = transposition.joined_sizes(build, nest_dims), transposition.joined_along
    block_rows, block_columns = block_shape(dims, along, transposition.squares)
    # The columns of one row of blocks that a workgroup could compute: 2048 elements are 128 columns of 16 rows.
    column_bytes = build.times(bytes_per_element, block_rows)
    column_budget = elements_per_workgroup(build, backend, bytes_per_element=column_bytes)
    # A tile is whole blocks within this budget, at least one. A tile that is the whole row leaves budget for more rows.
    blocks_in_budget = build.most(build.quotient(column_budget, block_columns), 1)
    tile = build.least(dims[-1], build.times(blocks_in_budget, block_columns))
    rows_of_workgroup = build.most(build.quotient(column_budget, build.most(tile, 1)), 1)
    # All rows of blocks: those along the transposed dimension, at each index of the other dimensions.
    other_indices = build.product([n for d, n in enumerate(dims[:-1]) if d != along])
    rows_of_blocks = build.times(other_indices, build.ceil_quotient(dims[along], block_rows))
    tiles = build.ceil_quotient(dims[-1], tile)
    workgroups = build.times(build.ceil_quotient(rows_of_blocks, rows_of_workgroup), tiles)
    return Partition(outer=rows_of_blocks, rows=rows_of_workgroup, tile=tile, tiles=tiles, workgroups=workgroups)


def emit_transposed(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    nest_dims: Sequence[Index],
    transposition: Transposition,
    stores: Sequence[Store],
) -> None:
    """Emit the blocks of workgroup number `group` of a nest whose operands are contiguous along another dimension than
    results.

    A block has a few indices of that dimension and of the last one. It is computed column by column into a buffer,
    where accesses of operands are contiguous, and then copied to the results, row by row.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        group: The number of the workgroup.
        partition: The partition of the nest into rows of blocks (`partition_transposed`).
        nest_dims: Sizes of the dimensions of the nest.
        transposition: The dimension along which operands are contiguous.
        stores: The results, each with its buffer.
    """
    _TiledTranspose(elements, build, nest_dims, transposition, stores).run(build, group, partition)


@dataclass(frozen=True)
class _Block:
    """Position and extents of a block in the results.

    Attributes:
        outer: Indices of all dimensions but the last; the index of the transposed dimension is not used.
        top, left: Its first row and column: indices of the transposed dimension and the last one.
        rows, columns: The numbers of its rows and columns.
    """

    outer: list[Index]
    top: Index
    left: Index
    rows: Index
    columns: Index


class _TiledTranspose:
    """Emitter of a loop nest with transposed operands, block by block.

    Each block is computed column by column into a buffer in workgroup memory, and then copied to the results. Its rows
    are up to `height` indices of the dimension `along`, its columns up to `side` indices of the last dimension.

    Adjacent dimensions that all operands read as one contiguous dimension are joined to one dimension first.

    Attributes:
        elements: Tensors of the kernel.
        nest_dims: Sizes of the dimensions of the nest.
        transposition: The dimension along which operands are contiguous.
        dims: Sizes of the dimensions after joining.
        along: The dimension of `dims` that is transposed with the last one.
        values: The results.
        targets: For each result, its buffer, in which the joined dimensions are collapsed.
        height, side: Rows and columns of a block.
        buffers: For each result, workgroup memory of one block, column-major.
        fewest_rows: Fewest rows of a partial block that is transposed in registers.
        has_whole_bytes: Whether elements are whole bytes, as the transposition of blocks in registers requires.
    """

    def __init__(
        self,
        elements: Elements,
        build: Builder,
        nest_dims: Sequence[Index],
        transposition: Transposition,
        stores: Sequence[Store],
    ) -> None:
        """Choose the shape of blocks, and allocate the buffers in which blocks of the results `stores` are computed."""
        self.elements, self.nest_dims, self.transposition = elements, nest_dims, transposition
        self.values = [value for value, _ in stores]
        self.targets = [transposition.joined_buffer(build, buffer) for _, buffer in stores]
        self.dims, self.along = transposition.joined_sizes(build, nest_dims), transposition.joined_along
        self.height, self.side = block_shape(self.dims, self.along, transposition.squares)
        types = [tensor_type(value).element_type for value in self.values]
        self.buffers = [elements.fresh(type_, self.height * self.side) for type_ in types]
        self.fewest_rows = FEWEST_ROWS_OF_BYTES if all(bit_width(t) == 8 for t in types) else FEWEST_ROWS
        # An unknown width counts as 1 bit, which is no whole byte.
        self.has_whole_bytes = all((bit_width(type_) or 1) % 8 == 0 for type_ in types)

    def run(self, build: Builder, group: Index, partition: Partition) -> None:
        """Emit the loops over the blocks of workgroup `group`: over its rows of blocks, and over the blocks of each.

        A row of blocks is adjacent blocks along the last dimension. Rows are numbered by the dimensions other than
        `along` and the last one, and then by the block along `along`: results of 2x96x64, with `along` = 1 and blocks
        of 16 rows, have 2 * 6 rows of blocks.
        """
        blocks = build.ceil_quotient(self.dims[self.along], self.height)  # along `along`
        # Workgroups are numbered by tiles of columns first: with 4 tiles, workgroup 5 has tile 1 of row range 1.
        column_tile, row_range = build.remainder(group, partition.tiles), build.quotient(group, partition.tiles)
        # The workgroup's columns, `low` to `high`, and its rows of blocks; the ends are exclusive.
        low = build.times(column_tile, partition.tile)
        high = build.least(build.plus(low, partition.tile), self.dims[-1])
        first_row = build.times(row_range, partition.rows)
        end_row = build.least(build.plus(first_row, partition.rows), partition.outer)

        def row_of_blocks(inner: Builder, row: Index) -> None:
            """Emit row of blocks `row`, in the columns `low` to `high`."""
            self._row_of_blocks(inner, row, blocks, low, high)

        build.sequential(first_row, end_row, row_of_blocks, index_below=partition.outer)

    def _row_of_blocks(self, build: Builder, row: Index, blocks: Index, low: Index, high: Index) -> None:
        """Emit the blocks of a row of blocks, from column `low` to before `high`.

        Args:
            build: Receives the code.
            row: Number of the row of blocks.
            blocks: Number of blocks along `along`.
            low, high: The workgroup's range of columns.
        """
        dims, along = self.dims, self.along
        other_dims = [d for d in range(len(dims) - 1) if d != along]
        *other_indices, row_block = build.split(row, [*(dims[d] for d in other_dims), blocks])
        outer: list[Index] = [0] * (len(dims) - 1)  # the entry of `along` is not used: `top` has that index
        for dimension, index in zip(other_dims, other_indices, strict=True):
            outer[dimension] = index if isinstance(index, int) else build.assume_below(index, dims[dimension])
        top = build.times(row_block, self.height)
        rows = _block_extent(build, first=top, end=dims[along], at_most=self.height, size=dims[along])

        def emit_block(inner: Builder, left: Index) -> None:
            """Emit the block of this row of blocks that begins at column `left` and ends at `high` or before."""
            columns = _block_extent(inner, first=left, end=high, at_most=self.side, size=dims[-1])
            self._block(inner, _Block(outer=outer, top=top, left=left, rows=rows, columns=columns))

        build.sequential(low, high, emit_block, step=self.side, index_below=dims[-1])

    def _block(self, build: Builder, block: _Block) -> None:
        """Emit the computation of a block into the buffers, and its copy to the results.

        There is a branch for each pair (rows, columns) of `_extents_in_registers`, which transposes a block of this
        size in registers. Blocks of other sizes are copied element by element.
        """
        has_other_extents: SSAValue | bool = True  # as long as no pair was compared
        for rows, columns in self._extents_in_registers():
            has_extents = both(build, equal(build, block.rows, rows), equal(build, block.columns, columns))
            static_block = replace(block, rows=rows, columns=columns)
            build.when(has_extents, partial(self._block_in_registers, block=static_block))
            has_other_extents = both(build, has_other_extents, opposite(build, has_extents))
        if self._has_blocks_outside_registers():
            build.when(has_other_extents, partial(self._block_by_elements, block=block))

    def _block_in_registers(self, build: Builder, block: _Block) -> None:
        """Emit the computation of a block of static extents, and its transposition in registers to the results."""
        self._compute_block(build, block)
        self._transpose_in_registers(build, block)

    def _block_by_elements(self, build: Builder, block: _Block) -> None:
        """Emit the computation of a block, and its copy to the results element by element."""
        self._compute_block(build, block)
        self._copy_elementwise(build, block)

    def _extents_in_registers(self) -> list[tuple[int, int]]:
        """Return the (rows, columns) of the blocks that are transposed in registers: static, and not too few.

        96x40 elements in blocks of 64x16 have the extents (32, 8), (32, 16), (64, 8) and (64, 16). There are none if
        elements are less than a byte.
        """
        if not self.has_whole_bytes:
            return []
        rows, columns = self.dims[self.along], self.dims[-1]
        row_counts = _static_extents(rows, self.height, self.fewest_rows)
        return list(product(row_counts, _static_extents(columns, self.side, FEWEST_COLUMNS)))

    def _has_blocks_outside_registers(self) -> bool:
        """Return whether some blocks may have to be copied element by element instead of in registers."""

        def has_short_blocks(size: Index, block: int, fewest: int) -> bool:
            """Return whether the last block of a dimension may be shorter than `fewest`, too short for registers."""
            if not isinstance(size, int):  # the last block of a dynamic dimension may have any length
                return True
            return 0 < size % block < fewest

        return (
            not self.has_whole_bytes
            or has_short_blocks(self.dims[self.along], self.height, self.fewest_rows)
            or has_short_blocks(self.dims[-1], self.side, FEWEST_COLUMNS)
        )

    def _joined_indices(self, build: Builder, block: _Block, *, row: Index, column: Index) -> list[Index]:
        """Return the indices in the dimensions `dims`, at a row and column relative to those of the block.

        One of `dims` may stand for two adjacent dimensions of the nest that were joined (`Transposition.first_joined`).
        """
        result_row = _assume_below(build, build.plus(block.top, row), self.dims[self.along])
        result_column = _assume_below(build, build.plus(block.left, column), self.dims[-1])
        return [*block.outer[: self.along], result_row, *block.outer[self.along + 1 :], result_column]

    def _compute_block(self, build: Builder, block: _Block) -> None:
        """Emit the computation of a block into the buffers, column by column.

        Columns are cut into whole vectors of rows. If `VECTOR_ROWS` does not divide the rows, the last vector begins
        early, and computes some rows a second time: single rows would take longer. The vectors of a column are a loop,
        so that LLVM does not know their first rows. If it did, it would see that the last rows of a padded operand are
        padding, and unroll the rows of their vector.
        """

        def compute_column(builder: Builder, j: Index) -> None:
            """Emit column `j` of the block."""
            if isinstance(block.rows, int) and block.rows >= VECTOR_ROWS:
                self._compute_vectors(builder, block, block.rows, j)
            else:
                builder.parallel(0, block.rows, lambda p, i: self._compute(p, block, i, j))

        build.sequential(0, block.columns, compute_column)

    def _compute_vectors(self, build: Builder, block: _Block, rows: int, column: Index) -> None:
        """Emit the elements of all rows of a column of a block, in vectors of `VECTOR_ROWS` rows.

        The last vector may overlap the one before it: 40 rows have vectors of 16 from the rows 0, 16 and 24 on.
        """
        last_start = rows - VECTOR_ROWS

        def compute_vector(builder: Builder, i: Index) -> None:
            """Emit a parallel loop over the rows of a vector: from row `i` on, or from `last_start` if that is less."""
            first_row = builder.least(i, last_start)
            builder.parallel(0, VECTOR_ROWS, lambda p, lane: self._compute(p, block, p.plus(first_row, lane), column))

        build.sequential(0, rows, compute_vector, step=VECTOR_ROWS)

    def _compute(self, build: Builder, block: _Block, i: Index, j: Index) -> None:
        """Emit the elements of all results at row `i` and column `j` of a block, and their stores into the buffers."""
        offset = self._buffer_offset(build, i, j)
        # A block has one index for two dimensions of the nest that are joined, such as height and width. Elements of
        # the nest have both indices.
        joined_indices = self._joined_indices(build, block, row=i, column=j)
        indices = self.transposition.nest_indices(build, self.nest_dims, joined_indices)
        for value, buffer in zip(self.values, self.buffers, strict=True):
            element = self.elements.at(build, value, indices)
            self.elements.store(build, element, buffer, [offset])

    def _copy_elementwise(self, build: Builder, block: _Block) -> None:
        """Emit the copy of a block from its column-major memory, `buffers`, to the results, element by element.

        The outer loop is over the rows; over the columns if there are few rows.
        """

        def copy_row(builder: Builder, i: Index) -> None:
            """Emit the copies of the elements of row `i`."""
            builder.parallel(0, block.columns, lambda p, j: self._copy_element(p, block, i, j))

        def copy_column(builder: Builder, j: Index) -> None:
            """Emit the copies of the elements of column `j`."""
            builder.parallel(0, block.rows, lambda p, i: self._copy_element(p, block, i, j))

        # LLVM unrolls an inner loop over few rows. Then the loop over the columns can be vectorized, with contiguous
        # stores to each of these rows.
        has_few_rows = isinstance(block.rows, int) and block.rows < FEWEST_ROWS
        if has_few_rows:
            build.sequential(0, block.columns, copy_column)
        else:
            build.sequential(0, block.rows, copy_row)

    def _copy_element(self, build: Builder, block: _Block, i: Index, j: Index) -> None:
        """Emit the copy of the element at row `i` and column `j` of a block from each buffer to its result."""
        offset = self._buffer_offset(build, i, j)
        for target, buffer in zip(self.targets, self.buffers, strict=True):
            value = load(build, buffer, offset)
            indices = self._joined_indices(build, block, row=i, column=j)
            self.elements.store(build, value, target, indices)

    def _buffer_offset(self, build: Builder, i: Index, j: Index) -> Index:
        """Return the offset of row `i` and column `j` of a block in its buffer, which is column-major."""
        return build.plus(build.times(j, self.height), i)

    def _transpose_in_registers(self, build: Builder, block: _Block) -> None:
        """Emit the copy of a block of static extents from the buffers to the results as a `pyd.transpose`.

        A buffer is column-major: column j of the block begins at element j * height. `pyd.transpose` copies row j of
        its source to column j of its target. Row j of the source is therefore column j of the block.
        """
        offset, row_stride = self._offset_and_row_stride(build, block)
        assert isinstance(block.rows, int) and isinstance(block.columns, int)
        # Whole squares are read, and their padding is not stored. For a block of 12 rows and 16 columns and squares of
        # 16 x 16, the source has 16 rows of 16 elements. Of each row, 12 elements are stored: `stored` is (16, 12).
        stored = (block.columns, block.rows)
        read_rows = ceil(block.rows / self.side) * self.side
        for target, buffer in zip(self.targets, self.buffers, strict=True):
            source = StridedBlock(buffer, offset=0, stride=self.height)  # its rows are columns of the block
            # Adjacent rows of the block are adjacent indices of dimension `along` of a result.
            destination = StridedBlock(target, offset=offset, stride=row_stride)
            # `rows`, `columns` and `stored` are those of the source.
            transpose_block(build, source=source, target=destination, rows=self.side, columns=read_rows, stored=stored)

    def _offset_and_row_stride(self, build: Builder, block: _Block) -> tuple[Index, Index]:
        """Return the offset of a block's first element in a result, and the distance of adjacent rows, in elements."""
        strides: list[Index] = [1]  # of each dimension of the results, which are row-major: [20, 5, 1] for 3x4x5
        for size in reversed(self.dims[1:]):
            strides.insert(0, build.times(strides[0], size))
        offset: Index = 0
        for index, stride in zip(self._joined_indices(build, block, row=0, column=0), strides, strict=True):
            offset = build.plus(offset, build.times(index, stride))
        return offset, strides[self.along]


def _block_extent(build: Builder, *, first: Index, end: Index, at_most: int, size: Index) -> Index:
    """Return the number of rows or columns of a block from `first` on: `at_most`, or fewer at the end.

    Args:
        build: Emits the arithmetic.
        first: First row or column of the block.
        end: End of the rows or columns that the workgroup computes: a multiple of `at_most`, or the end of the
            dimension.
        at_most: The number of rows or columns of a full block.
        size: Size of the dimension.
    """
    if isinstance(size, int) and size % at_most == 0:
        return at_most
    return build.least(at_most, build.minus(end, first))


def _static_extents(size: Index, block: int, fewest: int) -> list[int]:
    """Return the different lengths of the blocks that a dimension is cut into, in ascending order.

    40 elements in blocks of 16 have the lengths 8 and 16. Lengths below `fewest` are left out, and so is the unknown
    length of the last block of a dynamic dimension.
    """
    if not isinstance(size, int):
        return [block]
    last_extent = size % block or block
    return [extent for extent in sorted({min(block, size), last_extent}) if extent >= fewest]


def _assume_below(build: Builder, index: Index, size: Index) -> Index:
    """Record that an index is less than `size`, and return it. Nothing is recorded of a constant."""
    return index if isinstance(index, int) else build.assume_below(index, size)
