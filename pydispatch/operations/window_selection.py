"""Sums of elements at positions that sliding windows select, as in the gradient of a maximum pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, tensor
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import BOOL, I64, DType
from pydispatch.graph.sizes import Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations.convolutions import Window
from pydispatch.operations.indexing import CoordinateBuilder, with_an_element
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import scalar_parts

Select = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Function select(scalars, selected, next element) -> whether `selected`, the element selected so far, stays so."""
CombineElements = Callable[[Scalars, Scalar, Scalar], Scalar]
"""Function combine(scalars, running value, element) -> their combination."""
Body = Callable[[Block, Sequence[SSAValue]], list[SSAValue]]
"""Emits the body of a loop nest: receives its block and arguments, and returns the values that it yields."""


def select_and_scatter(
    builder: Builder, x: Tensor, source: Tensor, start: Tensor, kernel: Sequence[Size], window: Window, select: Select,
    combine: CombineElements,
) -> Tensor:  # fmt: skip
    """Return a tensor of the shape of x in which each element of `source` is combined into the position that `select`
    selects in its window over x.

    The first pass computes the index in x that each window selects. The second pass combines, for each position of the
    result, the elements of the windows that selected it. So its loops over the positions are parallel.

    Example, the gradient of a maximum pooling: x is [1, 5, 2, 3], windows of size 2 have the stride 2, and `source` is
    [10, 20]. With `select` emitting `selected >= next`, the windows [1, 5] and [2, 3] select the indices [1, 3]. With
    `combine` emitting an addition, and the start 0, the result is [0, 10, 0, 20].

    Args:
        builder: The builder.
        x: The tensor that windows slide over.
        source: One element per window, with the element type of x.
        start: Initial value of all elements of the result.
        kernel: Size of the windows along each axis.
        window: Strides and padding; the dilations are 1.
        select: Emits whether the element selected so far stays selected: select(scalars, selected, next element).
        combine: Emits the combination of the running value of a position and an element of `source`.
    """
    # First pass.
    selected = _selected_indices(builder, x, source.shape, kernel, window, select)
    # Second pass.
    loops = _WindowLoops(builder, x, kernel)
    shape = [builder.index(n) for n in x.shape]
    counts = [builder.index(n) for n in source.shape]  # before elements are appended
    # Without windows, too, there is an element to read: reads at clamped indices are in bounds.
    selected, source = with_an_element(builder, selected), with_an_element(builder, source)
    scatter = _Scatter(
        dtype=x.dtype,
        shape=shape,
        strides=window.strides,
        counts=counts,
        last_window=[builder.index(n - 1) for n in source.shape],
        padding_before=[builder.index(n) for n in window.low],
        selected=builder.value(selected),
        source=builder.parts(source),
        combine=combine,
    )
    results = loops.emit(x.shape, scalar_parts(builder, start), scatter.body)
    return builder.wrap(x.dtype, x.shape, *results)


def _selected_indices(
    builder: Builder, x: Tensor, out: Shape, kernel: Sequence[Size], window: Window, select: Select
) -> Tensor:
    """Return the row-major index in x of the element that each window selects; -1 for a window without elements of x.

    This is the first pass of `select_and_scatter`. For the windows [1, 5] and [2, 3] over x = [1, 5, 2, 3], a selection
    of the largest element returns [1, 3].

    Args:
        builder: The builder.
        x: The tensor that windows slide over.
        out: Number of windows along each axis, the shape of the result.
        kernel: Size of the windows along each axis.
        window: Strides and padding; the dilations are 1.
        select: Emits whether the element selected so far stays selected, rather than the next one of the window.
    """
    loops = _WindowLoops(builder, x, kernel)
    shape = [builder.index(n) for n in x.shape]
    padding_before = [builder.index(n) for n in window.low]
    readable = with_an_element(builder, x)  # x, or one element if x is empty: clamped reads are in bounds
    selection = _Selection(
        dtype=x.dtype,
        shape=shape,
        strides=window.strides,
        padding_before=padding_before,
        last_position=[builder.index(n - 1) for n in readable.shape],
        parts=builder.parts(readable),
        select=select,
    )
    starts = [
        *(builder.scalar_constant(0, x.dtype) for _ in selection.parts),  # the first element of a window replaces it
        builder.scalar_constant(-1, I64),  # no element is selected yet
    ]
    *_, selected = loops.emit(out, starts, selection.body)
    return builder.wrap(I64, out, selected)


class _WindowLoops:
    """Loops over the elements of a result, and in them over the positions in a window.

    `emit` adds them as a `linalg.generic`. Its loops take their sizes from operands only. No operand has the sizes of a
    window, so that an uninitialized tensor with these sizes is added, which is not read. For a result of 2 elements and
    windows of size 3:

        %extent = tensor.empty() : tensor<3xf32>
        linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>],
                        iterator_types = ["parallel", "reduction"]}
            ins(%extent : tensor<3xf32>) outs(%start : tensor<2xf32>) {...}

    Args:
        builder: The builder.
        x: Tensor of the rank of the result, that windows slide over.
        kernel: Size of the windows along each axis.
    """

    def __init__(self, builder: Builder, x: Tensor, kernel: Sequence[Size]) -> None:
        """Emit the operand that states the sizes of the inner loops. For the parameters, see the class."""
        self._builder, self._rank = builder, x.rank
        self._extent = builder.empty(x.dtype.element, kernel)  # not read

    def emit(self, out: Shape, starts: Sequence[SSAValue], body: Body) -> Sequence[SSAValue]:
        """Emit the loops, and return the results.

        Args:
            out: Shape of the results.
            starts: Initial value of the elements of each result.
            body: Emits the body. Its arguments are an unused element of the uninitialized operand that states the
                sizes of the inner loops, and the running values.
        """
        rank, loops = self._rank, 2 * self._rank  # loops over the result, then over the window
        in_window = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
        to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
        outputs = [(self._builder.splat(start, out), to_result) for start in starts]
        parallel = [n < rank for n in range(loops)]
        return self._builder.generic([(self._extent, in_window)], outputs, parallel=parallel, body=body)


@dataclass(frozen=True)
class _Selection:
    """Selection of an element of each window over x: the first pass of `select_and_scatter`.

    `_selected_indices` creates it, and passes `body` to `_WindowLoops.emit`. Sizes are SSA values of type index.

    Attributes:
        dtype: Type of the elements of x.
        shape: Sizes of x.
        strides: Distances of windows along each axis.
        padding_before: Number of padding positions before x along each axis.
        last_position: Largest index that may be read along each axis.
        parts: The tensor x, or its real and imaginary parts.
        select: Emits whether the selected element stays.
    """

    dtype: DType
    shape: Sequence[SSAValue]
    strides: Sequence[int]
    padding_before: Sequence[SSAValue]
    last_position: Sequence[SSAValue]
    parts: Sequence[SSAValue]
    select: Select

    def body(self, block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit the body of the loops over windows, and in them over the positions in a window.

        It replaces the selected element and its index by the next element of the window, unless `select` emits that the
        selected one stays. Return the new parts and the new index.

        args: an unused element of the operand that only states the sizes of windows, the parts of the selected element,
        and its row-major index in x; -1 for none yet.
        """
        p = CoordinateBuilder(block, [])
        _, *selected_parts, selected_index = args
        selected, index = Scalar(self.dtype, tuple(selected_parts)), Scalar(I64, (selected_index,))
        next_element, next_index, is_inside = self._next(p)
        is_first = p.compare("lt", index, p.const(0, I64))  # the first element of x in a window is taken in any case
        stays = self.select(p, selected, next_element)
        is_preferred = p.binary("or", is_first, p.unary("not", stays))
        is_taken = p.binary("and", is_inside, is_preferred)  # padding is never selected
        return [*p.select(is_taken, next_element, selected).parts, p.select(is_taken, next_index, index).value]

    def _next(self, p: CoordinateBuilder) -> tuple[Scalar, Scalar, Scalar]:
        """Return the window's element at the loops' position, its row-major index in x, and whether it is one of x.

        The position of padding is outside of x, and the read is clamped.
        """
        positions, is_inside = self._positions(p)
        clamped = [p.clamped(position, last) for position, last in zip(positions, self.last_position, strict=True)]
        element = _element_at(p, self.dtype, self.parts, clamped)
        linear_index = _row_major_index(p, positions, self.shape)
        index = Scalar(I64, (p.add_op(arith.IndexCastOp(linear_index, I64.element)),))
        return element, index, Scalar(BOOL, (is_inside,))

    def _positions(self, p: CoordinateBuilder) -> tuple[list[SSAValue], SSAValue]:
        """Return the position in x of the window's element along each axis, and an i1: whether x has this element."""
        positions, is_inside = [], _true(p)
        # position = index of the window * stride + offset in the window - padding
        for d, (size, stride, padding) in enumerate(zip(self.shape, self.strides, self.padding_before, strict=True)):
            begin = p.times(p.loop_index(d), p.index_constant(stride))
            position = p.minus(p.plus(begin, p.loop_index(len(self.shape) + d)), padding)
            is_not_before = p.add_op(arith.CmpiOp(position, p.index_constant(0), "sge"))
            is_before_end = p.add_op(arith.CmpiOp(position, size, "slt"))
            is_inside = p.add_op(arith.AndIOp(is_inside, p.add_op(arith.AndIOp(is_not_before, is_before_end))))
            positions.append(position)
        return positions, is_inside


@dataclass(frozen=True)
class _Scatter:
    """Combination of the elements of windows at the positions that they selected: the second pass of
    `select_and_scatter`.

    `select_and_scatter` creates it, and passes `body` to `_WindowLoops.emit`. For a position of the result and each
    offset in a window, the body finds the window that has the position at this offset. Sizes are SSA values of type
    index.

    Attributes:
        dtype: Type of the elements.
        shape: Sizes of the result.
        strides: Distances of windows along each axis.
        counts: Number of windows along each axis.
        last_window: Largest index of a window that may be read along each axis.
        padding_before: Number of padding positions before the result along each axis.
        selected: Row-major index of the position that each window selected, a tensor of i64 with an element per window.
        source: Tensor with an element per window, or its real and imaginary parts.
        combine: Emits the combination of two elements.
    """

    dtype: DType
    shape: Sequence[SSAValue]
    strides: Sequence[int]
    counts: Sequence[SSAValue]
    last_window: Sequence[SSAValue]
    padding_before: Sequence[SSAValue]
    selected: SSAValue
    source: Sequence[SSAValue]
    combine: CombineElements

    def body(self, block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit the body of the loops: combine the element of a window with the running one if the window selected this
        position of the result.

        The loops are over the positions in the result, then over the positions in a window. `args[0]` is unused: it is
        an element of the uninitialized operand that only states the sizes of windows. The others are the parts of the
        running element.
        """
        p = CoordinateBuilder(block, [])
        running = Scalar(self.dtype, tuple(args[1:]))
        window, exists = self._window(p)  # indices that are in bounds, also if the window does not exist
        selected_index = p.add_op(tensor.ExtractOp(self.selected, window, I64.element))
        position = [p.loop_index(d) for d in range(len(self.shape))]
        own_index = p.add_op(arith.IndexCastOp(_row_major_index(p, position, self.shape), I64.element))
        taken = p.add_op(arith.AndIOp(exists, p.add_op(arith.CmpiOp(selected_index, own_index, "eq"))))
        element = _element_at(p, self.dtype, self.source, window)
        return list(p.select(Scalar(BOOL, (taken,)), self.combine(p, running, element), running).parts)

    def _window(self, p: CoordinateBuilder) -> tuple[list[SSAValue], SSAValue]:
        """Return the index, along each axis, of the window that contains the current position of the result.

        The loop indices state the position in the result, and which position in the window it has. The second result
        is an i1: whether there is such a window. If not, the indices are those of another window. For the stride 2 and
        no padding, position 3 is at offset 1 of window 1, and at offset 0 of no window.
        """
        window, exists = [], _true(p)
        # The loops are over the axes of the result, then over those of a window.
        for d, (stride, count) in enumerate(zip(self.strides, self.counts, strict=True)):
            position_in_result, offset_in_window = p.loop_index(d), p.loop_index(len(self.shape) + d)
            begin = p.minus(p.plus(position_in_result, self.padding_before[d]), offset_in_window)
            window_index, exists_along_axis = _window_that_begins_at(p, begin, stride, count)
            exists = p.add_op(arith.AndIOp(exists, exists_along_axis))
            window.append(p.clamped(window_index, self.last_window[d]))
        return window, exists


def _window_that_begins_at(
    p: CoordinateBuilder, begin: SSAValue, stride: int, count: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Return the index along an axis of the window that begins at a position, and an i1: whether there is one.

    begin: position in the padded axis. stride: distance of windows. count: number of windows.
    """
    step = p.index_constant(stride)
    index = p.add_op(arith.DivSIOp(begin, step))
    is_multiple = p.add_op(arith.CmpiOp(p.times(index, step), begin, "eq"))  # begin is a multiple of the stride
    is_not_before = p.add_op(arith.CmpiOp(begin, p.index_constant(0), "sge"))
    is_before_end = p.add_op(arith.CmpiOp(index, count, "slt"))
    is_inside = p.add_op(arith.AndIOp(is_not_before, is_before_end))
    return index, p.add_op(arith.AndIOp(is_multiple, is_inside))


def _element_at(p: CoordinateBuilder, dtype: DType, parts: Sequence[SSAValue], at: Sequence[SSAValue]) -> Scalar:
    """Return the element with these coordinates of a tensor, which is passed as its parts."""
    return Scalar(dtype, tuple(p.add_op(tensor.ExtractOp(part, at, dtype.element)) for part in parts))


def _true(coords: CoordinateBuilder) -> SSAValue:
    """Return a true constant."""
    return coords.const(value=True, dtype=BOOL).value


def _row_major_index(coords: CoordinateBuilder, at: Sequence[SSAValue], shape: Sequence[SSAValue]) -> SSAValue:
    """Return the row-major index of the element with these coordinates."""
    total = coords.index_constant(0)
    for position, size in zip(at, shape, strict=True):
        total = coords.plus(coords.times(total, size), position)
    return total
