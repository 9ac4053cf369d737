"""The gamma function and its relatives, digamma, polygamma and the zeta functions, as formulas of single elements.

The gamma function is by Lanczos (g = 7, 9 terms), the zeta function by Euler and Maclaurin.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydispatch.operations.formulas import Element, widened
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars

_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
"""Numerators of Lanczos' sum of fractions c / (z + n), for n = 1, 2, ..."""
_LANCZOS_FIRST = 0.99999999999980993227684700473478
"""First term of Lanczos' sum, before the fractions."""
_LANCZOS_G = 7.0
"""Parameter g of Lanczos' approximation, for which the coefficients above are computed; as in Boost and Eigen."""


@widened
def lgamma(x: Element) -> Element:
    """Return the logarithm of the absolute value of the gamma function.

    For x >= 0.5 it is Lanczos' approximation with z = x - 1 and t = z + 0.5 + g: log(2 pi) / 2 + (z + 0.5) log t - t +
    log(total), where `total` is Lanczos' sum c0 + c1 / (z + 1) + c2 / (z + 2) + .... The terms (z + 0.5) log t - t are
    computed as (z + 0.5 - t / log t) log t, so that little cancels. For other x the result is computed from the value
    at 1 - x, by reflection.
    """
    is_reflected = x < 0.5
    z = is_reflected.where(-x, x - 1.0)  # the approximation is that of lgamma(z + 1)
    total = x.const(_LANCZOS_FIRST)
    for n, c in enumerate(_LANCZOS):
        total = total + c / (z + (n + 1.0))
    t = z + (_LANCZOS_G + 0.5)
    log_t = (z / (_LANCZOS_G + 0.5)).unary("log1p") + math.log(_LANCZOS_G + 0.5)
    scaled = (z + 0.5 - t / log_t) * log_t
    at_z = scaled + 0.5 * math.log(2 * math.pi) + total.unary("log")
    # For x < 0.5 the reflection formula is used. Its |sin(pi x)| is sin(pi * distance), with the distance of x from the
    # nearest integer, which is exact.
    size = x.unary("abs")
    fraction = size - size.unary("floor")
    distance = (fraction < 0.5).where(fraction, 1.0 - fraction)
    log_sine = (distance * math.pi).unary("sin").unary("log")
    # lgamma(x) = log(pi) - log |sin(pi x)| - lgamma(1 - x). At a pole the sine is 0, and -log_sine is inf.
    is_finite = log_sine.unary("is_finite")
    reflected = is_finite.where(math.log(math.pi) - log_sine - at_z, -log_sine)
    result = is_reflected.where(reflected, at_z)
    return size.is_equal(math.inf).where(math.inf, result)


@widened
def digamma(x: Element) -> Element:
    """Return the derivative of lgamma, from the derivative of Lanczos' approximation; NaN at a pole.

    For x >= 0.5 it is the derivative of the terms of `lgamma`, with z = x - 1, t = z + 0.5 + g, and Lanczos' sum
    `total`, c0 + c1 / (z + 1) + c2 / (z + 2) + .... That of log(total) is slope / total; that of (z + 0.5) log t - t is
    log t - g / t. For other x it is digamma(1 - x) - pi / tan(pi x), by reflection.
    """
    is_reflected = x < 0.5
    z = is_reflected.where(-x, x - 1.0)  # the approximation is that of digamma(z + 1), at 1 - x if reflected
    total, slope = x.const(_LANCZOS_FIRST), x.const(0.0)
    for n, c in enumerate(_LANCZOS):
        divisor = z + (n + 1.0)
        total = total + c / divisor
        slope = slope - c / (divisor * divisor)
    t = z + (_LANCZOS_G + 0.5)
    log_t = (z / (_LANCZOS_G + 0.5)).unary("log1p") + math.log(_LANCZOS_G + 0.5)  # of t = (g + 0.5) (1 + z / (g + 0.5))
    at_z = log_t + slope / total - _LANCZOS_G / t
    # The cotangent of pi x has the period 1, so x is replaced by its signed distance from the nearest integer, which is
    # exact. For x < 0.5, where it is used, that integer is floor(x + 0.5) <= 0: its magnitude is added.
    distance = x + (x + 0.5).unary("floor").unary("abs")
    angle = distance * math.pi
    reflected = at_z - angle.unary("cos") * math.pi / angle.unary("sin")
    result = is_reflected.where(reflected, at_z)
    pole = (x <= 0.0) & x.is_equal(x.unary("floor"))
    return pole.where(math.nan, result)


_BERNOULLI_DIVISORS = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
    -7.1661652561756670113e18,
)  # fmt: skip
"""(2n)! / B(2n) for n from 1, where B are the Bernoulli numbers: divisors of the terms of the
Euler-Maclaurin formula."""


def _euler_maclaurin(
    order: Element, q: Element,
    power: Callable[[Element], Element], integral: Callable[[Element, Element], Element],
) -> Element:  # fmt: skip
    """Return the sum of (q + n)^-order over n >= 0, by the Euler-Maclaurin formula after ten explicit terms.

    With s = order and a = q + 10, it is q^-s + ... + (q + 9)^-s, plus the integral of x^-s from a to infinity, plus
    a^-s / 2, plus the sum over k from 1 to 12 of B(2k) / (2k)! * s (s + 1) ... (s + 2k - 2) * a^-(s + 2k - 1).

    Args:
        order: The exponent, without its sign.
        q: Base of the first term, positive.
        power: power(a) -> a^-order, or a multiple of it: the result is the same multiple of the sum.
        integral: integral(a, power(a)) -> the integral of `power` from a to infinity.
    """
    total, a = power(q), q
    for _ in range(9):
        a = a + 1.0
        total = total + power(a)
    a = a + 1.0
    last = power(a)
    # The explicit terms stop before q + 10; the formula approximates the sum from a = q + 10 on.
    total = total + integral(a, last) + last * 0.5
    # The sum over k is last * s / a * (1 / d1 + r1 * (1 / d2 + r2 * ...)), evaluated from its inside (Horner), with the
    # divisors dk = (2k)! / B(2k) and the ratios rk = (s + 2k - 1) (s + 2k) / a^2. n is k - 1.
    correction = order.const(1 / _BERNOULLI_DIVISORS[-1])
    for n, divisor in reversed(list(enumerate(_BERNOULLI_DIVISORS[:-1]))):
        ratio = (order + (2.0 * n + 1)) / a * ((order + (2.0 * n + 2)) / a)
        correction = ratio * correction + 1 / divisor
    # For a large order the ratios overflow, but then the last power is 0 and so is the correction.
    return last.is_equal(0.0).where(total, total + last * (order / a) * correction)


def _is_even(x: Element) -> Element:
    """Return whether a whole number is even."""
    return ((x * 0.5).unary("floor") * 2.0).is_equal(x)


def _extended_to_every_q(q: Element, *, is_order_even: Element, sum_from: Callable[[Element], Element]) -> Element:
    """Return the sum of (q + n)^-order for any q and a whole order; inf at the poles.

    `sum_from` returns the sum for a positive q. For negative q there are two sums of a base to the power of -order:
    q = -2.3 has the positive bases 0.7, 1.7, ... and the negative bases -0.3, -1.3, -2.3. The positive ones have the
    sum sum_from(0.7). The magnitudes of the negative ones, 0.3, 1.3 and 2.3, have the sum sum_from(0.3) -
    sum_from(3.3), which is negated for an odd order. sum_from(0.7) and sum_from(0.3) are combined first, because they
    cancel halfway between poles if the order is odd.
    """
    magnitude = q.unary("abs")
    fraction = magnitude - magnitude.unary("floor")
    is_negative = q < 0.0
    of_positive_bases = sum_from(is_negative.where(1.0 - fraction, q))
    sign = is_order_even.where(q.const(1.0), -1.0)
    of_all_bases = of_positive_bases + sign * sum_from(fraction) - sign * sum_from(magnitude + 1.0)
    total = is_negative.where(of_all_bases, of_positive_bases)
    return ((q <= 0.0) & q.is_equal(q.unary("floor"))).where(math.inf, total)


def _hurwitz_zeta(x: Element, q: Element) -> Element:
    """Return the sum of (q + n)^-x over n >= 0; the exponent x is a number of at least 1, not necessarily a whole one.

    It is inf for x = 1, and for x > 1 at the poles q = 0, -1, -2, .... It is NaN for x < 1, and where a power of a
    negative number is not real: q is negative, and neither q nor x is a whole number.
    """
    minus_x, x_less_one = -x, x - 1.0

    def sum_from(q: Element) -> Element:
        """Return the sum for a positive q, by the Euler-Maclaurin formula."""
        return _euler_maclaurin(
            x,
            q,
            power=lambda a: a.binary("pow", minus_x),
            integral=lambda a, _power_of_a: a.binary("pow", -x_less_one) / x_less_one,  # a^(1 - x) / (x - 1)
        )

    # For a negative q this is right if x is a whole number. All other cases but the poles become NaN below.
    total = _extended_to_every_q(q, is_order_even=_is_even(x), sum_from=sum_from)
    is_q_whole, is_x_whole = q.is_equal(q.unary("floor")), x.is_equal(x.unary("floor"))
    is_real = is_q_whole | is_x_whole | ~(q < 0.0)
    total = (is_real & ~(x < 1.0)).where(total, math.nan)  # not x >= 1: a NaN x gives NaN in `total` anyway
    return x.is_equal(1.0).where(math.inf, total)


hurwitz_zeta = widened(_hurwitz_zeta)
"""`_hurwitz_zeta` for every float type: floats of less than 32 bits are computed in f32."""


@widened
def zeta(x: Element, q: Element) -> Element:
    """Return the Hurwitz zeta function, the sum of (q + n)^-x over n >= 0, as CHLO defines it.

    At its poles, q = 0, -1, -2, ..., it is inf if x is 1 or an even number above 0, else NaN.
    """
    is_pole = (q <= 0.0) & q.is_equal(q.unary("floor"))
    is_inf_at_poles = _is_even(x) | x.is_equal(1.0)
    return (is_pole & ~is_inf_at_poles).where(math.nan, _hurwitz_zeta(x, q))


def digamma_derivative(scalars: Scalars, n: int, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma, for n >= 1: (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1) over k >= 0.

    At the poles x = 0, -1, -2, ... it is inf for an odd n and -inf for an even n, the limit from above.
    """
    # scale is the factor that makes the sum a derivative: n! = scale^(n + 1), so n! / a^(n + 1) is a power of
    # scale / a, which overflows only if the result does.
    scale = math.exp(math.lgamma(n + 1) / (n + 1))

    def power(a: Element, exponent: int) -> Element:
        """Return (scale / a) ** exponent for a whole exponent, where scale ** (n + 1) is n!."""
        return 1.0 / _whole_power(a * (1 / scale), exponent)

    def derivative(x: Element) -> Element:
        """Return the n-th derivative of digamma at x: (-1)^(n + 1) n! times the sum of (x + k)^-(n + 1) over k >= 0.

        `power(a, m)` is (scale / a)^m, where scale^(n + 1) is n!.
        """

        def sum_from(q: Element) -> Element:
            """Return n! times the sum of (q + k)^-(n + 1) over k >= 0 for a positive q, by the Euler-Maclaurin formula.

            The factor n! is contained in each power, (scale / a)^(n + 1) with scale^(n + 1) = n!: by itself it could
            overflow.
            """
            # The integral of n! x^-(n + 1) from a to infinity is scale^(n + 1) / (n a^n).
            order = x.const(n + 1.0)
            return _euler_maclaurin(
                order, q, power=lambda a: power(a, n + 1), integral=lambda a, _power_of_a: power(a, n) * (scale / n)
            )

        is_order_even = x.const(n % 2).is_equal(1.0)  # the order is n + 1
        total = _extended_to_every_q(x, is_order_even=is_order_even, sum_from=sum_from)
        return total if n % 2 else -total  # times (-1)^(n + 1)

    return widened(derivative)(scalars, x)


def _whole_power(a: Element, exponent: int) -> Element:
    """Return a^exponent, for an exponent of at least 1, by repeated squaring: a^5 is (a^2)^2 a."""
    if exponent == 1:
        return a
    half = _whole_power(a * a, exponent // 2)
    return half * a if exponent % 2 else half


def polygamma(scalars: Scalars, n: Scalar, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma as CHLO defines it: NaN unless n, a float, is a whole number from 0."""

    def of(function: Callable[..., Scalar], *operands: Element) -> Element:
        """Apply a function of scalars to elements."""
        return Element(scalars, function(scalars, *(element.scalar for element in operands)))

    order, q = Element(scalars, n), Element(scalars, x)
    sign = _modulo(order, 2.0) * 2.0 - 1.0  # (-1)^(n + 1)
    next_order = order + 1.0
    result = sign * of(lgamma, next_order).unary("exp") * of(zeta, next_order, q)  # sign n! zeta(n + 1, x)
    result = order.is_equal(0.0).where(of(digamma, q), result)
    undefined = (order < 0.0) | ~order.is_equal(order.unary("floor"))
    return undefined.where(math.nan, result).scalar


def _modulo(x: Element, by: float) -> Element:
    """Return x - floor(x / by) * by."""
    return x - (x * (1 / by)).unary("floor") * by
