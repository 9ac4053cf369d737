"""Complex rows as real rows of twice the length: all real parts, then all imaginary parts.

Sums of squares and rotations by real angles are those of real rows.
"""

from __future__ import annotations

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import DType
from pydispatch.graph.values import Tensor
from pydispatch.operations import slicing
from pydispatch.operations.formulas import Element, formula, formulas


def with_parts_joined(builder: Builder, x: Tensor) -> Tensor:
    """Return complex rows [batch, n, m] as real ones of twice the length: the real parts, then the imaginary parts.

    Real rows are returned unchanged.
    """
    if not x.dtype.is_complex:
        return x
    return slicing.concat(builder, formulas(builder, lambda v: [v.real, v.imag], x), axis=2)


def with_parts_split(builder: Builder, x: Tensor, dtype: DType) -> Tensor:
    """Return rows of `with_parts_joined` [batch, n, 2 m] as rows [batch, n, m] of the element type `dtype`.

    `dtype` is the type that the rows had before their parts were joined; rows of a real type are returned unchanged.
    """
    if not dtype.is_complex:
        return x
    half = x.shape[2] // 2
    return formula(builder, lambda u, v: u.with_imag(v), *slicing.split(builder, x, axis=2, sizes=[half, half]))


def times_imaginary_unit(builder: Builder, x: Tensor) -> Tensor:
    """Return complex rows with their parts joined, [batch, n, 2 m], times i."""
    half = x.shape[2] // 2
    real, imag = slicing.split(builder, x, axis=2, sizes=[half, half])
    return slicing.concat(builder, [formula(builder, lambda v: -v, imag), real], axis=2)


def times_number(builder: Builder, x: Tensor, real: Tensor, imag: Tensor) -> Tensor:
    """Return complex rows with their parts joined, [batch, n, 2 m], each times a complex number of its own.

    `real` and `imag` are the parts of these numbers, [batch, n, 1].
    """
    turned = times_imaginary_unit(builder, x)
    # x * (real + i * imag) = x * real + (i * x) * imag
    return formula(builder, lambda v, w, a, b: v * a + w * b, x, turned, real, imag)


def unit_conjugate(real: Element, imag: Element) -> list[Element]:
    """Return the parts of the conjugate of a complex number divided by its length; 1 for 0."""
    largest = real.unary("abs").max(imag.unary("abs"))  # divided by it first, squares neither overflow nor underflow
    is_zero = largest.is_equal(0.0)
    divisor = is_zero.where(1.0, largest)
    a, b = is_zero.where(1.0, real / divisor), imag / divisor
    length = (a * a + b * b).unary("sqrt")
    return [a / length, -b / length]
