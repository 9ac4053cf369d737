"""Rows of A of a product by block-quantized weights, copied into workgroup memory as f32 or as digits.

A row is divided into blocks of steps of K, as the weights are. Where the CPU multiplies bytes, each block becomes
integers of up to 24 bits, relative to its largest element. An integer consists of up to three signed bytes, its digits:
x = unit (d2 2^16 + d1 2^8 + d0).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i8, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.block_quantized import BlockQuantized
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements

GREATEST = {1: 127.0, 2: 127.0 * 2**8, 3: 127.0 * (2**16 + 2**8)}
"""Number of bytes -> the greatest integer that an element becomes. Several signed bytes represent up to 127 more: an
element times the reciprocal of the unit may be rounded up to 1 more than this."""

ALL_BUT_SIGN = 0x7FFFFFFF
"""Mask of the magnitude in the bits of an f32. Magnitudes compare as integers do."""

BITS_OF_DIGIT = 8
"""Bits of a digit of an integer: one signed byte."""

LEAST_MAXIMUM = 2.0**-100
"""Elements of a block are relative to no less than this: the reciprocal of the unit must be finite."""


@dataclass(frozen=True)
class Rows:
    """Rows of A in workgroup memory, and what corrects their products.

    Attributes:
        elements: Buffer of f32 elements, [row][step of K], or of digits, [row][digit][step of K].
        units: Buffer of f32, [row][block]: the value that the integer 1 stands for; None for f32 elements.
        low, high: Buffers of i32, [row][block]: the sum of the lowest digits of a block, and that of the integers which
            the higher digits form, so that the integers of the block add up to low + 2^8 high; None for f32 elements.
        sums: Buffer of f32, [row][block]: sums of the elements of a block, in units if there are any.
    """

    elements: SSAValue
    units: SSAValue | None
    low: SSAValue | None
    high: SSAValue | None
    sums: SSAValue


@dataclass(frozen=True)
class RowConversion:
    """Emitter of the copy of a workgroup's rows of A into workgroup memory.

    Attributes:
        elements: Tensors of the dispatch function.
        match: The product, with the number of blocks of K and of their steps.
        rows: Rows of A that the workgroup copies.
        digit_count: Signed bytes of the integer that an element becomes, 1 to 3; 0 if elements remain f32.
        first_row: The first of these rows.
    """

    elements: Elements
    match: BlockQuantized
    rows: int
    digit_count: int
    first_row: Index

    def emit(self, build: Builder) -> Rows:
        """Emit the copy of the rows of A into workgroup memory, as f32 or as digits, and their sums over blocks."""
        match, elements = self.match, self.elements
        count = self.rows * match.blocks
        copy = elements.fresh(f32, self.rows * match.steps_per_row)
        for row in range(self.rows):
            self._copy_row(build, row, copy)
        sums = elements.fresh(f32, count)
        if not self.digit_count:
            build.parallel(0, count, lambda inner, i: self._sum_block(inner, copy, sums, i))
            return Rows(elements=copy, units=None, low=None, high=None, sums=sums)
        digits = elements.fresh(i8, self.rows * self.digit_count * match.steps_per_row)
        low, high, units = elements.fresh(i32, count), elements.fresh(i32, count), elements.fresh(f32, count)
        rows = Rows(elements=digits, units=units, low=low, high=high, sums=sums)
        row_and_block = [self.rows, match.blocks]
        build.parallel(0, count, lambda inner, i: self._quantize(inner, copy, rows, *inner.split(i, row_and_block)))
        return rows

    def _copy_row(self, build: Builder, row: int, copy: SSAValue) -> None:
        """Emit the copy of a row of A to `copy`, [row][step of K], as f32. row: counted from the workgroup's first."""
        match, generic = self.match, self.match.contraction.generic
        block_loop, step_loop = match.block_loop, match.step_loop  # over the blocks of a row, and the steps of a block
        row_of_a = build.plus(row, self.first_row)
        row_indices = build.split(row_of_a, [generic.extent(d) for d in match.row_loops])
        indices = dict(zip(match.row_loops, row_indices, strict=True))  # index of each loop of rows

        def element(inner: Builder, block: Index, step: Index) -> None:
            """Copy the element at a step of a block.

            Where the steps of all blocks are equally far apart, callers pass block 0 and the step of the whole row.
            """
            coordinates: list[Index] = []
            for coordinate in match.row_factor.coordinates:
                index: Index = coordinate.constant
                for dim, coefficient in coordinate.terms:
                    if dim in indices:
                        index = inner.plus(index, inner.times(indices[dim], coefficient))
                index = inner.plus(index, inner.times(block, coordinate.coefficient(block_loop)))
                coordinates.append(inner.plus(index, inner.times(step, coordinate.coefficient(step_loop))))
            value = factor_at(self.elements, inner, match.contraction, match.row_factor, coordinates)
            step_of_row = inner.plus(inner.times(block, match.steps_per_block), step)
            self.elements.store(inner, value, copy, [inner.plus(step_of_row, row * match.steps_per_row)])

        coordinates_of_a = match.row_factor.coordinates
        is_row_contiguous = all(
            c.coefficient(block_loop) == match.steps_per_block * c.coefficient(step_loop) for c in coordinates_of_a
        )
        if is_row_contiguous:
            build.parallel(0, match.steps_per_row, lambda inner, k: element(inner, 0, k))
            return

        def elements_of_block(inner: Builder, block: Index) -> None:
            """Copy the elements of one block of the row."""
            inner.parallel(0, match.steps_per_block, lambda innermost, k: element(innermost, block, k))

        build.parallel(0, match.blocks, elements_of_block)

    def _sum_block(self, build: Builder, copy: SSAValue, sums: SSAValue, block: Index) -> None:
        """Emit the sum of one block of `copy`, and store it in `sums`.

        block: index in [row][block], flattened, which is also that of the sum.
        """
        first = build.times(block, self.match.steps_per_block)
        flags = arith.FastMathFlagsAttr([FastMathFlag.REASSOC])  # each lane of a vector adds up some of the steps

        def step(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Add the element at step `k` of the block."""
            value = load(inner, copy, inner.plus(first, k))
            return [inner.add(arith.AddfOp(carried[0], value, flags))]

        (total,) = build.loop(0, self.match.steps_per_block, [f32_constant(build, 0.0)], step)
        self.elements.store(build, total, sums, [block])

    def _quantize(self, build: Builder, copy: SSAValue, rows: Rows, row: Index, block: Index) -> None:
        """Emit the conversion of one block of one row of `copy` to digits, with its unit and sums, into `rows`.

        With the largest magnitude m of the block and g = `GREATEST[digit_count]`: unit = m / g, and element x becomes
        round(x g / m), which is split into signed bytes.

        Args:
            build: Receives the code.
            copy: The rows as f32, [row][step of K].
            rows: Buffers of the digits, units and sums, which are written.
            row: The row, counted from the workgroup's first.
            block: The block of K.
        """
        match, store = self.match, self.elements.store
        assert rows.units is not None and rows.low is not None and rows.high is not None
        first = build.plus(build.times(block, match.steps_per_block), build.times(row, match.steps_per_row))
        block_of_row = build.plus(block, build.times(row, match.blocks))

        def larger_magnitude(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Return the larger of the carried magnitude and that of step k."""
            bits = inner.add(arith.BitcastOp(load(inner, copy, inner.plus(first, k)), i32))
            magnitude = inner.add(arith.AndIOp(bits, i32_constant(inner, ALL_BUT_SIGN)))
            return [inner.add(arith.MaxSIOp(carried[0], magnitude))]

        smallest = build.add(arith.BitcastOp(f32_constant(build, LEAST_MAXIMUM), i32))
        (bits,) = build.loop(0, match.steps_per_block, [smallest], larger_magnitude)
        maximum = build.add(arith.BitcastOp(bits, f32))
        greatest = f32_constant(build, GREATEST[self.digit_count])
        inverse = build.add(arith.DivfOp(greatest, maximum))
        # Digits in memory: [row][digit][step of the row].
        row_of_digits = build.times(row, self.digit_count * match.steps_per_row)
        digits_first = build.plus(build.times(block, match.steps_per_block), row_of_digits)

        def digits(inner: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Store the digits of the element at step k of the block, lowest first; return the sums with it.

            The sums are those of the lowest digits and, if there are several, of the integers that the others form.
            """
            scaled = inner.add(arith.MulfOp(load(inner, copy, inner.plus(first, k)), inverse))
            remainder = integer = inner.add(arith.FPToSIOp(inner.add(math.RoundEvenOp(scaled)), i32))
            if self.digit_count == 1:
                store(inner, inner.add(arith.TruncIOp(integer, i8)), rows.elements, [inner.plus(digits_first, k)])
                return [inner.add(arith.AddiOp(carried[0], integer))]
            high = integer  # becomes the integer that the digits above the lowest form
            for digit in range(self.digit_count):
                byte = inner.add(arith.TruncIOp(remainder, i8))
                offset = inner.plus(inner.plus(digits_first, k), digit * match.steps_per_row)
                store(inner, byte, rows.elements, [offset])
                remainder = inner.add(arith.SubiOp(remainder, inner.add(arith.ExtSIOp(byte, i32))))
                remainder = inner.add(arith.ShRSIOp(remainder, i32_constant(inner, BITS_OF_DIGIT)))
                if digit == 0:
                    high = remainder
            # integer = low + 2^8 high. Both are added up on their own, so that the sums fit into i32.
            shifted = inner.add(arith.ShLIOp(high, i32_constant(inner, BITS_OF_DIGIT)))
            low = inner.add(arith.SubiOp(integer, shifted))
            return [inner.add(arith.AddiOp(total, part)) for total, part in zip(carried, (low, high), strict=True)]

        zero = i32_constant(build, 0)
        initial_sums = [zero] if self.digit_count == 1 else [zero, zero]
        low, *high_sums = build.loop(0, match.steps_per_block, initial_sums, digits)
        high = high_sums[0] if high_sums else zero
        unit = build.add(arith.DivfOp(maximum, greatest))
        for value, buffer in ((unit, rows.units), (low, rows.low), (high, rows.high)):
            store(build, value, buffer, [block_of_row])
        store(build, joined_digits(build, low, high), rows.sums, [block_of_row])


def load(build: Builder, buffer: SSAValue, index: Index) -> SSAValue:
    """Emit the load of the element at an index of a buffer with one dimension, and return it."""
    return build.add(memref.LoadOp.get(buffer, [build.value(index)]))


def i32_constant(build: Builder, value: int) -> SSAValue:
    """Emit an i32 constant, and return it."""
    return build.pure(arith.ConstantOp(IntegerAttr(value, i32)))


def f32_constant(build: Builder, value: float) -> SSAValue:
    """Emit an f32 constant, and return it."""
    return build.pure(arith.ConstantOp(FloatAttr(value, f32)))


def joined_digits(build: Builder, low: SSAValue, high: SSAValue) -> SSAValue:
    """Emit low + 2^8 high in f32, from sums of lowest digits (`low`) and of the integers above them, and return it."""
    shifted = build.add(arith.MulfOp(build.add(arith.SIToFPOp(high, f32)), f32_constant(build, 2.0**BITS_OF_DIGIT)))
    return build.add(arith.AddfOp(build.add(arith.SIToFPOp(low, f32)), shifted))
