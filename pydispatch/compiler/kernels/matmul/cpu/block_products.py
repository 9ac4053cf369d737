"""Products of rows of A by block-quantized weights in panels, one block of K at a time.

A panel is some adjacent columns of the weights. A block of K is the adjacent steps whose weights in a column share a
scale; a chunk is some adjacent blocks, for which rows of A are in workgroup memory at a time. Totals are the f32 sums
over all of K, [row][column], in memory.

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
from typing import NamedTuple

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import UnitAttr, f32, i8, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import WORD_BYTES, PerBlock
from pydispatch.compiler.kernels.matmul.cpu.panel_workgroup import PanelWorkgroup
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.row_digits import (
    Digits,
    ZeroTerms,
    digit_stride,
    f32_constant,
    i32_constant,
    join_products,
)
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.ir.dialects.pyd.contract import ContractOp
from pydispatch.ir.dialects.pyd.tile_registers import ReleaseTilesOp, configure_tiles
from pydispatch.ir.dialects.pyd.unpack import UnpackOp


class _Position(NamedTuple):
    """Position of a register block: the product of some rows of A and columns of a panel over one block of K.

    Attributes:
        panel: Index of the panel.
        block: Index of the block of K.
        block_of_chunk: Index of the same block, counted from the first block of its chunk.
        row: The first row, counted from the first row of the workgroup.
        column: The first column, counted from the first column of the panel.
        first_total: Index of the panel's first sum over all of K in the buffer of these, `totals`.
    """

    panel: Index
    block: Index
    block_of_chunk: Index
    row: Index
    column: int
    first_total: Index


class _BlockOfRow(NamedTuple):
    """Values of one row of A in one block of K, which the products with all columns of the weights need.

    Elements of A are f32, or integers of signed bytes, the digits, for instructions that multiply bytes. The integer
    low + 2^8 high has the lowest digit `low`, and its other digits form the number `high`.

    Attributes:
        row_of_block: The row, counted from the first row of the register block.
        row_of_workgroup: The row, counted from the first row of the workgroup.
        unit: The f32 value of the integer 1; None for elements of f32.
        row_sum: Sum of the elements in the block of K, in f32.
        zero_terms: The zero point of the weights times the sums of `low` and of `high` over the block of K. Both are
            subtracted from the products. None for elements of f32, and if the zero point differs between columns or
            blocks.
    """

    row_of_block: Index
    row_of_workgroup: Index
    unit: SSAValue | None
    row_sum: SSAValue
    zero_terms: ZeroTerms | None


class _ColumnParameters(NamedTuple):
    """Zero point, scale and offset of the weights of a column in one block of K; None for a term that they lack.

    `zero` is None, too, for a constant zero point whose term is computed in integers.
    """

    zero: SSAValue | None
    scale: SSAValue | None
    offset: SSAValue | None


@dataclass(frozen=True)
class BlockProducts(PanelWorkgroup):
    """Emitter of a workgroup that multiplies rows of f32 by quantized weights, one block of K at a time.

    The sums of products over a block are scaled, and then added to the totals.
    """

    @cached_property
    def _block_products(self) -> SSAValue:
        """Buffer for the products of the rows of a register block over one block of K, [row][digit][column].

        If A was converted to integers, each of `byte_digits` signed bytes, the digits, a row has a product in i32 for
        each digit. If A has elements of f32 (`byte_digits` is 0), a row has one product, in f32.
        """
        sizes = self.sizes
        element, products_of_row = (i32, sizes.byte_digits) if sizes.byte_digits else (f32, 1)
        return self.frame.elements.fresh(element, sizes.row_block * products_of_row * self._product_columns)

    @property
    def _product_columns(self) -> int:
        """Columns of `_block_products`: those of a register block, or of the whole panel with matrix registers.

        With matrix registers, the products of all columns are computed before vector instructions add them to the
        totals. The CPU can then compute one product while it adds another.
        """
        uses_matrix_registers = self.sizes.matrix_steps > 0
        return self.match.width if uses_matrix_registers else self.sizes.columns

    @cached_property
    def _unpacked_weights(self) -> SSAValue:
        """Buffer for the weights of a panel in one block of K, as bytes."""
        return self.frame.elements.fresh(i8, self.match.width * self.match.steps_per_block)

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the sums of the panels in the group with the index `panel_group`, and the results computed from them.

        Matrix registers (AMX) are configured before, and released after all products.
        """
        sizes = self.sizes
        uses_matrix_registers = sizes.matrix_steps > 0
        if uses_matrix_registers:  # each byte of the integers that A is converted to is in a row of its own
            rows = sizes.row_block * sizes.byte_digits
            build.add(configure_tiles(rows, sizes.columns, sizes.matrix_steps))
        super().emit(build, panel_group)
        if uses_matrix_registers:
            build.add(ReleaseTilesOp())

    def _convert_rows(self, build: Builder, first_block: Index) -> None:
        """Emit the copy of this workgroup's rows of A to workgroup memory, from block `first_block` of K on."""
        self.rows_of_a.emit(build, first_block)

    def _multiply(self, build: Builder, panel: Index, first_block: Index, first_total: Index) -> None:
        """Emit the products of all rows with a chunk of a panel, which are added to the totals, block by block of K.

        The first total of the panel is at `first_total`. The products over one block of K are computed into
        `_block_products`, then scaled and added to the totals.
        """

        def emit_block(inner: Builder, block_of_chunk: Index) -> None:
            """Emit the products of all rows with one block of K of the panel, counted from the chunk's first block."""
            block = inner.plus(first_block, block_of_chunk)
            start = _Position(panel, block, block_of_chunk, row=0, column=0, first_total=first_total)
            if self.sizes.unpacks:
                self._multiply_unpacked(inner, start)
            else:
                self._multiply_packed(inner, start)

        emit_loop(build, self.sizes.blocks, step=1, body=emit_block)

    def _multiply_unpacked(self, build: Builder, start: _Position) -> None:
        """Emit the products of all rows with a block of K of a panel, from weights that are bytes in memory.

        Weights of 4 bits are converted to bytes first, once for all rows. `start` is the position at the first row and
        column.
        """
        if self.match.bits == 4:
            self._unpack(build, start)
        rows, row_block = self.sizes.padded_rows, self.sizes.row_block
        emit_loop(build, rows, row_block, lambda inner, row: self._multiply_rows(inner, start._replace(row=row)))

    def _multiply_packed(self, build: Builder, start: _Position) -> None:
        """Emit the products of all rows with a block of K of a panel: each register block unpacks weights in registers.

        `start` is the position at the first row and column.
        """
        sizes = self.sizes
        for column in range(0, self.match.width, sizes.columns):
            for row in range(0, sizes.rows, sizes.row_block):
                height = min(sizes.row_block, sizes.rows - row)  # the last register block may have fewer rows
                self._multiply_block(build, start._replace(row=row, column=column), height)

    def _multiply_rows(self, build: Builder, position: _Position) -> None:
        """Emit the products of `sizes.row_block` rows, from `position` on, with all columns of the panel.

        Vector registers add the products of a register block to the totals before they compute the next one. Matrix
        registers compute the products with all columns before vector registers add these to the totals.
        """
        sizes = self.sizes
        # Each product overwrites the buffer `_block_products`: loads from it must not be moved or reused.
        pinned = build.without_load_motion()
        columns = range(0, self.match.width, sizes.columns)
        uses_matrix_registers = sizes.matrix_steps > 0
        if not uses_matrix_registers:
            for column in columns:
                self._multiply_block(pinned, position._replace(column=column), sizes.row_block)
            return
        for column in columns:
            self._emit_product(pinned, position._replace(column=column), sizes.row_block)
        pinned.parallel(0, sizes.row_block, lambda b, i: self._add_to_totals(b, position, [i]))

    def _multiply_block(self, build: Builder, position: _Position, height: int) -> None:
        """Emit the products of a register block of `height` rows in vector registers, and add them to the totals."""
        self._emit_product(build, position, height)
        self._add_to_totals(build, position, range(height))

    def _unpack(self, build: Builder, position: _Position) -> None:
        """Emit the conversion of a panel's weights in one block of K from 4 bits to bytes, in `_unpacked_weights`.

        Packed and unpacked weights are [group][column][step of the group]. A group is four bytes of a column: 8 steps
        of K with 4 bits, and 4 steps with bytes.
        """
        match = self.match
        groups, width = match.steps_per_block // WORD_BYTES, match.width
        sizes, strides = [groups, width, WORD_BYTES], [width * WORD_BYTES, WORD_BYTES, 1]
        unpacked = view_as(build, self._unpacked_weights, offset=0, sizes=sizes, strides=strides)
        packed = self.weights(build, position.panel, position.block, column=0, columns=width)
        no_terms: list[SSAValue] = []  # with a zero point and a scale, `pyd.unpack` would convert to f32
        build.add(UnpackOp(operands=[packed, unpacked, no_terms]))

    def _emit_product(self, build: Builder, position: _Position, height: int) -> None:
        """Emit the product of a register block: `height` rows of A times columns of a panel, over one block of K.

        The product is a `pyd.contract`, c[r, n] = sum(a[r, g, s] * b[g, n, s]) over groups g and their steps s. A group
        is the adjacent steps of K whose weights in a column share 32 bits. If A was converted to integers, each byte of
        an integer, a digit, is in a row of its own in `a`. With 4 rows of 3 digits, 32 columns, and blocks of 32 steps
        of 4-bit weights, `a` is 12x4x8xi8, `b` is 4x32x8xi4, and `c` is 12x32xi32.
        """
        width = self.sizes.columns
        products_of_row = max(1, self.sizes.byte_digits)  # one for each digit; 0 digits stand for f32
        are_weights_unpacked = self.sizes.unpacks and self.match.bits == 4  # from 4 bits to bytes, in memory
        group_steps = WORD_BYTES if are_weights_unpacked else WORD_BYTES * 8 // self.match.bits  # steps in 32 bits
        a = self._view_rows(build, position, height, group_steps)
        if are_weights_unpacked:
            b = self._view_unpacked_weights(build, position.column)
        else:
            b = self.weights(build, position.panel, position.block, position.column, width)
        # The buffer has all columns of the panel with matrix registers, and else those of one register block.
        first_column = position.column if self._product_columns > width else 0
        sizes, strides = [height * products_of_row, width], [self._product_columns, 1]
        c = view_as(build, self._block_products, first_column, sizes, strides)
        build.add(ContractOp(operands=[a, b, c], properties={"unsigned_b": UnitAttr()}))

    def _view_rows(self, build: Builder, position: _Position, height: int, group_steps: int) -> SSAValue:
        """Emit the view of `height` rows of A in one block of K, [row][group][step of the group], and return it.

        A group has `group_steps` steps. The view is of the copy of A as f32; or, if A was converted to integers, of
        their bytes, the digits: these are in memory as [row][digit][step of K], and each digit is a row of the view.
        """
        rows, steps_per_block = self.rows_of_a.buffers, self.match.steps_per_block
        if rows.digits is None:
            elements, digits, stride = rows.copy, 1, self.rows_of_a.steps
        else:
            elements, digits, stride = rows.digits.bytes, self.sizes.byte_digits, digit_stride(self.rows_of_a.steps)
        first_step = build.times(position.block_of_chunk, steps_per_block)
        offset = build.plus(first_step, build.times(position.row, digits * stride))
        sizes, strides = [height * digits, steps_per_block // group_steps, group_steps], [stride, group_steps, 1]
        return view_as(build, elements, offset, sizes, strides)

    def _view_unpacked_weights(self, build: Builder, column: int) -> SSAValue:
        """Emit the view of the unpacked weights of a register block from `column` on, and return it.

        The view is [group][column][step of the group], where a group is four steps of a byte each.
        """
        group_count = self.match.steps_per_block // WORD_BYTES
        sizes, strides = [group_count, self.sizes.columns, WORD_BYTES], [self.match.width * WORD_BYTES, WORD_BYTES, 1]
        return view_as(build, self._unpacked_weights, column * WORD_BYTES, sizes, strides)

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
            rows: The rows, counted from the first row of the register block.
        """
        blocks_of_rows = [self._block_of_row(build, position, row) for row in rows]
        width = self._product_columns
        # Straight code instead of a loop over vectors. The loop over the columns of a vector becomes vector operations.
        for first_column in range(0, width, self.sizes.lanes):
            column_count = min(self.sizes.lanes, width - first_column)
            build.parallel(0, column_count, partial(self._add_column, position, blocks_of_rows, first_column))

    def _block_of_row(self, build: Builder, position: _Position, row: Index) -> _BlockOfRow:
        """Emit the loads of the values that one row of A has in one block of K, which all columns need; return them.

        If A was rounded to integers, their unit is the f32 value of the integer 1. `row` is counted from the first row
        of the register block.
        """
        rows = self.rows_of_a.buffers
        row_of_workgroup = build.plus(position.row, row)
        # Buffers of the values are [row of the workgroup][block of the chunk].
        index = build.plus(position.block_of_chunk, build.times(row_of_workgroup, self.sizes.blocks))
        unit = None if rows.digits is None else load(build, rows.digits.units, index)
        row_sum = load(build, rows.sums, index)
        if unit is not None:  # `rows.sums` has sums of integers
            row_sum = build.add(arith.MulfOp(row_sum, unit))
        zero_terms = None if rows.digits is None else self._zero_terms(build, rows.digits, index)
        return _BlockOfRow(row, row_of_workgroup, unit=unit, row_sum=row_sum, zero_terms=zero_terms)

    def _zero_terms(self, build: Builder, digits: Digits, index: Index) -> ZeroTerms | None:
        """Emit the products of a constant zero point and both sums of digits at `index`; return None if it varies."""
        if not isinstance(self.match.zero, float):
            return None
        zero = i32_constant(build, int(self.match.zero))
        return ZeroTerms(*(build.add(arith.MuliOp(load(build, s, index), zero)) for s in (digits.low, digits.high)))

    def _add_column(
        self, position: _Position, rows: Sequence[_BlockOfRow], first_column: int, build: Builder, j: Index
    ) -> None:
        """Emit the addition of a column's products over one block of K to the totals, their sums over all of K.

        This is the body of a parallel loop over `j`, the lanes of a vector. The column is `first_column + j` of the
        register block at `position`. Its parameters are loaded once for all `rows`, values of rows of A.
        """
        column = build.plus(j, first_column)
        column_of_panel = build.plus(column, position.column)
        parameters = self._parameters_of_column(build, position, column_of_panel)
        for row in rows:
            product = self._product_value(build, row, column)
            if parameters.zero is not None:
                product = self._multiply_add(build, build.add(arith.NegfOp(row.row_sum)), parameters.zero, product)
            # Totals are [row of the workgroup][column of the panel].
            first_of_row = build.times(row.row_of_workgroup, self.match.width)
            total_index = build.plus(position.first_total, build.plus(column_of_panel, first_of_row))
            total = load(build, self.totals, total_index)
            if parameters.offset is not None:
                total = self._multiply_add(build, row.row_sum, parameters.offset, total)
            total = self._multiply_add(build, product, parameters.scale, total)
            self.frame.elements.store(build, total, self.totals, [total_index])

    def _parameters_of_column(self, build: Builder, position: _Position, column_of_panel: Index) -> _ColumnParameters:
        """Emit the zero point, scale and offset of the weights of a column in one block of K, and return them."""

        def value_of(parameter: PerBlock | float | None) -> SSAValue | None:
            """Return a parameter for this column and block: of a tensor (`PerBlock`), or a constant other than 0.0."""
            if isinstance(parameter, PerBlock):
                return self._load_parameter(build, parameter, position.panel, position.block, column_of_panel)
            return f32_constant(build, parameter) if parameter else None

        # If A was rounded to integers (`byte_digits` is their bytes, 0 for f32), the term of a constant zero point is
        # computed in integers, and `_product_value` subtracts it.
        has_integer_zero_term = self.sizes.byte_digits > 0 and not isinstance(self.match.zero, PerBlock)
        zero = None if has_integer_zero_term else value_of(self.match.zero)
        return _ColumnParameters(zero, scale=value_of(self.match.scale), offset=value_of(self.match.offset))

    def _product_value(self, build: Builder, row: _BlockOfRow, column: Index) -> SSAValue:
        """Emit the load of the product of a row of A and a column of weights over one block of K, as f32; return it.

        `_block_products` has this f32 number itself if A is f32. If A was converted to integers, it has a product for
        each of their signed bytes, the digits. Then `row.zero_terms`, the terms of a constant zero point, are
        subtracted from these products. The differences are joined to one integer, which is multiplied by `row.unit`,
        the f32 value of the integer 1. `column` is counted from the first column of the register block.
        """
        width, digits = self._product_columns, max(1, self.sizes.byte_digits)
        first = build.plus(column, build.times(row.row_of_block, digits * width))  # in [row][digit][column]
        products = [load(build, self._block_products, build.plus(first, d * width)) for d in range(digits)]
        if row.unit is None:  # products of f32
            return products[0]
        integer = join_products(build, products, row.zero_terms)
        return build.add(arith.MulfOp(integer, row.unit))

    def _multiply_add(self, build: Builder, lhs: SSAValue, rhs: SSAValue | None, addend: SSAValue) -> SSAValue:
        """Emit lhs * rhs + addend, and return it; `rhs` is None for 1.

        If A was converted to bytes, it is a fused multiply-add, which every CPU with dot products of bytes has. Other
        CPUs may lack the instruction: a multiplication and an addition are emitted.
        """
        if rhs is None:
            return build.add(arith.AddfOp(addend, lhs))
        has_fused_multiply_add = self.sizes.byte_digits > 0
        if has_fused_multiply_add:
            return build.add(math.FmaOp(lhs, rhs, addend))
        return build.add(arith.AddfOp(addend, build.add(arith.MulfOp(lhs, rhs))))
