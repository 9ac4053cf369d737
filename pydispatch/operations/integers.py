"""Integer functions that are defined for all operands, and conversions between elements of different widths."""

from __future__ import annotations

from xdsl.dialects import arith

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DTYPES, DType, Kind
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula, of_scalars
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.shapes import expand_dims, reshape
from pydispatch.operations.slicing import concat, slice_axis, stack


def _safe_divisor(lhs: Element, rhs: Element) -> Element:
    """Return rhs, or 1 where lhs / rhs is undefined: rhs is 0, or the smallest number is divided by -1."""
    is_unsafe = rhs.is_equal(0)
    if rhs.dtype.kind is Kind.INT:
        smallest = -(1 << (rhs.dtype.bits - 1))
        is_unsafe = is_unsafe | (rhs.is_equal(-1) & lhs.is_equal(smallest))
    return is_unsafe.where(1, rhs)


@of_scalars
def divide(lhs: Element, rhs: Element) -> Element:
    """Return lhs / rhs. Integers are rounded towards zero; an integer divided by 0 is -1 (all bits set).

    The smallest signed integer divided by -1 wraps around: it is unchanged.
    """
    if not lhs.dtype.is_integer:
        return lhs / rhs
    is_zero = rhs.is_equal(0)
    # `_safe_divisor` is rhs, but 1 for a division by 0 and for the smallest integer divided by -1.
    return is_zero.where(-1, lhs / _safe_divisor(lhs, rhs))


@of_scalars
def remainder(lhs: Element, rhs: Element) -> Element:
    """Return the remainder of division towards zero, which has the sign of lhs; the remainder by 0 is lhs."""
    return rhs.is_equal(0).where(lhs, lhs % _safe_divisor(lhs, rhs)) if lhs.dtype.is_integer else lhs % rhs


@of_scalars
def power(lhs: Element, rhs: Element) -> Element:
    """Return lhs to the power of rhs. An integer to a negative power is 0, except for 1 and -1."""
    if not lhs.dtype.is_integer:
        return lhs.binary("pow", rhs)
    # Binary exponentiation, unrolled over all bits of the exponent.
    one, zero = lhs.const(1), lhs.const(0)
    result, square, exponent = one, lhs, rhs
    is_signed = lhs.dtype.kind is Kind.INT
    exponent_bits = lhs.dtype.bits - 1 if is_signed else lhs.dtype.bits  # without the sign
    for bit in range(exponent_bits):
        is_bit_set = (exponent & one).is_unequal(zero)
        result = is_bit_set.where(result * square, result)
        if bit < exponent_bits - 1:
            square = square * square
            exponent = exponent.binary("shift_right_logical", one)
    if not is_signed:
        return result
    # A negative exponent: 1 / 1 is 1; -1 gives -1 for an odd exponent and 1 for an even one; 1 / lhs truncates to 0.
    is_minus_one = lhs.is_equal(-1)
    is_odd = (rhs & one).is_unequal(zero)
    of_minus_one = is_minus_one.where(is_odd.where(-1, one), zero)
    is_negative = rhs < zero
    of_negative = lhs.is_equal(one).where(one, of_minus_one)
    return is_negative.where(of_negative, result)


def shift(name: str, lhs: Element, rhs: Element) -> Element:
    """Shift by any number of bits; shifts by the width or more give 0, or copies of the sign for
    shift_right_arithmetic. `name` is shift_left, shift_right_logical or shift_right_arithmetic.
    """
    bits = lhs.dtype.bits
    amount = rhs.bitcast(DTYPES[f"u{bits}"] if bits > 1 else lhs.dtype)  # bool has no unsigned type of its width
    is_inside = amount <= bits - 1
    shifted = lhs.binary(name, is_inside.where(amount, bits - 1).bitcast(lhs.dtype))
    return shifted if name == "shift_right_arithmetic" else is_inside.where(shifted, 0)


def multiply_high(lhs: Element, rhs: Element) -> Element:
    """Return the upper half of the double-width product of two integers."""
    bits = lhs.dtype.bits
    if not lhs.dtype.is_integer:
        raise UnsupportedTypeError(f"the upper half of a product of {lhs.dtype} is not defined")
    if bits == 64:
        extended = arith.MulSIExtendedOp if lhs.dtype.kind is Kind.INT else arith.MulUIExtendedOp
        op = extended(lhs.scalar.value, rhs.scalar.value)
        lhs.scalars.block.add_op(op)
        _lower_half, upper_half = op.results
        return Element(lhs.scalars, Scalar(lhs.dtype, (upper_half,)))
    wide = DTYPES[f"{lhs.dtype.name[0]}{max(2 * bits, 8)}"]  # such as u16 for u8
    return (lhs.to(wide) * rhs.to(wide)).binary("shift_right", bits).to(lhs.dtype)


def split_bits(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of each element into elements of a smaller type `dtype`, lowest bits first, along a new last axis.

    u16 0x1234 becomes u8 [0x34, 0x12]. For bool each bit is an element.
    """
    wide = DTYPES[f"u{x.dtype.bits}"]
    count = x.dtype.bits // dtype.bits

    def part(element: Element) -> Element:
        """Return the bits of an element from `first_bit` on, as many as the smaller type has."""
        first_bit = element.position(x.rank, wide) * dtype.bits
        bits = element.bitcast(wide).binary("shift_right_logical", first_bit)  # as an unsigned integer
        if dtype.is_bool:
            return (bits & 1).to(dtype)
        return bits.to(DTYPES[f"u{dtype.bits}"]).bitcast(dtype)

    return ew.apply_several(builder, of_scalars(part), expand_dims(builder, x, [x.rank]), shape=(*x.shape, count))[0]


def join_bits(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the elements along the last axis, lowest bits first, to one element of a larger type `dtype`.

    u8 [0x34, 0x12] becomes u16 0x1234. For bool each element is a bit. Raise CompileError unless the last axis has as
    many elements as `dtype` needs.
    """
    wide = DTYPES[f"u{dtype.bits}"]
    narrow = x.dtype if x.dtype.is_bool else DTYPES[f"u{x.dtype.bits}"]
    count = dtype.bits // x.dtype.bits
    _check_joined(builder, x, dtype)
    # A tensor for each position along the last axis; they are combined as unsigned integers, without extended signs.
    slices = (slice_axis(builder, x, axis=x.rank - 1, start=n, limit=n + 1) for n in range(count))
    columns = [reshape(builder, column, x.shape[:-1]) for column in slices]

    def join(*elements: Element) -> Element:
        """Return a `dtype` element with the bits of several, lowest first. `narrow`, `wide`: types of their bits."""
        total = elements[0].bitcast(narrow).to(wide)
        for n, element in enumerate(elements[1:], 1):
            total = total | element.bitcast(narrow).to(wide).binary("shift_left", n * narrow.bits)
        return total.bitcast(dtype)

    return formula(builder, join, *columns)


def split_complex(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of complex numbers into smaller ones of type `dtype`, lowest bits first, along a new last axis."""
    parts = [builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x)]
    split_parts = [split_bits(builder, part, dtype.real) for part in parts]
    # The real part is split into r0, r1, the imaginary part into i0, i1. As in memory, with the order r0, r1, i0, i1,
    # the smaller numbers are r0 + r1 i and i0 + i1 i.
    pairs = concat(builder, split_parts, x.rank)
    real, imag = (slice_axis(builder, pairs, x.rank, start, pairs.shape[-1], stride=2) for start in (0, 1))
    return complex_of(builder, real, imag)


def join_complex(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the complex numbers along the last axis, lowest bits first, to one number of the larger type `dtype`."""
    _check_joined(builder, x, dtype)
    real, imag = (builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x))
    pairs = reshape(builder, stack(builder, [real, imag], x.rank), [*x.shape[:-1], 2 * x.shape[-1]])
    # As in memory: the lower half of the interleaved numbers are the bits of the real part.
    half = x.shape[-1]
    parts = []
    for start in (0, half):
        real_or_imag = slice_axis(builder, pairs, x.rank - 1, start=start, limit=start + half)
        parts.append(join_bits(builder, real_or_imag, dtype.real))
    return complex_of(builder, *parts)


def complex_of(builder: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor with given real and imaginary parts."""
    return ew.apply(builder, lambda s, u, v: s.complex(u, v), real, imag)


def _check_joined(builder: Builder, x: Tensor, dtype: DType) -> None:
    """Raise CompileError unless the last axis has as many elements as fit one element of `dtype`."""
    count = dtype.bits // x.dtype.bits
    if not x.rank or x.shape[-1] != count:
        raise builder.fail(f"the last axis of {x} must have {count} elements, whose bits make one of {dtype}")
