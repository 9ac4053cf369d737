"""The kernels of rows times block-quantized weights in panels, and the emitter of their products block by block of K.

The product of a block and unsigned weights u is exact or f32; then sum(x (u - zero) scale) = scale (sum(x u) - zero
sum(x)) for each block and column. Weights are unpacked in registers, or to bytes in memory: for matrix registers, and
for many rows that are rounded to single bytes.

Where the CPU multiplies bytes, each block of a row of A is converted to integers of 24 bits, relative to its largest
element, in three signed bytes (`quantized_rows.py`). Sums of products of bytes are exact, three for each row of A. An
element is rounded by at most 2^-23 of the largest of its block: less than a sum of f32 is. A row with an infinite
element has NaN as results. Integers of one or two bytes, which a program may ask for, are rounded by at most 1/254 and
1/65024 of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
from pydispatch.compiler.kernels.matmul.cpu.quantized_rows import RowConversion
from pydispatch.compiler.kernels.matmul.cpu.row_digits import (
    BITS_OF_DIGIT,
    digit_stride,
    f32_constant,
    i32_constant,
    joined_digits,
)
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.matmul.cpu.unpacked_weights import UnpackedProducts
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles
from pydispatch.ir.dialects.pyd.unpack import UnpackOp


def lower_block_quantized(
    source: func.FuncOp, backend: Backend, level: Level, match: BlockQuantized, result_dims: Sequence[list[int]]
) -> Kernel | None:
    """Return the kernel of a function that is one product of rows of f32 by block-quantized weights.

    The weights are integers of 4 or 8 bits in panels, a fixed number of adjacent columns each. In a column of a panel,
    the adjacent steps of K that share a scale are a block; a chunk is some adjacent blocks, for which rows of A are
    copied to workgroup memory at a time. A workgroup computes `sizes.rows` rows times `sizes.panels` panels: 20 rows in
    groups of 10 times 32 panels in groups of 8 are 4 * 2 workgroups.

    Return None if the number of rows is dynamic or 0, and for a function that updates an argument in place.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        level: Vector registers, caches and instructions of the CPU.
        match: The product.
        result_dims: For each result of the dispatch, the dimension of the product's result that each of its own
            dimensions is equal to: [1, 0] for a transposed result.
    """
    sizes = sizes_of(match, level)
    frame = Frame(source, backend)
    if sizes is None or frame.updates_arguments:
        return None
    frame.bind()  # emits the buffers of arguments and results
    # The grid: groups of panels, the outer dimension, by groups of rows.
    total_rows = prod(match.contraction.generic.extent(d) for d in match.row_loops)
    groups = [ceil_quotient(match.panels, sizes.panels), ceil_quotient(total_rows, sizes.rows)]
    panel_group, row_group = frame.build.split(frame.build.assume_below(frame.workgroup(), prod(groups)), groups)
    # The rows of A are copied as f32, or converted to integers of `byte_digits` signed bytes, the digits; 0 for f32.
    rows_of_a = RowConversion(
        elements=frame.elements,
        match=match,
        rows=sizes.padded_rows,
        digit_count=sizes.byte_digits,
        first_row=frame.build.times(row_group, sizes.rows),
        end_row=total_rows,
        # The last workgroup may have fewer rows, and padding of its register blocks is beyond the last row of A.
        repeats_last=total_rows % sizes.rows != 0 or sizes.padded_rows != sizes.rows,
        blocks=sizes.blocks,
        lanes=sizes.lanes,
    )
    # If K is a single chunk, each panel is finished before the next one begins: all use the same memory for sums.
    panels_with_sums = 1 if sizes.blocks == match.blocks else sizes.panels
    totals = frame.elements.fresh(f32, panels_with_sums * sizes.padded_rows * match.width)
    outputs = outputs_of(frame, result_dims)
    # `UnpackedProducts` unpacks weights to f32 in memory; the other class unpacks them in registers, or to bytes in
    # memory.
    workgroup = UnpackedProducts if sizes.unpacks and not sizes.byte_digits else _BlockProducts
    workgroup(frame=frame, match=match, sizes=sizes, outputs=outputs, rows_of_a=rows_of_a, totals=totals).emit(
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


class _BlockOfRow(NamedTuple):
    """Values of one row of A in one block of K, which the products with all columns need.

    Attributes:
        row: The row, counted from the first row of the register block.
        row_of_a: The row, counted from the first row of the workgroup.
        unit: If the elements were converted to integers, the f32 factor that converts these back; None for f32
            elements.
        total: Sum of the elements of the block, in f32.
        zero_terms: Two i32 values to subtract from the products of the digits of integers: the zero point times the
            sum of the lowest digits, and times the sum of the numbers that the higher digits form. Empty for f32
            elements, and unless the zero point is a constant.
    """

    row: Index
    row_of_a: Index
    unit: SSAValue | None
    total: SSAValue
    zero_terms: tuple[SSAValue, ...]


@dataclass(frozen=True)
class _BlockProducts(PanelWorkgroup):
    """Emitter of a workgroup that multiplies rows of f32 by quantized weights, one block of K at a time.

    A block is the adjacent steps of K whose weights in a column share a scale. The sums of products over a block are
    scaled, and then added to the totals.
    """

    @cached_property
    def _sums(self) -> SSAValue:
        """Buffer for the products of a register block of rows with a block of K, [row][digit][column].

        The digits are the bytes of the integers that A was converted to; there is one digit if A has elements of f32.
        """
        sizes = self.sizes
        element = i32 if sizes.byte_digits else f32
        return self.frame.elements.fresh(element, sizes.row_block * max(1, sizes.byte_digits) * self._sum_columns)

    @property
    def _sum_columns(self) -> int:
        """Columns of `_sums`: those of a register block, or of the whole panel with matrix registers.

        Matrix registers compute the products of all columns before vectors add them to the totals, and can compute the
        next product while vectors add the one before.
        """
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
        self.rows_of_a.emit(build, first_block)

    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products of all rows with a chunk of a panel, which are added to the totals, block by block of K.

        A panel is some adjacent columns of the weights, a block of K the adjacent steps whose weights in a column share
        a scale, a chunk some adjacent blocks. Totals are the f32 sums over all of K, [row][column], in memory; the
        panel's begin at `first_total`. A register block is `sizes.row_block` rows by `sizes.columns` columns. Its
        products over one block of K are computed into `_sums`, then scaled and added to the totals. Matrix registers
        first compute the products of `sizes.row_block` rows with all columns of the panel. With `sizes.unpacks`, 4-bit
        weights are unpacked to bytes in memory once for all rows.
        """
        sizes = self.sizes

        def block(inner: Builder, block_of_chunk: Index) -> None:
            """Emit the products of all rows with one block of K."""
            # The register block at row 0 and column 0 of the panel, the two zeros.
            start = _Position(panel, inner.plus(first_block, block_of_chunk), block_of_chunk, 0, 0, first_total)
            if not sizes.unpacks:
                self._multiply_all(inner, start)
                return
            if self.match.bits == 4:
                self._unpack(inner, start)
            emit_loop(
                inner,
                sizes.padded_rows,
                sizes.row_block,
                lambda b, row: self._multiply_rows(b, start._replace(row=row)),
            )

        emit_loop(build, sizes.blocks, 1, block)

    def _multiply_all(self, build: Builder, start: _Position) -> None:
        """Emit the products of all rows with a block of K of a panel, which begins at `start`, by register blocks."""
        sizes = self.sizes
        for column in range(0, self.match.width, sizes.columns):
            for row in range(0, sizes.rows, sizes.row_block):
                height = min(sizes.row_block, sizes.rows - row)
                self._multiply_block(build, start._replace(row=row, column=column), height)

    def _multiply_rows(self, build: Builder, position: _Position) -> None:
        """Emit the products of a register block of rows, from `position` on, with all columns of the panel."""
        sizes = self.sizes
        pinned = build.without_load_motion()  # each product overwrites the sums in memory
        columns = range(0, self.match.width, sizes.columns)
        if not sizes.matrix_steps:
            for column in columns:
                self._multiply_block(pinned, position._replace(column=column), sizes.row_block)
            return
        for column in columns:
            self._product(pinned, position._replace(column=column), sizes.row_block)
        pinned.parallel(0, sizes.row_block, lambda b, i: self._add_to_totals(b, position, [i]))

    def _multiply_block(self, build: Builder, position: _Position, height: int) -> None:
        """Emit the products of a register block of `height` rows in vector registers, and add them to the totals."""
        self._product(build, position, height)
        self._add_to_totals(build, position, range(height))

    def _unpack(self, build: Builder, position: _Position) -> None:
        """Emit the conversion of a panel's weights in one block of K from 4 bits to bytes."""
        match = self.match
        groups, width = match.steps_per_block // WORD_BYTES, match.width
        shape, strides = [groups, width, WORD_BYTES], [width * WORD_BYTES, WORD_BYTES, 1]
        unpacked = view_as(build, self._bytes, 0, shape, strides)
        build.add(UnpackOp(operands=[self.weights(build, position.panel, position.block, 0, width), unpacked, []]))

    def _product(self, build: Builder, position: _Position, height: int) -> None:
        """Emit the product of a register block: `height` rows of A times columns of a panel, over one block of K.

        It is a `pyd.contract`, c[r, n] = sum(a[r, g, s] * b[g, n, s]) over groups g and their steps s, where a group is
        the adjacent steps of K whose weights in a column share 32 bits. Each digit of a row of A is a row of `a`. With
        4 rows of 3 digits, 32 columns, and blocks of 32 steps of 4-bit weights, `a` is 12x4x8xi8, `b` is 4x32x8xi4, and
        `c` is 12x32xi32.
        """
        match, sizes, rows = self.match, self.sizes, self.rows_of_a.buffers
        digits, width = max(1, sizes.byte_digits), sizes.columns  # A of f32 has no digits: one row of `a` for each
        is_unpacked = sizes.unpacks and match.bits == 4
        # Steps of a group: 4 bytes, also of weights that were unpacked to bytes, or 8 weights of 4 bits.
        group = WORD_BYTES if is_unpacked else WORD_BYTES * 8 // match.bits
        groups = match.steps_per_block // group
        # A in memory: [row][digit][step of K]; `steps` is the distance of the digits, or of rows of f32.
        elements, steps = rows.copy, self.rows_of_a.steps
        if rows.digits is not None:
            elements, steps = rows.digits.bytes, digit_stride(steps)
        offset = build.plus(
            build.times(position.block_of_chunk, match.steps_per_block), build.times(position.row, digits * steps)
        )
        a = view_as(build, elements, offset, [height * digits, groups, group], [steps, group, 1])
        if is_unpacked:
            strides = [match.width * group, group, 1]
            b = view_as(build, self._bytes, position.column * group, [groups, width, group], strides)
        else:
            b = self.weights(build, position.panel, position.block, position.column, width)
        # With matrix registers, `_sums` has all columns of the panel; else those of one register block.
        first_sum = position.column if self._sum_columns > width else 0
        c = view_as(build, self._sums, first_sum, [height * digits, width], [self._sum_columns, 1])
        build.add(ContractOp(operands=[a, b, c], properties={"unsigned_b": UnitAttr()}))

    def _add_to_totals(self, build: Builder, position: _Position, rows: Sequence[Index]) -> None:
        """Emit the addition of rows of a register block to the totals, the f32 sums over all of K, by vectors.

        A block of K adds sum(x ((u - zero) * scale + offset)) to a total, for elements x of A and integers u of the
        weights. With product = sum(x u) and row_sum = sum(x), this is

            total += offset * row_sum + (product - zero * row_sum) * scale

        without the terms that the weights lack (a zero point or an offset). If A was converted to integers, `product`
        and `row_sum` are multiplied by the unit of the block first: the value that the integer 1 stands for.

        Args:
            build: Receives the code.
            position: Position of the register block.
            rows: The rows within the register block.
        """
        blocks_of_rows = [self._block_of_row(build, position, row) for row in rows]
        width = self._sum_columns
        for first in range(0, width, self.sizes.lanes):  # straight code instead of a loop over vectors
            count = min(self.sizes.lanes, width - first)
            add = partial(self._add_column, position, blocks_of_rows, first)
            build.parallel(0, count, add)

    def _block_of_row(self, build: Builder, position: _Position, row: Index) -> _BlockOfRow:
        """Emit the loads of the values that a block of one row of A has in common for all columns.

        If A was rounded to integers, each block of a row has a unit, the f32 value of the integer 1: None if A is f32.
        An integer is low + 2^8 high; `low` is its lowest digit (a signed byte), `high` the rest.

        Return the row in the register block and in the workgroup, the unit, the f32 sum of the block's elements, and
        (zero * sum of `low`, zero * sum of `high`) for a constant zero point of the weights; an empty tuple without
        one, or if A is f32.
        """
        rows = self.rows_of_a.buffers
        row_of_a = build.plus(position.row, row)
        index = build.plus(position.block_of_chunk, build.times(row_of_a, self.sizes.blocks))
        unit = None if rows.digits is None else load(build, rows.digits.units, index)
        total = load(build, rows.sums, index)
        if unit is not None:  # then `rows.sums` counts in units
            total = build.add(arith.MulfOp(total, unit))
        zero_terms: list[SSAValue] = []
        if rows.digits is not None and isinstance(self.match.zero, float):
            # `low` and `high` are the sums over the block.
            zero, sums = i32_constant(build, int(self.match.zero)), (rows.digits.low, rows.digits.high)
            zero_terms = [build.add(arith.MuliOp(load(build, buffer, index), zero)) for buffer in sums]
        return _BlockOfRow(row, row_of_a, unit, total, tuple(zero_terms))

    def _add_column(
        self, position: _Position, rows: Sequence[_BlockOfRow], first_column: int, build: Builder, j: Index
    ) -> None:
        """Emit the addition of products to their totals: from the sums over one block of K to the sums over all of K.

        The products are those of `rows` with column `first_column + j` of the register block. With row_sum, the sum of
        the elements of A in the block, the code computes for each row

            total += offset * row_sum + (product - zero * row_sum) * scale

        without the terms of a zero point, scale or offset that the weights lack. These are loaded once for all rows.

        Args:
            position: Position of the register block.
            rows: Values of rows of A in the block of K; `_BlockOfRow.total` is the row_sum of the formula.
            first_column: The first of the columns that one vector has.
            build: Receives the code.
            j: Position of the column in the vector.
        """
        match = self.match
        column = build.plus(j, first_column)
        column_of_panel = build.plus(column, position.column)

        def value_of(parameter: PerBlock | float | None) -> SSAValue | None:
            """Return a zero point, scale or offset for this column and block of K; None for no such term."""
            if isinstance(parameter, PerBlock):
                return self._load_parameter(build, parameter, position.panel, position.block, column_of_panel)
            return f32_constant(build, parameter) if parameter else None

        # If A was rounded to integers of `byte_digits` bytes (0: A is f32), `_product_value` subtracts the term of a
        # constant zero point, in integers (`_BlockOfRow.zero_terms`).
        is_subtracted = bool(self.sizes.byte_digits) and not isinstance(match.zero, PerBlock)
        zero = None if is_subtracted else value_of(match.zero)
        scale, offset = value_of(match.scale), value_of(match.offset)
        for row in rows:
            product = self._product_value(build, row, column)
            if zero is not None:
                product = self._multiply_add(build, build.add(arith.NegfOp(row.total)), zero, product)
            first_of_row = build.times(row.row_of_a, match.width)
            total_index = build.plus(position.first_total, build.plus(column_of_panel, first_of_row))
            total = load(build, self.totals, total_index)
            if offset is not None:
                total = self._multiply_add(build, row.total, offset, total)
            if scale is None:
                total = build.add(arith.AddfOp(total, product))
            else:
                total = self._multiply_add(build, product, scale, total)
            self.frame.elements.store(build, total, self.totals, [total_index])

    def _product_value(self, build: Builder, row: _BlockOfRow, column: Index) -> SSAValue:
        """Emit the load of a product, of a row of A and a column of weights in one block of K, as f32.

        If A was converted to integers, the buffer `_sums` has the product of each of their digits, which are joined to
        one number after `zero_terms` are subtracted; else it has products of f32. The caller subtracts a zero point
        that is not in `zero_terms`. `column` is counted from the first column of the register block.
        """
        width, digits = self._sum_columns, max(1, self.sizes.byte_digits)
        first = build.plus(column, build.times(row.row, digits * width))
        products = [load(build, self._sums, build.plus(first, d * width)) for d in range(digits)]
        if row.unit is None:
            return products[0]
        integer = _number_of_digits(build, products, row.zero_terms)
        return build.add(arith.MulfOp(integer, row.unit))

    def _multiply_add(self, build: Builder, lhs: SSAValue, rhs: SSAValue, addend: SSAValue) -> SSAValue:
        """Emit lhs * rhs + addend, and return it.

        CPUs that multiply bytes have an instruction that rounds once; others may not, and round the product, too.
        """
        if self.sizes.byte_digits:
            return build.add(math.FmaOp(lhs, rhs, addend))
        return build.add(arith.AddfOp(addend, build.add(arith.MulfOp(lhs, rhs))))


def _number_of_digits(build: Builder, digits: Sequence[SSAValue], corrections: Sequence[SSAValue]) -> SSAValue:
    """Emit the sum of products whose digits have the sums `digits`, as f32: digits[0] + 2^8 digits[1] + 2^16 digits[2].

    An element of A is an integer of up to three signed bytes, its digits, and each digit was multiplied on its own. The
    integer 258 has the digits (2, 1): times the weight 3, `digits` are (6, 3), and the result is 6 + 2^8 * 3 = 774. The
    higher digits are joined in i32, which is exact, and joined with the lowest one in f32.

    Args:
        build: Receives the code.
        digits: One to three i32 values, lowest first, each a sum of products of a digit.
        corrections: (zero * sum of the lowest digits of A, zero * sum of the integers that the higher digits form),
            where `zero` is the zero point of the weights; empty without a constant one. The first is subtracted from
            digits[0], the second from digits[1] + 2^8 digits[2].
    """
    low, *high_digits = digits
    if corrections:
        low = build.add(arith.SubiOp(low, corrections[0]))
    if not high_digits:  # the second correction is 0
        return build.add(arith.SIToFPOp(low, f32))
    # Join digits[1] + 2^8 digits[2] from the highest digit on.
    high = high_digits.pop()
    for digit in reversed(high_digits):
        high = build.add(arith.AddiOp(build.add(arith.ShLIOp(high, i32_constant(build, BITS_OF_DIGIT))), digit))
    if corrections:
        high = build.add(arith.SubiOp(high, corrections[1]))
    return joined_digits(build, low, high)
