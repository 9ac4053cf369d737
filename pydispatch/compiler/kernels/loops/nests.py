"""Loop nests over the index space of results, and their partition into workgroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.tiles import elements_per_workgroup
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend


class RowPipeline(Protocol):
    """Software pipeline over the rows of a nest: the loops of each row also compute values of the next row.

    In a softmax, the loop over the exponentials of a row also computes the maximum of the next row
    (`PipelinedReduction`). `emit_nest` calls `first` once, before the loop over rows. In the body of this loop it calls
    `begin`, then emits the row, and then calls `end`. The loop carries the values from `end` to the next `begin`.
    """

    def first(self, build: Builder, row: Sequence[Index]) -> list[SSAValue]:
        """Emit the computation of the values of the first row, whose indices are `row`, and return the values."""

    def begin(self, build: Builder, row: Sequence[Index], next_row: list[Index], carried: Sequence[SSAValue]) -> None:
        """Begin a row, before its loops are emitted.

        Record `carried`, so that the loops of this row use these values instead of computing them. Prepare the loops of
        this row to compute the same values of the next row.

        Args:
            build: The builder of the row.
            row: Indices of the row.
            next_row: Indices of the next row; `row` again for the last row.
            carried: The values of this row, such as the maximum in a softmax, computed by the loops of the row before.
        """

    def end(self) -> list[SSAValue]:
        """End a row, and return the values of the next row that its loops computed: `carried` of the next `begin`."""


BUDGET_MULTIPLE = 64
"""Elements that the work of a workgroup is rounded down to a multiple of: whole vectors and cache lines of any type."""

NARROWEST_COLUMNS = 64
"""Columns of the narrowest range of a workgroup: at least four cache lines of 32-bit elements."""

WHOLE_ROWS_FACTOR = 4
"""Factor by which a range of columns may exceed the byte budget of a workgroup to take whole rows, which are
contiguous: 4096x1024 of f32 from main memory takes 0.83 ms in ranges of 1024 columns, 1.41 in ranges of 512 (AMD EPYC
Zen 4)."""

EmitRow = Callable[[Builder, list[Index], Index, Index], None]
"""Emitter of one row of a nest, from a builder, the outer indices, and the half-open range of the inner dimension."""

Write = Callable[[Builder, list[Index]], None]
"""Emitter of the element of a nest at the indices of all its dimensions, with its store."""


@dataclass(frozen=True)
class Partition:
    """Partition of a nest into workgroups: each computes one tile of the inner dimension, of some outer iterations.

    The functions `partition_...` create it, `emit_nest` emits the loops of a workgroup. Partitions of a nest of 10x1000
    elements, for a budget of 3200 and of 256 elements per workgroup:

        outer=10, rows=3, tile=1000, tiles=1, workgroups=4
        outer=10, rows=1, tile=256, tiles=4, workgroups=40     workgroup 5 has the elements 256 to 511 of row 1

    Attributes:
        outer: Number of outer iterations of the nest: index combinations of its outer dimensions.
        rows: Outer iterations of a workgroup, adjacent in row-major order.
        tile: Elements of a tile of the inner dimension, at most its size; 0 if rows are never cut into tiles.
        tiles: Number of tiles of the inner dimension.
        workgroups: Number of workgroups. Tiles of the same outer iterations are in workgroups of adjacent numbers.
        contiguous: Elements of each workgroup but the last, which may have fewer, if the elements of a workgroup are
            contiguous in memory; else 0.
    """

    outer: Index
    rows: Index
    tile: Index
    tiles: Index
    workgroups: Index
    contiguous: int = 0

    @property
    def has_whole_rows(self) -> bool:
        """Whether this is a partition into whole rows, which has the tile 0."""
        return self.tiles == 1 and isinstance(self.tile, int) and self.tile == 0


def partition_elements(build: Builder, backend: Backend, dims: Sequence[Index], bytes_per_element: Index) -> Partition:
    """Return the partition of a nest of independent elements by their cost in bytes.

    A workgroup has several outer iterations, or a tile of the last dimension. With a budget of 256 elements, the
    workgroups of 100x64 elements have 4 rows each, and those of 4x1000 elements tiles of 256 elements of a row.

    Args:
        build: Emits the arithmetic of dynamic sizes.
        backend: Its `workgroup_bytes` are the budget of a workgroup.
        dims: Sizes of the dimensions of the nest.
        bytes_per_element: Estimate of the bytes that the computation of an element loads and stores.
    """
    budget = elements_per_workgroup(build, backend, bytes_per_element)  # in elements
    if isinstance(budget, int) and budget > BUDGET_MULTIPLE:
        budget -= budget % BUDGET_MULTIPLE  # rounded down, so that tiles are whole vectors
    inner = dims[-1] if dims else 1
    outer = build.product(dims[:-1])
    # Tiles of the last dimension, at most as long as the budget; whole rows if the budget has several.
    tile = build.least(inner, budget)
    tiles = build.ceil_quotient(inner, tile)
    rows = build.most(build.quotient(budget, build.most(inner, 1)), 1)
    blocks = build.ceil_quotient(outer, rows)
    # With one dimension, each workgroup but the last has `budget` adjacent elements. With more dimensions, a workgroup
    # may have fewer, because it ends at the end of a row.
    contiguous = budget if len(dims) == 1 and isinstance(budget, int) else 0
    return Partition(
        outer=outer, rows=rows, tile=tile, tiles=tiles, workgroups=build.times(blocks, tiles), contiguous=contiguous
    )


def partition_bytes(build: Builder, backend: Backend, dims: Sequence[Index], per_byte: int) -> Partition:
    """Return the partition of a nest whose elements are less than a byte, `per_byte` of them in each: one of bytes.

    Each element of a byte is computed and inserted with operations of its own: it is estimated to cost as much as 2
    bytes. `dims` are the sizes of the nest in elements.
    """
    byte_count = build.ceil_quotient(build.product(dims), per_byte)
    return partition_elements(build, backend, [byte_count], bytes_per_element=2 * per_byte)


def partition_rows(build: Builder, backend: Backend, outer: Index, bytes_per_row: Index) -> Partition:
    """Return the partition of a nest into workgroups of whole rows, by the cost of a row in bytes."""
    rows = elements_per_workgroup(build, backend, bytes_per_row)
    return Partition(outer=outer, rows=rows, tile=0, tiles=1, workgroups=build.ceil_quotient(outer, rows))


def partition_columns(
    build: Builder, backend: Backend, dims: Sequence[Index], bytes_per_element: Index, widest: int
) -> Partition:
    """Return the partition of a nest of column reductions into ranges of columns.

    A column reduction, such as the sum over i of x[i, j], has an accumulator for each column j of a range. A range has
    at least `NARROWEST_COLUMNS`, for whole cache lines, and at most `widest` columns, for the accumulators to stay in
    the first-level cache. It has all columns if these are at most `WHOLE_ROWS_FACTOR` times the budget of a workgroup,
    since whole rows are contiguous.

    Args:
        build: Emits the arithmetic of dynamic sizes.
        backend: Its `workgroup_bytes` are the budget of a workgroup.
        dims: Sizes of the dimensions of the nest, whose last one has the columns.
        bytes_per_element: Estimate of the bytes that the reduction of one column reads.
        widest: Maximum number of columns of a range.
    """
    budget = elements_per_workgroup(build, backend, bytes_per_element)  # in columns
    columns, outer = dims[-1], build.product(dims[:-1])
    # The budget, rounded up to whole cache lines; or all columns in one range.
    width = build.times(build.ceil_quotient(budget, NARROWEST_COLUMNS), NARROWEST_COLUMNS)
    if isinstance(columns, int) and isinstance(width, int) and columns <= min(WHOLE_ROWS_FACTOR * width, widest):
        width = columns
    tile = build.least(columns, build.least(width, widest))
    tiles = build.ceil_quotient(columns, tile)
    # Several outer iterations per workgroup if the columns of all of them fit the budget.
    rows = build.most(build.quotient(budget, build.most(columns, 1)), 1)
    return Partition(
        outer=outer, rows=rows, tile=tile, tiles=tiles, workgroups=build.times(build.ceil_quotient(outer, rows), tiles)
    )


class NestEmitter(Protocol):
    """Emitter of the code of a workgroup for one nest, for one kind of target."""

    @property
    def partition(self) -> Partition:
        """The partition of the nest into workgroups."""

    def emit(self, build: Builder, group: Index) -> None:
        """Emit the part of the nest that workgroup `group` computes."""


def emit_group(emitters: Sequence[NestEmitter], build: Builder, group: Index) -> None:
    """Emit the part of workgroup `group` in each nest of a kernel that has more than `group` workgroups.

    The grid has as many workgroups as the nest with the most.
    """
    if len(emitters) == 1:  # no check is needed: the grid has as many workgroups as the only nest
        if isinstance(group, SSAValue):
            build.assume_below(group, emitters[0].partition.workgroups)
        emitters[0].emit(build, group)
        return
    for emitter in emitters:
        has_group = build.less(group, emitter.partition.workgroups)
        build.when(has_group, partial(emitter.emit, group=group))


def emit_nest(
    build: Builder,
    group: Index,
    partition: Partition,
    dims: Sequence[Index],
    outer_rank: int,
    row: EmitRow,
    pipeline: RowPipeline | None = None,
) -> None:
    """Emit the outer iterations of workgroup number `group`, in order.

    A row is all elements at one index of each outer dimension. A tile is a range of the inner dimension. A workgroup
    has one or more rows, or one tile of each of them. With 4 tiles of 256 elements per row and one row per workgroup,
    workgroup 5 has the elements 256 to 511 of row 1.

    Args:
        build: The builder of the kernel.
        group: The number of the workgroup.
        partition: The partition of the nest into workgroups.
        dims: The sizes of the dimensions of the nest.
        outer_rank: The number of outer dimensions.
        row: Emits one row, from a builder, the outer indices, and the range of the inner dimension.
        pipeline: Computes values of the next row in each row, if a workgroup has several rows.
    """
    outer_dims, inner_size = dims[:outer_rank], dims[outer_rank] if outer_rank < len(dims) else 1
    block, low, high = _block_and_range(build, group, partition, inner_size)

    def emit_row(inner: Builder, row_number: Index) -> None:
        """Emit the elements `low` to `high` of row `row_number`, in the row-major order of the sizes `outer_dims`."""
        row(inner, _outer_indices(inner, row_number, outer_dims), low, high)

    if partition.outer == 1:  # a single row needs no loop
        emit_row(build, 0)
        return
    if partition.rows == 1:
        emit_row(build, block)
        return
    first = build.times(block, partition.rows)
    end = build.least(build.plus(first, partition.rows), partition.outer)
    if pipeline is None:
        build.sequential(first, end, emit_row, index_below=partition.outer)
    else:
        rows = _RowRange(first=first, end=end, count_of_nest=partition.outer)
        _emit_pipelined(build, rows, outer_dims, lambda inner, indices: row(inner, indices, low, high), pipeline)


def _block_and_range(
    build: Builder, group: Index, partition: Partition, inner_size: Index
) -> tuple[Index, Index, Index]:
    """Return what workgroup number `group` computes: the number of a block of rows, and a range of the inner dimension.

    A block is `partition.rows` adjacent rows. Workgroups count the tiles of a block first: with 4 tiles of 256
    elements, workgroup 5 has block 1 and the half-open range 256 to 512. `inner_size` is the size of the inner
    dimension.
    """
    if partition.tiles == 1:
        return group, 0, inner_size
    tile_number, block = build.remainder(group, partition.tiles), build.quotient(group, partition.tiles)
    low = build.times(tile_number, partition.tile)
    return block, low, build.least(build.plus(low, partition.tile), inner_size)


class _RowRange(NamedTuple):
    """Rows `first` to `end` - 1 of a nest with `count_of_nest` rows, which are numbered in row-major order."""

    first: Index
    end: Index
    count_of_nest: Index


def _emit_pipelined(
    build: Builder,
    rows: _RowRange,
    outer_dims: Sequence[Index],
    row: Callable[[Builder, list[Index]], None],
    pipeline: RowPipeline,
) -> None:
    """Emit the loop over rows whose inner loops also compute values of the next row, which the loop carries.

    In a softmax, the loop over the exponentials of a row also computes the maximum of the next row.

    Args:
        build: The builder.
        rows: The rows of the workgroup.
        outer_dims: Sizes of the outer dimensions.
        row: Emits a row from a builder and the indices of the outer dimensions.
        pipeline: Computes the carried values: those of the first row before the loop, those of the next row in each
            row.
    """
    last_row = build.minus(rows.end, 1)

    def emit_row(inner: Builder, row_number: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit one row from its values, `carried`, and return the values of the next row, which its loops compute.

        The last row has no next one: it computes its own values again, which are not used.
        """
        indices = _outer_indices(inner, row_number, outer_dims)
        next_row = inner.least(inner.plus(row_number, 1), last_row)
        pipeline.begin(inner, indices, _outer_indices(inner, next_row, outer_dims), carried)
        row(inner, indices)
        return pipeline.end()

    values_of_first_row = pipeline.first(build, _outer_indices(build, rows.first, outer_dims))
    build.loop(rows.first, rows.end, values_of_first_row, emit_row, index_below=rows.count_of_nest)


def _outer_indices(build: Builder, row_number: Index, outer_dims: Sequence[Index]) -> list[Index]:
    """Return the indices of a row in the outer dimensions, and record that each index is below its size.

    Rows are numbered in row-major order: with the sizes [2, 4], row 7 has the indices [1, 3].
    """
    indices = build.split(row_number, outer_dims)
    # `split` has recorded that the other indices are below their sizes: they are remainders.
    if indices and not isinstance(indices[0], int):
        build.assume_below(indices[0], outer_dims[0])
    return indices


def emit_inner(
    build: Builder, indices: list[Index], dims: Sequence[Index], low: Index, high: Index, write: Write
) -> None:
    """Emit the inner dimensions, of sizes `dims`: sequential loops around a parallel loop over the last one.

    For the sizes [4, 100] these are `for i in 0..4 { parallel j in 0..100 { write at [*indices, i, j] } }`.

    Args:
        build: The builder.
        indices: Indices of the dimensions before them.
        dims: Sizes of the inner dimensions.
        low, high: Half-open range of the inner dimension if there is only one. Loops over several cover all indices.
        write: Emits an element from a builder and all indices.
    """
    if not dims:
        write(build, indices)
    elif len(dims) == 1:  # `i` is the counter of the parallel loop
        build.parallel(low, high, lambda b, i: write(b, [*indices, i]), index_below=dims[0])
    else:

        def emit_next(inner: Builder, index: Index) -> None:
            """Emit the loops over the dimensions after the first one, at `index` of the first one."""
            emit_inner(inner, [*indices, index], dims[1:], low=0, high=dims[1], write=write)

        build.sequential(0, dims[0], emit_next)
