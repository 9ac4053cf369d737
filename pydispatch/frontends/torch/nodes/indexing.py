"""Conversions of operators that read or replace elements at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.torch.nodes.pointwise import floor_quotient
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64, U8, DType, Kind
from pydispatch.graph.sizes import Expr, Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import gathers, reductions, scans, scatters, selection, shapes
from pydispatch.operations.formulas import Element, formula

MaybeTensors = Sequence["Tensor | None"]


def embedding(
    b: Builder,
    weight: Tensor,
    indices: Tensor,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` at the indices; the other parameters affect gradients only."""
    return gathers.take(b, weight, indices, 0)


def index(b: Builder, self: Tensor, indices: MaybeTensors) -> Tensor:
    by_axis = _positions(b, self, indices)
    return gathers.index(b, self, [*by_axis, *[None] * (self.rank - len(by_axis))])


def _positions(b: Builder, x: Tensor, indices: MaybeTensors) -> list[Tensor | None]:
    """Return one index tensor per indexed axis; a mask is replaced by the indices of its true elements, one vector per
    axis.
    """
    by_axis: list[Tensor | None] = []
    for i in indices:
        if i is None or not (i.dtype.is_bool or i.dtype == U8):
            by_axis.append(i)
            continue
        masked_sizes = x.shape[len(by_axis) : len(by_axis) + i.rank]
        if i.rank == 0 or any(not isinstance(n, Expr) and not isinstance(m, Expr) and n != m
                              for n, m in zip(masked_sizes, i.shape, strict=True)):  # fmt: skip
            raise b.fail(f"{x} is indexed by {i}, whose axes are not those of it")
        by_axis += selection.indices_of_nonzero(b, i)
    return by_axis


def nonzero(b: Builder, self: Tensor) -> Tensor:
    rows = selection.indices_of_nonzero(b, self if self.rank else shapes.reshape(b, self, [1]))
    return shapes.stack(b, rows, 1) if self.rank else shapes.full(b, 0, [*rows[0].shape, 0], I64)


def nonzero_numpy(b: Builder, self: Tensor) -> list[Tensor]:
    return selection.indices_of_nonzero(b, self if self.rank else shapes.reshape(b, self, [1]))


def masked_select(b: Builder, self: Tensor, mask: Tensor) -> Tensor:
    shape = ew.broadcast_shape(b, self.shape, mask.shape)
    x, kept = (shapes.reshape(b, shapes.broadcast_to(b, v, shape), [-1]) for v in (self, mask))
    return gathers.take(b, x, selection.indices_of_true(b, kept), 0)


def masked_scatter(b: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `self` with its masked elements replaced by the elements of `source`, in order."""
    shape = ew.broadcast_shape(b, self.shape, mask.shape)
    x, is_masked = (shapes.broadcast_to(b, v, shape) for v in (self, mask))
    flat = ew.convert(b, shapes.reshape(b, is_masked, [-1]), I64)
    numbers = shapes.reshape(b, scans.cumulative(b, "add", flat, 0, exclusive=True), shape)
    return ew.select(b, is_masked, gathers.take(b, shapes.reshape(b, source, [-1]), numbers, 0), x)


def put(b: Builder, self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `self` with the elements at row-major indices replaced, or increased if `accumulate` is set."""
    flat, positions, updates = (shapes.reshape(b, v, [product(v.shape)]) for v in (self, index, source))
    updated = scatters.put_along(b, flat, positions, updates, 0, "add" if accumulate else None)
    return shapes.reshape(b, updated, self.shape)


def index_select(b: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    if not self.rank:
        return self
    return gathers.take(b, self, shapes.reshape(b, index, [-1]), shapes.axis_of(b, dim, self.rank))


def gather(b: Builder, self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if not self.rank:
        return shapes.broadcast_to(b, self, index.shape)
    return gathers.take_along(b, self, index, shapes.axis_of(b, dim, self.rank))


def take_along_dim(b: Builder, self: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Return the elements at indices along one axis; the other axes are broadcast."""
    axis = shapes.axis_of(b, dim, self.rank)
    shape = [i if d == axis else ew.broadcast_shape(b, (n,), (i,))[0]
             for d, (n, i) in enumerate(zip(self.shape, indices.shape, strict=True))]  # fmt: skip
    full_shape = [self.shape[d] if d == axis else n for d, n in enumerate(shape)]
    x, positions = shapes.broadcast_to(b, self, full_shape), shapes.broadcast_to(b, indices, shape)
    return gathers.take_along(b, x, positions, axis)


def take(b: Builder, self: Tensor, index: Tensor) -> Tensor:
    return gathers.take(b, shapes.reshape(b, self, [-1]), index, 0)


def masked_fill(b: Builder, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return ew.select(b, mask, as_tensor(b, value, self.dtype), self)


def one_hot(b: Builder, self: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        raise b.fail("one_hot without a number of classes gives a tensor whose size depends on its elements")
    positions = shapes.expand_dims(b, self, [self.rank])
    return ew.convert(b, ew.compare(b, "eq", positions, b.constant(list(range(num_classes)), self.dtype)), I64)


# -- replacement of elements


def _updates_for(b: Builder, source: Operand, like: Tensor, dtype: DType) -> Tensor:
    """Return the part of a source tensor that corresponds to an index tensor, or a number broadcast to its shape."""
    if not isinstance(source, Tensor):
        return shapes.broadcast_to(b, as_tensor(b, source, dtype), like.shape)
    starts: list[Size] = [0] * source.rank
    return ew.convert(b, shapes.slice_(b, source, starts, list(like.shape)), dtype)


_REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def scatter(b: Builder, self: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str | None = None) -> Tensor:
    """Return `self` with the elements whose position along `dim` is in `index` replaced by `src`, or
    combined with it.
    """
    if not self.rank:
        updated = scatter(b, shapes.reshape(b, self, [1]), 0, shapes.reshape(b, index, [1]), src, reduce=reduce)
        return shapes.reshape(b, updated, [])
    if reduce is not None and reduce not in _REDUCTIONS:
        raise b.fail(f"scatter that reduces by '{reduce}'; supported are {', '.join(_REDUCTIONS)}")
    combine = _REDUCTIONS[reduce] if reduce is not None else None
    source = _updates_for(b, src, index, self.dtype)
    return scatters.put_along(b, self, index, source, shapes.axis_of(b, dim, self.rank), combine)


def scatter_value(
    b: Builder, self: Tensor, dim: int, index: Tensor, value: Operand, *, reduce: str | None = None
) -> Tensor:
    return scatter(b, self, dim, index, value, reduce=reduce)


def scatter_add(b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return scatter(b, self, dim, index, src, reduce="add")


def scatter_reduce(
    b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Combine updates with the elements at indices along an axis; without `include_self`, elements that have updates do
    not take part.
    """
    if not self.rank:
        flat = (shapes.reshape(b, v, [1]) for v in (self, index, src))
        updated = scatter_reduce(b, next(flat), 0, next(flat), next(flat), reduce, include_self=include_self)
        return shapes.reshape(b, updated, [])
    return _scatter_reduced(
        b,
        self,
        shapes.axis_of(b, dim, self.rank),
        index,
        _updates_for(b, src, index, self.dtype),
        reduce,
        include_self,
    )


_IDENTITIES = {"add": lambda dtype: 0, "mul": lambda dtype: 1, "max": reductions.least, "min": reductions.largest}


def _scatter_reduced(
    b: Builder, x: Tensor, axis: int, positions: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """Return x with the elements of `source` combined into it at positions along an axis.

    Without `include_self`, elements of x at these positions do not contribute.
    """
    name = "add" if reduce == "mean" else _REDUCTIONS.get(reduce)
    if name is None:
        raise b.fail(f"elements are combined by '{reduce}'; known are mean, {', '.join(_REDUCTIONS)}")
    initial = x
    if not include_self:
        identity = shapes.full(b, _IDENTITIES[name](x.dtype), positions.shape, x.dtype)
        initial = scatters.put_along(b, x, positions, identity, axis)
    combined = scatters.put_along(b, initial, positions, source, axis, name)
    if reduce != "mean":
        return combined
    counts = shapes.full(b, 1 if include_self else 0, x.shape, I64)
    counts = scatters.put_along(b, counts, positions, shapes.full(b, 1, positions.shape, I64), axis, "add")

    def mean(total: Element, n: Element) -> Element:
        count = n.max(1).to(total.dtype)
        return floor_quotient(total, count) if total.dtype.kind is Kind.INT else total / count

    return formula(b, mean, combined, counts)


def _replace_slices(b: Builder, x: Tensor, dim: int, index: Tensor, source: Operand, combine: str | None) -> Tensor:
    """Return x with the slices at the indices along an axis replaced by those of `source`, or combined with them."""
    if not x.rank:
        flat = [shapes.reshape(b, v, [-1]) for v in (x, index, as_tensor(b, source, x.dtype))]
        return shapes.reshape(b, _replace_slices(b, flat[0], 0, flat[1], flat[2], combine), [])
    axis = shapes.axis_of(b, dim, x.rank)
    positions, shape = _slice_positions(b, x, axis, index)
    values = shapes.broadcast_to(b, as_tensor(b, source, x.dtype), shape)
    return scatters.put_along(b, x, positions, values, axis, combine)


def _slice_positions(b: Builder, x: Tensor, axis: int, index: Tensor) -> tuple[Tensor, list[Size]]:
    """Return the index along `axis` of each element of the slices that a vector of indices selects, and the shape of
    these slices.
    """
    vector = shapes.reshape(b, index, [-1, *[1] * (x.rank - axis - 1)])
    shape = [vector.shape[0] if d == axis else n for d, n in enumerate(x.shape)]
    return shapes.broadcast_to(b, vector, shape), shape


def index_reduce(
    b: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Combine slices of `source` with the slices of `self` at indices along an axis."""
    if not self.rank:
        x, at, updates = (shapes.reshape(b, v, [-1]) for v in (self, index, source))
        return shapes.reshape(b, index_reduce(b, x, 0, at, updates, reduce, include_self=include_self), [])
    axis = shapes.axis_of(b, dim, self.rank)
    positions, shape = _slice_positions(b, self, axis, index)
    values = shapes.broadcast_to(b, as_tensor(b, source, self.dtype), shape)
    return _scatter_reduced(b, self, axis, positions, values, reduce, include_self)


def index_add(b: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    scaled = source if alpha == 1 else ew.binary(b, "mul", source, as_tensor(b, alpha, source.dtype))
    return _replace_slices(b, self, dim, index, scaled, "add")


def index_copy(b: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _replace_slices(b, self, dim, index, source, None)


def index_fill(b: Builder, self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    return _replace_slices(b, self, dim, index, value, None)


def index_put(b: Builder, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `self` with the elements at index tensors or masks replaced by `values`, or increased if `accumulate` is
    set.
    """
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype.is_bool and all(n == 1 for n in values.shape):
        return _masked_put(b, self, mask, values, accumulate)
    indices = _positions(b, self, indices)
    by_axis = [*indices, *[None] * (self.rank - len(indices))]
    return scatters.put(b, self, by_axis, values, "add" if accumulate else None)


def index_put_impl(
    b: Builder, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    return index_put(b, self, indices, values, accumulate)


def _masked_put(b: Builder, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Return x with one value written to, or added to, all elements that a mask over the first axes selects."""
    expanded_mask = shapes.reshape(b, mask, [*mask.shape, *[1] * (x.rank - mask.rank)])
    value = ew.convert(b, shapes.reshape(b, values, []), x.dtype)
    return ew.select(b, expanded_mask, ew.binary(b, "add", x, value) if accumulate else value, x)


INDEXING: dict[str, Conversion] = {
    "aten.embedding": embedding,
    "aten.index": index,
    "aten._unsafe_index": index,
    "aten.index_select": index_select,
    "aten.gather": gather,
    "aten.take_along_dim": take_along_dim,
    "aten.take": take,
    "aten.put": put,
    "aten.masked_fill": masked_fill,
    "aten.masked_select": masked_select,
    "aten.masked_scatter": masked_scatter,
    "aten.nonzero": nonzero,
    "aten.nonzero_numpy": nonzero_numpy,
    "aten.one_hot": one_hot,
    "aten.scatter": scatter,
    "aten.scatter.value": scatter_value,
    "aten.scatter.value_reduce": scatter_value,
    "aten.scatter_add": scatter_add,
    "aten.scatter_reduce": scatter_reduce,
    "aten.index_add": index_add,
    "aten.index_copy": index_copy,
    "aten.index_fill": index_fill,
    "aten.index_reduce": index_reduce,
    "aten.index_put": index_put,
    "aten._index_put_impl": index_put_impl,
    "aten._unsafe_index_put": index_put,
}
