"""Conversions of operators that return a part of a tensor: slices, selected elements, diagonals, windows.

Most results are views. The table VIEWS has the inverse of each view: the function that writes new contents of the view
back into the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.torch.nodes.shapes import axis_of
from pydispatch.frontends.torch.registry import VIEWS, Conversion, converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.size_functions import ceil_div, divisor, maximum, minimum
from pydispatch.graph.sizes import Expr, Size, UndecidedError, sign_unless_empty
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, indexing, reductions, shapes, slicing
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]


def _bound(position: Size | None, n: Size, missing: Size) -> Size:
    """Return a bound of a slice of an axis of n elements, counted from the start; it may be out of bounds.

    `missing` is the result for None. Any position from 2^62 on stands for the end: PyTorch exports x[a:] with the end
    2^63 - 1.
    """
    if position is None:
        return missing
    if isinstance(position, int) and position >= (1 << 62):
        return n
    return _from_start(position, n)


def _from_start(position: Size, n: Size) -> Size:
    """Return a position on an axis of n elements that is counted from the end if it is negative, counted from the
    start.
    """
    try:
        # PyTorch too assumes that sizes are not 0.
        return n + position if sign_unless_empty(position) < 0 else position
    except UndecidedError:
        return slicing.counted_from_start(position, n)


def _slice_bounds(
    builder: Builder, x: Tensor, dim: int, start: Size | None, end: Size | None, step: int
) -> tuple[int, Size, Size]:
    """Return the axis, the start and the exclusive end of a slice, all non-negative; start <= end <= size.

    Raise CompileError for a step below 1, which PyTorch does not have.
    """
    axis = axis_of(builder, dim, x.rank)
    if step < 1:
        raise builder.fail(f"a slice has the step {step}")
    n = x.shape[axis]
    return axis, *slicing.clamped_bounds(_bound(start, n, missing=0), _bound(end, n, n), n)


@converts("aten.slice")
def slice_(
    builder: Builder, self: Tensor, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Tensor:
    """Return every `step`-th element from `start` to `end` (exclusive) along an axis, by Python's rules for bounds."""
    axis, first, last = _slice_bounds(builder, self, dim, start, end, step)
    return slicing.slice_axis(builder, self, axis, first, last, step)


@converts("aten.slice_scatter")
def slice_scatter(
    builder: Builder,
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Tensor:
    """Return `self` with self[start:end:step] along the axis `dim` replaced by the elements of `src`."""
    axis, first, _ = _slice_bounds(builder, self, dim, start, end, step)
    return _insert_slice(builder, self, ew.convert(builder, src, self.dtype), axis, first, step)


def _insert_slice(builder: Builder, x: Tensor, part: Tensor, axis: int, start: Size, step: int = 1) -> Tensor:
    """Return x with every `step`-th slice along `axis`, from `start` on, replaced by the slices of `part`."""
    starts = [start if d == axis else 0 for d in range(x.rank)]
    return indexing.insert_slice(builder, x, part, starts, [step if d == axis else 1 for d in range(x.rank)])


def _written_by(
    scatter: Conversion, builder: Builder, base: Tensor, new_part: Tensor, output_index: int, *args: Any, **kwargs: Any
) -> Tensor:
    """Return `base` after a write to a view of it: `scatter` replaces the part that the view shows by `new_part`.

    scatter: conversion of the view operator's scatter variant, such as `slice_scatter` for `aten.slice`. args, kwargs:
    arguments of the view operator after the base. output_index: always 0, since these operators have one output; the
    parameter is there because functions that write views back (`registry.Inverse`) are all called in the same way.
    """
    return scatter(builder, base, new_part, *args, **kwargs)


def _position(builder: Builder, x: Tensor, axis: int, index: Size) -> Size:
    """Return a non-negative index for one that may count from the end of an axis. Raise CompileError if it is out of
    bounds.
    """
    n = x.shape[axis]
    if isinstance(index, int) and isinstance(n, int) and not -n <= index < n:
        raise builder.fail(f"index {index} of axis {axis} of {x} is out of bounds")
    return _from_start(index, n)


@converts("aten.select")
def select(builder: Builder, self: Tensor, dim: int, index: Size) -> Tensor:
    """Return the slice at an index of an axis, without the axis."""
    axis = axis_of(builder, dim, self.rank)
    position = _position(builder, self, axis, index)
    return shapes.squeeze(builder, slicing.slice_axis(builder, self, axis, position, position + 1), [axis])


@converts("aten.select_scatter")
def select_scatter(builder: Builder, self: Tensor, src: Tensor, dim: int, index: Size) -> Tensor:
    """Return `self` with the slice at an index of an axis replaced by `src`."""
    axis = axis_of(builder, dim, self.rank)
    part = shapes.expand_dims(builder, ew.convert(builder, src, self.dtype), [axis])
    return _insert_slice(builder, self, part, axis, _position(builder, self, axis, index))


@converts("aten.narrow")
def narrow(builder: Builder, self: Tensor, dim: int, start: Size, length: Size) -> Tensor:
    """Return `length` elements from `start` on along an axis."""
    axis = axis_of(builder, dim, self.rank)
    # An empty part may start at the end of the axis, which is no valid index.
    position = _position(builder, self, axis, start) if length != 0 else start
    return slicing.slice_axis(builder, self, axis, position, position + length)


@converts("aten.split")
def split(
    builder: Builder, self: Tensor, split_size: Size, dim: int = 0, *, list_length: int | None = None
) -> list[Tensor]:
    """Return parts of `split_size` elements along an axis; the last one may be smaller. An axis of size 0 is one part.

    list_length: number of parts in the model. If the number depends on a dynamic size, a call with another number of
    parts fails; raise CompileError if `list_length` is None.
    """
    axis = axis_of(builder, dim, self.rank)
    n = self.shape[axis]
    count = 1 if n == 0 else ceil_div(n, divisor(split_size))
    if isinstance(count, Expr):
        what = f"{self} is split along axis {axis} into"
        if list_length is None:
            raise builder.fail(
                f"{what} a number of parts that depends on its size",
                "take parts by slices, x[:, :k], or a fixed number of parts with torch.tensor_split",
            )
        builder.require_equal(count, list_length, f"{what} {{a}} parts; the model has {{b}}")
        count = list_length
    return slicing.split(builder, self, axis, [*[split_size] * (count - 1), n - split_size * (count - 1)])


@converts("aten.split.sizes", "aten.split_with_sizes")
def split_with_sizes(builder: Builder, self: Tensor, split_sizes: Sizes, dim: int = 0) -> list[Tensor]:
    """Return parts of the stated sizes along an axis."""
    return slicing.split(builder, self, axis_of(builder, dim, self.rank), split_sizes)


@converts("aten.chunk")
def chunk(builder: Builder, self: Tensor, chunks: int, dim: int = 0, *, list_length: int | None = None) -> list[Tensor]:
    """Return at most `chunks` parts along an axis, of which the last one may be smaller.

    An axis of size 0 has exactly `chunks` empty parts. list_length: see `split`.
    """
    n = self.shape[axis_of(builder, dim, self.rank)]
    return [self] * chunks if n == 0 else split(builder, self, ceil_div(n, chunks), dim, list_length=list_length)


@converts("aten.unbind")
def unbind(builder: Builder, self: Tensor, dim: int = 0) -> list[Tensor]:
    """Return the slices along an axis, without that axis. Raise CompileError if its size is dynamic."""
    axis = axis_of(builder, dim, self.rank)
    n = self.shape[axis]
    if isinstance(n, Expr):
        raise builder.fail(f"{self} is taken apart along axis {axis}, whose size is not known")
    return [select(builder, self, axis, i) for i in range(n)]


def _write_unbind(builder: Builder, whole: Tensor, written: Tensor, output_index: int, dim: int = 0) -> Tensor:
    """Return `whole` after a write to result `output_index` of unbind, a view: that slice is replaced by `written`."""
    return select_scatter(builder, whole, written, dim, output_index)


def _write_split(
    conversion: Conversion, builder: Builder, whole: Tensor, written: Tensor, output_index: int, *args: Any,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Return `whole` with one of its parts along an axis replaced by `written`.

    conversion: conversion of the operator that splits `whole`. output_index: index of the part among its results. args,
    kwargs: arguments of the operator after the tensor.
    """
    parts = conversion(builder, whole, *args, **kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)  # args[0] is the size or the number of the parts
    replaced = [*parts[:output_index], written, *parts[output_index + 1 :]]
    return slicing.concat(builder, replaced, axis_of(builder, dim, whole.rank))


@converts("aten.diagonal")
def diagonal(builder: Builder, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return the elements whose index along dim2 exceeds the index along dim1 by `offset`, along a new last axis."""
    i, j = axis_of(builder, dim1, self.rank), axis_of(builder, dim2, self.rank)
    other_axes = [d for d in range(self.rank) if d not in (i, j)]
    rows, columns = self.shape[i], self.shape[j]
    # A matrix of 3 rows and 4 columns has min(3, 4 - 2) = 2 elements on the diagonal of offset 2.
    count = maximum(0, minimum(rows, columns - offset) if offset >= 0 else minimum(rows + offset, columns))
    x = self
    # Crop to a square whose main diagonal is this diagonal: a positive offset skips columns, a negative one rows.
    for axis, offset_along in ((i, -offset), (j, offset)):
        start = minimum(max(0, offset_along), self.shape[axis])
        x = slicing.slice_axis(builder, x, axis, start, start + count)
    # Index of self along each axis, by the indices of the result: along rows and columns it is that of the last axis.
    position = {d: AffineExpr.dimension(n) for n, d in enumerate(other_axes)}
    diagonal_dim = AffineExpr.dimension(len(other_axes))
    source = tuple(position.get(d, diagonal_dim) for d in range(self.rank))
    shape = (*(self.shape[d] for d in other_axes), count)
    return shapes.rearranged(builder, x, shape, AffineMap(len(shape), 0, source))


@converts("aten.diagonal_scatter")
def diagonal_scatter(
    builder: Builder, self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Return `self` with the elements that `diagonal` reads replaced by the elements of `src`.

    For example, [[1, 2, 3], [4, 5, 6]] with src [8, 9] and offset 1 gives [[1, 8, 3], [4, 5, 9]].

    Args:
        builder: The builder.
        self: The tensor.
        src: New elements, [the other axes of `self`..., elements of the diagonal].
        offset: Index along dim2 (the column) minus index along dim1 (the row) of the elements that are replaced.
        dim1: Axis of the rows.
        dim2: Axis of the columns.
    """
    if src.shape[-1] == 0:  # the diagonal is outside of the matrices
        return self
    (i, j) = (axis_of(builder, dim1, self.rank), axis_of(builder, dim2, self.rank))
    # Gather the new element of each row: a row of a matrix has at most one element on the diagonal.
    rows = shapes.iota(builder, [self.shape[i]], axis=0, dtype=I64)
    last = reductions.size_as(builder, src.shape[-1] - 1, I64)
    # Row r has element r - max(0, -offset) of the diagonal; where it has none, the selection below reads no element.
    index = formula(builder, lambda r, n: (r - max(0, -offset)).max(0).min(n), rows, last)
    per_row = gathers.take(builder, ew.convert(builder, src, self.dtype), index, src.rank - 1)  # [the other axes, rows]
    # Bring the axes of per_row into their order in `self`. order[k]: the axis of `self` that is axis k of per_row;
    # per_row lacks the columns, axis j.
    order = [d for d in range(self.rank) if d not in (i, j)] + [i]
    per_row = shapes.transpose(builder, per_row, [order.index(d) for d in range(self.rank) if d != j])
    # Broadcast the new element w of a row over its columns, and select it where column - row is `offset`.
    return formula(
        builder, lambda v, w: (v.position(j, I64) - v.position(i, I64)).is_equal(offset).where(w, v),
        self, shapes.expand_dims(builder, per_row, [j]),
    )  # fmt: skip


@converts("aten.diag_embed")
def diag_embed(builder: Builder, self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices with the elements of the last axis on a diagonal and 0 elsewhere.

    dim1, dim2: axes of the result that are the rows and columns. offset: column minus row of the diagonal's elements.
    """
    i, j = (axis_of(builder, d, self.rank + 1) for d in (dim1, dim2))
    batch_sizes, n = iter(self.shape[:-1]), self.shape[-1] + abs(offset)
    shape = [n if d in (i, j) else next(batch_sizes) for d in range(self.rank + 1)]
    return diagonal_scatter(builder, shapes.full(builder, 0, shape, self.dtype), self, offset, dim1, dim2)


def _narrow_scatter(builder: Builder, base: Tensor, new_part: Tensor, dim: int, start: Size, length: Size) -> Tensor:
    """Return `base` with the elements that `narrow` would return replaced by the elements of `new_part`."""
    axis = axis_of(builder, dim, base.rank)
    # An empty part may start at the end of the axis, which is no valid index.
    return _insert_slice(builder, base, new_part, axis, _position(builder, base, axis, start) if length != 0 else 0)


@converts("aten.unfold")
def unfold(builder: Builder, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return the sliding windows of `size` elements, `step` apart, along an axis.

    In the result, that axis counts the windows, and a new last axis has the elements of each window.
    """
    if self.rank == 0:  # as a vector of one element
        return slicing.slice_axis(builder, shapes.reshape(builder, self, [1]), axis=0, start=0, limit=size)
    axis = axis_of(builder, dimension, self.rank)
    shape = [*self.shape, size]
    shape[axis] = (self.shape[axis] - size) // step + 1
    # Indices of self by those of the result: along `axis`, index of the window * step + index in the window.
    exprs: list[Any] = [AffineExpr.dimension(d) for d in range(self.rank)]
    exprs[axis] = AffineExpr.dimension(axis) * step + AffineExpr.dimension(self.rank)
    return shapes.rearranged(builder, self, tuple(shape), AffineMap(len(shape), 0, tuple(exprs)))


VIEWS.update({
    "aten.slice": partial(_written_by, slice_scatter), "aten.select": partial(_written_by, select_scatter),
    "aten.narrow": partial(_written_by, _narrow_scatter), "aten.diagonal": partial(_written_by, diagonal_scatter),
    "aten.split": partial(_write_split, split), "aten.split_with_sizes": partial(_write_split, split_with_sizes),
    "aten.chunk": partial(_write_split, chunk), "aten.unbind": _write_unbind, "aten.unfold": None,
})  # fmt: skip
