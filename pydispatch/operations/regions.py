"""Regions of images: non-maximum suppression of boxes, sampling of boxes, and windows of displaced elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, elementwise, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, Formula, formula
from pydispatch.operations.sampling import Tap, sampled, zero_padded_taps

# -- non-maximum suppression

IsOver = Callable[[Element, Element, Element], Element]
"""Function is_over(area of the intersection, area of the union, limit) -> whether two boxes overlap too much."""


def best_boxes(
    builder: Builder, sides: Sequence[Tensor], good: Tensor, limit: Tensor, is_over: IsOver, most: Tensor | None = None
) -> Tensor:
    """Return which boxes remain after non-maximum suppression, bool [sets, boxes].

    Boxes are visited from the best on, by a loop. A box is kept if no kept box overlaps it too much.

    Args:
        builder: The builder.
        sides: The corners y0, x0, y1, x1 (lower and upper) of sets of boxes, each [sets, boxes], best box first.
        good: Whether a box may remain at all, bool [sets, boxes].
        limit: Threshold that is passed to is_over, a float of rank 0.
        is_over: Whether two boxes overlap too much.
        most: Maximum number of boxes kept per set, of rank 0; None for no maximum.
    """
    sets, count = good.shape
    suppression = _Suppression(builder, sides, good, limit, is_over, most)
    # At first no box is kept, and each set has 0 kept boxes.
    none = shapes.full(builder, value=False, shape=(sets, count), dtype=BOOL)
    return control.for_(builder, count, [none, shapes.full(builder, 0, (sets, 1), I64)], suppression.visit)[0]


@dataclass(frozen=True)
class _Suppression:
    """Loop over boxes, from the best on, that keeps those that no kept one hides. Attributes: see `best_boxes`."""

    builder: Builder
    sides: Sequence[Tensor]
    good: Tensor
    limit: Tensor
    is_over: IsOver
    most: Tensor | None

    def visit(self, index: Size, carried: list[Tensor]) -> list[Tensor]:
        """Keep box `index` of each set if it may remain, no kept box hides it, and its set is below its maximum.

        index: number of the visited box. carried: which boxes are kept so far, bool [sets, boxes], and how many per
        set, i64 [sets, 1]. Return both after the visit.
        """
        builder, (kept, kept_count) = self.builder, carried
        corners = [slicing.slice_axis(builder, t, axis=1, start=index, limit=index + 1) for t in self.sides]
        box_number = reductions.size_as(builder, index, I64)
        hides = formula(builder, self._hides, *self.sides, *corners, self.limit, kept)
        is_hidden = reductions.reduce(builder, "or", hides, axes=[1], keep=True)
        may_remain = slicing.slice_axis(builder, self.good, axis=1, start=index, limit=index + 1)
        is_new = formula(builder, lambda remains, hidden: remains & ~hidden, may_remain, is_hidden)
        if self.most is not None:
            is_new = formula(builder, lambda is_new, n, most: is_new & (n < most), is_new, kept_count, self.most)
        kept = formula(builder, _with_box, kept, is_new, box_number)
        return [kept, formula(builder, lambda n, is_new: n + is_new.to(I64), kept_count, is_new)]

    def _hides(self, *operands: Element) -> Element:
        """Return whether a box is kept and its intersection over union with the visited box exceeds the limit.

        The operands are the corners of the box, then those of the visited box (each lower y, x, upper y, x), the limit,
        and whether the box is kept.
        """
        low_y, low_x, high_y, high_x, y0, x0, y1, x1, limit, kept = operands
        height = (high_y.min(y1) - low_y.max(y0)).max(0.0)
        width = (high_x.min(x1) - low_x.max(x0)).max(0.0)
        intersection = height * width
        union = (high_y - low_y) * (high_x - low_x) + (y1 - y0) * (x1 - x0) - intersection
        return kept & self.is_over(intersection, union, limit.to(intersection.dtype))


def _with_box(kept: Element, is_new: Element, index: Element) -> Element:
    """Return whether a box is kept: it was before, or it is the visited box, `index`, which is kept if `is_new`."""
    return (kept.position(axis=1, dtype=I64).is_equal(index) & is_new) | kept


# -- sampling of boxes


def box_taps(
    builder: Builder, x: Tensor, boxes: Tensor, cells: Sequence[int], samples_per_cell: int, scale: float,
    is_half_pixel: bool,
) -> list[list[Tap]]:  # fmt: skip
    """Return the taps of the samples in each cell of boxes, two for each sample, along the rows and along the columns.

    A tap is the index and the weight of an element that a sample reads. The samples are those of RoiAlign: a box is
    divided into cells, and a cell into a grid of equal parts, each with a sample at its center. Example: a box from 2.0
    to 10.0 along the height with 2 cells and 2 samples per cell has the samples 3, 5, 7 and 9 (less 0.5 with half
    pixels), for the `scale` 1.

    Args:
        builder: The builder.
        x: Images, [images, channels, h, w].
        boxes: [boxes, 4], with x0, y0, x1, y1.
        cells: Numbers of cells of a box along the height and along the width.
        samples_per_cell: Number of samples in a cell along each axis.
        scale: Factor from coordinates of boxes to those of images.
        is_half_pixel: Whether the center of the first element is at 0.5. Otherwise it is at 0, and boxes extend over at
            least 1, as in the first version of RoiAlign.

    Returns:
        The two taps along the rows, whose tensors are [boxes, 1, samples along the height, 1], and the two along the
        columns, [boxes, 1, 1, samples along the width].
    """
    taps = []
    for side, (count, size) in enumerate(zip(cells, x.shape[2:], strict=True)):
        # y0 and y1 for the rows (side 0), x0 and x1 for the columns.
        start, end = (slicing.slice_axis(builder, boxes, axis=1, start=n, limit=n + 1) for n in (1 - side, 3 - side))
        samples = count * samples_per_cell
        sample = shapes.iota(builder, [1, samples], axis=1, dtype=F32)
        positions = formula(builder, _sample_position(samples, scale, is_half_pixel), sample, start, end)
        broadcast_shape = [boxes.shape[0], 1, samples, 1] if side == 0 else [boxes.shape[0], 1, 1, samples]
        positions = shapes.reshape(builder, positions, broadcast_shape)
        taps.append(_clamped_taps(builder, positions, reductions.size_as(builder, size, F32)))
    return taps


def _sample_position(samples: int, scale: float, is_half_pixel: bool) -> Formula:
    """Return the formula of the position of a sample of a box along an axis, in elements of the image.

    A box has `samples` equidistant samples. For `scale` and `is_half_pixel`, see `box_taps`.
    """

    def position(sample: Element, start: Element, end: Element) -> Element:
        """Return the position of a sample of the box from `start` to `end`, in box coordinates."""
        first, last = (v.to(F32) * scale - (0.5 if is_half_pixel else 0.0) for v in (start, end))
        extent = last - first if is_half_pixel else (last - first).max(1.0)
        return first + (sample + 0.5) * extent / float(samples)

    return position


def _clamped_taps(builder: Builder, positions: Tensor, length: Tensor) -> list[Tap]:
    """Return the two taps of linear interpolation at each position, after it is clamped to the axis.

    Weights are 0 for positions more than one element outside. `length` is the size of the axis as a float. Example, as
    (index, weight), on an axis of 4 elements: the position 1.25 has the taps (1, 0.75) and (2, 0.25), 3.5 has (3, 1)
    and (3, 0), and 4.5 has (3, 0) and (3, 0).
    """
    # The tap of the element before each position, then that of the element after it.
    return [
        Tap(
            formula(builder, lambda v, n: _element_before(v, n).to(I64), positions, length),
            formula(builder, lambda v, n: _is_near(v, n).where(1.0 - _fraction(v, n), 0.0), positions, length),
        ),
        Tap(
            formula(builder, lambda v, n: (_element_before(v, n) + 1.0).min(n - 1.0).to(I64), positions, length),
            formula(builder, lambda v, n: _is_near(v, n).where(_fraction(v, n), 0.0), positions, length),
        ),
    ]


def _element_before(position: Element, n: Element) -> Element:
    """Return the element before a position that is clamped to an axis of n elements."""
    return position.max(0.0).unary("floor").min(n - 1.0)


def _is_near(position: Element, n: Element) -> Element:
    """Return whether a position is at most one element outside of an axis of n elements."""
    return (position >= -1.0) & (position <= n)


def _fraction(position: Element, n: Element) -> Element:
    """Return the distance of a position, clamped to the axis, from the element before it.

    It is 0 if that is the last element, because positions after it are clamped to it.
    """
    distance = (position.max(0.0) - _element_before(position, n)).min(1.0)
    return distance * (_element_before(position, n) < n - 1.0).where(position.const(1.0), 0.0)


def mean_of_boxes(
    builder: Builder, x: Tensor, images: Tensor, taps: Sequence[Sequence[Tap]], cells: Sequence[int],
    samples_per_cell: int,
) -> Tensor:  # fmt: skip
    """Return the mean of the samples of each cell, [boxes, channels, cells...].

    Args:
        builder: The builder.
        x: Images, [images, channels, height, width].
        images: Index of the image of each box, [boxes].
        taps: The taps of the samples along both axes, as `box_taps` returns them.
        cells: Numbers of rows and columns of cells in a box.
        samples_per_cell: Number of samples in a cell along each axis.
    """
    count, channels = images.shape[0], x.shape[1]
    rows, columns = cells
    batch = shapes.reshape(builder, images, [count, 1, 1, 1])
    samples = sampled(builder, x, (count, channels, rows * samples_per_cell, columns * samples_per_cell), taps, batch)
    by_cell = shapes.reshape(builder, samples, [count, channels, rows, samples_per_cell, columns, samples_per_cell])
    return reductions.mean(builder, by_cell, axes=[3, 5])  # over the samples of a cell along both axes


# -- windows of displaced elements, of deformable convolutions


def moved_windows(
    builder: Builder, x: Tensor, offset: Tensor, mask: Tensor | None, kernel: Sequence[int], strides: Sequence[int],
    low: Sequence[int], dilations: Sequence[int], offset_groups: int,
) -> Tensor:  # fmt: skip
    """Return the elements of the windows of a deformable convolution as channels.

    The result is [n, channels * elements of the kernel, out...]. Each element is read at its position in a window plus
    an offset of its own, by linear interpolation. Elements outside of the image are 0. Example: for a kernel of 3 x 3
    and one group of offsets, x [1, 8, 32, 32] and offsets [1, 9 * 2, 30, 30] give [1, 8 * 9, 30, 30]; channel c * 9 + k
    has element k of the windows of channel c.

    Args:
        builder: The builder.
        x: Images, [n, channels, ...].
        offset: Displacements in elements of the image, [n, offset_groups * elements of the kernel * axes, out...]: for
            each element of the kernel its offset along the first spatial axis, then along the next one.
        mask: Factor of each element, [n, offset_groups * elements of the kernel, out...]; None for 1.
        kernel: Size of the windows along each spatial axis, as for the next three.
        strides: Distances between neighbouring windows.
        low: Padding before the axis.
        dilations: Distances between neighbouring elements of a window.
        offset_groups: Number of groups of channels that have the same offsets.
    """
    rank = len(kernel)
    n, channels = x.shape[:2]
    out, kernel_size = offset.shape[2:], int(np.prod(kernel))
    is_divisible = not isinstance(channels, Expr) and offset_groups >= 1 and channels % offset_groups == 0
    if not is_divisible or offset.shape[1] != offset_groups * kernel_size * rank:
        raise builder.fail(f"windows of {x} are moved by {offset} in {offset_groups} group(s) of offsets; expected "
                     f"{kernel_size * rank} offsets for each of groups of equally many channels")  # fmt: skip
    # Each group is sampled as an image of its own: the samples are [n * groups, channels of a group, kernel, out...].
    images, image_channels = n * offset_groups, channels // offset_groups
    moved = shapes.reshape(builder, offset, [images, 1, kernel_size, rank, *out])
    taps = []  # along each axis the two neighbours of each position, with their weights
    for d in range(rank):
        offset_along_axis = slicing.slice_axis(builder, moved, axis=3, start=d, limit=d + 1)
        offset_along_axis = shapes.reshape(builder, offset_along_axis, [images, 1, kernel_size, *out])
        # The position of each element of the kernel in the first window, which begins `low` elements before the image.
        in_first_window = np.unravel_index(np.arange(kernel_size), kernel)[d] * dilations[d] - low[d]
        positions = _positions_along(builder, offset_along_axis, in_first_window, strides[d], d)
        taps.append(zero_padded_taps(builder, positions, reductions.size_as(builder, x.shape[2 + d], F32)))
    groups_as_images = shapes.reshape(builder, x, [images, image_channels, *x.shape[2:]])
    samples = sampled(builder, groups_as_images, (images, image_channels, kernel_size, *out), taps)
    if mask is not None:
        factors = shapes.reshape(builder, mask, [images, 1, kernel_size, *out])
        samples = elementwise.binary(builder, "mul", samples, factors)
    return shapes.reshape(builder, samples, [n, channels * kernel_size, *out])


def _positions_along(builder: Builder, offset: Tensor, in_first_window: np.ndarray, stride: int, axis: int) -> Tensor:
    """Return the positions of displaced elements along a spatial axis, f32 [n, 1, elements of the kernel, out...].

    A position is the sum of `offset`, which has the shape of the result, of the element's position in the first window
    (`in_first_window`, one per element of the kernel), and of the window's index along `axis` times the stride.
    """
    out = offset.shape[3:]
    base = builder.constant(in_first_window.reshape(1, 1, -1, *[1] * len(out)), F32)
    window_index = shapes.reshape(
        builder,
        shapes.iota(builder, [out[axis]], axis=0, dtype=F32),
        [n if d == axis else 1 for d, n in enumerate(out)],
    )
    return formula(builder, lambda v, k, i: v.to(F32) + k + i * float(stride), offset, base, window_index)
