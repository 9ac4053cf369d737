"""The epilogue of a register block: the results of the dispatch are computed from its sums, and stored.

It follows the product while the block is in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.loops.transpose_blocks import (
    SIDE,
    StridedBlock,
    transpose_block,
)
from pydispatch.compiler.kernels.matmul.cpu.factor_sums import FactorSums
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output
from pydispatch.compiler.kernels.matmul.cpu.packing import MIN_TRANSPOSED_SIDE
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import BlockSums
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import opposite


def transposed_height(plan: Plan, outputs: Sequence[Output]) -> int:
    """Return the height of a register block that is transposed before it is stored; 0 if it is stored untransposed.

    A block is transposed if M is the last, contiguous dimension of all outputs, but the vectors of sums are along N.
    Registers transpose it in squares, so that its height is `mr`, rounded up to whole squares: 16 for 14 rows.
    """
    contraction, schedule = plan.contraction, plan.schedule
    if contraction.m is None:
        return 0
    index_of_dim = contraction.generic.output_maps[0].results  # dimension of the result -> its index
    m = AffineDimExpr(contraction.m)
    is_m_contiguous = all(output.dims and index_of_dim[output.dims[-1]] == m for output in outputs)
    has_vectors_along_n = not plan.vectorizes_k
    if not is_m_contiguous or not has_vectors_along_n:
        return 0
    # The side of a square is `mr` rounded up to a power of two, at most `SIDE`: 8 for 6 rows.
    side = min(SIDE, 1 << (schedule.mr - 1).bit_length())
    is_too_low = schedule.mr < MIN_TRANSPOSED_SIDE  # to be faster than loads and stores of single elements
    has_partial_squares = schedule.nr % side != 0
    return 0 if is_too_low or has_partial_squares else ceil_quotient(schedule.mr, side) * side


@dataclass(frozen=True)
class Epilogue:
    """Emitter of the outputs of register blocks: values such as relu(sum + bias), computed from the sums of a block.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest.
        outputs: The results of the dispatch, and how their elements are stored.
        transposed_height: If the sums of a block are transposed before outputs are computed from them: the rows of a
            block, rounded up to whole squares, in which registers transpose it. 0 if sums are not transposed.
    """

    frame: Frame
    nest: Nest
    outputs: Sequence[Output]
    transposed_height: int

    def emit(
        self, build: Builder, region: Region, block: Block, sums: BlockSums, factor_sums: FactorSums | None
    ) -> None:
        """Emit the epilogue of a block: load its sums, compute the outputs from them, and store these.

        Outputs are the results of the dispatch, such as relu(sum + bias).

        Args:
            build: Receives the code.
            region: The tile.
            block: The register block, part of the tile.
            sums: Memory of the block's sums of products.
            factor_sums: Sums of packed rows of A and of packed columns of B, which correct sums of products if packing
                subtracted a constant from the elements; None for no correction.
        """
        contraction, is_transposed = self.nest.plan.contraction, self.transposed_height > 0
        stored = self._transpose(build, sums) if is_transposed else sums

        def emit_element(inner: Builder, i: Index, j: Index) -> None:
            """Emit the outputs at row `i` and column `j` of `block`, from its `stored` sums and `factor_sums`."""
            indices = result_indices(inner, contraction, region, block, i, j)
            index = stored.element(inner, j, i) if is_transposed else stored.element(inner, i, j)
            total = load(inner, stored.buffer, index)
            if factor_sums is not None:
                total = factor_sums.corrected(inner, total, block, i, j)
            self._store_outputs(inner, indices, total)

        # The inner loop is over contiguous sums: columns, or rows if they are transposed.
        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        if is_transposed:
            for_each_element(build, columns, rows, width=sums.rows, body=lambda b, j, i: emit_element(b, i, j))
        else:
            for_each_element(build, rows, columns, width=sums.columns, body=emit_element)

    def _transpose(self, build: Builder, sums: BlockSums) -> BlockSums:
        """Emit the transposition of a block's sums, [row][column], to [column][row] in other memory; return the latter.

        A column is padded to `transposed_height`; the epilogue does not store results for the padding.
        """
        height, width = self.transposed_height, sums.columns
        buffer = self.frame.elements.fresh(self.nest.plan.sum_type, width * height)
        source, target = StridedBlock(sums.buffer, sums.offset, stride=width), StridedBlock(buffer, 0, stride=height)
        transpose_block(build, source, target, rows=height, columns=width)
        return BlockSums(buffer, offset=0, rows=width, columns=height)

    def _store_outputs(self, build: Builder, indices: Sequence[Index], total: SSAValue) -> None:
        """Emit the computation of one element of each output from `total`, and its store.

        `total` is the sum of products at `indices` of the contraction's result.
        """
        contraction, elements = self.nest.plan.contraction, self.frame.elements
        # Register the element of the contraction's result: `elements.at` computes elements of outputs from it.
        element = _rounded(build, total, contraction.acc)
        elements.define(build, contraction.op.results[0], indices, element)
        for output in self.outputs:
            output_indices = [indices[d] for d in output.dims]  # [n, m] instead of [m, n] for a transposed output
            output_element = elements.at(build, output.value, output_indices)  # emits its computation
            output.store(build, output_element, output_indices)


def result_indices(
    build: Builder, contraction: Contraction, region: Region, block: Block, i: Index, j: Index
) -> list[Index]:
    """Return the indices of a contraction's result at row `i` and column `j` of a block of the tile `region`."""
    # Indices of the contraction's loops. Outer ones have a single index; the result does not depend on reductions.
    indices = [span.first for span in region.spans]
    if contraction.m is not None:
        indices[contraction.m] = build.plus(build.plus(region.first(contraction.m), block.row), i)
    if contraction.n is not None:
        indices[contraction.n] = build.plus(build.plus(region.first(contraction.n), block.column), j)
    return evaluate(build, contraction.generic.output_maps[0], indices)


def for_each_element(
    build: Builder, rows: Index, columns: Index, width: int, body: Callable[[Builder, Index, Index], None]
) -> None:
    """Emit parallel loops of `body` over rows x columns elements.

    `body` emits the code of an element, from a builder, its row and its column. `columns` is at most `width`. If it is
    dynamic, the loops are emitted twice: for `width` columns, so that the loop has a static length, and for fewer.
    """

    def emit_loops(outer: Builder, column_count: Index) -> None:
        """Emit the loops over all rows and `column_count` columns."""
        outer.parallel(0, rows, lambda b, i: b.parallel(0, column_count, lambda inner, j: body(inner, i, j)))

    if isinstance(columns, int):
        emit_loops(build, columns)
        return
    is_partial = build.less(columns, width)
    build.when(is_partial, lambda inner: emit_loops(inner, columns))
    build.when(opposite(build, is_partial), lambda inner: emit_loops(inner, width))


def _rounded(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return a sum as the element type `to` of the program: rounded once, if the accumulator was wider."""
    return value if value.type == to else build.add(arith.TruncFOp(value, to))
