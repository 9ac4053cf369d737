"""The loop nest of a contraction kernel as data: its levels, and the index range of each dimension at every level.

    workgroup → batch of outer indices → outer reductions → chunks of K → columns of register blocks → rows of them

Outer dimensions are the parallel ones other than the rows (M) and the columns (N).

`Nest.of` derives the statements of a tile from a plan (`statements.py`). A `Region` is the range of each dimension at
one level of the nest; each level makes a new one. `tile.py` emits the statements, and `register_blocks.py` the loops
over register blocks.

Blocks of a dimension that is known to fill one overlap: the last block begins early enough to end with the dimension,
and computes some elements again, with the same bits. Otherwise the last block is partial: it runs over the edge, and
only elements that exist are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, sizes_in_range
from pydispatch.compiler.kernels.matmul.cpu.statements import Loop, Node, statements_of
from pydispatch.compiler.kernels.ops.builder import Builder, Index


@dataclass(frozen=True)
class Span:
    """The indices `first`, `first` + 1, ..., `first` + `extent` - 1 of one dimension."""

    first: Index
    extent: Index


@dataclass(frozen=True)
class End:
    """The exclusive end of the indices of a dimension that a workgroup visits, if it may leave out the last indices.

    Example:
        Of 1,000 columns, masks show the first 300, and columns are visited in units of 64: index=320, unit=64. If the
        masks show 990, the index is 1,000 instead of 1,024, the next multiple of 64.

    Attributes:
        index: The end. No register block crosses it.
        unit: Number of adjacent indices that are visited or left out together: `index` is a multiple of `unit`, or else
            the size of the dimension.
    """

    index: Index
    unit: int


@dataclass(frozen=True)
class Region:
    """The part of the iteration space that one level of the nest covers.

    `Nest.workgroup` creates the region of a workgroup, and each loop the region of its current iteration: with 64
    columns from 128 on, the span of N is Span(128, 64).

    Attributes:
        spans: The visited indices of each dimension of the contraction.
        batch: Position of the workgroup's batch among all batches; 0 without batches. A batch is some indices of outer
            dimensions that do not index B.
    """

    spans: tuple[Span, ...]
    batch: Index = 0

    def first(self, dim: int) -> Index:
        """Return the first index of a dimension."""
        return self.spans[dim].first

    def extent(self, dim: int) -> Index:
        """Return the number of indices of a dimension."""
        return self.spans[dim].extent

    def with_span(self, dim: int, span: Span) -> Region:
        """Return the region that has `span` in the dimension `dim`, and the spans of this region in all others."""
        return replace(self, spans=(*self.spans[:dim], span, *self.spans[dim + 1 :]))

    def with_indices(self, dims: Sequence[int], indices: Sequence[Index]) -> Region:
        """Return this region with its span in dimension `dims[i]` replaced by the single index `indices[i]`."""
        single = {d: Span(first=index, extent=1) for d, index in zip(dims, indices, strict=True)}
        return replace(self, spans=tuple(single.get(d, span) for d, span in enumerate(self.spans)))


@dataclass(frozen=True)
class Block:
    """Register block: some rows and columns of a tile whose sums are in vector registers.

    Attributes:
        row_index, column_index: Index of the block along the rows and columns of the tile, counted in blocks.
        row, column: First row and column of the block, counted from the first row and column of the tile.
        is_tail: Whether the block has the last columns of B, and these are fewer than `nr`. Only a B that an argument
            stores in panels has such a block; elsewhere, the last block begins earlier.
    """

    row_index: Index
    column_index: Index
    row: Index
    column: Index
    is_tail: bool = False


@dataclass(frozen=True)
class Nest:
    """Loop nest of a contraction kernel as data, from which the emitters of the kernel derive index ranges and loops.

    `Nest.of` creates it from a plan, before any code is emitted.

    Attributes:
        plan: The plan.
        sizes: Sizes of the contraction's dimensions.
        body: The statements of a tile, in order.
        ends: Dimension -> end of its visited indices, for each dimension whose last indices a workgroup may leave out.
    """

    plan: Plan
    sizes: tuple[Index, ...]
    body: tuple[Node, ...]
    ends: Mapping[int, End] = field(default_factory=dict)

    @staticmethod
    def of(
        plan: Plan,
        sizes: Sequence[Index],
        packs_a: bool = True,
        is_batched: bool = True,
        ends: Mapping[int, End] | None = None,
    ) -> Nest:
        """Return the loop nest that computes a contraction as its plan states.

        Its body is the sequence of a tile's statements, such as: pack B, then for each register block set the sums to
        their initial values, multiply, and store the results.

        Args:
            plan: The plan.
            sizes: Sizes of the contraction's dimensions. If the plan is for a single row count, that count replaces a
                dynamic M.
            packs_a: Whether A is packed if the plan says so; False for an A that is in workgroup memory already.
            is_batched: Whether a workgroup runs over a batch of indices of the plan's batched dimensions, outer ones
                that share packed columns of B; False for one index of each.
            ends: Dimension -> end of its visited indices, for each dimension whose last indices a workgroup may leave
                out, such as hidden keys of an attention; None if there is no such dimension.
        """
        statements = statements_of(plan, packs_a=packs_a, is_batched=is_batched)
        sizes_of_plan = sizes_in_range(plan.contraction, sizes, plan.row_range)
        return Nest(plan=plan, sizes=sizes_of_plan, body=statements, ends=ends or {})

    # Regions

    def grid(self, build: Builder) -> list[Index]:
        """Return the number of workgroups along each axis of the grid.

        There is an axis for each outer dimension that is not batched (parallel, and neither M nor N), one axis for all
        batches, one for the tiles along the rows, and one for the tiles along the columns. The batched dimensions are
        collapsed into one. A batch is up to `schedule.batch` of its indices.

        Example:
            An outer dimension of 3 that is not batched, and batched dimensions of 4 and 5 in batches of 8: 3 and
            ceil(4 * 5 / 8) = 3 workgroups along the first two axes. 100 rows in tiles of 32 are 4 along the third.
        """
        contraction, schedule = self.plan.contraction, self.plan.schedule
        outer = [self.sizes[d] for d in self._distributed_outer_dims]
        batches = build.ceil_quotient(build.product([self.sizes[d] for d in self.plan.batched_dims]), schedule.batch)
        rows = 1 if contraction.m is None else build.ceil_quotient(self.sizes[contraction.m], schedule.mt)
        columns = 1 if contraction.n is None else build.ceil_quotient(self.sizes[contraction.n], schedule.nt)
        return [*outer, batches, rows, columns]

    @property
    def _distributed_outer_dims(self) -> list[int]:
        """The outer dimensions that are not batched: each is an axis of the grid."""
        return [d for d in self.plan.contraction.outer if d not in self.plan.batched_dims]

    def workgroup(self, build: Builder, workgroup_id: SSAValue) -> Region:
        """Return the region that a workgroup computes; `workgroup_id` is its row-major position in the grid."""
        contraction, schedule = self.plan.contraction, self.plan.schedule
        grid = self.grid(build)
        *outer, batch, row, column = build.split(build.assume_below(workgroup_id, build.product(grid)), grid)
        region = self.untiled_region(dict(zip(self._distributed_outer_dims, outer, strict=True)))
        region = replace(region, batch=batch)
        region = self.tile(build, region, contraction.m, index=row, tile=schedule.mt, block=schedule.mr)
        return self.tile(build, region, contraction.n, index=column, tile=schedule.nt, block=schedule.nr)

    def untiled_region(self, outer: Mapping[int, Index]) -> Region:
        """Return the region of a workgroup before tiles and loops choose indices of M, N and the reductions.

        A reduced dimension without a loop in the nest has all of its indices. Any other dimension `d` has one index:
        `outer[d]`, or 0 if `outer` lacks `d`. A tile or a loop replaces the 0 later.
        """
        dims_without_loop = set(self.plan.inner_reductions)
        if self.plan.sums_in_registers:  # the product of a register block runs over all of K
            dims_without_loop.add(self.plan.contraction.k)
        spans = (
            Span(first=0, extent=self.end(d)) if d in dims_without_loop else Span(first=outer.get(d, 0), extent=1)
            for d in range(len(self.sizes))
        )
        return Region(tuple(spans))

    def end(self, dim: int) -> Index:
        """Return the exclusive end of the indices of a dimension that a workgroup visits."""
        return self.ends[dim].index if dim in self.ends else self.sizes[dim]

    def _divides_end(self, dim: int, step: int) -> bool:
        """Return whether `step` is known to divide the end of the visited indices of `dim`, so that no step is shorter.

        If a workgroup may leave out the last indices, their end is a multiple of `End.unit`, or else the size of `dim`:
        `step` must divide both. With a size of 1,000 and a unit of 64, 8 divides each possible end, and 16 does not.
        """
        size = self.sizes[dim]
        if not isinstance(size, int) or size % step != 0:  # a dynamic size may be any number
            return False
        return dim not in self.ends or self.ends[dim].unit % step == 0

    def tile(self, build: Builder, region: Region, dim: int | None, index: Index, tile: int, block: int) -> Region:
        """Return the part of a region that is one tile along the rows or the columns.

        Args:
            build: Emits the arithmetic of dynamic bounds.
            region: The region.
            dim: M or N; None if the contraction has no such dimension, which leaves the region as it is.
            index: Position of the tile.
            tile: Rows or columns of a tile. The last tile may have fewer.
            block: Rows or columns of a register block. If the dimension is known to have a whole block, a last tile
                that would be shorter than a block begins earlier, and overlaps the tile before. With 70 rows, tiles of
                32 and blocks of 8, the last tile begins at min(64, 70 - 8) = 62.
        """
        if dim is None:
            return region
        end, are_tiles_full = self.end(dim), self._divides_end(dim, tile)
        first = build.times(index, tile)
        if self.plan.last_block_overlaps(dim, self.sizes[dim], block) and not are_tiles_full:
            first = build.least(first, build.minus(end, block))
        extent = tile if are_tiles_full else build.least(tile, build.minus(end, first))
        return region.with_span(dim, Span(first=first, extent=extent))

    def iteration(self, build: Builder, region: Region, loop: Loop, index: Index) -> Region:
        """Return the part of a region that one iteration of `loop` covers: the iteration whose first index is `index`.

        An iteration over K covers a chunk of up to `loop.step` indices, one over another reduction a single index.
        """
        if loop.dim != self.plan.contraction.k:
            return region.with_indices([loop.dim], [index])
        end, step = self.end(loop.dim), loop.step
        extent = step if self._divides_end(loop.dim, step) else build.least(step, build.minus(end, index))
        return region.with_span(loop.dim, Span(first=index, extent=extent))

    # Register blocks

    def block(
        self, build: Builder, region: Region, row_index: Index, column_index: Index, is_tail: bool = False
    ) -> Block:
        """Return the register block at the coordinates `row_index` and `column_index` of a tile, counted in blocks.

        is_tail: whether the block has the last columns of a B in panels, fewer than `nr`.
        """
        row = self.block_start(build, region, self.plan.contraction.m, row_index, self.plan.schedule.mr)
        column = self.block_start(build, region, self.plan.contraction.n, column_index, self.plan.schedule.nr)
        return Block(row_index=row_index, column_index=column_index, row=row, column=column, is_tail=is_tail)

    def block_start(self, build: Builder, region: Region, dim: int | None, index: Index, block: int) -> Index:
        """Return the first row or column of a register block, counted from the first row or column of the tile.

        Args:
            build: Emits the arithmetic of dynamic bounds.
            region: The tile.
            dim: M or N; None if the contraction has no such dimension.
            index: Position of the block in the tile, counted in blocks.
            block: Rows or columns of a block. If the dimension is known to have a whole block, a last block that would
                be partial begins earlier, and overlaps the block before. With 20 rows in a tile and 14 in a block, the
                last block begins at min(14, 20 - 14) = 6.
        """
        if dim is None:
            return 0
        start, extent = build.times(index, block), region.extent(dim)
        if isinstance(extent, int) and extent % block == 0:  # no block is partial
            return start
        if self.plan.last_block_overlaps(dim, self.sizes[dim], block):
            return build.least(start, build.minus(extent, block))
        return start

    def rows(self, build: Builder, region: Region, block: Block) -> Index:
        """Return how many rows of a block exist: `mr`, or fewer if the block reaches beyond the last row of A."""
        return self.block_extent(build, region, self.plan.contraction.m, block.row, self.plan.schedule.mr)

    def columns(self, build: Builder, region: Region, block: Block) -> Index:
        """Return how many columns of a block exist: `nr`, or fewer if the block reaches beyond the last column of B."""
        if block.is_tail:  # its number of columns is known statically
            return self.plan.tail_columns
        return self.block_extent(build, region, self.plan.contraction.n, block.column, self.plan.schedule.nr)

    def block_extent(self, build: Builder, region: Region, dim: int | None, start: Index, block: int) -> Index:
        """Return how many rows or columns of a register block are in the dimension `dim`: `block`, or fewer at its end.

        `start` is the first row or column of the block, counted from that of the tile.
        """
        if dim is None:
            return 1
        size = self.sizes[dim]
        if isinstance(size, int):
            # A dimension that is shorter than a block has one block. In others, all blocks are whole, since a last
            # block that would be partial begins earlier.
            return min(block, size)
        if self.plan.last_block_overlaps(dim, size, block):  # at run time, the dimension has at least a whole block
            return block
        return build.least(block, build.minus(region.extent(dim), start))


def has_few_enough_rows(plan: Plan, build: Builder, sizes: Sequence[Index]) -> SSAValue | bool:
    """Return whether A has at most as many rows as a plan with an upper bound is for: a bool, or an i1 at run time."""
    assert plan.contraction.m is not None and plan.row_range is not None and plan.row_range.most is not None
    return build.less(sizes[plan.contraction.m], plan.row_range.most + 1)


def workgroup_count(plans: Sequence[Plan], build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups of a kernel that chooses one of `plans` by the number of rows at run time.

    There is one plan, or several if the number of rows is dynamic: those for at least 14 rows, for 1 row and for up to
    13 rows give `rows <= 1 ? count1 : rows <= 13 ? count2 : count0`, or 0 for no rows.

    Args:
        plans: The plan without an upper bound of the rows, then the plans with bounds, by ascending bounds.
        build: Emits the arithmetic.
        sizes: Size of each loop of the contraction.
    """
    count, *bounded_counts = (build.product(Nest.of(p, sizes).grid(build)) for p in plans)
    # The plan with the least bound is the last to replace the count.
    for plan, bounded_count in zip(reversed(plans[1:]), reversed(bounded_counts), strict=True):
        has_few_rows = has_few_enough_rows(plan, build, sizes)
        assert isinstance(has_few_rows, SSAValue)  # the number of rows is dynamic
        count = build.pure(arith.SelectOp(has_few_rows, build.value(bounded_count), build.value(count)))
    m = plans[0].contraction.m
    if len(plans) > 1 and m is not None:  # min(rows, 1): no workgroups for 0 rows, which the plan for 1 row counts as 1
        count = build.times(count, build.least(sizes[m], 1))
    return count
