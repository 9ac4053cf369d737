"""Images in another size: the nearest element, linear and cubic interpolation, also with antialiasing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _floor(v: Real) -> Real:
    return v.of("floor") if isinstance(v, Element) else np.floor(v)


def _not_negative(v: Real) -> Real:
    return v.at_least(0.0) if isinstance(v, Element) else np.maximum(v, 0)


def _middle(o: Real, step: Real, corners: bool) -> Real:
    return o * step if corners else (o + 0.5) * step - 0.5


@dataclass(frozen=True)
class _Method:
    """A way to resize. place(o, step, corners): where element o of the result is in the source, as a fraction.

    taps: the elements around a place that count, with their weights.
    """

    place: Callable[[Real, Real, bool], Real]
    taps: Taps

    @property
    def is_nearest(self) -> bool:
        """Whether each element is a copy of one; its place is then computed in f32, whatever the image is of."""
        return len(self.taps) == 1


_ONE: Taps = ((0, lambda part: part),)
_NEAREST = _Method(lambda o, step, corners: o * step, _ONE)
_NEAREST_EXACT = _Method(lambda o, step, corners: (o + 0.5) * step, _ONE)
_LINEAR = _Method(lambda o, step, corners: _not_negative(_middle(o, step, corners)), LINEAR)
_CUBIC = _Method(_middle, CUBIC)

Resize = Callable[[Tracer, Tensor, int, Size, "float | None", bool], Tensor]
"""resize(tracer, x, axis, new size, scale that the model states, whether corners are aligned)"""


def _resized(t: Tracer, x: Tensor, axis: int, out: Size, scale: float | None, corners: bool, how: _Method) -> Tensor:
    n = x.shape[axis]
    if how is _NEAREST and (repeats := out // n) * n == out and isinstance(repeats, int):
        wide = shapes.broadcast_to(t.b, shapes.expand_dims(t.b, x, [axis + 1]),
                                   [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])  # fmt: skip
        return shapes.reshape(t.b, wide, [*x.shape[:axis], out, *x.shape[axis + 1 :]])
    dtype = F32 if how.is_nearest else x.dtype
    if isinstance(n, int) and isinstance(out, int):
        taken, weights = _known_taps(n, out, scale, corners, how, dtype)
        if not how.is_nearest:
            return resampling.resampled(t.b, x, axis, taken, weights)
        return gathers.take(t.b, x, t.b.constant(taken[:, 0]), axis)
    return _dynamic(t, x, axis, out, scale, corners, how, dtype)


def _known_taps(
    n: int, out: int, scale: float | None, corners: bool, how: _Method, dtype: DType
) -> tuple[Array, Array]:
    """The places [out, taps] of the elements that new ones are made of, and their weights."""
    real = dtype.numpy.type
    step = (n - 1) / (out - 1) if corners and out > 1 else 0.0 if corners else 1.0 / scale if scale else n / out
    at = how.place(np.arange(out, dtype=real), real(step), corners)
    low = np.floor(at)
    taken = [np.clip(low + offset, 0, n - 1).astype(np.int64) for offset, _ in how.taps]
    return np.stack(taken, 1), np.stack([weight(at - low) for _, weight in how.taps], 1)


def _dynamic(
    t: Tracer, x: Tensor, axis: int, out: Size, scale: float | None, corners: bool, how: _Method, dtype: DType
) -> Tensor:
    """`_resized` where a call decides one of the sizes: places and weights are computed by the program."""
    size, count = (reductions.size_as(t.b, n, I64) for n in (x.shape[axis], out))

    def distance(n: Element, m: Element) -> Element:
        if corners:
            step = (n - 1).to(dtype) / (m - 1).at_least(1).to(dtype)
            return (m > 1).choose(step, 0.0)
        return n.to(dtype) / m.to(dtype)

    step = formula(t.b, distance, size, count) if corners or not scale else t.b.constant(1.0 / scale, dtype)
    numbers = shapes.iota(t.b, [out], 0, I64)
    at = formula(t.b, lambda o, s: how.place(o.to(dtype), s, corners), numbers, step)
    taken, weights = [], []
    for offset, weight in how.taps:

        def index(v: Element, n: Element, offset: int = offset) -> Element:
            return (v.of("floor").to(I64) + offset).at_least(0).at_most(n - 1)

        def part(v: Element, weight: Callable[[Element], Element] = weight) -> Element:
            return weight(v - v.of("floor"))

        taken.append(formula(t.b, index, at, size))
        weights.append(formula(t.b, part, at))
    if how.is_nearest:
        return gathers.take(t.b, x, taken[0], axis)
    return resampling.weighted_slices(t.b, x, axis, taken, weights)


# -- antialiasing


def _triangle(v: Array) -> Array:
    return np.maximum(1 - np.abs(v), 0)


_SHARPER = -0.5
"""The parameter of Keys' kernel with antialiasing."""


def _keys(v: Array) -> Array:
    v = np.abs(v)
    beyond = np.where(v < 2, resampling.far(v, _SHARPER), 0)
    return np.where(v < 1, resampling.near(v, _SHARPER), beyond)


def _smoothed(kernel: Callable[[Array], Array], reach: int) -> Resize:
    """Each element is the sum of all that its footprint in the source touches. reach: of the kernel, to each side."""

    def resize(t: Tracer, x: Tensor, axis: int, out: Size, scale: float | None, corners: bool) -> Tensor:
        n = x.shape[axis]
        if not isinstance(n, int) or not isinstance(out, int):
            raise t.b.fail(
                f"{x} is resized to {out} elements along axis {axis} with antialiasing: both sizes must be known",
                "export the model with a static size of the image, or resize with antialias=False",
            )
        step = (n - 1) / (out - 1) if corners and out > 1 else 0.0 if corners else 1.0 / scale if scale else n / out
        width = max(step, 1.0)
        middle = (np.arange(out) + 0.5) * step
        first = np.maximum((middle - reach * width + 0.5).astype(np.int64), 0)
        last = np.minimum((middle + reach * width + 0.5).astype(np.int64), n)
        taken = first[:, None] + np.arange(max(1, (last - first).max(initial=1)))
        weights = kernel((taken - middle[:, None] + 0.5) / width) * (taken < last[:, None])
        taken = np.minimum(taken, n - 1)
        return resampling.resampled(t.b, x, axis, taken, weights / weights.sum(1, keepdims=True))

    return resize


# -- operators


def _plain(how: _Method) -> Resize:
    return lambda t, x, axis, out, scale, corners: _resized(t, x, axis, out, scale, corners, how)


def _each_axis(
    t: Tracer, x: Tensor, output_size: Sizes | None, scales: Sequence[float | None], corners: bool, resize: Resize
) -> Tensor:
    """The last axes resized, one after the other. output_size: None where the scales decide."""
    if not x.dtype.is_float and resize not in _COPIES:
        raise t.b.fail(f"{x} is interpolated; expected floats", "convert the image to float32 first")
    first = x.rank - len(scales)
    made = ew.convert(t.b, x, normalization.wide(x.dtype))
    for axis, scale in enumerate(scales, first):
        out = output_size[axis - first] if output_size is not None else t.b.scaled(x.shape[axis], scale or 1.0)
        made = resize(t, made, axis, out, scale, corners)
    return ew.convert(t.b, made, x.dtype)


def _scales(t: Tracer, given: Sequence[float | None] | None, spatial: int) -> list[float | None]:
    found: list[float | None] = list(given) if given else [None] * spatial
    if len(found) != spatial:
        raise t.b.fail(f"{len(found)} scales are stated; the image has {spatial} axes")
    return found


def _by_scales(spatial: int, resize: Resize) -> Conversion:
    """The overloads with a list of scales. They have a parameter for aligned corners where weights depend on it."""

    def copied(t: Tracer, self: Tensor, output_size: Sizes | None, scale_factors: Floats | None = None) -> Tensor:
        return _each_axis(t, self, output_size, _scales(t, scale_factors, spatial), False, resize)

    def aligned(
        t: Tracer, self: Tensor, output_size: Sizes | None, align_corners: bool, scale_factors: Floats | None = None
    ) -> Tensor:
        return _each_axis(t, self, output_size, _scales(t, scale_factors, spatial), align_corners, resize)

    return copied if resize in _COPIES else aligned


def _by_axis(spatial: int, resize: Resize) -> Conversion:
    """The overloads with a scale for each axis."""

    def copied(t: Tracer, self: Tensor, output_size: Sizes, *scales: float | None) -> Tensor:
        return _each_axis(t, self, output_size, _scales(t, scales, spatial), False, resize)

    def aligned(t: Tracer, self: Tensor, output_size: Sizes, align_corners: bool, *scales: float | None) -> Tensor:
        return _each_axis(t, self, output_size, _scales(t, scales, spatial), align_corners, resize)

    return copied if resize in _COPIES else aligned


_COPIES = (_plain(_NEAREST), _plain(_NEAREST_EXACT))

_UPSAMPLE: dict[str, tuple[int, Resize]] = {
    **{f"upsample_nearest{n}d": (n, _COPIES[0]) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": (n, _COPIES[1]) for n in (1, 2, 3)},
    "upsample_linear1d": (1, _plain(_LINEAR)),
    "upsample_bilinear2d": (2, _plain(_LINEAR)),
    "upsample_trilinear3d": (3, _plain(_LINEAR)),
    "upsample_bicubic2d": (2, _plain(_CUBIC)),
    "_upsample_bilinear2d_aa": (2, _smoothed(_triangle, 1)),
    "_upsample_bicubic2d_aa": (2, _smoothed(_keys, 2)),
}

RESIZING: dict[str, Conversion] = {
    **{f"aten.{name}.vec": _by_scales(*how) for name, how in _UPSAMPLE.items()},
    **{f"aten.{name}": _by_axis(*how) for name, how in _UPSAMPLE.items()},
}
