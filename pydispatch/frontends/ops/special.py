"""Special functions as formulas of single elements, and operations on the bits of floats.

The inverse error function is by Giles, the gamma function by Lanczos (g = 7, 9 terms), the zeta function by Euler and
Maclaurin, the Bessel function by Chebyshev series (Cephes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pydispatch.frontends.graph.dtypes import BOOL, DTYPES, F32, F64, DType
from pydispatch.frontends.ops.reals import Scalar, UnsupportedTypeError
from pydispatch.frontends.ops.scalars import Scalars


class _Formula:
    """Short names for the arithmetic of one floating-point type."""

    def __init__(self, scalars: Scalars, dtype: DType) -> None:
        self.s = scalars
        self.dtype = dtype

    def c(self, value: float) -> Scalar:
        """Return a constant."""
        return self.s.const(value, self.dtype)

    def add(self, lhs: Scalar, rhs: Scalar | float) -> Scalar:
        return self.s.binary("add", lhs, self._of(rhs))

    def sub(self, lhs: Scalar | float, rhs: Scalar | float) -> Scalar:
        return self.s.binary("sub", self._of(lhs), self._of(rhs))

    def mul(self, lhs: Scalar, rhs: Scalar | float) -> Scalar:
        return self.s.binary("mul", lhs, self._of(rhs))

    def div(self, lhs: Scalar | float, rhs: Scalar | float) -> Scalar:
        return self.s.binary("div", self._of(lhs), self._of(rhs))

    def pow(self, lhs: Scalar, rhs: Scalar) -> Scalar:
        return self.s.binary("pow", lhs, rhs)

    def f(self, name: str, a: Scalar) -> Scalar:
        """Apply a unary function by its name."""
        return self.s.unary(name, a)

    def lt(self, lhs: Scalar, rhs: Scalar | float) -> Scalar:
        return self.s.compare("lt", lhs, self._of(rhs))

    def le(self, lhs: Scalar, rhs: Scalar | float) -> Scalar:
        return self.s.compare("le", lhs, self._of(rhs))

    def eq(self, lhs: Scalar, rhs: Scalar | float) -> Scalar:
        return self.s.compare("eq", lhs, self._of(rhs))

    def pick(self, condition: Scalar, lhs: Scalar | float, rhs: Scalar | float) -> Scalar:
        """Return lhs if the condition holds, else rhs."""
        return self.s.select(condition, self._of(lhs), self._of(rhs))

    def poly(self, x: Scalar, coefficients: Sequence[float]) -> Scalar:
        """Return the value at x of the polynomial with these coefficients, the highest first."""
        total = self.c(coefficients[0])
        for c in coefficients[1:]:
            total = self.add(self.mul(total, x), c)
        return total

    def _of(self, value: Scalar | float) -> Scalar:
        """Return a number as a constant; a scalar is returned unchanged."""
        return value if isinstance(value, Scalar) else self.c(value)


def _wide(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """Decorate a function of one type so that small floats are computed in f32 and rounded back."""

    def widened(scalars: Scalars, *operands: Scalar) -> Scalar:
        dtype = operands[0].dtype
        if not dtype.is_float:
            raise UnsupportedTypeError(f"{function.__name__} of {dtype} is not defined")
        inner = F64 if dtype.bits == 64 else F32
        return scalars.convert(
            function(_Formula(scalars, inner), *(scalars.convert(x, inner) for x in operands)), dtype
        )

    widened.__name__, widened.__doc__ = function.__name__, function.__doc__
    return widened


# -- the inverse error function

_ERF_INV_32 = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
     0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
     1.00167406, 2.83297682),
)  # fmt: skip
_ERF_INV_64 = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17,
     -1.333171662854620906e-16, 2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14,
     -8.1519341976054721522e-14, 2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
     1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
     -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352, -0.00074070253416626697512,
     -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
     1.5027403968909827627e-06, -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05,
     -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
     0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066, -0.0037512085075692412107,
     0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09,
     7.6157012080783393804e-09, -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08,
     2.2900482228026654717e-07, -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
     7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026, 1.0103004648645343977,
     4.8499064014085844221),
)  # fmt: skip


@_wide
def erf_inv(formula: _Formula, x: Scalar) -> Scalar:
    """Return the inverse error function, by polynomials in w = -log(1 - x^2) or in its root."""
    w = formula.f("neg", formula.f("log1p", formula.f("neg", formula.mul(x, x))))
    root = formula.f("sqrt", w)
    if formula.dtype == F64:
        near, middle, far = _ERF_INV_64
        p = formula.pick(
            formula.lt(w, 16.0),
            formula.poly(formula.sub(root, 3.25), middle),
            formula.poly(formula.sub(root, 5.0), far),
        )
        p = formula.pick(formula.lt(w, 6.25), formula.poly(formula.sub(w, 3.125), near), p)
    else:
        small, large = _ERF_INV_32
        p = formula.pick(
            formula.lt(w, 5.0), formula.poly(formula.sub(w, 2.5), small), formula.poly(formula.sub(root, 3.0), large)
        )
    return formula.pick(formula.eq(formula.f("abs", x), 1.0), formula.mul(x, math.inf), formula.mul(p, x))


# -- gamma, digamma, zeta, polygamma

_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283, 771.3234287776530788486528258894,
    -176.61502916214059906584551354, 12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_LANCZOS_FIRST = 0.99999999999980993227684700473478
_LANCZOS_G = 7.0


@_wide
def lgamma(formula: _Formula, x: Scalar) -> Scalar:
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


@_wide
def digamma(formula: _Formula, x: Scalar) -> Scalar:
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
    formula: _Formula, order: Scalar, q: Scalar,
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


@_wide
def zeta(formula: _Formula, x: Scalar, q: Scalar) -> Scalar:
    """Return the Hurwitz zeta function as CHLO defines it.

    It is NaN at poles of odd x. It is accurate for q from about -5 on.
    """
    minus = formula.f("neg", x)
    total = _euler_maclaurin(
        formula,
        x,
        q,
        lambda a: formula.pow(a, minus),
        lambda a, last: formula.div(formula.mul(last, a), formula.sub(x, 1.0)),
    )
    both = formula.s.binary
    is_whole = formula.eq(q, formula.f("floor", q))
    total = formula.pick(both("and", formula.le(q, 0.0), is_whole), math.inf, total)
    undefined = both("and", formula.lt(q, 0.0), formula.s.unary("not", formula.eq(x, formula.f("floor", x))))
    at_pole = both("and", formula.le(q, 0.0), both("and", is_whole, formula.s.unary("not", _is_even(formula, x))))
    total = formula.pick(both("or", undefined, at_pole), math.nan, total)
    total = formula.pick(formula.lt(x, 1.0), math.nan, total)
    return formula.pick(formula.eq(x, 1.0), math.inf, total)


def _is_even(formula: _Formula, x: Scalar) -> Scalar:
    """Return whether a whole number is even."""
    return formula.eq(formula.mul(formula.f("floor", formula.mul(x, 0.5)), 2.0), x)


def _of_every_q(formula: _Formula, q: Scalar, is_even: Scalar, sum_from: Callable[[Scalar], Scalar]) -> Scalar:
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


@_wide
def hurwitz_zeta(formula: _Formula, x: Scalar, q: Scalar) -> Scalar:
    """Return the sum of (q + n)^-x over n >= 0.

    It is inf at every pole, and NaN if x < 1 or if a power of a negative number is not real.
    """
    minus, less = formula.f("neg", x), formula.sub(x, 1.0)

    def sum_from(q: Scalar) -> Scalar:
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


def digamma_derivative(scalars: Scalars, n: int, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma, for n >= 1. A pole has the sign of the derivative next to 0."""
    # n! = scale^(n + 1), so n! / a^(n + 1) is a power of scale / a, which overflows only if the result does.
    scale = math.exp(math.lgamma(n + 1) / (n + 1))

    def widened(formula: _Formula, x: Scalar) -> Scalar:
        def power(a: Scalar, exponent: int) -> Scalar:
            return formula.div(1.0, _whole_power(formula, formula.mul(a, 1 / scale), exponent))

        def sum_from(q: Scalar) -> Scalar:
            return _euler_maclaurin(
                formula,
                formula.c(n + 1.0),
                q,
                lambda a: power(a, n + 1),
                lambda a, _: formula.mul(power(a, n), scale / n),
            )

        total = _of_every_q(formula, x, formula.s.const(n % 2 == 1, BOOL), sum_from)
        return total if n % 2 else formula.f("neg", total)

    return _wide(widened)(scalars, x)


def _whole_power(formula: _Formula, a: Scalar, exponent: int) -> Scalar:
    """Return a^exponent by squaring; the exponent is at least 1."""
    if exponent == 1:
        return a
    half = _whole_power(formula, formula.mul(a, a), exponent // 2)
    return formula.mul(half, a) if exponent % 2 else half


def polygamma(scalars: Scalars, n: Scalar, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma as CHLO defines it. n is an element with a whole value."""
    m = _Formula(scalars, n.dtype)
    sign = m.sub(m.mul(_modulo(m, n, 2.0), 2.0), 1.0)
    above = m.add(n, 1.0)
    result = m.mul(m.mul(sign, m.f("exp", lgamma(scalars, above))), zeta(scalars, above, x))
    result = m.pick(m.eq(n, 0.0), digamma(scalars, x), result)
    undefined = scalars.binary("or", m.lt(n, 0.0), scalars.unary("not", m.eq(n, m.f("floor", n))))
    return m.pick(undefined, math.nan, result)


def _modulo(formula: _Formula, x: Scalar, by: float) -> Scalar:
    """Return x - floor(x / by) * by."""
    return formula.sub(x, formula.mul(formula.f("floor", formula.mul(x, 1 / by)), by))


# -- the Bessel function

_I1E_SMALL = (
    2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16, -1.10559694773538630805e-15,
    7.60068429473540693410e-15, -5.04218550472791168711e-14, 3.22379336594557470981e-13, -1.98397439776494371520e-12,
    1.17361862988909016308e-11, -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
    9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7, -8.56872026469545474066e-7,
    3.47025130813767847674e-6, -1.32731636560394358279e-5, 4.78156510755005422638e-5, -1.61760815825896745588e-4,
    5.12285956168575772895e-4, -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
    2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1, -1.76416518357834055153e-1,
    2.52587186443633654823e-1,
)  # fmt: skip
_I1E_LARGE = (
    7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17, -3.20952592199342395980e-17,
    2.96262899764595013876e-16, 3.30820231092092828324e-16, -1.88035477551078244854e-15, -3.81440307243700780478e-15,
    1.04202769841288027642e-14, 4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11, 3.25260358301548823856e-11,
    -1.89749581235054123450e-11, -5.58974346219658380687e-10, -3.83538038596423702205e-9, -2.63146884688951950684e-8,
    -2.51223623787020892529e-7, -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
    7.78576235018280120474e-1,
)  # fmt: skip


def _chebyshev(formula: _Formula, x: Scalar, coefficients: Sequence[float]) -> Scalar:
    """Return the value at x of a Chebyshev series, by Clenshaw's recurrence."""
    b0, b1, b2 = formula.c(0.0), formula.c(0.0), formula.c(0.0)
    for c in coefficients:
        b2, b1 = b1, b0
        b0 = formula.add(formula.sub(formula.mul(x, b1), b2), c)
    return formula.mul(formula.sub(b0, b2), 0.5)


@_wide
def bessel_i1e(formula: _Formula, x: Scalar) -> Scalar:
    """Return exp(-|x|) times the modified Bessel function of order 1."""
    z = formula.f("abs", x)
    small = formula.mul(_chebyshev(formula, formula.sub(formula.mul(z, 0.5), 2.0), _I1E_SMALL), z)
    large = formula.div(_chebyshev(formula, formula.sub(formula.div(32.0, z), 2.0), _I1E_LARGE), formula.f("sqrt", z))
    return formula.mul(formula.f("sign", x), formula.pick(formula.le(z, 8.0), small, large))


# -- bits of floats

_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def _bits_of(scalars: Scalars, x: Scalar) -> tuple[Scalar, DType]:
    """Return the bits of a float as an unsigned integer, and the type of that."""
    if x.dtype.name not in _MANTISSA:
        raise UnsupportedTypeError(f"the bits of {x.dtype} are not looked at here")
    unsigned = DTYPES[f"u{x.dtype.bits}"]
    return scalars.bitcast(x, unsigned), unsigned


def total_order(scalars: Scalars, x: Scalar) -> Scalar:
    """Return a signed integer for a float, such that comparing the integers is IEEE 754's totalOrder of the floats."""
    if x.dtype.bits < 8:
        x = scalars.convert(x, F32)
    signed = DTYPES[f"i{x.dtype.bits}"]
    bits = scalars.bitcast(x, signed)
    flipped = scalars.binary("xor", bits, scalars.const((1 << (signed.bits - 1)) - 1, signed))
    return scalars.select(scalars.compare("lt", bits, scalars.const(0, signed)), flipped, bits)


def next_after(scalars: Scalars, x: Scalar, y: Scalar) -> Scalar:
    """Return the next representable float after x in the direction of y."""
    bits, unsigned = _bits_of(scalars, x)
    sign_bit = 1 << (unsigned.bits - 1)
    y_bits, _ = _bits_of(scalars, y)
    one, zero = scalars.const(1, unsigned), scalars.const(0.0, x.dtype)
    y_sign = scalars.binary("and", y_bits, scalars.const(sign_bit, unsigned))
    smallest = scalars.bitcast(scalars.binary("or", y_sign, one), x.dtype)
    same_sign = scalars.compare("eq", scalars.binary("and", bits, scalars.const(sign_bit, unsigned)), y_sign)
    sizes = [scalars.binary("and", v, scalars.const(sign_bit - 1, unsigned)) for v in (bits, y_bits)]
    inwards = scalars.binary("or", scalars.compare("gt", sizes[0], sizes[1]), scalars.unary("not", same_sign))
    step = scalars.select(inwards, scalars.const(-1, unsigned), one)
    result = scalars.bitcast(scalars.binary("add", bits, step), x.dtype)
    result = scalars.select(scalars.compare("eq", x, zero), smallest, result)
    result = scalars.select(scalars.compare("eq", x, y), y, result)
    nan = scalars.binary("or", scalars.unary("is_nan", x), scalars.unary("is_nan", y))
    return scalars.select(nan, scalars.const(math.nan, x.dtype), result)


def reduce_precision(scalars: Scalars, x: Scalar, exponent: int, mantissa: int) -> Scalar:
    """Round x, ties to even, to a float with the given numbers of exponent and mantissa bits.

    Values out of range become infinite. NaN becomes infinite too if there is no mantissa, which would distinguish it
    (as in XLA's evaluator).
    """
    if x.dtype.is_float and x.dtype.bits <= 8:
        return scalars.convert(reduce_precision(scalars, scalars.convert(x, F32), exponent, mantissa), x.dtype)
    bits, unsigned = _bits_of(scalars, x)
    mantissa_bits = _MANTISSA[x.dtype.name]
    exponent_bits = unsigned.bits - 1 - mantissa_bits

    def c(value: int) -> Scalar:
        return scalars.const(value, unsigned)

    if mantissa < mantissa_bits:
        dropped = mantissa_bits - mantissa
        last = scalars.binary("and", scalars.binary("shift_right_logical", bits, c(dropped)), c(1))
        up = scalars.binary("add", last, c((1 << (dropped - 1)) - 1))
        bits = scalars.binary("and", scalars.binary("add", bits, up), c(-1 << dropped))
    if exponent < exponent_bits:
        bias, reduced = (1 << (exponent_bits - 1)) - 1, (1 << (exponent - 1)) - 1
        field = scalars.binary("and", bits, c(((1 << exponent_bits) - 1) << mantissa_bits))
        sign = scalars.binary("and", bits, c(1 << (unsigned.bits - 1)))
        infinite = scalars.binary("or", sign, c(((1 << exponent_bits) - 1) << mantissa_bits))
        over = scalars.compare("gt", field, c((bias + reduced) << mantissa_bits))
        under = scalars.compare("le", field, c((bias - reduced) << mantissa_bits))
        bits = scalars.select(over, infinite, scalars.select(under, sign, bits))
    result = scalars.bitcast(bits, x.dtype)
    return scalars.select(scalars.unary("is_nan", x), x if mantissa else scalars.const(math.inf, x.dtype), result)
