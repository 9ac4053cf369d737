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
"""The largest magnitude of a constant exponent that becomes a chain of products; for larger ones a loop is emitted."""


def powf(x: Number, y: Number) -> Number:
    """Return x^y = exp(y log x), with the special cases of C's pow."""
    format, size, y_size = format_of(x), x.magnitude(), y.magnitude()
    # |x|^y for a finite y and an |x| that is neither 0 nor infinite: the logarithm of 1 stands for that of the others.
    high, low = log_pair(choose((size > 0.0) & (size < INFINITY), size, 1.0))  # log |x| = high + low
    estimate = y * high
    underflows_at, overflows_at = format.exp_range  # the lower end has the larger magnitude
    finite_y = choose(estimate.magnitude() < -underflows_at, y, 0.0)  # 0 where the power is 0 or infinite
    product, product_low = two_product(finite_y, high)
    m, k = exp_parts(product, product_low + finite_y * low)  # y log |x| as a sum; its exponential is 2^k (1 + m)
    value = scaled(1.0 + m, k)
    # The special cases: overflow, underflow, and then those of signs, zeros, infinities and NaN.
    value = choose(estimate > overflows_at, INFINITY, value)
    value = choose(estimate <= underflows_at, 0.0, value)
    return _with_special_cases(x, y, size, y_size, value)


def _with_special_cases(x: Number, y: Number, size: Number, y_size: Number, value: Number) -> Number:
    """Return x^y from `value`, which is |x|^y for a finite y and an |x| other than 0 and infinity.

    `size` is |x|, `y_size` is |y|.
    """
    # The power of a base of magnitude 0 or infinity depends on the sign of y. With an infinite y, the power depends on
    # the sign of y and on whether the base is larger than 1.
    y_is_positive = y > 0.0
    value = choose(size.equals(0.0), choose(y_is_positive, size.new(0.0), INFINITY), value)
    value = choose(size.equals(INFINITY), choose(y_is_positive, size.new(INFINITY), 0.0), value)
    y_is_infinite = y_size.equals(INFINITY)
    value = choose(y_is_infinite, choose((size > 1.0) ^ y_is_positive, size.new(0.0), INFINITY), value)
    value = choose(size.equals(1.0) & y_is_infinite, 1.0, value)
    # The power of a negative base is negative for odd y, and NaN for y that is no integer. An integer is odd if its
    # half is no integer; all floats from 2^(fraction + 1) on are even.
    half = 0.5 * y_size
    y_is_integer = y_size.truncated().equals(y_size)
    y_is_odd = y_is_integer & half.truncated().differs(half) & (y_size < 2.0 ** (format_of(x).fraction + 1))
    value = choose(x.is_negative() & y_is_odd, -value, value)
    value = choose((x < 0.0) & (size < INFINITY) & ~y_is_integer, NAN, value)
    # 1^y and x^0 are 1 even if the other operand is NaN.
    value = choose(x.is_nan() | y.is_nan(), NAN, value)
    return choose(x.equals(1.0) | y.equals(0.0), 1.0, value)


def cbrt(x: Number) -> Number:
    """Return the cube root of x.

    The first guess divides the bits of |x|, and so its exponent, by three. Steps of Halley's method refine it, and a
    last step of Newton's method with exact products removes the rounding error of those steps.
    """
    format, size = format_of(x), x.magnitude()
    guess_bits, steps, largest_exponent, scale_exponent = format.cube_root
    root_exponent = scale_exponent // 3
    small, large = size < 2.0**-largest_exponent, size > 2.0**largest_exponent
    # t is |x|, scaled so that no product below overflows or is subnormal; y is the root of t, scaled back at the end.
    t = size * choose(small, size.new(2.0**scale_exponent), choose(large, size.new(2.0**-scale_exponent), 1.0))
    # The bits of t as an integer are about 2^fraction (log2 t + bias). A third of that has only a third of the bias:
    # `guess_bits` adds about the other two thirds.
    y = (t.bits() // 3 + guess_bits).as_float()
    for _ in range(steps):
        cube = y * y * y
        y = y * ((cube + 2.0 * t) / (2.0 * cube + t))
    # y - (y^3 - t) / (3 y^2), where y^3 is the sum cube + cube_low + square_low * y.
    square, square_low = two_product(y, y)
    cube, cube_low = two_product(square, y)
    y = y - (((cube - t) + cube_low) + square_low * y) / (3.0 * square)
    y = y * choose(small, size.new(2.0**-root_exponent), choose(large, size.new(2.0**root_exponent), 1.0))
    return choose((size > 0.0) & (size < INFINITY), y, size).with_sign_of(x)  # 0, infinity and NaN stay


def integer_power(base: N, exponent: Word, known: int | None) -> N:
    """Return `base`, a float or integer, raised to a signed integer exponent, by repeated squaring.

    A negative exponent gives the reciprocal, which for an integer base is 0 unless the power is 1 or -1. `known` is the
    exponent if it is constant, else None. A constant of magnitude up to `MAX_CHAIN` becomes a chain of products, except
    a negative one of an integer base; for other exponents a loop over their bits is emitted.

    Raises:
        CompileError: An operand is an i1.
    """
    if 1 in (exponent.width, base.width):
        raise CompileError("powers of i1 have no meaning", note="extend the operands first")
    if known is not None and abs(known) <= MAX_CHAIN:
        if known >= 0:
            return _chain(base, known)
        if isinstance(base, Number):
            return _inverse(base, _chain(base, -known))
    return _power_by_bits(base, exponent)


def _power_by_bits(base: N, exponent: Word) -> N:
    """Return a power by a loop over the bits of |exponent|: the square is multiplied into it where a bit is set.

    For a negative exponent, the inverse is taken at the end.
    """
    negative = exponent < 0
    magnitude = choose(negative, 0 - exponent, exponent)

    def step(carried: Any) -> tuple[N, N, Word]:
        """Return (power, square, remaining exponent) after the lowest bit of the exponent."""
        power_, square, remaining = carried
        return choose((remaining & 1).differs(0), power_ * square, power_), square * square, remaining >> 1

    def goes_on(carried: Any) -> Truth:
        """Return whether bits of the exponent remain."""
        remaining: Word = carried[2]
        return remaining.differs(0)

    power_, _, _ = repeated((base.new(1), base, magnitude), goes_on, step, most=exponent.width)
    return choose(negative, _inverse(base, power_), power_)


def _chain(base: N, exponent: int) -> N:
    """Return base^exponent for a constant exponent that is not negative, as a chain of products."""
    product: N | None = None
    while exponent:
        if exponent & 1:
            product = base if product is None else product * base
        exponent >>= 1
        if exponent:
            base = base * base
    return base.new(1) if product is None else product


def _inverse(base: N, power: N) -> N:
    """Return 1 / power, of a power of `base`; of integers, that is the power itself for a base of 1 or -1, else 0."""
    if isinstance(power, Number):
        return 1.0 / power
    assert isinstance(base, Word)
    # base + 1 is 0, 1 or 2 for a base of -1, 0 or 1, and larger for others: `below` compares unsigned numbers.
    is_one_or_minus_one = (base + 1).below(3) & base.differs(0)
    return choose(is_one_or_minus_one, power, otherwise=0)
