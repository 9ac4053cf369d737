"""Conversions of im2col and col2im: sliding windows of images as columns of a matrix, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, shapes
from pydispatch.operations.columns import image_of_columns
from pydispatch.operations.convolutions import Window

Ints = Sequence[int]
_MAX_WINDOW_ELEMENTS = 1024
"""Maximum number of elements of a window. The filters are a constant: with n elements of a window, n * n numbers."""


def _selection_filters(builder: Builder, x: Tensor, kernel: Ints) -> Tensor:
    """Return filters that each select one element of a window: [elements of a window, 1, *kernel], with a single 1.

    kernel: size of a window along each axis. x: tensor that has the element type of the filters.
    """
    count = math.prod(kernel)
    if not 0 < count <= _MAX_WINDOW_ELEMENTS:
        raise builder.fail(f"windows of {list(kernel)} elements; supported are 1 to {_MAX_WINDOW_ELEMENTS}")
    return builder.constant(np.eye(count).reshape(count, 1, *kernel), x.dtype)


@converts("aten.im2col")
def im2col(builder: Builder, self: Tensor, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints) -> Tensor:
    """Return the windows of an image [n, c, h, w] as columns [n, c * elements of a window, windows].

    The columns are a convolution with one filter for each element of a window: 1 at this element, 0 at all others. The
    n * c channels are images of one channel for it. An image without n gives columns without n.
    """
    x = self if self.rank == 4 else shapes.expand_dims(builder, self, axes=[0])
    n, c, *sizes = x.shape
    window = Window(tuple(stride), tuple(padding), tuple(padding), tuple(dilation))
    image = shapes.reshape(builder, x, [n * c, 1, *sizes])
    columns = convolutions.convolution(builder, image, _selection_filters(builder, x, kernel_size), window)
    count = math.prod(kernel_size)
    columns = shapes.reshape(builder, columns, [n, c * count, columns.shape[2] * columns.shape[3]])
    return columns if self.rank == 4 else shapes.squeeze(builder, columns, axes=[0])


@converts("aten.col2im")
def col2im(
    builder: Builder, self: Tensor, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Tensor:
    """Return the image in which the windows in the columns are added up at their positions, the adjoint of `im2col`.

    self: columns [n, c * elements of a window, windows], or without n. output_size: height and width of the image.
    """
    x = self if self.rank == 3 else shapes.expand_dims(builder, self, axes=[0])
    window = Window(tuple(stride), tuple(padding), tuple(padding), tuple(dilation))
    summed = image_of_columns(builder, x, output_size, kernel_size, window)
    return summed if self.rank == 3 else shapes.squeeze(builder, summed, axes=[0])
