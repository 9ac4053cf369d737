"""Elements at computed places."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import I64, U8, DType, Kind
from pydispatch.frontends.graph.sizes import Expr, Size, product
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, reductions, scans, scatters, selection, shapes
from pydispatch.frontends.ops.formulas import Element, formula
from pydispatch.frontends.torch.nodes.pointwise import floor_quotient
from pydispatch.frontends.torch.promotion import Number, Operand, as_tensor
from pydispatch.frontends.torch.trace import Conversion, Tracer

MaybeTensors = Sequence["Tensor | None"]


def embedding(
    t: Tracer,
    weight: Tensor,
    indices: Tensor,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    return gathers.take(t.b, weight, indices, 0)


def index(t: Tracer, self: Tensor, indices: MaybeTensors) -> Tensor:
    given = _places(t, self, indices)
    return gathers.index(t.b, self, [*given, *[None] * (self.rank - len(given))])


def _places(t: Tracer, x: Tensor, indices: MaybeTensors) -> list[Tensor | None]:
    """Return indices with masks replaced by the indices of their true elements, one vector for each axis of a mask."""
    found: list[Tensor | None] = []
    for i in indices:
        if i is None or not (i.dtype.is_bool or i.dtype == U8):
            found.append(i)
            continue
        covered = x.shape[len(found) : len(found) + i.rank]
        if i.rank == 0 or any(not isinstance(n, Expr) and not isinstance(m, Expr) and n != m
                              for n, m in zip(covered, i.shape, strict=True)):  # fmt: skip
            raise t.b.fail(f"{x} is indexed by {i}, whose axes are not those of it")
        found += selection.places_of_nonzero(t.b, i)
    return found


def nonzero(t: Tracer, self: Tensor) -> Tensor:
    rows = selection.places_of_nonzero(t.b, self if self.rank else shapes.reshape(t.b, self, [1]))
    return shapes.stack(t.b, rows, 1) if self.rank else shapes.full(t.b, 0, [*rows[0].shape, 0], I64)


def nonzero_numpy(t: Tracer, self: Tensor) -> list[Tensor]:
    return selection.places_of_nonzero(t.b, self if self.rank else shapes.reshape(t.b, self, [1]))


def masked_select(t: Tracer, self: Tensor, mask: Tensor) -> Tensor:
    shape = ew.broadcast_shape(t.b, self.shape, mask.shape)
    x, kept = (shapes.reshape(t.b, shapes.broadcast_to(t.b, v, shape), [-1]) for v in (self, mask))
    return gathers.take(t.b, x, selection.places_of_true(t.b, kept), 0)


def masked_scatter(t: Tracer, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `self` with the elements that a mask marks replaced by those of a source, in their order."""
    shape = ew.broadcast_shape(t.b, self.shape, mask.shape)
    x, marked = (shapes.broadcast_to(t.b, v, shape) for v in (self, mask))
    flat = ew.convert(t.b, shapes.reshape(t.b, marked, [-1]), I64)
    numbers = shapes.reshape(t.b, scans.cumulative(t.b, "add", flat, 0, exclusive=True), shape)
    return ew.select(t.b, marked, gathers.take(t.b, shapes.reshape(t.b, source, [-1]), numbers, 0), x)


def put(t: Tracer, self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return `self` with elements at row-major indices replaced, or added to where `accumulate` is set."""
    flat, places, given = (shapes.reshape(t.b, v, [product(v.shape)]) for v in (self, index, source))
    made = scatters.put_along(t.b, flat, places, given, 0, "add" if accumulate else None)
    return shapes.reshape(t.b, made, self.shape)


def index_select(t: Tracer, self: Tensor, dim: int, index: Tensor) -> Tensor:
    if not self.rank:
        return self
    return gathers.take(t.b, self, shapes.reshape(t.b, index, [-1]), shapes.axis_of(t.b, dim, self.rank))


def gather(t: Tracer, self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if not self.rank:
        return shapes.broadcast_to(t.b, self, index.shape)
    return gathers.take_along(t.b, self, index, shapes.axis_of(t.b, dim, self.rank))


def take_along_dim(t: Tracer, self: Tensor, indices: Tensor, dim: int) -> Tensor:
    axis = shapes.axis_of(t.b, dim, self.rank)
    shape = [i if d == axis else ew.broadcast_shape(t.b, (n,), (i,))[0]
             for d, (n, i) in enumerate(zip(self.shape, indices.shape, strict=True))]  # fmt: skip
    whole = [self.shape[d] if d == axis else n for d, n in enumerate(shape)]
    x, places = shapes.broadcast_to(t.b, self, whole), shapes.broadcast_to(t.b, indices, shape)
    return gathers.take_along(t.b, x, places, axis)


def take(t: Tracer, self: Tensor, index: Tensor) -> Tensor:
    return gathers.take(t.b, shapes.reshape(t.b, self, [-1]), index, 0)


def masked_fill(t: Tracer, self: Tensor, mask: Tensor, value: Operand) -> Tensor:
    return ew.select(t.b, mask, as_tensor(t, value, self.dtype), self)


def one_hot(t: Tracer, self: Tensor, num_classes: int = -1) -> Tensor:
    if num_classes < 0:
        raise t.b.fail("one_hot without a number of classes gives a tensor whose size depends on its elements")
    places = shapes.expand_dims(t.b, self, [self.rank])
    return ew.convert(t.b, ew.compare(t.b, "eq", places, t.b.constant(list(range(num_classes)), self.dtype)), I64)


# -- replaced


def _spread_to(t: Tracer, source: Operand, like: Tensor, dtype: DType) -> Tensor:
    """Return the elements of a source for each index, or a number broadcast to all of them."""
    if not isinstance(source, Tensor):
        return shapes.broadcast_to(t.b, as_tensor(t, source, dtype), like.shape)
    starts: list[Size] = [0] * source.rank
    return ew.convert(t.b, shapes.slice_(t.b, source, starts, list(like.shape)), dtype)


_COMBINE = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min"}


def scatter(t: Tracer, self: Tensor, dim: int, index: Tensor, src: Operand, *, reduce: str | None = None) -> Tensor:
    if not self.rank:
        made = scatter(t, shapes.reshape(t.b, self, [1]), 0, shapes.reshape(t.b, index, [1]), src, reduce=reduce)
        return shapes.reshape(t.b, made, [])
    if reduce is not None and reduce not in _COMBINE:
        raise t.b.fail(f"scatter that reduces by '{reduce}'; supported are {', '.join(_COMBINE)}")
    combine = _COMBINE[reduce] if reduce is not None else None
    source = _spread_to(t, src, index, self.dtype)
    return scatters.put_along(t.b, self, index, source, shapes.axis_of(t.b, dim, self.rank), combine)


def scatter_value(
    t: Tracer, self: Tensor, dim: int, index: Tensor, value: Operand, *, reduce: str | None = None
) -> Tensor:
    return scatter(t, self, dim, index, value, reduce=reduce)


def scatter_add(t: Tracer, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return scatter(t, self, dim, index, src, reduce="add")


def scatter_reduce(
    t: Tracer, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if not self.rank:
        flat = (shapes.reshape(t.b, v, [1]) for v in (self, index, src))
        made = scatter_reduce(t, next(flat), 0, next(flat), next(flat), reduce, include_self=include_self)
        return shapes.reshape(t.b, made, [])
    return _reduced_along(t, self, shapes.axis_of(t.b, dim, self.rank), index, _spread_to(t, src, index, self.dtype),
                          reduce, include_self)  # fmt: skip


_IDENTITIES = {"add": lambda dtype: 0, "mul": lambda dtype: 1, "max": reductions.least, "min": reductions.largest}


def _reduced_along(
    t: Tracer, x: Tensor, axis: int, places: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    """x with elements combined into it along an axis. include_self: with what is there."""
    name = "add" if reduce == "mean" else _COMBINE.get(reduce)
    if name is None:
        raise t.b.fail(f"elements are combined by '{reduce}'; known are mean, {', '.join(_COMBINE)}")
    begin = x
    if not include_self:
        identity = shapes.full(t.b, _IDENTITIES[name](x.dtype), places.shape, x.dtype)
        begin = scatters.put_along(t.b, x, places, identity, axis)
    made = scatters.put_along(t.b, begin, places, source, axis, name)
    if reduce != "mean":
        return made
    counts = shapes.full(t.b, 1 if include_self else 0, x.shape, I64)
    counts = scatters.put_along(t.b, counts, places, shapes.full(t.b, 1, places.shape, I64), axis, "add")

    def mean(total: Element, n: Element) -> Element:
        count = n.at_least(1).to(total.dtype)
        return floor_quotient(total, count) if total.dtype.kind is Kind.INT else total / count

    return formula(t.b, mean, made, counts)


def _along(t: Tracer, x: Tensor, dim: int, index: Tensor, source: Operand, combine: str | None) -> Tensor:
    """x with slices replaced: those of a source at the places of a vector along an axis."""
    if not x.rank:
        flat = [shapes.reshape(t.b, v, [-1]) for v in (x, index, as_tensor(t, source, x.dtype))]
        return shapes.reshape(t.b, _along(t, flat[0], 0, flat[1], flat[2], combine), [])
    axis = shapes.axis_of(t.b, dim, x.rank)
    places, shape = _slices_at(t, x, axis, index)
    values = shapes.broadcast_to(t.b, as_tensor(t, source, x.dtype), shape)
    return scatters.put_along(t.b, x, places, values, axis, combine)


def _slices_at(t: Tracer, x: Tensor, axis: int, index: Tensor) -> tuple[Tensor, list[Size]]:
    """Return the indices of the elements of slices of x, a vector of indices along an axis, and the shape of the
    slices.
    """
    vector = shapes.reshape(t.b, index, [-1, *[1] * (x.rank - axis - 1)])
    shape = [vector.shape[0] if d == axis else n for d, n in enumerate(x.shape)]
    return shapes.broadcast_to(t.b, vector, shape), shape


def index_reduce(
    t: Tracer, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if not self.rank:
        x, at, given = (shapes.reshape(t.b, v, [-1]) for v in (self, index, source))
        return shapes.reshape(t.b, index_reduce(t, x, 0, at, given, reduce, include_self=include_self), [])
    axis = shapes.axis_of(t.b, dim, self.rank)
    places, shape = _slices_at(t, self, axis, index)
    values = shapes.broadcast_to(t.b, as_tensor(t, source, self.dtype), shape)
    return _reduced_along(t, self, axis, places, values, reduce, include_self)


def index_add(t: Tracer, self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    scaled = source if alpha == 1 else ew.binary(t.b, "mul", source, as_tensor(t, alpha, source.dtype))
    return _along(t, self, dim, index, scaled, "add")


def index_copy(t: Tracer, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(t, self, dim, index, source, None)


def index_fill(t: Tracer, self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    return _along(t, self, dim, index, value, None)


def index_put(t: Tracer, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False) -> Tensor:
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype.is_bool and all(n == 1 for n in values.shape):
        return _masked_put(t, self, mask, values, accumulate)
    indices = _places(t, self, indices)
    given = [i for i in indices if i is not None]
    axes = [d for d, i in enumerate(indices) if i is not None]
    kept = [d for d in range(self.rank) if d not in axes]
    places = ew.broadcast_shape(t.b, *(i.shape for i in given))
    # Indexed axes first; what is written has theirs where the first of them is when they stand together.
    order = [*axes, *kept]
    whole = shapes.transpose(t.b, self, order)
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    rest = [self.shape[d] for d in kept]
    written = shapes.broadcast_to(t.b, ew.convert(t.b, values, self.dtype), [*rest[:first], *places, *rest[first:]])
    width = len(places)
    moved = [*range(first, first + width), *range(first), *range(first + width, written.rank)]
    columns = [shapes.broadcast_to(t.b, ew.convert(t.b, i, I64), places) for i in given]
    rows = shapes.stack(t.b, columns, width)
    made = scatters.put_nd(t.b, whole, rows, shapes.transpose(t.b, written, moved), "add" if accumulate else None)
    return shapes.transpose(t.b, made, [order.index(d) for d in range(self.rank)])


def index_put_impl(
    t: Tracer, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    return index_put(t, self, indices, values, accumulate)


def _masked_put(t: Tracer, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    """Return x with one value at, or added to, all elements that a mask over the first axes marks."""
    spread = shapes.reshape(t.b, mask, [*mask.shape, *[1] * (x.rank - mask.rank)])
    value = ew.convert(t.b, shapes.reshape(t.b, values, []), x.dtype)
    return ew.select(t.b, spread, ew.binary(t.b, "add", x, value) if accumulate else value, x)


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
