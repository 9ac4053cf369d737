"""Functions of integers that are defined for all operands, and the bits of numbers in other units."""

from __future__ import annotations

from xdsl.dialects import arith

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import DTYPES, DType, Kind
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.reals import Scalar, UnsupportedTypeError
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.ops.shapes import concat, expand_dims, reshape, slice_axis, stack


def _safe_divisor(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """b, or 1 where division by b is not defined: b is 0, or the least number is divided by -1."""
    one = s.const(1, b.dtype)
    unsafe = s.compare("eq", b, s.const(0, b.dtype))
    if b.dtype.kind is Kind.INT:
        least = s.const(-(1 << (b.dtype.bits - 1)), b.dtype)
        minus = s.binary("and", s.compare("eq", b, s.const(-1, b.dtype)), s.compare("eq", a, least))
        unsafe = s.binary("or", unsafe, minus)
    return s.select(unsafe, one, b)


def divide(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """Return a / b, for integers rounded towards zero; an integer divided by 0 is all ones."""
    if not a.dtype.is_integer:
        return s.binary("div", a, b)
    made = s.binary("div", a, _safe_divisor(s, a, b))
    return s.select(s.compare("eq", b, s.const(0, b.dtype)), s.const(-1, a.dtype), made)


def remainder(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """Return the remainder of division towards zero, with the sign of a; of an integer divided by 0 the integer."""
    if not a.dtype.is_integer:
        return s.binary("rem", a, b)
    made = s.binary("rem", a, _safe_divisor(s, a, b))
    return s.select(s.compare("eq", b, s.const(0, b.dtype)), a, made)


def power(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """Return a to the power of b. An integer to a negative power is 0, but for 1 and -1."""
    if not a.dtype.is_integer:
        return s.binary("pow", a, b)
    # Squares and products for each bit of the exponent, as many as it has.
    one, zero = s.const(1, a.dtype), s.const(0, a.dtype)
    result, square, rest = one, a, b
    for n in range(a.dtype.bits - (a.dtype.kind is Kind.INT)):
        odd = s.compare("ne", s.binary("and", rest, one), zero)
        result = s.select(odd, s.binary("mul", result, square), result)
        if n < a.dtype.bits - 1:
            square = s.binary("mul", square, square)
            rest = s.binary("shift_right_logical", rest, one)
    if a.dtype.kind is not Kind.INT:
        return result
    odd = s.compare("ne", s.binary("and", b, one), zero)
    minus = s.const(-1, a.dtype)
    of_minus = s.select(s.compare("eq", a, minus), s.select(odd, minus, one), zero)
    inverse = s.select(s.compare("eq", a, one), one, of_minus)
    return s.select(s.compare("lt", b, zero), inverse, result)


def shift(name: str, s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """shift_left, shift_right_logical or shift_right_arithmetic by any number: bits that are shifted out are gone."""
    bits = a.dtype.bits
    unsigned = DTYPES[f"u{bits}"] if bits > 1 else a.dtype
    amount = Scalar(unsigned, b.parts)
    last = s.const(bits - 1, unsigned)
    inside = s.compare("le", amount, last)
    within = Scalar(a.dtype, s.select(inside, amount, last).parts)
    made = s.binary(name, a, within)
    return made if name == "shift_right_arithmetic" else s.select(inside, made, s.const(0, a.dtype))


def multiply_high(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """Return the upper half of the product of two integers, which has twice their bits."""
    bits = a.dtype.bits
    if not a.dtype.is_integer:
        raise UnsupportedTypeError(f"the upper half of a product of {a.dtype} is not defined")
    if bits == 64:
        extended = arith.MulSIExtendedOp if a.dtype.kind is Kind.INT else arith.MulUIExtendedOp
        op = extended(a.value, b.value)
        s.block.add_op(op)
        return Scalar(a.dtype, (op.results[1],))
    wide = DTYPES[f"{a.dtype.name[0]}{max(2 * bits, 8)}"]
    product = s.binary("mul", s.convert(a, wide), s.convert(b, wide))
    return s.convert(s.binary("shift_right", product, s.const(bits, wide)), a.dtype)


def split_bits(b: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of each element into several elements of a smaller type, lowest first, along a new last axis; each
    element of truth values is one bit.
    """
    wide = DTYPES[f"u{x.dtype.bits}"]
    count = x.dtype.bits // dtype.bits

    def part(s: Scalars, element: Scalar) -> Scalar:
        at = s.binary("mul", s.position(x.rank, wide), s.const(dtype.bits, wide))
        bits = s.binary("shift_right_logical", s.bitcast(element, wide), at)
        if dtype.is_bool:
            return s.convert(s.binary("and", bits, s.const(1, wide)), dtype)
        return s.bitcast(s.convert(bits, DTYPES[f"u{dtype.bits}"]), dtype)

    return ew.apply_several(b, part, expand_dims(b, x, [x.rank]), shape=(*x.shape, count))[0]


def join_bits(b: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the elements along the last axis, lowest bits first, to one element of a larger type."""
    wide = DTYPES[f"u{dtype.bits}"]
    narrow = x.dtype if x.dtype.is_bool else DTYPES[f"u{x.dtype.bits}"]
    count = dtype.bits // x.dtype.bits
    _check_joined(b, x, dtype)
    columns = [reshape(b, slice_axis(b, x, x.rank - 1, n, n + 1), x.shape[:-1]) for n in range(count)]

    def join(s: Scalars, *elements: Scalar) -> Scalar:
        total = s.const(0, wide)
        for n, element in enumerate(elements):
            bits = s.convert(s.bitcast(element, narrow), wide)
            total = s.binary("or", total, s.binary("shift_left", bits, s.const(n * narrow.bits, wide)))
        return s.bitcast(total, dtype)

    return ew.apply(b, join, *columns)


def split_complex(b: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Split the bits of each complex number into several smaller complex numbers, lowest first, along a new last axis.
    """
    parts = [split_bits(b, b.wrap(x.dtype.real, x.shape, part), dtype.real) for part in b.parts(x)]
    pairs = concat(b, parts, x.rank)  # parts of both numbers, in the order of memory
    return complex_of(b, *(slice_axis(b, pairs, x.rank, n, pairs.shape[-1], 2) for n in range(2)))


def join_complex(b: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Join the complex numbers along the last axis, lowest bits first, to one of a larger type."""
    _check_joined(b, x, dtype)
    real, imag = (b.wrap(x.dtype.real, x.shape, part) for part in b.parts(x))
    pairs = reshape(b, stack(b, [real, imag], x.rank), [*x.shape[:-1], 2 * x.shape[-1]])
    half = x.shape[-1]
    parts = [join_bits(b, slice_axis(b, pairs, x.rank - 1, n * half, (n + 1) * half), dtype.real) for n in range(2)]
    return complex_of(b, *parts)


def complex_of(b: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers of two tensors of floats."""
    return ew.apply(b, lambda s, u, v: s.complex(u, v), real, imag)


def _check_joined(b: Builder, x: Tensor, dtype: DType) -> None:
    count = dtype.bits // x.dtype.bits
    if not x.rank or x.shape[-1] != count:
        raise b.fail(f"the last axis of {x} must have {count} elements, whose bits make one of {dtype}")
