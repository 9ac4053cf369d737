"""Images in another size: the nearest element, linear and cubic interpolation, also with antialiasing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.frontends.graph.dtypes import F32, I64, DType
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, normalization, reductions, resampling, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.resampling import CUBIC, LINEAR, Taps
from pydispatch.frontends.torch.trace import Conversion, Tracer

Array = np.ndarray[Any, Any]
Floats = Sequence[float]
Sizes = Sequence[Size]
Real = Any
"""An array where sizes are known, else an element of a formula."""


def _floor(value: Real) -> Real:
    return value.unary("floor") if isinstance(value, Element) else np.floor(value)


def _not_negative(value: Real) -> Real:
    return value.max(0.0) if isinstance(value, Element) else np.maximum(value, 0)


def _middle(o: Real, step: Real, corners: bool) -> Real:
    return o * step if corners else (o + 0.5) * step - 0.5


@dataclass(frozen=True)
class Interpolation:
    """A way to resize. position(o, step, corners): where element o of the result is in the source, as a fraction.

    taps: the elements around a position that count, with their weights.
    """

    position: Callable[[Real, Real, bool], Real]
    taps: Taps

    @property
    def is_nearest(self) -> bool:
        """Whether each element is a copy of one; its position is then computed in f32, not in the type of the image."""
        return len(self.taps) == 1

    def known_taps(self, n: int, out: int, scale: float | None, corners: bool, dtype: DType) -> tuple[Array, Array]:
        """Return the indices [out, taps] of the elements that each new element is interpolated from, and
        their weights.
        """
        real = dtype.numpy.type
        at = self.position(np.arange(out, dtype=real), real(_step(n, out, scale, corners)), corners)
        low = np.floor(at)
        taken = [np.clip(low + offset, 0, n - 1).astype(np.int64) for offset, _ in self.taps]
        return np.stack(taken, 1), np.stack([weight(at - low) for _, weight in self.taps], 1)

    def dynamic_taps(
        self, tracer: Tracer, n: Size, out: Size, scale: float | None, corners: bool, dtype: DType
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the indices and weights [out] of each tap, where one of the sizes is dynamic."""
        size, count = (reductions.size_as(tracer.b, v, I64) for v in (n, out))

        def distance(n: Element, m: Element) -> Element:
            if corners:
                step = (n - 1).to(dtype) / (m - 1).max(1).to(dtype)
                return (m > 1).where(step, 0.0)
            return n.to(dtype) / m.to(dtype)

        step = (
            formula(tracer.b, distance, size, count) if corners or not scale else tracer.b.constant(1.0 / scale, dtype)
        )
        numbers = shapes.iota(tracer.b, [out], 0, I64)
        at = formula(tracer.b, lambda o, s: self.position(o.to(dtype), s, corners), numbers, step)
        taken, weights = [], []
        for offset, weight in self.taps:

            def index(value: Element, n: Element, offset: int = offset) -> Element:
                return (value.unary("floor").to(I64) + offset).max(0).min(n - 1)

            def part(value: Element, weight: Callable[[Element], Element] = weight) -> Element:
                return weight(value - value.unary("floor"))

            taken.append(formula(tracer.b, index, at, size))
            weights.append(formula(tracer.b, part, at))
        return taken, weights


def _step(n: int, out: int, scale: float | None, corners: bool) -> float:
    """Return the distance in the source between the positions of neighbouring elements of the result."""
    if corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale if scale else n / out


_ONE: Taps = ((0, lambda part: part * 0 + 1),)
NEAREST = Interpolation(lambda o, step, corners: o * step, _ONE)
_NEAREST_EXACT = Interpolation(lambda o, step, corners: (o + 0.5) * step, _ONE)
_LINEAR = Interpolation(lambda o, step, corners: _not_negative(_middle(o, step, corners)), LINEAR)
_CUBIC = Interpolation(_middle, CUBIC)


# -- antialiasing


def _triangle(value: Array) -> Array:
    return np.maximum(1 - np.abs(value), 0)


_SHARPER = -0.5
"""The parameter of Keys' kernel with antialiasing."""


def _keys(value: Array) -> Array:
    value = np.abs(value)
    beyond = np.where(value < 2, resampling.cubic_outer(value, _SHARPER), 0)
    return np.where(value < 1, resampling.cubic_inner(value, _SHARPER), beyond)


@dataclass(frozen=True)
class Antialiased:
    """A way to resize in which each element is the sum of all that its footprint in the source touches.

    kernel: the weight by the distance. reach: of the kernel, to each side.
    """

    kernel: Callable[[Array], Array]
    reach: int
    is_nearest = False

    def known_taps(self, n: int, out: int, scale: float | None, corners: bool, dtype: DType) -> tuple[Array, Array]:
        """Return the indices [out, taps] of the elements that each new element is interpolated from, and
        their weights.
        """
        step = _step(n, out, scale, corners)
        width = max(step, 1.0)
        middle = (np.arange(out) + 0.5) * step
        first = np.maximum((middle - self.reach * width + 0.5).astype(np.int64), 0)
        last = np.minimum((middle + self.reach * width + 0.5).astype(np.int64), n)
        taken = first[:, None] + np.arange(max(1, (last - first).max(initial=1)))
        weights = self.kernel((taken - middle[:, None] + 0.5) / width) * (taken < last[:, None])
        return np.minimum(taken, n - 1), weights / weights.sum(1, keepdims=True)

    def dynamic_taps(
        self, tracer: Tracer, n: Size, out: Size, scale: float | None, corners: bool, dtype: DType
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Raise CompileError."""
        raise tracer.b.fail(
            f"an axis of {n} elements is resized to {out} elements with antialiasing: both sizes must be known",
            "export the model with a static size of the image, or resize with antialias=False",
        )


Method = Interpolation | Antialiased


# -- operators

UNSCALED = (1, 2)
"""Numbers of repetitions for which some of PyTorch's kernels ignore the scale: the kernel for images of two axes, and
the gradients of all."""


def repetitions(n: Size, out: Size, scale: float | None, how: Method, unscaled: Collection[int]) -> int | None:
    """Return how often the nearest elements repeat each of n elements in a row, or None where they do not.

    The scale is the caller's, who may state one that is not `out / n`, such as 3.2 for 3 elements that become 9. The
    elements then have other distances, unless the number of repetitions is in `unscaled`.
    """
    if how is not NEAREST:
        return None
    count = out // n
    if not isinstance(count, int) or count * n != out:
        return None
    return count if scale in (None, count) or count in unscaled else None


def _resized(
    tracer: Tracer, x: Tensor, axis: int, out: Size, scale: float | None, corners: bool, how: Method,
    unscaled: Collection[int],
) -> Tensor:  # fmt: skip
    n = x.shape[axis]
    if (repeats := repetitions(n, out, scale, how, unscaled)) is not None:
        wide = shapes.broadcast_to(tracer.b, shapes.expand_dims(tracer.b, x, [axis + 1]),
                                   [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])  # fmt: skip
        return shapes.reshape(tracer.b, wide, [*x.shape[:axis], out, *x.shape[axis + 1 :]])
    dtype = F32 if how.is_nearest else x.dtype
    if isinstance(n, int) and isinstance(out, int):
        known, factors = how.known_taps(n, out, scale, corners, dtype)
        if not how.is_nearest:
            return resampling.resampled(tracer.b, x, axis, known, factors)
        return gathers.take(tracer.b, x, tracer.b.constant(known[:, 0]), axis)
    taken, weights = how.dynamic_taps(tracer, n, out, scale, corners, dtype)
    if how.is_nearest:
        return gathers.take(tracer.b, x, taken[0], axis)
    return resampling.weighted_slices(tracer.b, x, axis, taken, weights)


def _each_axis(
    tracer: Tracer, x: Tensor, output_size: Sizes | None, scales: Sequence[float | None], corners: bool, how: Method
) -> Tensor:
    """Resize the last axes, one after the other. output_size: None where the scales decide."""
    if not x.dtype.is_float and not how.is_nearest:
        raise tracer.b.fail(f"{x} is interpolated; expected floats", "convert the image to float32 first")
    first = x.rank - len(scales)
    resized = ew.convert(tracer.b, x, normalization.wide(x.dtype))
    for axis, scale in enumerate(scales, first):
        out = output_size[axis - first] if output_size is not None else tracer.b.scaled(x.shape[axis], scale or 1.0)
        resized = _resized(tracer, resized, axis, out, scale, corners, how, UNSCALED if len(scales) == 2 else ())
    return ew.convert(tracer.b, resized, x.dtype)


def _scales(tracer: Tracer, stated: Sequence[float | None] | None, spatial: int) -> list[float | None]:
    scales: list[float | None] = list(stated) if stated else [None] * spatial
    if len(scales) != spatial:
        raise tracer.b.fail(f"{len(scales)} scales are stated; the image has {spatial} axes")
    return scales


def _by_scales(spatial: int, how: Method) -> Conversion:
    """Return the conversion of overloads with a list of scales. It has a parameter for aligned corners where weights
    depend on it.
    """

    def copied(tracer: Tracer, self: Tensor, output_size: Sizes | None, scale_factors: Floats | None = None) -> Tensor:
        return _each_axis(tracer, self, output_size, _scales(tracer, scale_factors, spatial), False, how)

    def aligned(
        tracer: Tracer,
        self: Tensor,
        output_size: Sizes | None,
        align_corners: bool,
        scale_factors: Floats | None = None,
    ) -> Tensor:
        return _each_axis(tracer, self, output_size, _scales(tracer, scale_factors, spatial), align_corners, how)

    return copied if how.is_nearest else aligned


def _by_axis(spatial: int, how: Method) -> Conversion:
    """Return the conversion of overloads with a scale for each axis."""

    def copied(tracer: Tracer, self: Tensor, output_size: Sizes, *scales: float | None) -> Tensor:
        return _each_axis(tracer, self, output_size, _scales(tracer, scales, spatial), False, how)

    def aligned(tracer: Tracer, self: Tensor, output_size: Sizes, align_corners: bool, *scales: float | None) -> Tensor:
        return _each_axis(tracer, self, output_size, _scales(tracer, scales, spatial), align_corners, how)

    return copied if how.is_nearest else aligned


UPSAMPLE: dict[str, tuple[int, Method]] = {
    **{f"upsample_nearest{n}d": (n, NEAREST) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": (n, _NEAREST_EXACT) for n in (1, 2, 3)},
    "upsample_linear1d": (1, _LINEAR),
    "upsample_bilinear2d": (2, _LINEAR),
    "upsample_trilinear3d": (3, _LINEAR),
    "upsample_bicubic2d": (2, _CUBIC),
    "_upsample_bilinear2d_aa": (2, Antialiased(_triangle, 1)),
    "_upsample_bicubic2d_aa": (2, Antialiased(_keys, 2)),
}
"""Operators -> how many axes they resize, and how."""

RESIZING: dict[str, Conversion] = {
    **{f"aten.{name}.vec": _by_scales(*how) for name, how in UPSAMPLE.items()},
    **{f"aten.{name}": _by_axis(*how) for name, how in UPSAMPLE.items()},
}
