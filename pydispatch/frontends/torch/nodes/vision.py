"""Conversions of torchvision operators: boxes, regions, deformable convolutions."""

from __future__ import annotations

import numpy as np

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, gathers, normalization, ordering, regions, selection, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import formula


@converts("torchvision.nms")
def nms(builder: Builder, dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of the boxes that remain after non-maximum suppression, in order of decreasing score.

    A box is removed if its intersection with a better box that remains, divided by their union, exceeds iou_threshold.
    dets: boxes as rows (x0, y0, x1, y1). scores: one for each box; higher is better.

    Raise CompileError for operands of other ranks, and for boxes that are no floats.
    """
    if dets.rank != 2 or scores.rank != 1 or dets.shape[1] != 4 or not dets.dtype.is_float:
        raise builder.fail(f"nms of the boxes {dets} and the scores {scores}; expected floats [n, 4] and [n]")
    count = dets.shape[0]
    # The boxes in order of decreasing score.
    order = ordering.sort_with_indices(builder, scores, axis=0, descending=True)[1]
    ordered = gathers.take(builder, ew.convert(builder, dets, normalization.wide(dets.dtype)), order, axis=0)
    x0, y0, x1, y1 = (  # each [1, count]: `best_boxes` takes sets of boxes, of which there is one
        shapes.reshape(builder, slicing.slice_axis(builder, ordered, axis=1, start=n, limit=n + 1), [1, count])
        for n in range(4)
    )
    # PyTorch compares the quotient, in the type of the boxes, with a 64-bit number. Rounding that number to the type of
    # the boxes must not change any comparison, so it is rounded down: for a quotient q of this type, q > iou_threshold
    # is the same as q > the largest number of this type that is at most iou_threshold.
    real = ordered.dtype.numpy.type
    limit = real(iou_threshold)
    limit = np.nextafter(limit, real(-1)) if float(limit) > iou_threshold else limit
    # Mark the boxes that remain, then return their indices. The lambda states whether two boxes overlap too much.
    all_are_candidates = shapes.full(builder, value=True, shape=(1, count), dtype=BOOL)
    is_kept = regions.best_boxes(
        builder, [y0, x0, y1, x1], all_are_candidates,
        builder.constant(limit, ordered.dtype), lambda intersection, union, limit: intersection / union > limit,
    )  # fmt: skip
    return gathers.take(
        builder, order, selection.indices_of_true(builder, shapes.reshape(builder, is_kept, [count])), axis=0
    )


@converts("torchvision.roi_align")
def roi_align(
    builder: Builder, input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """Resample boxes of images to one size: [boxes, channels, pooled_height, pooled_width].

    A box is divided into pooled_height * pooled_width equal cells. An element of the result is the mean of samples in
    its cell, sampling_ratio along each axis; a sample is the linear interpolation of the four elements around it.

    Args:
        builder: The builder.
        input: Images, [images, channels, height, width].
        rois: Boxes as rows (index of the image, x1, y1, x2, y2), [boxes, 5].
        spatial_scale: Factor from coordinates of boxes to those of the images: with 0.5, the box 4, 2, 12, 6 has the
            columns from 2 to 6 and the rows from 1 to 3 of the image.
        pooled_height: Number of rows of cells.
        pooled_width: Number of columns of cells.
        sampling_ratio: Number of samples along each axis of a cell, at least 1.
        aligned: Whether the center of the first element of an image is at 0.5; otherwise at 0.

    Raises:
        CompileError: `sampling_ratio` is 0 or less. Then the number of samples would depend on the boxes.
    """
    cells = (pooled_height, pooled_width)
    if sampling_ratio <= 0:
        raise builder.fail(
            f"roi_align with the sampling_ratio {sampling_ratio}: the number of samples depends on the boxes",
            "give the number of samples along each axis of a cell: roi_align(..., sampling_ratio=2)",
        )
    # Split the rows into the indices of the images and the corners of the boxes.
    x, boxes = (ew.convert(builder, v, normalization.wide(v.dtype)) for v in (input, rois))
    images = ew.convert(builder, slicing.slice_axis(builder, boxes, axis=1, start=0, limit=1), I64)
    # For each spatial axis the two taps of all samples: the neighbours of each sample's position, and their weights.
    taps = regions.box_taps(
        builder,
        x,
        slicing.slice_axis(builder, boxes, axis=1, start=1, limit=5),
        cells,
        sampling_ratio,
        spatial_scale,
        aligned,
    )
    return ew.convert(builder, regions.mean_of_boxes(builder, x, images, taps, cells, sampling_ratio), input.dtype)


@converts("torchvision.deform_conv2d")
def deform_conv2d(
    builder: Builder,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Return a convolution whose windows are distorted: each element of a window is read at its position plus an
    offset.

    Elements between pixels are interpolated, and those outside of the image are 0. They are collected as channels
    [n, channels * kernel size, oh, ow], where the kernel size is kh * kw. The rest is a convolution by 1 x 1 filters.

    Args:
        builder: The builder.
        input: Images, [n, channels, h, w].
        weight: Filters, [filters, channels / groups, kh, kw].
        offset: Offsets (y, x) in pixels, [n, offset_groups * kernel size * 2, oh, ow]: a pair for each element of each
            window; oh * ow is the number of windows.
        mask: A factor for each element of each window, [n, offset_groups * kernel size, oh, ow]; only read if
            `use_mask`.
        bias: Summand of each filter, [filters].
        stride_h: Distance of windows along the height.
        stride_w: Distance of windows along the width.
        pad_h: Padding before and after the height.
        pad_w: Padding before and after the width.
        dilation_h: Distance of elements of a window along the height.
        dilation_w: Distance of elements of a window along the width.
        groups: Number of groups of channels that have filters of their own.
        offset_groups: Number of groups of channels that have offsets of their own.
        use_mask: Whether the elements are multiplied by `mask`.
    """
    (filters, channels, *sizes) = weight.shape
    kernel = [n for n in sizes if isinstance(n, int)]
    if len(kernel) != 2:
        raise builder.fail(f"deform_conv2d with the filters {weight}: the size of the kernel must be known")
    inner = normalization.wide(input.dtype)
    x = ew.convert(builder, input, inner)
    factors = ew.convert(builder, mask, inner) if use_mask else None
    columns = regions.moved_windows(
        builder,
        x,
        offset,
        factors,
        kernel,
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        offset_groups,
    )
    # Filters of 1 x 1 pixels, whose channels are in the order of `columns`: by channel, then by element of the window.
    rows = shapes.reshape(
        builder, ew.convert(builder, weight, inner), [filters, channels * kernel[0] * kernel[1], 1, 1]
    )
    convolved = convolutions.convolution(
        builder, columns, rows, convolutions.Window.unit(2), groups=groups, dtype=inner
    )
    added = formula(builder, lambda v, n: v + n.to(inner), convolved, shapes.reshape(builder, bias, [-1, 1, 1]))
    return ew.convert(builder, added, input.dtype)
