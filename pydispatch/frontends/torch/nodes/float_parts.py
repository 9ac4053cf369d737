"""Conversions of operators on the sign, the exponent and the fraction of floats."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.pointwise import in_floats
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I32
from pydispatch.graph.values import Tensor
from pydispatch.operations import shapes
from pydispatch.operations.formulas import Element, formula, formulas
from pydispatch.operations.normalization import wide


@converts("prims.signbit", "aten.signbit")
def signbit(builder: Builder, self: Tensor) -> Tensor:
    """Return which elements have a negative sign; -0.0 has one."""
    if self.dtype.is_unsigned:
        return shapes.full(builder, value=False, shape=self.shape, dtype=BOOL)
    if self.dtype.is_integer:
        return formula(builder, lambda e: e < 0, self)
    return formula(builder, lambda e: e.const(1.0).binary("copysign", e) < 0.0, self)


@converts("aten.ldexp")
def ldexp(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Return self * 2^other.

    The power is applied in two halves, so that the result is exact even where 2^other itself is infinite or 0.
    """

    def times_power(e: Element, n: Element) -> Element:
        """Return e * 2^n of one pair of elements, by two factors, since 2^n itself may be infinite or 0."""
        half = (n * 0.5).unary("floor")
        return e * half.unary("exp2") * (n - half).unary("exp2")

    return in_floats(builder, times_power, self, other)


@converts("prims.frexp", "aten.frexp")
def frexp(builder: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """Return fractions with magnitudes in [0.5, 1) and i32 exponents, so that self = fraction * 2^exponent.

    For 0, infinities and NaN the fraction is the number itself and the exponent is 0.
    Raise CompileError if `self` is not of floats.
    """
    if not self.dtype.is_float:
        raise builder.fail(f"fractions and exponents of {self}; expected floats")
    inner = wide(self.dtype)
    # The fraction is the number divided by 2^exponent. So that the quotient is exact for subnormal numbers too, numbers
    # below least_unscaled (twice the smallest normal number) are multiplied by 2^lift first, and lift is subtracted
    # from the exponent. The logarithm may be rounded to the next integer, so the exponent is corrected by one where
    # needed.
    least_unscaled, lift = {"f64": (2.0**-1021, 54)}.get(inner.name, (2.0**-125, 24))

    def fraction_and_exponent(e: Element) -> list[Element]:
        """Return (fraction, exponent) of one element of `self`.

        The computation is in `inner`: f64 for f64, else f32. Numbers below least_unscaled
        are multiplied by 2^lift first, so that no subnormal number is divided.
        """
        e = e.to(inner)
        size = e.unary("abs")
        is_special = e.is_equal(0.0) | ~e.unary("is_finite")
        is_scaled = size < least_unscaled
        scaled = is_special.where(1.0, is_scaled.where(size * 2.0**lift, size))
        exponent = scaled.unary("log2").unary("floor") + 1.0
        # The division is in two steps, because 2^exponent may be infinite where the number is not.
        half = (exponent * 0.5).unary("floor")
        fraction_part = scaled / half.unary("exp2") / (exponent - half).unary("exp2")
        # A logarithm that was rounded to the next integer gives an exponent that is wrong by one.
        is_too_large, is_too_small = fraction_part >= 1.0, fraction_part < 0.5
        exponent = is_too_large.where(exponent + 1.0, is_too_small.where(exponent - 1.0, exponent))
        fraction_part = is_too_large.where(fraction_part * 0.5, is_too_small.where(fraction_part * 2.0, fraction_part))
        exponent = is_scaled.where(exponent - float(lift), exponent)
        fraction = is_special.where(e, fraction_part.binary("copysign", e))
        return [fraction.to(self.dtype), is_special.where(0.0, exponent).to(I32)]

    results = formulas(builder, fraction_and_exponent, self)
    return results[0], results[1]
