"""The kernels of rows times block-quantized weights in panels, and the emitter of their products block by block of K.

The product of a block and unsigned weights u is exact or f32; then sum(x (u - zero) scale) = scale (sum(x u) - zero
sum(x)) for each block and column. Weights are unpacked in registers, or, for matrix registers, to bytes in memory.

Where the CPU multiplies bytes, each block of a row of A is converted to integers of 24 bits, relative to its largest
element, in three signed bytes (`quantized_rows.py`). Sums of products of bytes are exact, three for each row of A. An
element is rounded by at most 2^-23 of the largest of its block: less than a sum of f32 is. A row with an infinite
element has NaN as results. Integers of one or two bytes, which a program may ask for, are rounded by at most 1/254 and
1/65024 of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import UnitAttr, f32, i8, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import WORD_BYTES, BlockQuantized, PerBlock
from pydispatch.compiler.kernels.matmul.cpu.outputs import outputs_of
from pydispatch.compiler.kernels.matmul.cpu.panel_sizes import sizes_of
from pydispatch.compiler.kernels.matmul.cpu.panel_workgroup import PanelWorkgroup
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.quantized_rows import (
    BITS_OF_DIGIT,
    RowConversion,
    f32_constant,
    i32_constant,
    joined_digits,
    load,
)
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.matmul.cpu.unpacked_weights import UnpackedProducts
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles
from pydispatch.ir.dialects.pyd.unpack import UnpackOp


def lower_block_quantized(
    source: func.FuncOp, backend: Backend, level: Level, match: BlockQuantized, result_dims: Sequence[list[int]]
) -> Kernel | None:
    """Return the kernel of a function that is one product by block-quantized weights.

    Return None for dynamic row counts, for no rows, and for a function that updates an argument in place.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        level: The CPU.
        match: The product.
        result_dims: For each result of the dispatch, see `Output.dims`.
    """
    sizes = sizes_of(match, level)
    frame = Frame(source, backend)
    if sizes is None or frame.updates_arguments:
        return None
    frame.bind()
    total_rows = prod(match.contraction.generic.extent(d) for d in match.row_loops)
    groups = [ceil_quotient(match.panels, sizes.panels), ceil_quotient(total_rows, sizes.rows)]
    panel_group, row_group = frame.build.split(frame.build.assume_below(frame.workgroup(), prod(groups)), groups)
    conversion = RowConversion(
        elements=frame.elements,
        match=match,
        rows=sizes.padded_rows,
        digit_count=sizes.byte_digits,
        first_row=frame.build.times(row_group, sizes.rows),
        end_row=total_rows,
        repeats_last=total_rows % sizes.rows != 0 or sizes.padded_rows != sizes.rows,
        blocks=sizes.blocks,
    )
    panels_with_sums = 1 if sizes.blocks == match.blocks else sizes.panels
    totals = frame.elements.fresh(f32, panels_with_sums * sizes.padded_rows * match.width)
    outputs = outputs_of(frame, result_dims)
    workgroup = UnpackedProducts if sizes.unpacks and not sizes.matrix_steps else _BlockProducts
    workgroup(frame=frame, match=match, sizes=sizes, outputs=outputs, conversion=conversion, totals=totals).emit(
        frame.build, panel_group
    )
    return frame.finish(workgroups=lambda elements, build: prod(groups))


class _Position(NamedTuple):
    """Position of a register block: sums of some rows and columns over one block of K, computed at a time.

    Attributes:
        panel, block: Index of the panel of columns, and of the block of K.
        block_of_chunk: Index of the block of K in the chunk of blocks whose rows of A are in workgroup memory.
        row: The first row, counted from the first row of the workgroup.
        column: The first column in the panel.
        first_total: Index of the panel's first sum in the totals.
    """

    panel: Index
    block: Index
    block_of_chunk: Index
    row: Index
    column: int
    first_total: Index


@dataclass(frozen=True)
class _BlockProducts(PanelWorkgroup):
    """Emitter of a workgroup that multiplies rows of f32 by quantized weights, one block of K at a time.

    A block is the adjacent steps of K whose weights in a column share a scale. The sums of products over a block are
    scaled, and then added to the totals.
    """

    @cached_property
    def _sums(self) -> SSAValue:
        """Buffer for the products of a register block of rows with a block of K, [row][digit][column]."""
        sizes = self.sizes
        element = i32 if sizes.byte_digits else f32
        return self.frame.elements.fresh(element, sizes.row_block * max(1, sizes.byte_digits) * self._sum_columns)

    @property
    def _sum_columns(self) -> int:
        """Columns of `_sums`. Matrix registers compute the next product while vectors add the one before."""
        return self.match.width if self.sizes.matrix_steps else self.sizes.columns

    @cached_property
    def _bytes(self) -> SSAValue:
        """Buffer for the weights of a panel in one block of K, as bytes."""
        return self.frame.elements.fresh(i8, self.match.width * self.match.steps_per_block)

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the sums of the panels in the group with the index `panel_group`, and the results computed from them."""
        sizes = self.sizes
        if not sizes.matrix_steps:
            super().emit(build, panel_group)
            return
        rows = sizes.row_block * sizes.byte_digits
        build.add(configure_tiles(rows, sizes.columns, sizes.matrix_steps))
        super().emit(build, panel_group)
        build.add(ReleaseTilesOp())

    def _convert_rows(self, build: Builder, first_block: Index) -> None:
        """Emit the copy of this workgroup's rows of A to workgroup memory, from block `first_block` of K on."""
        self.conversion.emit(build, first_block)

    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products with a chunk of a panel, one block of K after another."""
        sizes, match = self.sizes, self.match

        def block(inner: Builder, block_of_chunk: Index) -> None:
            """Emit the products of all rows with one block of K."""
            # The register block at row 0 and column 0.
            start = _Position(panel, inner.plus(first_block, block_of_chunk), block_of_chunk, 0, 0, first_total)
            if sizes.matrix_steps:
                if match.bits == 4:
                    self._unpack(inner, start)
                emit_loop(inner, sizes.padded_rows, sizes.row_block, lambda b, row: rows(b, start._replace(row=row)))
                return
            for column in range(0, match.width, sizes.columns):
                for row in range(0, sizes.rows, sizes.row_block):
                    height = min(sizes.row_block, sizes.rows - row)
                    position = start._replace(row=row, column=column)
                    self._product(inner, position, height)
                    for i in range(height):
                        self._add_to_totals(inner, position, i)

        def rows(build: Builder, position: _Position) -> None:
            """Emit the products of a register block of rows with all columns of the panel."""
            pinned = build.without_load_motion()
            for column in range(0, match.width, sizes.columns):
                self._product(pinned, position._replace(column=column), sizes.row_block)
            pinned.parallel(0, sizes.row_block, lambda b, i: self._add_to_totals(b, position, i))

        emit_loop(build, sizes.blocks, 1, block)

    def _unpack(self, build: Builder, position: _Position) -> None:
        """Emit the conversion of a panel's weights in one block of K from 4 bits to bytes."""
        match = self.match
        groups, width = match.steps_per_block // WORD_BYTES, match.width
        shape, strides = [groups, width, WORD_BYTES], [width * WORD_BYTES, WORD_BYTES, 1]
        unpacked = view_as(build, self._bytes, 0, shape, strides)
        build.add(UnpackOp(operands=[self.weights(build, position.panel, position.block, 0, width), unpacked, []]))

    def _product(self, build: Builder, position: _Position, height: int) -> None:
        """Emit the product of a register block: `height` rows of A times columns of a panel, over one block of K."""
        match, sizes, rows = self.match, self.sizes, self.conversion.buffers
        digits, width = max(1, sizes.byte_digits), sizes.columns
        is_unpacked = sizes.matrix_steps > 0 and match.bits == 4
        group = WORD_BYTES if is_unpacked else WORD_BYTES * 8 // match.bits
        groups = match.steps_per_block // group
        # A in memory: [row][digit][step of K].
        elements, steps = rows.copy, self.conversion.steps
        if rows.digits is not None:
            elements, steps = rows.digits, self.conversion.digit_stride
        offset = build.plus(
            build.times(position.block_of_chunk, match.steps_per_block), build.times(position.row, digits * steps)
        )
        a = view_as(build, elements, offset, [height * digits, groups, group], [steps, group, 1])
        if is_unpacked:
            strides = [match.width * group, group, 1]
            b = view_as(build, self._bytes, position.column * group, [groups, width, group], strides)
        else:
            b = self.weights(build, position.panel, position.block, position.column, width)
        first_sum = position.column if self._sum_columns > width else 0
        c = view_as(build, self._sums, first_sum, [height * digits, width], [self._sum_columns, 1])
        build.add(ContractOp(operands=[a, b, c], properties={"unsigned_b": UnitAttr()}))

    def _add_to_totals(self, build: Builder, position: _Position, row: Index) -> None:
        """Emit the addition of one row of a register block to the totals.

        It is `total += offset * row_sum + (product - zero * row_sum) * scale`, without the terms that this product
        lacks. Products and sums of integers are multiplied by the unit of the block: the value of the integer 1.

        Args:
            build: Receives the code.
            position: Position of the register block.
            row: The row within the register block.
        """
        match, sizes, rows = self.match, self.sizes, self.conversion.buffers
        row_of_a = build.plus(position.row, row)  # counted from the workgroup's first
        # Elements of A are integers of one to three byte digits, each with a product of its own, or f32 as one "digit".
        width, digits = self._sum_columns, max(1, sizes.byte_digits)
        block_of_row = build.plus(position.block_of_chunk, build.times(row_of_a, sizes.blocks))
        # The value of the integer 1 in this block; None for f32 elements.
        unit = None if rows.units is None else load(build, rows.units, block_of_row)
        row_sum = load(build, rows.sums, block_of_row)
        if unit is not None:
            row_sum = build.add(arith.MulfOp(row_sum, unit))
        # Terms of the zero point: zero * (sum of the lowest digits, sum of the integers that the higher digits form).
        corrections: list[SSAValue] = []
        if rows.low is not None and rows.high is not None and isinstance(match.zero, float):
            zero = i32_constant(build, int(match.zero))
            corrections = [build.add(arith.MuliOp(load(build, v, block_of_row), zero)) for v in (rows.low, rows.high)]

        def element(inner: Builder, j: Index) -> None:
            """Add the product of a block to the total of column `j` of the register block."""
            panel_column = inner.plus(j, position.column)

            def term(per_block: PerBlock) -> SSAValue:
                """Return the element of `per_block` for column `panel_column` and the block of K of this product.

                per_block: the zero points, scales or offsets of the weights, one for each column and block of K.
                """
                return self._term(inner, per_block, position.panel, position.block, panel_column)

            first = inner.plus(j, inner.times(row, digits * width))
            values = [load(inner, self._sums, inner.plus(first, d * width)) for d in range(digits)]
            product = values[0]
            if unit is not None:
                product = inner.add(arith.MulfOp(_number_of_digits(inner, values, corrections), unit))
            # Where there are digits, `corrections` have subtracted a constant zero point already.
            if isinstance(match.zero, PerBlock) or (match.zero and not sizes.byte_digits):
                zero = term(match.zero) if isinstance(match.zero, PerBlock) else f32_constant(inner, match.zero)
                product = self._multiply_add(inner, inner.add(arith.NegfOp(row_sum)), zero, product)
            offset = inner.plus(position.first_total, inner.plus(panel_column, inner.times(row_of_a, match.width)))
            total = load(inner, self.totals, offset)
            if match.offset is not None:
                total = self._multiply_add(inner, row_sum, term(match.offset), total)
            if match.scale is None:
                total = inner.add(arith.AddfOp(total, product))
            else:
                total = self._multiply_add(inner, product, term(match.scale), total)
            self.frame.elements.store(inner, total, self.totals, [offset])

        def vector(first: int) -> None:
            """Emit the additions of a vector of columns: straight code instead of a loop over vectors."""
            count = min(sizes.lanes, width - first)
            build.parallel(0, count, lambda inner, j: element(inner, inner.plus(j, first)))

        for first in range(0, width, sizes.lanes):
            vector(first)

    def _multiply_add(self, build: Builder, lhs: SSAValue, rhs: SSAValue, addend: SSAValue) -> SSAValue:
        """Emit lhs * rhs + addend, and return it.

        CPUs that multiply bytes have an instruction that rounds once; others may not, and round the product, too.
        """
        if self.sizes.byte_digits:
            return build.add(math.FmaOp(lhs, rhs, addend))
        return build.add(arith.AddfOp(addend, build.add(arith.MulfOp(lhs, rhs))))


def _number_of_digits(build: Builder, digits: Sequence[SSAValue], corrections: Sequence[SSAValue]) -> SSAValue:
    """Emit the sum of products whose digits have the sums `digits`, as f32: digits[0] + 2^8 digits[1] + 2^16 digits[2].

    Args:
        build: Receives the code.
        digits: One to three i32 values, each a sum of products of a digit.
        corrections: (zero * sum of the lowest digits of A, zero * sum of the integers that the higher digits form),
            where `zero` is the zero point of the weights; empty without a constant one. The first is subtracted from
            digits[0], the second from digits[1] + 2^8 digits[2].
    """
    low, *high_digits = digits
    if corrections:
        low = build.add(arith.SubiOp(low, corrections[0]))
    if not high_digits:
        return build.add(arith.SIToFPOp(low, f32))
    high = high_digits.pop()
    for digit in reversed(high_digits):
        high = build.add(arith.AddiOp(build.add(arith.ShLIOp(high, i32_constant(build, BITS_OF_DIGIT))), digit))
    if corrections:
        high = build.add(arith.SubiOp(high, corrections[1]))
    return joined_digits(build, low, high)
