"""Operators that reduce windows of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Shape, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx.call import Call
from pydispatch.frontends.onnx.operators.products import spatial_rank, window_of
from pydispatch.frontends.onnx.trace import Conversion
from pydispatch.frontends.ops import elementwise, normalization, products, reductions, shapes, windows
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.ops.products import Window


def _moving(c: Call, x: Tensor) -> tuple[list[Size], Window, Shape]:
    """Return the sizes of the windows, how they move, and how many there are along each axis."""
    kernel = c.integers("kernel_shape")
    if any(not 1 <= k <= 1 << 20 for k in kernel):
        raise c.fail(f"its kernel_shape is {kernel}")
    ceil = c.flag("ceil_mode")
    window = window_of(c, x, kernel)
    return list(kernel), window, products.window_sizes(c.b, x.shape[2:], kernel, window, ceil)


def _max_pool(c: Call, x: Tensor) -> Sequence[Tensor]:
    kernel, window, out = _moving(c, x)
    columns = c.flag("storage_order")
    if c.results < 2:
        return [windows.pool(c.b, "max", x, kernel, window, out)]
    made, places = windows.max_pool_with_places(c.b, x, kernel, window, out, columns=columns)
    # Places count from the first element of x, not of each channel.
    image, channels = (reductions.size_as(c.b, n, I64) for n in (product(x.shape[2:]), x.shape[1]))

    def whole(p: Element, image: Element, channels: Element) -> Element:
        return p + (p.position(0, I64) * channels + p.position(1, I64)) * image

    return [made, formula(c.b, whole, places, image, channels)]


def _average_pool(c: Call, x: Tensor) -> Tensor:
    everything = c.flag("count_include_pad")
    kernel, window, out = _moving(c, x)
    inner = normalization.wide(x.dtype)
    total = windows.pool(c.b, "add", elementwise.convert(c.b, x, inner), kernel, window, out)
    if not _reaches_beyond(x, kernel, window, out, everything):
        size = float(np.prod(np.array(kernel)))
        return formula(c.b, lambda v: (v / size).to(x.dtype), total)
    spatial = len(out)
    ones = shapes.full(c.b, 1.0, (1, 1, *x.shape[2:]), inner)
    counted = window
    if everything:
        ones = shapes.pad(c.b, ones, (0, 0, *window.low), (0, 0, *window.high), 1.0)
        counted = Window(window.strides, (0,) * spatial, (0,) * spatial, window.dilations)
    counts = windows.pool(c.b, "add", ones, kernel, counted, out)
    return formula(c.b, lambda v, n: (v / n).to(x.dtype), total, counts)


def _reaches_beyond(x: Tensor, kernel: Sequence[Size], window: Window, out: Shape, everything: bool) -> bool:
    """Return whether some window has elements that do not count."""
    for d, k in enumerate(kernel):
        last = (out[d] - 1) * window.strides[d] + (k - 1) * window.dilations[d] + 1
        low, high = window.low[d], window.high[d]
        room = x.shape[2 + d] + low + high
        if (not everything and (low != 0 or high != 0)) or (isinstance(last, Expr) and last != room):
            return True
        if not isinstance(last, Expr) and not isinstance(room, Expr) and last > room:
            return True
    return False


def _lp_pool(c: Call, x: Tensor) -> Tensor:
    order = c.integer("p", 2)
    kernel, window, out = _moving(c, x)
    powers = formula(c.b, lambda v: v * v if order == 2 else v.of("abs").binary("pow", float(order)), x)
    total = windows.pool(c.b, "add", powers, kernel, window, out)
    return formula(c.b, lambda v: v.of("sqrt") if order == 2 else v.binary("pow", 1.0 / order), total)


def _spatial(c: Call, x: Tensor) -> list[int]:
    return list(range(2, 2 + spatial_rank(c, x)))


def _global_average(c: Call, x: Tensor) -> Tensor:
    wide = elementwise.convert(c.b, x, normalization.wide(x.dtype))
    return elementwise.convert(c.b, reductions.mean(c.b, wide, _spatial(c, x), True), x.dtype)


def _global_max(c: Call, x: Tensor) -> Tensor:
    return reductions.reduce(c.b, "max", x, _spatial(c, x), True)


def _global_lp(c: Call, x: Tensor) -> Tensor:
    return normalization.lp_norm(c.b, x, float(c.integer("p", 2)), _spatial(c, x), True)


def _col2im(c: Call, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Put blocks beside each other in an image; where they overlap, they are summed."""
    sizes = [int(n) for n in c.numbers(image, "image_shape").reshape(-1)]
    kernel = [int(n) for n in c.numbers(block, "block_shape").reshape(-1)]
    rank = len(kernel)
    strides, dilations, pads = (
        c.integers("strides", [1] * rank),
        c.integers("dilations", [1] * rank),
        c.integers("pads", [0] * 2 * rank),
    )
    if len(sizes) != rank or any(len(n) != rank for n in (strides, dilations)) or len(pads) != 2 * rank:
        raise c.fail(f"an image of {sizes} and blocks of {kernel} do not fit together")
    window = Window(tuple(strides), tuple(pads[:rank]), tuple(pads[rank:]), tuple(dilations))
    steps = products.window_sizes(c.b, tuple(sizes), kernel, window)
    per = math.prod(kernel)
    n, columns = x.shape[0], x.shape[1]
    if isinstance(columns, Expr) or columns % per or x.rank != 3:
        raise c.fail(f"its operand is {x}; expected [n, channels * {per}, blocks]")
    blocks = shapes.reshape(c.b, x, [n * (columns // per), per, *steps])
    # A transposed convolution whose filter number k has its only 1 at place k.
    filters = c.b.constant(np.eye(per).reshape(per, 1, *kernel), x.dtype)
    # What the last block does not reach stays 0.
    missing = [size - ((step - 1) * s + (k - 1) * d + 1 - low - high)
               for size, step, s, k, d, low, high in
               zip(sizes, steps, strides, kernel, dilations, pads[:rank], pads[rank:], strict=True)]  # fmt: skip
    made = products.transposed_convolution(c.b, blocks, filters, window, output_padding=missing)
    return shapes.reshape(c.b, made, [n, columns // per, *sizes])


TABLE: dict[str, Conversion] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "GlobalLpPool": _global_lp,
    "Col2Im": _col2im,
}
