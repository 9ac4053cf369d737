"""Scalars that are computed from quantized elements: affine functions of integers, clamped and rounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.compiler.fusion.quantized.dequantized import element_of
from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.ranges import Range
from pydispatch.ir.values import shape_of

Constant = np.ndarray[Any, Any]
"""A constant: an f64 array with the dimensions of the result; those along which it does not vary have size 1."""


@dataclass(frozen=True)
class Element:
    """Element of an integer tensor, widened to i32.

    A tracer (`trace.py`) creates it where it follows an element of a computed tensor back to the stored integers that
    it is computed from. If y[i, j] is computed from q[j], a signed element of i8, then `tensor` is q, `index` is
    (i, j) -> (j), and `range` is (-128, 127).

    Attributes:
        tensor: The tensor.
        index: Map from an index of the computed tensor to the index of the element.
        signed: Whether the element is widened as a signed integer.
    """

    tensor: SSAValue
    index: AffineMap
    signed: bool
    count: ClassVar[int] = 1
    """Number of elements that this integer is a sum of."""

    @property
    def width(self) -> int:
        """Bits of the stored integer; an index, which has no width of its own, counts as 64."""
        return bit_width(element_of(self.tensor)) or 64

    def is_in_order(self, shape: Sequence[int]) -> bool:
        """Return whether `tensor` has this shape, and `index` is the index of the element in a computed tensor of it.

        In a dimension of size 1, any index is 0.
        """
        return shape_of(self.tensor) == shape and all(
            size == 1 or (isinstance(index, AffineDimExpr) and index.position == axis)
            for axis, (index, size) in enumerate(zip(self.index.results, shape, strict=True))
        )

    @property
    def range(self) -> Range:
        """The range (least, greatest) of the stored integer's type."""
        return integer_range(self.width, self.signed)


@dataclass(frozen=True)
class Combined:
    """Sum or difference of two integers in i32, modulo 2^32.

    Attributes:
        kind: "addi" or "subi".
        lhs, rhs: The two integers.
        count: Number of elements that the two operands are sums of, together; at most MOST_TERMS.
    """

    kind: str
    lhs: Integer
    rhs: Integer
    count: int

    @property
    def range(self) -> Range:
        """The range (least, greatest) of i32: the sum may wrap around."""
        return integer_range(32, signed=True)


Integer = Element | Combined
"""An i32 that f32 may not represent exactly, such as a sum of products."""


@dataclass(frozen=True, eq=False)
class Real:
    """Real number `clamp(sum(factor * source) + offset, low, high)`, rounded half to even if `rounded`, plus `shift`.

    Attributes:
        terms: (source, factor) of each term of the sum.
        offset: Constant that is added to the sum.
        low, high: Bounds of the clamp, which is applied before `shift` is added; infinite without a bound, integers if
            `rounded`.
        rounded: Whether the clamped number is rounded to an integer.
        shift: Integer that is added at the end; 0 unless `rounded`.
    """

    terms: tuple[tuple[Integer | Real, Constant], ...]
    offset: Constant
    low: float = -math.inf
    high: float = math.inf
    rounded: bool = False
    shift: float = 0.0

    @property
    def is_affine(self) -> bool:
        """Whether the number is neither clamped nor rounded."""
        return not self.rounded and self.low == -math.inf and self.high == math.inf

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest value of the number."""
        low, high = self.unclamped_range
        low, high = (min(max(bound, self.low), self.high) for bound in (low, high))
        if self.rounded:  # half to even: the greatest value may be above the bound before rounding
            low, high = float(np.rint(low)), float(np.rint(high))
        return low + self.shift, high + self.shift

    @property
    def unclamped_range(self) -> tuple[float, float]:
        """The least and the greatest value of sum(factor * source) + offset, without the bounds of a clamped number."""

        low, high = float(self.offset.min()), float(self.offset.max())
        for source, factor in self.terms:
            # The least and the greatest product are among the four products of the ends of both ranges.
            products = np.multiply.outer(np.asarray(source.range), np.asarray([factor.min(), factor.max()]))
            low, high = low + float(products.min()), high + float(products.max())
        return low, high


def integer_range(width: int, signed: bool) -> Range:
    """Return the range (least, greatest) of an integer type."""
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def as_single_term(source: Integer | Real, rank: int) -> Real:
    """Return the number `1 * source`, which has one term. rank: number of dimensions of its constants (`Constant`)."""
    one = np.ones((1,) * rank)
    return Real(((source, one),), np.zeros((1,) * rank))


def scaled(value: Real, factor: Constant) -> Real:
    """Multiply a number by a constant.

    The factors of the terms, the offset and the bounds are multiplied where that gives the same result. That is not so
    for a rounded number, nor for a clamped one if the factor differs between elements or is not positive: the result is
    then a new number with `value` as its only term.
    """
    # One factor f > 0 scales the bounds, too: clamp(x, low, high) * f = clamp(x * f, low * f, high * f).
    scales_bounds = factor.size == 1 and factor.item() > 0
    if not value.rounded and (value.is_affine or scales_bounds):
        terms = tuple((source, f * factor) for source, f in value.terms)
        # The bounds of affine numbers are infinite; for others, the factor is one positive element.
        low, high = (b if math.isinf(b) else b * factor.item() for b in (value.low, value.high))
        return replace(value, terms=terms, offset=value.offset * factor, low=low, high=high)
    return Real(terms=((value, factor),), offset=np.zeros_like(factor))


def shifted(value: Real, by: Constant) -> Real:
    """Return a number plus a constant `by`, which may vary along dimensions of the result.

    The constant is added to the shift of a rounded number, and to the offset and the bounds of a number that is not
    rounded. The shift is one integer, and each bound one number. If the constant does not fit them, the result is a new
    number with `value` as its only term and the constant as its offset.
    """
    if value.rounded and by.size == 1 and float(by.item()).is_integer():
        return replace(value, shift=value.shift + by.item())
    if not value.rounded and (value.is_affine or by.size == 1):
        # An affine number has infinite bounds only. For any other one, `by` is a single element here.
        low, high = (b if math.isinf(b) else b + by.item() for b in (value.low, value.high))
        return replace(value, offset=value.offset + by, low=low, high=high)
    return shifted(as_single_term(value, by.ndim), by)


def added(lhs: Real, rhs: Real) -> Real:
    """Add two numbers. An affine number contributes its terms and offset; a clamped or rounded one becomes one term."""
    terms, offset = list[tuple[Integer | Real, Constant]](), np.zeros((1,) * lhs.offset.ndim)
    for value in (lhs, rhs):
        sum_of_terms = value if value.is_affine else as_single_term(value, offset.ndim)
        terms += sum_of_terms.terms
        offset = offset + sum_of_terms.offset
    return Real(tuple(terms), offset)


def clamped(value: Real, low: float = -math.inf, high: float = math.inf) -> Real:
    """Limit a number to `low` ... `high`. Bounds of a rounded number are rounded inwards, because it is an integer."""
    low, high = low - value.shift, high - value.shift  # Real.low and Real.high bound the number before its shift
    if value.rounded:
        low = low if math.isinf(low) else float(math.ceil(low))
        high = high if math.isinf(high) else float(math.floor(high))
    # The bounds that the number already has are clamped like the number.
    new_low, new_high = (min(max(bound, low), high) for bound in (value.low, value.high))
    return replace(value, low=new_low, high=new_high)


def rounded(value: Real) -> Real:
    """Round a number half to even; one that is rounded already is unchanged.

    Its bounds are rounded, too, which does not change the result.
    """
    low, high = (b if math.isinf(b) else float(np.round(b)) for b in (value.low, value.high))
    return value if value.rounded else replace(value, low=low, high=high, rounded=True)
