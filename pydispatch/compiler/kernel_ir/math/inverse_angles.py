"""asin, acos, atan and atan2."""

from __future__ import annotations

from xdsl.dialects.builtin import Float64Type

from pydispatch.compiler.kernel_ir.math.coefficients import ATAN
from pydispatch.compiler.kernel_ir.math.formats import (
    F32,
    INFINITY,
    NAN,
    format_of,
    polynomial,
    root_pair,
    rounded,
    two_product,
)
from pydispatch.compiler.kernel_ir.math.numbers import Number, Truth, choose
from pydispatch.compiler.kernel_ir.math.pairs import Pair, fast_sum


def _asin_parts(size: Number) -> tuple[Truth, Number, Number]:
    """Return (outer, s, tail) with asin(s) = s + tail, for a `size` from 0 to 1.

    `outer` is whether `size` is above 1/2. If not, s is `size`. If so, s is the square root of (1 - size) / 2, and
    asin(size) = pi/2 - 2 asin(s).
    """
    outer = size > 0.5
    z = choose(outer, 0.5 * (1.0 - size), size * size)  # s^2
    if format_of(size).computes_in_pairs:  # the root is a sum of two floats
        is_nonzero = z > 0.0  # `root_pair` divides by the root, so that it is passed 1 instead of 0
        high, low = root_pair(choose(is_nonzero, z, 1.0))
        root, root_low = choose(is_nonzero, high, 0.0), choose(is_nonzero & outer, low, 0.0)  # no root up to 1/2
        s = choose(outer, root, size)
        return outer, s, root_low + s * (z * polynomial(z, "asin"))
    s = choose(outer, z.sqrt(), size)
    return outer, s, s * (z * polynomial(z, "asin"))


def _subtract_from_angle(angle: float, angle_low: float, *, s: Number, tail: Number) -> Number:
    """Return (angle + angle_low) - (s + tail), rounded; |s| is not larger than `angle`."""
    high, low = fast_sum(s.new(angle), -s)
    return high + ((low + angle_low) - tail)


def asin(x: Number) -> Number:
    """Return the arcsine: s + tail of `_asin_parts` up to 1/2, pi/2 - 2 (s + tail) above; NaN above 1."""
    (pio2, pio2_low), size = format_of(x).pio2, x.magnitude()
    outer, s, tail = _asin_parts(size)
    y = choose(outer, _subtract_from_angle(pio2, pio2_low, s=2.0 * s, tail=2.0 * tail), s + tail).with_sign_of(x)
    y = choose(size < format_of(x).tiny, x, y)  # there, asin x rounds to x
    return choose(size > 1.0, NAN, y)


def acos(x: Number) -> Number:
    """Return the arccosine, from the parts of the arcsine; NaN above 1."""
    (pio2, pio2_low), size = format_of(x).pio2, x.magnitude()
    outer, s, tail = _asin_parts(size)
    # s + tail is asin(size) or, if `outer` (size > 1/2), asin(sqrt((1 - size) / 2)): then acos(x) is twice that, or pi
    # less twice that for a negative x.
    of_negative = _subtract_from_angle(2.0 * pio2, 2.0 * pio2_low, s=2.0 * s, tail=2.0 * tail)
    of_outer = choose(x < 0.0, of_negative, 2.0 * (s + tail))
    of_inner = _subtract_from_angle(pio2, pio2_low, s=s.with_sign_of(x), tail=tail.with_sign_of(x))  # pi/2 - asin(x)
    return choose(size > 1.0, NAN, choose(outer, of_outer, of_inner))


def _angle(y: Number, x: Number) -> Pair:
    """Return the angle of the point (x, y), in [0, pi/2], as a pair; both are finite, not negative, and not both 0."""
    format = format_of(y)
    pio2, pio2_low = format.pio2
    steep = y > x  # the angle is above pi/4: it is pi/2 less the angle of the point (y, x)
    large, small = choose(steep, y, x), choose(steep, x, y)
    if format is F32:
        t = small / large
        z = t * t
        high, low = t, (t * z) * polynomial(z, "atan")
    else:
        high, low = _table_angle(small, large)
    complement, complement_low = fast_sum(high.new(pio2), -high)
    return choose(steep, complement, high), choose(steep, complement_low + (pio2_low - low), low)


def _table_angle(small: Number, large: Number) -> Pair:
    """Return atan(small / large) of two f64 as a pair, from a table of atan(c); `small` is not above `large`.

    It is atan(c) + atan((small - c large) / (large + c small)), where c is the multiple of 1/16 nearest to
    small / large.
    """
    sixteenths, row = rounded(small / large * 16.0)
    c = sixteenths * 0.0625
    product, product_low = two_product(c, large)
    t = ((small - product) - product_low) / c.fma(small, large)
    row = choose(row.below(17), row, otherwise=0)  # the rows are 0 to 16; the row of NaN may be any number
    # Row n of the table ATAN has the high and the low part of atan(n / 16).
    base, base_low = (Number(t.body, (row * 2 + part).element_of("atan", ATAN, Float64Type())) for part in (0, 1))
    square = t * t
    high, low = fast_sum(base, t)
    return high, low + (base_low + t * square * polynomial(square, "atan"))


def atan(x: Number) -> Number:
    """Return the arctangent: the angle of the point (1, x), with the sign of x."""
    format, size = format_of(x), x.magnitude()
    high, low = _angle(size.at_most(2.0**60), x.new(1.0))  # beyond 2^60, the angle rounds to pi/2
    y = choose(size < format.tiny, x, (high + low).with_sign_of(x))  # below `tiny`, it rounds to x
    return choose(x.is_nan(), x, y)


def atan2(y: Number, x: Number) -> Number:
    """Return the angle of the point (x, y), between -pi and pi, with the sign of y.

    It is computed for (|x|, |y|), as the sum high + low, and mirrored for a negative x: atan2(1, -1) is pi - pi/4. Both
    are scaled so that nothing overflows or is lost. If |y / x| is tiny, the angle of (|x|, |y|) is this quotient.
    """
    format, a, b = format_of(y), y.magnitude(), x.magnitude()
    pio2, pio2_low = format.pio2
    y_is_infinite, x_is_infinite, y_is_zero = a.equals(INFINITY), b.equals(INFINITY), a.equals(0.0)
    any_infinite = y_is_infinite | x_is_infinite
    # Replace special points by others with the same angle: (1, 1) if both are infinite, (0, 1) if only y is, (1, 0) if
    # only x is, and (1, 0) if y is 0, as x may be 0, too.
    a = choose(any_infinite, choose(y_is_infinite, a.new(1.0), 0.0), a)
    b = choose(any_infinite, choose(x_is_infinite, a.new(1.0), 0.0), choose(y_is_zero, 1.0, b))
    # Scaled so that neither products overflow nor a quotient of subnormal numbers loses digits.
    factor = 2.0 ** (format.bias // 2)
    scale_down_or_1 = choose((a > factor) | (b > factor), a.new(1.0 / factor), 1.0)
    scale = choose((a < 1.0 / factor) & (b < 1.0 / factor), factor, scale_down_or_1)
    # The angle of the point (|x|, |y|).
    quotient_is_tiny = a < b * format.tiny  # then atan(a / b) rounds to a / b, which may be subnormal
    high, low = _angle(choose(quotient_is_tiny, 0.0, a * scale), b * scale)
    high = choose(quotient_is_tiny, a / b, high)
    # For a negative x, pi less that angle. pi is 2 * pio2 + 2 * pio2_low.
    complement, complement_low = fast_sum(high.new(2.0 * pio2), -high)
    x_is_negative = x.is_negative()
    angle = choose(x_is_negative, complement, high)
    angle = angle + choose(x_is_negative, complement_low + (2.0 * pio2_low - low), low)
    return choose(x.is_nan() | y.is_nan(), NAN, angle.with_sign_of(y))
