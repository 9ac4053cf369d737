"""Numbers as unevaluated sums of two floats, which have twice the precision."""

from __future__ import annotations

from typing import TypeAlias

from pydispatch.compiler.kernel_ir.math.numbers import Number

Pair: TypeAlias = tuple[Number, Number]
"""A number as an unevaluated sum, the larger part first."""


def two_sum(lhs: Number, rhs: Number | float) -> Pair:
    """Return the exact sum of two numbers as a pair: the rounded sum, and the error of its rounding."""
    s = lhs + rhs
    t = s - lhs
    return s, (lhs - (s - t)) + (rhs - t)


def fast_sum(lhs: Number, rhs: Number) -> Pair:
    """Return the exact sum of two numbers as a pair (Fast2Sum); requires |lhs| >= |rhs|, or lhs = 0."""
    s = lhs + rhs
    return s, rhs - (s - lhs)
