"""Products of the register blocks of a tile: `pyd.contract` on memrefs of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region
from pydispatch.compiler.kernels.matmul.cpu.operand_memrefs import BlockOperand, ReducedDims
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.matmul.cpu.page_prefetch import prefetch_next_page
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.contract import ContractOp


@dataclass(frozen=True)
class BlockSums:
    """The sums of a register block in memory, row-major.

    Attributes:
        buffer: Memory that has the sums.
        offset: Index of the first one.
        rows, columns: Number of rows and columns.
    """

    buffer: SSAValue
    offset: Index
    rows: int
    columns: int

    def element(self, build: Builder, i: Index, j: Index) -> Index:
        """Return the index in `buffer` of the sum in row `i` and column `j`."""
        return build.plus(self.offset, build.plus(build.times(i, self.columns), j))


@dataclass(frozen=True)
class Products:
    """Emitter of the products of register blocks: the blocks of a tile's sums that fit into vector registers.

    The emitter of a tile creates one for each kernel, and calls `emit` wherever the loop nest multiplies a block.

    Attributes:
        nest: The loop nest of the kernel.
        a, b: The factors as the blocks read them: in the memory of an argument, or in a packed copy.
    """

    nest: Nest
    a: OperandView
    b: OperandView

    def reduced_dims(self, build: Builder, region: Region) -> ReducedDims:
        """Return how the product of a block runs over the reduced dimensions; `region` has the extent of K.

        The steps of K are one dimension. A reduction, another reduced dimension, that continues K in the memory of both
        operands is merged with K, for one longer loop. The other reductions are dimensions of `pyd.contract`, or loops
        around it if vectors are along K.

        Example:
            A convolution by 3 x 3 filters over an image [row, column, channel] that is read in place. K is the 64
            channels. The other reduced dimensions are the 3 rows and the 3 columns of a filter. The channels of the
            next column are 64 steps further in both operands. So `k_steps` is 64 * 3 = 192, and `contract_dims` has the
            rows.
        """
        plan, k_steps = self.nest.plan, region.extent(self.nest.plan.contraction.k)
        dims_left = list(plan.inner_reductions)
        # The elements of another dimension follow those of K only if the region has all of K, as it has if sums stay in
        # registers. They do not if K is stored in groups of steps, since zeros may fill up its last group.
        if plan.group == 1 and isinstance(k_steps, int) and plan.sums_in_registers:
            while (dim := self._dim_continuing_k(build, dims_left, k_steps)) is not None:
                size = self.nest.sizes[dim]
                assert isinstance(size, int)
                k_steps *= size
                dims_left.remove(dim)
        dims = tuple(d for d in dims_left if self.nest.sizes[d] != 1)
        if plan.vectorizes_k:  # a product with vectors along K has one reduced dimension
            return ReducedDims(k_steps, loop_dims=dims, contract_dims=())
        return ReducedDims(k_steps, loop_dims=(), contract_dims=dims)

    def _dim_continuing_k(self, build: Builder, reductions: Sequence[int], count: int) -> int | None:
        """Return one of `reductions` whose neighbours are `count` steps of K apart in memory, in both operands.

        `count` is the size of K, so that this dimension and K are one longer dimension. Return None if there is none.
        Inner dimensions, the last ones, are tried first.
        """
        k = self.nest.plan.contraction.k
        for dim in reversed(reductions):
            operands = (self.a, self.b)
            if all(o.stride(build, dim) == build.times(o.stride(build, k), count) for o in operands):
                return dim
        return None

    def emit(self, build: Builder, region: Region, block: Block, sums: BlockSums, accumulate: bool) -> None:
        """Emit the product of the rows of A and the columns of B of one register block.

        Args:
            build: Emits the operations.
            region: The tile, and the current range of each reduction.
            block: The block.
            sums: The sums of the block in memory.
            accumulate: Whether the product is added to the sums; otherwise it overwrites them.
        """
        prefetch_next_page(build, self.nest, self.b, region, block)
        self.emit_factors(build, region, (self.a, self.b), block, sums, accumulate)

    def emit_factors(
        self,
        build: Builder,
        region: Region,
        factors: tuple[OperandView, OperandView],
        block: Block,
        sums: BlockSums,
        accumulate: bool = True,
    ) -> None:
        """Emit the product of rows of one operand and columns of another, as `pyd.contract` in the necessary loops.

        A block of 14 x 32 sums of f32 over 64 steps of K is one operation:

            pyd.contract %a, %b, %sums accumulate : memref<14x64xf32 …>, memref<64x32xf32 …>, memref<14x32xf32 …>

        If vectors are along K, other reductions are loops around it (`ReducedDims.loop_dims`).

        Args:
            build: Emits the operations.
            region: The tile, and the current range of each reduction.
            factors: The operand with the rows, and the one with the columns: A and B, or a matrix of ones in place of
                one of them. The product by ones is the sum of the other factor (`FactorSums`).
            block: The block, which locates the product: both have the same first row and first column.
            sums: The sums in memory, whose rows and columns are those of the product.
            accumulate: Whether the product is added to the sums; otherwise it replaces them.
        """
        reduced = self.reduced_dims(build, region)
        a, b = (BlockOperand(self.nest, region, block, view, reduced) for view in factors)
        properties = self._properties(factors, accumulate)

        def emit_product(inner: Builder, indices: Sequence[Index]) -> None:
            """Emit the product of the block at `indices` of the loops around it."""
            index_of_dim = dict(zip(reduced.loop_dims, indices, strict=True))
            left, right = a.rows(inner, index_of_dim, sums.rows), b.columns(inner, index_of_dim, sums.columns)
            result = view_as(inner, sums.buffer, sums.offset, [sums.rows, sums.columns], [sums.columns, 1])
            inner.add(ContractOp(operands=[left, right, result], properties=properties))

        emit_loops(build, [self.nest.sizes[d] for d in reduced.loop_dims], emit_product)

    def _properties(self, factors: tuple[OperandView, OperandView], accumulate: bool) -> dict[str, Attribute]:
        """Return the properties of `pyd.contract` on two operands: accumulation, unsigned bytes, prefetching.

        {accumulate, unsigned_a, prefetch = 4096, into_l2} adds products of unsigned and signed bytes to the sums, and
        prefetches the rows of B that are 4,096 bytes ahead into the second-level cache.
        """
        plan, arithmetic = self.nest.plan, self.nest.plan.arithmetic
        unsigned_a, unsigned_b = arithmetic.unsigned_a, arithmetic.unsigned_b
        # With matrix registers, A and B may have the same sign. But products by ones (`FactorSums`) are computed in
        # vector registers, whose instructions multiply unsigned by signed bytes only. A byte of 1 is the same number
        # signed and unsigned: ones get the opposite sign of the other factor. If A and B are signed, the flags of the
        # product of A and ones are (False, True).
        if arithmetic.matrix_steps and unsigned_a == unsigned_b:
            unsigned_a ^= factors[0].is_ones
            unsigned_b ^= factors[1].is_ones
        flags = {"accumulate": accumulate, "unsigned_a": unsigned_a, "unsigned_b": unsigned_b}
        properties: dict[str, Attribute] = {name: UnitAttr() for name, value in flags.items() if value}
        if plan.prefetch_bytes:
            properties["prefetch"] = IntegerAttr(plan.prefetch_bytes, i64)
            # Rows of B that are not in panels are far apart: in the L1 cache they would share a few sets and evict each
            # other before they are read.
            if plan.panels is None:
                properties["into_l2"] = UnitAttr()
        return properties


def emit_loop(build: Builder, end: Index, step: int, body: Callable[[Builder, Index], None]) -> None:
    """Emit a sequential loop over 0, `step`, 2 * `step`, ... below `end` that carries no values."""
    build.sequential(0, end, body, step)


def emit_loops(build: Builder, sizes: Sequence[Index], body: Callable[[Builder, Sequence[Index]], None]) -> None:
    """Emit a loop for each of `sizes`, one inside of the other, and in the innermost one `body` with all indices."""
    if not sizes:
        body(build, ())
        return
    size, *inner_sizes = sizes

    def iteration(inner: Builder, index: Index) -> None:
        """Emit the inner loops at one index of the outermost loop."""
        emit_loops(inner, inner_sizes, lambda innermost, indices: body(innermost, (index, *indices)))

    emit_loop(build, size, step=1, body=iteration)
