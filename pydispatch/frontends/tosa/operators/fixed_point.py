"""Arithmetic of scaled integers, exact, in 64 bits."""

from __future__ import annotations

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I16, I32, I64, DType
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.reductions import largest, least


def scaled(value: Element, multiplier: Element, shift: Element, double_round: bool) -> Element:
    """value * multiplier / 2**shift, rounded to the nearest, of ties to the larger one. All are i64.

    double_round: as if the product were rounded to 31 bits less before.
    """
    half = value.const(1).binary("shift_left", shift - 1)
    if double_round:
        more = (value >= 0).where(value.const(1 << 30), value.const(-(1 << 30)))
        half = half + (shift > 31).where(more, value.const(0))
    return (value * multiplier + half).binary("shift_right_arithmetic", shift)


def reciprocal(count: Element) -> tuple[Element, Element]:
    """Return a multiplier and a shift that stand for 1 / count. count: i64, from 1."""
    k = -(count - 1).unary("count_leading_zeros") + 64
    return count.const((1 << 30) + 1).binary("shift_left", k) / count, k + 30


def saturated(value: Element, dtype: DType) -> Element:
    """Return an integer in a smaller type, clamped to its range."""
    return value.max(int(least(dtype))).min(int(largest(dtype))).to(dtype)


def shifted(builder: Builder, x: Tensor, zero_point: Tensor) -> Tensor:
    """Return integers minus their zero point, in a type that holds all of them; x itself where that is 0,
    and floats.
    """
    known = zero_point.numbers
    if x.dtype.is_float or (known is not None and not known.any()):
        return x
    wide = I16 if x.dtype.bits <= 8 else I32 if x.dtype.bits <= 16 else I64
    return formula(builder, lambda u, zero: u.to(wide) - zero.to(wide), x, shapes.reshape(builder, zero_point, []))
