"""The kernel of rows times block-quantized weights in panels: weights are unpacked in registers.

A workgroup computes a few rows of some panels of columns, block by block along K. The product of a block and unsigned
weights u is exact or f32; then sum(x (u - zero) scale) = scale (sum(x u) - zero sum(x)) for each block and column.

Where the CPU multiplies bytes, each block of a row of A is converted to integers of 24 bits, relative to its largest
element, in three signed bytes (`quantized_rows.py`). Sums of products of bytes are exact, three for each row of A. An
element is rounded by at most 2^-23 of the largest of its block: less than a sum of f32 is. A row with an infinite
element has NaN as results. Integers of one or two bytes, which a program may ask for, are rounded by at most 1/254 and
1/65024 of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from xdsl.dialects import arith, func, math
from xdsl.dialects.builtin import IntegerType, UnitAttr, f32, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import WORD_BYTES, BlockQuantized, PerBlock
from pydispatch.compiler.kernels.matmul.cpu.outputs import Output, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.quantized_rows import (
    BITS_OF_DIGIT,
    RowConversion,
    Rows,
    f32_constant,
    i32_constant,
    joined_digits,
    load,
)
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.contract import ContractOp

MOST_ROWS, LEAST_ROWS = 16, 8
"""Rows of a workgroup: their elements fit into the second-level cache; fewer unpack the weights too often where there
are several workgroups of rows."""

MOST_BLOCK_ROWS = 4
"""Most rows of a register block."""

ENOUGH_WORKGROUPS, MOST_PANELS = 8, 16
"""Workgroups that are enough, and most panels of each while there are fewer. A workgroup converts its rows of A, for
all of its panels: more workgroups convert them for longer than they multiply (1x768x768: 16 us with 12 workgroups, 8 us
with 6; 128x2048x2048 of 4 bits: 5.1 ms with 4 panels each, 4.2 ms with 16). Weights of more panels than that leave the
second-level cache before the next rows read them (8 bits: 5.7 ms with 32 panels, 4.1 ms with 16)."""


@dataclass(frozen=True)
class BlockSizes:
    """Block sizes of a kernel.

    Attributes:
        rows: Rows of A of one workgroup; a divisor of their number.
        row_groups: Number of workgroups that the rows of A are divided among.
        row_block: Rows of a register block.
        columns: Columns of a register block.
        panels: Panels of a workgroup; a panel is a fixed number of adjacent columns of the weights.
        byte_digits: Bytes of the integer that an element of A is rounded to. Each byte, called a digit, is multiplied
            on its own. 0 where products are f32.
    """

    rows: int
    row_groups: int
    row_block: int
    columns: int
    panels: int
    byte_digits: int

    @staticmethod
    def of(match: BlockQuantized, level: Level) -> BlockSizes | None:
        """Return the block sizes of a product on a CPU.

        Return None where another kernel is better, for dynamic row counts, and for no rows.
        """
        extents = [match.contraction.generic.extents[d] for d in match.row_loops]
        static_extents = [n for n in extents if n is not None]
        total_rows = prod(static_extents)
        if len(static_extents) < len(extents) or not total_rows:
            return None
        multiplies_bytes = level.byte_products in ("unsigned by signed", "all signs")
        byte_digits = match.integer_bytes if multiplies_bytes else 0  # 0: products in f32
        rows = total_rows
        if rows > MOST_ROWS:
            # The largest number that divides the rows; 0 if there is none.
            rows = next((n for n in range(MOST_ROWS, LEAST_ROWS - 1, -1) if total_rows % n == 0), 0)
            # Of many rows, only products of single bytes are faster here than those of f32 after dequantization.
            if byte_digits != 1 or not rows:
                return None
        row_block, lanes = min(rows, MOST_BLOCK_ROWS), level.vector // 4  # f32 or i32 of a vector register
        sums_per_vector = row_block * (byte_digits or 1)

        def fits(vectors: int) -> bool:
            """Return whether the registers hold the operands of a register block that is so many vectors wide.

            Each vector has its sums, one register of weights and one of unpacked weights. Two more have elements of A.
            """
            return (sums_per_vector + 2) * vectors + 2 <= level.registers

        vectors = next((v for v in (4, 2) if v * lanes <= match.width and fits(v)), 1)  # per row of a register block
        row_groups = total_rows // rows
        panels = min(MOST_PANELS, ceil_quotient(match.panels * row_groups, ENOUGH_WORKGROUPS))
        return BlockSizes(
            rows=rows,
            row_groups=row_groups,
            row_block=row_block,
            columns=min(match.width, vectors * lanes),
            panels=panels,
            byte_digits=byte_digits,
        )


def lower_block_quantized(
    source: func.FuncOp, backend: Backend, level: Level, match: BlockQuantized, result_dims: Sequence[list[int]]
) -> Kernel | None:
    """Return the kernel of a function that is one product by block-quantized weights.

    Return None where another kernel is better, and for a function that updates an argument in place.

    Args:
        source: The dispatch function.
        backend: The backend that the kernel is for.
        level: The CPU.
        match: The product.
        result_dims: For each result of the dispatch, see `Output.dims`.
    """
    schedule = BlockSizes.of(match, level)
    frame = Frame(source, backend)
    if schedule is None or frame.updates_arguments:
        return None
    frame.bind()
    panel_groups = ceil_quotient(match.panels, schedule.panels)
    count = panel_groups * schedule.row_groups
    workgroup = frame.build.assume_below(frame.workgroup(), count)
    panel_group, row_group = frame.build.split(workgroup, [panel_groups, schedule.row_groups])
    first_row = frame.build.times(row_group, schedule.rows)
    conversion = RowConversion(
        elements=frame.elements, match=match, rows=schedule.rows, digit_count=schedule.byte_digits, first_row=first_row
    )
    outputs = outputs_of(frame, result_dims)
    workgroup_emitter = _Workgroup(frame=frame, match=match, schedule=schedule, outputs=outputs, conversion=conversion)
    workgroup_emitter.emit(frame.build, panel_group)
    return frame.finish(workgroups=lambda elements, build: count)


class _Position(NamedTuple):
    """Position of a register block.

    Attributes:
        panel, block: Number of the panel, and of the block of K.
        row: The first row, counted from the workgroup's first.
        column: The first column in the panel.
    """

    panel: Index
    block: Index
    row: int
    column: int


@dataclass(frozen=True)
class _Workgroup:
    """Emitter of the code of a workgroup. Workgroups of the same panels follow each other, and share them in a cache.

    Attributes:
        frame: The kernel function, and its inputs and results.
        match: The product.
        schedule: Its block sizes.
        outputs: Results of the dispatch, each an elementwise function of the product.
        conversion: Emits the copy of the rows of A of this workgroup.
    """

    frame: Frame
    match: BlockQuantized
    schedule: BlockSizes
    outputs: Sequence[Output]
    conversion: RowConversion

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the conversion of A, and the loop over the panels of group number `panel_group`."""
        match, schedule, fresh = self.match, self.schedule, self.frame.elements.fresh
        rows = self.conversion.emit(build)
        # For the product of one register block over one block of K; `totals` adds up these products of a panel.
        sums = fresh(
            i32 if schedule.byte_digits else f32, schedule.row_block * max(1, schedule.byte_digits) * schedule.columns
        )
        totals = fresh(f32, schedule.rows * match.width)
        first = build.times(panel_group, schedule.panels)
        end = build.plus(first, schedule.panels)
        if match.panels % schedule.panels != 0:  # the last group has fewer panels
            end = build.least(end, match.panels)

        def panel(inner: Builder, p: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the products of all rows with panel `p`, and their stores."""
            # Each panel clears the buffer of totals, and reads it at its end: no load of it may be hoisted or reused.
            pinned = inner.without_load_motion()
            zero = f32_constant(pinned, 0.0)
            store = self.frame.elements.store
            pinned.parallel(0, schedule.rows * match.width, lambda b, i: store(b, zero, totals, [i]))
            pinned.loop(0, match.blocks, [], lambda b, i, _: self._block(b, rows, sums, totals, p, i))
            self._finish(pinned, totals, p)
            return []

        build.loop(first, end, [], panel, index_below=match.panels)

    def _block(
        self, build: Builder, rows: Rows, sums: SSAValue, totals: SSAValue, panel: Index, block: Index
    ) -> list[SSAValue]:
        """Emit the products of all rows with one block of K of a panel, which are added to the totals.

        Args:
            build: Receives the code.
            rows: The rows of A.
            sums: Buffer for the product of one register block, which each block overwrites.
            totals: Sums of the panel over the blocks so far, [row][column].
            panel, block: Which panel, and which block of K.

        Returns:
            [], the values that the loop over blocks carries.
        """
        schedule = self.schedule
        panel_columns, block_columns = self.match.width, schedule.columns
        for column in range(0, panel_columns, block_columns):
            for row in range(0, schedule.rows, schedule.row_block):
                position = _Position(panel=panel, block=block, row=row, column=column)
                height = min(schedule.row_block, schedule.rows - row)
                self._product(build, rows, sums, position, height)
                for i in range(height):
                    self._add_to_totals(build, rows, sums, totals, position, i)
        return []

    def _product(self, build: Builder, rows: Rows, sums: SSAValue, position: _Position, height: int) -> None:
        """Emit the product of a register block: rows of A times columns of a panel, over one block of K.

        Args:
            build: Receives the code.
            rows: The rows of A.
            sums: Receives the product, [row][digit][column of the register block].
            position: Position of the register block.
            height: Number of rows.
        """
        match, schedule, (panel, block, row, column) = self.match, self.schedule, position
        digits, steps, width = max(1, schedule.byte_digits), match.steps_per_row, schedule.columns
        group = WORD_BYTES * 8 // match.bits  # steps of K whose weights share four bytes
        # A in memory: [row][digit][step of K]. Weights: [panel][block][group][column][step of the group].
        offset = build.plus(build.times(block, match.steps_per_block), row * digits * steps)
        a = view_as(build, rows.elements, offset, [height * digits, match.groups, group], [steps, group, 1])
        weights = self.frame.buffers[self.frame.tensors.index(match.argument)]
        block_in_weights = build.plus(build.times(panel, match.blocks), block)
        start = build.plus(build.times(block_in_weights, match.width * match.steps_per_block), column * group)
        b = view_as(build, weights, start, [match.groups, width, group], [match.width * group, group, 1])
        c = view_as(build, sums, offset=0, sizes=[height * digits, width], strides=[width, 1])
        build.add(ContractOp(operands=[a, b, c], properties={"unsigned_b": UnitAttr()}))

    def _add_to_totals(
        self,
        build: Builder,
        rows: Rows,
        sums: SSAValue,
        totals: SSAValue,
        position: _Position,
        row: int,
    ) -> None:
        """Emit the addition of one row of a register block to the totals.

        It is `total += offset * row_sum + (product - zero * row_sum) * scale`, without the terms that this product
        lacks. Products and sums of integers are multiplied by the unit of the block: the value of the integer 1.

        Args:
            build: Receives the code.
            rows: The rows of A, with the unit and the sums of each block.
            sums: Product of the register block, [row][digit][column of the register block].
            totals: Sums of the panel so far, [row][column].
            position: Position of the register block.
            row: The row within the register block.
        """
        match, schedule, (panel, block, first_row, column) = self.match, self.schedule, position
        row_of_a = first_row + row  # counted from the workgroup's first
        # Elements of A are integers of one to three byte digits, each with a product of its own, or f32 as one "digit".
        width, digits = schedule.columns, max(1, schedule.byte_digits)
        block_of_row = build.plus(block, row_of_a * match.blocks)
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
            panel_column = inner.plus(j, column)

            def term(per_block: PerBlock) -> SSAValue:
                """Return the zero point, scale or offset of this column, and of this block if it has one for each."""
                index = [panel, block, panel_column] if per_block.has_blocks else [panel, panel_column]
                return _as_f32(inner, self.frame.elements.at(inner, per_block.tensor, index))

            values = [load(inner, sums, inner.plus(j, (row * digits + d) * width)) for d in range(digits)]
            product = values[0]
            if unit is not None:
                product = inner.add(arith.MulfOp(_number_of_digits(inner, values, corrections), unit))
            # Where there are digits, `corrections` have subtracted a constant zero point already.
            if isinstance(match.zero, PerBlock) or (match.zero and not schedule.byte_digits):
                zero = term(match.zero) if isinstance(match.zero, PerBlock) else f32_constant(inner, match.zero)
                product = self._multiply_add(inner, inner.add(arith.NegfOp(row_sum)), zero, product)
            offset = inner.plus(panel_column, row_of_a * match.width)
            total = load(inner, totals, offset)
            if match.offset is not None:
                total = self._multiply_add(inner, row_sum, term(match.offset), total)
            if match.scale is None:
                total = inner.add(arith.AddfOp(total, product))
            else:
                total = self._multiply_add(inner, product, term(match.scale), total)
            self.frame.elements.store(inner, total, totals, [offset])

        build.parallel(0, width, element)

    def _multiply_add(self, build: Builder, lhs: SSAValue, rhs: SSAValue, addend: SSAValue) -> SSAValue:
        """Emit lhs * rhs + addend, and return it.

        CPUs that multiply bytes have an instruction that rounds once; others may not, and round the product, too.
        """
        if self.schedule.byte_digits:
            return build.add(math.FmaOp(lhs, rhs, addend))
        return build.add(arith.AddfOp(addend, build.add(arith.MulfOp(lhs, rhs))))

    def _finish(self, build: Builder, totals: SSAValue, panel: Index) -> None:
        """Emit the results of the dispatch for a panel.

        Args:
            build: Receives the code.
            totals: The sums of the panel over all of K, [row][column].
            panel: Which panel.
        """
        match, contraction, elements = self.match, self.match.contraction, self.frame.elements
        generic = contraction.generic

        def element(build: Builder, i: Index, j: Index) -> None:
            """Store the results at row `i` of the workgroup and column `j` of the panel."""
            loops: list[Index] = [0] * len(generic.iterators)
            loops[match.panel_loop], loops[match.column_loop] = panel, j
            row_of_a = build.plus(i, self.conversion.first_row)
            for dim, index in zip(
                match.row_loops, build.split(row_of_a, [generic.extent(d) for d in match.row_loops]), strict=True
            ):
                loops[dim] = index
            indices = evaluate(build, generic.output_maps[0], loops)
            initial = elements.at(build, generic.outputs[0], indices)
            total = load(build, totals, build.plus(build.times(i, match.width), j))
            elements.define(build, contraction.op.results[0], indices, build.add(arith.AddfOp(total, initial)))
            for output in self.outputs:
                output_indices = [indices[d] for d in output.dims]
                output.store(build, elements.at(build, output.value, output_indices), output_indices)

        build.parallel(
            0, self.schedule.rows, lambda b, i: b.parallel(0, match.width, lambda inner, j: element(inner, i, j))
        )


def _as_f32(build: Builder, value: SSAValue) -> SSAValue:
    """Emit the conversion of an unsigned byte, or of a float, to f32, and return it."""
    if isinstance(value.type, IntegerType):
        return build.add(arith.SIToFPOp(build.add(arith.ExtUIOp(value, i32)), f32))
    return value if value.type == f32 else build.add(arith.ExtFOp(value, f32))


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
