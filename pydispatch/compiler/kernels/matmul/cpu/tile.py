"""Emission of the tile of a workgroup from its loop nest: packing, products of register blocks, and the epilogue.

The epilogue computes the results of the dispatch from a register block while the block is in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE, StridedBlock, transpose_block
from pydispatch.compiler.kernels.matmul.cpu.factor_sums import FactorSums
from pydispatch.compiler.kernels.matmul.cpu.nest import (
    Batch,
    Block,
    Blocks,
    BlockStep,
    End,
    Loop,
    Nest,
    Node,
    Region,
    Span,
    TileStep,
)
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView, view_a, view_b
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.packing import MIN_TRANSPOSED_SIDE, Packing, widened
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import Products, Target, emit_loop
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.results import column_values, starts_at_zero
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import opposite
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
        rows: The rows.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
        ends: Dimension, N or K -> the end of its visited indices. Without an entry, all indices are visited.
    """
    contraction, schedule = plan.contraction, plan.schedule
    sizes = loop_sizes(frame.elements, contraction.generic)
    nest = Nest.of(plan, sizes, packs_a=a is None, is_batched=False, ends=ends)
    region = nest.whole(outer)
    region = region if contraction.m is None else region.within(contraction.m, rows)

    def tile_of_columns(inner: Builder, j: Index) -> None:
        """Emit the computation of tile `j` along the columns."""
        tile = nest.tile(inner, region, contraction.n, j, schedule.nt, schedule.nr)
        _emit_tile(frame, inner, nest, tile, outputs, a)

    tiles = 1 if contraction.n is None else build.ceil_quotient(nest.end(contraction.n), schedule.nt)
    emit_loop(build, tiles, step=1, body=tile_of_columns)


def _emit_tile(
    frame: Frame, build: Builder, nest: Nest, region: Region, outputs: Sequence[Output], a: OperandView | None = None
) -> None:
    """Emit the computation of the outputs in the tile `region`.

    Args:
        frame: The kernel that is emitted, with its tensors and buffers.
        build: Receives the code.
        nest: The loop nest of the contraction.
        region: The tile.
        outputs: The values to compute.
        a: The rows of A if they are in a buffer already; None to read or pack the factor A of the contraction.
    """
    plan, schedule = nest.plan, nest.plan.schedule
    if steps := plan.arithmetic.matrix_steps:
        build.add(configure_tiles(schedule.mr, schedule.nr, steps))
    a = view_a(frame, plan, build) if a is None else a
    products = Products(nest, a, view_b(frame, plan, build))
    height = _transposed_height(plan, outputs)
    added_rows = max(0, height - schedule.mr)  # transposing the last block reads so many rows after it
    block_count = 1 if plan.sums_in_registers else schedule.mt // schedule.mr * (schedule.nt // schedule.nr)
    count = (block_count * schedule.mr + added_rows) * schedule.nr
    sums = frame.elements.fresh(plan.sum_type, count)
    tile = _Tile(frame=frame, nest=nest, products=products, outputs=outputs, sums=sums, transposed_height=height)
    tile.emit(build, nest.body, region, factor_sums=None)
    if steps:
        build.add(ReleaseTilesOp())


def _transposed_height(plan: Plan, outputs: Sequence[Output]) -> int:
    """Return the height of a register block that is transposed before it is stored; 0 for a block that is not.

    A block of at least `MIN_TRANSPOSED_SIDE` rows, with vectors along N, is transposed if rows are the last, contiguous
    dimension of all results. The height is `mr`, rounded up to whole squares, in which registers are transposed.
    """
    contraction, schedule = plan.contraction, plan.schedule
    if contraction.m is None:
        return 0
    results, row = contraction.generic.output_maps[0].results, AffineDimExpr(contraction.m)
    are_neighbours = all(output.dims and results[output.dims[-1]] == row for output in outputs)
    side = min(SIDE, 1 << (schedule.mr - 1).bit_length())  # of the squares: `mr` rounded up to a power of two
    has_whole_squares = schedule.mr >= MIN_TRANSPOSED_SIDE and schedule.nr % side == 0
    if plan.vectorizes_k or not has_whole_squares or not are_neighbours:
        return 0
    return ceil_quotient(schedule.mr, side) * side


@dataclass(frozen=True)
class _Tile:
    """Emitter of the code of a tile: the rows and columns of a product that a workgroup computes.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest: statements, each of which is executed for a region, a range of indices of each dimension.
        products: Emitter of the products of blocks of `mr` rows by `nr` columns, whose sums fit into vector registers.
        outputs: Values to compute from the sums.
        sums: Buffer of the sums of one block if they stay in registers (`Plan.sums_in_registers`), else of the tile.
        transposed_height: Rows of a block that is transposed before its results are stored, with added rows that fill
            up its last square; 0 if blocks are stored as they are.
    """

    frame: Frame
    nest: Nest
    products: Products
    outputs: Sequence[Output]
    sums: SSAValue
    transposed_height: int

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

        factor_sums: sums of packed rows of A and columns of B, which correct products for the offsets that packing
        subtracts; None until a statement has cleared them.
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
        """Emit a loop over a reduced dimension, with its body for the region of each iteration."""

        def body(inner: Builder, index: Index) -> None:
            """Emit the body of the loop at one index."""
            self.emit(inner, loop.body, self.nest.iteration(inner, region, loop, index), factor_sums)

        emit_loop(build, self.nest.end(loop.dim), loop.step, body)

    def _batch(self, build: Builder, batch: Batch, region: Region, factor_sums: FactorSums | None) -> None:
        """Emit the loop over the workgroup's outer indices, up to `batch.count`, that share packed columns of B."""
        sizes = [self.nest.sizes[d] for d in batch.dims]
        total, first = build.product(sizes), build.times(region.batch, batch.count)

        def body(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the statements of a batch at one of its outer indices."""
            self.emit(inner, batch.body, region.at(batch.dims, inner.split(index, sizes)), factor_sums)
            return []

        end = build.least(build.plus(first, batch.count), total)
        build.loop(first, end, [], body, index_below=total)  # the bound lets divisions of `split` fold

    # Register blocks

    def _blocks(self, build: Builder, blocks: Blocks, region: Region, factor_sums: FactorSums | None) -> None:
        """Emit the loops over the register blocks of a tile."""
        contraction, schedule, nest = self.contraction, self.plan.schedule, self.nest
        tail = self.plan.tail_columns
        columns: Index = 1
        if contraction.n is not None:
            extent = region.extent(contraction.n)
            columns = build.quotient(extent, schedule.nr) if tail else build.ceil_quotient(extent, schedule.nr)
        rows = 1 if contraction.m is None else build.ceil_quotient(region.extent(contraction.m), schedule.mr)
        has_epilogue = BlockStep.FINISH in blocks.steps
        column_vectors = column_values(self.frame.source, contraction) if has_epilogue else []

        def column_of_blocks(outer: Builder, j: Index, is_tail: bool = False) -> None:
            """Emit column `j` of blocks. Values with one element per column are computed once for all blocks.

            is_tail: whether the blocks have fewer than `nr` columns: the last ones of B's zero-filled panels.
            """
            for value in column_vectors:
                start = nest.block_start(outer, region, contraction.n, j, schedule.nr)
                first_block = Block(row_index=0, column_index=j, row=0, column=start, is_tail=is_tail)
                self._cache_columns(outer, region, value, first_block)

            def one_block(inner: Builder, i: Index) -> None:
                """Emit the block in row `i` of this column of blocks."""
                pinned = inner.without_load_motion()  # its epilogue loads after its product
                block = nest.block(pinned, region, i, j, is_tail)
                self._block(pinned, blocks.steps, region, block, factor_sums)

            emit_loop(outer, rows, step=1, body=one_block)
            for value in column_vectors:
                self.frame.elements.forget(value)

        emit_loop(build, columns, step=1, body=column_of_blocks)
        if contraction.n is not None and tail:
            has_tail = build.less(build.times(columns, schedule.nr), region.extent(contraction.n))
            build.when(has_tail, lambda inner: column_of_blocks(inner, columns, is_tail=True))

    def _cache_columns(self, build: Builder, region: Region, value: SSAValue, block: Block) -> None:
        """Emit the computation of `value`, which has one element per column, for the columns of a block.

        They are stored in a buffer, from which all blocks of this column of blocks then read elements of `value`.
        """
        assert self.contraction.n is not None
        elements = self.frame.elements
        first = build.plus(region.first(self.contraction.n), block.column)
        buffer = elements.fresh(tensor_type(value).element_type, self.plan.schedule.nr)

        def element(inner: Builder, j: Index) -> None:
            """Store the element of column `j` of the block."""
            elements.store(inner, elements.at(inner, value, [inner.plus(first, j)]), buffer, [j])

        build.parallel(0, self.nest.columns(build, region, block), element, index_below=self.plan.schedule.nr)
        elements.materialize(value, buffer, index_map=lambda inner, indices: [inner.minus(indices[0], first)])

    def _block(
        self, build: Builder, steps: Sequence[BlockStep], region: Region, block: Block, factor_sums: FactorSums | None
    ) -> None:
        """Emit the statements `steps` of a register block.

        Sums that start at zero need no initialization if a single `pyd.contract` computes them: it overwrites them.
        """
        has_single_contract = self.plan.sums_in_registers and not self.products.steps(build, region).loop_dims
        needs_initialization = not (has_single_contract and starts_at_zero(self.contraction.generic.outputs[0]))
        target = Target(self.sums, self._offset(build, block))
        for step in steps:
            if step is BlockStep.MULTIPLY:
                self.products.emit(build, region, block, target, accumulate=needs_initialization)
            elif step is BlockStep.FINISH:
                self._finish(build, region, block, target, factor_sums)
            elif needs_initialization:
                self._initialize(build, region, block, target)

    def _offset(self, build: Builder, block: Block) -> Index:
        """Return the offset of the sums of a block in the buffer `sums`, in elements: blocks follow each other."""
        schedule = self.plan.schedule
        if self.plan.sums_in_registers:
            return 0
        index = build.plus(build.times(block.column_index, schedule.mt // schedule.mr), block.row_index)
        return build.times(index, schedule.mr * schedule.nr)

    def _element_offset(self, build: Builder, target: Target, i: Index, j: Index) -> Index:
        """Return the offset of the sum in row `i` and column `j` of a block, in elements of its buffer."""
        return build.plus(target.offset, build.plus(build.times(i, self.plan.schedule.nr), j))

    def _result_indices(self, build: Builder, region: Region, block: Block, i: Index, j: Index) -> list[Index]:
        """Return the indices of the contraction's result at row `i` and column `j` of a block."""
        contraction = self.contraction
        indices = [span.first for span in region.spans]
        if contraction.m is not None:
            indices[contraction.m] = build.plus(build.plus(region.first(contraction.m), block.row), i)
        if contraction.n is not None:
            indices[contraction.n] = build.plus(build.plus(region.first(contraction.n), block.column), j)
        return evaluate(build, contraction.generic.output_maps[0], indices)

    # Prologue and epilogue

    def _initialize(self, build: Builder, region: Region, block: Block, target: Target) -> None:
        """Emit stores of a block's initial sums: the initial values of the program, and 0 beyond the matrix's edges."""
        schedule, elements, initial = self.plan.schedule, self.frame.elements, self.contraction.generic.outputs[0]
        is_zero = starts_at_zero(initial)
        if is_zero or not self._is_full(build, region, block):
            zero = build.add(arith.ConstantOp(zero_attribute(self.plan.sum_type)))
            build.parallel(
                0,
                schedule.mr * schedule.nr,
                lambda inner, i: elements.store(inner, zero, target.buffer, [inner.plus(target.offset, i)]),
            )
        if is_zero:
            return

        def element(inner: Builder, i: Index, j: Index) -> None:
            """Store the initial sum at row `i` and column `j` of the block."""
            value = elements.at(inner, initial, self._result_indices(inner, region, block, i, j))
            value = widened(inner, value, self.plan.sum_type)
            elements.store(inner, value, target.buffer, [self._element_offset(inner, target, i, j)])

        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        _elements_of_block(build, rows, columns, schedule.nr, element)

    def _is_full(self, build: Builder, region: Region, block: Block) -> bool:
        """Return whether a block is known to have all its rows and columns."""
        schedule, nest = self.plan.schedule, self.nest
        return nest.rows(build, region, block) == schedule.mr and nest.columns(build, region, block) == schedule.nr

    def _finish(
        self, build: Builder, region: Region, block: Block, target: Target, factor_sums: FactorSums | None
    ) -> None:
        """Emit the epilogue of a block: load its sums, compute the outputs from them, and store these.

        If rows are contiguous in the results, the sums are transposed first, and loops are along rows.
        """
        schedule, elements = self.plan.schedule, self.frame.elements
        sums, column_stride = target.buffer, self.transposed_height  # 0: the sums are not transposed
        if column_stride:
            sums = elements.fresh(self.plan.sum_type, schedule.nr * column_stride)
            rows_of_sums = StridedBlock(target.buffer, target.offset, stride=schedule.nr)
            columns_of_sums = StridedBlock(sums, offset=0, stride=column_stride)
            transpose_block(build, source=rows_of_sums, target=columns_of_sums, rows=column_stride, columns=schedule.nr)

        def element(inner: Builder, i: Index, j: Index) -> None:
            """Emit the outputs at row `i` and column `j` of the block."""
            indices = self._result_indices(inner, region, block, i, j)
            if column_stride:  # transposed sums: column by column
                offset = inner.plus(inner.times(j, column_stride), i)
            else:
                offset = self._element_offset(inner, target, i, j)
            total = inner.add(memref.LoadOp.get(sums, [inner.value(offset)]))
            if factor_sums is not None:
                total = factor_sums.corrected(inner, total, block, i, j)
            result = self.contraction.op.results[0]
            elements.define(inner, result, indices, _rounded(inner, total, self.contraction.acc))
            for output in self.outputs:
                output_indices = [indices[d] for d in output.dims]
                output.store(inner, elements.at(inner, output.value, output_indices), output_indices)

        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        if column_stride:
            _elements_of_block(build, columns, rows, width=schedule.mr, body=lambda inner, j, i: element(inner, i, j))
        else:
            _elements_of_block(build, rows, columns, width=schedule.nr, body=element)


def _elements_of_block(
    build: Builder, rows: Index, columns: Index, width: int, body: Callable[[Builder, Index, Index], None]
) -> None:
    """Emit parallel loops of `body` over rows x columns elements.

    If the number of columns, at most `width`, is dynamic, there are two versions, and the one for `width` columns has a
    loop of static length.
    """

    def nest(outer: Builder, end: Index) -> None:
        """Emit the loops over all rows and the columns before `end`."""
        outer.parallel(0, rows, lambda b, i: b.parallel(0, end, lambda inner, j: body(inner, i, j)))

    if isinstance(columns, int):
        nest(build, columns)
        return
    is_partial = build.less(columns, width)
    build.when(is_partial, lambda inner: nest(inner, columns))
    build.when(opposite(build, is_partial), lambda inner: nest(inner, width))


def _rounded(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return a sum as the element type `to` of the program: rounded once, if the accumulator was wider."""
    return value if value.type == to else build.add(arith.TruncFOp(value, to))
