"""Maximum and minimum of floats: arith.maximumf, arith.minimumf, arith.maxnumf, arith.minnumf."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.numbers import Number, choose


def maximum(x: Number, y: Number) -> Number:
    """Return the larger number; NaN if either is NaN. -0 is below +0."""
    return _or_nan(_larger(x, y), x, y)


def minimum(x: Number, y: Number) -> Number:
    """Return the smaller number; NaN if either is NaN. -0 is below +0."""
    return _or_nan(_smaller(x, y), x, y)


def maximum_number(x: Number, y: Number) -> Number:
    """Return the larger number; if one operand is NaN, the other operand. -0 is below +0."""
    return _or_number(_larger(x, y), x, y)


def minimum_number(x: Number, y: Number) -> Number:
    """Return the smaller number; if one operand is NaN, the other operand. -0 is below +0."""
    return _or_number(_smaller(x, y), x, y)


def _larger(x: Number, y: Number) -> Number:
    """Return the larger of two numbers; equal numbers have equal bits, or are zeros of unlike signs."""
    return choose(x.equals(y), (x.bits() & y.bits()).as_float(), choose(x > y, x, y))


def _smaller(x: Number, y: Number) -> Number:
    """Return the smaller of two numbers; equal numbers have equal bits, or are zeros of unlike signs."""
    return choose(x.equals(y), (x.bits() | y.bits()).as_float(), choose(x < y, x, y))


def _or_nan(extreme: Number, x: Number, y: Number) -> Number:
    """Return the extreme of x and y; NaN if one of them is NaN."""
    return choose(x.is_nan(), x, choose(y.is_nan(), y, extreme))


def _or_number(extreme: Number, x: Number, y: Number) -> Number:
    """Return the extreme of x and y; if one of them is NaN, the other number."""
    return choose(x.is_nan(), y, choose(y.is_nan(), x, extreme))
