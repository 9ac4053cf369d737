"""Exact fixed-point arithmetic in 64 bits."""

from __future__ import annotations

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I16, I32, I64, DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reductions import largest, least


def scaled(value: Element, multiplier: Element, shift: Element, double_round: bool) -> Element:
    """Return value * multiplier / 2**shift, rounded to nearest, ties towards infinity.

    Value 5, multiplier 3 and shift 1 give (15 + 1) >> 1 = 8.

    All operands are i64; shift is at least 1. double_round: whether to round as TOSA's DOUBLE_ROUND.
    """
    half = value.const(1).binary("shift_left", shift - 1)  # added before the shift, so that the result is rounded
    if double_round:
        # A shift above 31 rounds twice. The first rounding, by 31 bits, adds 2**30 with the sign of the value.
        first_half = (value >= 0).where(value.const(1 << 30), value.const(-(1 << 30)))
        half = half + (shift > 31).where(first_half, value.const(0))
    return (value * multiplier + half).binary("shift_right_arithmetic", shift)


def reciprocal(count: Element) -> tuple[Element, Element]:
    """Return (multiplier, shift), by which `scaled` divides: multiplier / 2**shift is nearly 1 / count.

    count: i64, at least 1. The formula is that of TOSA's `reciprocal_scale`: k is the number of bits of count - 1, so
    that the multiplier has 30 to 31 bits.
    """
    k = -(count - 1).unary("count_leading_zeros") + 64
    return count.const((1 << 30) + 1).binary("shift_left", k) / count, k + 30


def saturated(value: Element, dtype: DType) -> Element:
    """Return an integer clamped to the range of `dtype`, an integer type of at most its width, and converted to it."""
    return value.max(int(least(dtype))).min(int(largest(dtype))).to(dtype)


def shifted(builder: Builder, x: Tensor, zero_point: Tensor) -> Tensor:
    """Return integers minus their zero point, a tensor of one element, in a wider type that holds all results.

    Floats, and integers whose zero point is known to be 0, are returned unchanged, in their own type.
    """
    known = zero_point.numbers
    if x.dtype.is_float or (known is not None and not known.any()):
        return x
    wide = I16 if x.dtype.bits <= 8 else I32 if x.dtype.bits <= 16 else I64
    return formula(builder, lambda u, zero: u.to(wide) - zero.to(wide), x, shapes.reshape(builder, zero_point, []))
