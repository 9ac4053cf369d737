"""math.round."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.numbers import Number, choose


def away_from_zero(x: Number) -> Number:
    """Return the nearest whole number; halves go away from zero."""
    down = x.whole()
    away = (x - down).size() >= 0.5
    return choose(away, down + x.new(1.0).with_sign_of(x), down).with_sign_of(x)
