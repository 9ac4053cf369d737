"""Products of many rows by block-quantized weights in panels: weights become f32 once for all rows of a workgroup.

A panel is some adjacent columns of the weights. A block of K is the adjacent steps whose weights in a column share a
scale; a chunk is several adjacent blocks. Weights are unpacked for the columns of a register block and a chunk at a
time. They stay in the first-level cache until all rows are multiplied by them. Sums stay in registers over the chunk,
and are then added to the totals, whose element `first_total` is the first sum of a panel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import PerBlock
from pydispatch.compiler.kernels.matmul.cpu.operands import CACHE_LINE_BYTES
from pydispatch.compiler.kernels.matmul.cpu.panel_workgroup import PanelWorkgroup
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.row_digits import f32_constant
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.unpack import UnpackOp

F32_BYTES = 4
"""Size of an f32 in bytes."""


@dataclass(frozen=True)
class UnpackedProducts(PanelWorkgroup):
    """Emitter of a workgroup that multiplies many rows of f32 by quantized weights, which it first converts to f32.

    The workgroup converts the weights of the columns of one register block for a chunk of K, which is a few adjacent
    blocks of weights with a common scale. All rows of the workgroup are then multiplied by the converted weights.
    """

    @cached_property
    def _a(self) -> SSAValue:
        """Buffer of the rows of a chunk, [row][step of K]."""
        return self.frame.elements.fresh(f32, self.sizes.padded_rows * self._row_stride)

    @property
    def _row_stride(self) -> int:
        """Distance of rows in `_a`, in elements. If it were a power of two, all rows would share few cache sets."""
        return self.rows_of_a.steps + CACHE_LINE_BYTES // F32_BYTES

    @cached_property
    def _b(self) -> SSAValue:
        """Buffer of the weights of a chunk, [step of K][column of a register block]."""
        return self.frame.elements.fresh(f32, self.rows_of_a.steps * self.sizes.columns)

    @cached_property
    def _parameters(self) -> SSAValue:
        """Buffer of the zero points, scales and offsets of the columns of a register block."""
        return self.frame.elements.fresh(f32, self._parameter_count * self.sizes.columns)

    @property
    def _parameter_count(self) -> int:
        """Number of parameters of a column: the zero point, the scale and, if there is one, the offset."""
        return 2 if self.match.offset is None else 3

    def _convert_rows(self, build: Builder, first_block: Index) -> None:
        """Emit the copy of this workgroup's rows of A to `_a`, from block `first_block` of K on."""
        self.rows_of_a.copy_rows(build, self._a, self._row_stride, first_block, self.sizes.blocks)

    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products of all rows with a chunk of a panel, whose weights are unpacked once for all rows.

        For the columns of one register block after the other, such as 32 of 64, the weights of the chunk, whose first
        block is `first_block`, are converted to f32 in `_b`; then all rows in `_a` are multiplied by them, and the
        products added to `totals`.
        """
        sizes = self.sizes

        def multiply_columns(inner: Builder, column: Index) -> None:
            """Emit the products of all rows with a register block's columns of the chunk, from `column` on."""
            # `_b` is overwritten for the next columns: loads from it must stay in the loop over columns.
            pinned = inner.without_load_motion()
            emit_loop(pinned, sizes.blocks, 1, lambda b, block: self._unpack(b, panel, first_block, block, column))
            multiply_rows = partial(self._multiply_block, first_total, column)
            emit_loop(pinned, sizes.padded_rows, sizes.row_block, multiply_rows)

        emit_loop(build, self.match.width, sizes.columns, multiply_columns)

    def _multiply_block(self, first_total: Index, column: Index, build: Builder, row: Index) -> None:
        """Emit the product of a register block: rows of `_a` times the weights in `_b`, added to `totals`.

        The block's first row is the row `row` of the workgroup, and its first column the column `column` of the panel.
        """
        steps, rows, columns = self.rows_of_a.steps, self.sizes.row_block, self.sizes.columns
        columns_of_panel = self.match.width  # also the stride of rows of the totals
        a = view_as(build, self._a, build.times(row, self._row_stride), [rows, steps], [self._row_stride, 1])
        b = view_as(build, self._b, 0, [steps, columns], [columns, 1])
        offset = build.plus(first_total, build.plus(build.times(row, columns_of_panel), column))
        c = view_as(build, self.totals, offset, [rows, columns], [columns_of_panel, 1])
        build.add(ContractOp(operands=[a, b, c], properties={"accumulate": UnitAttr()}))  # c += a b

    def _unpack(self, build: Builder, panel: Index, first_block: Index, block_of_chunk: Index, column: Index) -> None:
        """Emit the conversion of the weights of a block of K to f32, for the columns of a register block.

        A weight u becomes (u - zero) * scale + offset, with a scale of 1 if there is none. The parameters are stored
        first, as the matrix [zero, scale and perhaps offset][column] that `pyd.unpack` reads.

        Args:
            build: Receives the code.
            panel: The panel of the weights.
            first_block: The first block of K of the chunk.
            block_of_chunk: The block, counted from `first_block`. Its weights are stored at this block of `_b`.
            column: The first column of the register block in the panel.
        """
        match, width, block = self.match, self.sizes.columns, build.plus(first_block, block_of_chunk)
        build.parallel(0, width, lambda inner, j: self._store_parameters(inner, panel, block, column, j))
        weights = self.weights(build, panel, block, column, width)
        unpacked_offset = build.times(block_of_chunk, match.steps_per_block * width)
        unpacked = view_as(build, self._b, unpacked_offset, [match.steps_per_block, width], [width, 1])
        parameters = view_as(build, self._parameters, 0, [self._parameter_count, width], [width, 1])
        build.add(UnpackOp(operands=[weights, unpacked, [parameters]]))

    def _store_parameters(self, build: Builder, panel: Index, block: Index, first_column: Index, j: Index) -> None:
        """Emit the stores of a column's zero point, scale and perhaps offset into column j of the matrix `_parameters`.

        They are the parameters for a block of K and the column `first_column + j` of a panel.
        """
        match = self.match
        # Each is a tensor of parameters (`PerBlock`), or one number for all columns and blocks.
        scale: PerBlock | float = 1.0 if match.scale is None else match.scale
        parameters = [match.zero, scale, match.offset][: self._parameter_count]
        for row, parameter in enumerate(parameters):
            if isinstance(parameter, PerBlock):
                value = self._load_parameter(build, parameter, panel, block, build.plus(first_column, j))
            else:
                assert parameter is not None  # the count excludes an offset that is None
                value = f32_constant(build, parameter)
            self.frame.elements.store(build, value, self._parameters, [build.plus(j, row * self.sizes.columns)])
