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
from pydispatch.compiler.kernels.matmul.cpu.products import Target
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import opposite


def transposed_height(plan: Plan, outputs: Sequence[Output]) -> int:
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
class Epilogue:
    """Emitter of the outputs of register blocks.

    Attributes:
        frame: The kernel that is emitted, with its tensors and buffers.
        nest: Its loop nest.
        outputs: Values to compute from the sums.
        transposed_height: Rows of a block that is transposed before its results are stored, with added rows that fill
            up its last square; 0 if blocks are stored as they are.
    """

    frame: Frame
    nest: Nest
    outputs: Sequence[Output]
    transposed_height: int

    def emit(
        self, build: Builder, region: Region, block: Block, target: Target, factor_sums: FactorSums | None
    ) -> None:
        """Emit the epilogue of a block: load its sums, compute the outputs from them, and store these.

        Outputs are the results of the dispatch, such as relu(sum + bias). If their contiguous dimension is M, the sums
        are transposed first.

        Args:
            build: Receives the code.
            region: The tile.
            block: The register block, part of the tile.
            target: Its sums in memory.
            factor_sums: Sums of packed rows of A and columns of B, which correct the products; None for no correction.
        """
        if self.transposed_height:
            self._emit_transposed(build, region, block, target, factor_sums)
            return
        width = self.nest.plan.schedule.nr

        def element(inner: Builder, i: Index, j: Index) -> None:
            """Emit the outputs at row `i` and column `j` of the block."""
            indices = result_indices(inner, self.nest.plan.contraction, region, block, i, j)
            total = load(inner, target.buffer, target.element(inner, i, j, width))
            if factor_sums is not None:
                total = factor_sums.corrected(inner, total, block, i, j)
            self._store_outputs(inner, indices, total)

        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        for_each_element(build, rows, columns, width=width, body=element)

    def _emit_transposed(
        self, build: Builder, region: Region, block: Block, target: Target, factor_sums: FactorSums | None
    ) -> None:
        """Emit the epilogue of a block for results whose last, contiguous dimension is M, such as r[n, m].

        The sums, [row][column], are transposed in memory to [column][row] first, so that the elements of a column are
        stored as vectors. Rows are padded from `schedule.mr` to `transposed_height`, and padding is not stored.
        """
        plan, column_stride = self.nest.plan, self.transposed_height
        schedule = plan.schedule
        sums = self.frame.elements.fresh(plan.sum_type, schedule.nr * column_stride)
        rows_of_sums = StridedBlock(target.buffer, target.offset, stride=schedule.nr)
        columns_of_sums = StridedBlock(sums, offset=0, stride=column_stride)
        transpose_block(build, source=rows_of_sums, target=columns_of_sums, rows=column_stride, columns=schedule.nr)

        def element(inner: Builder, j: Index, i: Index) -> None:
            """Emit the outputs at row `i` and column `j` of the block."""
            indices = result_indices(inner, plan.contraction, region, block, i, j)
            total = load(inner, sums, inner.plus(inner.times(j, column_stride), i))
            if factor_sums is not None:
                total = factor_sums.corrected(inner, total, block, i, j)
            self._store_outputs(inner, indices, total)

        # Columns are the outer loop: the rows of a column are contiguous.
        rows, columns = self.nest.rows(build, region, block), self.nest.columns(build, region, block)
        for_each_element(build, columns, rows, width=schedule.mr, body=element)

    def _store_outputs(self, build: Builder, indices: Sequence[Index], total: SSAValue) -> None:
        """Emit the outputs at indices of the contraction's result, from the sum `total` there, and their stores."""
        contraction, elements = self.nest.plan.contraction, self.frame.elements
        elements.define(build, contraction.op.results[0], indices, _rounded(build, total, contraction.acc))
        for output in self.outputs:
            output_indices = [indices[d] for d in output.dims]
            output.store(build, elements.at(build, output.value, output_indices), output_indices)


def result_indices(
    build: Builder, contraction: Contraction, region: Region, block: Block, i: Index, j: Index
) -> list[Index]:
    """Return the indices of a contraction's result at row `i` and column `j` of a block of the tile `region`."""
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

    `body` emits the code of an element, from a builder, its row and its column. If the number of columns, at most
    `width`, is dynamic, there are two versions, and the one for `width` columns has a loop of static length.
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
