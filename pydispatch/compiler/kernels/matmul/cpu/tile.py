"""Emission of the tile of a workgroup from its loop nest: packing, products of register blocks, and their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.epilogue import (
    Epilogue,
    for_each_element,
    result_indices,
    transposed_height,
)
from pydispatch.compiler.kernels.matmul.cpu.factor_sums import FactorSums
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, End, Nest, Region, Span
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView, view_a, view_b
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.packing import Packing, widened
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import BlockSums, Products, emit_loop
from pydispatch.compiler.kernels.matmul.cpu.statements import Batch, Blocks, BlockStep, Loop, Node, TileStep
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.results import column_values, starts_at_zero
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.generics import loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles


def emit_workgroup(frame: Frame, build: Builder, plan: Plan, outputs: Sequence[Output], workgroup_id: SSAValue) -> None:
    """Emit the code of the workgroup `workgroup_id`: one tile of a contraction and the outputs computed from it."""
    nest = Nest.of(plan, loop_sizes(frame.elements, plan.contraction.generic))
    _emit_tile(frame, build, nest, nest.workgroup(build, workgroup_id), outputs)


def emit_rows(
    frame: Frame,
    build: Builder,
    plan: Plan,
    outputs: Sequence[Output],
    outer: Mapping[int, Index],
    rows: Span,
    a: OperandView | None = None,
    ends: Mapping[int, End] | None = None,
) -> None:
    """Emit the computation of the outputs for a span of rows and all columns: a loop over tiles along the columns.

    Args:
        frame: The kernel that is emitted, with its tensors and buffers.
        build: Receives the code.
        plan: The plan of the contraction.
        outputs: The values to compute.
        outer: Outer dimension -> its index.
        rows: The span of rows.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
        ends: Dimension, N or K -> the end of the indices that are computed, for a mask that hides the later ones. All
            indices of a dimension without an entry are computed.
    """
    contraction, schedule = plan.contraction, plan.schedule
    sizes = loop_sizes(frame.elements, contraction.generic)
    nest = Nest.of(plan, sizes, packs_a=a is None, is_batched=False, ends=ends)
    region = nest.untiled_region(outer)
    if contraction.m is not None:
        region = region.with_span(contraction.m, rows)

    def emit_tile_of_columns(inner: Builder, j: Index) -> None:
        """Emit the computation of `region` in the columns of tile `j`."""
        tile = nest.tile(inner, region, contraction.n, j, tile=schedule.nt, block=schedule.nr)
        _emit_tile(frame, inner, nest, tile, outputs, a)

    tiles = 1 if contraction.n is None else build.ceil_quotient(nest.end(contraction.n), schedule.nt)
    emit_loop(build, tiles, step=1, body=emit_tile_of_columns)


def _emit_tile(
    frame: Frame, build: Builder, nest: Nest, region: Region, outputs: Sequence[Output], a: OperandView | None = None
) -> None:
    """Emit the computation of the outputs in the tile `region`: its buffers, and the statements of `nest.body`.

    The statements pack operands, and loop over the register blocks of mr x nr sums.

    Args:
        frame: The kernel that is emitted, with its tensors and buffers.
        build: Receives the code.
        nest: The loop nest of the contraction.
        region: The tile.
        outputs: The values to compute.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
    """
    plan, schedule = nest.plan, nest.plan.schedule
    if steps := plan.arithmetic.matrix_steps:  # products are in matrix registers (AMX), which are released at the end
        build.add(configure_tiles(schedule.mr, schedule.nr, steps))
    a = view_a(frame, plan, build) if a is None else a
    products = Products(nest, a, view_b(frame, plan, build))
    height = transposed_height(plan, outputs)  # 0 unless the contiguous dimension of outputs is M
    # Blocks are transposed in whole squares of registers: a block of 14 rows is read as one of 16. The memory of sums
    # has room for the 2 rows that are read after the last block.
    added_rows = max(0, height - schedule.mr)
    # Sums in registers are stored when a block is finished, and all blocks use the same memory. Otherwise the sums of
    # all blocks of the tile are in memory between two chunks of K.
    blocks_of_tile = schedule.mt // schedule.mr * (schedule.nt // schedule.nr)
    stored_blocks = 1 if plan.sums_in_registers else blocks_of_tile
    sum_count = (stored_blocks * schedule.mr + added_rows) * schedule.nr
    sums = frame.elements.fresh(plan.sum_type, sum_count)
    epilogue = Epilogue(frame=frame, nest=nest, outputs=outputs, transposed_height=height)
    tile = _Tile(frame=frame, nest=nest, products=products, epilogue=epilogue, sums=sums)
    tile.emit(build, nest.body, region, factor_sums=None)
    if steps:
        build.add(ReleaseTilesOp())


@dataclass(frozen=True)
class _Tile:
    """Emitter of the code of a tile: the rows and columns of a product that a workgroup computes.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest: statements, each of which is executed for a region, a range of indices of each dimension.
        products: Emitter of the products of blocks of `mr` rows by `nr` columns, whose sums fit into vector registers.
        epilogue: Emitter of the outputs of a block from its sums.
        sums: Buffer of the sums of one block if they stay in registers (`Plan.sums_in_registers`), else of the tile.
    """

    frame: Frame
    nest: Nest
    products: Products
    epilogue: Epilogue
    sums: SSAValue

    @property
    def plan(self) -> Plan:
        """Plan of the product."""
        return self.nest.plan

    @property
    def contraction(self) -> Contraction:
        """The product."""
        return self.plan.contraction

    def emit(self, build: Builder, nodes: Sequence[Node], region: Region, factor_sums: FactorSums | None) -> None:
        """Emit the statements `nodes` in their order, for one region of the iteration space.

        Args:
            build: Receives the code.
            nodes: The statements of the tile, or of the body of a loop. There are loops over register blocks
                (`Blocks`), over a reduced dimension (`Loop`), or over tiles that share packed columns of B (`Batch`).
                The other statements pack a factor, or compute the sums of packed factors.
            region: The tile, or the part of it that one iteration covers.
            factor_sums: Sums of packed rows of A and columns of B, which correct products for the offsets that packing
                subtracts; None without offsets, and until a statement has cleared the sums.
        """
        for node in nodes:
            if isinstance(node, Blocks):
                self._blocks(build, node, region, factor_sums)
            elif isinstance(node, Loop):
                self._loop(build, node, region, factor_sums)
            elif isinstance(node, Batch):
                self._batch(build, node, region, factor_sums)
            elif node is TileStep.PACK_A:
                Packing(self.frame, self.nest, region, self.products.a, is_b=False).emit(build)
            elif node is TileStep.PACK_B:
                Packing(self.frame, self.nest, region, self.products.b, is_b=True).emit(build)
            elif node is TileStep.CLEAR_FACTOR_SUMS:
                factor_sums = FactorSums.cleared(self.frame, self.products, build)
            else:
                assert node is TileStep.ADD_FACTOR_SUMS and factor_sums is not None
                factor_sums.add(build, region)

    def _loop(self, build: Builder, loop: Loop, region: Region, factor_sums: FactorSums | None) -> None:
        """Emit a loop over a reduced dimension: the statements `loop.body` for the part of `region` of each iteration.

        For K, this part is a chunk of `loop.step` steps. `factor_sums` correct products of bytes that are packed with
        an offset; None without offsets, and until a statement has cleared the sums.
        """

        def emit_iteration(inner: Builder, index: Index) -> None:
            """Emit the statements of `loop` for the part of `region` that begins at `index` of the dimension."""
            self.emit(inner, loop.body, self.nest.iteration(inner, region, loop, index), factor_sums)

        emit_loop(build, self.nest.end(loop.dim), loop.step, emit_iteration)

    def _batch(self, build: Builder, batch: Batch, region: Region, factor_sums: FactorSums | None) -> None:
        """Emit the loop over the tiles of a workgroup, up to `batch.count`, that share packed columns of B.

        The tiles differ in their indices of the outer dimensions `batch.dims`, which are counted as one dimension: for
        sizes (2, 28) and 8 tiles for each workgroup, batch 1 (`region.batch`) has the indices 8 to 15. `factor_sums`
        correct products of bytes that are packed with an offset; None without offsets.
        """
        sizes = [self.nest.sizes[d] for d in batch.dims]
        total, first = build.product(sizes), build.times(region.batch, batch.count)

        def emit_tile(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the statements of `batch` for the tile at one index of the combined dimension."""
            self.emit(inner, batch.body, region.with_indices(batch.dims, inner.split(index, sizes)), factor_sums)
            return []

        end = build.least(build.plus(first, batch.count), total)
        # The index is known to be below `total`, the product of `sizes`, so that some divisions of `split` fold.
        build.loop(first, end, carried=[], body=emit_tile, index_below=total)

    # Register blocks

    def _blocks(self, build: Builder, blocks: Blocks, region: Region, factor_sums: FactorSums | None) -> None:
        """Emit the loops over the register blocks of the tile `region`, and in them the statement `blocks`.

        `factor_sums` correct products of bytes that are packed with an offset; None without offsets.
        """
        contraction, schedule = self.contraction, self.plan.schedule
        # The last block of columns, the tail, may have fewer than `nr` columns if an argument has B in panels.
        has_tail = self.plan.tail_columns > 0
        columns: Index = 1  # number of columns of blocks, without the tail
        if contraction.n is not None:
            extent = region.extent(contraction.n)
            columns = build.quotient(extent, schedule.nr) if has_tail else build.ceil_quotient(extent, schedule.nr)
        rows = 1 if contraction.m is None else build.ceil_quotient(region.extent(contraction.m), schedule.mr)
        column_of_blocks = partial(self._column_of_blocks, blocks, region, factor_sums, rows)
        emit_loop(build, columns, step=1, body=column_of_blocks)
        if contraction.n is not None and has_tail:
            # Only the last tile along the columns has the tail.
            is_tail_in_tile = build.less(build.times(columns, schedule.nr), region.extent(contraction.n))
            build.when(is_tail_in_tile, lambda inner: column_of_blocks(inner, columns, is_tail=True))

    def _column_of_blocks(
        self,
        blocks: Blocks,
        region: Region,
        factor_sums: FactorSums | None,
        rows: Index,
        build: Builder,
        j: Index,
        is_tail: bool = False,
    ) -> None:
        """Emit column `j` of blocks: a loop over the register blocks of all rows of the tile, at the same nr columns.

        Fused values that have one element per column and are expensive to compute, such as the reciprocal square root
        in a batch normalization, are computed once for all of these blocks.

        Args:
            blocks: The statement. `blocks.steps` are some of the steps of a block: initialize its sums, multiply, and
                finish (the epilogue), which computes and stores the results.
            region: The tile.
            factor_sums: Sums of packed rows of A and columns of B, which correct products for the offsets that packing
                subtracts from bytes; None without offsets.
            rows: Number of blocks in the column.
            build: Receives the code.
            j: Position of the column, in blocks.
            is_tail: Whether the blocks have fewer than `nr` columns, at the end of a B in panels.
        """
        contraction, nest = self.contraction, self.nest
        has_epilogue = BlockStep.FINISH in blocks.steps
        # Compute the values of one element per column, which the epilogues of all blocks then read from a buffer.
        column_vectors = column_values(self.frame.source, contraction) if has_epilogue else []
        for value in column_vectors:
            start = nest.block_start(build, region, contraction.n, j, self.plan.schedule.nr)
            # All blocks of the column of blocks have the same columns of the matrix: the first one stands for all.
            first_block = Block(row_index=0, column_index=j, row=0, column=start, is_tail=is_tail)
            self._cache_columns(build, region, value, first_block)

        def emit_block(inner: Builder, i: Index) -> None:
            """Emit the statements `blocks.steps` for the register block in row `i` of column `j` of blocks.

            With `is_tail`, the block has fewer than `nr` columns. `factor_sums`, unless None, correct its sums for the
            offsets that packing subtracted from bytes of A and B.
            """
            pinned = inner.without_load_motion()  # loads of sums must stay after the products that write them
            block = nest.block(pinned, region, i, j, is_tail)
            self._block(pinned, blocks.steps, region, block, factor_sums)

        emit_loop(build, rows, step=1, body=emit_block)
        for value in column_vectors:  # the buffer has no elements of other columns
            self.frame.elements.forget(value)

    def _cache_columns(self, build: Builder, region: Region, value: SSAValue, block: Block) -> None:
        """Emit the computation of `value`, which has one element per column, for the columns of a block.

        The elements are stored in a buffer, and `value` is registered as stored there. Code that is emitted later for
        blocks with the same columns reads the buffer.
        """
        assert self.contraction.n is not None
        elements = self.frame.elements
        first_column = build.plus(region.first(self.contraction.n), block.column)  # of the matrix
        buffer = elements.fresh(tensor_type(value).element_type, self.plan.schedule.nr)

        def store_element(inner: Builder, j: Index) -> None:
            """Emit the store of `value` at column `j` of the block into `buffer`."""
            elements.store(inner, elements.at(inner, value, [inner.plus(first_column, j)]), buffer, [j])

        build.parallel(0, self.nest.columns(build, region, block), store_element, index_below=self.plan.schedule.nr)
        # From here on, element [c] of the value is read as element [c - first_column] of the buffer.
        elements.materialize(value, buffer, index_map=lambda inner, indices: [inner.minus(indices[0], first_column)])

    def _block(
        self, build: Builder, steps: Sequence[BlockStep], region: Region, block: Block, factor_sums: FactorSums | None
    ) -> None:
        """Emit the statements `steps` of a register block: initialize its sums, multiply, finish, or some of them.

        Sums that start at zero need no initialization if a single `pyd.contract` computes them: it then overwrites them
        instead of adding to them.
        """
        has_single_contract = self.plan.sums_in_registers and not self.products.reduced_dims(build, region).loop_dims
        needs_initialization = not (has_single_contract and starts_at_zero(self.contraction.generic.outputs[0]))
        sums = BlockSums(self.sums, self._offset(build, block))
        for step in steps:
            if step is BlockStep.MULTIPLY:
                self.products.emit(build, region, block, sums, accumulate=needs_initialization)
            elif step is BlockStep.FINISH:
                self.epilogue.emit(build, region, block, sums, factor_sums)
            elif needs_initialization:
                self._initialize(build, region, block, sums)

    def _offset(self, build: Builder, block: Block) -> Index:
        """Return the offset of the sums of a block in the buffer `sums`, in elements.

        The blocks of a column of blocks follow each other, then those of the next column. If sums stay in registers
        until a block is finished, all blocks use the memory of one.
        """
        schedule = self.plan.schedule
        if self.plan.sums_in_registers:
            return 0
        blocks_of_column = schedule.mt // schedule.mr
        block_number = build.plus(build.times(block.column_index, blocks_of_column), block.row_index)
        return build.times(block_number, schedule.mr * schedule.nr)

    def _initialize(self, build: Builder, region: Region, block: Block, sums: BlockSums) -> None:
        """Emit stores of a block's initial sums: the initial values of the result, and 0 beyond the result's edges."""
        schedule, elements, initial = self.plan.schedule, self.frame.elements, self.contraction.generic.outputs[0]
        is_zero = starts_at_zero(initial)
        # All sums become 0 if the initial values are, or if the block exceeds the result: the initial values then
        # overwrite only a part of the block.
        if is_zero or not self._is_full(build, region, block):
            zero = build.add(arith.ConstantOp(zero_attribute(self.plan.sum_type)))
            build.parallel(
                0,
                schedule.mr * schedule.nr,
                lambda inner, i: elements.store(inner, zero, sums.buffer, [inner.plus(sums.offset, i)]),
            )
        if is_zero:
            return

        def store_initial(inner: Builder, i: Index, j: Index) -> None:
            """Emit the store of the initial value at row `i` and column `j` of `block` into `sums`."""
            value = elements.at(inner, initial, result_indices(inner, self.contraction, region, block, i, j))
            value = widened(inner, value, self.plan.sum_type)  # the sums may have a wider type than the program's
            elements.store(inner, value, sums.buffer, [sums.element(inner, i, j, schedule.nr)])

        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        for_each_element(build, rows, columns, width=schedule.nr, body=store_initial)

    def _is_full(self, build: Builder, region: Region, block: Block) -> bool:
        """Return whether a block is known to have all its rows and columns."""
        schedule, nest = self.plan.schedule, self.nest
        return nest.rows(build, region, block) == schedule.mr and nest.columns(build, region, block) == schedule.nr
