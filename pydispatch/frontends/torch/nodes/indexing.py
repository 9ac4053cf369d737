"""Conversions of operators that read or replace elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor
from pydispatch.frontends.torch.registry import converts
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, U8, DType, Kind
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import assignment, gathers, reductions, scans, selection, shapes, slicing
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formula

MaybeTensors = Sequence["Tensor | None"]
"""Index of each axis: positions or a mask; None for a whole axis."""


@converts("aten.embedding")
def embedding(
    builder: Builder,
    weight: Tensor,
    indices: Tensor,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` at the indices; the other parameters affect gradients only."""
    return gathers.take(builder, weight, indices, axis=0)


@converts("aten.index", "aten._unsafe_index")
def index(builder: Builder, self: Tensor, indices: MaybeTensors) -> Tensor:
    """Return self[indices], where an index is a tensor of positions, a mask, or None for a whole axis.

    Axes without an index, after those of `indices`, are whole.
    """
    by_axis = _positions(builder, self, indices)
    return gathers.index(builder, self, [*by_axis, *[None] * (self.rank - len(by_axis))])


def _positions(builder: Builder, x: Tensor, indices: MaybeTensors) -> list[Tensor | None]:
    """Return an index for each axis of x that `indices` covers: a tensor of positions, or None for the whole axis.

    A mask (bool or u8) of rank r covers r axes. It is replaced by r vectors, the positions of its true elements along
    each of them. Raise CompileError if the sizes of a mask are known to differ from those of the axes.
    """
    by_axis: list[Tensor | None] = []
    for i in indices:
        if i is None or not (i.dtype.is_bool or i.dtype == U8):
            by_axis.append(i)
            continue
        masked_sizes = x.shape[len(by_axis) : len(by_axis) + i.rank]
        if i.rank == 0 or any(not isinstance(n, Expr) and not isinstance(m, Expr) and n != m
                              for n, m in zip(masked_sizes, i.shape, strict=True)):  # fmt: skip
            raise builder.fail(f"{x} is indexed by {i}, whose axes are not those of it")
        by_axis += selection.indices_of_nonzero(builder, i)
    return by_axis


@converts("aten.nonzero")
def nonzero(builder: Builder, self: Tensor) -> Tensor:
    """Return the positions of the non-zero elements as [elements, axes]."""
    # A tensor of rank 0 is read as a vector to count its element, and has positions without coordinates.
    rows = selection.indices_of_nonzero(builder, self if self.rank else shapes.reshape(builder, self, [1]))
    return slicing.stack(builder, rows, axis=1) if self.rank else shapes.full(builder, 0, [*rows[0].shape, 0], I64)


@converts("aten.nonzero_numpy")
def nonzero_numpy(builder: Builder, self: Tensor) -> list[Tensor]:
    """Return the positions of the non-zero elements, one vector per axis; a tensor of rank 0 counts as a vector."""
    return selection.indices_of_nonzero(builder, self if self.rank else shapes.reshape(builder, self, [1]))


@converts("aten.masked_select")
def masked_select(builder: Builder, self: Tensor, mask: Tensor) -> Tensor:
    """Return the elements for which the mask is true, as a vector."""
    shape = ew.broadcast_shape(builder, self.shape, mask.shape)
    x, kept = (shapes.reshape(builder, shapes.broadcast_to(builder, v, shape), [-1]) for v in (self, mask))
    return gathers.take(builder, x, selection.indices_of_true(builder, kept), axis=0)


@converts("aten.masked_scatter")
def masked_scatter(builder: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `self` with its masked elements replaced by the elements of `source`, in row-major order.

    The index in `source` for a masked element is the number of masked elements before it.
    """
    shape = ew.broadcast_shape(builder, self.shape, mask.shape)
    x, is_masked = (shapes.broadcast_to(builder, v, shape) for v in (self, mask))
    flat = ew.convert(builder, shapes.reshape(builder, is_masked, [-1]), I64)
    source_index = shapes.reshape(builder, scans.cumulative(builder, "add", flat, axis=0, exclusive=True), shape)
    return ew.select(
        builder, is_masked, gathers.take(builder, shapes.reshape(builder, source, [-1]), source_index, axis=0), x
    )


@converts("aten.put")
def put(builder: Builder, self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `self` with the elements at row-major indices replaced, or increased if `accumulate` is set."""
    flat, positions, updates = (shapes.reshape(builder, v, [product(v.shape)]) for v in (self, index, source))
    updated = assignment.put_along(builder, flat, positions, updates, axis=0, combine="add" if accumulate else None)
    return shapes.reshape(builder, updated, self.shape)


@converts("aten.index_select")
def index_select(builder: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the slices at the indices along an axis."""
    if not self.rank:
        return self
    return gathers.take(builder, self, shapes.reshape(builder, index, [-1]), shapes.axis_of(builder, dim, self.rank))


@converts("aten.gather")
def gather(builder: Builder, self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return a tensor of the shape of `index`: for `dim` 0 and rank 2, result[i, j] = self[index[i, j], j].

    The element of a tensor of rank 0 is repeated.
    """
    if not self.rank:
        return shapes.broadcast_to(builder, self, index.shape)
    return gathers.take_along(builder, self, index, shapes.axis_of(builder, dim, self.rank))


@converts("aten.take_along_dim")
def take_along_dim(builder: Builder, self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return the elements at indices along the axis `dim`; the other axes of both tensors broadcast to each other.

    Without `dim`, return a vector of the elements at row-major indices.
    """
    if dim is None:
        return take(builder, self, shapes.reshape(builder, indices, [-1]))
    axis = shapes.axis_of(builder, dim, self.rank)
    # The broadcast shapes of the indices, `shape`, and of self, `full_shape`, which differ along `axis` only.
    shape = [i if d == axis else ew.broadcast_shape(builder, (n,), (i,))[0]
             for d, (n, i) in enumerate(zip(self.shape, indices.shape, strict=True))]  # fmt: skip
    full_shape = [self.shape[d] if d == axis else n for d, n in enumerate(shape)]
    x, positions = shapes.broadcast_to(builder, self, full_shape), shapes.broadcast_to(builder, indices, shape)
    return gathers.take_along(builder, x, positions, axis)


@converts("aten.take")
def take(builder: Builder, self: Tensor, index: Tensor) -> Tensor:
    """Return the elements at row-major indices."""
    return gathers.take(builder, shapes.reshape(builder, self, [-1]), index, axis=0)


@converts("aten.masked_fill")
def masked_fill(builder: Builder, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Return `self` with the value where the mask is true."""
    return ew.select(builder, mask, as_tensor(builder, value, self.dtype), self)


@converts("aten.one_hot")
def one_hot(builder: Builder, self: Tensor, num_classes: int = -1) -> Tensor:
    """Return i64 [*shape, num_classes]: 1 at the position along the new last axis that an element states, else 0."""
    if num_classes < 0:
        raise builder.fail("one_hot without a number of classes gives a tensor whose size depends on its elements")
    positions = shapes.expand_dims(builder, self, [self.rank])
    return ew.convert(
        builder, ew.compare(builder, "eq", positions, builder.constant(list(range(num_classes)), self.dtype)), I64
    )


# -- replacement of elements


def _updates_for(builder: Builder, source: Operand, like: Tensor, dtype: DType) -> Tensor:
    """Return the update of each element of an index tensor `like`: a number for all, or an element of a tensor.

    PyTorch allows a source that is larger than the index: its leading elements along each axis are used.
    """
    if not isinstance(source, Tensor):
        return shapes.broadcast_to(builder, as_tensor(builder, source, dtype), like.shape)
    starts: list[Size] = [0] * source.rank
    return ew.convert(builder, slicing.slice_(builder, source, starts, list(like.shape)), dtype)


_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}
"""PyTorch's names of functions that combine elements -> those of `Reals.binary`."""


@converts("aten.scatter", "aten.scatter.value", "aten.scatter.value_reduce")
def scatter(
    builder: Builder, self: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str | None = None
) -> Tensor:
    """Return `self` with elements replaced by those of `src`, or combined with them: for `dim` 0 and rank 2,
    result[index[i, j], j] = src[i, j].

    Thus `index` has the position along `dim`, and along other axes an element of `src` keeps its own position. For
    example, [1, 2, 3] with index [2, 0] and src [8, 9] becomes [9, 2, 8].

    Args:
        builder: The builder.
        self: The tensor before the updates.
        dim: The axis.
        index: Position along `dim` of each update.
        src: An update for each element of `index`, or a number for all. A tensor may be larger than `index`: its
            leading elements along each axis are used.
        reduce: How old and new elements are combined: "add", "multiply" or another key of _REDUCTIONS; None to replace.

    Raises:
        CompileError: `reduce` is unknown.
    """
    if not self.rank:  # as for a vector of one element
        vector, index = (shapes.reshape(builder, x, [1]) for x in (self, index))
        src = shapes.reshape(builder, src, [1]) if isinstance(src, Tensor) else src
        updated = scatter(builder, vector, dim=0, index=index, src=src, reduce=reduce)
        return shapes.reshape(builder, updated, [])
    if reduce is not None and reduce not in _REDUCTIONS:
        raise builder.fail(f"scatter that reduces by '{reduce}'; supported are {', '.join(_REDUCTIONS)}")
    combine = _REDUCTIONS[reduce] if reduce is not None else None
    source = _updates_for(builder, src, index, self.dtype)
    return assignment.put_along(builder, self, index, source, shapes.axis_of(builder, dim, self.rank), combine)


@converts("aten.scatter_add")
def scatter_add(builder: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Add `src` to the elements whose position along `dim` is in `index`."""
    return scatter(builder, self, dim, index, src, reduce="add")


@converts("aten.scatter_reduce")
def scatter_reduce(
    builder: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return `self` with `src` combined into the elements whose position along `dim` is in `index`.

    reduce: "mean" or a key of _REDUCTIONS. include_self: whether the old value of an updated element is combined
    too; otherwise the combined elements of `src` replace it.
    """
    if not self.rank:  # as for a vector of one element
        flat = (shapes.reshape(builder, v, [1]) for v in (self, index, src))
        updated = scatter_reduce(
            builder, next(flat), dim=0, index=next(flat), src=next(flat), reduce=reduce, include_self=include_self
        )
        return shapes.reshape(builder, updated, [])
    axis, source = shapes.axis_of(builder, dim, self.rank), _updates_for(builder, src, index, self.dtype)
    return _scatter_reduced(builder, self, axis, index, source, reduce, include_self)


_IDENTITIES = {"add": lambda dtype: 0, "mul": lambda dtype: 1, "max": reductions.least, "min": reductions.largest}
"""Function of a reduction -> identity(element type), the number that does not change its result."""


def _scatter_reduced(
    builder: Builder, x: Tensor, axis: int, positions: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """Return x with the elements of `source` combined into it at positions along an axis.

    positions: indices along the axis, with the shape of `source`. reduce: "mean", "sum", "prod", "amax", "amin" or
    another key of _REDUCTIONS. Without `include_self`, elements of x at these positions do not contribute: they are
    first replaced by the identity, such as 0 for a sum. A mean is the sum divided by the number of its summands.

    Raise CompileError if `reduce` is unknown.
    """
    name = "add" if reduce == "mean" else _REDUCTIONS.get(reduce)
    if name is None:
        raise builder.fail(f"elements are combined by '{reduce}'; known are mean, {', '.join(_REDUCTIONS)}")
    initial = x
    if not include_self:
        identity = shapes.full(builder, _IDENTITIES[name](x.dtype), positions.shape, x.dtype)
        initial = assignment.put_along(builder, x, positions, identity, axis)
    combined = assignment.put_along(builder, initial, positions, source, axis, name)
    if reduce != "mean":
        return combined
    # Number of summands of each element of the result: the element of x if it is included, and each update.
    counts = shapes.full(builder, 1 if include_self else 0, x.shape, I64)
    counts = assignment.put_along(
        builder, counts, positions, shapes.full(builder, 1, positions.shape, I64), axis, "add"
    )

    def mean(total: Element, n: Element) -> Element:
        """Return total / n, for integers rounded down. An n of 0 (no summand) counts as 1, against division by 0."""
        count = n.max(1).to(total.dtype)
        return total.binary("floor_div", count) if total.dtype.kind is Kind.INT else total / count

    return formula(builder, mean, combined, counts)


def _replace_slices(
    builder: Builder, x: Tensor, dim: int, index: Tensor, source: Operand, combine: str | None
) -> Tensor:
    """Return x with the slices at the indices along an axis replaced by the slices of `source`, or combined with them.

    source: slices in the order of the indices, or a number for all. combine: "add"; None to replace.
    """
    if not x.rank:  # as for a vector of one element
        flat = [shapes.reshape(builder, v, [-1]) for v in (x, index, as_tensor(builder, source, x.dtype))]
        return shapes.reshape(
            builder, _replace_slices(builder, flat[0], dim=0, index=flat[1], source=flat[2], combine=combine), []
        )
    axis = shapes.axis_of(builder, dim, x.rank)
    positions, shape = _slice_positions(builder, x, axis, index)
    values = shapes.broadcast_to(builder, as_tensor(builder, source, x.dtype), shape)
    return assignment.put_along(builder, x, positions, values, axis, combine)


def _slice_positions(builder: Builder, x: Tensor, axis: int, index: Tensor) -> tuple[Tensor, list[Size]]:
    """Return the index along `axis` of each element of the slices that a vector of indices selects, and the shape of
    these slices.
    """
    vector = shapes.reshape(builder, index, [-1, *[1] * (x.rank - axis - 1)])
    shape = [vector.shape[0] if d == axis else n for d, n in enumerate(x.shape)]
    return shapes.broadcast_to(builder, vector, shape), shape


@converts("aten.index_reduce")
def index_reduce(
    builder: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Combine slices of `source` with the slices of `self` at indices along an axis.

    reduce: how they are combined, "mean", "prod", "amax" or "amin". include_self: whether the old slice of `self` is
    combined too; otherwise the combined slices of `source` replace it.
    """
    if not self.rank:  # as for a vector of one element
        x, at, updates = (shapes.reshape(builder, v, [-1]) for v in (self, index, source))
        return shapes.reshape(
            builder,
            index_reduce(builder, x, dim=0, index=at, source=updates, reduce=reduce, include_self=include_self),
            [],
        )
    axis = shapes.axis_of(builder, dim, self.rank)
    positions, shape = _slice_positions(builder, self, axis, index)
    values = shapes.broadcast_to(builder, as_tensor(builder, source, self.dtype), shape)
    return _scatter_reduced(builder, self, axis, positions, values, reduce, include_self)


@converts("aten.index_add")
def index_add(builder: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Add alpha * source to the slices at the indices along an axis."""
    scaled = source if alpha == 1 else ew.binary(builder, "mul", source, as_tensor(builder, alpha, source.dtype))
    return _replace_slices(builder, self, dim, index, scaled, "add")


@converts("aten.index_copy", "aten.index_fill")
def index_copy(builder: Builder, self: Tensor, dim: int, index: Tensor, source: Operand) -> Tensor:
    """Replace the slices at the indices along an axis by the slices of `source`, or by a number."""
    return _replace_slices(builder, self, dim, index, source, combine=None)


@converts("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def index_put(
    builder: Builder, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:  # fmt: skip
    """Return `self` with the elements at index tensors or masks replaced by `values`, or increased if `accumulate` is
    set.
    """
    mask = indices[0] if len(indices) == 1 else None
    # A single value needs no tensor of the positions that the mask selects, whose size is dynamic.
    if mask is not None and mask.dtype.is_bool and all(n == 1 for n in values.shape):
        return _masked_put(builder, self, mask, values, accumulate)
    indices = _positions(builder, self, indices)
    by_axis = [*indices, *[None] * (self.rank - len(indices))]
    return assignment.put(builder, self, by_axis, values, "add" if accumulate else None)


def _masked_put(builder: Builder, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Return x with one value written to, or added to, all elements that a mask over the first axes selects."""
    expanded_mask = shapes.reshape(builder, mask, [*mask.shape, *[1] * (x.rank - mask.rank)])
    value = ew.convert(builder, shapes.reshape(builder, values, []), x.dtype)
    return ew.select(builder, expanded_mask, ew.binary(builder, "add", x, value) if accumulate else value, x)
