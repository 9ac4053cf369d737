"""Short names for formulas of single elements in one floating-point type."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.frontends.graph.dtypes import F32, F64, DType
from pydispatch.frontends.ops.reals import Scalar, UnsupportedTypeError
from pydispatch.frontends.ops.scalars import Scalars


class Formula:
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


def widened_formula(function: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """Decorate a function of one type so that small floats are computed in f32 and rounded back."""

    def widened(scalars: Scalars, *operands: Scalar) -> Scalar:
        dtype = operands[0].dtype
        if not dtype.is_float:
            raise UnsupportedTypeError(f"{function.__name__} of {dtype} is not defined")
        inner = F64 if dtype.bits == 64 else F32
        return scalars.convert(function(Formula(scalars, inner), *(scalars.convert(x, inner) for x in operands)), dtype)

    widened.__name__, widened.__doc__ = function.__name__, function.__doc__
    return widened
