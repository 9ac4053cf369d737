"""Regions of images: non-maximum suppression of boxes, sampling of boxes, and windows of displaced elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, F32, I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, elementwise, reductions, shapes, slicing
from pydispatch.operations.formulas import Element, formula
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

    def hides(*operands: Element) -> Element:
        """Return whether a box is kept and its intersection over union with the visited box exceeds the limit.

        The operands are the corners of the box, then those of the visited box (each lower y, x, upper y, x), the limit,
        and whether the box is kept.
        """
        low_y, low_x, high_y, high_x, y0, x0, y1, x1, limit, kept = operands
        height = (high_y.min(y1) - low_y.max(y0)).max(0.0)
        width = (high_x.min(x1) - low_x.max(x0)).max(0.0)
        intersection = height * width
        union = (high_y - low_y) * (high_x - low_x) + (y1 - y0) * (x1 - x0) - intersection
        return kept & is_over(intersection, union, limit.to(intersection.dtype))

    def visit(index: Size, carried: list[Tensor]) -> list[Tensor]:
        """Keep box `index` of each set if it may remain, no kept box hides it, and its set is below its maximum.

        The enclosing function's arguments are used: `good` (whether a box may remain), `sides` (the corners), `most`
        (the maximum, or None), and `limit` (the threshold of the overlap).

        index: number of the visited box. carried: which boxes are kept so far, bool [sets, boxes], and how many per
        set, i64 [sets, 1]. Return both after the visit.
        """
        kept, kept_count = carried
        corners = [slicing.slice_axis(builder, t, axis=1, start=index, limit=index + 1) for t in sides]
        box_number = reductions.size_as(builder, index, I64)
        # Whether a box that is kept overlaps the visited one by more than the threshold.
        is_hidden = reductions.reduce(
            builder, "or", formula(builder, hides, *sides, *corners, limit, kept), axes=[1], keep=True
        )
        # Whether the visited box is kept; it is then added to `kept` at its index.
        may_remain = slicing.slice_axis(builder, good, axis=1, start=index, limit=index + 1)
        is_kept = formula(builder, lambda remains, hidden: remains & ~hidden, may_remain, is_hidden)
        if most is not None:
            is_kept = formula(builder, lambda is_new, n, limit: is_new & (n < limit), is_kept, kept_count, most)
        kept = formula(
            builder,
            # old[set, box] | (box == index & is_new[set])
            lambda old, is_new, index: (old.position(axis=1, dtype=I64).is_equal(index) & is_new) | old,
            kept,
            is_kept,
            box_number,
        )
        return [kept, formula(builder, lambda n, is_new: n + is_new.to(I64), kept_count, is_kept)]

    # At first no box is kept, and each set has 0 kept boxes.
    none = shapes.full(builder, value=False, shape=(sets, count), dtype=BOOL)
    return control.for_(builder, count, [none, shapes.full(builder, 0, (sets, 1), I64)], visit)[0]


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

        # `samples` is a default argument, since the closure would see its value of a later iteration.
        def position(s: Element, lo: Element, hi: Element, samples: int = samples) -> Element:
            """Return the position of sample s of a box along the axis, in elements of the image.

            The box is from `lo` to `hi` in box coordinates, and has `samples` equidistant samples. Without half pixels,
            it extends over at least one element, as in the first version of RoiAlign.
            """
            first, last = (v.to(F32) * scale - (0.5 if is_half_pixel else 0.0) for v in (lo, hi))
            extent = last - first if is_half_pixel else (last - first).max(1.0)
            return first + (s + 0.5) * extent / float(samples)

        positions = formula(builder, position, sample, start, end)
        broadcast_shape = [boxes.shape[0], 1, samples, 1] if side == 0 else [boxes.shape[0], 1, 1, samples]
        taps.append(
            _clamped_taps(
                builder, shapes.reshape(builder, positions, broadcast_shape), reductions.size_as(builder, size, F32)
            )
        )
    return taps


def _clamped_taps(builder: Builder, positions: Tensor, length: Tensor) -> list[Tap]:
    """Return the two taps of linear interpolation at each position, after it is clamped to the axis.

    Weights are 0 for positions more than one element outside. `length` is the size of the axis as a float. Example, as
    (index, weight), on an axis of 4 elements: the position 1.25 has the taps (1, 0.75) and (2, 0.25), 3.5 has (3, 1)
    and (3, 0), and 4.5 has (3, 0) and (3, 0).
    """

    def low(value: Element, n: Element) -> Element:
        """Return the element before a position that is clamped to an axis of n elements."""
        return value.max(0.0).unary("floor").min(n - 1.0)

    def inside(value: Element, n: Element) -> Element:
        """Return whether a position is at most one element outside of an axis of n elements.

        For other positions, `weight_before` and `weight_after` are 0.
        """
        return (value >= -1.0) & (value <= n)

    def fraction(value: Element, n: Element) -> Element:
        """Return the distance of a position, clamped to the axis, from the element `low` before it.

        It is 0 if that is the last element, because positions after it are clamped to it.
        """
        return (value.max(0.0) - low(value, n)).min(1.0) * (low(value, n) < n - 1.0).where(value.const(1.0), 0.0)

    def weight_before(value: Element, n: Element) -> Element:
        """Return the weight of the element before the position, or 0 outside."""
        return inside(value, n).where(1.0 - fraction(value, n), 0.0)

    def weight_after(value: Element, n: Element) -> Element:
        """Return the weight of the element after the position, or 0 outside."""
        return inside(value, n).where(fraction(value, n), 0.0)

    # The tap of the element before each position, then that of the element after it.
    return [
        Tap(
            formula(builder, lambda v, n: low(v, n).to(I64), positions, length),
            formula(builder, weight_before, positions, length),
        ),
        Tap(
            formula(builder, lambda v, n: (low(v, n) + 1.0).min(n - 1.0).to(I64), positions, length),
            formula(builder, weight_after, positions, length),
        ),
    ]


def mean_of_boxes(
    builder: Builder, x: Tensor, images: Tensor, taps: Sequence[Sequence[Tap]], cells: Sequence[int],
    samples_per_cell: int,
) -> Tensor:  # fmt: skip
    """Return the mean of the samples of each cell, [boxes, channels, cells...].

    Args:
        builder: The builder.
        x: Images, [images, channels, height, width].
        images: Index of the image of each box, [boxes].
        taps: For each spatial axis, the taps of the samples: a tap is the index and the weight of an element that a
            sample reads. Their tensors broadcast to [boxes, 1, samples along the height, samples along the width].
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
    moved = shapes.reshape(builder, offset, [n * offset_groups, 1, kernel_size, rank, *out])
    taps = []  # along each axis the two neighbours of each position, with their weights
    for d in range(rank):
        offset_along_axis = shapes.reshape(
            builder,
            slicing.slice_axis(builder, moved, axis=3, start=d, limit=d + 1),
            [n * offset_groups, 1, kernel_size, *out],
        )
        # The position of each element of the kernel in the first window, which begins `low` elements before the image.
        in_first_window = np.unravel_index(np.arange(kernel_size), kernel)[d] * dilations[d] - low[d]
        positions = _positions_along(builder, offset_along_axis, in_first_window, strides[d], d)
        taps.append(zero_padded_taps(builder, positions, reductions.size_as(builder, x.shape[2 + d], F32)))
    images = shapes.reshape(builder, x, [n * offset_groups, channels // offset_groups, *x.shape[2:]])
    samples = sampled(builder, images, (n * offset_groups, channels // offset_groups, kernel_size, *out), taps)
    if mask is not None:
        samples = elementwise.binary(
            builder, "mul", samples, shapes.reshape(builder, mask, [n * offset_groups, 1, kernel_size, *out])
        )
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
