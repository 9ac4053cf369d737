"""Arithmetic on single elements of any type, for the bodies of operations on tensors.

Complex functions use the textbook formulas in real and imaginary part, rearranged where these overflow or cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, SSAValue

from pydispatch.graph.dtypes import C64, C128, DType
from pydispatch.operations.reals import Reals, Scalar, UnsupportedTypeError


class Scalars(Reals):
    """Builder of scalar operations in a block, including complex arithmetic."""

    # -- complex numbers and their parts

    def real(self, a: Scalar) -> Scalar:
        """Return the real part; a number that is not complex is returned unchanged."""
        return Scalar(a.dtype.real, a.parts[:1])

    def imag(self, a: Scalar) -> Scalar:
        """Return the imaginary part; 0 for a number that is not complex."""
        return Scalar(a.dtype.real, a.parts[1:]) if a.dtype.is_complex else self.const(0, a.dtype)

    def complex(self, real: Scalar, imag: Scalar) -> Scalar:
        """Return the complex number with given real and imaginary parts."""
        return Scalar({32: C64, 64: C128}[real.dtype.bits], (real.value, imag.value))

    def conj(self, a: Scalar) -> Scalar:
        """Return the complex conjugate."""
        return self.complex(self.real(a), self.unary("neg", self.imag(a))) if a.dtype.is_complex else a

    def _scaled(self, a: Scalar, factor: Scalar) -> Scalar:
        """Return a complex number times a real factor."""
        return self.complex(self.binary("mul", self.real(a), factor), self.binary("mul", self.imag(a), factor))

    # -- functions by name

    def binary(self, name: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        if not (lhs.dtype.is_complex and lhs.dtype == rhs.dtype):
            return super().binary(name, lhs, rhs)
        function = _COMPLEX_BINARY.get(name)
        if function is None:
            raise UnsupportedTypeError(f"{name} of {lhs.dtype} is not defined")
        return function(self, lhs, rhs)

    def unary(self, name: str, a: Scalar) -> Scalar:
        if not a.dtype.is_complex:
            return super().unary(name, a)
        function = _COMPLEX_UNARY.get(name)
        if function is None:
            raise UnsupportedTypeError(f"{name} of {a.dtype} is not defined")
        return function(self, a)

    def compare(self, order: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Compare two numbers. Complex numbers are ordered by real part, then by imaginary part."""
        if not lhs.dtype.is_complex:
            return super().compare(order, lhs, rhs)
        of_real, of_imag = (self.compare(order, part(lhs), part(rhs)) for part in (self.real, self.imag))
        if order in ("eq", "ne"):
            return self.binary("and" if order == "eq" else "or", of_real, of_imag)
        tied = self.compare("eq", self.real(lhs), self.real(rhs))
        strict = self.compare(order[0] + "t", self.real(lhs), self.real(rhs))
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


def _add(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    return scalars.complex(
        scalars.binary("add", scalars.real(lhs), scalars.real(rhs)),
        scalars.binary("add", scalars.imag(lhs), scalars.imag(rhs)),
    )


def _sub(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    return scalars.complex(
        scalars.binary("sub", scalars.real(lhs), scalars.real(rhs)),
        scalars.binary("sub", scalars.imag(lhs), scalars.imag(rhs)),
    )


def _mul(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    (ar, ai), (br, bi) = ((scalars.real(x), scalars.imag(x)) for x in (lhs, rhs))
    real = scalars.binary("sub", scalars.binary("mul", ar, br), scalars.binary("mul", ai, bi))
    return scalars.complex(real, scalars.binary("add", scalars.binary("mul", ar, bi), scalars.binary("mul", ai, br)))


def _div(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return lhs / rhs. Both are scaled by the larger part of the divisor, so that squares do not overflow. For a
    divisor of 0 each part is divided by 0.
    """
    size = scalars.binary("max", scalars.unary("abs", scalars.real(rhs)), scalars.unary("abs", scalars.imag(rhs)))
    scale = scalars.binary("div", scalars.const(1.0, size.dtype), size)
    rhs = scalars._scaled(rhs, scale)
    squares = scalars.binary(
        "add",
        scalars.binary("mul", scalars.real(rhs), scalars.real(rhs)),
        scalars.binary("mul", scalars.imag(rhs), scalars.imag(rhs)),
    )
    numerator = scalars._scaled(_mul(scalars, lhs, scalars.conj(rhs)), scale)
    quotient = scalars.complex(
        scalars.binary("div", scalars.real(numerator), squares),
        scalars.binary("div", scalars.imag(numerator), squares),
    )
    return scalars.select(
        scalars.compare("eq", size, scalars.const(0.0, size.dtype)), scalars._scaled(lhs, scale), quotient
    )


def _pow(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Return exp(rhs log(lhs)). 0 to the power of 0 is 1, and 0 to a power with positive real part is 0."""
    zero, one = scalars.const(0.0, lhs.dtype), scalars.const(1.0, lhs.dtype)
    power = _exp(scalars, _mul(scalars, rhs, _log(scalars, lhs)))
    grows = scalars.compare("gt", scalars.real(rhs), scalars.const(0.0, lhs.dtype.real))
    at_zero = scalars.select(scalars.compare("eq", rhs, zero), one, scalars.select(grows, zero, power))
    return scalars.select(scalars.compare("eq", lhs, zero), at_zero, power)


def _extremum(order: str) -> Callable[[Scalars, Scalar, Scalar], Scalar]:
    """Return the function that selects the larger ("ge") or smaller ("le") of two complex numbers, ordered by real,
    then imaginary part. NaN is propagated.
    """

    def chosen(scalars: Scalars, lhs: Scalar, rhs: Scalar) -> Scalar:
        undefined = scalars.compare("ne", lhs, lhs)
        return scalars.select(scalars.binary("or", undefined, scalars.compare(order, lhs, rhs)), lhs, rhs)

    return chosen


def _atan2(scalars: Scalars, y: Scalar, x: Scalar) -> Scalar:
    """Return -i log((x + iy) / sqrt(x^2 + y^2))."""
    direction = scalars.complex(
        scalars.binary("sub", scalars.real(x), scalars.imag(y)), scalars.binary("add", scalars.imag(x), scalars.real(y))
    )
    length = _sqrt(scalars, _add(scalars, _mul(scalars, x, x), _mul(scalars, y, y)))
    logarithm = _log(scalars, _div(scalars, direction, length))
    return scalars.complex(scalars.imag(logarithm), scalars.unary("neg", scalars.real(logarithm)))


def _neg(scalars: Scalars, a: Scalar) -> Scalar:
    return scalars.complex(scalars.unary("neg", scalars.real(a)), scalars.unary("neg", scalars.imag(a)))


def _abs(scalars: Scalars, a: Scalar) -> Scalar:
    """Return the absolute value as a float. Squares are those of a ratio of at most 1, so they do not overflow."""
    x, y = scalars.unary("abs", scalars.real(a)), scalars.unary("abs", scalars.imag(a))
    large, small = scalars.binary("max", x, y), scalars.binary("min", x, y)
    zero, one = scalars.const(0.0, x.dtype), scalars.const(1.0, x.dtype)
    ratio = scalars.binary("div", small, large)
    length = scalars.binary(
        "mul", large, scalars.unary("sqrt", scalars.binary("add", one, scalars.binary("mul", ratio, ratio)))
    )
    return scalars.select(
        scalars.compare("eq", small, zero), large, scalars.select(scalars.unary("is_inf", large), large, length)
    )


def _sign(scalars: Scalars, a: Scalar) -> Scalar:
    """Return a / |a|; 0 for 0."""
    size = _abs(scalars, a)
    zero = scalars.const(0.0, a.dtype)
    unit = scalars.complex(scalars.binary("div", scalars.real(a), size), scalars.binary("div", scalars.imag(a), size))
    return scalars.select(scalars.compare("eq", a, zero), zero, unit)


def _polar(scalars: Scalars, length: Scalar, angle: Scalar) -> Scalar:
    """Return the complex number with a given length and angle."""
    return scalars.complex(
        scalars.binary("mul", length, scalars.unary("cos", angle)),
        scalars.binary("mul", length, scalars.unary("sin", angle)),
    )


def _exp(scalars: Scalars, a: Scalar) -> Scalar:
    """Return the exponential; that of a real number has the imaginary part of the operand, a signed zero."""
    zero = scalars.const(0.0, a.dtype.real)
    result = _polar(scalars, scalars.unary("exp", scalars.real(a)), scalars.imag(a))
    is_real = scalars.compare("eq", scalars.imag(a), zero)
    return scalars.complex(scalars.real(result), scalars.select(is_real, scalars.imag(a), scalars.imag(result)))


def _log(scalars: Scalars, a: Scalar) -> Scalar:
    return scalars.complex(
        scalars.unary("log", _abs(scalars, a)), scalars.binary("atan2", scalars.imag(a), scalars.real(a))
    )


def _log1p(scalars: Scalars, a: Scalar) -> Scalar:
    """Return log(1 + z) for z = x + iy. Near 0 the real part is log1p(x (x + 2) + y^2) / 2, which does not cancel."""
    one, x, y = scalars.const(1.0, a.dtype.real), scalars.real(a), scalars.imag(a)
    whole = _log(scalars, scalars.complex(scalars.binary("add", one, x), y))
    grown = scalars.binary(
        "add",
        scalars.binary("mul", x, scalars.binary("add", x, scalars.const(2.0, x.dtype))),
        scalars.binary("mul", y, y),
    )
    near = scalars.binary("mul", scalars.const(0.5, x.dtype), scalars.unary("log1p", grown))
    is_small = scalars.compare(
        "lt", scalars.binary("max", scalars.unary("abs", x), scalars.unary("abs", y)), scalars.const(0.25, x.dtype)
    )
    return scalars.complex(scalars.select(is_small, near, scalars.real(whole)), scalars.imag(whole))


def _cbrt(scalars: Scalars, a: Scalar) -> Scalar:
    """Return the cube root with the smallest angle."""
    third = scalars.binary(
        "div", scalars.binary("atan2", scalars.imag(a), scalars.real(a)), scalars.const(3.0, a.dtype.real)
    )
    return _polar(scalars, scalars.unary("cbrt", _abs(scalars, a)), third)


def _expm1(scalars: Scalars, a: Scalar) -> Scalar:
    """Return exp(z) - 1. The real part exp(x) cos(y) - 1 is computed as expm1(x) cos(y) - 2 sin(y/2)^2, which does not
    cancel.
    """
    x, y = scalars.real(a), scalars.imag(a)
    half = scalars.unary("sin", scalars.binary("mul", y, scalars.const(0.5, y.dtype)))
    lost = scalars.binary("mul", scalars.const(2.0, y.dtype), scalars.binary("mul", half, half))
    real = scalars.binary("sub", scalars.binary("mul", scalars.unary("expm1", x), scalars.unary("cos", y)), lost)
    return scalars.complex(real, scalars.imag(_exp(scalars, a)))


def _sqrt(scalars: Scalars, a: Scalar) -> Scalar:
    """Return the square root with non-negative real part."""
    zero, half = scalars.const(0.0, a.dtype.real), scalars.const(0.5, a.dtype.real)
    x, y = scalars.real(a), scalars.imag(a)
    large = scalars.unary(
        "sqrt", scalars.binary("mul", half, scalars.binary("add", _abs(scalars, a), scalars.unary("abs", x)))
    )
    small = scalars.binary("div", scalars.binary("mul", half, scalars.unary("abs", y)), large)
    right = scalars.compare("ge", x, zero)
    real, imag = scalars.select(right, large, small), scalars.select(right, small, large)
    root = scalars.complex(real, scalars.binary("copysign", imag, y))
    return scalars.select(scalars.compare("eq", a, scalars.const(0.0, a.dtype)), scalars.complex(zero, y), root)


def _rsqrt(scalars: Scalars, a: Scalar) -> Scalar:
    return _div(scalars, scalars.const(1.0, a.dtype), _sqrt(scalars, a))


def _sinh(scalars: Scalars, a: Scalar) -> Scalar:
    x, y = scalars.real(a), scalars.imag(a)
    real = scalars.binary("mul", scalars.unary("sinh", x), scalars.unary("cos", y))
    return scalars.complex(real, scalars.binary("mul", scalars.unary("cosh", x), scalars.unary("sin", y)))


def _cosh(scalars: Scalars, a: Scalar) -> Scalar:
    x, y = scalars.real(a), scalars.imag(a)
    real = scalars.binary("mul", scalars.unary("cosh", x), scalars.unary("cos", y))
    return scalars.complex(real, scalars.binary("mul", scalars.unary("sinh", x), scalars.unary("sin", y)))


def _tanh(scalars: Scalars, a: Scalar) -> Scalar:
    """Return (t (1 + n^2) + i n (1 - t^2)) / (1 + t^2 n^2), where t = tanh(x) and n = tan(y)."""
    t, n = scalars.unary("tanh", scalars.real(a)), scalars.unary("tan", scalars.imag(a))
    one = scalars.const(1.0, t.dtype)
    tt, nn = scalars.binary("mul", t, t), scalars.binary("mul", n, n)
    denominator = scalars.binary("add", one, scalars.binary("mul", tt, nn))
    real = scalars.binary("div", scalars.binary("mul", t, scalars.binary("add", one, nn)), denominator)
    return scalars.complex(
        real, scalars.binary("div", scalars.binary("mul", n, scalars.binary("sub", one, tt)), denominator)
    )


def _of_rotated(function: Callable[[Scalars, Scalar], Scalar], back: bool) -> Callable[[Scalars, Scalar], Scalar]:
    """Return the function f(iz), or -i f(iz) with `back`: sines, cosines and tangents from the hyperbolic functions."""

    def rotated(scalars: Scalars, a: Scalar) -> Scalar:
        result = function(scalars, scalars.complex(scalars.unary("neg", scalars.imag(a)), scalars.real(a)))
        return scalars.complex(scalars.imag(result), scalars.unary("neg", scalars.real(result))) if back else result

    return rotated


def _logistic(scalars: Scalars, a: Scalar) -> Scalar:
    one = scalars.const(1.0, a.dtype)
    return _div(scalars, one, _add(scalars, one, _exp(scalars, _neg(scalars, a))))


def _asinh(scalars: Scalars, a: Scalar) -> Scalar:
    """Return log1p(z + z^2 / (1 + sqrt(1 + z^2))) for a z with non-negative real part; other numbers by oddness."""
    left = scalars.compare("lt", scalars.real(a), scalars.const(0.0, a.dtype.real))
    z, one = scalars.select(left, _neg(scalars, a), a), scalars.const(1.0, a.dtype)
    square = _mul(scalars, z, z)
    quotient = _div(scalars, square, _add(scalars, one, _sqrt(scalars, _add(scalars, one, square))))
    result = _log1p(scalars, _add(scalars, z, quotient))
    return scalars.select(left, _neg(scalars, result), result)


def _acosh(scalars: Scalars, a: Scalar) -> Scalar:
    one = scalars.const(1.0, a.dtype)
    roots = _mul(scalars, _sqrt(scalars, _add(scalars, a, one)), _sqrt(scalars, _sub(scalars, a, one)))
    return _log(scalars, _add(scalars, a, roots))


def _atanh(scalars: Scalars, a: Scalar) -> Scalar:
    """Return (log1p(z) - log1p(-z)) / 2."""
    difference = _sub(scalars, _log1p(scalars, a), _log1p(scalars, _neg(scalars, a)))
    return scalars._scaled(difference, scalars.const(0.5, a.dtype.real))


def _acos(scalars: Scalars, a: Scalar) -> Scalar:
    return _sub(scalars, scalars.const(math.pi / 2, a.dtype), _of_rotated(_asinh, back=True)(scalars, a))


def _is_finite(scalars: Scalars, a: Scalar) -> Scalar:
    return scalars.binary(
        "and", scalars.unary("is_finite", scalars.real(a)), scalars.unary("is_finite", scalars.imag(a))
    )


def _is_nan(scalars: Scalars, a: Scalar) -> Scalar:
    return scalars.binary("or", scalars.unary("is_nan", scalars.real(a)), scalars.unary("is_nan", scalars.imag(a)))


_COMPLEX_BINARY = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "pow": _pow, "atan2": _atan2, "max": _extremum("ge"),
    "min": _extremum("le"),
}  # fmt: skip
_COMPLEX_UNARY = {
    "neg": _neg, "abs": _abs, "sign": _sign, "exp": _exp, "log": _log, "log1p": _log1p, "expm1": _expm1, "sqrt": _sqrt,
    "cbrt": _cbrt, "rsqrt": _rsqrt, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sin": _of_rotated(_sinh, back=True),
    "cos": _of_rotated(_cosh, back=False), "tan": _of_rotated(_tanh, back=True), "logistic": _logistic,
    "is_finite": _is_finite, "is_nan": _is_nan, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "acos": _acos,
    "asin": _of_rotated(_asinh, back=True), "atan": _of_rotated(_atanh, back=True),
}  # fmt: skip


def scalars_of(dtypes: Sequence[DType], args: Sequence[SSAValue]) -> list[Scalar]:
    """Return block arguments as elements of these types; a complex element takes two arguments."""
    scalars, position = [], 0
    for dtype in dtypes:
        count = 2 if dtype.is_complex else 1
        scalars.append(Scalar(dtype, tuple(args[position : position + count])))
        position += count
    return scalars


def elements_of(dtypes: Sequence[DType]) -> list[Attribute]:
    """Return the MLIR types of the parts of elements; a complex element has two."""
    return [d.element for d in dtypes for _ in range(2 if d.is_complex else 1)]
