"""Operators that sample images at places that tensors state."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.graph.dtypes import F32, I64
from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators.products import accumulator, groups_of, kernel_of, positive, with_bias
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, products, reductions, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.sampling import Grid, Tap, grid_sample, sampled, zero_taps

# -- grids


def _grid_sample(c: Call, x: Tensor, grid: Tensor) -> Tensor:
    """x [n, c, ...] at the places of grid [n, ..., axes], from -1 to 1, the last axis first."""
    mode = c.text("mode", "linear", ("linear", "bilinear", "nearest", "cubic", "bicubic"))
    beyond = c.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = c.flag("align_corners")
    return grid_sample(c.b, x, grid, Grid(mode.removeprefix("bi"), beyond, corners, onnx=True))


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
        samples = sampled(b, x, shape, taps, images)
        cells_of = shapes.reshape(b, samples, [count, channels, high, ratio, wide, ratio])
        return reductions.mean(b, cells_of, [3, 5])
    # The largest of the weighted elements themselves.
    parts = [sampled(b, x, shape, [[u], [v]], images) for u in taps[0] for v in taps[1]]
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
        taps.append(zero_taps(b, places, reductions.size_as(b, x.shape[2 + d], F32)))
    images = shapes.reshape(b, x, [n * shared, channels // shared, *x.shape[2:]])
    samples = sampled(b, images, (n * shared, channels // shared, per, *out), taps)
    if mask is not None:
        samples = elementwise.binary(b, "mul", samples, shapes.reshape(b, mask, [n * shared, 1, per, *out]))
    samples = shapes.reshape(b, samples, [n, channels * per, *out])
    filters = shapes.reshape(b, w, [w.shape[0], w.shape[1] * per, *[1] * rank])
    window = products.Window.plain(rank)
    made = products.convolution(b, samples, filters, window, groups=groups, dtype=accumulator(x.dtype))
    return with_bias(c, made, bias, x.dtype)


TABLE: dict[str, Conversion] = {
    "GridSample": _grid_sample,
    "AffineGrid": _affine_grid,
    "RoiAlign": _roi_align,
    "DeformConv": _deform_conv,
}
