"""Images of columns: the sum of windows at their positions in an image (col2im)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.ir import SSAValue

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, DType
from pydispatch.graph.sizes import Size, is_static, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, elementwise, normalization, reductions
from pydispatch.operations.convolutions import Window
from pydispatch.operations.indexing import CoordinateBuilder
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


@dataclass(frozen=True)
class _Columns:
    """Windows of images as columns, [n, channels * elements of a window, windows], and their positions in the images.

    Attributes:
        dtype: Type of the elements.
        values: The columns.
        area: Number of elements of a window.
        kernel: Number of elements of a window along each spatial axis.
        counts: Number of windows along each spatial axis.
        strides: Distances of windows.
        padding_before: Positions before the image.
        dilations: Distances of neighbouring elements of a window.
    """

    dtype: DType
    values: SSAValue
    area: SSAValue
    kernel: Sequence[SSAValue]
    counts: Sequence[SSAValue]
    strides: Sequence[SSAValue]
    padding_before: Sequence[SSAValue]
    dilations: Sequence[SSAValue]

    @classmethod
    def of(
        cls, builder: Builder, x: Tensor, area: Size, kernel: Sequence[Size], counts: Sequence[Size],
        window: Window,
    ) -> _Columns:  # fmt: skip
        """Emit the sizes as SSA values before an operation, so that its body can use them.

        Args:
            builder: The builder.
            x: The columns, [n, channels * area, windows].
            area: Number of elements of a window.
            kernel: Number of elements of a window along each spatial axis; their product is `area`.
            counts: Number of windows along each spatial axis.
            window: Strides, padding and dilations of the windows; the padding after the image is not used.
        """
        area_value = builder.index(area)
        kernel_values, count_values, strides, padding_before, dilations = (
            [builder.index(n) for n in numbers]
            for numbers in (kernel, counts, window.strides, window.low, window.dilations)
        )
        return cls(
            dtype=x.dtype,
            values=builder.value(x),
            area=area_value,
            kernel=kernel_values,
            counts=count_values,
            strides=strides,
            padding_before=padding_before,
            dilations=dilations,
        )

    def term(self, scalars: Scalars) -> Scalar:
        """Return the k-th summand of an element of the image (col2im): element k of one window, or 0.

        At most one window has its element k at this position of the image; without one the summand is 0. The loops are
        the image n, its channel, one loop for each spatial axis, and k.
        """
        coords = CoordinateBuilder(scalars.block, [])
        batch, channel, k = coords.loop_index(0), coords.loop_index(1), coords.loop_index(2 + len(self.kernel))
        row = coords.plus(coords.times(channel, self.area), k)
        column, exists = self._column(coords, k)
        taken = coords.add_op(tensor.ExtractOp(self.values, [batch, row, column], self.dtype.element))
        return coords.select(Scalar(BOOL, (exists,)), Scalar(self.dtype, (taken,)), coords.const(0, self.dtype))

    def _column(self, coords: CoordinateBuilder, k: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Return the column whose element k is at the current position of the image, and whether there is one, an i1.

        A column is a window; columns are in row-major order of the windows. The current position along spatial axis d
        is loop 2 + d. No window has element k there if it would begin between strides, or outside of the padded image.
        The index is then that of another window, since the element is read even if it is not used.

        Example: an image of 5 elements, padding 1, and 3 windows of 3 elements with stride 2. At position 2, position 3
        of the padded image, element 1 is that of window 1, which begins at 2. Elements 0 and 2 would belong to windows
        that begin at 3 and 1, between strides.

        Args:
            coords: Builder of the body's operations.
            k: Index of the element in the window, in row-major order.
        """
        # remaining: k without the axes after d. The index of an element in the window is decoded from the last axis on.
        zero, one, remaining = coords.index_constant(0), coords.index_constant(1), k
        exists = coords.const(value=True, dtype=BOOL).value
        column, column_step = zero, one  # column_step: distance of the columns of neighbouring windows along axis d
        for d in reversed(range(len(self.kernel))):
            # Index of element k along axis d of the window. It determines where the window begins.
            offset = coords.add_op(arith.RemSIOp(remaining, self.kernel[d]))
            remaining = coords.add_op(arith.DivSIOp(remaining, self.kernel[d]))
            padded_position = coords.plus(coords.loop_index(2 + d), self.padding_before[d])
            begin = coords.minus(padded_position, coords.times(offset, self.dilations[d]))
            # Index of the window along axis d, if it begins there: `begin` must be a multiple of the stride.
            window_index = coords.add_op(arith.DivSIOp(begin, self.strides[d]))
            for holds in (
                arith.CmpiOp(begin, zero, "sge"),
                arith.CmpiOp(coords.times(window_index, self.strides[d]), begin, "eq"),
                arith.CmpiOp(window_index, self.counts[d], "slt"),
            ):
                exists = coords.add_op(arith.AndIOp(exists, coords.add_op(holds)))
            last = coords.minus(self.counts[d], one)
            column = coords.plus(column, coords.times(coords.clamped(window_index, last), column_step))
            column_step = coords.times(column_step, self.counts[d])
        return column, exists


def image_of_columns(
    builder: Builder, x: Tensor, sizes: Sequence[Size], kernel: Sequence[Size], window: Window
) -> Tensor:
    """Return images [n, channels, sizes...] in which each element is the sum of the window elements at its position.

    This is col2im, PyTorch's `fold`: it adds up what im2col copies. The columns [[a, b], [c, d]] are two windows of two
    elements, (a, c) and (b, d). With stride 1, they make the image a, c + b, d.

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
    columns = _Columns.of(builder, x, area, kernel, counts, window)
    # Each element of an image has `area` terms: term k is element k of the window that has it at this position, or 0.
    shape = (x.shape[0], channels, *sizes, area)
    (terms,) = elementwise.apply_several(builder, columns.term, shape=shape)
    wide = elementwise.convert(builder, terms, normalization.wide(x.dtype))
    return elementwise.convert(builder, reductions.reduce(builder, "add", wide, [2 + rank]), x.dtype)
