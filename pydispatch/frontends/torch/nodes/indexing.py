"""Elements at computed places."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.frontends.graph.dtypes import I64, DType
from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops import gathers, scatters, shapes
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
    if any(i is not None and i.dtype.is_bool for i in indices):
        raise t.b.fail(
            "indexing by truth values gives a tensor whose size is known after it is computed, which is not supported"
        )
    return gathers.index(t.b, self, [*indices, *[None] * (self.rank - len(indices))])


def index_select(t: Tracer, self: Tensor, dim: int, index: Tensor) -> Tensor:
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
    """The first elements of a source for each index, or a number for all."""
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
    if not include_self:
        raise t.b.fail("scatter_reduce without the elements that are there (include_self=False) is not supported")
    return scatter(t, self, dim, index, src, reduce=reduce)


def _along(t: Tracer, x: Tensor, dim: int, index: Tensor, source: Operand, combine: str | None) -> Tensor:
    """x with slices replaced: those of a source at the places of a vector along an axis."""
    axis = shapes.axis_of(t.b, dim, x.rank)
    vector = shapes.reshape(t.b, index, [-1, *[1] * (x.rank - axis - 1)])
    shape = [vector.shape[0] if d == axis else n for d, n in enumerate(x.shape)]
    places = shapes.broadcast_to(t.b, vector, shape)
    values = shapes.broadcast_to(t.b, as_tensor(t, source, x.dtype), shape)
    return scatters.put_along(t.b, x, places, values, axis, combine)


def index_add(t: Tracer, self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    scaled = source if alpha == 1 else ew.binary(t.b, "mul", source, as_tensor(t, alpha, source.dtype))
    return _along(t, self, dim, index, scaled, "add")


def index_copy(t: Tracer, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(t, self, dim, index, source, None)


def index_fill(t: Tracer, self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    return _along(t, self, dim, index, value, None)


def index_put(t: Tracer, self: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool = False) -> Tensor:
    given = [i for i in indices if i is not None]
    if any(i.dtype.is_bool for i in given):
        return _masked_put(t, self, indices, values, accumulate)
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


def _masked_put(t: Tracer, x: Tensor, indices: MaybeTensors, values: Tensor, accumulate: bool) -> Tensor:
    """One mask over the first axes, and one value for what it marks."""
    mask = indices[0]
    if mask is None or len(indices) != 1 or any(n != 1 for n in values.shape):
        raise t.b.fail("elements that truth values mark are replaced by several values, which is not supported")
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
    "aten.masked_fill": masked_fill,
    "aten.one_hot": one_hot,
    "aten.scatter": scatter,
    "aten.scatter.value": scatter_value,
    "aten.scatter.value_reduce": scatter_value,
    "aten.scatter_add": scatter_add,
    "aten.scatter_reduce": scatter_reduce,
    "aten.index_add": index_add,
    "aten.index_copy": index_copy,
    "aten.index_fill": index_fill,
    "aten.index_put": index_put,
    "aten._unsafe_index_put": index_put,
}
