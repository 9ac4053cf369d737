"""arith.remf exactly, as C's fmod: long division of the digits. A device's own may be a quotient times the divisor."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.compiler.kernel_ir.math.control_flow import repeated
from pydispatch.compiler.kernel_ir.math.formats import INFINITY, NAN, format_of
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word, choose

STEPS = 4
"""Of the division in an iteration; one more stands before them, and is all for most quotients."""


def remainder(x: Number, y: Number) -> Number:
    """x - y trunc(x / y), with the sign of x. NaN for an infinite x and for y = 0; x for an infinite y."""
    format = format_of(x)
    width, fraction = format.width, format.fraction
    room = width - fraction - 1  # digits that a rest can be shifted by

    def parts(value: Number) -> tuple[Word, Word]:
        """(digits, exponent) of a size; the exponent 1 for subnormal numbers too."""
        bits = value.magnitude().bits()
        exponent, digits = bits >> fraction, bits & (1 << fraction) - 1
        subnormal = exponent.equals(0)
        return choose(subnormal, digits, digits | 1 << fraction), choose(subnormal, 1, exponent)

    (mine, high), (divisor, low) = parts(x), parts(y)
    divisor = choose(divisor.equals(0), 1, divisor)  # y = 0 gives NaN below

    def step(rest: Word, left: Word) -> tuple[Word, Word]:
        now = choose(left > room, room, left)
        return (rest << now) % divisor, left - now

    def steps(carried: Sequence[Word]) -> Sequence[Word]:
        rest, left = carried
        for _ in range(STEPS):
            rest, left = step(rest, left)
        return rest, left

    left = high - low
    rest, left = step(mine % divisor, choose(left < 0, 0, left))
    most = -(-((1 << (width - 1 - fraction)) + fraction) // (STEPS * room))
    rest, _ = repeated((rest, left), lambda carried: carried[1] > 0, steps, most)
    # `rest` units of the divisor's last place: a normal number, or the bits of a subnormal one.
    whole, unit = rest.to_float().bits(), low - (format.bias + fraction)
    down = low - 1
    subnormal = rest << choose(down > fraction, fraction, down)
    small = ((whole >> fraction) + unit <= 0) | rest.equals(0)
    remainder_ = choose(small, subnormal, whole + (unit << fraction)).as_float()
    y_or_x = choose(x.magnitude() < y.magnitude(), x.magnitude(), remainder_).with_sign_of(x)
    strange = y.equals(0.0) | x.magnitude().equals(INFINITY) | x.is_nan() | y.is_nan()
    return choose(strange, NAN, y_or_x)
