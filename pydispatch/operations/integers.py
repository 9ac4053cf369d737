"""Integer functions that are defined for all operands, and conversions between elements of different widths."""

from __future__ import annotations

from xdsl.dialects import arith

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DTYPES, DType, Kind
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import concat, expand_dims, reshape, slice_axis, stack


def _safe_divisor(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return rhs, or 1 where lhs / rhs is undefined: rhs is 0, or the smallest number is divided by -1."""
    one = scalars.const(1, rhs.dtype)
    unsafe = scalars.compare("eq", rhs, scalars.const(0, rhs.dtype))
    if rhs.dtype.kind is Kind.INT:
        least = scalars.const(-(1 << (rhs.dtype.bits - 1)), rhs.dtype)
        minus = scalars.binary(
            "and", scalars.compare("eq", rhs, scalars.const(-1, rhs.dtype)), scalars.compare("eq", lhs, least)
        )
        unsafe = scalars.binary("or", unsafe, minus)
    return scalars.select(unsafe, one, rhs)


def divide(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return lhs / rhs. Integers are rounded towards zero; an integer divided by 0 is -1 (all bits set)."""
    if not lhs.dtype.is_integer:
        return scalars.binary("div", lhs, rhs)
    quotient = scalars.binary("div", lhs, _safe_divisor(scalars, lhs, rhs))
    return scalars.select(
        scalars.compare("eq", rhs, scalars.const(0, rhs.dtype)), scalars.const(-1, lhs.dtype), quotient
    )


def remainder(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return the remainder of division towards zero, which has the sign of lhs; the remainder by 0 is lhs."""
    if not lhs.dtype.is_integer:
        return scalars.binary("rem", lhs, rhs)
    result = scalars.binary("rem", lhs, _safe_divisor(scalars, lhs, rhs))
    return scalars.select(scalars.compare("eq", rhs, scalars.const(0, rhs.dtype)), lhs, result)


def power(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return lhs to the power of rhs. An integer to a negative power is 0, except for 1 and -1."""
    if not lhs.dtype.is_integer:
        return scalars.binary("pow", lhs, rhs)
    # Binary exponentiation, unrolled over all bits of the exponent.
    one, zero = scalars.const(1, lhs.dtype), scalars.const(0, lhs.dtype)
    result, square, exponent = one, lhs, rhs
    for n in range(lhs.dtype.bits - (lhs.dtype.kind is Kind.INT)):
        is_odd = scalars.compare("ne", scalars.binary("and", exponent, one), zero)
        result = scalars.select(is_odd, scalars.binary("mul", result, square), result)
        if n < lhs.dtype.bits - 1:
            square = scalars.binary("mul", square, square)
            exponent = scalars.binary("shift_right_logical", exponent, one)
    if lhs.dtype.kind is not Kind.INT:
        return result
    is_odd = scalars.compare("ne", scalars.binary("and", rhs, one), zero)
    minus = scalars.const(-1, lhs.dtype)
    of_minus = scalars.select(scalars.compare("eq", lhs, minus), scalars.select(is_odd, minus, one), zero)
    inverse = scalars.select(scalars.compare("eq", lhs, one), one, of_minus)
    return scalars.select(scalars.compare("lt", rhs, zero), inverse, result)


def shift(name: str, scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Shift by any number of bits; shifts by the width or more give 0, or copies of the sign for
    shift_right_arithmetic. `name` is shift_left, shift_right_logical or shift_right_arithmetic.
    """
    bits = lhs.dtype.bits
    unsigned = DTYPES[f"u{bits}"] if bits > 1 else lhs.dtype
    amount = Scalar(unsigned, rhs.parts)
    last = scalars.const(bits - 1, unsigned)
    inside = scalars.compare("le", amount, last)
    within = Scalar(lhs.dtype, scalars.select(inside, amount, last).parts)
    shifted = scalars.binary(name, lhs, within)
    return shifted if name == "shift_right_arithmetic" else scalars.select(inside, shifted, scalars.const(0, lhs.dtype))


def multiply_high(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return the upper half of the double-width product of two integers."""
    bits = lhs.dtype.bits
    if not lhs.dtype.is_integer:
        raise UnsupportedTypeError(f"the upper half of a product of {lhs.dtype} is not defined")
    if bits == 64:
        extended = arith.MulSIExtendedOp if lhs.dtype.kind is Kind.INT else arith.MulUIExtendedOp
        op = extended(lhs.value, rhs.value)
        scalars.block.add_op(op)
        return Scalar(lhs.dtype, (op.results[1],))
    wide = DTYPES[f"{lhs.dtype.name[0]}{max(2 * bits, 8)}"]
    product = scalars.binary("mul", scalars.convert(lhs, wide), scalars.convert(rhs, wide))
    return scalars.convert(scalars.binary("shift_right", product, scalars.const(bits, wide)), lhs.dtype)


def split_bits(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of each element into elements of a smaller type, lowest bits first, along a new last axis. For
    bool each bit is an element.
    """
    wide = DTYPES[f"u{x.dtype.bits}"]
    count = x.dtype.bits // dtype.bits

    def part(scalars: Scalars, element: Scalar) -> Scalar:
        """Return the part of a wider element that the last index names, the lowest bits first."""
        at = scalars.binary("mul", scalars.position(x.rank, wide), scalars.const(dtype.bits, wide))
        bits = scalars.binary("shift_right_logical", scalars.bitcast(element, wide), at)
        if dtype.is_bool:
            return scalars.convert(scalars.binary("and", bits, scalars.const(1, wide)), dtype)
        return scalars.bitcast(scalars.convert(bits, DTYPES[f"u{dtype.bits}"]), dtype)

    return ew.apply_several(builder, part, expand_dims(builder, x, [x.rank]), shape=(*x.shape, count))[0]


def join_bits(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the elements along the last axis, lowest bits first, to one element of a larger type."""
    wide = DTYPES[f"u{dtype.bits}"]
    narrow = x.dtype if x.dtype.is_bool else DTYPES[f"u{x.dtype.bits}"]
    count = dtype.bits // x.dtype.bits
    _check_joined(builder, x, dtype)
    columns = [reshape(builder, slice_axis(builder, x, x.rank - 1, n, n + 1), x.shape[:-1]) for n in range(count)]

    def join(scalars: Scalars, *elements: Scalar) -> Scalar:
        """Return one element with the bits of several."""
        total = scalars.const(0, wide)
        for n, element in enumerate(elements):
            bits = scalars.convert(scalars.bitcast(element, narrow), wide)
            total = scalars.binary(
                "or", total, scalars.binary("shift_left", bits, scalars.const(n * narrow.bits, wide))
            )
        return scalars.bitcast(total, dtype)

    return ew.apply(builder, join, *columns)


def split_complex(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of each complex number into smaller complex numbers, lowest bits first, along a new last axis."""
    parts = [split_bits(builder, builder.wrap(x.dtype.real, x.shape, part), dtype.real) for part in builder.parts(x)]
    pairs = concat(builder, parts, x.rank)  # real part, then imaginary part, as in memory
    return complex_of(builder, *(slice_axis(builder, pairs, x.rank, n, pairs.shape[-1], 2) for n in range(2)))


def join_complex(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the complex numbers along the last axis, lowest bits first, to one number of a larger type."""
    _check_joined(builder, x, dtype)
    real, imag = (builder.wrap(x.dtype.real, x.shape, part) for part in builder.parts(x))
    pairs = reshape(builder, stack(builder, [real, imag], x.rank), [*x.shape[:-1], 2 * x.shape[-1]])
    half = x.shape[-1]
    parts = [
        join_bits(builder, slice_axis(builder, pairs, x.rank - 1, n * half, (n + 1) * half), dtype.real)
        for n in range(2)
    ]
    return complex_of(builder, *parts)


def complex_of(builder: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return the complex tensor with given real and imaginary parts."""
    return ew.apply(builder, lambda s, u, v: s.complex(u, v), real, imag)


def _check_joined(builder: Builder, x: Tensor, dtype: DType) -> None:
    """Raise CompileError unless the last axis has as many elements as fit one element of `dtype`."""
    count = dtype.bits // x.dtype.bits
    if not x.rank or x.shape[-1] != count:
        raise builder.fail(f"the last axis of {x} must have {count} elements, whose bits make one of {dtype}")
