"""Scalars recognized as functions of quantized elements, and their sums and products."""

from __future__ import annotations

from pydispatch.compiler.fusion.quantized.affine import Constant, Integer, Real, added, integer_range, scaled, shifted

MOST_TERMS = 64
"""Maximum number of terms of a sum that is recognized as one scalar. Residual networks add a few; a kernel with more
terms takes longer than one that reads a stored sum."""

EXACT_WIDTH = 16
"""Maximum width in bits of the stored integers that affine functions in f32 convert each by itself. Differences of two
such integers are exact in f32. Sums of wider integers are computed in i32 before the conversion."""


class Unrecognized(Exception):
    """Signal that a scalar is not computed from quantized elements and constants alone."""


Value = Real | Integer | Constant
"""A scalar: a number, an i32 that may be too large for f32, or a constant."""


def sum_of(lhs: Real | Constant, rhs: Real | Constant) -> Real | Constant:
    """Add two scalars. Raises Unrecognized if the sum has more than MOST_TERMS terms."""
    if isinstance(lhs, Real):
        if isinstance(rhs, Real) and len(lhs.terms) + len(rhs.terms) > MOST_TERMS:
            raise Unrecognized
        return added(lhs, rhs) if isinstance(rhs, Real) else shifted(lhs, rhs)
    return shifted(rhs, lhs) if isinstance(rhs, Real) else lhs + rhs


def product_of(lhs: Real | Constant, rhs: Real | Constant) -> Real | Constant:
    """Multiply two scalars. Raises Unrecognized unless one of them is a constant."""
    if isinstance(lhs, Real):
        if isinstance(rhs, Real):
            raise Unrecognized
        return scaled(lhs, rhs)
    return scaled(rhs, lhs) if isinstance(rhs, Real) else lhs * rhs


def fits(value: Value, width: int, signed: bool) -> bool:
    """Return whether an integer type of `width` bits, signed or not, has all values that a number may have.

    Only the range of a `Real` is known. An i32 or a constant counts as unbounded, and the result is False.
    """
    low, high = value.range if isinstance(value, Real) else (-float("inf"), float("inf"))
    least, most = integer_range(width, signed)
    return least <= low <= high <= most
