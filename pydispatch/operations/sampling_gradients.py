"""Gradients of sampling images at the positions of a grid."""

from __future__ import annotations

import itertools
from dataclasses import replace

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, elementwise, reductions, shapes, slicing
from pydispatch.operations.sampling import GridSampler, grid_taps, product_of_weights, sampled


def image_gradient(builder: Builder, grad: Tensor, x: Tensor, grid: Tensor, how: GridSampler) -> Tensor:
    """Return the gradient of the image x [n, c, ...] of `grid_sample` for the gradient `grad` of its result.

    A sample is a weighted sum of neighbouring elements of x, its taps. Its gradient times the weight of each tap is
    added to that element's gradient. Example: a sample 0.75 * x[0, :, 2] + 0.25 * x[0, :, 3] with the gradients g of
    its channels adds 0.75 * g at x[0, :, 2] and 0.25 * g at x[0, :, 3].

    Args:
        builder: The builder.
        grad: Gradient of the samples, [n, c, ...] with the spatial axes of the grid.
        x: The image; only its shape is used.
        grid: Coordinates of the samples, [n, ..., axes], the last axis of x first; -1 to 1 within the image.
        how: Options of the sampling.
    """
    spatial = x.rank - 2
    # With the channels last, those of one element of an image are a row, which `put_rows` adds as a whole.
    channels_last = [0, *range(2, x.rank), 1]
    values = shapes.transpose(builder, grad, channels_last)
    image = shapes.transpose(builder, shapes.full(builder, 0, x.shape, grad.dtype), channels_last)
    lead = values.shape[:-1]  # batch and spatial axes of the samples
    count = product(lead)

    def row(t: Tensor) -> Tensor:
        """Return a tensor, broadcast to the positions of samples, as a vector."""
        return shapes.reshape(builder, shapes.broadcast_to(builder, t, lead), [count])

    def without_channels(t: Tensor) -> Tensor:
        """Return weights or indices [n, 1, ...] of taps without the axis of channels."""
        return shapes.squeeze(builder, t, axes=[1])

    # Each iteration of the loop has one tap of each spatial axis: 2 * 2 iterations for bilinear sampling. Its taps are
    # the indices of one pixel of the image for each of the `count` samples. It appends
    # - to `updates` a tensor [count, c], the rows to add to these pixels: the samples' gradients times the weight;
    # - to `positions[0]` a vector [count], the pixels' indices in the batch;
    # - to `positions[1 + d]` a vector [count], the pixels' indices along spatial axis d.
    positions: list[list[Tensor]] = [[] for _ in range(spatial + 1)]
    updates = []
    for taps in itertools.product(*grid_taps(builder, x, grid, how)):
        factors = without_channels(product_of_weights(builder, taps))
        weighted = elementwise.binary(builder, "mul", values, shapes.expand_dims(builder, factors, [spatial + 1]))
        updates.append(shapes.reshape(builder, weighted, [count, x.shape[1]]))
        positions[0].append(row(shapes.iota(builder, lead, axis=0, dtype=I64)))
        for d, tap in enumerate(taps):
            positions[1 + d].append(row(without_channels(tap.index)))
    # Concatenate the iterations' updates, and the vectors of each axis, and add the rows to the image of zeros.
    columns = [slicing.concat(builder, parts, axis=0) for parts in positions]
    rows = assignment.put_rows(builder, image, columns, slicing.concat(builder, updates, axis=0), "add")
    return shapes.transpose(builder, rows, [0, x.rank - 1, *range(1, x.rank - 1)])  # channels to axis 1


def grid_gradient(builder: Builder, grad: Tensor, x: Tensor, grid: Tensor, how: GridSampler) -> Tensor:
    """Return the gradient of the grid [n, ..., axes] of `grid_sample` for the gradient `grad` of its result.

    Along the axis of a coordinate, the weights of the taps are replaced by their derivatives by the coordinate.
    """
    axes = grid_taps(builder, x, grid, how, slopes=True)
    gradients = []
    for d in reversed(range(len(axes))):  # the grid has the coordinate along the last axis first
        # Taps whose weights are their derivatives by the coordinate along axis d, with the taps of the other axes.
        slopes = [replace(tap, weight=tap.slope) for tap in axes[d] if tap.slope is not None]
        by_position = sampled(builder, x, grad.shape, [slopes if n == d else taps for n, taps in enumerate(axes)])
        product_ = elementwise.binary(builder, "mul", by_position, grad)
        gradients.append(reductions.reduce(builder, "add", product_, axes=[1]))
    return slicing.stack(builder, gradients, grid.rank - 1)
