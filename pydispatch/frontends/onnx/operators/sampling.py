"""Conversions of operators that sample images at computed positions."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.products import groups_of, kernel_of, paddings, positive, with_bias
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import F32, F64, I64
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, products, reductions, regions, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.normalization import wide
from pydispatch.operations.sampling import GridSampler, grid_sample, sampled

# -- grids


@ONNX.converts("GridSample")
def _grid_sample(call: NodeCall, x: Tensor, grid: Tensor) -> Tensor:
    """Sample x [n, c, ...] at the positions in grid [n, ..., spatial axes].

    The coordinates of a position are from -1 to 1 over an axis; the first is that along the last axis of x.
    """
    mode = call.text("mode", "linear", ("linear", "bilinear", "nearest", "cubic", "bicubic"))
    beyond = call.text("padding_mode", "zeros", ("zeros", "border", "reflection"))
    corners = call.flag("align_corners")
    # rounds_first: unlike PyTorch, ONNX rounds positions for "nearest" before it clamps or reflects them.
    sampler = GridSampler(mode.removeprefix("bi"), beyond, aligns_corners=corners, rounds_first=True)
    return grid_sample(call.b, x, grid, sampler)


@ONNX.converts("AffineGrid")
def _affine_grid(call: NodeCall, theta: Tensor, size: Tensor) -> Tensor:
    """Return the positions to which affine maps theta [n, axes, axes + 1] map the points of a regular grid.

    `size` is the shape [n, c, ...] of the image; its spatial axes are those of the grid, with coordinates from -1 to 1.
    For an image [n, c, h, w] the result is [n, h, w, 2]: theta[i] @ (x, y, 1) for each map i and each point, where y is
    the coordinate along h and x the one along w. A position has the coordinate along the last axis first, as in the
    grid of GridSample.

    Raise CompileError if theta does not have a matrix of this shape for each image, or a spatial size is 0.
    """
    b, sizes, corners = call.b, call.sizes(size, "size")[2:], call.flag("align_corners")
    rank = len(sizes)  # number of spatial axes
    if theta.shape[1:] != (rank, rank + 1) or any(n == 0 for n in sizes):
        raise call.fail(
            f"its matrices are {theta}, its image has the sizes {sizes}; expected [n, {rank}, {rank + 1}], no size 0"
        )
    wide = F64 if theta.dtype == F64 else F32

    def coordinate(i: Element, count: Element) -> Element:
        """Return the coordinate of point i of `count` points along an axis.

        With `corners`, -1 and 1 are the first and the last point; otherwise they are the outer edges of cells around
        the points. Four points are at -1, -1/3, 1/3, 1 with `corners`, else at -3/4, -1/4, 1/4, 3/4. A single point is
        at 0.
        """
        n, centre = count.to(wide), (i.to(wide) * 2.0 + 1.0) / count.to(wide) - 1.0
        return n.is_equal(1.0).where(centre, i.to(wide) * 2.0 / (n - 1.0) - 1.0) if corners else centre

    def column(d: int) -> Tensor:
        """Return the coordinate along axis d of each point of the grid, as a vector."""
        line = formula(
            b, coordinate, shapes.iota(b, [sizes[d]], axis=0, dtype=I64), reductions.size_as(b, sizes[d], I64)
        )
        spread = shapes.broadcast_to(b, line, sizes, [d])
        return shapes.reshape(b, elementwise.convert(b, spread, theta.dtype), [product(sizes)])

    # A row (x, y, 1) for each point, [points, axes + 1]: the 1 is multiplied by the translation, theta's last column.
    ones = shapes.full(b, 1.0, [product(sizes)], theta.dtype)
    grid = slicing.stack(b, [*(column(d) for d in reversed(range(rank))), ones], axis=1)
    mapped = products.matmul(b, grid, shapes.transpose(b, theta, [0, 2, 1]))
    return shapes.reshape(b, mapped, [theta.shape[0], *sizes, rank])


# -- regions


@ONNX.converts("RoiAlign")
def _roi_align(call: NodeCall, x: Tensor, rois: Tensor, batch: Tensor) -> Tensor:
    """Return the mean or maximum of the samples in each cell of regions of images, [regions, c, height, width].

    x is [n, c, h, w]. `rois` [regions, 4] has the corners x0, y0, x1, y1 of the regions, and `batch` [regions] the
    index of the image of each. Each region is divided into output_height * output_width cells of sampling_ratio *
    sampling_ratio samples: 2 * 2 cells with the ratio 3 have 6 * 6 samples. Coordinates of regions are multiplied by
    spatial_scale to get those of x.

    Raise CompileError if there are no cells, or sampling_ratio is 0, by which the number of samples would depend on the
    regions.
    """
    b = call.b
    mode = call.text("mode", "avg", ("avg", "max"))
    height, width = call.integer("output_height", 1), call.integer("output_width", 1)
    ratio, scale = call.integer("sampling_ratio", 0), call.real("spatial_scale", 1.0)
    # half_pixel: the center of the first element of x is at 0.5. output_half_pixel, the rule before version 16: at 0.
    default = "half_pixel" if call.version >= 16 else "output_half_pixel"
    transformation = call.text("coordinate_transformation_mode", default, ("half_pixel", "output_half_pixel"))
    if height < 1 or width < 1 or ratio < 0:
        raise call.fail(
            f"its regions have {height} x {width} cells with {ratio} samples along each axis; expected at least one "
            "cell, and 0 or more samples"
        )
    if ratio == 0:
        raise call.fail("its sampling_ratio is 0, so that the number of samples depends on the regions; give one")
    # For each spatial axis the two taps of all samples: the neighbours before and after the position of each sample,
    # as their indices in x and their weights.
    taps = regions.box_taps(b, x, rois, (height, width), ratio, scale, is_half_pixel=transformation == "half_pixel")
    if mode == "avg":
        return regions.mean_of_boxes(b, x, batch, taps, (height, width), ratio)
    # ONNX takes the maximum over the weighted neighbours of all samples, not over the interpolated samples. A sample
    # has four neighbours: a tap u of the rows with a tap v of the columns. `sampled` takes the taps
    # of each axis, here one, and returns this neighbour times its weight for all samples.
    count, channels = rois.shape[0], x.shape[1]
    images, shape = shapes.reshape(b, batch, [count, 1, 1, 1]), (count, channels, height * ratio, width * ratio)
    parts = [sampled(b, x, shape, [[u], [v]], images) for u in taps[0] for v in taps[1]]
    largest = parts[0]
    for part in parts[1:]:
        largest = elementwise.binary(b, "max", largest, part)
    # The samples of a cell are the elements along axes 3 and 5.
    return reductions.reduce(
        b, "max", shapes.reshape(b, largest, [count, channels, height, ratio, width, ratio]), axes=[3, 5]
    )


# -- deformable convolutions


@ONNX.converts("DeformConv")
def _deform_conv(
    call: NodeCall, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return a deformable convolution: each element of a window is sampled at its position plus an offset.

    offset is [n, offset groups * kernel elements * axes, out...], and mask, which scales the samples, is [n, offset
    groups * kernel elements, out...], where out... are the spatial sizes of the result. The channels of x are divided
    into offset groups, whose offsets differ. For 3 x 3 filters and one offset group, offset is [n, 18, h, w]: for each
    of the 9 elements of a window its displacements along h and w.
    """
    b = call.b
    kernel = [int(k) for k in kernel_of(call, w, x)]  # type: ignore[arg-type]
    rank = len(kernel)
    strides, dilations = positive(call, "strides", rank), positive(call, "dilations", rank)
    pads, groups = paddings(call, "pads", 2 * rank), groups_of(call)
    offset_groups = call.integer("offset_group", 1)
    # Only the pads before the axes matter: the number of windows is that of the offsets.
    samples = regions.moved_windows(b, x, offset, mask, kernel, strides, pads[:rank], dilations, offset_groups)
    kernel_size = int(np.prod(kernel))
    # The samples [n, c * kernel elements, out...] have the elements of a window as channels, so the convolution is one
    # by 1 x 1 filters: w [f, c / groups, 3, 3] becomes [f, c / groups * 9, 1, 1].
    filters = shapes.reshape(b, w, [w.shape[0], w.shape[1] * kernel_size, *[1] * rank])
    window = convolutions.Window.unit(rank)
    convolved = convolutions.convolution(b, samples, filters, window, groups=groups, dtype=wide(x.dtype))
    return with_bias(call, convolved, bias, x.dtype)
