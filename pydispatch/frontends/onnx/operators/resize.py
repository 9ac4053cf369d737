"""Conversions of Resize and Upsample, which sample images at other positions than those of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pydispatch.frontends.graph.dtypes import F32, I64
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, gathers, normalization, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.resampling import Array, cubic_inner, cubic_outer, resampled

_MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
          "tf_crop_and_resize", "tf_half_pixel_for_nn")  # fmt: skip
_DYNAMIC_MODES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Sampling:
    """Sampling options of one axis.

    `start` and `end` bound the region of interest as fractions of the axis (tf_crop_and_resize).
    """

    mode: str
    transformation: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    start: float = 0.0
    end: float = 1.0


def _resize(
    call: NodeCall, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    """Resize some axes of x to the operand `sizes` or by the factors in `scales`.

    Before version 11, `scales` is the second operand.
    """
    if call.version < 11:
        roi, scales = None, roi
    mode = call.text("mode", "nearest", ("nearest", "linear", "cubic", "bilinear"))
    axes = call.axes(call.integers("axes", list(range(x.rank))), x.rank)
    default = "half_pixel" if call.version >= 11 else "asymmetric"
    sampling = Sampling(
        "linear" if mode == "bilinear" else mode,
        call.text("coordinate_transformation_mode", default, _MODES),
        call.text("nearest_mode", "round_prefer_floor" if call.version >= 11 else "floor", _NEAREST),
        call.real("cubic_coeff_a", -0.75), call.flag("antialias"), call.flag("exclude_outside"),
    )  # fmt: skip
    beyond = call.real("extrapolation_value", 0.0)
    policy = call.text("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    if scales is not None and scales.shape != (0,):
        factors = [float(np.float32(n)) for n in call.numbers(scales, "scales").reshape(-1)]
        wanted = [_scaled(n, factor) for n, factor in zip((x.shape[d] for d in axes), factors, strict=True)]
        ratios: list[float | None] = list(factors)
    elif sizes is not None:
        if (
            sampling.mode == "cubic"
            or sampling.antialias
            or policy != "stretch"
            or sampling.transformation not in _DYNAMIC_MODES
        ):
            call.numbers(sizes, "sizes")
        wanted, ratios = _target_sizes(call, x, axes, call.sizes(sizes, "sizes"), policy)
    else:
        raise call.fail("it has neither scales nor sizes")
    crops = (
        _crop_region(call, roi, len(axes))
        if sampling.transformation == "tf_crop_and_resize"
        else [(0.0, 1.0)] * len(axes)
    )
    return _resize_axes(call, x, axes, wanted, ratios, sampling, crops, beyond)


def _upsample(call: NodeCall, x: Tensor, scales: Tensor | None = None) -> Tensor:
    """Resize all axes of x by constant factors."""
    mode = call.text("mode", "nearest", ("nearest", "linear", "bilinear"))
    factors = call.reals("scales") if scales is None else [float(n) for n in call.numbers(scales, "scales").reshape(-1)]
    sampling = Sampling("linear" if mode == "bilinear" else mode, "asymmetric", "floor", -0.75, False, False)
    wanted = [_scaled(n, factor) for n, factor in zip(x.shape, factors, strict=True)]
    return _resize_axes(call, x, range(x.rank), wanted, list(factors), sampling, [(0.0, 1.0)] * x.rank, 0.0)


def _scaled(size: Size, factor: float) -> Size:
    """Return floor(size * factor). The factor of a dynamic size is approximated by a fraction with a denominator of at
    most 1000.
    """
    if not (math.isfinite(factor) and 0 < factor < 1 << 20):
        raise ValueError(f"a scale is {factor}")
    if not isinstance(size, Expr):
        return int(np.float64(factor) * size)
    fraction = Fraction(factor).limit_denominator(1000)
    return size * fraction.numerator // fraction.denominator


def _target_sizes(
    call: NodeCall, x: Tensor, axes: Sequence[int], sizes: list[Size], policy: str
) -> tuple[list[Size], list[float | None]]:
    """Return the target size and the scale of each axis; a scale is None if a size is dynamic.

    The policies "not_larger" and "not_smaller" replace both by those of a common scale, which keeps the aspect ratio.
    """
    old = [x.shape[d] for d in axes]
    if len(sizes) != len(axes):
        raise call.fail(f"{len(sizes)} sizes are given for {len(axes)} axes")
    ratios = [None if isinstance(n, Expr) or isinstance(m, Expr) or not m else n / m
              for n, m in zip(sizes, old, strict=True)]  # fmt: skip
    if policy == "stretch":
        return sizes, list(ratios)
    known = [n for n in ratios if n is not None]
    if len(known) != len(ratios):
        raise call.fail("to keep the aspect ratio, its sizes must be known")
    ratio = min(known) if policy == "not_larger" else max(known)
    return [int(ratio * int(n) + 0.5) for n in old], [ratio] * len(old)  # type: ignore[arg-type]


def _crop_region(call: NodeCall, roi: Tensor | None, count: int) -> list[tuple[float, float]]:
    """Return the start and end of the region of interest along each axis, as fractions of the axis."""
    if roi is None:
        raise call.fail("its region of interest is missing")
    numbers = [float(n) for n in call.numbers(roi, "roi").reshape(-1)]
    if len(numbers) != 2 * count:
        raise call.fail(f"its region of interest has {len(numbers)} numbers; expected {2 * count}")
    return list(zip(numbers[:count], numbers[count:], strict=True))


def _resize_axes(
    call: NodeCall,
    x: Tensor,
    axes: Sequence[int],
    wanted: Sequence[Size],
    ratios: Sequence[float | None],
    sampling: Sampling,
    parts: Sequence[tuple[float, float]],
    beyond: float,
) -> Tensor:
    """Resize the axes one after the other.

    wanted, ratios and parts have the target size, the scale and the region of interest of each axis; `beyond` is the
    value of elements outside of the region of interest, for tf_crop_and_resize only.
    """
    dtype = x.dtype
    exact = sampling.mode == "nearest"
    if not exact:
        x = elementwise.convert(call.b, x, normalization.wide(dtype) if dtype.is_float else F32)
    masks = []
    for axis, new, ratio, (start, end) in zip(axes, wanted, ratios, parts, strict=True):
        own = Sampling(**{**sampling.__dict__, "start": start, "end": end})
        old = x.shape[axis]
        if old == new and ratio in (None, 1.0) and (start, end) == (0.0, 1.0):
            continue
        if isinstance(old, Expr) or isinstance(new, Expr):
            x = _sampled_dynamic(call, x, axis, new, ratio, own)
            continue
        positions = _positions(int(old), int(new), float(ratio or 1.0), own)
        if own.transformation == "tf_crop_and_resize":
            masks.append((axis, (positions < 0) | (positions > old - 1)))
        x = _sampled(call, x, axis, positions, float(ratio or 1.0), own)
    for axis, outside in masks:
        if outside.any():
            mask = shapes.reshape(
                call.b, call.b.constant(outside), [len(outside) if d == axis else 1 for d in range(x.rank)]
            )
            x = formula(call.b, lambda o, v: o.where(beyond if v.dtype.is_float else int(beyond), v), mask, x)
    return elementwise.convert(call.b, x, dtype)


def _positions(old: int, new: int, scale: float, how: Sampling) -> Any:
    """Return the source position of each element of a resized axis, as float64.

    `old` and `new` are the sizes of the axis, `scale` is their nominal ratio.
    """
    i = np.arange(new, dtype=np.float64)
    length = scale * old
    if how.transformation == "align_corners":
        return i * 0 if length == 1 else i * (old - 1) / (length - 1)
    if how.transformation == "asymmetric":
        return i / scale
    if how.transformation == "tf_crop_and_resize":
        extent = (how.end - how.start) * (old - 1)
        return how.start * (old - 1) + (extent / 2 if length == 1 else i * extent / (length - 1))
    if how.transformation == "pytorch_half_pixel" and length == 1:
        return i * 0 - 0.5
    if how.transformation == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    offset = old / 2 * (1 - new / length) if how.transformation == "half_pixel_symmetric" else 0.0
    return offset + (i + 0.5) / scale - 0.5


def _sampled(call: NodeCall, x: Tensor, axis: int, positions: Array, scale: float, how: Sampling) -> Tensor:
    """Resample an axis of static size at constant positions by nearest neighbour, linear or cubic interpolation."""
    old = int(x.shape[axis])  # type: ignore[arg-type]
    if how.mode == "nearest":
        rounded = {"round_prefer_floor": np.ceil(positions - 0.5), "round_prefer_ceil": np.floor(positions + 0.5),
                   "floor": np.floor(positions), "ceil": np.ceil(positions)}[how.nearest]  # fmt: skip
        return gathers.take(call.b, x, call.b.constant(np.clip(rounded, 0, old - 1).astype(np.int64)), axis)
    base = np.ceil(positions) - 1  # the element before the position; the distance to it is in (0, 1]
    offsets, weights = _weights(positions - base, scale, how)
    indices = base[:, None].astype(np.int64) + offsets
    if how.exclude_outside:
        weights = np.where((indices < 0) | (indices >= old), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    indices = np.clip(indices, 0, old - 1)
    return resampled(call.b, x, axis, indices, weights)


def _weights(distance: Array, scale: float, how: Sampling) -> tuple[Array, Array]:
    """Return the offsets of the contributing elements relative to the element before each position, and their weights.

    `distance` is the distance of each position from that element. The weights are [positions, offsets].
    """
    scale = min(scale, 1.0) if how.antialias else 1.0
    radius = 1 if how.mode == "linear" else 2  # of the interpolation kernel, in elements
    begin = math.floor(-radius / scale) + 1
    offsets = np.arange(begin, 2 - begin if how.mode == "cubic" else begin + 2 - 2 * begin)
    distances = np.abs((offsets[None, :] - distance[:, None]) * scale)
    weights = np.clip(1 - distances, 0, 1) if how.mode == "linear" else _cubic(distances, how.cubic)
    if how.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return offsets, weights


def _cubic(t: Array, a: float) -> Array:
    """Return Keys' cubic convolution kernel with coefficient `a` at distance t."""
    return np.where(t <= 1, cubic_inner(t, a), np.where(t < 2, cubic_outer(t, a), 0.0))


def _sampled_dynamic(call: NodeCall, x: Tensor, axis: int, new: Size, ratio: float | None, how: Sampling) -> Tensor:
    """Resample an axis whose old or new size is dynamic. Positions are computed in f32 at run time."""
    if how.mode == "cubic" or how.antialias or how.transformation not in _DYNAMIC_MODES:
        raise call.fail(
            f"axis {axis} of {x} has a size that calls decide; {how.mode} with {how.transformation} needs known sizes"
        )
    b = call.b
    old_size, new_size = (reductions.size_as(b, n, I64) for n in (x.shape[axis], new))

    def position(i: Element, n: Element, m: Element) -> Element:
        at, old, new = i.to(F32), n.to(F32), m.to(F32)
        if how.transformation == "align_corners":
            return at * (old - 1.0) / (new - 1.0).max(1.0)
        step = old / new if ratio is None else at.const(1.0 / ratio)
        if how.transformation == "asymmetric":
            return at * step
        position = (at + 0.5) * step - 0.5
        return new.is_equal(1.0).where(-0.5, position) if how.transformation == "pytorch_half_pixel" else position

    rounding = {"round_prefer_floor": lambda v: (v - 0.5).unary("ceil"),
                "round_prefer_ceil": lambda v: (v + 0.5).unary("floor"),
                "floor": lambda v: v.unary("floor"), "ceil": lambda v: v.unary("ceil")}  # fmt: skip

    def clamped_index(value: Element, n: Element) -> Element:
        return value.to(I64).max(0).min(n - 1)

    positions = formula(b, position, shapes.iota(b, [new], 0, I64), old_size, new_size)
    if how.mode == "nearest":
        index = formula(b, lambda v, n: clamped_index(rounding[how.nearest](v), n), positions, old_size)
        return gathers.take(b, x, index, axis)
    below = formula(b, lambda v, n: clamped_index(v.unary("floor"), n), positions, old_size)
    above = formula(b, lambda v, n: clamped_index(v.unary("floor") + 1.0, n), positions, old_size)
    fraction = shapes.reshape(
        b, formula(b, lambda v: v - v.unary("floor"), positions), [new if d == axis else 1 for d in range(x.rank)]
    )
    low, high = gathers.take(b, x, below, axis), gathers.take(b, x, above, axis)
    return formula(b, lambda u, v, t: u * (1.0 - t).to(u.dtype) + v * t.to(u.dtype), low, high, fraction)


TABLE: dict[str, Conversion] = {
    "Resize": _resize,
    "Upsample": _upsample,
}
