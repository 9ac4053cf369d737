"""Resizing of one axis of images with the transformations of coordinates and the filters of ONNX.

Sizes, scale and region of interest may be numbers or computed in each call. For numbers, positions and weights are
constants in f64, and positions of nearest elements in f32; otherwise they are computed at run time in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, gathers, reductions, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.resampling import Array, cubic_inner, cubic_outer, resampled, weighted_slices

Number = float | Tensor
"""A number, or a tensor of one element that is computed at run time."""


@dataclass(frozen=True)
class Filter:
    """Options of resampling that all axes share; the names are those of the attributes of ONNX's Resize.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        transformation: How positions are mapped: coordinate_transformation_mode, such as "half_pixel".
        nearest: How positions are rounded for "nearest": nearest_mode.
        cubic: Coefficient of the cubic kernel: cubic_coeff_a.
        antialias: Whether the kernel is stretched where an axis shrinks.
        exclude_outside: Whether elements outside of the axis have weight 0; otherwise they equal the border.
    """

    mode: str
    transformation: str
    nearest: str = "floor"
    cubic: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    @property
    def radius(self) -> int:
        """Return the radius of the kernel of "linear" or "cubic" in elements; "nearest" does not use it."""
        return 1 if self.mode == "linear" else 2


@dataclass(frozen=True)
class ResizedAxis:
    """New size of an axis, and the mapping from its elements to those of the old axis.

    Attributes:
        axis: The axis, not negative.
        size: The new size.
        scale: Ratio of the new to the old size that the model states; None for size / old size.
        start: Start of the region of interest as a fraction of the axis (tf_crop_and_resize).
        end: End of the region of interest.
    """

    axis: int
    size: Size
    scale: Number | None = None
    start: Number = 0.0
    end: Number = 1.0

    def is_constant(self, old: Size) -> bool:
        """Return whether the mapping from an axis of the size `old` is known at compile time."""
        return not any(isinstance(n, Expr | Tensor) for n in (old, self.size, self.scale, self.start, self.end))


def resize_axis(builder: Builder, x: Tensor, to: ResizedAxis, how: Filter) -> tuple[Tensor, Tensor | None]:
    """Resize an axis of x by nearest neighbour, linear or cubic interpolation.

    Example: linear with "half_pixel", [a b] of the new size 4 becomes [a, 0.75 a + 0.25 b, 0.25 a + 0.75 b, b].

    Args:
        builder: The builder.
        x: The operand.
        to: The axis, its new size, and the mapping of its elements.
        how: Interpolation and transformation of coordinates.

    Returns:
        The resized tensor. For tf_crop_and_resize also which of the new elements are outside of the old axis, as a
        vector of bools; None for the other transformations, and for an axis that does not change.
    """
    old = x.shape[to.axis]
    if not to.is_constant(old):
        return _resized_at_run_time(builder, x, to, how)
    if old == to.size == 0:  # there are no elements, and no ratio of the sizes
        return x, None
    message = f"axis {to.axis} of {x} has the size 0: it has no element to read for the size {to.size}"
    builder.require_positive(old, message, unless_zero=to.size)
    scale = to.scale if to.scale is not None else int(to.size) / int(old)  # type: ignore[arg-type]
    if (old, scale, to.start, to.end) == (to.size, 1.0, 0.0, 1.0):  # nothing changes
        return x, None
    # Positions that are rounded to elements are computed in f32, as at run time: rounding tells 3.0 from 2.9999998.
    real: Any = np.float32 if how.mode == "nearest" else np.float64
    distance: tuple[Any, Any] = (old, to.size) if to.scale is None else (1.0, scale)
    # The elements of the parameter `axis` of `_position`, in its order.
    region = [real(n) for n in (old, to.size, scale, scale * old, *distance, to.start, to.end)]  # type: ignore[arg-type, operator]
    with np.errstate(all="ignore"):
        indices = np.arange(int(to.size), dtype=real)  # type: ignore[arg-type]
        positions = _position(indices, region, how, if_one=lambda n, one, other: one if n == 1 else other)
    outside = None
    if how.transformation == "tf_crop_and_resize":
        outside = builder.constant((positions < 0) | (positions > int(old) - 1))  # type: ignore[arg-type]
    return _resized(builder, x, to.axis, positions, float(scale), how), outside  # type: ignore[arg-type]


IfOne = Callable[[Any, Any, Any], Any]
"""Function if_one(n, one, other) -> `one` if n is 1, else `other`."""


def _position(i: Any, axis: Sequence[Any], how: Filter, if_one: IfOne) -> Any:
    """Return the position on the old axis of element i of the new axis, by a transformation that ONNX defines.

    Example: for an axis of 2 elements resized to 4 (the scale 2) with "half_pixel", element 1 is at
    (1 + 0.5) / 2 - 0.5 = 0.25: a quarter of the way from old element 0 to 1.

    For "pytorch_half_pixel" the position of a single element is 0, as in the text of ONNX and in onnxruntime. ONNX's
    reference evaluator has -0.5 there.

    Args:
        i: The index as a NumPy array or as an element of a formula. `i * 0.0` is a zero of its type and shape.
        axis: The old size, the new size, the scale, the new size before it was rounded, the distance of neighbours on
            the old axis as numerator and denominator, and the start and end of the region of interest, all as NumPy
            floats or elements of a formula. Without a scale that the model states, the distance is the old by the new
            size: a product with it is rounded once, and exact where it is an element.
        how: The transformation.
        if_one: if_one(n, a, b) is a where n is 1, else b. It avoids a division by 0 for an axis of one element.
    """
    old, new, scale, length, numerator, denominator, start, end = axis
    # Both results of if_one are computed in a formula, so the divisor length - 1 is replaced where it is 0.
    if how.transformation == "align_corners":
        return if_one(length, i * 0.0, i * (old - 1.0) / if_one(length, length, length - 1.0))
    if how.transformation == "asymmetric":
        return i * numerator / denominator
    if how.transformation == "tf_crop_and_resize":
        first, extent = start * (old - 1.0), (end - start) * (old - 1.0)
        return first + if_one(length, i * 0.0 + extent / 2.0, i * extent / if_one(length, length, length - 1.0))
    # onnxruntime never moves the elements of an axis of the scale 1. The other transformations do not move them either.
    if how.transformation == "tf_half_pixel_for_nn":
        return if_one(scale, i, (i + 0.5) * numerator / denominator)
    centre = (i + 0.5) * numerator / denominator - 0.5
    if how.transformation == "pytorch_half_pixel":
        return if_one(new, i * 0.0, centre)
    # Rounding shortens an axis of `length` elements to `new`: keep the center of the new axis at that of the old one.
    if how.transformation == "half_pixel_symmetric":
        return centre + old / 2.0 * (1.0 - new / length)
    return centre


# -- constant positions


def _resized(builder: Builder, x: Tensor, axis: int, positions: Array, scale: float, how: Filter) -> Tensor:
    """Resample an axis of static size at constant positions, which are in elements of the old axis.

    scale: the factor of the resizing, which widens the filter of an antialiased reduction. how: the interpolation.
    """
    old = int(x.shape[axis])  # type: ignore[arg-type]
    if how.mode == "nearest":
        rounded = {"round_prefer_floor": np.ceil(positions - 0.5), "round_prefer_ceil": np.floor(positions + 0.5),
                   "floor": np.floor(positions), "ceil": np.ceil(positions)}[how.nearest]  # fmt: skip
        return gathers.take(builder, x, builder.constant(np.clip(rounded, 0, old - 1).astype(np.int64)), axis)
    base = np.ceil(positions) - 1  # the element before the position; the distance to it is in (0, 1]
    offsets, weights = _weights(positions - base, scale, how)
    indices = base[:, None].astype(np.int64) + offsets
    if how.exclude_outside:  # the weights of elements inside are divided by their sum, so that it is 1
        weights = np.where((indices < 0) | (indices >= old), 0.0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return resampled(builder, x, axis, np.clip(indices, 0, old - 1), weights)


def _weights(distance: Array, scale: float, how: Filter) -> tuple[Array, Array]:
    """Return the offsets of the contributing elements relative to the element before each position, and their weights.

    `distance` is the distance of each position from that element. The weights are [positions, offsets].
    """
    scale = min(scale, 1.0) if how.antialias else 1.0
    # Elements within radius / scale on both sides of the position contribute: a smaller scale widens the kernel. With
    # the radius 1, the offsets are 0 and 1 at the scale 1, and -1 to 2 at the scale 0.5.
    first_offset = math.floor(-how.radius / scale) + 1
    last_offset = 1 - first_offset
    offsets = np.arange(first_offset, last_offset + 1)
    distances = np.abs((offsets[None, :] - distance[:, None]) * scale)
    weights = np.clip(1 - distances, 0, 1) if how.mode == "linear" else _cubic(distances, how.cubic)
    if how.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return offsets, weights


def _cubic(t: Array, a: float) -> Array:
    """Return Keys' cubic convolution kernel with coefficient `a` at distance t."""
    return np.where(t <= 1, cubic_inner(t, a), np.where(t < 2, cubic_outer(t, a), 0.0))


# -- positions that are computed at run time


def _resized_at_run_time(builder: Builder, x: Tensor, to: ResizedAxis, how: Filter) -> tuple[Tensor, Tensor | None]:
    """Resample an axis at positions that are computed in each call, since a size, the scale or the region is dynamic.

    to: the axis, its new size, the scale and the region of interest. how: interpolation and transformation of
    coordinates. Return the resampled tensor, and for "tf_crop_and_resize" a vector of bools, which positions are
    outside of the old axis; None for other transformations.
    """
    b, axis = builder, to.axis
    positions, old, scale = _run_time_positions(builder, x.shape[axis], to, how)
    outside = None
    if how.transformation == "tf_crop_and_resize":
        outside = formula(b, lambda p, n: (p < 0.0) | (p > n - 1.0), positions, old)
    if how.mode == "nearest":
        index = formula(b, lambda p, n: _index(_rounded(p, how.nearest), n), positions, old)
        return gathers.take(b, x, index, axis), outside
    if how.antialias:
        return _filtered(b, x, axis, positions, old, scale, how), outside
    # Weighted sums of `radius` elements on each side of a position.
    offsets = range(1 - how.radius, 1 + how.radius)
    indices = [formula(b, lambda p, n, k=k: _index(_element_before(p) + float(k), n), positions, old) for k in offsets]
    weights = [
        formula(b, lambda p, n, k=k: _weight(p, _element_before(p) + float(k), n, how), positions, old) for k in offsets
    ]
    if how.exclude_outside:  # elements outside have the weight 0: divide by the sum, so that it is 1
        weights = [formula(b, lambda w, *ws: w / sum(ws[1:], ws[0]), w, *weights) for w in weights]
    return weighted_slices(b, x, axis, indices, [elementwise.convert(b, w, x.dtype) for w in weights]), outside


def _run_time_positions(builder: Builder, size: Size, to: ResizedAxis, how: Filter) -> tuple[Tensor, Tensor, Tensor]:
    """Return the position on the old axis, of `size` elements, of each element of the new one.

    The other results are the old size and the scale, new size / old size, as f32 of rank 0. to: the axis, its new size,
    the scale and the region of interest. how: transformation of coordinates.
    """
    b = builder
    old, new = (reductions.size_as(b, n, F32) for n in (size, to.size))
    scale = _scalar(b, to.scale) if to.scale is not None else formula(b, lambda n, m: n / m, new, old)
    length = new if to.scale is None else formula(b, lambda s, m: s * m, scale, old)  # the new size before rounding

    def position(i: Element, *operands: Element) -> Element:
        """Return the position on the old axis of element i of the new one; `operands` are the numbers in `region`."""
        element: Element = _position(i, operands, how, if_one=lambda n, one, other: n.is_equal(1.0).where(one, other))
        return element

    distance = [old, new] if to.scale is None else [_scalar(b, 1.0), scale]
    # The elements of the parameter `axis` of `_position`, in its order.
    region = [old, new, scale, length, *distance, _scalar(b, to.start), _scalar(b, to.end)]
    return formula(b, position, shapes.iota(b, [to.size], axis=0, dtype=F32), *region), old, scale


def _scalar(builder: Builder, value: Number) -> Tensor:
    """Return a number as an f32 tensor of rank 0."""
    return value if isinstance(value, Tensor) else builder.constant(np.float32(value))


def _rounded(position: Element, nearest: str) -> Element:
    """Round a position to an element by ONNX's mode `nearest`; "round_prefer_floor" rounds ties down, "..._ceil" up."""
    if nearest == "round_prefer_ceil":
        return (position + 0.5).unary("floor")
    if nearest == "round_prefer_floor":
        return (position - 0.5).unary("ceil")
    return position.unary(nearest)  # "floor" or "ceil"


def _index(position: Element, size: Element) -> Element:
    """Return the index of the element at a whole position, clamped to an axis of `size` elements."""
    return position.max(0.0).min(size - 1.0).to(I64)


def _element_before(position: Element) -> Element:
    """Return the index, as a float, of the element before a position, at a distance in (0, 1]."""
    return position.unary("ceil") - 1.0


def _weight(position: Element, index: Element, size: Element, how: Filter, scale: Element | None = None) -> Element:
    """Return the weight of element `index` of an axis of `size` elements in the value at a position.

    `scale` is at most 1: the interpolation kernel is wider by its reciprocal; None is 1. how: the kernel.
    """
    t = (index - position).unary("abs")
    t = t if scale is None else t * scale
    if how.mode == "linear":
        weight = (1.0 - t).max(0.0)
    else:
        weight = (t <= 1.0).where(cubic_inner(t, how.cubic), (t < 2.0).where(cubic_outer(t, how.cubic), 0.0))
    return ((index >= 0.0) & (index < size)).where(weight, 0.0) if how.exclude_outside else weight


def _filtered(
    builder: Builder, x: Tensor, axis: int, positions: Tensor, size: Tensor, scale: Tensor, how: Filter
) -> Tensor:
    """Resample an axis with a kernel that is stretched where the axis shrinks, so that its width is computed too.

    Each new element is a weighted mean of 2 * half old ones, half on each side of its position. Example: the linear
    kernel has the radius 1; at the scale 0.4 it is 1 / 0.4 = 2.5 elements wide on each side, and `half` is 3.

    Args:
        builder: The builder.
        x: The operand.
        axis: The axis.
        positions: Position of each new element on the old axis.
        size: Old size as an f32 tensor of rank 0.
        scale: Ratio of the new to the old size, an f32 tensor of rank 0.
        how: Options; the kernel is linear or cubic.
    """
    b, new = builder, positions.shape[0]
    stretch = formula(b, lambda s: s.min(1.0), scale)  # 1 where the axis grows: the kernel is not narrowed
    # Elements on each side of a position that the kernel covers; the host reads the number back.
    half = b.size_of(b.scalar(formula(b, lambda s: (float(how.radius) / s).unary("ceil").to(I64), stretch)), "taps")
    rows = shapes.reshape(b, positions, [new, 1])
    offsets = shapes.iota(b, [1, 2 * half], axis=1, dtype=F32)
    # The kernel covers `half` elements on each side of a position: the first one is half - 1 before `_element_before`.
    distance_to_first = reductions.size_as(b, half - 1, F32)
    elements = formula(b, lambda p, k, n: _element_before(p) + k - n, rows, offsets, distance_to_first)
    weights = formula(b, lambda p, index, n, s: _weight(p, index, n, how, scale=s), rows, elements, size, stretch)
    total = reductions.reduce(b, "add", weights, axes=[1], keep=True)
    weights = formula(b, lambda w, t: (w / t).to(x.dtype), weights, total)
    # `axis` becomes the two axes [new, 2 * half], of which the second one is summed.
    taken = gathers.take(b, x, formula(b, _index, elements, size), axis)
    weights = shapes.reshape(b, weights, [new, 2 * half, *[1] * (x.rank - axis - 1)])
    return reductions.reduce(b, "add", elementwise.binary(b, "mul", taken, weights), [axis + 1])
