"""Conversions of operators that return a part of a tensor: slices, selected elements, diagonals, windows.

Most results are views. The table VIEWS has the inverse of each view: the function that writes new contents of the view
back into the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.torch.nodes.shapes import axis_of
from pydispatch.frontends.torch.trace import Conversion, Inverse
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Size, ceil_div, maximum, minimum
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, indexing, reductions, shapes
from pydispatch.operations.formulas import formula

Sizes = Sequence[Size]


def _clamped_bound(position: Size | None, n: Size, missing: Size) -> Size:
    """Return a bound of a slice by Python's rules: negative positions count from the end n, and the result is clamped
    to [0, n].

    `missing` is the result for None. A position of 2^62 or more stands for the end.
    """
    if position is None:
        return missing
    if isinstance(position, int) and position >= (1 << 62):
        return n
    if isinstance(position, int) and position < 0:
        position = n + position
    return maximum(0, minimum(position, n))


def _slice_bounds(
    b: Builder, x: Tensor, dim: int, start: Size | None, end: Size | None, step: int
) -> tuple[int, Size, Size]:
    """Return the axis, the start and the end of a slice, all non-negative."""
    axis = axis_of(b, dim, x.rank)
    if step < 1:
        raise b.fail(f"a slice has the step {step}")
    n = x.shape[axis]
    first, last = _clamped_bound(start, n, 0), _clamped_bound(end, n, n)
    return axis, first, maximum(first, last)


def slice_(
    b: Builder, self: Tensor, dim: int = 0, start: Size | None = None, end: Size | None = None, step: int = 1
) -> Tensor:
    axis, first, last = _slice_bounds(b, self, dim, start, end, step)
    return shapes.slice_axis(b, self, axis, first, last, step)


def slice_scatter(
    b: Builder,
    self: Tensor,
    src: Tensor,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Tensor:
    axis, first, _ = _slice_bounds(b, self, dim, start, end, step)
    return _insert_slice(b, self, ew.convert(b, src, self.dtype), axis, first, step)


def _insert_slice(b: Builder, x: Tensor, part: Tensor, axis: int, start: Size, step: int = 1) -> Tensor:
    """Return x with a slice along `axis` replaced by `part`."""
    starts = [start if d == axis else 0 for d in range(x.rank)]
    return indexing.insert_slice(b, x, part, starts, [step if d == axis else 1 for d in range(x.rank)])


def _write_slice(b: Builder, base: Tensor, new_part: Tensor, output_index: int, *args: Any, **kwargs: Any) -> Tensor:
    """Return the base of a slice with the slice replaced by `new_part`."""
    return slice_scatter(b, base, new_part, *args, **kwargs)


def _position(b: Builder, x: Tensor, axis: int, index: Size) -> Size:
    """Return a non-negative index for one that may count from the end of an axis. Raise CompileError if it is out of
    bounds.
    """
    n = x.shape[axis]
    if isinstance(index, int) and isinstance(n, int) and not -n <= index < n:
        raise b.fail(f"index {index} of axis {axis} of {x} is out of bounds")
    return index + n if isinstance(index, int) and index < 0 else index


def select(b: Builder, self: Tensor, dim: int, index: Size) -> Tensor:
    axis = axis_of(b, dim, self.rank)
    position = _position(b, self, axis, index)
    return shapes.squeeze(b, shapes.slice_axis(b, self, axis, position, position + 1), [axis])


def select_scatter(b: Builder, self: Tensor, src: Tensor, dim: int, index: Size) -> Tensor:
    axis = axis_of(b, dim, self.rank)
    part = shapes.expand_dims(b, ew.convert(b, src, self.dtype), [axis])
    return _insert_slice(b, self, part, axis, _position(b, self, axis, index))


def _write_select(b: Builder, whole: Tensor, written: Tensor, output_index: int, dim: int, index: Size) -> Tensor:
    """Write to the base of a selected slice."""
    return select_scatter(b, whole, written, dim, index)


def narrow(b: Builder, self: Tensor, dim: int, start: Size, length: Size) -> Tensor:
    axis = axis_of(b, dim, self.rank)
    position = _position(b, self, axis, start) if length != 0 else start
    return shapes.slice_axis(b, self, axis, position, position + length)


def split(b: Builder, self: Tensor, split_size: Size, dim: int = 0) -> list[Tensor]:
    """Return parts of `split_size` along an axis; the last one has the rest. Raises CompileError if their number
    depends on a dynamic size.
    """
    axis = axis_of(b, dim, self.rank)
    n = self.shape[axis]
    count = ceil_div(n, split_size)
    if isinstance(count, Expr):
        raise b.fail(f"{self} is split along axis {axis} into a number of parts that depends on its size")
    return shapes.split(b, self, axis, [*[split_size] * (count - 1), n - split_size * (count - 1)])


def split_with_sizes(b: Builder, self: Tensor, split_sizes: Sizes, dim: int = 0) -> list[Tensor]:
    return shapes.split(b, self, axis_of(b, dim, self.rank), split_sizes)


def chunk(b: Builder, self: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    return split(b, self, maximum(1, ceil_div(self.shape[axis_of(b, dim, self.rank)], chunks)), dim)


def unbind(b: Builder, self: Tensor, dim: int = 0) -> list[Tensor]:
    """Return the slices along an axis, without it. Raises CompileError if its size is dynamic."""
    axis = axis_of(b, dim, self.rank)
    n = self.shape[axis]
    if isinstance(n, Expr):
        raise b.fail(f"{self} is taken apart along axis {axis}, whose size is not known")
    return [select(b, self, axis, i) for i in range(n)]


def _write_unbind(b: Builder, whole: Tensor, written: Tensor, output_index: int, dim: int = 0) -> Tensor:
    """Write to the base of one of the slices that unbind returns."""
    return select_scatter(b, whole, written, dim, output_index)


def _write_split(conversion: Conversion) -> Inverse:
    """Return the inverse of an operator that splits a tensor into parts along an axis."""

    def back(b: Builder, whole: Tensor, written: Tensor, output_index: int, *args: Any, **kwargs: Any) -> Tensor:
        """Write to the base of one of the parts."""
        parts = conversion(b, whole, *args, **kwargs)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        return shapes.concat(
            b, [*parts[:output_index], written, *parts[output_index + 1 :]], axis_of(b, dim, whole.rank)
        )

    return back


def diagonal(b: Builder, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return the elements whose index along dim2 exceeds the index along dim1 by `offset`, along a new last axis."""
    i, j = axis_of(b, dim1, self.rank), axis_of(b, dim2, self.rank)
    other_axes = [d for d in range(self.rank) if d not in (i, j)]
    rows, columns = self.shape[i], self.shape[j]
    count = minimum(rows, columns - offset) if offset >= 0 else minimum(rows + offset, columns)
    x = self
    for axis, start in ((i, max(0, -offset)), (j, max(0, offset))):
        x = shapes.slice_axis(b, x, axis, start, start + count)
    position = {d: AffineExpr.dimension(n) for n, d in enumerate(other_axes)}
    diagonal_dim = AffineExpr.dimension(len(other_axes))
    source = tuple(position.get(d, diagonal_dim) for d in range(self.rank))
    shape = (*(self.shape[d] for d in other_axes), count)
    return shapes.rearranged(b, x, shape, AffineMap(len(shape), 0, source))


def diagonal_scatter(b: Builder, self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return `self` with the elements that `diagonal` reads replaced by those of `src`."""
    (i, j) = (axis_of(b, dim1, self.rank), axis_of(b, dim2, self.rank))
    rows = shapes.iota(b, [self.shape[i]], 0, I64)
    last = reductions.size_as(b, src.shape[-1] - 1, I64)
    index = formula(b, lambda r, n: (r - max(0, -offset)).max(0).min(n), rows, last)
    per_row = gathers.take(b, ew.convert(b, src, self.dtype), index, src.rank - 1)  # [the other axes, rows]
    order = [d for d in range(self.rank) if d not in (i, j)] + [i]
    per_row = shapes.transpose(b, per_row, [order.index(d) for d in range(self.rank) if d != j])
    return formula(
        b, lambda v, w: (v.position(j, I64) - v.position(i, I64)).is_equal(offset).where(w, v),
        self, shapes.expand_dims(b, per_row, [j]),
    )  # fmt: skip


def diag_embed(b: Builder, self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return matrices with the elements of the last axis on a diagonal and 0 elsewhere."""
    i, j = (axis_of(b, d, self.rank + 1) for d in (dim1, dim2))
    rest, n = iter(self.shape[:-1]), self.shape[-1] + abs(offset)
    shape = [n if d in (i, j) else next(rest) for d in range(self.rank + 1)]
    return diagonal_scatter(b, shapes.full(b, 0, shape, self.dtype), self, offset, dim1, dim2)


def _write_diagonal(b: Builder, base: Tensor, new_part: Tensor, output_index: int, *args: Any, **kwargs: Any) -> Tensor:
    """Return the base of a diagonal with the diagonal replaced by `new_part`."""
    return diagonal_scatter(b, base, new_part, *args, **kwargs)


def _write_narrow(
    b: Builder, base: Tensor, new_part: Tensor, output_index: int, dim: int, start: Size, length: Size
) -> Tensor:
    """Return the base of a narrowed tensor with that part replaced by `new_part`."""
    axis = axis_of(b, dim, base.rank)
    return _insert_slice(b, base, new_part, axis, _position(b, base, axis, start) if length != 0 else 0)


def unfold(b: Builder, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return the sliding windows of `size` elements along an axis; the elements of each window are a new last axis."""
    if self.rank == 0:  # as a vector of one element
        return shapes.slice_axis(b, shapes.reshape(b, self, [1]), 0, 0, size)
    axis = axis_of(b, dimension, self.rank)
    shape = [*self.shape, size]
    shape[axis] = (self.shape[axis] - size) // step + 1
    exprs: list[Any] = [AffineExpr.dimension(d) for d in range(self.rank)]
    exprs[axis] = AffineExpr.dimension(axis) * step + AffineExpr.dimension(self.rank)
    return shapes.rearranged(b, self, tuple(shape), AffineMap(len(shape), 0, tuple(exprs)))


PARTS: dict[str, Conversion] = {
    "aten.slice": slice_,
    "aten.slice_scatter": slice_scatter,
    "aten.select": select,
    "aten.select_scatter": select_scatter,
    "aten.narrow": narrow,
    "aten.split": split,
    "aten.split.sizes": split_with_sizes,
    "aten.split_with_sizes": split_with_sizes,
    "aten.chunk": chunk,
    "aten.unbind": unbind,
    "aten.diagonal": diagonal,
    "aten.diag_embed": diag_embed,
    "aten.diagonal_scatter": diagonal_scatter,
    "aten.unfold": unfold,
}

VIEWS: dict[str, Inverse | None] = {
    "aten.slice": _write_slice, "aten.select": _write_select, "aten.unbind": _write_unbind,
    "aten.split": _write_split(split), "aten.split_with_sizes": _write_split(split_with_sizes),
    "aten.chunk": _write_split(chunk), "aten.narrow": _write_narrow, "aten.diagonal": _write_diagonal,
    "aten.unfold": None,
}  # fmt: skip
