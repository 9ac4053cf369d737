"""Roundings to whole numbers: math.round, math.roundeven, math.trunc."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.formats import format_of
from pydispatch.compiler.kernel_ir.math.numbers import Number, choose


def away_from_zero(x: Number) -> Number:
    """Return the nearest integer; halves are rounded away from zero."""
    down = x.truncated()
    away = (x - down).magnitude() >= 0.5
    return choose(away, down + x.new(1.0).with_sign_of(x), down).with_sign_of(x)  # the sign of -0 is kept


def to_even(x: Number) -> Number:
    """Return the nearest integer; halves are rounded to the even one."""
    size, limit = x.magnitude(), 2.0 ** format_of(x).fraction  # numbers from `limit` on have no fraction
    # The sum has no digits after the point: the addition rounds to an integer.
    return choose(size < limit, ((size + limit) - limit).with_sign_of(x), x)


def toward_zero(x: Number) -> Number:
    """Return x rounded toward zero."""
    return x.magnitude().floor().with_sign_of(x)
