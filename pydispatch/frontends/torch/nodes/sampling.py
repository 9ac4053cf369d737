"""Images in another size, and sampled at other places than their elements have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, normalization, sampling, shapes
from pydispatch.frontends.ops.resampling import CUBIC, LINEAR, resampled
from pydispatch.frontends.torch.trace import Conversion, Tracer

Array = np.ndarray[Any, Any]
Floats = Sequence[float]
Sizes = Sequence[Size]

# -- another size


def _target(t: Tracer, x: Tensor, output_size: Sizes | None, scales: Floats | None, spatial: int) -> list[Size]:
    if output_size is not None:
        return list(output_size)
    found: list[Size] = []
    for n, scale in zip(x.shape[-spatial:], scales or (), strict=True):
        if isinstance(n, Expr) and scale != int(scale):
            raise t.b.fail(f"{x} is scaled by {scale}; its size must be known")
        found.append(n * int(scale) if scale == int(scale) else math.floor(n * scale))  # type: ignore[operator]
    return found


def _step(n: int, out: int, scale: float | None, corners: bool) -> float:
    """How far apart the places of neighbours of the result are in the source."""
    if corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale if scale else n / out


def _rounded_down(places: Array, n: int) -> tuple[Array, None]:
    return np.minimum(np.floor(places).astype(np.int64), n - 1)[:, None], None


def _nearest(n: int, out: int, scale: float | None, corners: bool) -> tuple[Array, None]:
    return _rounded_down(np.arange(out, dtype=np.float32) * np.float32(_step(n, out, scale, False)), n)


def _nearest_exact(n: int, out: int, scale: float | None, corners: bool) -> tuple[Array, None]:
    places = np.arange(out, dtype=np.float32) + np.float32(0.5)
    return _rounded_down(places * np.float32(_step(n, out, scale, False)), n)


def _source_places(n: int, out: int, scale: float | None, corners: bool) -> Array:
    step = np.float32(_step(n, out, scale, corners))
    numbers = np.arange(out, dtype=np.float32)
    return numbers * step if corners else (numbers + np.float32(0.5)) * step - np.float32(0.5)


def _linear(n: int, out: int, scale: float | None, corners: bool) -> tuple[Array, Array]:
    at = np.maximum(_source_places(n, out, scale, corners), 0)
    low = np.minimum(np.floor(at), n - 1)
    return _taps(low, np.clip(at - low, 0, 1), n, LINEAR)


def _cubic(n: int, out: int, scale: float | None, corners: bool) -> tuple[Array, Array]:
    at = _source_places(n, out, scale, corners)
    return _taps(np.floor(at), at - np.floor(at), n, CUBIC)


def _taps(low: Array, part: Array, n: int, taps: Any) -> tuple[Array, Array]:
    places = [np.clip(low + offset, 0, n - 1).astype(np.int64) for offset, _ in taps]
    return np.stack(places, 1), np.stack([weight(part) for _, weight in taps], 1)


Taps = Callable[..., "tuple[Array, Array | None]"]
"""taps(size, new size, scale, corners) -> the places [new size, k] of the elements that new ones are made of, and their
weights."""


def _resized(t: Tracer, x: Tensor, target: Sizes, scales: Sequence[float | None], corners: bool, taps: Taps) -> Tensor:
    """An axis after the other. The weights are constants, so sizes must be known."""
    made = ew.convert(t.b, x, normalization.wide(x.dtype))
    for d, out in enumerate(target):
        axis = x.rank - len(target) + d
        n = x.shape[axis]
        if taps is _nearest and (repeats := out // n) * n == out and isinstance(repeats, int):
            wide = shapes.broadcast_to(t.b, shapes.expand_dims(t.b, made, [axis + 1]),
                                       [*made.shape[: axis + 1], repeats, *made.shape[axis + 1 :]])  # fmt: skip
            made = shapes.reshape(t.b, wide, [*made.shape[:axis], out, *made.shape[axis + 1 :]])
            continue
        if not isinstance(n, int) or not isinstance(out, int):
            raise t.b.fail(f"{x} is resized to {list(target)}: the sizes must be known")
        places, weights = taps(n, out, scales[d], corners)
        if weights is None:
            made = gathers.take(t.b, made, t.b.constant(places[:, 0], I64), axis)
        else:
            made = resampled(t.b, made, axis, places, weights)
    return ew.convert(t.b, made, x.dtype)


def _upsample(spatial: int, taps: Taps) -> Conversion:
    """With a parameter for aligned corners where the weights depend on it."""

    def plain(t: Tracer, self: Tensor, output_size: Sizes | None, scale_factors: Floats | None = None) -> Tensor:
        target = _target(t, self, output_size, scale_factors, spatial)
        return _resized(t, self, target, scale_factors or [None] * spatial, False, taps)

    def aligned(
        t: Tracer, self: Tensor, output_size: Sizes | None, align_corners: bool, scale_factors: Floats | None = None
    ) -> Tensor:
        target = _target(t, self, output_size, scale_factors, spatial)
        return _resized(t, self, target, scale_factors or [None] * spatial, align_corners, taps)

    return plain if taps in (_nearest, _nearest_exact) else aligned


def _upsample_by_axis(spatial: int, taps: Taps) -> Conversion:
    """The overloads with a scale for each axis."""

    def plain(t: Tracer, self: Tensor, output_size: Sizes, *scales: float | None) -> Tensor:
        return _resized(t, self, output_size, [*scales, *[None] * spatial][:spatial], False, taps)

    def aligned(t: Tracer, self: Tensor, output_size: Sizes, align_corners: bool, *scales: float | None) -> Tensor:
        return _resized(t, self, output_size, [*scales, *[None] * spatial][:spatial], align_corners, taps)

    return plain if taps in (_nearest, _nearest_exact) else aligned


_UPSAMPLE = {
    "upsample_nearest1d": (1, _nearest), "upsample_nearest2d": (2, _nearest), "upsample_nearest3d": (3, _nearest),
    "_upsample_nearest_exact1d": (1, _nearest_exact), "_upsample_nearest_exact2d": (2, _nearest_exact),
    "_upsample_nearest_exact3d": (3, _nearest_exact), "upsample_linear1d": (1, _linear),
    "upsample_bilinear2d": (2, _linear), "upsample_trilinear3d": (3, _linear), "upsample_bicubic2d": (2, _cubic),
}  # fmt: skip


# -- grids

_MODES = ("linear", "nearest", "cubic")
_BEYOND = ("zeros", "border", "reflection")


def grid_sampler(
    t: Tracer, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    if not 0 <= interpolation_mode < len(_MODES) or not 0 <= padding_mode < len(_BEYOND):
        raise t.b.fail(f"interpolation mode {interpolation_mode} and padding mode {padding_mode} are 0, 1 or 2")
    how = sampling.Grid(_MODES[interpolation_mode], _BEYOND[padding_mode], align_corners)
    return sampling.grid_sample(t.b, input, grid, how)


SAMPLING: dict[str, Conversion] = {
    **{f"aten.{name}.vec": _upsample(*how) for name, how in _UPSAMPLE.items()},
    **{f"aten.{name}": _upsample_by_axis(*how) for name, how in _UPSAMPLE.items()},
    **{f"aten.{name}": grid_sampler for name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")},
}
