"""Conversions of image resizing: nearest neighbour, linear and cubic interpolation, also with antialiasing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pydispatch.frontends.torch.registry import register
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import F32, I64, DType
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, normalization, reductions, resampling, shapes
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.resampling import CUBIC, LINEAR, Taps

Array = np.ndarray[Any, Any]
Floats = Sequence[float]
Sizes = Sequence[Size]
Real = Any
"""A NumPy array if sizes are static, else an element of a formula."""


def _floor(value: Real) -> Real:
    """Round down."""
    return value.unary("floor") if isinstance(value, Element) else np.floor(value)


def _not_negative(value: Real) -> Real:
    """Return the maximum of a value and 0."""
    return value.max(0.0) if isinstance(value, Element) else np.maximum(value, 0)


def _tap_index(offset: int, position: Element, n: Element) -> Element:
    """Return the index of the tap `offset` of a position, clamped to the axis of n elements."""
    return (position.unary("floor").to(I64) + offset).max(0).min(n - 1)


def _tap_weight(weight: Callable[[Element], Element], position: Element) -> Element:
    """Return the weight of a tap for the fractional part of a position."""
    return weight(position - position.unary("floor"))


def _half_pixel_position(o: Real, step: Real, corners: bool) -> Real:
    """Return the source position of element o of the result; step: distance of neighbours' source positions.

    With `corners` (aligned corners), the centers of the corner elements coincide; else the borders of the images do.
    """
    return o * step if corners else (o + 0.5) * step - 0.5


@dataclass(frozen=True)
class Interpolation:
    """Resizing method that interpolates between adjacent source elements.

    Attributes:
        position: position(o, step, corners) returns the source position, a fraction, of element o of the result. step:
            distance of the source positions of neighbours. corners: whether the corner elements are aligned.
        taps: Pairs (offset, weight), one for each source element that contributes to a new element at the position p:
            the source element is floor(p) + offset, and its weight is weight(p - floor(p)).
    """

    position: Callable[[Real, Real, bool], Real]
    taps: Taps

    @property
    def is_nearest(self) -> bool:
        """Return whether each element is a copy of one source element."""
        return len(self.taps) == 1

    def known_taps(self, n: int, out: int, scale: float | None, corners: bool, dtype: DType) -> tuple[Array, Array]:
        """Return the indices [out, taps] of the source elements of each new element, and their weights, for static
        sizes.

        n, out: old and new size. scale: factor that the call states; None for out / n. corners: whether the centers of
        the corner elements of the old and the new image coincide. dtype: type of positions and weights.
        """
        real = dtype.numpy.type
        positions = self.position(np.arange(out, dtype=real), real(_step(n, out, scale, corners)), corners)
        low = np.floor(positions)  # the source element before each position, to which `taps` count their offsets
        indices = [np.clip(low + offset, 0, n - 1).astype(np.int64) for offset, _ in self.taps]
        return np.stack(indices, 1), np.stack([weight(positions - low) for _, weight in self.taps], 1)

    def dynamic_taps(
        self, builder: Builder, n: Size, out: Size, scale: float | None, corners: bool, dtype: DType
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the old elements that each new element is computed from, if a size is dynamic: for each tap of the
        method, their indices [out] and weights [out].

        A tap is the old element at a fixed offset from the position of a new element, with its weight: linear
        interpolation has two, the elements before and after the position. For example, n = 4 and out = 2 without
        `corners` give the positions 0.5 and 2.5, the indices [0, 2] and [1, 3], and the weights [0.5, 0.5] twice.

        Args:
            builder: The builder.
            n: Old size of the axis.
            out: New size of the axis.
            scale: Factor that the call states; None for out / n. It has no effect with `corners`.
            corners: Whether the centers of the corner elements of the old and the new image coincide.
            dtype: Type of positions and weights.
        """
        size, count = (reductions.size_as(builder, v, I64) for v in (n, out))

        def distance(n: Element, m: Element) -> Element:
            """Return the distance, in source elements, between the source positions of adjacent new elements, for n old
            and m new elements: (n - 1) / (m - 1) with `corners`, else n / m.
            """
            if corners:
                # m elements have m - 1 distances. A single element is at the old position 0.
                step = (n - 1).to(dtype) / (m - 1).max(1).to(dtype)
                return (m > 1).where(step, 0.0)
            return n.to(dtype) / m.to(dtype)

        step = formula(builder, distance, size, count) if corners or not scale else builder.constant(1.0 / scale, dtype)
        output_index = shapes.iota(builder, [out], axis=0, dtype=I64)
        positions = formula(builder, lambda o, s: self.position(o.to(dtype), s, corners), output_index, step)
        indices, weights = [], []
        for offset, weight in self.taps:
            indices.append(formula(builder, partial(_tap_index, offset), positions, size))
            weights.append(formula(builder, partial(_tap_weight, weight), positions))
        return indices, weights


def _step(n: int, out: int, scale: float | None, corners: bool) -> float:
    """Return the distance, in source elements, between the source positions of adjacent elements of the result.

    n, out: old and new size. scale: factor that the call states instead of out / n, or None. corners: whether the
    centers of the first elements coincide, and those of the last: then `scale` has no effect.
    """
    if corners:
        return (n - 1) / (out - 1) if out > 1 else 0.0
    return 1.0 / scale if scale else n / out


_SINGLE_TAP: Taps = ((0, lambda part: part * 0 + 1),)
"""Pairs (offset, weight) for a copy of one source element: the one at the position, rounded down, with weight 1. The
weight is computed from `part` so that it has the shape and type of `part`."""
NEAREST = Interpolation(lambda o, step, corners: o * step, _SINGLE_TAP)
"""The method "nearest": a new element is the old one at its position, rounded down."""
_NEAREST_EXACT = Interpolation(lambda o, step, corners: (o + 0.5) * step, _SINGLE_TAP)
"""The method "nearest-exact": a new element is the old one that contains the position of the new one's center."""
_LINEAR = Interpolation(lambda o, step, corners: _not_negative(_half_pixel_position(o, step, corners)), LINEAR)
"""The method "linear": the source position of an element's center, which is clamped to be at or after the first one."""
_CUBIC = Interpolation(_half_pixel_position, CUBIC)
"""The method "bicubic": the source position of an element's center, which may be before the first element."""


# -- antialiasing


def _triangle(value: Array) -> Array:
    """Return the kernel of linear interpolation at a distance."""
    return np.maximum(1 - np.abs(value), 0)


_ANTIALIASED_CUBIC = -0.5
"""Coefficient of Keys' cubic kernel that PyTorch uses with antialiasing; without, it uses -0.75."""


def _cubic_kernel(value: Array) -> Array:
    """Return Keys' cubic kernel at a distance."""
    value = np.abs(value)
    outer = np.where(value < 2, resampling.cubic_outer(value, _ANTIALIASED_CUBIC), 0)
    return np.where(value < 1, resampling.cubic_inner(value, _ANTIALIASED_CUBIC), outer)


@dataclass(frozen=True)
class Antialiased:
    """Resizing method that averages all source elements in the footprint of each new element.

    Attributes:
        kernel: Function that returns the weight for a distance from the position of the new element. The unit is new
            elements when shrinking, source elements otherwise.
        reach: Distance from which on the kernel is 0.
    """

    kernel: Callable[[Array], Array]
    reach: int
    is_nearest = False

    def known_taps(self, n: int, out: int, scale: float | None, corners: bool, dtype: DType) -> tuple[Array, Array]:
        """Return the indices [out, taps] of the source elements of each new element, and their weights, for static
        sizes.

        A new element is the weighted mean of the source elements whose centers are at most `reach` units of the kernel
        from its own center. For example, the kernel of linear interpolation resizes 4 elements to 2 with the indices
        [[0, 1, 2], [1, 2, 3]] and the weights [[3, 3, 1], [1, 3, 3]] / 7.

        n, out: old and new size. scale: factor that the call states instead of out / n, or None. corners: whether the
        centers of the corner elements coincide. `dtype` has no effect: weights are f64.
        """
        step = _step(n, out, scale, corners)  # distance, in source elements, of adjacent new elements
        width = max(step, 1.0)  # the kernel's unit, in source elements
        # Center of each new element. In these coordinates, source element i is from i to i + 1, with its center at
        # i + 0.5: hence the 0.5 in the following formulas.
        middle = (np.arange(out) + 0.5) * step
        first = np.maximum((middle - self.reach * width + 0.5).astype(np.int64), 0)
        limit = np.minimum((middle + self.reach * width + 0.5).astype(np.int64), n)  # exclusive
        # Taps are padded to the longest list of a new element: indices from `limit` on have the weight 0.
        indices = first[:, None] + np.arange(max(1, (limit - first).max(initial=1)))
        weights = self.kernel((indices - middle[:, None] + 0.5) / width) * (indices < limit[:, None])
        return np.minimum(indices, n - 1), weights / weights.sum(1, keepdims=True)

    def dynamic_taps(
        self, builder: Builder, n: Size, out: Size, scale: float | None, corners: bool, dtype: DType
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Raise CompileError: antialiasing needs static sizes."""
        raise builder.fail(
            f"an axis of {n} elements is resized to {out} elements with antialiasing: both sizes must be known",
            "export the model with a static size of the image, or resize with antialias=False",
        )


Method = Interpolation | Antialiased
"""Method by which an element of the result is computed from elements of the image."""


# -- operators

SCALE_IGNORING_COUNTS = (1, 2)
"""Numbers by which nearest-neighbour resizing multiplies the size of an axis, by repeating each element, for which some
of PyTorch's kernels ignore the caller's scale: the forward kernel of 2-D images, and all gradient kernels."""


def repetitions(n: Size, out: Size, scale: float | None, how: Method, ignoring_scale: Collection[int]) -> int | None:
    """Return how often each of n elements is repeated when nearest-neighbour resizing makes them `out` elements.

    Return None for other methods, and if the elements are not all repeated equally often.

    The caller may pass a scale other than out / n, such as 3.2 for 3 elements that become 9. The source positions then
    differ from those of a repetition, except for the counts `ignoring_scale`, for which PyTorch ignores the scale.
    """
    if how is not NEAREST:
        return None
    count = out // n
    if not isinstance(count, int) or count * n != out:
        return None
    return count if scale in (None, count) or count in ignoring_scale else None


def _resize_axis(
    builder: Builder, x: Tensor, axis: int, out: Size, scale: float | None, corners: bool, how: Method,
    ignoring_scale: Collection[int],
) -> Tensor:  # fmt: skip
    """Resize one axis to `out` elements.

    Elements are repeated if that is all the method does: [a, b] becomes [a, a, b, b]. Otherwise each new element is the
    sum of its taps: old elements near its position, each times a weight, such as the two neighbours in a linear
    interpolation. Nearest-neighbour methods have a single tap of weight 1, so that they only read elements.

    Args:
        builder: The builder.
        x: The image.
        axis: The axis.
        out: The new size.
        scale: Factor that the caller states; None for the ratio of the sizes.
        corners: Whether the centers of the corner elements of the old and the new image coincide.
        how: The method.
        ignoring_scale: Ratios out / size for which PyTorch ignores `scale` in nearest-neighbour resizing, and repeats
            each element that often.
    """
    # Repeat each element `repeats` times along a new axis, and merge this axis with `axis`.
    n = x.shape[axis]
    if (repeats := repetitions(n, out, scale, how, ignoring_scale)) is not None:
        wide = shapes.broadcast_to(builder, shapes.expand_dims(builder, x, [axis + 1]),
                                   [*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]])  # fmt: skip
        return shapes.reshape(builder, wide, [*x.shape[:axis], out, *x.shape[axis + 1 :]])
    # Otherwise read or sum the taps: constants of the program if both sizes are static, else computed in each call.
    dtype = F32 if how.is_nearest else x.dtype  # of source positions: f32 for nearest elements, as in PyTorch
    if isinstance(n, int) and isinstance(out, int):
        positions, factors = how.known_taps(n, out, scale, corners, dtype)
        if not how.is_nearest:
            return resampling.resampled(builder, x, axis, positions, factors)
        return gathers.take(builder, x, builder.constant(positions[:, 0]), axis)
    indices, weights = how.dynamic_taps(builder, n, out, scale, corners, dtype)
    if how.is_nearest:
        return gathers.take(builder, x, indices[0], axis)
    return resampling.weighted_slices(builder, x, axis, indices, weights)


def _resize_axes(
    builder: Builder, x: Tensor, output_size: Sizes | None, scales: Sequence[float | None], align_corners: bool,
    how: Method,
) -> Tensor:  # fmt: skip
    """Resize the last len(scales) axes, one after the other, to the sizes `output_size`.

    scales: factor of each of these axes; None for the ratio of its sizes. If `output_size` is None, a new size is the
    old size times the factor.

    Raise CompileError for an interpolation of integers.
    """
    if not x.dtype.is_float and not how.is_nearest:
        raise builder.fail(f"{x} is interpolated; expected floats", "convert the image to float32 first")
    first = x.rank - len(scales)
    resized = ew.convert(builder, x, normalization.wide(x.dtype))
    is_image = len(scales) == 2
    # Numbers of repetitions of each element for which PyTorch ignores the scales of an image.
    ignoring_scale = SCALE_IGNORING_COUNTS if is_image else ()
    for axis, scale in enumerate(scales, first):
        out = output_size[axis - first] if output_size is not None else builder.scaled(x.shape[axis], scale or 1.0)
        resized = _resize_axis(builder, resized, axis, out, scale, align_corners, how, ignoring_scale)
    return ew.convert(builder, resized, x.dtype)


def _scales(builder: Builder, stated: Sequence[float | None] | None, spatial: int) -> list[float | None]:
    """Return the stated scales, or None for each spatial axis if there are none. Raise CompileError unless there is one
    for each axis.
    """
    scales: list[float | None] = list(stated) if stated else [None] * spatial
    if len(scales) != spatial:
        raise builder.fail(f"{len(scales)} scales are stated; the image has {spatial} axes")
    return scales


def _nearest_by_list(
    spatial_axes: int, method: Method, builder: Builder, self: Tensor, output_size: Sizes | None,
    scale_factors: Floats | None = None,
) -> Tensor:  # fmt: skip
    """Resize the last `spatial_axes` axes by copies of the nearest elements, to sizes or by a list of factors.

    The operators are like `aten.upsample_nearest2d.vec(self, output_size, scale_factors)`, called with either
    output_size [8, 12] or scale_factors [2.0, 2.0], and None for the other.
    """
    scales = _scales(builder, scale_factors, spatial_axes)
    return _resize_axes(builder, self, output_size, scales, align_corners=False, how=method)


def _interpolated_by_list(
    spatial_axes: int, method: Method, builder: Builder, self: Tensor, output_size: Sizes | None, align_corners: bool,
    scale_factors: Floats | None = None,
) -> Tensor:  # fmt: skip
    """Resize the last `spatial_axes` axes by interpolation with `method`, to sizes or by a list of factors."""
    scales = _scales(builder, scale_factors, spatial_axes)
    return _resize_axes(builder, self, output_size, scales, align_corners, method)


def _nearest_by_numbers(
    spatial_axes: int, method: Method, builder: Builder, self: Tensor, output_size: Sizes, *scales: float | None
) -> Tensor:
    """Resize the last `spatial_axes` axes to `output_size` by copies of the nearest elements.

    The operators are like `aten.upsample_nearest2d(self, output_size, scales_h, scales_w)`. A call states all scales,
    or None for all; then the ratio of the sizes is the scale.
    """
    stated = _scales(builder, scales, spatial_axes)
    return _resize_axes(builder, self, output_size, stated, align_corners=False, how=method)


def _interpolated_by_numbers(
    spatial_axes: int, method: Method, builder: Builder, self: Tensor, output_size: Sizes, align_corners: bool,
    *scales: float | None,
) -> Tensor:  # fmt: skip
    """Resize the last `spatial_axes` axes to `output_size` by interpolation with `method`; `scales` are factors."""
    return _resize_axes(builder, self, output_size, _scales(builder, scales, spatial_axes), align_corners, how=method)


UPSAMPLE: dict[str, tuple[int, Method]] = {
    **{f"upsample_nearest{n}d": (n, NEAREST) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": (n, _NEAREST_EXACT) for n in (1, 2, 3)},
    "upsample_linear1d": (1, _LINEAR),
    "upsample_bilinear2d": (2, _LINEAR),
    "upsample_trilinear3d": (3, _LINEAR),
    "upsample_bicubic2d": (2, _CUBIC),
    "_upsample_bilinear2d_aa": (2, Antialiased(_triangle, 1)),
    "_upsample_bicubic2d_aa": (2, Antialiased(_cubic_kernel, 2)),
}
"""Resizing operator -> (number of axes that it resizes, method); `_aa` is with antialiasing."""

register({  # the overload `vec` takes the scales as a list, the other one has a parameter for each
    **{
        f"aten.{name}.vec": partial(_nearest_by_list if method.is_nearest else _interpolated_by_list, axes, method)
        for name, (axes, method) in UPSAMPLE.items()
    },
    **{
        f"aten.{name}": partial(_nearest_by_numbers if method.is_nearest else _interpolated_by_numbers, axes, method)
        for name, (axes, method) in UPSAMPLE.items()
    },
})  # fmt: skip
