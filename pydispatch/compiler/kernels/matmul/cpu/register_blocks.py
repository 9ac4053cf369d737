"""Register blocks of a tile: loops over them, and the initialization, the products and the epilogue of each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.epilogue import Epilogue, for_each_element, result_indices
from pydispatch.compiler.kernels.matmul.cpu.factor_sums import FactorSums
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region
from pydispatch.compiler.kernels.matmul.cpu.packing import widened
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import BlockSums, Products, emit_loop
from pydispatch.compiler.kernels.matmul.cpu.statements import BlockStep
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.results import column_values, starts_at_zero
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type, zero_attribute


@dataclass(frozen=True)
class TileParts:
    """Emitters and memory that the statements of a tile have in common.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest: statements, each of which is executed for a region, a range of indices of each dimension.
        products: Emitter of the products of blocks of `mr` rows by `nr` columns, whose sums fit into vector registers.
        epilogue: Emitter of the outputs of a block from its sums.
        sums: Buffer of the sums of one block if they stay in registers (`Plan.sums_in_registers`), else of the tile.
        factor_sums: Sums of packed rows of A and columns of B, which correct products of bytes for the offsets that
            packing subtracts; None without offsets, and until a statement has cleared the sums.
    """

    frame: Frame
    nest: Nest
    products: Products
    epilogue: Epilogue
    sums: SSAValue
    factor_sums: FactorSums | None = None


@dataclass(frozen=True)
class RegisterBlocks:
    """Emitter of the loops over the register blocks of a region, and of the statements of each block.

    Attributes:
        tile: What the statements of the tile have in common.
        steps: The statements of a block in their order: initialize its sums, multiply, finish, or some of them.
        region: The tile, and the current range of each reduction.
    """

    tile: TileParts
    steps: Sequence[BlockStep]
    region: Region

    @property
    def plan(self) -> Plan:
        """Plan of the product."""
        return self.tile.nest.plan

    @property
    def contraction(self) -> Contraction:
        """The product."""
        return self.plan.contraction

    def emit(self, build: Builder) -> None:
        """Emit a loop over columns of blocks, and in it a loop over the blocks of all rows of the tile."""
        contraction, schedule = self.contraction, self.plan.schedule
        # The last block of columns, the tail, may have fewer than `nr` columns if an argument has B in panels.
        has_tail = self.plan.tail_columns > 0
        columns: Index = 1  # number of columns of blocks, without the tail
        if contraction.n is not None:
            extent = self.region.extent(contraction.n)
            columns = build.quotient(extent, schedule.nr) if has_tail else build.ceil_quotient(extent, schedule.nr)
        rows = 1 if contraction.m is None else build.ceil_quotient(self.region.extent(contraction.m), schedule.mr)
        emit_loop(build, columns, step=1, body=lambda inner, j: self._emit_column(inner, rows, j))
        if contraction.n is not None and has_tail:
            # Only the last tile along the columns has the tail.
            is_tail_in_tile = build.less(build.times(columns, schedule.nr), self.region.extent(contraction.n))
            build.when(is_tail_in_tile, lambda inner: self._emit_column(inner, rows, columns, is_tail=True))

    def _emit_column(self, build: Builder, rows: Index, j: Index, is_tail: bool = False) -> None:
        """Emit column `j` of blocks: a loop over its `rows` register blocks, which have the same nr columns.

        Fused values that have one element per column and are expensive to compute, such as the reciprocal square root
        in a batch normalization, are computed once for all of these blocks. `is_tail` states that the blocks have fewer
        than `nr` columns, at the end of a B in panels.
        """
        nest, elements = self.tile.nest, self.tile.frame.elements
        has_epilogue = BlockStep.FINISH in self.steps
        column_vectors = column_values(self.tile.frame.source, self.contraction) if has_epilogue else []
        for value in column_vectors:
            start = nest.block_start(build, self.region, self.contraction.n, j, self.plan.schedule.nr)
            # All blocks of the column have the same columns of the matrix: the first one stands for all.
            self._cache_columns(build, value, Block(row_index=0, column_index=j, row=0, column=start, is_tail=is_tail))

        def emit_block(inner: Builder, i: Index) -> None:
            """Emit the register block in row `i` of column `j` of blocks."""
            pinned = inner.without_load_motion()  # loads of sums must stay after the products that write them
            self._emit_block(pinned, nest.block(pinned, self.region, i, j, is_tail))

        emit_loop(build, rows, step=1, body=emit_block)
        for value in column_vectors:  # the buffer has no elements of other columns
            elements.forget(value)

    def _cache_columns(self, build: Builder, value: SSAValue, block: Block) -> None:
        """Emit the computation of `value`, which has one element per column, for the columns of a block.

        The elements are stored in a buffer, and `value` is registered as stored there. Code that is emitted later for
        blocks with the same columns reads the buffer.
        """
        assert self.contraction.n is not None
        elements, nr = self.tile.frame.elements, self.plan.schedule.nr
        first_column = build.plus(self.region.first(self.contraction.n), block.column)  # of the matrix
        buffer = elements.fresh(tensor_type(value).element_type, nr)

        def store_element(inner: Builder, j: Index) -> None:
            """Emit the store of `value` at column `j` of the block into `buffer`."""
            elements.store(inner, elements.at(inner, value, [inner.plus(first_column, j)]), buffer, [j])

        build.parallel(0, self.tile.nest.columns(build, self.region, block), store_element, index_below=nr)
        # From here on, element [c] of the value is read as element [c - first_column] of the buffer.
        elements.materialize(value, buffer, index_map=lambda inner, indices: [inner.minus(indices[0], first_column)])

    def _emit_block(self, build: Builder, block: Block) -> None:
        """Emit the statements of a register block.

        Sums that start at zero need no initialization if a single `pyd.contract` computes them: it then overwrites them
        instead of adding to them.
        """
        tile, region = self.tile, self.region
        has_single_contract = self.plan.sums_in_registers and not tile.products.reduced_dims(build, region).loop_dims
        needs_initialization = not (has_single_contract and starts_at_zero(self.contraction.generic.outputs[0]))
        schedule = self.plan.schedule
        sums = BlockSums(tile.sums, self._offset_of_sums(build, block), schedule.mr, schedule.nr)
        for step in self.steps:
            if step is BlockStep.MULTIPLY:
                tile.products.emit(build, region, block, sums, accumulate=needs_initialization)
            elif step is BlockStep.FINISH:
                tile.epilogue.emit(build, region, block, sums, tile.factor_sums)
            elif needs_initialization:
                self._initialize(build, block, sums)

    def _offset_of_sums(self, build: Builder, block: Block) -> Index:
        """Return the offset of the sums of a block in the buffer of sums, in elements.

        The blocks of a column of blocks follow each other, then those of the next column. If sums stay in registers
        until a block is finished, all blocks use the memory of one.
        """
        schedule = self.plan.schedule
        if self.plan.sums_in_registers:
            return 0
        blocks_of_column = schedule.mt // schedule.mr
        block_number = build.plus(build.times(block.column_index, blocks_of_column), block.row_index)
        return build.times(block_number, schedule.mr * schedule.nr)

    def _initialize(self, build: Builder, block: Block, sums: BlockSums) -> None:
        """Emit stores of a block's initial sums: the initial values of the result, and 0 beyond the result's edges."""
        is_zero = starts_at_zero(self.contraction.generic.outputs[0])
        # If the block exceeds the result, its initial values overwrite only a part of the zeros.
        if is_zero or not self._is_full(build, block):
            self._store_zeros(build, sums)
        if not is_zero:
            self._store_initial_values(build, block, sums)

    def _is_full(self, build: Builder, block: Block) -> bool:
        """Return whether a block is known to have all its rows and columns."""
        schedule, nest = self.plan.schedule, self.tile.nest
        has_all_rows = nest.rows(build, self.region, block) == schedule.mr
        return has_all_rows and nest.columns(build, self.region, block) == schedule.nr

    def _store_zeros(self, build: Builder, sums: BlockSums) -> None:
        """Emit the store of 0 to all sums of a block."""
        zero, store = build.add(arith.ConstantOp(zero_attribute(self.plan.sum_type))), self.tile.frame.elements.store
        count = sums.rows * sums.columns
        build.parallel(0, count, lambda b, i: store(b, zero, sums.buffer, [b.plus(sums.offset, i)]))

    def _store_initial_values(self, build: Builder, block: Block, sums: BlockSums) -> None:
        """Emit the stores of the result's initial values to the sums of a block, in the rows and columns that exist."""
        nest, elements = self.tile.nest, self.tile.frame.elements
        initial = self.contraction.generic.outputs[0]

        def store_initial(inner: Builder, i: Index, j: Index) -> None:
            """Emit the store of the initial value at row `i` and column `j` of the block."""
            value = elements.at(inner, initial, result_indices(inner, self.contraction, self.region, block, i, j))
            value = widened(inner, value, self.plan.sum_type)  # the sums may have a wider type than the program's
            elements.store(inner, value, sums.buffer, [sums.element(inner, i, j)])

        rows, columns = nest.rows(build, self.region, block), nest.columns(build, self.region, block)
        for_each_element(build, rows, columns, width=sums.columns, body=store_initial)
