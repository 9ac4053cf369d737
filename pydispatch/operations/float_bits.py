"""Operations on the bits of floats: total and weak order, the next number, fewer bits."""

from __future__ import annotations

import math

from pydispatch.graph.dtypes import DTYPES, F32, DType
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars

_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def _bits_of(scalars: Scalars, x: Scalar) -> tuple[Scalar, DType]:
    """Return the bits of a float as an unsigned integer, and the type of that."""
    if x.dtype.name not in _MANTISSA:
        raise UnsupportedTypeError(f"the bits of {x.dtype} are not looked at here")
    unsigned = DTYPES[f"u{x.dtype.bits}"]
    return scalars.bitcast(x, unsigned), unsigned


def total_order(scalars: Scalars, x: Scalar) -> Scalar:
    """Return a signed integer for a float, such that comparing the integers is IEEE 754's totalOrder of the floats."""
    if x.dtype.bits < 8:
        x = scalars.convert(x, F32)
    signed = DTYPES[f"i{x.dtype.bits}"]
    bits = scalars.bitcast(x, signed)
    flipped = scalars.binary("xor", bits, scalars.const((1 << (signed.bits - 1)) - 1, signed))
    return scalars.select(scalars.compare("lt", bits, scalars.const(0, signed)), flipped, bits)


def weak_order(scalars: Scalars, x: Scalar) -> Scalar:
    """Return a signed integer for a float. Comparing the integers orders the floats, with one zero and one NaN.

    NaN is the largest.
    """
    x = scalars.select(scalars.compare("eq", x, scalars.const(0.0, x.dtype)), scalars.const(0.0, x.dtype), x)
    return total_order(scalars, scalars.select(scalars.unary("is_nan", x), scalars.const(math.nan, x.dtype), x))


def next_after(scalars: Scalars, x: Scalar, y: Scalar) -> Scalar:
    """Return the next representable float after x in the direction of y."""
    bits, unsigned = _bits_of(scalars, x)
    sign_bit = 1 << (unsigned.bits - 1)
    y_bits, _ = _bits_of(scalars, y)
    one, zero = scalars.const(1, unsigned), scalars.const(0.0, x.dtype)
    y_sign = scalars.binary("and", y_bits, scalars.const(sign_bit, unsigned))
    smallest = scalars.bitcast(scalars.binary("or", y_sign, one), x.dtype)
    same_sign = scalars.compare("eq", scalars.binary("and", bits, scalars.const(sign_bit, unsigned)), y_sign)
    sizes = [scalars.binary("and", v, scalars.const(sign_bit - 1, unsigned)) for v in (bits, y_bits)]
    inwards = scalars.binary("or", scalars.compare("gt", sizes[0], sizes[1]), scalars.unary("not", same_sign))
    step = scalars.select(inwards, scalars.const(-1, unsigned), one)
    result = scalars.bitcast(scalars.binary("add", bits, step), x.dtype)
    result = scalars.select(scalars.compare("eq", x, zero), smallest, result)
    result = scalars.select(scalars.compare("eq", x, y), y, result)
    nan = scalars.binary("or", scalars.unary("is_nan", x), scalars.unary("is_nan", y))
    return scalars.select(nan, scalars.const(math.nan, x.dtype), result)


def reduce_precision(scalars: Scalars, x: Scalar, exponent: int, mantissa: int) -> Scalar:
    """Round x, ties to even, to a float with the given numbers of exponent and mantissa bits.

    Values out of range become infinite. NaN becomes infinite too if there is no mantissa, which would distinguish it
    (as in XLA's evaluator).
    """
    if x.dtype.is_float and x.dtype.bits <= 8:
        return scalars.convert(reduce_precision(scalars, scalars.convert(x, F32), exponent, mantissa), x.dtype)
    bits, unsigned = _bits_of(scalars, x)
    mantissa_bits = _MANTISSA[x.dtype.name]
    exponent_bits = unsigned.bits - 1 - mantissa_bits

    def c(value: int) -> Scalar:
        return scalars.const(value, unsigned)

    if mantissa < mantissa_bits:
        dropped = mantissa_bits - mantissa
        last = scalars.binary("and", scalars.binary("shift_right_logical", bits, c(dropped)), c(1))
        up = scalars.binary("add", last, c((1 << (dropped - 1)) - 1))
        bits = scalars.binary("and", scalars.binary("add", bits, up), c(-1 << dropped))
    if exponent < exponent_bits:
        bias, reduced = (1 << (exponent_bits - 1)) - 1, (1 << (exponent - 1)) - 1
        field = scalars.binary("and", bits, c(((1 << exponent_bits) - 1) << mantissa_bits))
        sign = scalars.binary("and", bits, c(1 << (unsigned.bits - 1)))
        infinite = scalars.binary("or", sign, c(((1 << exponent_bits) - 1) << mantissa_bits))
        over = scalars.compare("gt", field, c((bias + reduced) << mantissa_bits))
        under = scalars.compare("le", field, c((bias - reduced) << mantissa_bits))
        bits = scalars.select(over, infinite, scalars.select(under, sign, bits))
    result = scalars.bitcast(bits, x.dtype)
    return scalars.select(scalars.unary("is_nan", x), x if mantissa else scalars.const(math.inf, x.dtype), result)
