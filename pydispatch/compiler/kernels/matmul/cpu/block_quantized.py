"""The kernel of rows times block-quantized weights in panels: weights are unpacked in registers.

A workgroup computes a few rows of some panels of columns, block by block along K. The product of a block and unsigned
weights u is exact or f32; then sum(x (u - zero) scale) = scale (sum(x u) - zero sum(x)) for each block and column.

Where the CPU multiplies bytes, each block of a row of A is converted to integers of 24 bits, relative to its largest
element. An integer is three signed bytes: x = unit (d2 2^16 + d1 2^8 + d0). Sums of products of bytes are exact, three
for each row of A. An element is rounded by at most 2^-23 of the largest of its block: less than a sum of f32 is. A row
with an infinite element has NaN as results. Integers of one or two bytes, which a program may ask for, are rounded by
at most 1/254 and 1/65024 of the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, func, math, memref
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, UnitAttr, f32, i8, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame, Kernel
from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.block_quantized import BYTES, BlockQuantized, PerBlock
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.cpu.tile import Output, outputs_of
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil
from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.pyd.contract import ContractOp

MOST_ROWS, LEAST_ROWS = 16, 8
"""Rows of a workgroup: their elements fit into the second-level cache; fewer unpack the weights too often where there
are several workgroups of rows."""

ROW_BLOCK = 4
"""Most rows of a register block."""

WORKGROUPS, MOST_PANELS = 8, 16
"""Most workgroups of panels while each has up to so many panels. A workgroup converts its rows of A, for all of its
panels: more workgroups of one row convert it for longer than they multiply (768x768: 16 us with 12, 8 us with 6)."""

GREATEST = {1: 127.0, 2: 127.0 * 2**8, 3: 127.0 * (2**16 + 2**8)}
"""The greatest integer that stands for an element, by its bytes. With several bytes, rounding may add 1 where the
product with the reciprocal of the unit was rounded up: signed bytes hold at most 127 more."""

ALL_BUT_SIGN = 0x7FFFFFFF
"""Mask of the magnitude in the bits of an f32. Magnitudes compare as integers do."""

LEAST_MAXIMUM = 2.0**-100
"""Elements of a block are relative to no less than this: the reciprocal of the unit must be finite."""


@dataclass(frozen=True)
class BlockSizes:
    """Block sizes of a kernel.

    Attributes:
        rows: Rows of A of a workgroup.
        row_groups: Number of workgroups of rows.
        row_block: Rows of a register block.
        columns: Columns of a register block.
        panels: Panels of a workgroup.
        digits: Bytes of an integer of A; 0 where products are f32.
    """

    rows: int
    row_groups: int
    row_block: int
    columns: int
    panels: int
    digits: int

    @staticmethod
    def of(match: BlockQuantized, level: Level) -> BlockSizes | None:
        """Return the schedule of a product on a CPU; None where another kernel is better."""
        extents = [match.contraction.generic.extents[d] for d in match.rows]
        static_extents = [n for n in extents if n is not None]
        total_rows = prod(static_extents)
        if len(static_extents) < len(extents) or not total_rows:
            return None
        digits = match.integer_bytes if level.byte_products in ("unsigned by signed", "all signs") else 0
        rows = total_rows
        if rows > MOST_ROWS:  # products of single bytes alone are faster than those of f32 after dequantization
            rows = next((n for n in range(MOST_ROWS, LEAST_ROWS - 1, -1) if total_rows % n == 0), 0)
            if digits != 1 or not rows:
                return None
        row_block, lanes = min(rows, ROW_BLOCK), level.vector // 4
        sums = row_block * (digits or 1)

        def fits(vectors: int) -> bool:
            """Return whether the registers hold the sums, and weights, unpacked weights and an element of A."""
            return (sums + 2) * vectors + 2 <= level.registers

        vectors = next((v for v in (4, 2) if v * lanes <= match.width and fits(v)), 1)
        panels = min(MOST_PANELS, ceil(match.panels, WORKGROUPS))
        return BlockSizes(rows, total_rows // rows, row_block, min(match.width, vectors * lanes), panels, digits)


def lower_block_quantized(
    source: func.FuncOp, backend: Backend, level: Level, match: BlockQuantized, result_dims: Sequence[list[int]]
) -> Kernel | None:
    """Return the kernel of a function that is one product by block-quantized weights; None where another kernel is
    better. result_dims: see `Output.dims`.
    """
    schedule = BlockSizes.of(match, level)
    frame = Frame(source, backend)
    if schedule is None or any(argument >= 0 for argument in frame.updated):
        return None
    frame.bind()
    panel_groups = ceil(match.panels, schedule.panels)
    count = panel_groups * schedule.row_groups
    workgroup = frame.build.bounded(frame.workgroup(), count)
    panel_group, row_group = frame.build.split(workgroup, [panel_groups, schedule.row_groups])
    first_row = frame.build.times(row_group, schedule.rows)
    _Workgroup(frame, match, schedule, outputs_of(frame, result_dims), first_row).emit(frame.build, panel_group)
    return frame.finish(lambda elements, build: count)


@dataclass(frozen=True)
class Rows:
    """Rows of A in workgroup memory, and what corrects their products.

    Attributes:
        elements: Their f32 elements, or bytes: [row][digit][step of K].
        units: The unit of the integers of each row and block; None for f32.
        low, high: Sums of the low digits, and of the integers without it, for each row and block; None for f32.
        sums: Sums of the elements of each row and block, in units.
    """

    elements: SSAValue
    units: SSAValue | None
    low: SSAValue | None
    high: SSAValue | None
    sums: SSAValue


@dataclass(frozen=True)
class _Workgroup:
    """Emitter of the code of a workgroup. Workgroups of the same panels follow each other, and share them in a cache.

    first_row: its first row of A.
    """

    frame: Frame
    match: BlockQuantized
    schedule: BlockSizes
    outputs: Sequence[Output]
    first_row: Index

    @property
    def _steps(self) -> int:
        """Number of steps of K."""
        return self.match.blocks * self.match.block

    def emit(self, build: Builder, panel_group: Index) -> None:
        """Emit the conversion of A, and the loop over the workgroup's panels."""
        match, schedule, fresh = self.match, self.schedule, self.frame.elements.fresh
        rows = self._converted(build)
        sums = fresh(i32 if schedule.digits else f32, schedule.row_block * max(1, schedule.digits) * schedule.columns)
        totals = fresh(f32, schedule.rows * match.width)
        first = build.times(panel_group, schedule.panels)
        end = build.least(build.plus(first, schedule.panels), match.panels)
        if match.panels % schedule.panels == 0:
            end = build.plus(first, schedule.panels)

        def panel(inner: Builder, p: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the products of one panel of columns."""
            fence = Builder(inner.block, inner.source, inner, guarded=True)
            zero = _float(fence, 0.0)
            fence.parallel(0, schedule.rows * match.width, lambda b, i: self.frame.elements.store(b, zero, totals, [i]))
            fence.loop(0, match.blocks, [], lambda b, i, _: self._block(b, rows, sums, totals, p, i))
            self._finish(fence, totals, p)
            return []

        build.loop(first, end, [], panel, limit=match.panels)

    # Rows of A

    def _converted(self, build: Builder) -> Rows:
        """Emit the copy of the rows of A into workgroup memory, as f32 or as digits, and their sums over blocks."""
        match, schedule, elements = self.match, self.schedule, self.frame.elements
        count = schedule.rows * match.blocks
        copy = elements.fresh(f32, schedule.rows * self._steps)
        for row in range(schedule.rows):
            self._copy_row(build, row, copy)
        sums = elements.fresh(f32, count)
        if not schedule.digits:
            build.parallel(0, count, lambda inner, i: self._sum_block(inner, copy, sums, i))
            return Rows(copy, None, None, None, sums)
        digits = elements.fresh(i8, schedule.rows * schedule.digits * self._steps)
        low, high, units = elements.fresh(i32, count), elements.fresh(i32, count), elements.fresh(f32, count)
        rows, row_and_block = Rows(digits, units, low, high, sums), [schedule.rows, match.blocks]
        build.parallel(0, count, lambda inner, i: self._quantize(inner, copy, rows, *inner.split(i, row_and_block)))
        return rows

    def _copy_row(self, build: Builder, row: int, copy: SSAValue) -> None:
        """Emit the copy of a row of A."""
        match, g = self.match, self.match.contraction.generic
        _, block_loop, _, _, step_loop, *_ = match.dims
        row_of_a = build.plus(row, self.first_row)
        indices = dict(zip(match.rows, build.split(row_of_a, [g.extent(d) for d in match.rows]), strict=True))

        def element(inner: Builder, b: Index, i: Index) -> None:
            """Copy step i of block b: evaluate the affine coordinates of A there."""
            coordinates: list[Index] = []
            for coordinate in match.other.coordinates:
                index: Index = coordinate.constant
                for dim, times in coordinate.terms:
                    if dim in indices:
                        index = inner.plus(index, inner.times(indices[dim], times))
                index = inner.plus(index, inner.times(b, coordinate.coefficient(block_loop)))
                coordinates.append(inner.plus(index, inner.times(i, coordinate.coefficient(step_loop))))
            value = factor_at(self.frame.elements, inner, match.contraction, match.other, coordinates)
            step = inner.plus(inner.times(b, match.block), i)
            self.frame.elements.store(inner, value, copy, [inner.plus(step, row * self._steps)])

        coordinates_of_a = match.other.coordinates
        is_row_contiguous = all(
            c.coefficient(block_loop) == match.block * c.coefficient(step_loop) for c in coordinates_of_a
        )
        if is_row_contiguous:
            build.parallel(0, self._steps, lambda inner, k: element(inner, 0, k))
            return
        build.parallel(0, match.blocks, lambda b, i: b.parallel(0, match.block, lambda inner, k: element(inner, i, k)))

    def _sum_block(self, build: Builder, copy: SSAValue, sums: SSAValue, block: Index) -> None:
        """Emit the sum of the elements of a block of K of a row. block: counted over all rows."""
        first = build.times(block, self.match.block)
        flags = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])

        def step(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Add the element at step k of the block."""
            value = _load(inner, copy, inner.plus(first, k))
            return [inner.add(arith.AddfOp(carried[0], value, flags))]

        (total,) = build.loop(0, self.match.block, [_float(build, 0.0)], step)
        self.frame.elements.store(build, total, sums, [block])

    def _quantize(self, build: Builder, copy: SSAValue, rows: Rows, row: Index, block: Index) -> None:
        """Emit the conversion of one block of one row to digits, with its unit and sums.

        With the largest magnitude m of the block and g = `GREATEST[digits]`: unit = m / g, and element x becomes
        round(x g / m), which is split into signed bytes.
        """
        match, schedule, store = self.match, self.schedule, self.frame.elements.store
        assert rows.units is not None and rows.low is not None and rows.high is not None
        first = build.plus(build.times(block, match.block), build.times(row, self._steps))
        block_of_row = build.plus(block, build.times(row, match.blocks))

        def larger_magnitude(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Return the larger of the carried magnitude and that of step k."""
            bits = inner.add(arith.BitcastOp(_load(inner, copy, inner.plus(first, k)), i32))
            magnitude = inner.add(arith.AndIOp(bits, _integer(inner, ALL_BUT_SIGN)))
            return [inner.add(arith.MaxSIOp(carried[0], magnitude))]

        smallest = build.add(arith.BitcastOp(_float(build, LEAST_MAXIMUM), i32))
        (bits,) = build.loop(0, match.block, [smallest], larger_magnitude)
        maximum = build.add(arith.BitcastOp(bits, f32))
        greatest = _float(build, GREATEST[schedule.digits])
        inverse = build.add(arith.DivfOp(greatest, maximum))
        digits_first = build.plus(build.times(block, match.block), build.times(row, schedule.digits * self._steps))

        def digits(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Store the digits of one element, lowest first."""
            scaled = inner.add(arith.MulfOp(_load(inner, copy, inner.plus(first, k)), inverse))
            remainder = integer = inner.add(arith.FPToSIOp(inner.add(math.RoundEvenOp(scaled)), i32))
            high_parts = []
            for digit in range(schedule.digits):
                byte = inner.add(arith.TruncIOp(remainder, i8))
                offset = inner.plus(inner.plus(digits_first, k), digit * self._steps)
                store(inner, byte, rows.elements, [offset])
                remainder = inner.add(arith.SubiOp(remainder, inner.add(arith.ExtSIOp(byte, i32))))
                remainder = inner.add(arith.ShRSIOp(remainder, _integer(inner, 8)))
                high_parts.append(remainder)
            high = high_parts[0]
            low = inner.add(arith.SubiOp(integer, inner.add(arith.ShLIOp(high, _integer(inner, 8)))))
            return [inner.add(arith.AddiOp(c, v)) for c, v in zip(carried, (low, high), strict=True)]

        zero = _integer(build, 0)
        low, high = build.loop(0, match.block, [zero, zero], digits)
        unit = build.add(arith.DivfOp(maximum, greatest))
        for value, buffer in ((unit, rows.units), (low, rows.low), (high, rows.high)):
            store(build, value, buffer, [block_of_row])
        store(build, _joined(build, low, high), rows.sums, [block_of_row])

    # Blocks

    def _block(
        self, build: Builder, rows: Rows, sums: SSAValue, totals: SSAValue, panel: Index, block: Index
    ) -> list[SSAValue]:
        """Emit the products of all rows with one block of K of a panel, which are added to the totals.

        Args:
            build: Receives the code.
            rows: The rows of A.
            sums: Buffer for the product of one register block.
            totals: Sums of the panel so far, [row][column].
            panel, block: Which panel, and which block of K.
        """
        schedule = self.schedule
        for column in range(0, self.match.width, schedule.columns):
            for row in range(0, schedule.rows, schedule.row_block):
                height = min(schedule.row_block, schedule.rows - row)
                self._product(build, rows, sums, (panel, block), (row, column), height)
                for i in range(height):
                    self._add(build, rows, sums, totals, (panel, block), (row + i, column), i)
        return []

    def _product(
        self, build: Builder, rows: Rows, sums: SSAValue, at: tuple[Index, Index], first: tuple[int, int], height: int
    ) -> None:
        """Emit the product of a register block: rows of A times columns of a panel, over one block of K.

        Args:
            build: Receives the code.
            rows: The rows of A.
            sums: Receives the product, [row][digit][column of the register block].
            at: Panel and block of K.
            first: First row, and first column in the panel.
            height: Number of rows.
        """
        match, schedule, (panel, block), (row, column) = self.match, self.schedule, at, first
        digits, steps, width = max(1, schedule.digits), self._steps, schedule.columns
        offset = build.plus(build.times(block, match.block), row * digits * steps)
        group = BYTES * 8 // match.bits  # steps of K whose weights share four bytes
        a = view_as(build, rows.elements, offset, [height * digits, match.groups, group], [steps, group, 1])
        weights = self.frame.buffers[self.frame.tensors.index(match.argument)]
        block_in_weights = build.plus(build.times(panel, match.blocks), block)
        start = build.plus(build.times(block_in_weights, match.width * match.block), column * group)
        b = view_as(build, weights, start, [match.groups, width, group], [match.width * group, group, 1])
        c = view_as(build, sums, 0, [height * digits, width], [width, 1])
        build.add(ContractOp(operands=[a, b, c], properties={"unsigned_b": UnitAttr()}))

    def _add(
        self,
        build: Builder,
        rows: Rows,
        sums: SSAValue,
        totals: SSAValue,
        at: tuple[Index, Index],
        first: tuple[int, int],
        row: int,
    ) -> None:
        """Emit the addition of one row of a register block to the totals: `total += ((product - zero * row_sum) * scale
        + offset * row_sum) * unit`, without the terms that this product lacks.

        Args:
            build: Receives the code.
            rows: The rows of A.
            sums: Product of the register block.
            totals: Sums of the panel so far, [row][column].
            at: Panel and block of K.
            first: The row of A, and the first column in the panel.
            row: The row within the register block.
        """
        match, schedule, (panel, block), (row_of_a, column) = self.match, self.schedule, at, first
        width, digits = schedule.columns, max(1, schedule.digits)
        block_of_row = build.plus(block, row_of_a * match.blocks)
        unit = None if rows.units is None else _load(build, rows.units, block_of_row)
        row_sum = _load(build, rows.sums, block_of_row)
        corrections: list[SSAValue] = []
        if rows.low is not None and rows.high is not None and isinstance(match.zero, float):
            zero = _integer(build, int(match.zero))
            corrections = [build.add(arith.MuliOp(_load(build, v, block_of_row), zero)) for v in (rows.low, rows.high)]

        def element(inner: Builder, j: Index) -> None:
            """Add the product of a block to the total of one column."""
            panel_column = inner.plus(j, column)

            def term(per_block: PerBlock) -> SSAValue:
                """Return the zero point, scale or offset of this column, and of this block if it has one for each."""
                index = [panel, block, panel_column] if per_block.has_blocks else [panel, panel_column]
                return _as_f32(inner, self.frame.elements.at(inner, per_block.tensor, index))

            values = [_load(inner, sums, inner.plus(j, (row * digits + d) * width)) for d in range(digits)]
            total = _number(inner, values, corrections) if schedule.digits else values[0]
            if isinstance(match.zero, PerBlock) or (match.zero and not schedule.digits):
                zero = term(match.zero) if isinstance(match.zero, PerBlock) else _float(inner, match.zero)
                total = inner.add(arith.SubfOp(total, inner.add(arith.MulfOp(zero, row_sum))))
            if match.scale is not None:
                total = inner.add(arith.MulfOp(total, term(match.scale)))
            if match.offset is not None:
                total = inner.add(arith.AddfOp(total, inner.add(arith.MulfOp(term(match.offset), row_sum))))
            if unit is not None:
                total = inner.add(arith.MulfOp(total, unit))
            position = inner.plus(panel_column, row_of_a * match.width)
            total = inner.add(arith.AddfOp(_load(inner, totals, position), total))
            self.frame.elements.store(inner, total, totals, [position])

        build.parallel(0, width, element)

    # Results

    def _finish(self, build: Builder, totals: SSAValue, panel: Index) -> None:
        """Emit the results of the dispatch for a panel."""
        match, contraction, elements = self.match, self.match.contraction, self.frame.elements
        g = contraction.generic
        panel_loop, column_loop = match.dims[0], match.dims[3]

        def element(build: Builder, i: Index, j: Index) -> None:
            """Store one total as an element of the result."""
            loops: list[Index] = [0] * len(g.iterators)
            loops[panel_loop], loops[column_loop] = panel, j
            row_of_a = build.plus(i, self.first_row)
            for dim, index in zip(match.rows, build.split(row_of_a, [g.extent(d) for d in match.rows]), strict=True):
                loops[dim] = index
            indices = evaluate(build, g.output_maps[0], loops)
            initial = elements.at(build, g.outputs[0], indices)
            total = _load(build, totals, build.plus(build.times(i, match.width), j))
            build.remember((contraction.op.results[0], tuple(indices)), build.add(arith.AddfOp(total, initial)))
            for output in self.outputs:
                output_indices = [indices[d] for d in output.dims]
                output.store(build, elements.at(build, output.value, output_indices), output_indices)

        build.parallel(
            0, self.schedule.rows, lambda b, i: b.parallel(0, match.width, lambda inner, j: element(inner, i, j))
        )


def _load(build: Builder, buffer: SSAValue, index: Index) -> SSAValue:
    """Emit the load of an element of a buffer with one dimension."""
    return build.add(memref.LoadOp.get(buffer, [build.value(index)]))


def _integer(build: Builder, value: int) -> SSAValue:
    """Emit an i32 constant."""
    return build.pure(arith.ConstantOp(IntegerAttr(value, i32)))


def _float(build: Builder, value: float) -> SSAValue:
    """Emit an f32 constant."""
    return build.pure(arith.ConstantOp(FloatAttr(value, f32)))


def _as_f32(build: Builder, value: SSAValue) -> SSAValue:
    """Emit an unsigned byte, or a float, as f32."""
    if isinstance(value.type, IntegerType):
        return build.add(arith.SIToFPOp(build.add(arith.ExtUIOp(value, i32)), f32))
    return value if value.type == f32 else build.add(arith.ExtFOp(value, f32))


def _number(build: Builder, digits: Sequence[SSAValue], corrections: Sequence[SSAValue]) -> SSAValue:
    """Emit the number with these digits in f32: digits[0] + 2^8 digits[1] + 2^16 digits[2].

    corrections: subtracted from digits[0], and from the integer of the higher digits; none if empty.
    """
    low, *high_digits = digits
    if corrections:
        low = build.add(arith.SubiOp(low, corrections[0]))
    if not high_digits:
        return build.add(arith.SIToFPOp(low, f32))
    high = high_digits.pop()
    for digit in reversed(high_digits):
        high = build.add(arith.AddiOp(build.add(arith.ShLIOp(high, _integer(build, 8))), digit))
    if corrections:
        high = build.add(arith.SubiOp(high, corrections[1]))
    return _joined(build, low, high)


def _joined(build: Builder, low: SSAValue, high: SSAValue) -> SSAValue:
    """Emit low + 2^8 high in f32."""
    shifted = build.add(arith.MulfOp(build.add(arith.SIToFPOp(high, f32)), _float(build, 256.0)))
    return build.add(arith.AddfOp(build.add(arith.SIToFPOp(low, f32)), shifted))
