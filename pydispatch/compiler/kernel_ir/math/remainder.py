"""arith.remf exactly, as C's fmod: long division of the digits. A device's own may be a quotient times the divisor."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.compiler.kernel_ir.math.control_flow import repeated
from pydispatch.compiler.kernel_ir.math.formats import INFINITY, NAN, Format, format_of
from pydispatch.compiler.kernel_ir.math.numbers import Number, Word, choose

STEPS = 4
"""Steps of the long division in an iteration of the loop. With more, the end of the loop is tested less often, but the
last iteration has more steps that change nothing. For most quotients, the step before the loop suffices."""


def remainder(x: Number, y: Number) -> Number:
    """Return x - y trunc(x / y), which is exact and has the sign of x.

    It is NaN for an infinite x and for y = 0, and x for an infinite y.

    With |x| = a 2^i and |y| = b 2^j, where a and b are integers, the magnitude of the remainder is
    (a 2^(i - j) mod b) 2^j. It is computed by long division of a, followed by i - j zeros in binary, by b: each step
    appends as many zeros to the remainder so far as fit into a word, and divides. In f32 these are 8, so that
    i - j = 20 takes 3 steps.
    """
    format = format_of(x)
    (dividend, dividend_exponent), (divisor, divisor_exponent) = _digits_and_exponent(x), _digits_and_exponent(y)
    divisor = choose(divisor.equals(0), 1, divisor)  # nothing divides by 0: y = 0 gives NaN below
    # i - j above. If it is negative, |x| is less than |y|, and the result is x whatever the division gives.
    digits_left = dividend_exponent - divisor_exponent
    rest = _long_division(dividend, divisor, digits_left, format)
    magnitude = _scaled(rest, divisor_exponent, format)
    remainder_or_x = choose(x.magnitude() < y.magnitude(), x.magnitude(), magnitude).with_sign_of(x)
    gives_nan = y.equals(0.0) | x.magnitude().equals(INFINITY) | x.is_nan() | y.is_nan()
    return choose(gives_nan, NAN, remainder_or_x)


def _long_division(dividend: Word, divisor: Word, digits_left: Word, format: Format) -> Word:
    """Return the remainder of `dividend`, followed by `digits_left` zeros in binary, divided by `divisor`."""
    room = format.width - format.fraction - 1  # free bits of a word that has a remainder of fraction + 1 digits

    def step(rest: Word, digits_left: Word) -> tuple[Word, Word]:
        """Return (rest, digits left) after a step of the division, of up to `room` binary digits.

        `rest` is the remainder so far, `digits_left` the number of digits of the quotient that are not yet computed.
        """
        shift = choose(digits_left > room, room, digits_left)
        return (rest << shift) % divisor, digits_left - shift

    def steps(carried: Sequence[Word]) -> Sequence[Word]:
        """Return (rest, digits left) after `STEPS` steps, one iteration of the loop."""
        rest, digits_left = carried
        for _ in range(STEPS):
            rest, digits_left = step(rest, digits_left)
        return rest, digits_left

    rest, digits_left = step(dividend % divisor, choose(digits_left < 0, 0, digits_left))
    # An upper bound of the digits of a quotient: one for each exponent, and for each digit of a subnormal divisor.
    most_digits = (1 << (format.width - 1 - format.fraction)) + format.fraction
    most_iterations = -(-most_digits // (STEPS * room))
    # The carried values are (rest, digits left): go on while digits are left.
    rest, _ = repeated((rest, digits_left), lambda carried: carried[1] > 0, steps, most_iterations)
    return rest


def _digits_and_exponent(value: Number) -> tuple[Word, Word]:
    """Return (digits, e) of a float whose magnitude is digits * 2^(e - bias - fraction), both integers.

    e is the exponent field, but 1 instead of 0 for subnormal numbers, whose digits lack the leading 1.
    """
    fraction = format_of(value).fraction
    bits = value.magnitude().bits()
    exponent, digits = bits >> fraction, bits & ((1 << fraction) - 1)
    subnormal = exponent.equals(0)
    return choose(subnormal, digits, digits | (1 << fraction)), choose(subnormal, 1, exponent)


def _scaled(rest: Word, exponent: Word, format: Format) -> Number:
    """Return rest * 2^(exponent - bias - fraction) as a float: `rest` units in the last place of an exponent field.

    `exponent` is the field, which counts as 1 for subnormal numbers. The product is exact: `rest` has at most
    `fraction` + 1 digits.
    """
    fraction = format.fraction
    # The last place is 2^unit_exponent. The bits of a normal product are the bits of the float `rest` with
    # unit_exponent added to its exponent field.
    rest_bits, unit_exponent = rest.to_float().bits(), exponent - (format.bias + fraction)
    # The bits of a subnormal product are its multiple of the smallest number, 2^(1 - bias - fraction). Where the shift
    # is more than `fraction`, the product is normal or 0.
    subnormal_shift = exponent - 1
    subnormal = rest << choose(subnormal_shift > fraction, fraction, subnormal_shift)
    exponent_field = (rest_bits >> fraction) + unit_exponent
    is_subnormal = (exponent_field <= 0) | rest.equals(0)
    return choose(is_subnormal, subnormal, rest_bits + (unit_exponent << fraction)).as_float()
