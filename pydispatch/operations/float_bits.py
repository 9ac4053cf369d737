"""Operations on the bits of floats: total and weak order, the next number, fewer bits."""

from __future__ import annotations

import math

from pydispatch.graph.dtypes import DTYPES, F32
from pydispatch.operations.formulas import Element, of_scalars
from pydispatch.operations.reals import UnsupportedTypeError

_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
"""Stored bits of the fraction, by type."""


def _bits_of(x: Element) -> Element:
    """Return the bits of a float as an unsigned integer of its width; raise UnsupportedTypeError below 16 bits."""
    if x.dtype.name not in _MANTISSA:
        raise UnsupportedTypeError(f"the bits of {x.dtype} are not looked at here")
    return x.bitcast(DTYPES[f"u{x.dtype.bits}"])


def _total_order(x: Element) -> Element:
    """Return an integer that orders a float among all others, by its bits: -NaN, -inf, ..., -0.0, 0.0, ..., inf, NaN.

    The bits of positive floats, as integers, have the order of the floats. Those of negative ones have the reverse
    order, so all but their sign bit are inverted.
    """
    # Floats of 6 bits have no integer type of their width: all floats below 8 bits are ordered as f32.
    x = x.to(F32) if x.dtype.bits < 8 else x
    bits = x.bitcast(DTYPES[f"i{x.dtype.bits}"])
    return (bits < 0).where(bits ^ ((1 << (x.dtype.bits - 1)) - 1), bits)


@of_scalars
def total_order(x: Element) -> Element:
    """Return a signed integer for a float, such that comparing the integers is IEEE 754's totalOrder of the floats."""
    return _total_order(x)


@of_scalars
def weak_order(x: Element) -> Element:
    """Return a signed integer for a float. Comparing the integers orders the floats, with one zero and one NaN.

    NaN is the largest.
    """
    x = x.is_equal(0.0).where(0.0, x)
    return _total_order(x.unary("is_nan").where(math.nan, x))


def next_after(x: Element, y: Element) -> Element:
    """Return the next representable float after x in the direction of y; y if they are equal, NaN if one is NaN."""
    bits, y_bits = _bits_of(x), _bits_of(y)
    sign_bit = 1 << (x.dtype.bits - 1)
    y_sign = y_bits & sign_bit
    # Next to a zero is the smallest subnormal number with the sign of y.
    smallest = (y_sign | 1).bitcast(x.dtype)
    has_same_sign = (bits & sign_bit).is_equal(y_sign)
    # A step towards zero decrements the bits: y has a smaller magnitude or the other sign.
    is_inwards = ((bits & (sign_bit - 1)) > (y_bits & (sign_bit - 1))) | ~has_same_sign
    # Floats of one sign have the order of their bits: the next one has these bits plus or minus 1.
    result = (bits + is_inwards.where(bits.const(-1), 1)).bitcast(x.dtype)
    result = x.is_equal(y).where(y, x.is_equal(0.0).where(smallest, result))
    return (x.unary("is_nan") | y.unary("is_nan")).where(math.nan, result)


def reduce_precision(x: Element, exponent: int, mantissa: int) -> Element:
    """Round x, ties to even, to a float with the given numbers of exponent and mantissa bits.

    The result has the type of x. Values out of range become infinite. With fewer bits of the exponent, values below the
    smallest normal number become 0. NaN becomes infinite too if there is no mantissa, which would distinguish it (as in
    XLA's evaluator).
    """
    if x.dtype.is_float and x.dtype.bits <= 8:
        return reduce_precision(x.to(F32), exponent, mantissa).to(x.dtype)
    # `exponent` and `mantissa` are the wanted numbers of bits; `exponent_bits` and `mantissa_bits` those of x.
    bits = _bits_of(x)
    mantissa_bits = _MANTISSA[x.dtype.name]
    exponent_bits = x.dtype.bits - 1 - mantissa_bits
    if mantissa < mantissa_bits:
        dropped = mantissa_bits - mantissa
        last_kept = bits.binary("shift_right_logical", dropped) & 1
        # Half a unit of the last kept bit, less 1 if that bit is 0: ties are rounded to even. A carry into the exponent
        # is the next power of two.
        bits = (bits + (last_kept + ((1 << (dropped - 1)) - 1))) & (-1 << dropped)
    if exponent < exponent_bits:
        # Floats store their exponent plus a bias: `bias` of x, `reduced_bias` of the smaller float, whose exponents are
        # from 1 - reduced_bias to reduced_bias. Infinity has all bits of the exponent.
        bias = (1 << (exponent_bits - 1)) - 1
        reduced_bias = (1 << (exponent - 1)) - 1
        infinity = ((1 << exponent_bits) - 1) << mantissa_bits
        biased_exponent = bits & infinity  # shifted by mantissa_bits
        sign = bits & (1 << (x.dtype.bits - 1))
        is_too_small = biased_exponent <= (bias - reduced_bias) << mantissa_bits
        is_too_large = biased_exponent > (bias + reduced_bias) << mantissa_bits
        bits = is_too_large.where(sign | infinity, is_too_small.where(sign, bits))
    return x.unary("is_nan").where(x if mantissa else math.inf, bits.bitcast(x.dtype))
