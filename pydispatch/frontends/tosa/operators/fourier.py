"""Fourier transforms over the last two axes."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import F32
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.fourier import complex_of, parts_of, rfft, waves
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer


def _check(t: Tracer, x: Tensor) -> None:
    t.rank(x, 3)
    if x.dtype != F32:
        raise t.b.fail(f"Fourier transforms are of f32, got {x}")


def _fft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    """Lower a 2-D FFT; the inverse is not divided by the number of elements."""
    t.same_type(*x)
    _check(t, x[0])
    sign = 1 if t.number(op, "inverse", 0) else -1
    return parts_of(t.b, waves(t.b, waves(t.b, complex_of(t.b, x[0], x[1]), 2, sign), 1, sign))


def _rfft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    _check(t, x[0])
    return parts_of(t.b, waves(t.b, rfft(t.b, x[0], 2), 1, -1))


ROWS: dict[str, Convert] = {"tosa.fft2d": _fft2d, "tosa.rfft2d": _rfft2d}
