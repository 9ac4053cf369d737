"""Arithmetic on single elements of any type, for the bodies of operations on tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from pydispatch.graph.dtypes import DType
from pydispatch.operations.complex_numbers import COMPLEX_BINARY, COMPLEX_UNARY
from pydispatch.operations.elements import Element
from pydispatch.operations.reals import Reals, Scalar, UnsupportedTypeError


class Scalars(Reals):
    """Builder of scalar operations in a block, including complex arithmetic."""

    def binary(self, name: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return the result of the function `name`, such as "add", for two numbers.

        Functions of complex numbers are formulas on their real and imaginary parts.
        """
        are_complex = lhs.dtype.is_complex and lhs.dtype == rhs.dtype
        if not are_complex:
            return super().binary(name, lhs, rhs)
        if name not in COMPLEX_BINARY:
            raise UnsupportedTypeError(f"{name} of {lhs.dtype} is not defined")
        return COMPLEX_BINARY[name](Element(self, lhs), Element(self, rhs)).scalar

    def unary(self, name: str, a: Scalar) -> Scalar:
        """Return the result of the function `name`, such as "exp", for a number.

        Functions of complex numbers are formulas on their real and imaginary parts.
        """
        if not a.dtype.is_complex:
            return super().unary(name, a)
        if name not in COMPLEX_UNARY:
            raise UnsupportedTypeError(f"{name} of {a.dtype} is not defined")
        return COMPLEX_UNARY[name](Element(self, a)).scalar

    def compare(self, order: str, lhs: Scalar, rhs: Scalar) -> Scalar:
        """Return whether two numbers compare by `order`, "eq", "ne", "lt", "le", "gt" or "ge", as a bool element.

        Complex numbers are ordered by real part, then by imaginary part.
        """
        if not lhs.dtype.is_complex:
            return super().compare(order, lhs, rhs)
        of_real, of_imag = (self.compare(order, part(lhs), part(rhs)) for part in (self.real, self.imag))
        if order in ("eq", "ne"):
            return self.binary("and" if order == "eq" else "or", of_real, of_imag)
        tied = self.compare("eq", self.real(lhs), self.real(rhs))
        # Different real parts decide alone, by the strict order: "lt" for "le", "gt" for "ge".
        strict = self.compare(order[0] + "t", self.real(lhs), self.real(rhs))
        return self.binary("or", strict, self.binary("and", tied, of_imag))

    def convert(self, a: Scalar, to: DType) -> Scalar:
        """Convert an element to a type.

        A complex number is converted to a real type by its real part, and to bool by whether it is not 0. A real number
        becomes a complex one with the imaginary part 0.
        """
        if a.dtype == to or not (a.dtype.is_complex or to.is_complex):
            return super().convert(a, to)
        if to.is_bool:
            return self.compare("ne", a, self.const(0.0, a.dtype))
        if not to.is_complex:
            return self.convert(self.real(a), to)
        real = self.convert(self.real(a), to.real)
        imag = self.convert(self.imag(a), to.real) if a.dtype.is_complex else self.const(0.0, to.real)
        return self.complex(real, imag)


def scalars_of(dtypes: Sequence[DType], args: Sequence[SSAValue]) -> list[Scalar]:
    """Return block arguments as elements of these types; a complex element takes two arguments.

    Further arguments are ignored.
    """
    scalars, position = [], 0
    for dtype in dtypes:
        count = 2 if dtype.is_complex else 1
        scalars.append(Scalar(dtype, tuple(args[position : position + count])))
        position += count
    return scalars


def elements_of(dtypes: Sequence[DType]) -> list[Attribute]:
    """Return the MLIR types of the parts of elements; a complex element has two."""
    return [d.element for d in dtypes for _ in range(2 if d.is_complex else 1)]
