"""Functions of complex elements: the textbook formulas, rearranged where these overflow or cancel."""

from __future__ import annotations

import math
from collections.abc import Callable

from pydispatch.graph.dtypes import F64
from pydispatch.operations.elements import Element, Value

_HUGE = 1e30
"""Size above which numbers are scaled down before they are added or inverted; those below its reciprocal are scaled up
before they are inverted. It is far below the largest f32, and so large that parts which the scaling makes subnormal do
not matter beside it."""


def _scaled(z: Element, factor: Value) -> Element:
    """Return a complex number times a real factor."""
    return (z.real * factor).with_imag(z.imag * factor)


def _reduced(z: Element) -> tuple[Element, Element]:
    """Return z, or z / 4 for a large z, whose length would overflow; and whether z is large."""
    is_large = z.real.unary("abs").max(z.imag.unary("abs")) > _HUGE
    return _scaled(z, is_large.where(z.real.const(0.25), 1.0)), is_large


def _polar(length: Element, angle: Element) -> Element:
    """Return the complex number with a given length and angle."""
    return (length * angle.unary("cos")).with_imag(length * angle.unary("sin"))


def _times_sine(factor: Element, angle: Element) -> Element:
    """Return factor sin(angle). It is a signed zero for an angle of 0 also if the factor is infinite."""
    sign = factor.const(1.0).binary("copysign", factor)
    return angle.is_equal(0.0).where(sign * angle, factor * angle.unary("sin"))


def _is_infinite(z: Element) -> Element:
    """Return whether a part of a complex number is infinite."""
    return z.real.unary("is_inf") | z.imag.unary("is_inf")


# -- functions of two numbers


def _add(lhs: Element, rhs: Element) -> Element:
    """Return the sum of two complex numbers."""
    return (lhs.real + rhs.real).with_imag(lhs.imag + rhs.imag)


def _sub(lhs: Element, rhs: Element) -> Element:
    """Return the difference of two complex numbers."""
    return (lhs.real - rhs.real).with_imag(lhs.imag - rhs.imag)


def _mul(lhs: Element, rhs: Element) -> Element:
    """Return the product: (a + bi) (c + di) = (ac - bd) + (ad + bc) i."""
    real = lhs.real * rhs.real - lhs.imag * rhs.imag
    return real.with_imag(lhs.real * rhs.imag + lhs.imag * rhs.real)


def _div(lhs: Element, rhs: Element) -> Element:
    """Return lhs / rhs. Both are scaled by the larger part of the divisor, so that squares do not overflow.

    For a divisor of 0 or infinity, where scaling gives NaN, both parts of lhs are divided by the larger part of rhs.
    """
    unscaled_size = rhs.real.unary("abs").max(rhs.imag.unary("abs"))
    # Both operands are first multiplied by this power of two, so that 1 / size neither overflows nor is subnormal.
    factor = (unscaled_size > _HUGE).where(unscaled_size.const(2.0**-64), 1.0)
    factor = (unscaled_size < 1.0 / _HUGE).where(2.0**64, factor)
    size = unscaled_size * factor
    scale = 1.0 / size
    divisor = _scaled(_scaled(rhs, factor), scale)
    squares = divisor.real * divisor.real + divisor.imag * divisor.imag
    dividend = _scaled(_scaled(lhs, factor), scale)
    numerator = dividend * divisor.conj()
    quotient = (numerator.real / squares).with_imag(numerator.imag / squares)
    return (size.is_equal(0.0) | size.unary("is_inf")).where(dividend, quotient)


def _pow(lhs: Element, rhs: Element) -> Element:
    """Return exp(rhs log(lhs)). 0 to the power of 0 is 1, and 0 to a power with positive real part is 0."""
    power = (rhs * lhs.unary("log")).unary("exp")
    at_zero = rhs.is_equal(0.0).where(1.0, (rhs.real > 0.0).where(0.0, power))
    return lhs.is_equal(0.0).where(at_zero, power)


def _atan2(y: Element, x: Element) -> Element:
    """Return the angle -i log((x + iy) / sqrt(x^2 + y^2)) of complex x and y."""
    # x + iy; then -i times a + bi is b - ai.
    direction = (x.real - y.imag).with_imag(x.imag + y.real)
    logarithm = (direction / (x * x + y * y).unary("sqrt")).unary("log")
    return logarithm.imag.with_imag(-logarithm.real)


def _extremum(order: str) -> Callable[[Element, Element], Element]:
    """Return the function that selects the larger ("ge") or smaller ("le") of two complex numbers, ordered by real,
    then imaginary part. NaN is propagated.
    """
    # NaN is unequal to itself. With NaN on the right alone, the comparison is false, and the right one is selected.
    return lambda lhs, rhs: (lhs.is_unequal(lhs) | lhs.compare(order, rhs)).where(lhs, rhs)


# -- functions of one number


def _abs(z: Element) -> Element:
    """Return the absolute value as a float. Squares are those of a ratio of at most 1, so they do not overflow."""
    x, y = z.real.unary("abs"), z.imag.unary("abs")
    large, small = x.max(y), x.min(y)
    ratio = small / large
    length = large * (1.0 + ratio * ratio).unary("sqrt")
    # If both parts are 0, their ratio is NaN.
    return small.is_equal(0.0).where(large, _is_infinite(z).where(math.inf, length))


def _sign(z: Element) -> Element:
    """Return z / |z|; 0 for 0."""
    reduced, _ = _reduced(z)
    size = reduced.unary("abs")
    return z.is_equal(0.0).where(0.0, (reduced.real / size).with_imag(reduced.imag / size))


def _exp(z: Element) -> Element:
    """Return the exponential. If the imaginary part is 0 or -0, that of the result is the same."""
    length = z.real.unary("exp")
    return (length * z.imag.unary("cos")).with_imag(_times_sine(length, z.imag))


def _square(x: Element) -> tuple[Element, Element]:
    """Return x^2 rounded, and its rounding error, by Dekker's product: x is split into two halves of its digits."""
    # Veltkamp's split by 2^27 + 1 for the 53 digits of f64, by 2^12 + 1 for the 24 of f32.
    scaled = x * (134217729.0 if x.dtype == F64 else 4097.0)
    high = scaled - (scaled - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2.0 * (high * low)) + low * low


def _sum(lhs: Element, rhs: Element) -> tuple[Element, Element]:
    """Return lhs + rhs rounded, and its rounding error, by Knuth's sum."""
    total = lhs + rhs
    added = total - lhs  # the part of rhs that the rounded sum contains
    return total, (lhs - (total - added)) + (rhs - added)


def _sum_with_squares(start: Element, x: Element, y: Element) -> Element:
    """Return start + x^2 + y^2. Rounding errors are added at the end, so that a sum that cancels is accurate, too."""
    (x_square, x_square_error), (y_square, y_square_error) = _square(x), _square(y)
    first_sum, first_error = _sum(start, x_square)
    total, error = _sum(first_sum, y_square)
    return total + (error + first_error + (x_square_error + y_square_error))


def _log_of_length(z: Element, excess: Element) -> Element:
    """Return log|z|. For |z| near 1, where log loses digits, it is log1p(excess) / 2; `excess` is |z|^2 - 1."""
    large = z.real.unary("abs").max(z.imag.unary("abs"))
    is_near = (large > 0.5) & (large < 2.0)
    reduced, is_large = _reduced(z)
    log_length = reduced.unary("abs").unary("log")
    log_length = is_large.where(log_length + math.log(4.0), log_length)
    return is_near.where(0.5 * excess.unary("log1p"), log_length)


def _log(z: Element) -> Element:
    """Return log(z) = log|z| + i arg(z)."""
    x, y = z.real.unary("abs"), z.imag.unary("abs")
    # excess: |z|^2 - 1, which is accurate also for |z| near 1, where log|z| loses digits.
    log_length = _log_of_length(z, excess=_sum_with_squares(x.const(-1.0), x.max(y), x.min(y)))
    return log_length.with_imag(z.imag.binary("atan2", z.real))


def _log_to_base(base: float) -> Callable[[Element], Element]:
    """Return the function z -> log(z) / log(base)."""

    def logarithm(z: Element) -> Element:
        """Return the logarithm of one number to the base."""
        natural = z.unary("log")
        return (natural.real / math.log(base)).with_imag(natural.imag / math.log(base))

    return logarithm


def _log1p(z: Element) -> Element:
    """Return log(1 + z) for z = x + iy; |1 + z|^2 - 1 is 2 x + x^2 + y^2."""
    x, y = z.real, z.imag
    whole = (1.0 + x).with_imag(y)
    log_length = _log_of_length(whole, excess=_sum_with_squares(2.0 * x, x, y))
    return log_length.with_imag(y.binary("atan2", whole.real))


def _expm1(z: Element) -> Element:
    """Return exp(z) - 1. The real part exp(x) cos(y) - 1 is computed as expm1(x) cos(y) - 2 sin(y/2)^2, which does not
    cancel.
    """
    half = (z.imag * 0.5).unary("sin")
    real = z.real.unary("expm1") * z.imag.unary("cos") - 2.0 * (half * half)
    return real.with_imag(z.unary("exp").imag)


def _cbrt(z: Element) -> Element:
    """Return the cube root with the smallest angle."""
    reduced, is_large = _reduced(z)
    length = reduced.unary("abs").unary("cbrt")
    return _polar(is_large.where(4.0 ** (1 / 3) * length, length), z.imag.binary("atan2", z.real) / 3.0)


def _sqrt(z: Element) -> Element:
    """Return the square root with non-negative real part: for a large z, twice the root of z / 4, so that no sum
    overflows.
    """
    x, y = z.real, z.imag
    reduced, is_large = _reduced(z)
    # The absolute values of the root's parts: the larger one by a sum that cannot cancel, the other as |y| / (2 large).
    large = (0.5 * (reduced.unary("abs") + reduced.real.unary("abs"))).unary("sqrt")
    small = 0.5 * reduced.imag.unary("abs") / large
    large, small = (is_large.where(2.0 * part, part) for part in (large, small))
    small = y.unary("is_inf").where(large, small)  # where infinity / infinity would be NaN
    is_right = x >= 0.0
    root = is_right.where(large, small).with_imag(is_right.where(small, large).binary("copysign", y))
    return z.is_equal(0.0).where(x.const(0.0).with_imag(y), root)


def _sinh(z: Element) -> Element:
    """Return sinh(x + yi) = sinh x cos y + i cosh x sin y."""
    x, y = z.real, z.imag
    # For y = 0, cosh x may be infinite, and its plain product with sin 0 would be NaN; cos 0 is 1.
    return (x.unary("sinh") * y.unary("cos")).with_imag(_times_sine(x.unary("cosh"), y))


def _cosh(z: Element) -> Element:
    """Return cosh(x + yi) = cosh x cos y + i sinh x sin y."""
    x, y = z.real, z.imag
    return (x.unary("cosh") * y.unary("cos")).with_imag(_times_sine(x.unary("sinh"), y))


def _tanh(z: Element) -> Element:
    """Return (t (1 + n^2) + i n / cosh(x)^2) / (1 + t^2 n^2), where t = tanh(x) and n = tan(y)."""
    t, n = z.real.unary("tanh"), z.imag.unary("tan")
    secant = 1.0 / z.real.unary("cosh")
    denominator = 1.0 + t * t * (n * n)
    return (t * (1.0 + n * n) / denominator).with_imag(n / denominator * secant * secant)


_POLE_HEIGHT = 1e-9
"""|y| below which atanh(1 + iy) is log(2 / |y|) / 2. The error of that, y^2 / 16, is below the precision of f64; for
larger |y| the exact formula, which has 4 / y^2, does not overflow."""


def _atanh(z: Element) -> Element:
    """Return atanh(z) for z = x + iy: log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i atan2(2 y, (1 - x) (1 + x) - y^2) / 2.

    The real part is computed for |x|, with a scale by which squares do not overflow. Close to the pole at 1 the
    quotient would overflow: there the real part is log(2 / |y|) / 2.
    """
    # The real part. With u = (1 - x) / scale and v = y / scale, the squares are at most 1.
    x, y = z.real.unary("abs"), z.imag
    to_pole, height = 1.0 - x, y.unary("abs")
    scale = to_pole.unary("abs").max(height)
    u, v = to_pole / scale, y / scale
    # ((1 - x)^2 + y^2) is scale^2 (u^2 + v^2).
    real = 0.25 * (4.0 * (x / scale / scale) / (u * u + v * v)).unary("log1p")
    at_pole = 0.5 * (math.log(2.0) - height.unary("log"))
    real = (to_pole.is_equal(0.0) & (height < _POLE_HEIGHT)).where(at_pole, real)
    is_infinite = _is_infinite(z)
    real = is_infinite.where(0.0, real).binary("copysign", z.real)
    # The imaginary part; both arguments of atan2 are halved. It is +- pi / 2 for an infinite z.
    angle = y.binary("atan2", 0.5 * (to_pole * (1.0 + x) - y * y))  # NaN for y = NaN, which has no sign
    is_right_angle = is_infinite & y.is_equal(y)
    return real.with_imag(0.5 * is_right_angle.where(y.const(math.pi).binary("copysign", y), angle))


def _of_rotated(name: str, back: bool) -> Callable[[Element], Element]:
    """Return the function z -> f(iz), or z -> -i f(iz) with `back`, for the function f of this name in COMPLEX_UNARY.

    Thus sin(z) = -i sinh(iz), and cos(z) = cosh(iz).
    """

    def rotated(z: Element) -> Element:
        """Return f(iz), multiplied by -i if `back`, for one number."""
        result = (-z.imag).with_imag(z.real).unary(name)
        return result.imag.with_imag(-result.real) if back else result

    return rotated


def _roots_of_one_minus_and_plus(z: Element) -> tuple[Element, Element]:
    """Return sqrt(1 - z) and sqrt(1 + z). The imaginary parts keep the sign of a zero, which selects a branch."""
    x, y = z.real, z.imag
    return (1.0 - x).with_imag(-y).unary("sqrt"), (1.0 + x).with_imag(y).unary("sqrt")


def _imag_of_asin(z: Element, root_of_minus: Element, root_of_plus: Element) -> Element:
    """Return the imaginary part of asin(z) and of -acos(z) from the roots of 1 - z and 1 + z."""
    sine = root_of_minus.real * root_of_plus.imag - root_of_minus.imag * root_of_plus.real
    return _is_infinite(z).where(math.inf, sine).binary("copysign", z.imag).unary("asinh")


def _asin(z: Element) -> Element:
    """Return asin(z) by Kahan's formulas, in which nothing cancels or overflows."""
    root_of_minus, root_of_plus = _roots_of_one_minus_and_plus(z)
    cosine = root_of_minus.real * root_of_plus.real - root_of_minus.imag * root_of_plus.imag
    cosine = _is_infinite(z).where(z.imag.unary("abs"), cosine)
    return z.real.binary("atan2", cosine).with_imag(_imag_of_asin(z, root_of_minus, root_of_plus))


def _acos(z: Element) -> Element:
    """Return acos(z) by Kahan's formulas. Its real part keeps its digits near z = 1, where pi / 2 - asin(z) cancels."""
    root_of_minus, root_of_plus = _roots_of_one_minus_and_plus(z)
    half = root_of_minus.real.binary("atan2", root_of_plus.real)
    angle = _is_infinite(z).where(z.imag.unary("abs").binary("atan2", z.real), 2.0 * half)
    return angle.with_imag(-_imag_of_asin(z, root_of_minus, root_of_plus))


def _acosh(z: Element) -> Element:
    """Return i acos(z) or -i acos(z): the one with a real part that is not negative."""
    angle = _acos(z)
    return angle.imag.unary("abs").with_imag(angle.real.binary("copysign", z.imag))


COMPLEX_BINARY: dict[str, Callable[[Element, Element], Element]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow, "atan2": _atan2, "max": _extremum("ge"),
    "min": _extremum("le"),
}  # fmt: skip
"""Functions of two complex numbers by name."""
COMPLEX_UNARY: dict[str, Callable[[Element], Element]] = {
    "neg": lambda z: (-z.real).with_imag(-z.imag),
    "abs": _abs, "sign": _sign, "exp": _exp, "log": _log, "log2": _log_to_base(2.0), "log10": _log_to_base(10.0),
    "log1p": _log1p, "expm1": _expm1, "cbrt": _cbrt,
    "sqrt": _sqrt,
    "rsqrt": lambda z: 1.0 / z.unary("sqrt"),
    "logistic": lambda z: 1.0 / (1.0 + (-z).unary("exp")),
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "sin": _of_rotated("sinh", back=True), "cos": _of_rotated("cosh", back=False),
    "tan": _of_rotated("tanh", back=True),
    "asin": _asin, "acos": _acos, "asinh": _of_rotated("asin", back=True), "acosh": _acosh,
    "atanh": _atanh, "atan": _of_rotated("atanh", back=True),
    "is_finite": lambda z: z.real.unary("is_finite") & z.imag.unary("is_finite"),
    "is_nan": lambda z: z.real.unary("is_nan") | z.imag.unary("is_nan"),
}  # fmt: skip
"""Functions of complex numbers by the names in `scalars.Scalars`."""
