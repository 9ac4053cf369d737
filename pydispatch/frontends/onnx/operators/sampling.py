"""Operators that sample images at places that tensors state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from pydispatch.frontends.graph.dtypes import F32, I64
from pydispatch.frontends.graph.sizes import Expr, Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators.products import accumulator, groups_of, kernel_of, positive, with_bias
from pydispatch.frontends.onnx.operators.resize import weighted
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, products, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.indexing import Places, elements_at


@dataclass(frozen=True)
class Tap:
    """An element that counts for a place along an axis: its index, within the axis, and its weight."""

    index: Tensor
    weight: Tensor


def sampled(c: Call, x: Tensor, shape: Shape, taps: Sequence[Sequence[Tap]], batch: Tensor | None = None) -> Tensor:
    """Sums of elements of x [n, c, ...] with the product of the weights of a tap of each spatial axis.

    shape: [n, c, ...]; taps broadcast to it. batch: the image of each n; without it n itself.
    """
    given: list[Tensor] = []
    for chosen in itertools.product(*taps):

        def places(p: Places) -> list[SSAValue]:
            at = [p.index_of(t) for t in p.given]
            return [at.pop() if batch is not None else p.index(0), p.index(1), *at]

        indices = [tap.index for tap in chosen] + ([batch] if batch is not None else [])
        given.append(elements_at(c.b, x, shape, places, *indices))
        weight = chosen[0].weight
        for tap in chosen[1:]:
            weight = elementwise.binary(c.b, "mul", weight, tap.weight)
        given.append(weight)
    return formula(c.b, weighted, *given)


def _within(i: Element, n: Element) -> Element:
    return i.at_least(0).at_most(n - 1)


# -- grids


def _grid_sample(c: Call, x: Tensor, grid: Tensor) -> Tensor:
    """x [n, c, ...] at the places of grid [n, ..., axes], from -1 to 1, the last axis first."""
    mode = c.text("mode", "linear", ("linear", "bilinear", "nearest", "cubic", "bicubic"))
    beyond = c.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = c.flag("align_corners")
    rank = x.rank - 2
    if grid.rank != x.rank or grid.shape[-1] != rank:
        raise c.fail(f"its operands are {x} and the grid {grid}")
    shape = (*x.shape[:2], *grid.shape[1:-1])
    places = [_one_of(c, grid, rank - 1 - d) for d in range(rank)]
    mode = mode.removeprefix("bi")
    taps = [_grid_taps(c, at, x.shape[2 + d], mode, beyond, corners) for d, at in enumerate(places)]
    return sampled(c, x, shape, taps)


def _one_of(c: Call, grid: Tensor, n: int) -> Tensor:
    """A coordinate of each place, [n, 1, ...]."""
    part = shapes.slice_axis(c.b, grid, grid.rank - 1, n, n + 1)
    return shapes.reshape(c.b, part, [grid.shape[0], 1, *grid.shape[1:-1]])


def _grid_taps(c: Call, at: Tensor, size: Size, mode: str, beyond: str, corners: bool) -> list[Tap]:
    length = reductions.size_as(c.b, size, I64)
    least = 0.0 if corners else -0.5

    def most(n: Element) -> Element:
        return n.to(at.dtype) - (1.0 if corners else 0.5)

    def place(v: Element, n: Element) -> Element:
        size_of = n.to(v.dtype)
        v = (v + 1.0) * 0.5 * (size_of - 1.0) if corners else ((v + 1.0) * size_of - 1.0) * 0.5
        v = v.of("round_even") if mode == "nearest" else v
        if beyond == "border":
            return v.at_least(0.0).at_most(size_of - 1.0)
        return _reflected(v, least, most(n)) if beyond == "reflection" else v

    def index(v: Element, n: Element, offset: float) -> Element:
        i = v + offset
        if beyond == "reflection":
            i = _reflected(i, least, most(n))
        return _within(i.to(I64), n)

    places = formula(c.b, place, at, length)
    if mode == "nearest":
        offsets: list[tuple[float, Callable[[Element], Element]]] = [(0.0, lambda t: t.const(1.0))]
        base = places
    else:
        base = formula(c.b, lambda v: v.of("floor"), places)
        offsets = _LINEAR if mode == "linear" else _CUBIC
    found = []
    for offset, weight in offsets:

        def weight_of(v: Element, low: Element, n: Element, offset: float = offset, weight=weight) -> Element:  # type: ignore[no-untyped-def]
            w = weight(v - low)
            if beyond != "zeros":
                return w
            i = low + offset
            return ((i >= 0.0) & (i < n.to(v.dtype))).choose(w, 0.0)

        indices = formula(c.b, lambda v, n, offset=offset: index(v, n, offset), base, length)
        found.append(Tap(indices, formula(c.b, weight_of, places, base, length)))
    return found


_A = -0.75
_LINEAR: list[tuple[float, Callable[[Element], Element]]] = [(0.0, lambda t: 1.0 - t), (1.0, lambda t: t)]
_CUBIC: list[tuple[float, Callable[[Element], Element]]] = [
    (-1.0, lambda t: _far(t + 1.0)), (0.0, lambda t: _near(t)), (1.0, lambda t: _near(1.0 - t)),
    (2.0, lambda t: _far(2.0 - t)),
]  # fmt: skip


def _near(t: Element) -> Element:
    return (t * (_A + 2) - (_A + 3)) * t * t + 1.0


def _far(t: Element) -> Element:
    return ((t * _A - 5 * _A) * t + 8 * _A) * t - 4 * _A


def _reflected(v: Element, least: float, most: Element) -> Element:
    """v, mirrored at two borders as often as it takes."""
    width = (most - least).at_least(1e-6)
    # The distance to the lower border has a period of two widths.
    distance = (v - least).of("abs") % (width * 2.0)
    return (distance > width).choose(width * 2.0 - distance, distance) + least


def _affine_grid(c: Call, theta: Tensor, size: Tensor) -> Tensor:
    """The places that matrices [n, axes, axes + 1] map a regular grid to."""
    sizes = [int(n) for n in c.numbers(size, "size").reshape(-1)][2:]
    corners = c.flag("align_corners")
    rank = len(sizes)
    if theta.shape[1:] != (rank, rank + 1) or any(n < 1 for n in sizes):
        raise c.fail(f"its matrices are {theta} for an image of {sizes}")
    lines = [np.linspace(-1, 1, n) if corners and n > 1 else (2 * np.arange(n) + 1) / n - 1 for n in sizes]
    mesh = np.meshgrid(*lines, indexing="ij")
    grid = np.stack([*reversed(mesh), np.ones(sizes)], -1).reshape(-1, rank + 1)
    made = products.matmul(c.b, c.b.constant(grid, theta.dtype), shapes.transpose(c.b, theta, [0, 2, 1]))
    return shapes.reshape(c.b, made, [theta.shape[0], *sizes, rank])


# -- regions


def _roi_align(c: Call, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """The mean (or maximum) of samples in the cells of regions [rois, 4] of images."""
    b = c.b
    mode = c.text("mode", "avg", ("avg", "max"))
    high, wide = c.integer("output_height", 1), c.integer("output_width", 1)
    ratio, scale = c.integer("sampling_ratio", 0), c.real("spatial_scale", 1.0)
    default = "half_pixel" if c.version >= 16 else "output_half_pixel"
    half = c.text("coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel")) == "half_pixel"
    if high < 1 or wide < 1 or ratio < 0:
        raise c.fail(f"its cells are {high} x {wide} with {ratio} samples")
    if ratio == 0:
        raise c.fail("its sampling_ratio is 0, so that the number of samples depends on the regions; give one")
    count = rois.shape[0]
    # One axis: [rois, 1, cells * samples] of each side.
    sides = []
    for side, (cells, size) in enumerate(((high, x.shape[2]), (wide, x.shape[3]))):
        start, end = (shapes.slice_axis(b, rois, 1, n, n + 1) for n in (1 - side, 3 - side))
        sample = shapes.iota(b, [1, cells * ratio], 1, F32)
        length = reductions.size_as(b, size, F32)

        def place(s: Element, lo: Element, hi: Element, cells: int = cells) -> Element:
            first, last = (v.to(F32) * scale - (0.5 if half else 0.0) for v in (lo, hi))
            extent = last - first if half else (last - first).at_least(1.0)
            return first + (s + 0.5) * extent / float(cells * ratio)

        sides.append((formula(b, place, sample, start, end), length))
    taps = []
    for side, (places, length) in enumerate(sides):
        spread = [count, 1, places.shape[1], 1] if side == 0 else [count, 1, 1, places.shape[1]]
        places = shapes.reshape(b, places, spread)
        taps.append(_roi_taps(c, places, length))
    images = shapes.reshape(b, batch, [count, 1, 1, 1])
    channels = x.shape[1]
    shape = (count, channels, high * ratio, wide * ratio)
    if mode == "avg":
        samples = sampled(c, x, shape, taps, images)
        cells_of = shapes.reshape(b, samples, [count, channels, high, ratio, wide, ratio])
        return reductions.mean(b, cells_of, [3, 5])
    # The largest of the weighted elements themselves.
    parts = [sampled(c, x, shape, [[u], [v]], images) for u in taps[0] for v in taps[1]]
    largest = parts[0]
    for part in parts[1:]:
        largest = elementwise.binary(b, "max", largest, part)
    return reductions.reduce(b, "max", shapes.reshape(b, largest, [count, channels, high, ratio, wide, ratio]), [3, 5])


def _roi_taps(c: Call, places: Tensor, length: Tensor) -> list[Tap]:
    """The two elements around a place; none counts for places that are more than an element outside."""

    def low(v: Element, n: Element) -> Element:
        return v.at_least(0.0).of("floor").at_most(n - 1.0)

    def inside(v: Element, n: Element) -> Element:
        return (v >= -1.0) & (v <= n)

    def part(v: Element, n: Element) -> Element:
        return (v.at_least(0.0) - low(v, n)).at_most(1.0) * (low(v, n) < n - 1.0).choose(v.const(1.0), 0.0)

    def first(v: Element, n: Element) -> Element:
        return inside(v, n).choose(1.0 - part(v, n), 0.0)

    def second(v: Element, n: Element) -> Element:
        return inside(v, n).choose(part(v, n), 0.0)

    return [
        Tap(formula(c.b, lambda v, n: low(v, n).to(I64), places, length), formula(c.b, first, places, length)),
        Tap(
            formula(c.b, lambda v, n: (low(v, n) + 1.0).at_most(n - 1.0).to(I64), places, length),
            formula(c.b, second, places, length),
        ),
    ]


# -- deformable convolutions


def _deform_conv(
    c: Call, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """A convolution whose windows have their elements at places moved by offsets [n, groups * kernel * axes, ...]."""
    b = c.b
    kernel = [int(k) for k in kernel_of(c, w, x)]  # type: ignore[arg-type]
    rank = len(kernel)
    strides, dilations = positive(c, "strides", rank), positive(c, "dilations", rank)
    pads, groups, shared = c.integers("pads", [0] * (2 * rank)), groups_of(c), c.integer("offset_group", 1)
    n, channels = x.shape[:2]
    out, per = offset.shape[2:], int(np.prod(kernel))
    if isinstance(channels, Expr) or shared < 1 or channels % shared or offset.shape[1] != shared * per * rank:
        raise c.fail(f"its operands are {x}, {w} and {offset} in {shared} group(s) of offsets")
    # Samples are [n * groups, channels of a group, kernel, ...].
    moved = shapes.reshape(b, offset, [n * shared, 1, per, rank, *out])
    taps = []
    for d in range(rank):
        at = shapes.reshape(b, shapes.slice_axis(b, moved, 3, d, d + 1), [n * shared, 1, per, *out])
        inner = np.unravel_index(np.arange(per), kernel)[d] * dilations[d] - pads[d]
        base = b.constant(inner.reshape(1, 1, per, *[1] * rank), F32)
        line = shapes.reshape(b, shapes.iota(b, [out[d]], 0, F32), [out[d] if k == d else 1 for k in range(rank)])
        step = strides[d]
        places = formula(b, lambda v, k, i, step=step: v.to(F32) + k + i * float(step), at, base, line)
        taps.append(_zero_taps(c, places, reductions.size_as(b, x.shape[2 + d], F32)))
    images = shapes.reshape(b, x, [n * shared, channels // shared, *x.shape[2:]])
    samples = sampled(c, images, (n * shared, channels // shared, per, *out), taps)
    if mask is not None:
        samples = elementwise.binary(b, "mul", samples, shapes.reshape(b, mask, [n * shared, 1, per, *out]))
    samples = shapes.reshape(b, samples, [n, channels * per, *out])
    filters = shapes.reshape(b, w, [w.shape[0], w.shape[1] * per, *[1] * rank])
    window = products.Window.plain(rank)
    made = products.convolution(b, samples, filters, window, groups=groups, dtype=accumulator(x.dtype))
    return with_bias(c, made, bias, x.dtype)


def _zero_taps(c: Call, places: Tensor, length: Tensor) -> list[Tap]:
    """The two elements around a place; beyond the axis there is 0."""
    found = []
    for offset, weight in _LINEAR:

        def index(v: Element, n: Element, offset: float = offset) -> Element:
            return (v.of("floor") + offset).at_least(0.0).at_most(n - 1.0).to(I64)

        def part(v: Element, n: Element, offset: float = offset, weight=weight) -> Element:  # type: ignore[no-untyped-def]
            low = v.of("floor")
            at = low + offset
            return ((at >= 0.0) & (at < n)).choose(weight(v - low), 0.0)

        found.append(Tap(formula(c.b, index, places, length), formula(c.b, part, places, length)))
    return found


TABLE: dict[str, Conversion] = {
    "GridSample": _grid_sample,
    "AffineGrid": _affine_grid,
    "RoiAlign": _roi_align,
    "DeformConv": _deform_conv,
}
