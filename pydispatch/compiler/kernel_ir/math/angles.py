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
    """Return x reduced by n = round(x / (pi/2)): the pair x - n pi/2, and n mod 4; x must not be large.

    The parts of pi/2 are subtracted one by one, and the rounding errors are added to the lower float.
    """
    n, whole_n = rounded(x * (2.0 / 3.141592653589793))
    first, second, third, fourth = format_of(x).pio2_cut
    high, low = two_sum(x - n * first, -(n * second))
    high, lower = two_sum(high, -(n * third))
    return fast_sum(high, (low + lower) - n * fourth), whole_n & 3


def _reduced(x: Number) -> Quadrant:
    """Return x reduced by multiples of pi/2 as a pair, and their number mod 4; large x by the exact method."""

    def flat(quadrant: Quadrant) -> list[Number | Word]:
        """Return the parts of a reduced angle, and the number of the quadrant, as a list."""
        (high, low), n = quadrant
        return [high, low, n]

    large = x.magnitude() >= format_of(x).large_angle
    high, low, n = one_of(large, lambda: flat(large_quadrant(x)), lambda: flat(_small_quadrant(x)))
    return (high, low), n


def _sin_kernel(r: Pair) -> Pair:
    """Return the sine of a reduced angle as a pair."""
    high, low = r
    z = high * high
    return fast_sum(high, (high * z) * polynomial(z, "sin") + low * (1.0 - 0.5 * z))


def _cos_kernel(r: Pair) -> Pair:
    """Return the cosine of a reduced angle as a pair."""
    high, low = r
    z, lost = two_product(high, high)
    top, rest = fast_sum(high.new(1.0), -0.5 * z)
    return fast_sum(top, (rest - 0.5 * lost) + ((z * z) * polynomial(z, "cos") - high * low))


def _has_bit(n: Word, mask: int) -> Truth:
    """Return whether n has the bit of `mask`, a power of two."""
    return (n & mask).differs(0)


def _sin_of(r: Pair, n: Word) -> Number:
    """Return the sine of r + n pi/2: the sine of r, or the cosine for odd n, with the sign of bit 1 of n."""
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
    return choose(x.magnitude() < format_of(x).tiny, x, _nan_unless_finite(x, _sin_of(r, n)))


def cos(x: Number) -> Number:
    """Return the cosine of x: the sine of x + pi/2."""
    r, n = _reduced(x)
    return _nan_unless_finite(x, _sin_of(r, n + 1))


def sincos(x: Number) -> tuple[Number, Number]:
    """Return the sine and the cosine of x = r + n pi/2.

    For odd n, sine and cosine of r are exchanged. The bit with mask 2 of n is the sign of the sine, that of n + 1 the
    sign of the cosine.
    """
    r, n = _reduced(x)
    s, _ = _sin_kernel(r)  # the first number of a pair is the rounded value
    c, _ = _cos_kernel(r)
    odd = _has_bit(n, mask=1)
    y, z = choose(odd, c, s), choose(odd, s, c)
    y = choose(x.magnitude() < format_of(x).tiny, x, choose(_has_bit(n, mask=2), -y, y))
    return _nan_unless_finite(x, y), _nan_unless_finite(x, choose(_has_bit(n + 1, mask=2), -z, z))


def tan(x: Number) -> Number:
    """Return the tangent of x: the quotient of sine and cosine, which are pairs, so that it is rounded once."""
    angle, quadrant = _reduced(x)
    sin, cos = _sin_kernel(angle), _cos_kernel(angle)
    odd = _has_bit(quadrant, mask=1)
    top = choose(odd, cos[0], sin[0]), choose(odd, cos[1], sin[1])
    bottom = choose(odd, -sin[0], cos[0]), choose(odd, -sin[1], cos[1])
    t, rest = quotient(top, bottom)
    return choose(x.magnitude() < format_of(x).tiny, x, _nan_unless_finite(x, t + rest))
