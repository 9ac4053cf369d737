"""Digits of rows of f32: signed bytes that represent the elements of a block relative to its largest one.

An element is unit (d2 2^16 + d1 2^8 + d0), where the digits d0 to d2 are signed bytes, and the unit is an f32 that the
elements of a block have in common. With fewer digits, elements are rounded to fewer bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, i8, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.lane_reductions import LaneReduction, Partials, Reductions
from pydispatch.compiler.kernels.matmul.cpu.operands import CACHE_LINE_BYTES
from pydispatch.compiler.kernels.matmul.cpu.products import emit_loop
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements

GREATEST_INTEGER = {1: 127.0, 2: 127.0 * 2**8, 3: 127.0 * (2**16 + 2**8)}
"""Number of digits (signed bytes) of an integer -> the integer that the largest element of a block becomes.

All digits of it are 127, but the lowest of 2 or 3 digits is 0, as a reserve: with 3 digits, the rounding errors of f32
may yield an integer that is greater by 1, whose lowest digit is 1. With 1 digit, these errors are too small for that:
the largest integer is 127, the largest signed byte."""

ALL_BUT_SIGN = 0x7FFFFFFF
"""Mask of the magnitude in the bits of an f32. Magnitudes compare as integers do."""

BITS_OF_DIGIT = 8
"""Bits of a digit of an integer: one signed byte."""

LEAST_MAXIMUM = 2.0**-100
"""Magnitude that the unit of a block is computed from if all elements are smaller. It keeps the reciprocal of the unit
finite, for a block of zeros, too."""


@dataclass(frozen=True)
class Digits:
    """Workgroup memory for the digits of rows, and for what the elements of a block have in common.

    The unit of a block is the f32 value of the integer 1. An element is the unit times an integer d0 + 2^8 d1 + 2^16
    d2, whose digits are the signed bytes d0 to d2.

    Attributes:
        bytes: Buffer of the digits, [row][digit][step of K].
        units: Buffer of f32, [row][block]: the units.
        low, high: Buffers of i32, [row][block]: the sum of the lowest digits of a block, and the sum of the integers
            that the higher digits form. The integers of the block add up to low + 2^8 high.
        sums: Buffer of f32, [row][block]: sums of the integers of a block.
    """

    bytes: SSAValue
    units: SSAValue
    low: SSAValue
    high: SSAValue
    sums: SSAValue


@dataclass(frozen=True)
class DigitConversion:
    """Emitter of the conversion of rows of f32 in workgroup memory to digits.

    With the largest magnitude m of a block and g = `GREATEST_INTEGER[digit_count]`, the unit is m / g, and element x
    becomes the integer round(x g / m), which is split into signed bytes.

    Example:
        With one digit, g is 127. A block whose largest magnitude is 2.0 has the unit 2 / 127, and its element 1.0
        becomes round(63.5) = 64. `Digits.low` is the sum of these integers, and `Digits.high` is 0.

    Attributes:
        elements: Tensors of the dispatch function.
        copy: Buffer of the rows, [row][block][step of the block].
        rows: Number of rows.
        blocks: Number of blocks in a row.
        steps: Number of elements in a block.
        digit_count: Signed bytes of the integer that an element becomes, 1 to 3.
        lanes: Number of blocks of a group, which are converted at a time: the 32-bit elements of a vector.
        digits: Buffers that receive the digits, units and sums.
        partials: Memory for the reductions of a group of blocks.
        reciprocals: Buffer of f32, the reciprocal of the unit of each block of a group.
    """

    elements: Elements
    copy: SSAValue
    rows: int
    blocks: int
    steps: int
    digit_count: int
    lanes: int
    digits: Digits
    partials: Partials
    reciprocals: SSAValue

    @staticmethod
    def allocate(
        elements: Elements, copy: SSAValue, *, rows: int, blocks: int, steps: int, digit_count: int, lanes: int
    ) -> DigitConversion:
        """Return the conversion of the rows in `copy`, and allocate memory for its results.

        Args:
            elements, copy, rows, blocks, steps, digit_count, lanes: The attributes of these names.
        """
        # Blocks in all groups. The last group stores meaningless results for lanes without a block.
        count = lanes * ceil_quotient(rows * blocks, lanes)
        digits = Digits(
            bytes=elements.fresh(i8, rows * digit_count * digit_stride(blocks * steps)),
            units=elements.fresh(f32, count),
            low=elements.fresh(i32, count),
            high=elements.fresh(i32, count),
            sums=elements.fresh(f32, count),
        )
        partials = Partials.allocate(elements, i32, count=min(2, digit_count), lanes=lanes, steps=steps)
        reciprocals = elements.fresh(f32, lanes)
        return DigitConversion(elements, copy, rows, blocks, steps, digit_count, lanes, digits, partials, reciprocals)

    def emit(self, build: Builder) -> None:
        """Emit the stores into `digits`: a loop over groups of `lanes` blocks, which are counted through all rows."""
        emit_loop(
            build,
            self.rows * self.blocks,
            step=self.lanes,
            body=lambda inner, first_block: _Group(self, first_block).emit(inner),
        )


def digit_stride(steps: int) -> int:
    """Return the bytes from a digit of a row of `steps` elements to the next digit.

    A cache line is added: if the stride were a power of two, all rows would share few cache sets.
    """
    return steps + CACHE_LINE_BYTES


@dataclass(frozen=True)
class _Group:
    """Emitter of the conversion of a group of adjacent blocks, whose largest magnitudes and sums are reduced together.

    Attributes:
        conversion: The conversion of all rows.
        first_block: The first block of the group, counted through all rows. From it on, there may be fewer blocks than
            the `lanes` of a group.
    """

    conversion: DigitConversion
    first_block: Index

    def emit(self, build: Builder) -> None:
        """Emit the units, the digits and the sums of the blocks."""
        conversion = self.conversion
        blocks_left = build.minus(conversion.rows * conversion.blocks, self.first_block)
        reduction = LaneReduction(
            elements=conversion.elements,
            lanes=conversion.lanes,
            steps=conversion.steps,
            blocks=build.least(conversion.lanes, blocks_left),
            partials=conversion.partials,
        )
        # The unit of a block is derived from the maximum of its magnitudes, whose bits are compared as integers. The
        # maximum is at least `LEAST_MAXIMUM`, so that the unit of a block of zeros has a finite reciprocal.
        least = build.add(arith.BitcastOp(f32_constant(build, LEAST_MAXIMUM), i32))
        reduction.emit(build, Reductions([least], arith.MaxSIOp, terms=self._magnitude), finish=self._store_unit)
        # Then elements are converted. A block has the sum of the lowest digits and, if there are several digits, the
        # sum of the integers that the higher digits form.
        zeros = [i32_constant(build, 0)] * min(2, conversion.digit_count)
        reduction.emit(build, Reductions(zeros, arith.AddiOp, terms=self._convert), finish=self._store_sums)

    def _element(self, build: Builder, block: Index, step: Index) -> SSAValue:
        """Emit the load of the element at a step of a block of the group."""
        first = build.times(build.plus(self.first_block, block), self.conversion.steps)
        return load(build, self.conversion.copy, build.plus(first, step))

    def _store(self, build: Builder, value: SSAValue, buffer: SSAValue, block: Index) -> None:
        """Emit the store of a value that a block of the group has in common."""
        self.conversion.elements.store(build, value, buffer, [build.plus(self.first_block, block)])

    def _magnitude(self, build: Builder, block: Index, step: Index) -> list[SSAValue]:
        """Return the bits of the magnitude of an element: as integers they are in the same order as magnitudes."""
        bits = build.add(arith.BitcastOp(self._element(build, block, step), i32))
        return [build.add(arith.AndIOp(bits, i32_constant(build, ALL_BUT_SIGN)))]

    def _store_unit(self, build: Builder, block: Index, maximum: Sequence[SSAValue]) -> None:
        """Emit the stores of a block's unit, and of its reciprocal, which elements are multiplied by.

        `maximum` has a single value: the bits of the largest magnitude of the block, as an integer.
        """
        conversion = self.conversion
        magnitude = build.add(arith.BitcastOp(maximum[0], f32))
        greatest = f32_constant(build, GREATEST_INTEGER[conversion.digit_count])
        self._store(build, build.add(arith.DivfOp(magnitude, greatest)), conversion.digits.units, block)
        conversion.elements.store(build, build.add(arith.DivfOp(greatest, magnitude)), conversion.reciprocals, [block])

    def _convert(self, build: Builder, block: Index, step: Index) -> list[SSAValue]:
        """Store the digits of the element at a step of a block of the group; return its terms of the block's sums."""
        conversion = self.conversion
        # `reciprocals` has only the blocks of this group. Rows have the blocks of all groups, [row][block of the row].
        reciprocal = load(build, conversion.reciprocals, block)
        scaled = build.add(arith.MulfOp(self._element(build, block, step), reciprocal))
        block_of_rows = build.plus(self.first_block, block)
        row, block_of_row = build.split(block_of_rows, [conversion.rows, conversion.blocks])
        # Digits in memory: [row][digit][step of the row].
        stride = digit_stride(conversion.blocks * conversion.steps)
        step_of_row = build.plus(build.times(block_of_row, conversion.steps), step)
        offset = build.plus(build.times(row, conversion.digit_count * stride), step_of_row)
        return self._store_digits(build, self._rounded(build, scaled), offset, stride)

    def _store_sums(self, build: Builder, block: Index, sums: Sequence[SSAValue]) -> None:
        """Emit the stores of the sums of a block of the group.

        `sums` are the sums of its lowest digits and, if there are several digits, of the integers that the higher
        digits form. Together they are the sum of the integers of the block.
        """
        low, high = sums[0], sums[1] if len(sums) > 1 else i32_constant(build, 0)
        sum_of_integers = joined_digits(build, low, high)
        digits = self.conversion.digits
        self._store(build, low, digits.low, block)
        self._store(build, high, digits.high, block)
        self._store(build, sum_of_integers, digits.sums, block)

    def _rounded(self, build: Builder, value: SSAValue) -> SSAValue:
        """Emit the conversion of an f32 to the nearest integer of `digit_count` signed bytes; NaN becomes 0.

        For one or two bytes, 1.5 * 2^23 is added. Floats of this size are 1 apart, so that the sum is rounded to an
        integer, and the lowest bits of the float are the result. For -3.2, the sum is 12582909 = 0xBFFFFD, whose lowest
        byte 0xFD is -3. This takes fewer instructions than `arith.fptosi`, which has to handle values out of range.
        """
        digit_count = self.conversion.digit_count
        if digit_count > 2:
            return build.add(arith.FPToSIOp(build.add(math.RoundEvenOp(value)), i32))
        total = build.add(arith.AddfOp(value, f32_constant(build, 1.5 * 2.0**23)))
        bits = build.add(arith.BitcastOp(total, i32))
        # The lowest bits of a NaN are 0.
        lowest_bits = build.add(arith.TruncIOp(bits, IntegerType(BITS_OF_DIGIT * digit_count)))
        return build.add(arith.ExtSIOp(lowest_bits, i32))

    def _store_digits(self, build: Builder, integer: SSAValue, offset: Index, stride: int) -> list[SSAValue]:
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
            offset: Offset of the lowest digit in the buffer of digits.
            stride: Distance of the digits of an integer in the buffer, in bytes.
        """
        digit_count, buffer = self.conversion.digit_count, self.conversion.digits.bytes
        store = self.conversion.elements.store
        if digit_count == 1:
            store(build, build.add(arith.TruncIOp(integer, i8)), buffer, [offset])
            return [integer]
        higher_digits = [integer]  # the integers that all digits form, all but the lowest, all but the lowest two, ...
        for position in range(digit_count):
            digit = build.add(arith.TruncIOp(higher_digits[-1], i8))
            store(build, digit, buffer, [build.plus(offset, position * stride)])
            # (integer - digit) / 2^8 is the integer that the digits above this one form.
            difference = build.add(arith.SubiOp(higher_digits[-1], build.add(arith.ExtSIOp(digit, i32))))
            higher_digits.append(build.add(arith.ShRSIOp(difference, i32_constant(build, BITS_OF_DIGIT))))
        high = higher_digits[1]
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

    The sum is a fused multiply-add, an instruction that all CPUs with dot products of bytes have.
    """
    factors = build.add(arith.SIToFPOp(high, f32)), f32_constant(build, 2.0**BITS_OF_DIGIT)
    return build.add(math.FmaOp(*factors, build.add(arith.SIToFPOp(low, f32))))


class ZeroTerms(NamedTuple):
    """Two i32 values, the zero point of weights times sums over the elements of A, integers low + 2^8 high.

    Attributes:
        low: The zero point times the sum of the lowest digits.
        high: The zero point times the sum of the integers that the higher digits form.
    """

    low: SSAValue
    high: SSAValue


def join_products(build: Builder, products: Sequence[SSAValue], zero_terms: ZeroTerms | None) -> SSAValue:
    """Emit the sum of products of integers of A and weights, less the zero point's terms, as f32, and return it.

    An element of A is an integer low + 2^8 high of up to three signed bytes, its digits: `low` is the lowest one. Its
    product with a weight w less the zero point is low w - low zero + 2^8 (high w - high zero). The sums of both parts
    are exact in i32, and are joined in f32.

    Example:
        The integer 258 has the digits (2, 1): times the weight 3, `products` are (6, 3), and the result is 6 + 2^8 * 3
        = 774.

    Args:
        build: Receives the code.
        products: One to three i32 values, lowest digit first: the sum of products of a digit and weights.
        zero_terms: The terms of a constant zero point of the weights; None without one.
    """
    low, *high_products = products
    if zero_terms is not None:
        low = build.add(arith.SubiOp(low, zero_terms.low))
    if not high_products:  # a single digit: `zero_terms.high` is 0
        return build.add(arith.SIToFPOp(low, f32))
    # products[1] + 2^8 products[2], from the highest digit on.
    high = high_products.pop()
    for product in reversed(high_products):
        high = build.add(arith.AddiOp(build.add(arith.ShLIOp(high, i32_constant(build, BITS_OF_DIGIT))), product))
    if zero_terms is not None:
        high = build.add(arith.SubiOp(high, zero_terms.high))
    return joined_digits(build, low, high)
