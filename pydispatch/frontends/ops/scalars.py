"""Arithmetic on single elements of any type: what the bodies of operations on tensors are written with.

Formulas of complex functions are the textbook ones in real and imaginary part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from pydispatch.frontends.graph.dtypes import C64, C128, DType
from pydispatch.frontends.ops.reals import Reals, Scalar, UnsupportedTypeError


class Scalars(Reals):
    """Builder of scalar operations in a block, including complex arithmetic."""

    # -- complex numbers and their parts

    def real(self, a: Scalar) -> Scalar:
        """Return the real part; the number itself when it is not complex."""
        return Scalar(a.dtype.real, a.parts[:1])

    def imag(self, a: Scalar) -> Scalar:
        """Return the imaginary part; 0 of a number that is not complex."""
        return Scalar(a.dtype.real, a.parts[1:]) if a.dtype.is_complex else self.const(0, a.dtype)

    def complex(self, real: Scalar, imag: Scalar) -> Scalar:
        """Return the complex number of two floats."""
        return Scalar({32: C64, 64: C128}[real.dtype.bits], (real.value, imag.value))

    def conj(self, a: Scalar) -> Scalar:
        """Return the conjugate."""
        return self.complex(self.real(a), self.unary("neg", self.imag(a))) if a.dtype.is_complex else a

    def _scaled(self, a: Scalar, factor: Scalar) -> Scalar:
        return self.complex(self.binary("mul", self.real(a), factor), self.binary("mul", self.imag(a), factor))

    # -- functions by name

    def binary(self, name: str, a: Scalar, b: Scalar) -> Scalar:
        if not (a.dtype.is_complex and a.dtype == b.dtype):
            return super().binary(name, a, b)
        function = _COMPLEX_BINARY.get(name)
        if function is None:
            raise UnsupportedTypeError(f"{name} of {a.dtype} is not defined")
        return function(self, a, b)

    def unary(self, name: str, a: Scalar) -> Scalar:
        if not a.dtype.is_complex:
            return super().unary(name, a)
        function = _COMPLEX_UNARY.get(name)
        if function is None:
            raise UnsupportedTypeError(f"{name} of {a.dtype} is not defined")
        return function(self, a)

    def compare(self, order: str, a: Scalar, b: Scalar) -> Scalar:
        """Complex numbers are ordered by their real parts, those that are equal by their imaginary ones."""
        if not a.dtype.is_complex:
            return super().compare(order, a, b)
        of_real, of_imag = (self.compare(order, part(a), part(b)) for part in (self.real, self.imag))
        if order in ("eq", "ne"):
            return self.binary("and" if order == "eq" else "or", of_real, of_imag)
        tied = self.compare("eq", self.real(a), self.real(b))
        strict = self.compare(order[0] + "t", self.real(a), self.real(b))
        return self.binary("or", strict, self.binary("and", tied, of_imag))

    def convert(self, a: Scalar, to: DType) -> Scalar:
        if a.dtype == to or not (a.dtype.is_complex or to.is_complex):
            return super().convert(a, to)
        if to.is_bool:
            return self.compare("ne", a, self.const(0.0, a.dtype))
        if not to.is_complex:
            return self.convert(self.real(a), to)
        real = self.convert(self.real(a), to.real)
        imag = self.convert(self.imag(a), to.real) if a.dtype.is_complex else self.const(0.0, to.real)
        return self.complex(real, imag)


def _add(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    return s.complex(s.binary("add", s.real(a), s.real(b)), s.binary("add", s.imag(a), s.imag(b)))


def _sub(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    return s.complex(s.binary("sub", s.real(a), s.real(b)), s.binary("sub", s.imag(a), s.imag(b)))


def _mul(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    (ar, ai), (br, bi) = ((s.real(x), s.imag(x)) for x in (a, b))
    real = s.binary("sub", s.binary("mul", ar, br), s.binary("mul", ai, bi))
    return s.complex(real, s.binary("add", s.binary("mul", ar, bi), s.binary("mul", ai, br)))


def _div(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """Scaled by the larger part of the divisor, so that squares do not overflow. By 0 each part is divided."""
    size = s.binary("max", s.unary("abs", s.real(b)), s.unary("abs", s.imag(b)))
    scale = s.binary("div", s.const(1.0, size.dtype), size)
    b = s._scaled(b, scale)
    squares = s.binary("add", s.binary("mul", s.real(b), s.real(b)), s.binary("mul", s.imag(b), s.imag(b)))
    top = s._scaled(_mul(s, a, s.conj(b)), scale)
    made = s.complex(s.binary("div", s.real(top), squares), s.binary("div", s.imag(top), squares))
    return s.select(s.compare("eq", size, s.const(0.0, size.dtype)), s._scaled(a, scale), made)


def _pow(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
    """exp(b log(a)); of 0 to the power of 0 1, to one with a positive real part 0."""
    zero, one = s.const(0.0, a.dtype), s.const(1.0, a.dtype)
    power = _exp(s, _mul(s, b, _log(s, a)))
    grows = s.compare("gt", s.real(b), s.const(0.0, a.dtype.real))
    at_zero = s.select(s.compare("eq", b, zero), one, s.select(grows, zero, power))
    return s.select(s.compare("eq", a, zero), at_zero, power)


def _chosen(order: str) -> Callable[[Scalars, Scalar, Scalar], Scalar]:
    """Return the function that selects the larger or the smaller of two numbers, ordered by real and imaginary part;
    NaN stays.
    """

    def chosen(s: Scalars, a: Scalar, b: Scalar) -> Scalar:
        undefined = s.compare("ne", a, a)
        return s.select(s.binary("or", undefined, s.compare(order, a, b)), a, b)

    return chosen


def _atan2(s: Scalars, y: Scalar, x: Scalar) -> Scalar:
    """-i log((x + iy) / sqrt(x^2 + y^2))."""
    turned = s.complex(s.binary("sub", s.real(x), s.imag(y)), s.binary("add", s.imag(x), s.real(y)))
    length = _sqrt(s, _add(s, _mul(s, x, x), _mul(s, y, y)))
    made = _log(s, _div(s, turned, length))
    return s.complex(s.imag(made), s.unary("neg", s.real(made)))


def _neg(s: Scalars, a: Scalar) -> Scalar:
    return s.complex(s.unary("neg", s.real(a)), s.unary("neg", s.imag(a)))


def _abs(s: Scalars, a: Scalar) -> Scalar:
    """Return the absolute value, a float, without squares that overflow."""
    x, y = s.unary("abs", s.real(a)), s.unary("abs", s.imag(a))
    large, small = s.binary("max", x, y), s.binary("min", x, y)
    zero, one = s.const(0.0, x.dtype), s.const(1.0, x.dtype)
    ratio = s.binary("div", small, large)
    length = s.binary("mul", large, s.unary("sqrt", s.binary("add", one, s.binary("mul", ratio, ratio))))
    return s.select(s.compare("eq", small, zero), large, s.select(s.unary("is_inf", large), large, length))


def _sign(s: Scalars, a: Scalar) -> Scalar:
    size = _abs(s, a)
    zero = s.const(0.0, a.dtype)
    unit = s.complex(s.binary("div", s.real(a), size), s.binary("div", s.imag(a), size))
    return s.select(s.compare("eq", a, zero), zero, unit)


def _turned(s: Scalars, length: Scalar, angle: Scalar) -> Scalar:
    """Return the complex number that has a length and an angle."""
    return s.complex(s.binary("mul", length, s.unary("cos", angle)), s.binary("mul", length, s.unary("sin", angle)))


def _exp(s: Scalars, a: Scalar) -> Scalar:
    zero = s.const(0.0, a.dtype.real)
    made = _turned(s, s.unary("exp", s.real(a)), s.imag(a))
    is_real = s.compare("eq", s.imag(a), zero)
    return s.complex(s.real(made), s.select(is_real, s.imag(a), s.imag(made)))


def _log(s: Scalars, a: Scalar) -> Scalar:
    return s.complex(s.unary("log", _abs(s, a)), s.binary("atan2", s.imag(a), s.real(a)))


def _log1p(s: Scalars, a: Scalar) -> Scalar:
    """Return log(1 + x) of a complex number. Its real part is log1p(x (x + 2) + y^2) / 2, which is exact near 0."""
    one, x, y = s.const(1.0, a.dtype.real), s.real(a), s.imag(a)
    whole = _log(s, s.complex(s.binary("add", one, x), y))
    grown = s.binary("add", s.binary("mul", x, s.binary("add", x, s.const(2.0, x.dtype))), s.binary("mul", y, y))
    near = s.binary("mul", s.const(0.5, x.dtype), s.unary("log1p", grown))
    is_small = s.compare("lt", s.binary("max", s.unary("abs", x), s.unary("abs", y)), s.const(0.25, x.dtype))
    return s.complex(s.select(is_small, near, s.real(whole)), s.imag(whole))


def _cbrt(s: Scalars, a: Scalar) -> Scalar:
    """Return the cube root with the smallest angle."""
    third = s.binary("div", s.binary("atan2", s.imag(a), s.real(a)), s.const(3.0, a.dtype.real))
    return _turned(s, s.unary("cbrt", _abs(s, a)), third)


def _expm1(s: Scalars, a: Scalar) -> Scalar:
    """exp(x) cos(y) - 1 without cancellation: expm1(x) cos(y) - 2 sin(y/2)^2."""
    x, y = s.real(a), s.imag(a)
    half = s.unary("sin", s.binary("mul", y, s.const(0.5, y.dtype)))
    lost = s.binary("mul", s.const(2.0, y.dtype), s.binary("mul", half, half))
    real = s.binary("sub", s.binary("mul", s.unary("expm1", x), s.unary("cos", y)), lost)
    return s.complex(real, s.imag(_exp(s, a)))


def _sqrt(s: Scalars, a: Scalar) -> Scalar:
    """Return the square root with a real part of at least 0."""
    zero, half = s.const(0.0, a.dtype.real), s.const(0.5, a.dtype.real)
    x, y = s.real(a), s.imag(a)
    large = s.unary("sqrt", s.binary("mul", half, s.binary("add", _abs(s, a), s.unary("abs", x))))
    small = s.binary("div", s.binary("mul", half, s.unary("abs", y)), large)
    right = s.compare("ge", x, zero)
    real, imag = s.select(right, large, small), s.select(right, small, large)
    made = s.complex(real, s.binary("copysign", imag, y))
    return s.select(s.compare("eq", a, s.const(0.0, a.dtype)), s.complex(zero, y), made)


def _rsqrt(s: Scalars, a: Scalar) -> Scalar:
    return _div(s, s.const(1.0, a.dtype), _sqrt(s, a))


def _sinh(s: Scalars, a: Scalar) -> Scalar:
    x, y = s.real(a), s.imag(a)
    real = s.binary("mul", s.unary("sinh", x), s.unary("cos", y))
    return s.complex(real, s.binary("mul", s.unary("cosh", x), s.unary("sin", y)))


def _cosh(s: Scalars, a: Scalar) -> Scalar:
    x, y = s.real(a), s.imag(a)
    real = s.binary("mul", s.unary("cosh", x), s.unary("cos", y))
    return s.complex(real, s.binary("mul", s.unary("sinh", x), s.unary("sin", y)))


def _tanh(s: Scalars, a: Scalar) -> Scalar:
    """(t (1 + n^2) + i n (1 - t^2)) / (1 + t^2 n^2) with t = tanh(x), n = tan(y)."""
    t, n = s.unary("tanh", s.real(a)), s.unary("tan", s.imag(a))
    one = s.const(1.0, t.dtype)
    tt, nn = s.binary("mul", t, t), s.binary("mul", n, n)
    below = s.binary("add", one, s.binary("mul", tt, nn))
    real = s.binary("div", s.binary("mul", t, s.binary("add", one, nn)), below)
    return s.complex(real, s.binary("div", s.binary("mul", n, s.binary("sub", one, tt)), below))


def _rotated(function: Callable[[Scalars, Scalar], Scalar], back: bool) -> Callable[[Scalars, Scalar], Scalar]:
    """f(ia), or -i f(ia): sines, cosines and tangents from their hyperbolic ones."""

    def rotated(s: Scalars, a: Scalar) -> Scalar:
        made = function(s, s.complex(s.unary("neg", s.imag(a)), s.real(a)))
        return s.complex(s.imag(made), s.unary("neg", s.real(made))) if back else made

    return rotated


def _logistic(s: Scalars, a: Scalar) -> Scalar:
    one = s.const(1.0, a.dtype)
    return _div(s, one, _add(s, one, _exp(s, _neg(s, a))))


def _asinh(s: Scalars, a: Scalar) -> Scalar:
    """log1p(z + z^2 / (1 + sqrt(1 + z^2))) of the number with a real part from 0, an odd function."""
    left = s.compare("lt", s.real(a), s.const(0.0, a.dtype.real))
    z, one = s.select(left, _neg(s, a), a), s.const(1.0, a.dtype)
    square = _mul(s, z, z)
    rest = _div(s, square, _add(s, one, _sqrt(s, _add(s, one, square))))
    made = _log1p(s, _add(s, z, rest))
    return s.select(left, _neg(s, made), made)


def _acosh(s: Scalars, a: Scalar) -> Scalar:
    one = s.const(1.0, a.dtype)
    roots = _mul(s, _sqrt(s, _add(s, a, one)), _sqrt(s, _sub(s, a, one)))
    return _log(s, _add(s, a, roots))


def _atanh(s: Scalars, a: Scalar) -> Scalar:
    apart = _sub(s, _log1p(s, a), _log1p(s, _neg(s, a)))
    return s._scaled(apart, s.const(0.5, a.dtype.real))


def _acos(s: Scalars, a: Scalar) -> Scalar:
    return _sub(s, s.const(math.pi / 2, a.dtype), _rotated(_asinh, True)(s, a))


def _is_finite(s: Scalars, a: Scalar) -> Scalar:
    return s.binary("and", s.unary("is_finite", s.real(a)), s.unary("is_finite", s.imag(a)))


def _is_nan(s: Scalars, a: Scalar) -> Scalar:
    return s.binary("or", s.unary("is_nan", s.real(a)), s.unary("is_nan", s.imag(a)))


_COMPLEX_BINARY = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow, "atan2": _atan2, "max": _chosen("ge"),
    "min": _chosen("le"),
}  # fmt: skip
_COMPLEX_UNARY = {
    "neg": _neg, "abs": _abs, "sign": _sign, "exp": _exp, "log": _log, "log1p": _log1p, "expm1": _expm1, "sqrt": _sqrt,
    "cbrt": _cbrt, "rsqrt": _rsqrt, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sin": _rotated(_sinh, True),
    "cos": _rotated(_cosh, False), "tan": _rotated(_tanh, True), "logistic": _logistic, "is_finite": _is_finite,
    "is_nan": _is_nan, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "acos": _acos,
    "asin": _rotated(_asinh, True), "atan": _rotated(_atanh, True),
}  # fmt: skip


def scalars_of(dtypes: Sequence[DType], args: Sequence[SSAValue]) -> list[Scalar]:
    """Block arguments as elements: complex ones take two."""
    found, place = [], 0
    for dtype in dtypes:
        count = 2 if dtype.is_complex else 1
        found.append(Scalar(dtype, tuple(args[place : place + count])))
        place += count
    return found


def elements_of(dtypes: Sequence[DType]) -> list[Attribute]:
    """Return the MLIR types of elements: complex ones have two."""
    return [d.element for d in dtypes for _ in range(2 if d.is_complex else 1)]
