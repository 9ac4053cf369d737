"""Formulas on the elements of tensors, written with Python's operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, F64, I64, DType
from pydispatch.graph.sizes import Shape
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise
from pydispatch.operations.elements import Element as Element
from pydispatch.operations.elements import Value as Value
from pydispatch.operations.reals import Scalar, UnsupportedTypeError
from pydispatch.operations.scalars import Scalars


def of_scalars(function: Callable[..., Element]) -> Callable[..., Scalar]:
    """Turn a formula of elements into a function(scalars, operands...) of scalars, for tables of such functions."""

    @wraps(function)
    def applied(scalars: Scalars, *operands: Scalar) -> Scalar:
        """Call the formula with scalars as elements, and return the scalar of its result."""
        return function(*(Element(scalars, x) for x in operands)).scalar

    return applied


def widened(function: Callable[..., Element]) -> Callable[..., Scalar]:
    """Turn a formula of floats of one type into a function(scalars, operands...) of scalars.

    Floats of less than 32 bits are computed in f32 and rounded back.
    """

    @wraps(function)
    def in_wider_type(*operands: Element) -> Element:
        """Convert the operands to f32, or f64 for f64, call the formula, and convert its result back."""
        dtype = operands[0].dtype
        if not dtype.is_float:
            raise UnsupportedTypeError(f"{function.__name__} of {dtype} is not defined")
        inner = F64 if dtype.bits == 64 else F32
        return function(*(x.to(inner) for x in operands)).to(dtype)

    return of_scalars(in_wider_type)


def polynomial(x: Element, coefficients: Sequence[float]) -> Element:
    """Return the value at x of the polynomial with these coefficients, the highest first."""
    total = x.const(coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def extreme_ignoring_nan(name: str, lhs: Element, rhs: Element) -> Element:
    """Return the "max" or "min" of two numbers; if one of them is NaN, the other one."""
    result = lhs.binary(name, rhs)
    return lhs.unary("is_nan").where(rhs, rhs.unary("is_nan").where(lhs, result)) if lhs.dtype.is_float else result


Formula = Callable[..., Element | Sequence[Element]]
"""Function formula(one element of each tensor...) -> one element of the result, or of several results."""


def formula(builder: Builder, function: Formula, *tensors: Tensor) -> Tensor:
    """Compute a tensor by a formula of one element of each tensor, with NumPy's broadcasting."""
    return formulas(builder, function, *tensors)[0]


def formulas(builder: Builder, function: Formula, *tensors: Tensor) -> list[Tensor]:
    """Compute several tensors by a formula that returns an element for each of them."""

    def elements(emitter: Scalars, *scalars: Scalar) -> list[Scalar]:
        """Call the formula with scalars as elements, whose operators emit operations; return the results' scalars."""
        results = function(*(Element(emitter, scalar) for scalar in scalars))
        return [e.scalar for e in ([results] if isinstance(results, Element) else results)]

    return elementwise.apply_several(builder, elements, *tensors)


def positions(builder: Builder, function: Callable[[ResultPositions], Element], shape: Shape) -> Tensor:
    """Compute a tensor of the shape `shape` by a formula of the positions of its elements."""
    return elementwise.apply_several(builder, lambda s: function(ResultPositions(s)).scalar, shape=tuple(shape))[0]


@dataclass(frozen=True, eq=False)
class ResultPositions:
    """Positions of the elements of a result, for formulas without operands.

    scalars: emits operations in the body of the formula.
    """

    scalars: Scalars

    def at(self, axis: int, dtype: DType = I64) -> Element:
        """Return the index of the element along an axis, as `dtype`."""
        return Element(self.scalars, self.scalars.position(axis, dtype))
