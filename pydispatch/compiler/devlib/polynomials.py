"""Polynomials that approximate the mathematical functions: the function, interval and degree of each.

`fit.py` computes their coefficients. A polynomial often approximates only the rest of a function: rest() and odd()
subtract exact leading terms, which the user of the polynomial adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp  # type: ignore[import-untyped,unused-ignore]

mp.mp.prec = 1500
Real = Any
"""Number of mpmath, which has no types."""


def rest(function: Callable[[Real], Real], terms: list[Real], order: int) -> Callable[[Real], Real]:
    """Return (function(x) - terms[0] - terms[1] x - ...) / x^order, as a function of x that is not defined at 0.

    For a power series that begins with `terms` this is the sum of the remaining terms, divided by x^order. For exp with
    the terms [1, 1] and the order 2, it is (exp(x) - 1 - x) / x^2.
    """
    return lambda x: (function(x) - sum(t * x**i for i, t in enumerate(terms))) / x**order


def odd(function: Callable[[Real], Real], lead: Real, order: int = 1) -> Callable[[Real], Real]:
    """Return (function(x)/x - lead) / z^order as a function of z = x^2 > 0.

    For an odd function this is its series in x^2 without the first coefficient, `lead`: for sin with the lead 1, it is
    -1/6 + z/120 - ... With a `lead` that is not the first coefficient, as for erf, the order is 0: the rest has no
    factor z.
    """
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - lead) / z**order


def erfcx(x: Real) -> Real:
    """Return the scaled complementary error function, e^(x^2) erfc(x), which does not underflow for large x."""
    return mp.exp(x * x) * mp.erfc(x)


def erfcx_scaled(u: Real) -> Real:
    """Return erfcx(x) (1 + 2x) as a function of u = (x - 4) / (x + 4), which maps x >= 0 to [-1, 1)."""
    x = 4 * (1 + u) / (1 - u)
    return erfcx(x) * (1 + 2 * x)


ERFCX_CENTER = mp.mpf(3) / 8
"""The y around which erfc in f32 has a polynomial, see `erfcx_over`."""


def erfcx_over(v: Real) -> Real:
    """Return erfcx(x) / y as a function of v = y - `ERFCX_CENTER`, where y = 1 / (1 + x/2) maps x >= 0 to (0, 1]."""
    y = v + ERFCX_CENTER
    return erfcx(2 * (1 / y - 1)) / y


class Spec(NamedTuple):
    """Polynomial of a math function that `fit.py` fits: the function, the interval and the degree.

    Attributes:
        macro: Name of its macro in C; "" for one that only kernel IR has.
        name: Name in kernel IR; "" for one that only C has.
        function: The function that it approximates.
        low, high: Ends of the interval.
        degree: Degree of the polynomial.
    """

    macro: str
    name: str
    function: Callable[[Real], Real]
    low: Real
    high: Real
    degree: int


# Functions without the leading terms of their series, which are exact: LOG_REST is (log(1 + x) - x + x^2/2) / x^3.
EXP_REST = rest(mp.exp, [1, 1, mp.mpf(1) / 2], order=3)
LOG_REST = rest(lambda x: mp.log1p(x), [0, 1, -mp.mpf(1) / 2], order=3)  # of log(1 + x)
COS_REST = rest(lambda z: mp.cos(mp.sqrt(z)), [1, -mp.mpf(1) / 2], order=2)  # of cos x as a function of z = x^2
# Ends of intervals. A function of odd() has z = x^2 as its argument; its ends are squares.
HALF_LOG_2 = mp.log(2) / 2
QUARTER_PI_SQUARED = mp.mpf("0.6169")  # (pi/4)^2, rounded up
HALF_SQUARED = mp.mpf("0.2501")  # (1/2)^2, rounded up
ERF_SQUARED = mp.mpf("0.7657")  # (7/8)^2, rounded up: erf(x) has another polynomial for x from 7/8 on

DOUBLE = [
    Spec("PYD_EXP_P", "exp", EXP_REST, low=-HALF_LOG_2, high=HALF_LOG_2, degree=9),
    Spec("PYD_EXPF_P", "", EXP_REST, low=-HALF_LOG_2, high=HALF_LOG_2, degree=5),
    # For log in f64, whose intermediate results are pairs: sums of two f64, which have more bits.
    Spec("PYD_LOG_P", "log of pairs", LOG_REST, low=-mp.mpf(1) / 120, high=mp.mpf(1) / 120, degree=6),
    # log m = 2 atanh(s), s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)], so that s^2 is at most tan(pi/8)^4.
    Spec("PYD_LOGF_P", "log", odd(lambda s: 2 * mp.atanh(s), 2), low=0, high=mp.mpf("0.02945"), degree=7),
    Spec("PYD_SIN_P", "sin", odd(mp.sin, 1), low=0, high=QUARTER_PI_SQUARED, degree=6),
    Spec("PYD_COS_P", "cos", COS_REST, low=0, high=QUARTER_PI_SQUARED, degree=6),
    Spec("PYD_SINF_P", "", odd(mp.sin, 1), low=0, high=QUARTER_PI_SQUARED, degree=4),
    Spec("PYD_COSF_P", "", lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, low=0, high=QUARTER_PI_SQUARED, degree=5),
    Spec("PYD_ASIN_P", "asin", odd(mp.asin, 1), low=0, high=HALF_SQUARED, degree=13),
    Spec("PYD_ASINF_P", "", odd(mp.asin, 1), low=0, high=HALF_SQUARED, degree=8),
    Spec("PYD_ATAN_P", "", odd(mp.atan, 1), low=0, high=mp.mpf("0.17158"), degree=12),  # tan(pi/8)^2
    Spec("", "atan", odd(mp.atan, 1), low=0, high=mp.mpf("0.00107"), degree=5),  # (1/32)^2 with a margin
    Spec("PYD_ATANF_P", "", odd(mp.atan, 1), low=0, high=1, degree=14),
    Spec("PYD_SINH_P", "sinh", odd(mp.sinh, 1), low=0, high=1, degree=8),
    Spec("PYD_TANH_P", "tanh", odd(mp.tanh, 1), low=0, high=mp.mpf("0.3026"), degree=12),  # 0.55^2
    Spec("PYD_ERF_P", "erf", odd(mp.erf, 1, order=0), low=0, high=ERF_SQUARED, degree=13),
    Spec("PYD_ERFF_P", "", odd(mp.erf, 1, order=0), low=0, high=ERF_SQUARED, degree=7),
    Spec("PYD_ERFCXF_P", "", erfcx, low=mp.mpf("0.875"), high=4, degree=13),
    Spec("PYD_RCBRT_P", "", lambda z: 1 / mp.cbrt(z), low=1, high=2, degree=5),
    # Three polynomials of erfcx(x) (1 + 2x) in u = (x - 4)/(x + 4). PYD_ERFCF_P is for erfc in float, x from 0 to 12.
    # PYD_ERFC_P is for erfc in double, from 0.4375 to 28, where it is 0. PYD_ERFCD_P is for erf in double, from 0.8 to
    # 6, where it is 1.
    Spec("PYD_ERFCF_P", "", erfcx_scaled, low=-1, high=mp.mpf("0.5"), degree=16),
    Spec(
        "PYD_ERFC_P",
        "",
        rest(erfcx_scaled, [erfcx_scaled(0)], order=1),
        low=mp.mpf("-0.8029"),
        high=mp.mpf("0.75"),
        degree=20,
    ),
    Spec("PYD_ERFCD_P", "erfcx", erfcx_scaled, low=mp.mpf(-2) / 3, high=mp.mpf("0.2"), degree=17),
    # For erfc in f64 kernels, x from 6 to 28: x erfcx(x) as a function of 1/x^2.
    Spec(
        "",
        "erfc far",
        lambda z: erfcx(1 / mp.sqrt(z)) / mp.sqrt(z),
        low=mp.mpf(1) / 784,
        high=mp.mpf(1) / 36,
        degree=12,
    ),
]
"""Polynomials whose coefficients are rounded to f64. C computes some f32 functions by them, too."""

SINGLE = [
    Spec("PYD_EXPS_P", "", EXP_REST, low=-HALF_LOG_2, high=HALF_LOG_2, degree=3),
    Spec("PYD_EXP2S_P", "", lambda x: mp.mpf(2) ** x, low=-mp.mpf(1) / 2, high=mp.mpf(1) / 2, degree=5),
    Spec("", "exp", EXP_REST, low=-HALF_LOG_2, high=HALF_LOG_2, degree=4),
    Spec("PYD_LOGS_P", "log", LOG_REST, low=-mp.mpf(1) / 3, high=mp.mpf(1) / 3, degree=8),
    Spec("PYD_TANHS_P", "tanh", odd(mp.tanh, 1), low=0, high=mp.mpf("0.3907"), degree=5),  # (5/8)^2
    Spec("PYD_SINHS_P", "sinh", odd(mp.sinh, 1), low=0, high=1, degree=4),
    Spec("PYD_ERFS_P", "erf", odd(mp.erf, 2 / mp.sqrt(mp.pi)), low=0, high=ERF_SQUARED, degree=6),
    # erfcx from 0.875 to 4, as a function of the distance from the center:
    Spec("", "erfcx", lambda t: erfcx(t + mp.mpf("2.4375")), low=-mp.mpf("1.5625"), high=mp.mpf("1.5625"), degree=11),
    Spec("PYD_ERFCS_LOG2_P", "", lambda x: mp.log(mp.erfc(x), 2) / x, low=mp.mpf("0.875"), high=4, degree=6),
    # erfc from 0 to 10.1, where it is 0:
    Spec(
        "PYD_ERFCS_P",
        "",
        rest(erfcx_over, [erfcx_over(0)], order=1),
        low=1 / mp.mpf("6.05") - ERFCX_CENTER,
        high=1 - ERFCX_CENTER,
        degree=9,
    ),
    Spec("PYD_SINS_P", "sin", odd(mp.sin, 1), low=0, high=QUARTER_PI_SQUARED, degree=3),
    Spec("PYD_COSS_P", "cos", COS_REST, low=0, high=QUARTER_PI_SQUARED, degree=3),
    Spec("PYD_ATANS_P", "atan", odd(mp.atan, 1), low=0, high=1, degree=9),
    Spec("PYD_ASINS_P", "asin", odd(mp.asin, 1), low=0, high=HALF_SQUARED, degree=5),
    Spec("", "erfc", erfcx_scaled, low=-1, high=mp.mpf("0.5"), degree=16),
]
"""Polynomials whose coefficients are rounded to f32."""
