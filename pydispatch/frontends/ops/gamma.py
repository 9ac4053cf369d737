"""The gamma function and its relatives, digamma, polygamma and the zeta functions, as formulas of single elements.

The gamma function is by Lanczos (g = 7, 9 terms), the zeta function by Euler and Maclaurin.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pydispatch.frontends.graph.dtypes import BOOL
from pydispatch.frontends.ops.formula import Formula, widened_formula
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars

_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS_G = 7.0


@widened_formula
def lgamma(formula: Formula, x: Scalar) -> Scalar:
    """Return the logarithm of the absolute value of the gamma function."""
    below = formula.lt(x, 0.5)
    z = formula.pick(below, formula.f("neg", x), formula.sub(x, 1.0))
    total = formula.c(_LANCZOS_FIRST)
    for n, c in enumerate(_LANCZOS):
        total = formula.add(total, formula.div(c, formula.add(z, n + 1.0)))
    t = formula.add(z, _LANCZOS_G + 0.5)
    log_t = formula.add(formula.f("log1p", formula.div(z, _LANCZOS_G + 0.5)), math.log(_LANCZOS_G + 0.5))
    scaled = formula.mul(formula.sub(formula.add(z, 0.5), formula.div(t, log_t)), log_t)
    above = formula.add(formula.add(scaled, 0.5 * math.log(2 * math.pi)), formula.f("log", total))
    # For x < 0.5 the reflection formula is used. Its sine is taken of the distance to the nearest integer, which is
    # exact.
    size = formula.f("abs", x)
    part = formula.sub(size, formula.f("floor", size))
    part = formula.pick(formula.lt(part, 0.5), part, formula.sub(1.0, part))
    sine = formula.f("log", formula.f("sin", formula.mul(part, math.pi)))
    finite = formula.f("is_finite", sine)
    reflected = formula.pick(finite, formula.sub(formula.sub(math.log(math.pi), sine), above), formula.f("neg", sine))
    result = formula.pick(below, reflected, above)
    return formula.pick(formula.eq(size, math.inf), math.inf, result)


@widened_formula
def digamma(formula: Formula, x: Scalar) -> Scalar:
    """Return the derivative of lgamma."""
    below = formula.lt(x, 0.5)
    z = formula.pick(below, formula.f("neg", x), formula.sub(x, 1.0))
    total, slope = formula.c(_LANCZOS_FIRST), formula.c(0.0)
    for n, c in enumerate(_LANCZOS):
        at = formula.add(z, n + 1.0)
        total = formula.add(total, formula.div(c, at))
        slope = formula.sub(slope, formula.div(c, formula.mul(at, at)))
    t = formula.add(z, _LANCZOS_G + 0.5)
    log_t = formula.add(formula.f("log1p", formula.div(z, _LANCZOS_G + 0.5)), math.log(_LANCZOS_G + 0.5))
    above = formula.sub(formula.add(log_t, formula.div(slope, total)), formula.div(_LANCZOS_G, t))
    # x + |floor(x + 0.5)| is the signed distance to the nearest integer, whose cotangent is exact.
    part = formula.add(x, formula.f("abs", formula.f("floor", formula.add(x, 0.5))))
    angle = formula.mul(part, math.pi)
    reflected = formula.sub(above, formula.div(formula.mul(formula.f("cos", angle), math.pi), formula.f("sin", angle)))
    result = formula.pick(below, reflected, above)
    pole = formula.s.binary("and", formula.le(x, 0.0), formula.eq(x, formula.f("floor", x)))
    return formula.pick(pole, math.nan, result)


_BERNOULLI = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
    -7.1661652561756670113e18,
)  # fmt: skip
"""(2n)! / B(2n) for n from 1, where B are the Bernoulli numbers: divisors of the terms of the
Euler-Maclaurin formula."""


def _euler_maclaurin(
    formula: Formula, order: Scalar, q: Scalar,
    power: Callable[[Scalar], Scalar], integral: Callable[[Scalar, Scalar], Scalar],
) -> Scalar:  # fmt: skip
    """Return the sum of (q + n)^-order over n >= 0, by the Euler-Maclaurin formula after ten explicit terms.

    Args:
        formula: The arithmetic.
        order: Order of the powers.
        q: First term's base.
        power: Returns a^-order.
        integral: Returns the integral of the power from a to infinity; its second argument is power(a).
    """
    total, a = power(q), q
    for _ in range(9):
        a = formula.add(a, 1.0)
        total = formula.add(total, power(a))
    a = formula.add(a, 1.0)
    last = power(a)
    total = formula.add(formula.add(total, integral(a, last)), formula.mul(last, 0.5))
    correction = formula.c(1 / _BERNOULLI[-1])
    for n, divisor in reversed(list(enumerate(_BERNOULLI[:-1]))):
        ratio = formula.mul(
            formula.div(formula.add(order, 2.0 * n + 1), a), formula.div(formula.add(order, 2.0 * n + 2), a)
        )
        correction = formula.add(formula.mul(ratio, correction), 1 / divisor)
    # For a large order the ratios overflow, but then the last power is 0 and so is the correction.
    return formula.pick(
        formula.eq(last, 0.0),
        total,
        formula.add(total, formula.mul(formula.mul(last, formula.div(order, a)), correction)),
    )


def _is_even(formula: Formula, x: Scalar) -> Scalar:
    """Return whether a whole number is even."""
    return formula.eq(formula.mul(formula.f("floor", formula.mul(x, 0.5)), 2.0), x)


def _of_every_q(formula: Formula, q: Scalar, is_even: Scalar, sum_from: Callable[[Scalar], Scalar]) -> Scalar:
    """Return the sum of (q + n)^-order for any q and a whole order; inf at the poles.

    For negative q the terms are those of two sums that start in (0, 1], minus the terms from 1 - q on. The two sums are
    added first: halfway between poles they cancel if the order is odd. `sum_from` returns the sum for a positive q.
    """
    size = formula.f("abs", q)
    part = formula.sub(size, formula.f("floor", size))
    is_below = formula.lt(q, 0.0)
    upper = sum_from(formula.pick(is_below, formula.sub(1.0, part), q))
    sign = formula.pick(is_even, 1.0, -1.0)
    below = formula.sub(
        formula.add(upper, formula.mul(sign, sum_from(part))), formula.mul(sign, sum_from(formula.add(size, 1.0)))
    )
    total = formula.pick(is_below, below, upper)
    return formula.pick(
        formula.s.binary("and", formula.le(q, 0.0), formula.eq(q, formula.f("floor", q))), math.inf, total
    )


def _hurwitz_zeta(formula: Formula, x: Scalar, q: Scalar) -> Scalar:
    """Return the sum of (q + n)^-x over n >= 0.

    It is inf at every pole, and NaN if x < 1 or if a power of a negative number is not real.
    """
    minus, less = formula.f("neg", x), formula.sub(x, 1.0)

    def sum_from(q: Scalar) -> Scalar:
        """Return the sum for a q that is large enough to be summed."""
        return _euler_maclaurin(
            formula,
            x,
            q,
            lambda a: formula.pow(a, minus),
            lambda a, _: formula.div(formula.pow(a, formula.f("neg", less)), less),
        )

    total = _of_every_q(formula, q, _is_even(formula, x), sum_from)
    is_whole = formula.eq(q, formula.f("floor", q))
    is_real = formula.s.binary(
        "or",
        formula.s.binary("or", is_whole, formula.eq(x, formula.f("floor", x))),
        formula.s.unary("not", formula.lt(q, 0.0)),
    )
    total = formula.pick(formula.s.binary("and", is_real, formula.s.unary("not", formula.lt(x, 1.0))), total, math.nan)
    return formula.pick(formula.eq(x, 1.0), math.inf, total)


hurwitz_zeta = widened_formula(_hurwitz_zeta)


@widened_formula
def zeta(formula: Formula, x: Scalar, q: Scalar) -> Scalar:
    """Return the Hurwitz zeta function as CHLO defines it: NaN at the poles of an x that is not even, except for 1."""
    both, negated = formula.s.binary, formula.s.unary
    is_pole = both("and", formula.le(q, 0.0), formula.eq(q, formula.f("floor", q)))
    is_signed = negated("not", both("or", _is_even(formula, x), formula.eq(x, 1.0)))
    return formula.pick(both("and", is_pole, is_signed), math.nan, _hurwitz_zeta(formula, x, q))


def digamma_derivative(scalars: Scalars, n: int, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma, for n >= 1. A pole has the sign of the derivative next to 0."""
    # n! = scale^(n + 1), so n! / a^(n + 1) is a power of scale / a, which overflows only if the result does.
    scale = math.exp(math.lgamma(n + 1) / (n + 1))

    def widened(formula: Formula, x: Scalar) -> Scalar:
        """Compute the derivative in wide floats."""

        def power(a: Scalar, exponent: int) -> Scalar:
            """Return scale / a to the power of a whole exponent."""
            return formula.div(1.0, _whole_power(formula, formula.mul(a, 1 / scale), exponent))

        def sum_from(q: Scalar) -> Scalar:
            """Return the sum for an argument that is large enough to be summed."""
            return _euler_maclaurin(
                formula,
                formula.c(n + 1.0),
                q,
                lambda a: power(a, n + 1),
                lambda a, _: formula.mul(power(a, n), scale / n),
            )

        total = _of_every_q(formula, x, formula.s.const(n % 2 == 1, BOOL), sum_from)
        return total if n % 2 else formula.f("neg", total)

    return widened_formula(widened)(scalars, x)


def _whole_power(formula: Formula, a: Scalar, exponent: int) -> Scalar:
    """Return a^exponent by squaring; the exponent is at least 1."""
    if exponent == 1:
        return a
    half = _whole_power(formula, formula.mul(a, a), exponent // 2)
    return formula.mul(half, a) if exponent % 2 else half


def polygamma(scalars: Scalars, n: Scalar, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma as CHLO defines it. n is an element with a whole value."""
    m = Formula(scalars, n.dtype)
    sign = m.sub(m.mul(_modulo(m, n, 2.0), 2.0), 1.0)
    above = m.add(n, 1.0)
    result = m.mul(m.mul(sign, m.f("exp", lgamma(scalars, above))), zeta(scalars, above, x))
    result = m.pick(m.eq(n, 0.0), digamma(scalars, x), result)
    undefined = scalars.binary("or", m.lt(n, 0.0), scalars.unary("not", m.eq(n, m.f("floor", n))))
    return m.pick(undefined, math.nan, result)


def _modulo(formula: Formula, x: Scalar, by: float) -> Scalar:
    """Return x - floor(x / by) * by."""
    return formula.sub(x, formula.mul(formula.f("floor", formula.mul(x, 1 / by)), by))
