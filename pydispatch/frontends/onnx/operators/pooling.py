"""Conversions of pooling operators, which reduce windows of elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.operators.products import paddings, positive, spatial_rank, window_of
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Shape, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, normalization, reductions, shapes, slicing, windows
from pydispatch.operations.columns import image_of_columns
from pydispatch.operations.convolutions import Window
from pydispatch.operations.formulas import Element, formula


def _pooling_window(call: NodeCall, x: Tensor) -> tuple[list[Size], Window, Shape]:
    """Return, for the spatial axes of x [n, c, ...], the sizes of the windows, their geometry (strides, padding,
    dilations), and the number of windows along each axis.
    """
    kernel = call.integers("kernel_shape")
    if any(not 1 <= k <= 1 << 20 for k in kernel):  # so that sizes stay within 64 bits
        raise call.fail(f"its kernel_shape is {kernel}; expected sizes from 1 to {1 << 20}")
    ceil = call.flag("ceil_mode")
    window = window_of(call, x, kernel)
    return list(kernel), window, convolutions.window_sizes(call.b, x.shape[2:], kernel, window, ceil)


@ONNX.converts("MaxPool")
def _max_pool(call: NodeCall, x: Tensor) -> Sequence[Tensor]:
    """Return the maximum of each window and, if the node has two results, its position in flattened x.

    With the attribute storage_order positions within an image, the spatial axes of one channel, are column-major.
    """
    kernel, window, out = _pooling_window(call, x)
    is_column_major = call.flag("storage_order")
    if call.results < 2:
        return [windows.pool(call.b, "max", x, kernel, window, out)]
    result, positions = windows.max_pool_with_indices(call.b, x, kernel, window, out, columns=is_column_major)
    # Indices of windows.max_pool_with_indices count within one channel; indices of ONNX count within all of x.
    image, channels = (reductions.size_as(call.b, n, I64) for n in (product(x.shape[2:]), x.shape[1]))

    def global_position(p: Element, image: Element, channels: Element) -> Element:
        """Return the index in all of x [n, c, ...] of an element, from its index p in its channel of `image` elements.

        `p.position(d)` is the index of the element along axis d: 0 for the batch, 1 for the channel.
        """
        return p + (p.position(0, I64) * channels + p.position(1, I64)) * image

    return [result, formula(call.b, global_position, positions, image, channels)]


@ONNX.converts("AveragePool")
def average_pool(call: NodeCall, x: Tensor) -> Tensor:
    """Return the mean of each window. With count_include_pad, padding counts as zeros, else it does not count.

    If all windows have the same number of elements that count, sums are divided by it. Otherwise the counts are sums
    over the windows of a tensor of ones.
    """
    # The sums of the windows, in a type that is wide enough for them.
    counts_padding = call.flag("count_include_pad")
    kernel, window, out = _pooling_window(call, x)
    inner = normalization.wide(x.dtype)
    total = windows.pool(call.b, "add", elementwise.convert(call.b, x, inner), kernel, window, out)
    if not _needs_counts(x, kernel, window, out, counts_padding):
        size = float(np.prod(np.array(kernel)))
        return formula(call.b, lambda v: (v / size).to(x.dtype), total)
    # The numbers of elements that count: sums over the windows of ones.
    spatial_rank = len(out)
    ones = shapes.full(call.b, 1.0, (1, 1, *x.shape[2:]), inner)
    count_window = window
    if counts_padding:  # the padding becomes part of the tensor of ones; beyond it (ceil_mode) nothing counts
        ones = slicing.pad(call.b, ones, (0, 0, *window.low), (0, 0, *window.high), 1.0)
        count_window = Window(window.strides, (0,) * spatial_rank, (0,) * spatial_rank, window.dilations)
    counts = windows.pool(call.b, "add", ones, kernel, count_window, out)
    return formula(call.b, lambda v, n: (v / n).to(x.dtype), total, counts)


def _needs_counts(x: Tensor, kernel: Sequence[Size], window: Window, out: Shape, counts_padding: bool) -> bool:
    """Return whether windows of an average pooling may differ in their divisors, so that these must be computed.

    A divisor is the number of elements of the window, including those of the padding if `counts_padding`. These differ
    with padding that does not count, or if ceil_mode lets the last window exceed the padded input. A dynamic end of
    the last window is taken to exceed it unless it equals the padded size.
    """
    for d, k in enumerate(kernel):
        last_end = (out[d] - 1) * window.strides[d] + (k - 1) * window.dilations[d] + 1  # end of the last window
        low, high = window.low[d], window.high[d]
        padded_size = x.shape[2 + d] + low + high
        if (not counts_padding and (low != 0 or high != 0)) or (isinstance(last_end, Expr) and last_end != padded_size):
            return True
        if not isinstance(last_end, Expr) and not isinstance(padded_size, Expr) and last_end > padded_size:
            return True
    return False


@ONNX.converts("LpPool")
def _lp_pool(call: NodeCall, x: Tensor) -> Tensor:
    """Return the p-norm of each window."""
    order = call.integer("p", 2)
    kernel, window, out = _pooling_window(call, x)
    powers = formula(call.b, lambda v: v * v if order == 2 else v.unary("abs").binary("pow", float(order)), x)
    total = windows.pool(call.b, "add", powers, kernel, window, out)
    return formula(call.b, lambda v: v.unary("sqrt") if order == 2 else v.binary("pow", 1.0 / order), total)


def _spatial(call: NodeCall, x: Tensor) -> list[int]:
    """Return the spatial axes of x [n, c, ...]."""
    return list(range(2, 2 + spatial_rank(call, x)))


@ONNX.converts("GlobalAveragePool")
def global_average_pool(call: NodeCall, x: Tensor) -> Tensor:
    """Return the mean over the spatial axes."""
    wide = elementwise.convert(call.b, x, normalization.wide(x.dtype))
    return elementwise.convert(call.b, reductions.mean(call.b, wide, _spatial(call, x), keep=True), x.dtype)


@ONNX.converts("GlobalMaxPool")
def _global_max(call: NodeCall, x: Tensor) -> Tensor:
    """Return the maximum over the spatial axes."""
    return reductions.reduce(call.b, "max", x, _spatial(call, x), keep=True)


@ONNX.converts("GlobalLpPool")
def _global_lp(call: NodeCall, x: Tensor) -> Tensor:
    """Return the p-norm over the spatial axes."""
    return normalization.lp_norm(call.b, x, float(call.integer("p", 2)), _spatial(call, x), keep=True)


@ONNX.converts("Col2Im")
def _col2im(call: NodeCall, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Put blocks [n, channels * block elements, blocks] at their positions in an image; where they overlap, they are
    summed. `image` and `block` have the spatial sizes of an image and a block.
    """
    sizes, kernel = call.sizes(image, "image_shape"), call.sizes(block, "block_shape")
    rank = len(kernel)
    strides, dilations = positive(call, "strides", rank), positive(call, "dilations", rank)
    pads = paddings(call, "pads", 2 * rank)
    if len(sizes) != rank:
        raise call.fail(f"an image of {sizes} and blocks of {kernel} do not fit together")
    window = Window(tuple(strides), tuple(pads[:rank]), tuple(pads[rank:]), tuple(dilations))
    return image_of_columns(call.b, x, sizes, kernel, window)
