"""Conversions of special functions, nextafter and angle."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from pydispatch.frontends.torch.promotion import Operand, promoted
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import float_bits, gamma, special
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def _of_float(function: Callable[..., Scalar], builder: Builder, self: Tensor) -> Tensor:
    """Apply function(scalars, element) to the elements as floats; integers become f32.

    The function itself computes 16-bit floats in f32.
    """
    return ew.apply(builder, function, *promoted(builder, self, floats=True))


def _digamma(scalars: Scalars, x: Scalar) -> Scalar:
    """Return the derivative of lgamma: -inf at 0, inf at -0, and NaN at the other poles, the negative integers."""
    at_zero = scalars.binary("copysign", scalars.const(math.inf, x.dtype), scalars.unary("neg", x))
    return scalars.select(scalars.compare("eq", x, scalars.const(0.0, x.dtype)), at_zero, gamma.digamma(scalars, x))


@converts("aten.polygamma", "aten.special_polygamma")
def polygamma(builder: Builder, n: int, self: Tensor) -> Tensor:
    """Return the n-th derivative of digamma."""
    if n < 0:
        raise builder.fail(f"polygamma of the order {n}; orders are 0 or more")
    return _of_float(partial(_polygamma, n), builder, self)


def _polygamma(n: int, scalars: Scalars, x: Scalar) -> Scalar:
    """Return the n-th derivative of digamma; digamma itself for n = 0."""
    return gamma.digamma_derivative(scalars, n, x) if n else _digamma(scalars, x)


@converts("aten.special_zeta", "prims.zeta")
def zeta(builder: Builder, self: Operand, other: Operand) -> Tensor:
    """Return the Hurwitz zeta function, the sum of (k + other)^-self over k = 0, 1, 2, ..."""
    return ew.apply(builder, gamma.hurwitz_zeta, *promoted(builder, self, other, floats=True))


@converts("aten.nextafter", "prims.nextafter")
def nextafter(builder: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Return the float that follows `self` in the direction of `other`."""
    return formula(builder, float_bits.next_after, *promoted(builder, self, other))


@converts("aten.angle")
def angle(builder: Builder, self: Tensor) -> Tensor:
    """Return the angle of complex numbers in the complex plane, in radians; 0 or pi for real ones."""
    if self.dtype.is_complex:
        return ew.apply(builder, lambda s, v: s.binary("atan2", s.imag(v), s.real(v)), self)

    def angle_of(e: Element) -> Element:
        """Return the angle of a real number: pi if it is negative, else 0; NaN stays NaN."""
        return e.unary("is_nan").where(e, (e < 0.0).where(e.const(math.pi), 0.0))

    return formula(builder, angle_of, promoted(builder, self, floats=True)[0])


register({
    **dict.fromkeys(("aten.lgamma", "aten.special_gammaln", "prims.lgamma"), partial(_of_float, gamma.lgamma)),
    **dict.fromkeys(("aten.digamma", "aten.special_digamma", "prims.digamma"), partial(_of_float, _digamma)),
    **dict.fromkeys(("aten.erfinv", "aten.special_erfinv", "prims.erf_inv"), partial(_of_float, special.erf_inv)),
    **dict.fromkeys(("aten.i0", "aten.special_i0", "prims.bessel_i0"), partial(_of_float, special.bessel_i0)),
    **dict.fromkeys(("aten.special_i0e", "prims.bessel_i0e"), partial(_of_float, special.bessel_i0e)),
    **dict.fromkeys(("aten.special_i1", "prims.bessel_i1"), partial(_of_float, special.bessel_i1)),
    **dict.fromkeys(("aten.special_i1e", "prims.bessel_i1e"), partial(_of_float, special.bessel_i1e)),
})  # fmt: skip
