"""sin, cos and tan, with all digits for every finite argument: x = n pi/2 + r, r as a sum of two numbers."""

from __future__ import annotations

from pydispatch.compiler.kernel_ir.math.control_flow import one_of
from pydispatch.compiler.kernel_ir.math.formats import (
    INFINITY,
    NAN,
    format_of,
    polynomial,
    quotient,
    rounded,
    two_product,
)
from pydispatch.compiler.kernel_ir.math.numbers import Number, Truth, Word, choose
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum, two_sum
from pydispatch.compiler.kernel_ir.math.reduction import Quadrant, large_quadrant


def _small_quadrant(x: Number) -> Quadrant:
    """Return x reduced by n = round(x / (pi/2)): the pair x - n pi/2, and n mod 4; |x| is below `large_angle`.

    The parts of pi/2 are subtracted one by one, and the rounding errors are added to the lower float.
    """
    n, whole_n = rounded(x * (2.0 / 3.141592653589793))  # n as a float and as a word
    first, second, third, fourth = format_of(x).pio2_cut  # their sum is pi/2; n times one of the first three is exact
    high, low = two_sum(x - n * first, -(n * second))
    high, lower = two_sum(high, -(n * third))
    return fast_sum(high, (low + lower) - n * fourth), whole_n & 3


def _reduced(x: Number) -> Quadrant:
    """Return x less its nearest multiple n pi/2 as a pair, and n mod 4; large x are reduced by the digits of 2/pi."""

    def flat(quadrant: Quadrant) -> list[Number | Word]:
        """Return the two floats of a reduced angle, and n mod 4, as a list: the values of a branch of `one_of`."""
        (high, low), n = quadrant
        return [high, low, n]

    large = x.magnitude() >= format_of(x).large_angle
    high, low, n = one_of(large, lambda: flat(large_quadrant(x)), lambda: flat(_small_quadrant(x)))
    return (high, low), n


def _sin_kernel(r: Pair) -> Pair:
    """Return the sine of a reduced angle, |r| <= pi/4, as a pair.

    With r = high + low it is sin(high) + low cos(high), where sin(h) is h + h^3 P(h^2), and 1 - h^2 / 2 suffices for
    cos(h).
    """
    high, low = r
    z = high * high
    return fast_sum(high, (high * z) * polynomial(z, "sin") + low * (1.0 - 0.5 * z))


def _cos_kernel(r: Pair) -> Pair:
    """Return the cosine of a reduced angle, |r| <= pi/4, as a pair: 1 - r^2 / 2 + r^4 P(r^2).

    With r = high + low, r^2 / 2 is high^2 / 2 + high low, as low^2 is below the precision.
    """
    high, low = r
    z, z_error = two_product(high, high)
    top, top_error = fast_sum(high.new(1.0), -0.5 * z)
    return fast_sum(top, (top_error - 0.5 * z_error) + ((z * z) * polynomial(z, "cos") - high * low))


def _has_bit(n: Word, mask: int) -> Truth:
    """Return whether n has the bit of `mask`, a power of two."""
    return (n & mask).differs(0)


def _sin_of(r: Pair, n: Word) -> Number:
    """Return the sine of r + n pi/2, |r| <= pi/4: sin r, or cos r for odd n; negated if n has the bit 2."""
    cos, _ = _cos_kernel(r)  # the first number of a pair is the rounded value
    sin, _ = _sin_kernel(r)
    y = choose(_has_bit(n, mask=1), cos, sin)
    return choose(_has_bit(n, mask=2), -y, y)


def _nan_unless_finite(x: Number, y: Number) -> Number:
    """Return y, the function value of x, if x is finite; else NaN."""
    return choose(x.magnitude() < INFINITY, y, NAN)


def sin(x: Number) -> Number:
    """Return the sine of x."""
    r, n = _reduced(x)
    is_tiny = x.magnitude() < format_of(x).tiny  # then sin x rounds to x
    return choose(is_tiny, x, _nan_unless_finite(x, _sin_of(r, n)))


def cos(x: Number) -> Number:
    """Return the cosine of x: the sine of x + pi/2."""
    r, n = _reduced(x)
    return _nan_unless_finite(x, _sin_of(r, n + 1))


def sincos(x: Number) -> tuple[Number, Number]:
    """Return the sine and the cosine of x = r + n pi/2.

    For odd n, sine and cosine of r are exchanged. The sine is negated if n has the bit 2, the cosine if n + 1 has it.
    """
    r, n = _reduced(x)
    sin_r, _ = _sin_kernel(r)  # the first number of a pair is the rounded value
    cos_r, _ = _cos_kernel(r)
    is_odd = _has_bit(n, mask=1)
    sine, cosine = choose(is_odd, cos_r, sin_r), choose(is_odd, sin_r, cos_r)
    is_tiny = x.magnitude() < format_of(x).tiny  # then sin x rounds to x
    sine = choose(is_tiny, x, choose(_has_bit(n, mask=2), -sine, sine))
    return _nan_unless_finite(x, sine), _nan_unless_finite(x, choose(_has_bit(n + 1, mask=2), -cosine, cosine))


def tan(x: Number) -> Number:
    """Return the tangent of x: the quotient of sine and cosine, which are pairs, so that it is rounded once."""
    angle, quadrant = _reduced(x)
    sin, cos = _sin_kernel(angle), _cos_kernel(angle)
    is_odd = _has_bit(quadrant, mask=1)  # then tan x = tan(angle + pi/2) = -cos / sin of the angle
    top = choose(is_odd, cos[0], sin[0]), choose(is_odd, cos[1], sin[1])
    bottom = choose(is_odd, -sin[0], cos[0]), choose(is_odd, -sin[1], cos[1])
    high, low = quotient(top, bottom)
    is_tiny = x.magnitude() < format_of(x).tiny  # then tan x rounds to x
    return choose(is_tiny, x, _nan_unless_finite(x, high + low))
