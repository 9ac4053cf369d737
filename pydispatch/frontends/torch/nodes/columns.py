"""Conversions of im2col and col2im: sliding windows of images as columns of a matrix, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.graph.sizes import Expr
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import convolutions, shapes
from pydispatch.frontends.ops.convolutions import Window
from pydispatch.frontends.torch.trace import Conversion, Tracer

Ints = Sequence[int]
_MAX_WINDOW_ELEMENTS = 1024  # the filters are a constant of the square of this number of elements


def _selection_filters(tracer: Tracer, x: Tensor, kernel: Ints) -> Tensor:
    """Return filters that each select one element of a window: [elements of the kernel, 1, kernel...]."""
    count = math.prod(kernel)
    if not 0 < count <= _MAX_WINDOW_ELEMENTS:
        raise tracer.b.fail(f"windows of {list(kernel)} elements; supported are 1 to {_MAX_WINDOW_ELEMENTS}")
    return tracer.b.constant(np.eye(count).reshape(count, 1, *kernel), x.dtype)


def im2col(tracer: Tracer, self: Tensor, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Tensor:
    """Return the windows of an image [n, c, h, w] as columns [n, c * elements of the kernel, windows]."""
    x = self if self.rank == 4 else shapes.expand_dims(tracer.b, self, [0])
    n, c, *sizes = x.shape
    window = Window(tuple(stride), tuple(padding), tuple(padding), tuple(dilation))
    image = shapes.reshape(tracer.b, x, [n * c, 1, *sizes])
    columns = convolutions.convolution(tracer.b, image, _selection_filters(tracer, x, kernel_size), window)
    count = math.prod(kernel_size)
    columns = shapes.reshape(tracer.b, columns, [n, c * count, columns.shape[2] * columns.shape[3]])
    return columns if self.rank == 4 else shapes.squeeze(tracer.b, columns, [0])


def col2im(
    tracer: Tracer, self: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Tensor:
    """Return the image that is the sum of windows at their positions, the adjoint of `im2col`."""
    x = self if self.rank == 3 else shapes.expand_dims(tracer.b, self, [0])
    count = math.prod(kernel_size)
    n, rows = x.shape[:2]
    if isinstance(rows, Expr) or rows % count:
        raise tracer.b.fail(f"{x} has no columns of {count} elements for each channel")
    per_axis = zip(output_size, kernel_size, dilation, padding, stride, strict=True)
    extents = [(size, d * (k - 1) + 1 - 2 * p, s) for size, k, d, p, s in per_axis]
    blocks = [(size - r) // s + 1 for size, r, s in extents]
    uncovered = [size - (blocks_ - 1) * s - r for (size, r, s), blocks_ in zip(extents, blocks, strict=True)]
    window = Window(tuple(stride), tuple(padding), tuple(padding), tuple(dilation))
    image = shapes.reshape(tracer.b, x, [n * (rows // count), count, *blocks])
    filters = _selection_filters(tracer, x, kernel_size)
    summed = convolutions.transposed_convolution(tracer.b, image, filters, window, output_padding=uncovered)
    summed = shapes.reshape(tracer.b, summed, [n, rows // count, *output_size])
    return summed if self.rank == 3 else shapes.squeeze(tracer.b, summed, [0])


COLUMNS: dict[str, Conversion] = {"aten.im2col": im2col, "aten.col2im": col2im}
