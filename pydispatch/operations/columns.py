"""Images of columns: the sum of windows at their positions in an image (col2im)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, tensor
from xdsl.ir import SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL
from pydispatch.graph.sizes import Size, is_static, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, normalization, reductions
from pydispatch.operations.convolutions import Window
from pydispatch.operations.indexing import CoordinateBuilder
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def image_of_columns(
    builder: Builder, x: Tensor, sizes: Sequence[Size], kernel: Sequence[Size], window: Window
) -> Tensor:
    """Return images [n, channels, sizes...] in which each element is the sum of the window elements at its position.

    Args:
        builder: The builder.
        x: Windows as columns, [n, channels * elements of a window, windows]; windows are in row-major order.
        sizes: Sizes of the images along each spatial axis, without padding.
        kernel: Number of elements of a window along each spatial axis.
        window: Strides, padding and dilations of the windows.
    """
    # Number of windows along each spatial axis.
    counts = convolutions.window_sizes(builder, tuple(sizes), kernel, window)
    for count in counts:
        builder.require_positive(count, "a window is larger than the padded image")
    area = product(kernel)  # elements of a window
    if x.rank != 3 or (is_static([x.shape[1], area]) and x.shape[1] % area):
        raise builder.fail(f"{x} is not [n, channels * {area}, windows], as windows of {list(kernel)} elements need")
    builder.require_equal(x.shape[2], product(counts), f"{x} has {{a}} windows; the image has {{b}}")
    rank, channels = len(kernel), x.shape[1] // area
    builder.require_equal(x.shape[1], channels * area, f"{x} has {{a}} rows, which is not {{b}}, a multiple of {area}")
    # Emitted before the loops, whose bodies use them.
    area_value = builder.index(area)
    kernel_values, count_values, strides, lows, dilations = (
        [builder.index(n) for n in sizes] for sizes in (kernel, counts, window.strides, window.low, window.dilations)
    )
    source = builder.value(x)

    def element(scalars: Scalars) -> Scalar:
        """Return the term of index k of an element of the image: that of one window, or 0.

        It is element k of the window whose element k is at this position of the image. There is none if the window
        would begin between strides or outside of the padding. The loops are n, channel, one for each spatial axis, k.
        """
        coords = CoordinateBuilder(scalars.block, [])
        batch, channel, k = coords.loop_index(0), coords.loop_index(1), coords.loop_index(2 + rank)
        zero, remaining = coords.index_constant(0), k
        row = coords.plus(coords.times(channel, area_value), k)
        is_inside: SSAValue | None = None
        # `column` is the window's row-major index; `column_step` the distance of neighbouring windows along axis d.
        column, column_step = zero, coords.index_constant(1)
        for d in reversed(range(rank)):
            offset = coords.add_op(arith.RemSIOp(remaining, kernel_values[d]))
            remaining = coords.add_op(arith.DivSIOp(remaining, kernel_values[d]))
            begin = coords.minus(coords.plus(coords.loop_index(2 + d), lows[d]), coords.times(offset, dilations[d]))
            # Index of the window along axis d, if it begins there: `begin` must be a multiple of the stride.
            window_index = coords.add_op(arith.DivSIOp(begin, strides[d]))
            for holds in (
                arith.CmpiOp(begin, zero, "sge"),
                arith.CmpiOp(coords.times(window_index, strides[d]), begin, "eq"),
                arith.CmpiOp(window_index, count_values[d], "slt"),
            ):
                condition = coords.add_op(holds)
                is_inside = condition if is_inside is None else coords.add_op(arith.AndIOp(is_inside, condition))
            last = coords.minus(count_values[d], coords.index_constant(1))
            # Clamped, since the element is read even if it is not used.
            column = coords.plus(column, coords.times(coords.clamped(window_index, last), column_step))
            column_step = coords.times(column_step, count_values[d])
        assert is_inside is not None
        taken = coords.add_op(tensor.ExtractOp(source, [batch, row, column], x.dtype.element))
        return coords.select(Scalar(BOOL, (is_inside,)), Scalar(x.dtype, (taken,)), coords.const(0, x.dtype))

    shape = (x.shape[0], channels, *sizes, area)
    (terms,) = elementwise.apply_several(builder, element, shape=shape)
    wide = elementwise.convert(builder, terms, normalization.wide(x.dtype))
    return elementwise.convert(builder, reductions.reduce(builder, "add", wide, [2 + rank]), x.dtype)
