"""Reductions of sliding windows over all axes of a tensor, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64, DType
from pydispatch.graph.size_functions import maximum
from pydispatch.graph.sizes import Expr, Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.convolutions import Window, window_sizes
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import Combine, least
from pydispatch.operations.scalars import Scalars, scalars_of
from pydispatch.operations.shapes import scalar_parts
from pydispatch.operations.slicing import pad, slice_


def reduce_windows(
    builder: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], kernel: Sequence[Size], window: Window,
    combine: Combine, input_dilations: Sequence[int] | None = None, *, around: Sequence[Tensor | complex] | None = None,
    out: Shape | None = None, window_axes: Sequence[int] | None = None,
) -> list[Tensor]:  # fmt: skip
    """Reduce each sliding window over tensors of one shape; the tensors are reduced together.

    Element k of window i along an axis is element i * stride + k * dilation of the padded axis. For example, the sums
    of windows of size 3 with the stride 2 over [1, 2, 3, 4, 5], without padding, are [6, 12].

    Args:
        builder: The builder.
        tensors: The operands.
        starts: Initial values of rank 0, one per result, with the types of the results.
        kernel: Size of the windows along each axis.
        window: Strides, padding and dilations.
        combine: Function combine(scalars, running values, elements) -> new running values, with a running value per
            result and an element per tensor. In it, `scalars.position(d)` is the index of the window along axis d, and
            `scalars.position(rank + n)` that of the element in the window along axis window_axes[n].
        input_dilations: Distances of the elements of the operands along each axis; padding values are between them: a
            distance of 2 spreads [1, 2] to [1, p, 2].
        around: Padding value p of each tensor; None for `starts`.
        out: Number of windows along each axis; None to derive it from the padding: 0 for an axis that is shorter than
            a window. The last window may exceed the padding.
        window_axes: Axes along which windows have several elements; None for those with a kernel size other than 1.
    """
    rank = tensors[0].rank
    interior = [n - 1 for n in input_dilations] if input_dilations else None  # padding elements between neighbours
    pad_values = starts if around is None else around
    padded = _padded(builder, tensors, pad_values, kernel, window, interior, out)
    if out is None:
        out, are_known_empty = _window_counts(builder, padded[0].shape, kernel, window)
        if are_known_empty:
            return [
                builder.wrap(t.dtype, out, *(builder.splat(value, out) for value in scalar_parts(builder, t)))
                for t in starts
            ]
    if window_axes is None:
        window_axes = [d for d in range(rank) if kernel[d] != 1]
    to_source, to_extent, to_result = _window_maps(rank, window, window_axes)
    inputs = [(part, to_source) for x in padded for part in builder.parts(x)]
    # This last operand, whose elements are not read, only states the sizes of the window loops.
    window_extent = builder.empty(tensors[0].dtype.element, [kernel[d] for d in window_axes])
    inputs.append((window_extent, to_extent))
    outputs = [(builder.splat(value, out), to_result) for t in starts for value in scalar_parts(builder, t)]
    dtypes = [x.dtype for x in tensors]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Apply `combine`, and return the parts of the new running values.

        `args` are the elements of the operands, the running values, and between them an unused element of
        `window_extent`, the operand that only states the sizes of the window loops.
        """
        count = len(inputs) - 1  # without `window_extent`
        elements = scalars_of(dtypes, args[:count])
        running = scalars_of([t.dtype for t in starts], args[count + 1 :])
        return [part for r in combine(Scalars(block), running, elements) for part in r.parts]

    parallel = [True] * rank + [False] * len(window_axes)
    values = iter(builder.generic(inputs, outputs, parallel=parallel, body=body))
    return [builder.wrap(t.dtype, out, *(next(values) for _ in range(2 if t.dtype.is_complex else 1))) for t in starts]


def _window_counts(builder: Builder, sizes: Shape, kernel: Sequence[Size], window: Window) -> tuple[Shape, bool]:
    """Return the number of windows along each axis of padded operands, and whether one of them is known to be 0.

    An axis that is known to be shorter than a window has none, as an axis without elements.
    """
    rank = len(sizes)
    extents = [_extent(n, window, d) for d, n in enumerate(kernel)]
    fits = [isinstance(n - extent, Expr) or n >= extent for n, extent in zip(sizes, extents, strict=True)]
    fitting_sizes = tuple(n if fit else extent for n, extent, fit in zip(sizes, extents, fits, strict=True))
    inside = Window(window.strides, (0,) * rank, (0,) * rank, window.dilations)
    counts = window_sizes(builder, fitting_sizes, kernel, inside)
    return tuple(n if fit else 0 for n, fit in zip(counts, fits, strict=True)), not all(fits)


def _window_maps(rank: int, window: Window, window_axes: Sequence[int]) -> tuple[AffineMap, AffineMap, AffineMap]:
    """Return the maps from the loops to the padded operand, to the position in a window, and to the result.

    The loops count the windows along each axis, then the elements of a window along `window_axes`. Element k of window
    i along an axis is element i * stride + k * dilation of the padded operand.
    """
    loops = rank + len(window_axes)
    position = {d: AffineExpr.dimension(rank + n) for n, d in enumerate(window_axes)}  # in the window, by axis
    source = tuple(
        AffineExpr.dimension(d) * window.strides[d] + (position[d] * window.dilations[d] if d in position else 0)
        for d in range(rank)
    )
    return (
        AffineMap(loops, 0, source),
        AffineMap(loops, 0, tuple(position[d] for d in window_axes)),
        AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank))),
    )


def _padded(
    builder: Builder, tensors: Sequence[Tensor], values: Sequence[Tensor | complex], kernel: Sequence[Size],
    window: Window, interior: Sequence[int] | None, out: Shape | None,
) -> list[Tensor]:  # fmt: skip
    """Return the tensors, each padded with its value, so that `out` windows of the size `kernel` fit exactly.

    If `out` is None, the padding is that of `window`. Otherwise the padding after each axis is computed from `out`: for
    an axis of 5 elements and 3 windows of size 2 with the stride 2, which span 6 elements, it is 1. `interior` is the
    number of padding elements between neighbours along each axis.
    """
    if out is None:
        return [
            pad(builder, x, window.low, window.high, value, interior) for x, value in zip(tensors, values, strict=True)
        ]
    high = tuple(_padding_after(n, out[d], kernel[d], window, d) for d, n in enumerate(tensors[0].shape))
    padded = [pad(builder, x, window.low, high, value, interior) for x, value in zip(tensors, values, strict=True)]
    # Dynamic padding may be larger than needed: each axis is cut after the last element of its last window.
    spans = [(out[d] - 1) * window.strides[d] + _extent(kernel[d], window, d) for d in range(len(out))]
    return [slice_(builder, x, [0] * len(out), spans) for x in padded]


def _extent(kernel: Size, window: Window, axis: int) -> Size:
    """Return the number of elements that a dilated window spans along an axis."""
    return (kernel - 1) * window.dilations[axis] + 1


def _padding_after(n: Size, out: Size, kernel: Size, window: Window, axis: int) -> Size:
    """Return the padding after an axis of n elements with which `out` windows fit.

    A static result is exact. It is negative if no window contains the last elements: 7 elements and 2 windows of size
    and stride 3 give -1. A dynamic result is never negative, and may be larger than needed: `reduce_windows` cuts off
    the rest.
    """
    extent, step, low, stated = _extent(kernel, window, axis), window.strides[axis], window.low[axis], window.high[axis]
    needed = (out - 1) * step + extent - low - n  # end of the last window minus the end of the axis
    if not isinstance(needed, Expr):
        return needed
    # As many windows as end within the stated padding, rounded down. A model that rounds up (ceil_mode) has one more
    # window, which can end after the padding.
    windows_within_padding = (n + low + stated - extent) // step + 1
    return stated if out == windows_within_padding else maximum(0, needed)


def reduce_image_windows(
    builder: Builder,
    x: Tensor,
    starts: Sequence[tuple[float, DType]],
    kernel: Sequence[Size],
    window: Window,
    out: Shape,
    combine: Combine,
    around: complex,
) -> list[Tensor]:
    """Reduce each window that slides over the spatial axes of x [n, c, ...]; return [n, c, *out] for each of `starts`.

    x has n images with c channels. Its further axes are spatial, such as the height and the width. Example: for x
    [1, 8, 32, 32] and windows of 2 x 2 with the stride 2, `out` is (16, 16) and a result [1, 8, 16, 16].

    Args:
        builder: The builder.
        x: The images.
        starts: Initial running value and type of each result.
        kernel: Size of the windows along each spatial axis.
        window: Strides, padding and dilations along the spatial axes.
        out: Number of windows along each spatial axis; the last one may exceed the padding.
        combine: Function combine(scalars, running values, elements) -> new running values, with a running value per
            result and a list of one element. In it, scalars.position(2 + d) is the index of the window along spatial
            axis d, and scalars.position(2 + len(out) + d) that of the element in the window.
        around: Value of the padding.
    """
    # Windows over x as a whole, with one element along the first two axes.
    whole = Window((1, 1, *window.strides), (0, 0, *window.low), (0, 0, *window.high), (1, 1, *window.dilations))
    return reduce_windows(
        builder, [x], [builder.constant(start, dtype) for start, dtype in starts], (1, 1, *kernel), whole, combine,
        around=[around], out=(*x.shape[:2], *out), window_axes=range(2, x.rank),
    )  # fmt: skip


def pool(builder: Builder, name: str, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape) -> Tensor:
    """Return the sum ("add") or maximum ("max") of each window over the spatial axes of x [n, c, ...].

    kernel: size of the windows. out: number of windows along each spatial axis. The last window may extend beyond the
    padding that `window` states, as with ceil_mode.
    """
    start = least(x.dtype) if name == "max" else 0

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Combine the running value with an element by the function of the pooling."""
        return [scalars.binary(name, running[0], elements[0])]

    # The neutral element of the function is also the value of the padding.
    return reduce_image_windows(builder, x, [(start, x.dtype)], kernel, window, out, combine, start)[0]


def max_pool_with_indices(
    builder: Builder, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape, *, columns: bool = False
) -> list[Tensor]:
    """Return the maximum of each window over the spatial axes of x [n, c, ...], and its index in its image.

    An image is the spatial axes of one n and c. An index is i64 and counts row by row, or column by column with
    `columns`. It is that of the first of equal elements. NaN counts as the largest number; of several, the last one is
    taken. An empty window gives the smallest number of the type and -1.

    Args:
        builder: The builder.
        x: The images.
        kernel: Size of the windows along each spatial axis.
        window: Strides, padding and dilations of the windows.
        out: Number of windows along each spatial axis; the last one may extend beyond the padding of `window`.
        columns: Whether indices count column by column.
    """
    spatial = len(out)
    axes_of_index = range(spatial)[::-1] if columns else range(spatial)
    image_sizes, padding_before = ([builder.index(n) for n in values] for values in (x.shape[2:], window.low))

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Return (best, position), or the next element of the window and its index if that element is larger.

        `best` begins as the smallest number, with position -1. An element of the padding never replaces it. Loops
        count batches, channels, the spatial positions of windows, and the positions in a window, in this order.

        `image_sizes` and `padding_before` have a number for each of the `spatial` axes of an image; `axes_of_index` are
        these axes in the order in which they count for the index, the slowest first.
        """
        (best, position), (value,) = running, elements
        # The position of the element in the image along each axis, and whether it is an element of the image.
        n = [scalars.emit(I64, arith.IndexCastOp(size, I64.element)) for size in image_sizes]
        # position along an axis = index of the window * stride + index in the window * dilation - padding
        inside, at = scalars.const(value=True, dtype=BOOL), []
        for d in range(spatial):
            first = scalars.binary("mul", scalars.position(2 + d), scalars.const(window.strides[d], I64))
            step = scalars.binary("mul", scalars.position(2 + spatial + d), scalars.const(window.dilations[d], I64))
            low = scalars.emit(I64, arith.IndexCastOp(padding_before[d], I64.element))
            at.append(scalars.binary("sub", scalars.binary("add", first, step), low))
            inside = scalars.binary("and", inside, scalars.compare("ge", at[d], scalars.const(0, I64)))
            inside = scalars.binary("and", inside, scalars.compare("lt", at[d], n[d]))
        here = scalars.const(0, I64)
        for d in axes_of_index:  # the first axis changes the index most: row-major order for axes 0, 1, ...
            here = scalars.binary("add", scalars.binary("mul", here, n[d]), at[d])

        # The first element of a window is taken although it may equal the initial value.
        better = scalars.binary(
            "or", scalars.compare("gt", value, best), scalars.compare("lt", position, scalars.const(0, I64))
        )
        if value.dtype.is_float:
            better = scalars.binary("or", better, scalars.unary("is_nan", value))
        taken = scalars.binary("and", inside, better)
        return [scalars.select(taken, value, best), scalars.select(taken, here, position)]

    start = least(x.dtype)
    return reduce_image_windows(builder, x, [(start, x.dtype), (-1, I64)], kernel, window, out, combine, start)


def sum_over_windows(
    builder: Builder, x: Tensor, sizes: Shape, kernel: Sequence[int], window: Window, positions: Tensor | None = None
) -> Tensor:
    """Return, for each element of images [n, c, *sizes], the sum of x [n, c, ...] over the windows that contain it.

    x has one element per window, like the result of a pooling. With `positions`, the row-major index in the image of
    one element for each window, a window contributes to that element only. If x has the gradients of the windows, the
    result is the gradient of a sum pooling, and with `positions` that of a maximum pooling.

    For an image of 3 elements and windows of size 2 with the stride 1, x = [10, 20] gives [10, 30, 20]; with positions
    [1, 1] it gives [0, 30, 0].

    Args:
        builder: The builder.
        x: The elements of the windows.
        sizes: Spatial sizes of the images.
        kernel: Size of the windows along each spatial axis.
        window: Strides, padding and dilations of the windows over the images.
        positions: The chosen element of each window, i64 of the shape of x; None for all elements.
    """
    spatial = len(sizes)  # number of spatial axes; the first two axes are the images and the channels
    transposed = _transposed_window(sizes, x.shape[2:], kernel, window)
    axis_sizes = [builder.index(n) for n in sizes]

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Add the element of a window that contains this one; with `positions`, only of a window that chose it.

        elements: the value of the window, and the index of the element that it chose.
        """
        value = elements[0]
        if positions is not None:
            own_index = scalars.const(0, I64)
            for d in range(spatial):
                count = scalars.emit(I64, arith.IndexCastOp(axis_sizes[d], I64.element))
                own_index = scalars.binary("add", scalars.binary("mul", own_index, count), scalars.position(2 + d))
            value = scalars.select(scalars.compare("eq", own_index, elements[1]), value, scalars.const(0, value.dtype))
        return [scalars.binary("add", running[0], value)]

    # Positions of the padding are -1, which is the index of no element.
    operands, around = ([x], [0]) if positions is None else ([x, positions], [0, -1])
    (sums,) = reduce_windows(
        builder, operands, [builder.constant(0, x.dtype)], (1, 1, *kernel), transposed, combine,
        input_dilations=(1, 1, *window.strides), around=around, window_axes=range(2, 2 + spatial),
    )  # fmt: skip
    return builder.as_shape(sums, (*x.shape[:2], *sizes))


def _transposed_window(sizes: Shape, counts: Shape, kernel: Sequence[int], window: Window) -> Window:
    """Return the window of a transposed pooling: it slides over the results of a pooling, [n, c, ...], with stride 1.

    The results are window.strides apart. Window e of these consists of the windows over the image that contain element
    e of it. They begin at the positions e + window.low - k * dilation of the padded image, for k from 0 to kernel - 1.
    The first of these positions is -low, for element 0. The last one, for the last element, is `high` positions after
    (n - 1) * stride, the position where the last of the n windows over the image begins.

    sizes: of the images along the spatial axes. counts: numbers n of windows along these. window: of the pooling.
    """
    low = [(k - 1) * step - before for k, step, before in zip(kernel, window.dilations, window.low, strict=True)]
    pairs = zip(sizes, window.low, counts, window.strides, strict=True)
    high = [size - 1 + before - (n - 1) * stride for size, before, n, stride in pairs]
    return Window((1, 1, *(1,) * len(sizes)), (0, 0, *low), (0, 0, *high), (1, 1, *window.dilations))
