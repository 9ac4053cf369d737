"""Reductions of sliding windows over all axes of a tensor, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, tensor
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64, DType
from pydispatch.graph.sizes import Expr, Shape, Size, maximum
from pydispatch.graph.values import Tensor
from pydispatch.operations.convolutions import Window, window_sizes
from pydispatch.operations.indexing import CoordinateBuilder, with_an_element
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import Combine, least
from pydispatch.operations.scalars import Scalars, scalars_of
from pydispatch.operations.shapes import scalar_parts
from pydispatch.operations.slicing import pad, slice_

Select = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Function select(scalars, element selected so far, next element) -> whether the former stays selected."""


def reduce_windows(
    builder: Builder, tensors: Sequence[Tensor], starts: Sequence[Tensor], kernel: Sequence[Size], window: Window,
    combine: Combine, input_dilations: Sequence[int] | None = None, *, around: Sequence[Tensor | complex] | None = None,
    out: Shape | None = None, window_axes: Sequence[int] | None = None,
) -> list[Tensor]:  # fmt: skip
    """Reduce each sliding window over tensors of one shape; the tensors are reduced together.

    Args:
        builder: The builder.
        tensors: The operands.
        starts: Initial values of rank 0, one per result, with the types of the results.
        kernel: Size of the windows along each axis.
        window: Strides, padding and dilations.
        combine: Function that combines running values and elements. In it, `scalars.position(d)` is the index of the
            window along axis d, and `scalars.position(rank + n)` that of the element in the window along axis
            window_axes[n].
        input_dilations: Distances of the elements of the operands along each axis; `around` is between them.
        around: Padding value of each tensor; None for `starts`.
        out: Number of windows along each axis; None to derive it from the padding. The last window may exceed the
            padding.
        window_axes: Axes along which windows have several elements; None for those with a kernel size other than 1.
    """
    rank = tensors[0].rank
    interior = [n - 1 for n in input_dilations] if input_dilations else None  # padding elements between neighbours
    high = window.high
    if out is not None:
        high = tuple(_padding_after(n, out[d], kernel[d], window, d) for d, n in enumerate(tensors[0].shape))
    pad_values = starts if around is None else around
    padded = [pad(builder, x, window.low, high, value, interior) for x, value in zip(tensors, pad_values, strict=True)]
    if out is not None:
        # Dynamic padding may be larger than needed: each axis is cut after the last element of its last window.
        spans = [(out[d] - 1) * window.strides[d] + _extent(kernel[d], window, d) for d in range(rank)]
        padded = [slice_(builder, x, [0] * rank, spans) for x in padded]
    if out is None:
        inside = Window(window.strides, (0,) * rank, (0,) * rank, window.dilations)
        out = window_sizes(builder, padded[0].shape, kernel, inside)
    if window_axes is None:
        window_axes = [d for d in range(rank) if kernel[d] != 1]
    loops = rank + len(window_axes)
    position = {d: AffineExpr.dimension(rank + n) for n, d in enumerate(window_axes)}  # in the window, by axis
    # Element k of window i along an axis is element i * stride + k * dilation of the padded operand.
    source = tuple(
        AffineExpr.dimension(d) * window.strides[d] + (position[d] * window.dilations[d] if d in position else 0)
        for d in range(rank)
    )
    inputs = [(part, AffineMap(loops, 0, source)) for x in padded for part in builder.parts(x)]
    # This last operand, whose elements are not read, only states the sizes of the window loops.
    window_extent = builder.empty(tensors[0].dtype.element, [kernel[d] for d in window_axes])
    inputs.append((window_extent, AffineMap(loops, 0, tuple(position[d] for d in window_axes))))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    outputs = [(builder.splat(value, out), to_result) for t in starts for value in scalar_parts(builder, t)]
    dtypes = [x.dtype for x in tensors]

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Apply `combine`. `args` are the elements of the operands, one of `window_extent`, and the running values."""
        count = len(inputs) - 1
        elements = scalars_of(dtypes, args[:count])
        running = scalars_of([t.dtype for t in starts], args[count + 1 :])
        return [part for r in combine(Scalars(block), running, elements) for part in r.parts]

    values = iter(builder.generic(inputs, outputs, parallel=[n < rank for n in range(loops)], body=body))
    return [builder.wrap(t.dtype, out, *(next(values) for _ in range(2 if t.dtype.is_complex else 1))) for t in starts]


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
    needed = (out - 1) * step + extent - low - n
    if not isinstance(needed, Expr):
        return needed
    # Rounding down, these windows end within the stated padding. A model that rounds up (ceil_mode) has one more
    # window, which can end after it.
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
    """Apply `reduce_windows` to the spatial axes of x [n, c, ...]; return [n, c, *out] for each of `starts`.

    kernel, window and out are those of the spatial axes. `starts` has initial values with the types of the results.
    `around` is the value of the padding. In `combine`, scalars.position(2 + d) is the index of the window along spatial
    axis d, and scalars.position(2 + len(out) + d) that of the element in the window.
    """
    whole = Window((1, 1, *window.strides), (0, 0, *window.low), (0, 0, *window.high), (1, 1, *window.dilations))
    return reduce_windows(
        builder, [x], [builder.constant(start, dtype) for start, dtype in starts], (1, 1, *kernel), whole, combine,
        around=[around], out=(*x.shape[:2], *out), window_axes=range(2, x.rank),
    )  # fmt: skip


def pool(builder: Builder, name: str, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape) -> Tensor:
    """Return the sum ("add") or maximum ("max") of each window over the spatial axes of x [n, c, ...].

    kernel: size of the windows. out: number of windows along each spatial axis; the last one may exceed the padding.
    """
    start = least(x.dtype) if name == "max" else 0

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Combine the running value with an element by the function of the pooling."""
        return [scalars.binary(name, running[0], elements[0])]

    return reduce_image_windows(builder, x, [(start, x.dtype)], kernel, window, out, combine, start)[0]


def max_pool_with_indices(
    builder: Builder, x: Tensor, kernel: Sequence[Size], window: Window, out: Shape, *, columns: bool = False
) -> list[Tensor]:
    """Return the maximum of each window over the spatial axes of x [n, c, ...], and its index in its image.

    Arguments are those of `pool`. An image is the spatial axes of one n and c.

    An index is i64 and counts row by row, or column by column with `columns`. It is that of the first of equal
    elements. NaN counts as the largest number; of several, the last one is taken. An empty window gives the
    smallest number of the type and -1.
    """
    spatial = len(out)
    axes_of_index = range(spatial)[::-1] if columns else range(spatial)
    image_sizes, padding_before = ([builder.index(n) for n in values] for values in (x.shape[2:], window.low))

    def combine(scalars: Scalars, running: Sequence[Scalar], elements: Sequence[Scalar]) -> list[Scalar]:
        """Return (best, position), or the next element of the window and its index if that element is larger.

        `best` begins as the smallest number, with position -1. An element of the padding never replaces it. Loops
        count batches, channels, the spatial positions of windows, and the positions in a window, in this order.
        """
        (best, position), (value,) = running, elements
        n = [scalars.emit(I64, arith.IndexCastOp(size, I64.element)) for size in image_sizes]
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

    x has one element per window, like the result of a pooling. With `positions`, the row-major index of one element for
    each window, a window contributes to that element only.
    """
    # The sum is a transposed pooling: windows of stride 1 slide over x, whose elements are window.strides apart.
    spatial = len(sizes)  # number of spatial axes; the first two axes are the images and the channels
    low = [(k - 1) * step - before for k, step, before in zip(kernel, window.dilations, window.low, strict=True)]
    pairs = zip(sizes, window.low, x.shape[2:], window.strides, strict=True)
    high = [size - 1 + before - (n - 1) * stride for size, before, n, stride in pairs]
    ones, zeros = (1,) * spatial, (0, 0)
    padded = Window((1, 1, *ones), (*zeros, *low), (*zeros, *high), (1, 1, *window.dilations))
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
        builder, operands, [builder.constant(0, x.dtype)], (1, 1, *kernel), padded, combine,
        input_dilations=(1, 1, *window.strides), around=around, window_axes=range(2, 2 + spatial),
    )  # fmt: skip
    return builder.as_shape(sums, (*x.shape[:2], *sizes))


def select_and_scatter(
    builder: Builder, x: Tensor, source: Tensor, start: Tensor, kernel: Sequence[Size], window: Window, select: Select,
    combine: Callable[[Scalars, Scalar, Scalar], Scalar],
) -> Tensor:  # fmt: skip
    """Combine each element of `source` into the element of x's shape that `select` selects in its window over x.

    `start` is the initial value of all elements of the result. `window` has no dilation, and `source` one element per
    window. `select` and `combine` emit select(scalars, best, element), whether `best` stays selected, and
    combine(scalars, running value, element).

    The first pass records the selected index of each window; the second combines, for each element, the windows that
    selected it.
    """
    chosen = _selected_positions(builder, x, source.shape, kernel, window, select)
    rank = x.rank
    window_extent = builder.empty(x.dtype.element, kernel)  # not read: an input that states the sizes of the loops
    loops = 2 * rank
    loops_in_window = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    shape = tuple(builder.index(n) for n in x.shape)
    window_counts = [builder.index(n) for n in source.shape]
    chosen, source = with_an_element(builder, chosen), with_an_element(builder, source)
    last_window = [builder.index(n - 1) for n in source.shape]
    lows = [builder.index(n) for n in window.low]
    chosen_positions, sources = builder.value(chosen), builder.parts(source)

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Combine the source of a window with the running element if the window selected it.

        The loops are over the positions in the result, then over the steps in a window. `args` are an element of the
        input that only states sizes, which is not read, and the running element.
        """
        p = CoordinateBuilder(block, [])
        _of_window_extent, *running_parts = args
        running = Scalar(x.dtype, tuple(running_parts))
        at, valid = [], _true(p)  # index of the window along each axis, and whether there is such a window
        for d in range(rank):
            position_in_x, offset_in_window = p.loop_index(d), p.loop_index(rank + d)
            begin = p.minus(p.plus(position_in_x, lows[d]), offset_in_window)
            window_index, exists = _window_that_begins_at(p, begin, window.strides[d], window_counts[d])
            valid = p.add_op(arith.AndIOp(valid, exists))
            at.append(p.clamped(window_index, last_window[d]))
        index = p.add_op(tensor.ExtractOp(chosen_positions, at, I64.element))
        here = p.add_op(arith.IndexCastOp(_flat(p, [p.loop_index(d) for d in range(rank)], shape), I64.element))
        taken = p.add_op(arith.AndIOp(valid, p.add_op(arith.CmpiOp(index, here, "eq"))))
        element = Scalar(x.dtype, tuple(p.add_op(tensor.ExtractOp(part, at, x.dtype.element)) for part in sources))
        return list(p.select(Scalar(BOOL, (taken,)), combine(p, running, element), running).parts)

    outputs = [(builder.splat(value, x.shape), to_result) for value in scalar_parts(builder, start)]
    parallel = [n < rank for n in range(loops)]
    results = builder.generic([(window_extent, loops_in_window)], outputs, parallel=parallel, body=body)
    return builder.wrap(x.dtype, x.shape, *results)


def _window_that_begins_at(
    p: CoordinateBuilder, begin: SSAValue, stride: int, count: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Return the index along an axis of the window that begins at a position, and an i1: whether there is one.

    begin: position in the padded axis. stride: distance of windows. count: number of windows.
    """
    step = p.index_constant(stride)
    index = p.add_op(arith.DivSIOp(begin, step))
    exact = p.add_op(arith.CmpiOp(p.times(index, step), begin, "eq"))
    is_not_before = p.add_op(arith.CmpiOp(begin, p.index_constant(0), "sge"))
    is_before_end = p.add_op(arith.CmpiOp(index, count, "slt"))
    is_inside = p.add_op(arith.AndIOp(is_not_before, is_before_end))
    return index, p.add_op(arith.AndIOp(exact, is_inside))


def _selected_positions(
    builder: Builder, x: Tensor, out: Shape, kernel: Sequence[Size], window: Window, select: Select
) -> Tensor:
    """Return the row-major index in x of the element that each window selects; -1 for an empty window.

    A loop runs over the windows and over the elements of a window, and carries the best element so far and its index.
    out: number of windows along each axis. select: select(p, best, element) is whether the best element stays.
    """
    rank = x.rank
    loops = 2 * rank
    window_extent = builder.empty(x.dtype.element, kernel)  # not read: an input that states the sizes of the loops
    loops_in_window = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
    to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
    shape = [builder.index(n) for n in x.shape]
    padding_before = [builder.index(n) for n in window.low]
    readable = with_an_element(builder, x)  # x, or one element if x is empty: clamped reads are in bounds
    last_position = [builder.index(n - 1) for n in readable.shape]
    parts_of_x = builder.parts(readable)

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Replace (best, its index) by an element of the window unless `select` returns that the best one stays.

        The loops are over the windows along each axis, then over the positions in a window.
        `args` are an element of `window_extent`, the parts of the best element so far, and its index; -1 for none yet.
        """
        p = CoordinateBuilder(block, [])
        best, chosen_index = Scalar(x.dtype, tuple(args[1:-1])), Scalar(I64, (args[-1],))
        # Coordinates of the element, whether they are inside of x, and coordinates that are safe to read.
        position_in_x, valid, clamped = [], _true(p), []
        for d in range(rank):
            first = p.times(p.loop_index(d), p.index_constant(window.strides[d]))
            position = p.minus(p.plus(first, p.loop_index(rank + d)), padding_before[d])
            is_inside = p.add_op(arith.AndIOp(p.add_op(arith.CmpiOp(position, p.index_constant(0), "sge")),
                                              p.add_op(arith.CmpiOp(position, shape[d], "slt"))))  # fmt: skip
            valid = p.add_op(arith.AndIOp(valid, is_inside))
            position_in_x.append(position)
            clamped.append(p.clamped(position, last_position[d]))
        element = Scalar(
            x.dtype, tuple(p.add_op(tensor.ExtractOp(part, clamped, x.dtype.element)) for part in parts_of_x)
        )
        here = Scalar(I64, (p.add_op(arith.IndexCastOp(_flat(p, position_in_x, shape), I64.element)),))
        is_first = p.compare("lt", chosen_index, p.const(0, I64))
        best_stays = select(p, best, element)
        is_preferred = p.binary("or", is_first, p.unary("not", best_stays))
        taken = p.binary("and", Scalar(BOOL, (valid,)), is_preferred)  # padding is never selected
        return [*p.select(taken, element, best).parts, p.select(taken, here, chosen_index).value]

    starts = [*(builder.scalar_constant(0, x.dtype) for _ in parts_of_x), builder.scalar_constant(-1, I64)]
    outputs = [(builder.splat(start, out), to_result) for start in starts]
    parallel = [n < rank for n in range(loops)]
    *_, chosen = builder.generic([(window_extent, loops_in_window)], outputs, parallel=parallel, body=body)
    return builder.wrap(I64, out, chosen)


def _true(coords: CoordinateBuilder) -> SSAValue:
    """Return a true constant."""
    return coords.const(value=True, dtype=BOOL).value


def _flat(coords: CoordinateBuilder, at: Sequence[SSAValue], shape: Sequence[SSAValue]) -> SSAValue:
    """Return the row-major index of the element with these coordinates."""
    total = coords.index_constant(0)
    for position, size in zip(at, shape, strict=True):
        total = coords.plus(coords.times(total, size), position)
    return total
