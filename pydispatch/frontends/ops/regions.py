"""Regions of images: boxes that overlap, samples of boxes, and windows whose elements are moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import BOOL, F32, I64
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import control, elementwise, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.sampling import Tap, sampled, zero_taps

# -- boxes that overlap

IsOver = Callable[[Element, Element, Element], Element]
"""is_over(area of the intersection, area of the union, limit) -> whether boxes overlap too much."""


def best_boxes(
    builder: Builder, sides: Sequence[Tensor], good: Tensor, limit: Tensor, is_over: IsOver, most: Tensor | None = None
) -> Tensor:
    """Return which boxes stay when each box that overlaps a better one too much is left out, bool [sets, boxes].

    sides: the lower and the upper corners (y0, x0, y1, x1) of sets of boxes, each [sets, boxes], the best box first.
    good: the boxes that may stay at all. limit: rank 0, for is_over. most: how many boxes of a set stay, rank 0.
    """
    size, count = good.shape

    def is_hidden(*operands: Element) -> Element:
        low_y, low_x, high_y, high_x, y0, x0, y1, x1, limit, kept = operands
        height = (high_y.min(y1) - low_y.max(y0)).max(0.0)
        width = (high_x.min(x1) - low_x.max(x0)).max(0.0)
        common = height * width
        both = (high_y - low_y) * (high_x - low_x) + (y1 - y0) * (x1 - x0) - common
        return kept & is_over(common, both, limit.to(common.dtype))

    def step(index: Size, carried: list[Tensor]) -> list[Tensor]:
        kept, taken = carried
        own = [shapes.slice_axis(builder, t, 1, index, index + 1) for t in sides]
        now = reductions.size_as(builder, index, I64)
        hidden = reductions.reduce(
            builder, "or", formula(builder, is_hidden, *sides, *own, limit, kept), [1], keep=True
        )
        this = formula(builder, lambda g, h: g & ~h, shapes.slice_axis(builder, good, 1, index, index + 1), hidden)
        if most is not None:
            this = formula(builder, lambda t, n, m: t & (n < m), this, taken, most)
        kept = formula(builder, lambda k, t, i: (k.position(1, I64).is_equal(i) & t) | k, kept, this, now)
        return [kept, formula(builder, lambda n, t: n + t.to(I64), taken, this)]

    none = shapes.full(builder, False, (size, count), BOOL)
    return control.for_(builder, count, [none, shapes.full(builder, 0, (size, 1), I64)], step)[0]


# -- samples of boxes


def box_taps(
    builder: Builder, x: Tensor, boxes: Tensor, cells: Sequence[int], ratio: int, scale: float, half: bool
) -> list[list[Tap]]:
    """Return the taps of `ratio` samples in each cell of boxes along the rows and the columns of images.

    x: [images, channels, h, w]. boxes: [boxes, 4] of x0, y0, x1, y1. cells: how many a box has along both axes. half:
    the middle of the first element is at 0.5, and boxes may be smaller than 1.
    """
    taps = []
    for side, (count, size) in enumerate(zip(cells, x.shape[2:], strict=True)):
        start, end = (shapes.slice_axis(builder, boxes, 1, n, n + 1) for n in (1 - side, 3 - side))
        sample = shapes.iota(builder, [1, count * ratio], 1, F32)

        def position(s: Element, lo: Element, hi: Element, count: int = count) -> Element:
            first, last = (v.to(F32) * scale - (0.5 if half else 0.0) for v in (lo, hi))
            extent = last - first if half else (last - first).max(1.0)
            return first + (s + 0.5) * extent / float(count * ratio)

        positions = formula(builder, position, sample, start, end)
        spread = [boxes.shape[0], 1, count * ratio, 1] if side == 0 else [boxes.shape[0], 1, 1, count * ratio]
        taps.append(
            _inside_taps(builder, shapes.reshape(builder, positions, spread), reductions.size_as(builder, size, F32))
        )
    return taps


def _inside_taps(builder: Builder, positions: Tensor, length: Tensor) -> list[Tap]:
    """Return the taps of the two elements around each position; the weights are 0 for a position more than an element
    outside.
    """

    def low(value: Element, n: Element) -> Element:
        return value.max(0.0).unary("floor").min(n - 1.0)

    def inside(value: Element, n: Element) -> Element:
        return (value >= -1.0) & (value <= n)

    def part(value: Element, n: Element) -> Element:
        return (value.max(0.0) - low(value, n)).min(1.0) * (low(value, n) < n - 1.0).where(value.const(1.0), 0.0)

    def first(value: Element, n: Element) -> Element:
        return inside(value, n).where(1.0 - part(value, n), 0.0)

    def second(value: Element, n: Element) -> Element:
        return inside(value, n).where(part(value, n), 0.0)

    return [
        Tap(
            formula(builder, lambda v, n: low(v, n).to(I64), positions, length),
            formula(builder, first, positions, length),
        ),
        Tap(
            formula(builder, lambda v, n: (low(v, n) + 1.0).min(n - 1.0).to(I64), positions, length),
            formula(builder, second, positions, length),
        ),
    ]


def mean_of_boxes(
    builder: Builder, x: Tensor, images: Tensor, taps: Sequence[Sequence[Tap]], cells: Sequence[int], ratio: int
) -> Tensor:
    """Return the mean of the samples of each cell, [boxes, channels, cells...]. images: the image of each box."""
    count, channels = images.shape[0], x.shape[1]
    high, wide = cells
    batch = shapes.reshape(builder, images, [count, 1, 1, 1])
    samples = sampled(builder, x, (count, channels, high * ratio, wide * ratio), taps, batch)
    return reductions.mean(
        builder, shapes.reshape(builder, samples, [count, channels, high, ratio, wide, ratio]), [3, 5]
    )


# -- windows whose elements are moved


def moved_windows(
    builder: Builder, x: Tensor, offset: Tensor, mask: Tensor | None, kernel: Sequence[int], strides: Sequence[int],
    low: Sequence[int], dilations: Sequence[int], shared: int,
) -> Tensor:  # fmt: skip
    """Return the elements of windows over images as channels: [n, channels * elements of the kernel, out...].

    x: [n, channels, ...]. offset: [n, shared * elements of the kernel * axes, out...], by how much each element is
    moved. mask: [n, shared * elements of the kernel, out...], its factor. shared: groups of channels with offsets of
    their own. low: the padding before each axis. What lies outside of the image is 0.
    """
    rank = len(kernel)
    n, channels = x.shape[:2]
    out, per = offset.shape[2:], int(np.prod(kernel))
    if isinstance(channels, Expr) or shared < 1 or channels % shared or offset.shape[1] != shared * per * rank:
        raise builder.fail(f"windows of {x} are moved by {offset} in {shared} group(s) of offsets; expected "
                     f"{per * rank} offsets for each of groups of equally many channels")  # fmt: skip
    # Samples are [n * groups, channels of a group, kernel, ...].
    moved = shapes.reshape(builder, offset, [n * shared, 1, per, rank, *out])
    taps = []
    for d in range(rank):
        at = shapes.reshape(builder, shapes.slice_axis(builder, moved, 3, d, d + 1), [n * shared, 1, per, *out])
        inner = np.unravel_index(np.arange(per), kernel)[d] * dilations[d] - low[d]
        base = builder.constant(inner.reshape(1, 1, per, *[1] * rank), F32)
        line = shapes.reshape(
            builder, shapes.iota(builder, [out[d]], 0, F32), [out[d] if k == d else 1 for k in range(rank)]
        )
        step = strides[d]
        positions = formula(builder, lambda v, k, i, step=step: v.to(F32) + k + i * float(step), at, base, line)
        taps.append(zero_taps(builder, positions, reductions.size_as(builder, x.shape[2 + d], F32)))
    images = shapes.reshape(builder, x, [n * shared, channels // shared, *x.shape[2:]])
    samples = sampled(builder, images, (n * shared, channels // shared, per, *out), taps)
    if mask is not None:
        samples = elementwise.binary(builder, "mul", samples, shapes.reshape(builder, mask, [n * shared, 1, per, *out]))
    return shapes.reshape(builder, samples, [n, channels * per, *out])
