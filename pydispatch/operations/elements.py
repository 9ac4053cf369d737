"""Single elements with Python's operators, in which formulas are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pydispatch.graph.dtypes import DType
from pydispatch.operations.reals import Reals, Scalar


def _operator(name: str, swapped: bool = False) -> Callable[[Element, Value], Element]:
    """Return the method that applies a function of two numbers, by its name in `Reals.binary`.

    `swapped` exchanges the operands, as the reflected operators (__radd__, ...) need.
    """
    return lambda self, other: self.binary(name, other, swapped)


def _comparison(order: str) -> Callable[[Element, Value], Element]:
    """Return the method that compares two numbers by `order`: eq, ne, lt, le, gt or ge."""
    return lambda self, other: self.compare(order, other)


@dataclass(frozen=True, eq=False)
class Element:
    """Element of a tensor in a formula. Python numbers in the formula become constants of its type.

    Attributes:
        scalars: Builder of the scalar operations that the formula emits.
        scalar: The element's SSA values and type.
    """

    scalars: Reals
    scalar: Scalar

    @property
    def dtype(self) -> DType:
        """Type of the element."""
        return self.scalar.dtype

    def const(self, value: complex | bool) -> Element:
        """Return a constant of this element's type."""
        return Element(self.scalars, self.scalars.const(value, self.dtype))

    def element_of(self, scalar: Scalar) -> Element:
        """Return another scalar as an element of the same formula."""
        return Element(self.scalars, scalar)

    def unary(self, name: str) -> Element:
        """Apply a function of one number by its name in `Scalars.unary`, such as "sqrt" or "is_nan"."""
        return Element(self.scalars, self.scalars.unary(name, self.scalar))

    @property
    def real(self) -> Element:
        """Real part."""
        return Element(self.scalars, self.scalars.real(self.scalar))

    @property
    def imag(self) -> Element:
        """Imaginary part."""
        return Element(self.scalars, self.scalars.imag(self.scalar))

    def with_imag(self, imag: Element) -> Element:
        """Return the complex number whose real part is this element."""
        return Element(self.scalars, self.scalars.complex(self.scalar, imag.scalar))

    def conj(self) -> Element:
        """Return the complex conjugate."""
        return Element(self.scalars, self.scalars.conj(self.scalar))

    def to(self, dtype: DType) -> Element:
        """Convert the number to another type."""
        return Element(self.scalars, self.scalars.convert(self.scalar, dtype))

    def bitcast(self, dtype: DType) -> Element:
        """Reinterpret the bits as another type of the same width."""
        return Element(self.scalars, self.scalars.bitcast(self.scalar, dtype))

    def position(self, axis: int, dtype: DType) -> Element:
        """Return the index, as `dtype`, of the computed element along an axis of the result."""
        return Element(self.scalars, self.scalars.position(axis, dtype))

    def binary(self, name: str, other: Value, swapped: bool = False) -> Element:
        """Apply a function of two numbers by its name in `Scalars.binary`; `swapped` exchanges the operands."""
        a, b = self.scalar, self._scalar(other)
        return Element(self.scalars, self.scalars.binary(name, *((b, a) if swapped else (a, b))))

    def compare(self, order: str, other: Value) -> Element:
        """Return a bool element: this element compared with another by `order`, eq, ne, lt, le, gt or ge."""
        return Element(self.scalars, self.scalars.compare(order, self.scalar, self._scalar(other)))

    def where(self, yes: Value, no: Value) -> Element:
        """Return `yes` if this element, a bool, is true, else `no`.

        At least one of the two must be an element: the result has its type.
        """
        typed = yes if isinstance(yes, Element) else no  # the operand that determines the type
        assert isinstance(typed, Element)
        return Element(self.scalars, self.scalars.select(self.scalar, typed._scalar(yes), typed._scalar(no)))

    def _scalar(self, other: Value) -> Scalar:
        """Return another operand as a scalar; a number becomes a constant of this element's type."""
        return other.scalar if isinstance(other, Element) else self.scalars.const(other, self.dtype)

    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", swapped=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", swapped=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", swapped=True)
    # The remainder of truncated division: it has the sign of the dividend, unlike Python's %.
    __mod__, __and__, __or__, __xor__ = (_operator(name) for name in ("rem", "and", "or", "xor"))
    __lt__, __le__, __gt__, __ge__, is_equal, is_unequal = (
        _comparison(order) for order in ("lt", "le", "gt", "ge", "eq", "ne")
    )

    def __neg__(self) -> Element:
        return self.unary("neg")

    def __invert__(self) -> Element:
        return self.unary("not")

    def min(self, other: Value) -> Element:
        """Return the smaller of this element and `other`. NaN is propagated."""
        return self.binary("min", other)

    def max(self, other: Value) -> Element:
        """Return the larger of this element and `other`. NaN is propagated."""
        return self.binary("max", other)


Value = Element | complex | bool
"""Operand of an element's operators: another element, or a number."""
