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
    """Combine each element of `source` into the element of x's shape that `select` selects in its window over x.

    The first pass records the selected index of each window; the second combines, for each element, the windows that
    selected it.

    Args:
        builder: The builder.
        x: The tensor that windows slide over.
        source: One element per window.
        start: Initial value of all elements of the result.
        kernel: Size of the windows along each axis.
        window: Strides and padding; the dilations are 1.
        select: Emits the selection of an element.
        combine: Emits the combination of two elements.
    """
    selected = _selected_indices(builder, x, source.shape, kernel, window, select)
    loops = _WindowLoops(builder, x, kernel)
    shape = [builder.index(n) for n in x.shape]
    counts = [builder.index(n) for n in source.shape]
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
    """Return the row-major index in x of the element that each window selects; -1 for an empty window.

    The arguments are those of `select_and_scatter`. out: number of windows along each axis.
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
        *(builder.scalar_constant(0, x.dtype) for _ in selection.parts),
        builder.scalar_constant(-1, I64),
    ]
    *_, selected = loops.emit(out, starts, selection.body)
    return builder.wrap(I64, out, selected)


class _WindowLoops:
    """Loops over the elements of a result, and in them over the positions in a window.

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
        rank, loops = self._rank, 2 * self._rank
        in_window = AffineMap(loops, 0, tuple(AffineExpr.dimension(rank + d) for d in range(rank)))
        to_result = AffineMap(loops, 0, tuple(AffineExpr.dimension(d) for d in range(rank)))
        outputs = [(self._builder.splat(start, out), to_result) for start in starts]
        parallel = [n < rank for n in range(loops)]
        return self._builder.generic([(self._extent, in_window)], outputs, parallel=parallel, body=body)


@dataclass(frozen=True)
class _Selection:
    """Selection of an element of each window over x: the first pass.

    Attributes:
        dtype: Type of the elements of x.
        shape: Sizes of x.
        strides: Distances of windows along each axis.
        padding_before: Positions before x along each axis.
        last_position: Largest index that may be read along each axis.
        parts: The tensor x, or its parts if its elements are composed of several values.
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
        """Replace the selected element and its index by the next one unless `select` emits that the selected one stays.

        The loops are over the windows along each axis, then over the positions in a window.
        `args` are an unused element of the uninitialized operand that only states the sizes of windows, the parts of
        the selected element, and its index; -1 for none yet.
        """
        p = CoordinateBuilder(block, [])
        best, best_index = Scalar(self.dtype, tuple(args[1:-1])), Scalar(I64, (args[-1],))
        positions, is_inside = self._positions(p)
        clamped = [p.clamped(position, last) for position, last in zip(positions, self.last_position, strict=True)]
        element = _element_at(p, self.dtype, self.parts, clamped)
        here = Scalar(I64, (p.add_op(arith.IndexCastOp(_row_major_index(p, positions, self.shape), I64.element)),))
        is_first = p.compare("lt", best_index, p.const(0, I64))
        best_stays = self.select(p, best, element)
        is_preferred = p.binary("or", is_first, p.unary("not", best_stays))
        taken = p.binary("and", Scalar(BOOL, (is_inside,)), is_preferred)  # padding is never selected
        return [*p.select(taken, element, best).parts, p.select(taken, here, best_index).value]

    def _positions(self, p: CoordinateBuilder) -> tuple[list[SSAValue], SSAValue]:
        """Return the position in x of the window's element along each axis, and an i1: whether x has this element."""
        positions, is_inside = [], _true(p)
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
    """Combination of the elements of windows at the positions that they selected: the second pass.

    Attributes:
        dtype: Type of the elements.
        shape: Sizes of the result.
        strides: Distances of windows along each axis.
        counts: Number of windows along each axis.
        last_window: Largest index of a window that may be read along each axis.
        padding_before: Positions before the result along each axis.
        selected: Row-major index of the position that each window selected.
        source: Element of each window, or its parts if elements are composed of several values.
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
        """Combine the element of a window with the running one if the window selected this position.

        The loops are over the positions in the result, then over the positions in a window. `args[0]` is unused: it is
        an element of the uninitialized operand that only states the sizes of windows. The others are the parts of the
        running element.
        """
        p = CoordinateBuilder(block, [])
        running = Scalar(self.dtype, tuple(args[1:]))
        at, exists = self._window(p)
        index = p.add_op(tensor.ExtractOp(self.selected, at, I64.element))
        position = [p.loop_index(d) for d in range(len(self.shape))]
        here = p.add_op(arith.IndexCastOp(_row_major_index(p, position, self.shape), I64.element))
        taken = p.add_op(arith.AndIOp(exists, p.add_op(arith.CmpiOp(index, here, "eq"))))
        element = _element_at(p, self.dtype, self.source, at)
        return list(p.select(Scalar(BOOL, (taken,)), self.combine(p, running, element), running).parts)

    def _window(self, p: CoordinateBuilder) -> tuple[list[SSAValue], SSAValue]:
        """Return the index, along each axis, of the window that contains the current position of the result.

        The loop indices state the position in the result, and which position in the window it has. The second result
        is an i1: whether there is such a window. If not, the indices are those of another window.
        """
        at, exists = [], _true(p)
        for d, (stride, count) in enumerate(zip(self.strides, self.counts, strict=True)):
            position_in_result, offset_in_window = p.loop_index(d), p.loop_index(len(self.shape) + d)
            begin = p.minus(p.plus(position_in_result, self.padding_before[d]), offset_in_window)
            window_index, exists_along_axis = _window_that_begins_at(p, begin, stride, count)
            exists = p.add_op(arith.AndIOp(exists, exists_along_axis))
            at.append(p.clamped(window_index, self.last_window[d]))
        return at, exists


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
