"""Rows of A of a product by block-quantized weights, copied into workgroup memory as f32 or as digits.

A row is divided into blocks of steps of K, as the weights are. Where the CPU multiplies bytes, each block becomes
integers of up to 24 bits, relative to its largest element. An integer consists of up to three signed bytes, its digits:
x = unit (d2 2^16 + d1 2^8 + d0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, i8, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.block_quantized import BlockQuantized
from pydispatch.compiler.kernels.matmul.cpu.lane_reductions import LaneReduction, Partials
from pydispatch.compiler.kernels.matmul.cpu.operands import CACHE_LINE_BYTES
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements

GREATEST = {1: 127.0, 2: 127.0 * 2**8, 3: 127.0 * (2**16 + 2**8)}
"""Number of digits, signed bytes -> the integer that the largest element of a block becomes.

All digits are 127, but the lowest of several is 0: the product of an element and the reciprocal of the unit may be
rounded to 1 more, which these digits then represent, too."""

ALL_BUT_SIGN = 0x7FFFFFFF
"""Mask of the magnitude in the bits of an f32. Magnitudes compare as integers do."""

BITS_OF_DIGIT = 8
"""Bits of a digit of an integer: one signed byte."""

LEAST_MAXIMUM = 2.0**-100
"""Lower bound of the largest magnitude of a block, from which its unit is computed: it keeps the reciprocal of the unit
finite, for a block of zeros, too."""


@dataclass(frozen=True)
class Rows:
    """Rows of A in workgroup memory, as f32 or as integers, and the sums of their blocks.

    A row has blocks of adjacent steps of K. An element of a block is `unit` of the block times an integer of 1 to 3
    signed bytes, its digits: d0 + 2^8 d1 + 2^16 d2. Products with weights multiply digits; zero points
    and offsets of the weights are multiplied by the sums.

    Attributes:
        copy: Buffer of f32 elements, [row][step of K].
        digits: Buffer of the digits, [row][digit][step of K]; None for products of f32.
        units: Buffer of f32, [row][block]: the value that the integer 1 stands for; None for f32 elements.
        low, high: Buffers of i32, [row][block]: the sum of the lowest digits of a block, and the sum of the integers
            that the higher digits form. The integers of the block add up to low + 2^8 high. None for f32 elements.
        sums: Buffer of f32, [row][block]: sums of the elements of a block, in units if there are any.
    """

    copy: SSAValue
    digits: SSAValue | None
    units: SSAValue | None
    low: SSAValue | None
    high: SSAValue | None
    sums: SSAValue


@dataclass(frozen=True)
class RowConversion:
    """Emitter of the copy of a workgroup's rows of A into workgroup memory, a chunk of K at a time.

    K is the reduced dimension of the product, and a step of K one of its indices: an element of each row of A. A block
    is the adjacent steps of K that share a scale of the weights, a chunk several adjacent blocks.

    Attributes:
        elements: Tensors of the dispatch function.
        match: The product. It has the number of blocks of K, and the number of steps in a block.
        rows: Rows of A that the workgroup copies.
        digit_count: Signed bytes of the integer that an element becomes, 1 to 3; 0 if elements remain f32.
        first_row: The first of these rows.
        end_row: The number of rows of A.
        repeats_last: Whether rows of the workgroup may be beyond the last one of A: they are copies of it.
        blocks: Number of blocks of K in a chunk.
        lanes: Number of blocks that are converted to digits at a time: of 32-bit elements in a vector.
    """

    elements: Elements
    match: BlockQuantized
    rows: int
    digit_count: int
    first_row: Index
    end_row: int
    repeats_last: bool
    blocks: int
    lanes: int

    @property
    def steps(self) -> int:
        """Number of steps of K in a chunk: elements of a row that are copied at a time."""
        return self.blocks * self.match.steps_per_block

    @property
    def digit_stride(self) -> int:
        """Bytes from a row of digits to the next. If it were a power of two, all rows would share few cache sets."""
        return self.steps + CACHE_LINE_BYTES

    @cached_property
    def buffers(self) -> Rows:
        """The buffers that receive a chunk of the rows."""
        elements, count = self.elements, self.rows * self.blocks
        copy = elements.fresh(f32, self.rows * self.steps)
        if not self.digit_count:
            return Rows(copy=copy, digits=None, units=None, low=None, high=None, sums=elements.fresh(f32, count))
        count = self.lanes * ceil_quotient(count, self.lanes)  # whole groups of blocks are stored
        sums = elements.fresh(f32, count)
        digits = elements.fresh(i8, self.rows * self.digit_count * self.digit_stride)
        low, high, units = elements.fresh(i32, count), elements.fresh(i32, count), elements.fresh(f32, count)
        return Rows(copy=copy, digits=digits, units=units, low=low, high=high, sums=sums)

    @cached_property
    def _partials(self) -> Partials:
        """Memory for the reductions of a group of blocks: of largest magnitudes, or of the sums of digits."""
        return Partials.allocate(self.elements, i32, min(2, self.digit_count), self.lanes, self.match.steps_per_block)

    @cached_property
    def _reciprocals(self) -> SSAValue:
        """Buffer of f32: the reciprocal of the unit of each block of a group."""
        return self.elements.fresh(f32, self.lanes)

    def emit(self, build: Builder, first_block: Index) -> None:
        """Emit the stores into `buffers` for the chunk of K that begins with the block `first_block`.

        They are a copy of the rows of A, and for each block of a row its sum, and its digits if A is converted to them.
        """
        rows, count = self.buffers, self.rows * self.blocks
        self.copy_rows(build, rows.copy, self.steps, first_block, self.blocks)
        if rows.digits is None:
            build.parallel(0, count, lambda inner, i: self._sum_block(inner, rows.copy, rows.sums, i))
            return
        emit_loop(build, count, self.lanes, lambda inner, block: self._convert_group(inner, rows, block))

    def copy_rows(self, build: Builder, copy: SSAValue, stride: int, first_block: Index, blocks: Index) -> None:
        """Emit the copy of rows of A to `copy`, [row][step of the chunk], as f32.

        A block is the adjacent steps of K whose weights in a column share a scale, a chunk some adjacent blocks.

        Args:
            build: Receives the code.
            copy: Buffer that receives the rows: element [row, step] is at row * `stride` + step.
            stride: Elements of `copy` between rows.
            first_block, blocks: First block of K, and number of blocks.
        """
        match = self.match

        def copy_row(inner: Builder, row: Index) -> None:
            """Emit the copy of row `row`, counted from the first row of the workgroup."""
            row_indices = self._indices_in_a(inner, row)

            def copy_element(innermost: Builder, block: Index, step: Index) -> None:
                """Copy the element at a step of a block of the chunk."""
                coordinates = self._coordinates_in_a(innermost, row_indices, first_block, block, step)
                value = factor_at(self.elements, innermost, match.contraction, match.row_factor, coordinates)
                step_of_chunk = innermost.plus(innermost.times(block, match.steps_per_block), step)
                offset = innermost.plus(step_of_chunk, innermost.times(row, stride))
                self.elements.store(innermost, value, copy, [offset])

            self._for_each_element(inner, blocks, copy_element)

        build.parallel(0, self.rows, copy_row)

    def _for_each_element(self, build: Builder, blocks: Index, body: Callable[[Builder, Index, Index], None]) -> None:
        """Emit parallel loops over the elements of a row in the first `blocks` blocks of a chunk.

        A block is the adjacent steps of K whose weights in a column share a scale, a chunk some adjacent blocks. `body`
        emits the code of one element, from a builder, a block and a step of the block. If the steps of all blocks are
        equally far apart in A, there is one loop: it passes block 0, and steps counted from its first one.
        """
        match = self.match
        has_equal_distances = all(
            coordinate.coefficient(match.block_loop) == match.steps_per_block * coordinate.coefficient(match.step_loop)
            for coordinate in match.row_factor.coordinates
        )
        if has_equal_distances:
            steps = build.times(blocks, match.steps_per_block)
            build.parallel(0, steps, lambda inner, k: body(inner, 0, k))
            return

        def visit_block(inner: Builder, block: Index) -> None:
            """Emit the loop over the elements of one block."""
            inner.parallel(0, match.steps_per_block, lambda innermost, k: body(innermost, block, k))

        build.parallel(0, blocks, visit_block)

    def _indices_in_a(self, build: Builder, row: Index) -> dict[int, Index]:
        """Return {loop over rows: its index} for a row that is counted from the first row of the workgroup.

        With `repeats_last`, a row beyond the end of A has the indices of the last row.
        """
        match = self.match
        row_of_a = build.plus(row, self.first_row)
        if self.repeats_last:
            row_of_a = build.least(row_of_a, self.end_row - 1)
        sizes = [match.contraction.generic.extent(d) for d in match.row_loops]
        return dict(zip(match.row_loops, build.split(row_of_a, sizes), strict=True))

    def _coordinates_in_a(
        self, build: Builder, row_indices: Mapping[int, Index], first_block: Index, block: Index, step: Index
    ) -> list[Index]:
        """Return the coordinates of an element of A: for each axis of its tensor, the index that the loops give.

        K is two loops of the contraction, over blocks, whose weights share a scale, and over the steps of a block. With
        blocks of 32 steps, block 2 and step 5 of A[row, 32 * block + step] have the coordinates (row, 69).

        Args:
            build: Receives the arithmetic.
            row_indices: Loop of the contraction that counts rows -> its index.
            first_block: First block of K of the chunk.
            block: Block of the chunk, counted from `first_block`.
            step: Step of the block. The caller may pass block 0 and a step beyond its end (`_for_each_element`).
        """
        coordinates: list[Index] = []
        for coordinate in self.match.row_factor.coordinates:
            index: Index = coordinate.constant
            for dim, coefficient in coordinate.terms:
                if dim in row_indices:
                    index = build.plus(index, build.times(row_indices[dim], coefficient))
            block_of_k = build.plus(first_block, block)
            index = build.plus(index, build.times(block_of_k, coordinate.coefficient(self.match.block_loop)))
            coordinates.append(build.plus(index, build.times(step, coordinate.coefficient(self.match.step_loop))))
        return coordinates

    def _sum_block(self, build: Builder, copy: SSAValue, sums: SSAValue, block: Index) -> None:
        """Emit the sum of one block of `copy`, and store it in `sums`.

        block: index of the block among the blocks of all rows, [row][block]. The sum has the same index.
        """
        first = build.times(block, self.match.steps_per_block)
        flags = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])  # each lane of a vector adds up some of the steps

        def step(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Add the element at step `k` of the block."""
            value = load(inner, copy, inner.plus(first, k))
            return [inner.add(arith.AddfOp(carried[0], value, flags))]

        (total,) = build.loop(0, self.match.steps_per_block, [f32_constant(build, 0.0)], step)
        self.elements.store(build, total, sums, [block])

    def _convert_group(self, build: Builder, rows: Rows, first_block: Index) -> None:
        """Emit the conversion of `lanes` blocks of `rows.copy` to digits, which are stored with their units and sums.

        Blocks are counted through all rows, [row][block of the chunk]. The unit of a block is the f32 value of the
        integer 1. Three sums over a block are stored: `low` of the lowest digits, `high` of the integers of the higher
        digits, and of the integers themselves, low + 2^8 high. With the largest magnitude m of a block and g =
        `GREATEST[digit_count]`: unit = m / g, and element x becomes round(x g / m), which is split into signed bytes.

        Example:
            With one digit, g is 127. A block whose largest magnitude is 2.0 has the unit 2 / 127, and its element 1.0
            becomes round(63.5) = 64. `low` is the sum of these integers, and `high` is 0.

        Args:
            build: Receives the code.
            rows: The copy, and the buffers of digits, units and sums, which are written.
            first_block: The first block of the group. There may be fewer than `lanes` blocks from it on.
        """
        steps, digits, store = self.match.steps_per_block, rows.digits, self.elements.store
        assert digits is not None and rows.units is not None and rows.low is not None and rows.high is not None
        low_sums, high_sums, units = rows.low, rows.high, rows.units
        group = LaneReduction(
            elements=self.elements,
            lanes=self.lanes,
            steps=steps,
            blocks=build.least(self.lanes, build.minus(self.rows * self.blocks, first_block)),
            partials=self._partials,
        )

        def magnitude(inner: Builder, block: Index, k: Index) -> list[SSAValue]:
            """Return the bits of the magnitude of the element at step `k` of a block of the group.

            The bits of f32 magnitudes are compared as integers, which are in the same order.
            """
            element = inner.plus(inner.times(inner.plus(first_block, block), steps), k)
            bits = inner.add(arith.BitcastOp(load(inner, rows.copy, element), i32))
            return [inner.add(arith.AndIOp(bits, i32_constant(inner, ALL_BUT_SIGN)))]

        def store_units(inner: Builder, block: Index, maximum: Sequence[SSAValue]) -> None:
            """Store the unit of a block, and the reciprocal, which elements are multiplied by."""
            magnitude, greatest = inner.add(arith.BitcastOp(maximum[0], f32)), f32_constant(inner, self._greatest)
            store(inner, inner.add(arith.DivfOp(magnitude, greatest)), units, [inner.plus(first_block, block)])
            store(inner, inner.add(arith.DivfOp(greatest, magnitude)), self._reciprocals, [block])

        def convert(inner: Builder, block: Index, k: Index) -> list[SSAValue]:
            """Store the digits of the element at step `k` of a block, and return what it adds to the block's sums."""
            block_of_rows = inner.plus(first_block, block)
            element = inner.plus(inner.times(block_of_rows, steps), k)
            scaled = inner.add(arith.MulfOp(load(inner, rows.copy, element), load(inner, self._reciprocals, block)))
            row, block_of_row = inner.split(block_of_rows, [self.rows, self.blocks])
            # Digits in memory: [row][digit][step of the row].
            step = inner.plus(inner.times(block_of_row, steps), k)
            offset = inner.plus(inner.times(row, self.digit_count * self.digit_stride), step)
            return self._store_digits(inner, self._rounded(inner, scaled), digits, offset)

        def store_sums(inner: Builder, block: Index, sums: Sequence[SSAValue]) -> None:
            """Store the sums of a block: of its lowest digits, of the integers above these, and of its integers."""
            low, high = sums[0], sums[1] if len(sums) > 1 else i32_constant(inner, 0)
            # The sum of the integers is in units: readers multiply it by the unit.
            for value, buffer in ((low, low_sums), (high, high_sums), (joined_digits(inner, low, high), rows.sums)):
                store(inner, value, buffer, [inner.plus(first_block, block)])

        least = build.add(arith.BitcastOp(f32_constant(build, LEAST_MAXIMUM), i32))
        group.emit(build, [least], arith.MaxSIOp, magnitude, store_units)
        zero = i32_constant(build, 0)
        group.emit(build, [zero] * min(2, self.digit_count), arith.AddiOp, convert, store_sums)

    @property
    def _greatest(self) -> float:
        """The integer that the largest element of a block becomes."""
        return GREATEST[self.digit_count]

    def _rounded(self, build: Builder, value: SSAValue) -> SSAValue:
        """Emit the conversion of an f32, of at most the magnitude `_greatest`, to the nearest integer; NaN becomes 0.

        The sum of 1.5 * 2^23 and a float of up to 2 bytes has the float, rounded to an integer, in its lowest bits:
        fewer instructions than a conversion, which saturates.
        """
        if self.digit_count > 2:
            return build.add(arith.FPToSIOp(build.add(math.RoundEvenOp(value)), i32))
        total = build.add(arith.AddfOp(value, f32_constant(build, 1.5 * 2.0**23)))
        bits = build.add(arith.BitcastOp(total, i32))
        narrow = build.add(arith.TruncIOp(bits, IntegerType(8 * self.digit_count)))  # also 0 for the bits of a NaN
        return build.add(arith.ExtSIOp(narrow, i32))

    def _store_digits(self, build: Builder, integer: SSAValue, digits: SSAValue, offset: Index) -> list[SSAValue]:
        """Emit stores of the digits of an i32, lowest first; return [low] for one digit, else [low, high].

        The digits are the signed bytes of which the integer is composed. `integer` is low + 2^8 high, where `low` is
        the lowest digit, and `high` the integer that the higher digits form. Callers sum up each of them separately,
        because both sums then fit into i32.

        Example:
            The three digits of 200 are -56, 1 and 0, since a digit is a signed byte: 200 = -56 + 2^8. The result is
            [-56, 1].

        Args:
            build: Receives the code.
            integer: The integer.
            digits: Buffer of the digits. Digits of one integer are `digit_stride` apart.
            offset: Offset of the lowest digit in it.
        """
        store = self.elements.store
        if self.digit_count == 1:
            store(build, build.add(arith.TruncIOp(integer, i8)), digits, [offset])
            return [integer]
        remainder = high = integer
        for digit in range(self.digit_count):
            byte = build.add(arith.TruncIOp(remainder, i8))  # the digit, as a signed byte
            store(build, byte, digits, [build.plus(offset, digit * self.digit_stride)])
            # Without its lowest digit, the remainder is a multiple of 2^8.
            remainder = build.add(arith.SubiOp(remainder, build.add(arith.ExtSIOp(byte, i32))))
            remainder = build.add(arith.ShRSIOp(remainder, i32_constant(build, BITS_OF_DIGIT)))
            if digit == 0:  # the integer that all further digits form
                high = remainder
        shifted = build.add(arith.ShLIOp(high, i32_constant(build, BITS_OF_DIGIT)))
        low = build.add(arith.SubiOp(integer, shifted))
        return [low, high]


def i32_constant(build: Builder, value: int) -> SSAValue:
    """Emit an i32 constant, and return it."""
    return build.pure(arith.ConstantOp(IntegerAttr(value, i32)))


def f32_constant(build: Builder, value: float) -> SSAValue:
    """Emit an f32 constant, and return it."""
    return build.pure(arith.ConstantOp(FloatAttr(value, f32)))


def joined_digits(build: Builder, low: SSAValue, high: SSAValue) -> SSAValue:
    """Emit low + 2^8 high in f32, from sums of lowest digits (`low`) and of the integers above them, and return it.

    It is one multiply-add: CPUs that multiply bytes have this instruction.
    """
    factors = build.add(arith.SIToFPOp(high, f32)), f32_constant(build, 2.0**BITS_OF_DIGIT)
    return build.add(math.FmaOp(*factors, build.add(arith.SIToFPOp(low, f32))))
