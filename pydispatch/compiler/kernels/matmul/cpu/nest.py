"""The loop nest of a contraction kernel as data: its levels, and the index range of each dimension at every level.

    workgroup → batch of outer indices → outer reductions → chunks of K → columns of register blocks → rows of them

Outer dimensions are the parallel ones other than the rows (M) and the columns (N).

`Nest.of` derives the statements of a tile from a plan. A `Region` is the range of each dimension at one level of the
nest; each level makes a new one. `tile.py` emits the statements.

Blocks of a dimension that is known to fill one overlap: the last block begins early enough to end with the dimension,
and computes some elements again, with the same bits. Otherwise the last block is partial: it runs over the edge, and
only elements that exist are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.ops.builder import Builder, Index


class TileStep(Enum):
    """A statement that is executed once for the current region of a tile, outside the loops over register blocks."""

    PACK_A = "pack A"
    PACK_B = "pack B"
    CLEAR_FACTOR_SUMS = "clear the sums of factors"
    ADD_FACTOR_SUMS = "add up the packed factors"


class BlockStep(Enum):
    """A statement that is executed for one register block: `mr` rows by `nr` columns of sums in vector registers."""

    INITIALIZE = "initialize the sums"
    MULTIPLY = "add products to the sums"
    FINISH = "compute and store the results"


@dataclass(frozen=True)
class Blocks:
    """Two loops over all register blocks of a tile, which execute `steps` for each block in order.

    The outer loop visits columns of blocks and the inner one rows, so that a panel of B stays in the first-level cache
    while all rows of the tile use it. The extents of the tile are those of the `Region` that the loops are emitted for.
    """

    steps: tuple[BlockStep, ...]


@dataclass(frozen=True)
class Loop:
    """A sequential loop over the reduced dimension `dim` of the contraction, `step` indices at a time.

    Each iteration executes the statements of `body` in order.
    """

    dim: int
    step: int
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Batch:
    """A loop over a workgroup's batch of outer indices, which use the same packed columns of B.

    Outer dimensions are the parallel ones other than the rows and columns.

    Attributes:
        dims: The outer dimensions that do not index B, collapsed into one index.
        count: Outer indices of a batch; the last batch may have fewer.
        body: The statements for each outer index.
    """

    dims: tuple[int, ...]
    count: int
    body: tuple[Node, ...]


Node = TileStep | Blocks | Loop | Batch
"""A statement of a tile's loop nest."""


@dataclass(frozen=True)
class Span:
    """The indices `first`, `first` + 1, ..., `first` + `extent` - 1 of one dimension."""

    first: Index
    extent: Index


@dataclass(frozen=True)
class End:
    """The end of the indices of a dimension that a workgroup visits, where it does not visit the last ones.

    Attributes:
        index: The end, an exclusive index of the dimension. At least one register block is visited.
        unit: `index` is a multiple of `unit`, or the size of the dimension. A chunk or block whose length divides both
            `unit` and the size does not cross the end.
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
        batch: Position of the workgroup's batch among all batches of outer indices (`Batch`); 0 without batches.
    """

    spans: tuple[Span, ...]
    batch: Index = 0

    def first(self, dim: int) -> Index:
        """Return the first index of a dimension."""
        return self.spans[dim].first

    def extent(self, dim: int) -> Index:
        """Return the number of indices of a dimension."""
        return self.spans[dim].extent

    def within(self, dim: int, span: Span) -> Region:
        """Return the region that has `span` in the dimension `dim`, and the spans of this region in all others."""
        return replace(self, spans=(*self.spans[:dim], span, *self.spans[dim + 1 :]))

    def at(self, dims: Sequence[int], indices: Sequence[Index]) -> Region:
        """Return the region with the one index `indices[i]` in dimension `dims[i]`, and these spans in all others."""
        single = {d: Span(first=index, extent=1) for d, index in zip(dims, indices, strict=True)}
        return replace(self, spans=tuple(single.get(d, span) for d, span in enumerate(self.spans)))


@dataclass(frozen=True)
class Block:
    """Register block: some rows and columns of a tile whose sums are in vector registers.

    Attributes:
        row_index, column_index: Index of the block along the rows and columns of the tile, counted in blocks.
        row, column: First row and column of the block, counted in elements from the first ones of the tile.
        is_tail: Whether the block has the last columns of B and is not full: zeros fill up the panel of B.
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
        ends: Dimension -> end of the indices that a workgroup visits, where it does not visit all.
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

        Its body are the statements of a tile, such as: pack B, then for each register block set the sums to their
        initial values, multiply, and store the results.

        Args:
            plan: The plan.
            sizes: Sizes of the contraction's dimensions. A plan for a single row count replaces a dynamic M by it.
            packs_a: Whether A is packed where the plan says so; False for an A that is in workgroup memory already.
            is_batched: Whether workgroups have batches of outer indices; False for one index of each outer dimension.
            ends: Dimension -> end of the indices that are visited, where not all are; None for none.
        """
        statements = _statements(plan, packs_a=packs_a, is_batched=is_batched)
        return Nest(plan=plan, sizes=variant_sizes(plan, sizes), body=statements, ends=ends or {})

    # Regions

    def grid(self, build: Builder) -> list[Index]:
        """Return the number of workgroups along each axis of the grid.

        The axes are the outer dimensions that are not batched, the batches of those that are, the tiles along the rows,
        and the tiles along the columns.
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
        region = replace(self.whole(dict(zip(self._distributed_outer_dims, outer, strict=True))), batch=batch)
        region = self.tile(build, region, contraction.m, index=row, tile=schedule.mt, block=schedule.mr)
        return self.tile(build, region, contraction.n, index=column, tile=schedule.nt, block=schedule.nr)

    def whole(self, outer: Mapping[int, Index]) -> Region:
        """Return the region of a workgroup before tiles and loops choose indices of M, N and the reductions.

        Reductions that the nest has no loops over have all indices. Each other dimension has one index: that of
        `outer`, which maps dimensions to indices, or 0 until a tile or a loop replaces it.
        """
        plan = self.plan
        # The product of a register block runs over all indices of these.
        unlooped = {*plan.inner_reductions, *([plan.contraction.k] if plan.sums_in_registers else [])}

        def span(dim: int) -> Span:
            """Return the indices of a dimension. All of them are from 0 on, so that their end is their extent."""
            return Span(first=0, extent=self.end(dim)) if dim in unlooped else Span(first=outer.get(dim, 0), extent=1)

        return Region(tuple(map(span, range(len(self.sizes)))))

    def end(self, dim: int) -> Index:
        """Return the exclusive end of the indices of a dimension that a workgroup visits."""
        return self.ends[dim].index if dim in self.ends else self.sizes[dim]

    def _is_exact(self, dim: int, step: int) -> bool:
        """Return whether `step` is known to divide the end of the visited indices of `dim`, so that steps are whole.

        It must divide the size of `dim`, which is static then, and `End.unit` if the last indices are not visited: that
        end is a multiple of the unit, or the size.
        """
        size = self.sizes[dim]
        return isinstance(size, int) and size % step == 0 and (dim not in self.ends or self.ends[dim].unit % step == 0)

    def tile(self, build: Builder, region: Region, dim: int | None, index: Index, tile: int, block: int) -> Region:
        """Return the part of a region that is one tile along the rows or the columns.

        Args:
            build: Emits the arithmetic of dynamic bounds.
            region: The region.
            dim: M or N; None if the contraction has no such dimension, which leaves the region as it is.
            index: Position of the tile.
            tile: Rows or columns of a tile. The last tile may have fewer.
            block: Rows or columns of a register block. If the dimension has a whole block, a last tile of less than a
                block begins earlier, and overlaps the tile before.
        """
        if dim is None:
            return region
        end, is_exact = self.end(dim), self._is_exact(dim, tile)  # `is_exact`: all tiles are full, as known statically
        first = build.times(index, tile)
        if self.plan.last_block_overlaps(dim, self.sizes[dim], block) and not is_exact:
            first = build.least(first, build.minus(end, block))
        extent = tile if is_exact else build.least(tile, build.minus(end, first))
        return region.within(dim, Span(first=first, extent=extent))

    def iteration(self, build: Builder, region: Region, loop: Loop, index: Index) -> Region:
        """Return the part of a region that the iteration of a loop beginning at `index` covers.

        A loop over K covers a chunk of up to `loop.step` indices, one over another reduction a single index.
        """
        if loop.dim != self.plan.contraction.k:
            return region.at([loop.dim], [index])
        end, step = self.end(loop.dim), loop.step
        extent = step if self._is_exact(loop.dim, step) else build.least(step, build.minus(end, index))
        return region.within(loop.dim, Span(first=index, extent=extent))

    # Register blocks

    def block(
        self, build: Builder, region: Region, row_index: Index, column_index: Index, is_tail: bool = False
    ) -> Block:
        """Return the register block at the coordinates `row_index` and `column_index` of a tile, counted in blocks."""
        row = self.block_start(build, region, self.plan.contraction.m, row_index, self.plan.schedule.mr)
        column = self.block_start(build, region, self.plan.contraction.n, column_index, self.plan.schedule.nr)
        return Block(row_index=row_index, column_index=column_index, row=row, column=column, is_tail=is_tail)

    def block_start(self, build: Builder, region: Region, dim: int | None, index: Index, block: int) -> Index:
        """Return the first row or column of a register block, counted from the tile's.

        Args:
            build: Emits the arithmetic of dynamic bounds.
            region: The tile.
            dim: M or N; None if the contraction has no such dimension.
            index: Coordinate of the block.
            block: Rows or columns of a block. If the dimension has a whole block, a last block of less begins earlier,
                and overlaps the block before.
        """
        if dim is None:
            return 0
        start, extent = build.times(index, block), region.extent(dim)
        if isinstance(extent, int) and extent % block == 0:
            return start
        if self.plan.last_block_overlaps(dim, self.sizes[dim], block):
            return build.least(start, build.minus(extent, block))
        return start

    def rows(self, build: Builder, region: Region, block: Block) -> Index:
        """Return how many rows of a block are within the matrix; a partial block has more, beyond its edge."""
        return self.block_extent(build, region, self.plan.contraction.m, block.row, self.plan.schedule.mr)

    def columns(self, build: Builder, region: Region, block: Block) -> Index:
        """Return how many columns of a block are within the matrix; a partial block has more, beyond its edge."""
        if block.is_tail:
            return self.plan.tail_columns
        return self.block_extent(build, region, self.plan.contraction.n, block.column, self.plan.schedule.nr)

    def block_extent(self, build: Builder, region: Region, dim: int | None, start: Index, block: int) -> Index:
        """Return how many of the `block` rows or columns from `start` of a tile are within the dimension `dim`."""
        if dim is None:
            return 1
        size = self.sizes[dim]
        if isinstance(size, int):
            return min(block, size)  # blocks overlap if there is a whole one; otherwise there is one block
        if self.plan.last_block_overlaps(dim, size, block):
            return block
        return build.least(block, build.minus(region.extent(dim), start))


def _statements(plan: Plan, packs_a: bool, is_batched: bool) -> tuple[Node, ...]:
    """Return the statements of a tile, in the order of execution.

    `Blocks(...)` is a loop over the register blocks of the tile, with the steps of each block. If one pass over K has
    all products of a block, the sums of the block stay in registers from the first product to the results. Otherwise
    the reductions are loops around the blocks, and the sums of the tile are stored in memory between two iterations.

    Example:
        With B packed and sums in registers:

            PACK_B, Blocks(INITIALIZE, MULTIPLY, FINISH)

        With both packed in chunks of 512 steps of K, and an outer reduction d3:

            Blocks(INITIALIZE), Loop(d3, 1: Loop(K, 512: PACK_B, PACK_A, Blocks(MULTIPLY))), Blocks(FINISH)

    Args:
        plan: The plan.
        packs_a: Whether A is packed where the plan says so; False for an A that is in workgroup memory already.
        is_batched: Whether the workgroup has a batch of outer indices.
    """
    pack_a = (TileStep.PACK_A,) if plan.schedule.pack_a and packs_a else ()
    pack_b = (TileStep.PACK_B,) if plan.schedule.pack_b else ()
    has_offsets = bool(plan.arithmetic.a_offset or plan.arithmetic.b_offset)
    # Packing may subtract a constant offset from elements, so that they fit bytes. The sums of the packed rows of A and
    # columns of B then correct the products (`FactorSums`).
    clear = (TileStep.CLEAR_FACTOR_SUMS,) if has_offsets else ()
    add = (TileStep.ADD_FACTOR_SUMS,) if has_offsets else ()
    if plan.sums_in_registers:
        blocks = Blocks((BlockStep.INITIALIZE, BlockStep.MULTIPLY, BlockStep.FINISH))
        tile = (*clear, *pack_a, *add, blocks)
        if is_batched and plan.batched_dims:
            # B does not depend on the outer indices of a batch, and is packed once for them.
            return (*pack_b, Batch(plan.batched_dims, plan.schedule.batch, tile))
        return (*pack_b, *tile)
    multiply = Blocks((BlockStep.MULTIPLY,))
    chunk: Node = Loop(plan.contraction.k, step=plan.schedule.kc, body=(*pack_b, *pack_a, *add, multiply))
    for dim in reversed(plan.outer_reductions):
        chunk = Loop(dim, step=1, body=(chunk,))
    return (*clear, Blocks((BlockStep.INITIALIZE,)), chunk, Blocks((BlockStep.FINISH,)))


def variant_sizes(plan: Plan, sizes: Sequence[Index]) -> tuple[Index, ...]:
    """Return the sizes of all dimensions under a plan: a plan for a single row count makes a dynamic M static."""
    rows = plan.row_range
    if rows is None or rows.least != rows.most:
        return tuple(sizes)
    return tuple(rows.least if d == plan.contraction.m else size for d, size in enumerate(sizes))


def has_few_enough_rows(plan: Plan, build: Builder, sizes: Sequence[Index]) -> SSAValue | bool:
    """Return whether A has at most as many rows as a plan with an upper bound is for: a bool, or an i1 at run time."""
    assert plan.contraction.m is not None and plan.row_range is not None and plan.row_range.most is not None
    return build.less(sizes[plan.contraction.m], plan.row_range.most + 1)


def workgroups(plans: Sequence[Plan], build: Builder, sizes: Sequence[Index]) -> Index:
    """Return the number of workgroups of a kernel that chooses one of `plans` by the number of rows at run time.

    The first plan has no upper bound of the rows. The other plans have ascending bounds. The first of them whose bound
    holds is chosen; without one, the plan without a bound (see `plan.variants`). `sizes` has the size of each loop of
    the contraction.
    """
    # The number of workgroups of each plan. `total` becomes that of the chosen plan.
    total, *bounded = (build.product(Nest.of(p, sizes).grid(build)) for p in plans)
    for plan, count in zip(reversed(plans[1:]), reversed(bounded), strict=True):
        condition = has_few_enough_rows(plan, build, sizes)
        assert isinstance(condition, SSAValue)
        total = build.pure(arith.SelectOp(condition, build.value(count), build.value(total)))
    if len(plans) > 1 and plans[0].contraction.m is not None:  # 0 workgroups for 0 rows
        total = build.times(total, build.least(sizes[plans[0].contraction.m], 1))
    return total
