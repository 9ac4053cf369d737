"""powf and cbrt, and powers with whole exponents."""

from __future__ import annotations

from typing import Any

from pydispatch.compiler.kernel_ir.math.control_flow import repeated
from pydispatch.compiler.kernel_ir.math.exponentials import exp_parts
from pydispatch.compiler.kernel_ir.math.formats import INFINITY, NAN, format_of, scaled, two_product
from pydispatch.compiler.kernel_ir.math.logarithms import log_pair
from pydispatch.compiler.kernel_ir.math.numbers import N, Number, Truth, Word, choose
from pydispatch.errors import CompileError

MAX_CHAIN = 64
"""The largest exponent, known while compiling, that becomes a chain of products."""


def powf(x: Number, y: Number) -> Number:
    """Return x^y = exp(y log x), with the special cases of C's pow."""
    format, size, reach = format_of(x), x.magnitude(), y.magnitude()
    high, low = log_pair(choose((size > 0.0) & (size < INFINITY), size, 1.0))  # log |x| = high + low
    estimate = y * high
    underflows_at, overflows_at = format.exp_range  # the lower end has the larger magnitude
    finite_y = choose(estimate.magnitude() < -underflows_at, y, 0.0)  # 0 where the power is 0 or infinite
    whole, lost = two_product(finite_y, high)
    m, k = exp_parts(whole, lost + finite_y * low)  # y log |x| as a sum; its exponential is 2^k (1 + m)
    value = scaled(1.0 + m, k)
    value = choose(estimate > overflows_at, INFINITY, value)
    value = choose(estimate <= underflows_at, 0.0, value)
    # 0 and infinity as bases; an infinite y: by whether the base is larger than 1.
    grows = y > 0.0
    value = choose(size.equals(0.0), choose(grows, size.new(0.0), INFINITY), value)
    value = choose(size.equals(INFINITY), choose(grows, size.new(INFINITY), 0.0), value)
    infinite = reach.equals(INFINITY)
    value = choose(infinite, choose((size > 1.0) ^ grows, size.new(0.0), INFINITY), value)
    value = choose(size.equals(1.0) & infinite, 1.0, value)
    # y is an integer, and odd, when halving shows so; large numbers are even.
    half = 0.5 * reach
    integer = reach.truncated().equals(reach)
    odd = integer & half.truncated().differs(half) & (reach < 2.0 ** (format.fraction + 1))
    value = choose(x.is_negative() & odd, -value, value)
    value = choose((x < 0.0) & (size < INFINITY) & ~integer, NAN, value)
    value = choose(x.is_nan() | y.is_nan(), NAN, value)
    return choose(x.equals(1.0) | y.equals(0.0), 1.0, value)


def cbrt(x: Number) -> Number:
    """Return the cube root of x.

    The first guess divides the exponent by three. Steps of Halley's method refine it, and a last correction step with
    exact products removes the rounding error of those steps.
    """
    format, size = format_of(x), x.magnitude()
    guess_bits, steps, largest_exponent, scale_exponent = format.cube_root
    root_exponent = scale_exponent // 3
    small, large = size < 2.0**-largest_exponent, size > 2.0**largest_exponent
    t = size * choose(small, size.new(2.0**scale_exponent), choose(large, size.new(2.0**-scale_exponent), 1.0))
    y = (t.bits() // 3 + guess_bits).as_float()
    for _ in range(steps):
        cube = y * y * y
        y = y * ((cube + 2.0 * t) / (2.0 * cube + t))
    square, lost = two_product(y, y)
    cube, left = two_product(square, y)
    y = y - (((cube - t) + left) + lost * y) / (3.0 * square)
    y = y * choose(small, size.new(2.0**-root_exponent), choose(large, size.new(2.0**root_exponent), 1.0))
    return choose((size > 0.0) & (size < INFINITY), y, size).with_sign_of(x)


def integer_power(base: N, exponent: Word, known: int | None) -> N:
    """Return `base` raised to an integer exponent, by repeated squaring.

    A negative exponent gives the reciprocal, which for an integer base is 0 unless the power is 1 or -1. `known` is the
    exponent if it is constant, else None.

    Raises:
        CompileError: An operand is an i1.
    """
    if 1 in (exponent.width, getattr(base, "width", 0)):
        raise CompileError("powers of i1 have no meaning", note="extend the operands first")
    if known is not None and abs(known) <= MAX_CHAIN and (known >= 0 or isinstance(base, Number)):
        power_ = _chain(base, abs(known))
        return power_ if known >= 0 else _inverse(base, power_)
    negative = exponent < 0
    left = choose(negative, 0 - exponent, exponent)

    def step(carried: Any) -> tuple[N, N, Word]:
        """Return (power, square, remaining exponent) after one bit of the exponent."""
        power_, square, left = carried
        return choose((left & 1).differs(0), power_ * square, power_), square * square, left >> 1

    def goes_on(carried: Any) -> Truth:
        """Return whether bits of the exponent remain."""
        remaining: Word = carried[2]
        return remaining.differs(0)

    power_, _, _ = repeated((base.new(1), base, left), goes_on, step, exponent.width)
    return choose(negative, _inverse(base, power_), power_)


def _chain(base: N, exponent: int) -> N:
    """Return base^exponent for a constant exponent, as a chain of products."""
    product: N | None = None
    while exponent:
        if exponent & 1:
            product = base if product is None else product * base
        exponent >>= 1
        if exponent:
            base = base * base
    return base.new(1) if product is None else product


def _inverse(base: N, power: N) -> N:
    """Return 1 / power; of integers, that is the power itself for a base of 1 or -1, and 0 otherwise."""
    if isinstance(power, Number):
        return 1.0 / power
    assert isinstance(base, Word)
    is_one_or_minus_one = (base + 1).below(3) & base.differs(0)  # `below` compares unsigned numbers
    return choose(is_one_or_minus_one, power, otherwise=0)
