"""Fourier transforms over the last two axes, as products with matrices of cosines and sines."""

from __future__ import annotations

import math

from xdsl.ir import Operation

from pydispatch.frontends.graph.dtypes import F32, I64
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import reductions
from pydispatch.frontends.ops.formulas import Element, formula, positions
from pydispatch.frontends.ops.products import dot_general
from pydispatch.frontends.tosa.tracer import Convert, Results, Tracer

Pair = tuple[Tensor, Tensor | None]
"""The real and the imaginary part; None for an imaginary part of zeros."""


def _waves(t: Tracer, size: Size, kept: Size) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi i k / size for i < size and k < kept."""
    import numpy as np

    if not isinstance(size, Expr) and not isinstance(kept, Expr):
        angles = 2 * math.pi * (np.outer(np.arange(size), np.arange(kept)) % max(size, 1)) / max(size, 1)
        return t.b.constant(np.cos(angles), F32), t.b.constant(np.sin(angles), F32)
    products = positions(t.b, lambda grid: grid.at(0) * grid.at(1), (size, kept))

    def angle(n: Element, whole: Element) -> Element:
        return (n % whole).to(F32) / whole.to(F32) * (2 * math.pi)

    angles_ = formula(t.b, angle, products, reductions.size_as(t.b, size, I64))
    return ew.unary(t.b, "cos", angles_), ew.unary(t.b, "sin", angles_)


def _along(t: Tracer, x: Pair, axis: int, kept: Size, inverse: bool) -> Pair:
    """The transform along an axis, which becomes the last one: sums of x exp(-2 pi i ...), or + for the inverse."""
    real, imag = x
    cos, sin = _waves(t, real.shape[axis], kept)

    def product(part: Tensor, wave: Tensor) -> Tensor:
        return dot_general(t.b, part, wave, [], [(axis, 0)])

    made, turned = product(real, cos), product(real, sin)
    if imag is None:
        return made, turned if inverse else ew.unary(t.b, "neg", turned)
    back, forth = ("sub", "add") if inverse else ("add", "sub")
    return (ew.binary(t.b, back, made, product(imag, sin)), ew.binary(t.b, forth, product(imag, cos), turned))


def _transformed(t: Tracer, x: Pair, kept: Size, inverse: bool) -> Results:
    t.rank(x[0], 3)
    if x[0].dtype != F32:
        raise t.b.fail(f"Fourier transforms are of f32, got {x[0]}")
    # The last axis first: then axes are [n, height, width], and after both transforms [n, width, height].
    rows = _along(t, x, 2, kept, inverse)
    real, imag = _along(t, rows, 1, x[0].shape[1], inverse)
    assert imag is not None
    from pydispatch.frontends.ops.shapes import transpose

    return [transpose(t.b, part, [0, 2, 1]) for part in (real, imag)]


def _fft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    t.same_type(*x)
    return _transformed(t, (x[0], x[1]), x[0].shape[-1], bool(t.number(op, "inverse", 0)))


def _rfft2d(t: Tracer, op: Operation, x: list[Tensor]) -> Results:
    return _transformed(t, (x[0], None), x[0].shape[-1] // 2 + 1, False)


ROWS: dict[str, Convert] = {"tosa.fft2d": _fft2d, "tosa.rfft2d": _rfft2d}
