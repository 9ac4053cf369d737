"""Conversions of operators on complex numbers and their real and imaginary parts."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.parts import select
from pydispatch.frontends.torch.registry import VIEWS, converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import slicing


@converts("aten.real")
def real(builder: Builder, self: Tensor) -> Tensor:
    """Return the real parts; a real tensor is returned unchanged."""
    return ew.apply(builder, lambda s, u: s.real(u), self) if self.dtype.is_complex else self


@converts("aten.imag")
def imag(builder: Builder, self: Tensor) -> Tensor:
    """Return the imaginary parts."""
    return ew.apply(builder, lambda s, u: s.imag(u), self)


@converts("aten.view_as_real")
def view_as_real(builder: Builder, self: Tensor) -> Tensor:
    """Return complex numbers as pairs of their real and imaginary parts, along a new last axis of size 2."""
    return slicing.stack(builder, [real(builder, self), imag(builder, self)], self.rank)


@converts("aten.complex")
def complex_(builder: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """Return complex numbers of these real and imaginary parts."""
    return ew.apply(builder, lambda s, u, v: s.complex(u, v), real, imag)


@converts("aten.view_as_complex")
def view_as_complex(builder: Builder, self: Tensor) -> Tensor:
    """Return the pairs along the last axis, a real and an imaginary part, as complex numbers."""
    return complex_(
        builder, select(builder, self, self.rank - 1, index=0), select(builder, self, self.rank - 1, index=1)
    )


@converts("aten.conj", "aten._conj", "aten.conj_physical", "aten._conj_physical")
def conj(builder: Builder, self: Tensor) -> Tensor:
    """Return the complex conjugates; a tensor of real numbers itself."""
    return ew.apply(builder, lambda s, u: s.conj(u), self) if self.dtype.is_complex else self


@converts("aten.polar")
def polar(builder: Builder, abs: Tensor, angle: Tensor) -> Tensor:
    """Return complex numbers of these absolute values and angles."""
    return ew.apply(
        builder,
        lambda s, r, a: s.complex(s.binary("mul", r, s.unary("cos", a)), s.binary("mul", r, s.unary("sin", a))),
        abs, angle,
    )  # fmt: skip


VIEWS.update({
    f"aten.{name}": None for name in ("real", "imag", "view_as_real", "view_as_complex", "conj")
})  # fmt: skip
