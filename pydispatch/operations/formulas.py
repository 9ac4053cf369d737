"""Formulas on the elements of tensors, written with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, I64, DType
from pydispatch.graph.sizes import Shape
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars


@dataclass(frozen=True, eq=False)
class Element:
    """Element of a tensor in a formula. Python numbers in the formula become constants of its type."""

    s: Scalars
    scalar: Scalar

    @property
    def dtype(self) -> DType:
        return self.scalar.dtype

    def const(self, value: complex | bool) -> Element:
        """Return a constant of this element's type."""
        return Element(self.s, self.s.const(value, self.dtype))

    def unary(self, name: str) -> Element:
        """Apply a function of one number by its name."""
        return Element(self.s, self.s.unary(name, self.scalar))

    @property
    def real(self) -> Element:
        return Element(self.s, self.s.real(self.scalar))

    @property
    def imag(self) -> Element:
        return Element(self.s, self.s.imag(self.scalar))

    def with_imag(self, imag: Element) -> Element:
        """Return the complex number whose real part is this element."""
        return Element(self.s, self.s.complex(self.scalar, imag.scalar))

    def conj(self) -> Element:
        return Element(self.s, self.s.conj(self.scalar))

    def to(self, dtype: DType) -> Element:
        """Convert the number to another type."""
        return Element(self.s, self.s.convert(self.scalar, dtype))

    def bits(self, dtype: DType) -> Element:
        """Reinterpret the bits as another type of the same width."""
        return Element(self.s, self.s.bitcast(self.scalar, dtype))

    def position(self, axis: int, dtype: DType) -> Element:
        """Return the index of the element along an axis of the result."""
        return Element(self.s, self.s.position(axis, dtype))

    def binary(self, name: str, other: Value, swapped: bool = False) -> Element:
        """Apply a function of two numbers by its name; `swapped` exchanges the operands."""
        a, b = self.scalar, self._scalar(other)
        return Element(self.s, self.s.binary(name, *((b, a) if swapped else (a, b))))

    def compare(self, order: str, other: Value) -> Element:
        """Compare this element with another one; order: eq, ne, lt, le, gt or ge."""
        return Element(self.s, self.s.compare(order, self.scalar, self._scalar(other)))

    def where(self, yes: Value, no: Value) -> Element:
        """Return `yes` if this element, a bool, is true, else `no`. One of them must be an element."""
        known = yes if isinstance(yes, Element) else no
        assert isinstance(known, Element)
        return Element(self.s, self.s.select(self.scalar, known._scalar(yes), known._scalar(no)))

    def _scalar(self, other: Value) -> Scalar:
        """Return another operand as a scalar; a number becomes a constant of this element's type."""
        return other.scalar if isinstance(other, Element) else self.s.const(other, self.dtype)

    def __add__(self, other: Value) -> Element:
        return self.binary("add", other)

    def __radd__(self, other: Value) -> Element:
        return self.binary("add", other, swapped=True)

    def __sub__(self, other: Value) -> Element:
        return self.binary("sub", other)

    def __rsub__(self, other: Value) -> Element:
        return self.binary("sub", other, swapped=True)

    def __mul__(self, other: Value) -> Element:
        return self.binary("mul", other)

    def __rmul__(self, other: Value) -> Element:
        return self.binary("mul", other, swapped=True)

    def __truediv__(self, other: Value) -> Element:
        return self.binary("div", other)

    def __rtruediv__(self, other: Value) -> Element:
        return self.binary("div", other, swapped=True)

    def __mod__(self, other: Value) -> Element:
        return self.binary("rem", other)

    def __neg__(self) -> Element:
        return self.unary("neg")

    def __and__(self, other: Value) -> Element:
        return self.binary("and", other)

    def __or__(self, other: Value) -> Element:
        return self.binary("or", other)

    def __xor__(self, other: Value) -> Element:
        return self.binary("xor", other)

    def __invert__(self) -> Element:
        return self.unary("not")

    def __lt__(self, other: Value) -> Element:
        return self.compare("lt", other)

    def __le__(self, other: Value) -> Element:
        return self.compare("le", other)

    def __gt__(self, other: Value) -> Element:
        return self.compare("gt", other)

    def __ge__(self, other: Value) -> Element:
        return self.compare("ge", other)

    def is_equal(self, other: Value) -> Element:
        return self.compare("eq", other)

    def is_unequal(self, other: Value) -> Element:
        return self.compare("ne", other)

    def min(self, other: Value) -> Element:
        """Return the smaller of this element and `other`. NaN is propagated."""
        return self.binary("min", other)

    def max(self, other: Value) -> Element:
        """Return the larger of this element and `other`. NaN is propagated."""
        return self.binary("max", other)


Value = Element | complex | bool


def widened(function: Callable[..., Element]) -> Callable[..., Scalar]:
    """Decorate a formula of floats as a function of scalars of one type; small floats are computed in f32 and rounded
    back.
    """

    def of_scalars(scalars: Scalars, *operands: Scalar) -> Scalar:
        """Apply the function in f32, or f64 for f64, and return the operands' type."""
        dtype = operands[0].dtype
        if not dtype.is_float:
            raise UnsupportedTypeError(f"{function.__name__} of {dtype} is not defined")
        inner = F64 if dtype.bits == 64 else F32
        return function(*(Element(scalars, x).to(inner) for x in operands)).to(dtype).scalar

    of_scalars.__name__, of_scalars.__doc__ = function.__name__, function.__doc__
    return of_scalars


def polynomial(x: Element, coefficients: Sequence[float]) -> Element:
    """Return the value at x of the polynomial with these coefficients, the highest first."""
    total = x.const(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def floor_quotient(lhs: Element, rhs: Element) -> Element:
    """Return the quotient of signed integers, rounded down."""
    return _signs_differ(lhs % rhs, rhs).where(lhs / rhs - 1, lhs / rhs)


def floor_remainder(lhs: Element, rhs: Element) -> Element:
    """Return the remainder of a division that rounds down, which has the sign of the divisor."""
    remainder = lhs % rhs
    return _signs_differ(remainder, rhs).where(remainder + rhs, remainder)


def _signs_differ(remainder: Element, divisor: Element) -> Element:
    """Return whether a remainder of truncated division is not 0 and has another sign than the divisor."""
    return remainder.is_unequal(0) & ((remainder < 0) ^ (divisor < 0))


def extreme_ignoring_nan(name: str, lhs: Element, rhs: Element) -> Element:
    """Return the "max" or "min" of two numbers; if one of them is NaN, the other one."""
    result = lhs.binary(name, rhs)
    return lhs.unary("is_nan").where(rhs, rhs.unary("is_nan").where(lhs, result)) if lhs.dtype.is_float else result


Formula = Callable[..., Element | Sequence[Element]]


def formula(builder: Builder, written: Formula, *tensors: Tensor) -> Tensor:
    """Compute a tensor by a formula of one element of each tensor, with NumPy's broadcasting."""
    return formulas(builder, written, *tensors)[0]


def formulas(builder: Builder, written: Formula, *tensors: Tensor) -> list[Tensor]:
    """Compute several tensors by a formula that returns an element for each of them."""

    def elements(s: Scalars, *scalars: Scalar) -> list[Scalar]:
        results = written(*(Element(s, scalar) for scalar in scalars))
        return [e.scalar for e in ([results] if isinstance(results, Element) else results)]

    return elementwise.apply_several(builder, elements, *tensors)


def positions(builder: Builder, written: Callable[[ResultPositions], Element], shape: Shape) -> Tensor:
    """Compute a tensor of a given shape by a formula of the positions of its elements."""
    return elementwise.apply_several(builder, lambda s: written(ResultPositions(s)).scalar, shape=tuple(shape))[0]


@dataclass(frozen=True, eq=False)
class ResultPositions:
    """Positions of the elements of a result, for formulas without operands."""

    s: Scalars

    def at(self, axis: int, dtype: DType = I64) -> Element:
        """Return the index of the element along an axis."""
        return Element(self.s, self.s.position(axis, dtype))
