"""Fourier transforms over the last two axes, of numbers whose real and imaginary parts are tensors of their own."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import F32
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import fourier
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.scalars import Scalars
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer


def _checked(t: Tracer, x: Tensor) -> None:
    t.rank(x, 3)
    if x.dtype != F32:
        raise t.b.fail(f"Fourier transforms are of f32, got {x}")


def _fft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """The inverse, which is not divided by the number of elements, is the conjugate transform of the conjugate."""
    for part in x:
        _checked(t, part)
    inverse = bool(t.number(op, "inverse", 0))

    def complex_(s: Scalars, real: Scalar, imag: Scalar) -> Scalar:
        return s.complex(real, s.unary("neg", imag) if inverse else imag)

    return _parts(t, fourier.fft(t.b, fourier.fft(t.b, ew.apply(t.b, complex_, *x), 2), 1), inverse)


def _rfft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    _checked(t, x[0])
    return _parts(t, fourier.fft(t.b, fourier.rfft(t.b, x[0], 2), 1), False)


def _parts(t: Tracer, x: Tensor, negated: bool) -> list[Tensor]:
    return ew.apply_several(t.b, lambda s, z: [s.real(z), s.unary("neg", s.imag(z)) if negated else s.imag(z)], x)


ROWS: dict[str, Convert] = {"tosa.fft2d": _fft2d, "tosa.rfft2d": _rfft2d}
