"""Conversions of operators on complex numbers and their real and imaginary parts."""

from __future__ import annotations

from pydispatch.frontends.torch.nodes.parts import select
from pydispatch.frontends.torch.trace import Conversion, Inverse
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes


def real(b: Builder, self: Tensor) -> Tensor:
    return ew.apply(b, lambda s, u: s.real(u), self) if self.dtype.is_complex else self


def imag(b: Builder, self: Tensor) -> Tensor:
    return ew.apply(b, lambda s, u: s.imag(u), self)


def view_as_real(b: Builder, self: Tensor) -> Tensor:
    return shapes.stack(b, [real(b, self), imag(b, self)], self.rank)


def complex_(b: Builder, real: Tensor, imag: Tensor) -> Tensor:
    return ew.apply(b, lambda s, u, v: s.complex(u, v), real, imag)


def view_as_complex(b: Builder, self: Tensor) -> Tensor:
    return complex_(b, select(b, self, self.rank - 1, 0), select(b, self, self.rank - 1, 1))


def conj(b: Builder, self: Tensor) -> Tensor:
    return ew.apply(b, lambda s, u: s.conj(u), self) if self.dtype.is_complex else self


def polar(b: Builder, abs: Tensor, angle: Tensor) -> Tensor:
    return ew.apply(
        b,
        lambda s, r, a: s.complex(s.binary("mul", r, s.unary("cos", a)), s.binary("mul", r, s.unary("sin", a))),
        abs, angle,
    )  # fmt: skip


COMPLEX_NUMBERS: dict[str, Conversion] = {
    "aten.real": real,
    "aten.imag": imag,
    "aten.complex": complex_,
    "aten.polar": polar,
    "aten.conj": conj,
    "aten._conj": conj,
    "aten.conj_physical": conj,
    "aten._conj_physical": conj,
    "aten.view_as_real": view_as_real,
    "aten.view_as_complex": view_as_complex,
}

VIEWS: dict[str, Inverse | None] = {
    f"aten.{name}": None for name in ("real", "imag", "view_as_real", "view_as_complex", "conj")
}
