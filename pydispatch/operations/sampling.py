"""Sampling of images at computed positions, by weighted sums of neighbouring elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.indexing import CoordinateBuilder, elements_at
from pydispatch.operations.resampling import CUBIC, CUBIC_SLOPES, LINEAR, LINEAR_SLOPES, Taps, sum_of_products

Weight = Callable[[Element], Element]
"""Function that returns the weight of a tap for the distance of a position, in [0, 1), from the element before it."""


@dataclass(frozen=True)
class Tap:
    """Neighbouring element of a position along one axis.

    Attributes:
        index: Index of the element, in bounds.
        weight: Its weight.
        slope: Derivative of the weight by the coordinate of the position in the grid; None if no gradient is needed.
    """

    index: Tensor
    weight: Tensor
    slope: Tensor | None = None


def sampled(
    builder: Builder, x: Tensor, shape: Shape, taps: Sequence[Sequence[Tap]], batch: Tensor | None = None
) -> Tensor:
    """Return weighted sums of elements of the images x [n, c, ...]: the values interpolated at positions between them.

    A position has a few neighbouring elements along each spatial axis, its taps. The sum is over all combinations of
    one tap per axis, and the weight of a combination is the product of its taps' weights. Example: the position
    (1.25, 3.5) has the taps (index, weight) (1, 0.75) and (2, 0.25) along the rows, (3, 0.5) and (4, 0.5) along the
    columns. Its value is 0.375 * x[1, 3] + 0.375 * x[1, 4] + 0.125 * x[2, 3] + 0.125 * x[2, 4].

    Args:
        builder: The builder.
        x: The images.
        shape: Shape of the result, [samples, c, ...]. Indices and weights of the taps, and `batch`, broadcast to it.
        taps: Taps of each spatial axis.
        batch: Index of the image that each entry of the first axis is sampled from; None if entry n is of image n.
    """
    terms: list[Tensor] = []  # elements, their weights, elements, their weights, ...
    for combination in itertools.product(*taps):

        def coordinates(coords: CoordinateBuilder) -> list[SSAValue]:
            """Return the index in x that a combination of one tap per spatial axis reads: image, channel, spatial
            indices.

            `coords.elements` are the indices of the taps, followed by the image if `batch` states it.
            """
            tap_indices = [coords.index_of(t) for t in coords.elements]
            image = tap_indices.pop() if batch is not None else coords.loop_index(0)
            channel = coords.loop_index(1)
            return [image, channel, *tap_indices]

        indices = [tap.index for tap in combination] + ([batch] if batch is not None else [])
        terms += [elements_at(builder, x, shape, coordinates, *indices), product_of_weights(builder, combination)]
    return formula(builder, sum_of_products, *terms)


def product_of_weights(builder: Builder, taps: Sequence[Tap]) -> Tensor:
    """Return the weight of a combination of taps, one for each spatial axis."""
    weight = taps[0].weight
    for tap in taps[1:]:
        weight = elementwise.binary(builder, "mul", weight, tap.weight)
    return weight


def zero_padded_taps(builder: Builder, positions: Tensor, length: Tensor) -> list[Tap]:
    """Return the two taps of linear interpolation at each position; the weight of a tap outside of the axis is 0.

    On an axis of 4 elements the position 2.25 has the taps (index, weight) (2, 0.75) and (3, 0.25). The position -0.5
    has (0, 0) in place of an element -1, and (0, 0.5).

    positions: in elements of the axis, of any shape. length: size of the axis in the element type of `positions`.
    """
    taps = []
    # The items of LINEAR are the offset from the element before the position, and the function of the weight. Default
    # arguments bind those of this iteration.
    for offset, weight in LINEAR:

        def index(value: Element, size: Element, offset: int = offset) -> Element:
            """Return the index of the tap `offset` elements after the one before the position, clamped to the axis."""
            return (value.unary("floor") + offset).max(0.0).min(size - 1.0).to(I64)

        def tap_weight(value: Element, size: Element, offset: int = offset, weight: Weight = weight) -> Element:
            """Return the weight of the tap `offset` elements after the one before the position; 0 outside."""
            low = value.unary("floor")
            return _where_inside(low + offset, size, weight(value - low))

        taps.append(Tap(formula(builder, index, positions, length), formula(builder, tap_weight, positions, length)))
    return taps


def _where_inside(i: Element, size: Element, weight: Element) -> Element:
    """Return a weight if the index i is within an axis of `size` elements, else 0."""
    return ((i >= 0.0) & (i < size)).where(weight, 0.0)


# -- grids


@dataclass(frozen=True)
class GridSampler:
    """Options for sampling images at normalized positions, from -1 to 1.

    Attributes:
        mode: Interpolation: nearest, linear or cubic.
        beyond: Values outside of the image: zeros, border, or reflection.
        aligns_corners: Whether -1 is the center of the first element; otherwise it is its outer edge.
        rounds_first: Whether "nearest" rounds positions before they are clamped or reflected, as in ONNX; PyTorch
            rounds last.
    """

    mode: str
    beyond: str
    aligns_corners: bool
    rounds_first: bool = False

    def position(self, value: Element, n: Element) -> Element:
        """Return the position, in elements, of a normalized coordinate along an axis of n elements; n is an integer.

        For "nearest" it is rounded: with `rounds_first` (as in ONNX) before `inside` clamps or reflects it, otherwise
        (as in PyTorch) afterwards. A position for "cubic" is not clamped or reflected; the indices of its neighbouring
        elements are.
        """
        value = self._scaled(value, n)
        if self.mode == "nearest" and self.rounds_first:
            return self.inside(value.unary("round_even"), n)
        value = self.inside(value, n) if self._moves_positions_inside else value
        return value.unary("round_even") if self.mode == "nearest" else value

    def position_derivative(self, value: Element, n: Element) -> Element:
        """Return the derivative of `position` by the coordinate; 0 where the position is clamped.

        A position that is reflected an odd number of times moves in the opposite direction: its derivative is negative.
        """
        last = n.to(value.dtype) - 1.0
        # The coordinates from -1 to 1 are n - 1 elements with aligned corners, else n.
        derivative = last * 0.5 if self.aligns_corners else (last + 1.0) * 0.5
        if self.beyond == "zeros" or not self._moves_positions_inside:
            return derivative
        # Positions that are clamped to the first or the last element do not move.
        value = self._scaled(value, n)
        if self.beyond == "reflection":
            derivative = _direction_after_reflection(value, *self._mirrors(last)) * derivative
            value = self.inside(value, n)
        return ((value > 0.0) & (value < last)).where(derivative, 0.0)

    def inside(self, value: Element, n: Element) -> Element:
        """Clamp or reflect a position into an axis of n elements, as `beyond` states."""
        last = n.to(value.dtype) - 1.0
        if self.beyond == "border":
            return value.max(0.0).min(last)
        return _reflected(value, *self._mirrors(last)) if self.beyond == "reflection" else value

    @property
    def _moves_positions_inside(self) -> bool:
        """Return whether positions are clamped or reflected. For cubic interpolation PyTorch clamps or reflects the
        index of each neighbouring element instead.
        """
        return self.mode != "cubic"

    def _scaled(self, value: Element, n: Element) -> Element:
        """Return the position, in elements, of a normalized coordinate, without clamping or rounding.

        The coordinates -1 and 1 are the positions 0 and n - 1 with aligned corners, else -0.5 and n - 0.5.
        """
        size = n.to(value.dtype)
        if self.aligns_corners:
            return (value + 1.0) * 0.5 * (size - 1.0)
        return ((value + 1.0) * size - 1.0) * 0.5

    def _mirrors(self, last: Element) -> tuple[float, Element]:
        """Return the two positions at which positions outside of an image are reflected.

        These are the centers of the first and the last element if corners are aligned, else their outer edges.
        """
        return (0.0, last) if self.aligns_corners else (-0.5, last + 0.5)


def grid_sample(builder: Builder, x: Tensor, grid: Tensor, how: GridSampler) -> Tensor:
    """Sample x [n, c, ...] at the positions of grid [n, ..., axes], whose coordinates name the last axis of x first.

    The result is [n, c, ...] with the spatial axes of the grid.
    """
    return sampled(builder, x, (*x.shape[:2], *grid.shape[1:-1]), grid_taps(builder, x, grid, how))


def grid_taps(builder: Builder, x: Tensor, grid: Tensor, how: GridSampler, *, slopes: bool = False) -> list[list[Tap]]:
    """Return the taps of each spatial axis of x [n, c, ...], in the order of x, at the positions of a grid.

    The grid is [n, ..., axes]. A tap is an element that contributes to a sample, with its weight. With `slopes`, taps
    have the derivatives of their weights by the grid's coordinate.
    """
    rank = x.rank - 2
    if rank < 1 or grid.rank != x.rank or grid.shape[-1] != rank:
        raise builder.fail(f"an image {x} is sampled at a grid {grid}")
    # The last axis of the grid has the coordinate along the last axis of x first.
    coordinates = [_coordinate(builder, grid, rank - 1 - d) for d in range(rank)]
    return [_taps_of_axis(builder, of_axis, x.shape[2 + d], how, slopes) for d, of_axis in enumerate(coordinates)]


def _coordinate(builder: Builder, grid: Tensor, n: int) -> Tensor:
    """Return coordinate n of each position of a grid, [batch, 1, ...]."""
    part = slicing.slice_axis(builder, grid, grid.rank - 1, start=n, limit=n + 1)
    return shapes.reshape(builder, part, [grid.shape[0], 1, *grid.shape[1:-1]])


_NEAREST: Taps = ((0, lambda part: part.const(1.0)),)
"""Tap of nearest-neighbour interpolation: (offset 0, function that returns the weight 1)."""
_NEAREST_SLOPES: Taps = ((0, lambda part: part.const(0.0)),)
"""Derivatives of the weights of `_NEAREST` by the position."""
_TAPS: dict[str, tuple[Taps, Taps]] = {
    "nearest": (_NEAREST, _NEAREST_SLOPES), "linear": (LINEAR, LINEAR_SLOPES), "cubic": (CUBIC, CUBIC_SLOPES),
}  # fmt: skip
"""Interpolation mode → (weights of its taps, derivatives of these weights by the position)."""


def _taps_of_axis(builder: Builder, coordinates: Tensor, size: Size, how: GridSampler, slopes: bool) -> list[Tap]:
    """Return the taps of one axis of `size` elements: for each position the indices and weights of the elements around
    it.

    Example: on an axis of 4 elements with aligned corners, the coordinate 0.0 is the position 1.5. Its linear taps are
    elements 1 and 2, with the weights 0.5.

    coordinates: normalized coordinates of the positions, from -1 to 1 within the image. how: interpolation, and values
    outside of the image. slopes: whether taps also have the derivative of their weight by the coordinate.
    """
    length = reductions.size_as(builder, size, I64)
    positions = formula(builder, how.position, coordinates, length)
    # The element that the offsets of taps count from: the one before the position; "nearest" positions are elements.
    base = positions if how.mode == "nearest" else formula(builder, lambda v: v.unary("floor"), positions)
    position_derivatives = formula(builder, how.position_derivative, coordinates, length) if slopes else None
    weights, derivatives = _TAPS[how.mode]  # (offset, function) of each tap: its weight, and the derivative of that
    taps = []
    for (offset, weight), (_, derivative) in zip(weights, derivatives, strict=True):
        # Default arguments bind `offset` and `weight` of this iteration.
        def index(low: Element, n: Element, offset: int = offset) -> Element:
            """Return the index of the tap `offset` elements after `low`, moved into an axis of n elements.

            `how.inside` clamps or reflects it, but returns it unchanged if values beyond the image are zeros. A tap
            there then has the weight 0, and its index is clamped only so that the read is in bounds.
            """
            return how.inside(low + offset, n).to(I64).max(0).min(n - 1)

        def tap_weight(
            value: Element, low: Element, n: Element, offset: int = offset, weight: Weight = weight
        ) -> Element:
            """Return the weight, for the position `value`, of the tap `offset` elements after `low`.

            It is 0 for a tap outside of the axis of n elements if values there are zeros.
            """
            result = weight(value - low)
            return _where_inside(low + offset, n.to(value.dtype), result) if how.beyond == "zeros" else result

        operands = (positions, base, length)
        slope = None
        if position_derivatives is not None:
            # Chain rule: derivative of the weight by the position, times that of the position by the coordinate.
            by_position = formula(builder, partial(tap_weight, weight=derivative), *operands)
            slope = elementwise.binary(builder, "mul", by_position, position_derivatives)
        taps.append(Tap(formula(builder, index, base, length), formula(builder, tap_weight, *operands), slope))
    return taps


def _direction_after_reflection(value: Element, least: float, most: Element) -> Element:
    """Return the derivative of `_reflected` by the value, 1 or -1."""
    width = (most - least).max(1e-6)  # 0 for one element whose corners are aligned
    distance = value - least
    # In the second half of a period of two widths, the reflected position moves back towards `least`. So it does below
    # `least`, where the absolute value decreases.
    is_second_half = (distance.unary("abs") % (width * 2.0)) > width
    return (is_second_half ^ (distance < 0.0)).where(value.const(-1.0), value.const(1.0))


def _reflected(value: Element, least: float, most: Element) -> Element:
    """Reflect a value at two borders, `least` and `most`, until it is between them."""
    width = (most - least).max(1e-6)  # 0 for one element whose corners are aligned
    # Repeated reflection makes the distance to the lower border periodic, with a period of two widths.
    distance = (value - least).unary("abs") % (width * 2.0)
    return (distance > width).where(width * 2.0 - distance, distance) + least
