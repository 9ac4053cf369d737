"""Elements and slices of a tensor replaced at places that other tensors hold; those outside of it change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, i32, i64
from xdsl.ir import Block, Region

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Size, product
from pydispatch.frontends.graph.values import Tensor, tensor_type
from pydispatch.frontends.ops.elementwise import convert
from pydispatch.frontends.ops.formulas import formula
from pydispatch.frontends.ops.gathers import GatherAxes, columns
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.reductions import size_as
from pydispatch.frontends.ops.scalars import Scalars, scalars_of
from pydispatch.frontends.ops.shapes import concat, expand_dims, full, iota, reshape, slice_axis, transpose
from pydispatch.ir.dialects.iree_linalg_ext.base import YieldOp
from pydispatch.ir.dialects.iree_linalg_ext.indexing import ScatterOp

Combine = Callable[[Scalars, Scalar, Scalar], Scalar]
"""combine(s, element of the tensor, element of an update) -> new element."""


def scatter(
    b: Builder, x: Tensor, indices: Tensor, updates: Tensor, axes: GatherAxes, combine: Combine, unique: bool = False
) -> Tensor:
    """x with slices combined into it, each at the coordinates that `indices` has for it; what lies outside is left out.

    axes: the same correspondence as of a gather, with `updates` in place of its result. unique: no element is in two
    slices; otherwise they are combined one after the other.
    """
    places = [_column(b, indices, axes, n) for n in range(len(axes.indexed))]
    indexed = [*axes.indexed, *axes.batching]
    for n in axes.index_batching:
        lead = axes.batch_of_indices(indices.rank)
        shape = tuple(indices.shape[d] for d in lead)
        places.append(iota(b, shape, lead.index(n), indices.dtype))
    slices = _with_all_axes(b, updates, x, axes)
    batch = slices.rank - x.rank
    # Axes along which slices are smaller than x lie at 0.
    for d in range(x.rank):
        if d not in indexed and slices.shape[batch + d] != x.shape[d]:
            indexed.append(d)
            places.append(full(b, 0, places[0].shape if places else (), indices.dtype))
    order = [*indexed, *(d for d in range(x.rank) if d not in indexed)]
    slices = transpose(b, slices, [*range(batch), *(batch + d for d in order)])
    if batch == 0:  # one slice
        slices, places, batch = expand_dims(b, slices, [0]), [expand_dims(b, p, [0]) for p in places], 1
    moved = transpose(b, x, order)
    if not indexed:
        indexed, places = [0], [full(b, 0, slices.shape[:batch], indices.dtype)]
    at = convert(b, concat(b, [expand_dims(b, p, [batch]) for p in places], batch), indices.dtype)
    made = scatter_first(b, moved, at, slices, len(indexed), combine, unique)
    return transpose(b, made, [order.index(d) for d in range(x.rank)])


def _column(b: Builder, indices: Tensor, axes: GatherAxes, number: int) -> Tensor:
    """One coordinate of each slice."""
    lead = [indices.shape[d] for d in axes.batch_of_indices(indices.rank)]
    if axes.vector == indices.rank:
        return indices
    return reshape(b, slice_axis(b, indices, axes.vector, number, number + 1), lead)


def _with_all_axes(b: Builder, updates: Tensor, x: Tensor, axes: GatherAxes) -> Tensor:
    """The slices with the axes that count them first, then all axes of x."""
    lead = [d for d in range(updates.rank) if d not in axes.offset]
    made = transpose(b, updates, [*lead, *axes.offset])
    sizes = dict(zip(axes.kept(x.rank), made.shape[len(lead) :], strict=True))
    shape: list[Size] = [*made.shape[: len(lead)], *(sizes.get(d, 1) for d in range(x.rank))]
    return reshape(b, made, shape)


def scatter_first(
    b: Builder, x: Tensor, indices: Tensor, slices: Tensor, depth: int, combine: Combine, unique: bool = False
) -> Tensor:
    """x with slices combined into it at the places along its first axes that the rows of `indices` [n, depth] name.

    slices: [n, ...], with all axes of x, of size 1 along those that are named. Places outside of x are left out.
    """
    if x.dtype.is_complex:
        raise b.fail(f"a scatter into {x} is not supported")
    if slices.dtype != x.dtype:
        raise b.fail(f"a scatter into {x}: what is put there is {slices}, of another type")
    block = Block(arg_types=[x.dtype.element, x.dtype.element])
    new, old = scalars_of([x.dtype, x.dtype], block.args)
    block.add_op(YieldOp.create(operands=[combine(Scalars(block), old, new).value]))
    op = ScatterOp.create(
        operands=[b.value(slices), b.value(indices), b.value(x)],
        result_types=[tensor_type(x.dtype.element, x.shape)],
        properties={
            "dimension_map": DenseArrayBase.from_list(i64, range(depth)),
            "unique_indices": BoolAttr.from_bool(unique),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [2, 1]),
        },
        regions=[Region(block)],
    )
    return b.wrap(x.dtype, x.shape, b.add(op).results[0])


# -- as NumPy has them: places count from the end when they are negative


def put_along(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int, combine: str | None = None) -> Tensor:
    """x with updates at the indices along an axis, in their order. combine: add, mul, max, min of the old and new."""
    places = [
        _from_front(b, indices, x.shape[d]) if d == axis else iota(b, indices.shape, d, I64) for d in range(x.rank)
    ]
    count = product(indices.shape)
    return put_rows(b, x, [reshape(b, p, [count]) for p in places], reshape(b, updates, [count]), combine)


def put_nd(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, combine: str | None = None) -> Tensor:
    """x with updates at the rows of indices [..., k], which name places along the first k axes."""
    parts = columns(b, indices)
    if len(parts) > x.rank:
        raise b.fail(f"indices {indices} name places along {len(parts)} axes of {x}")
    count = product(indices.shape[:-1])
    places = [reshape(b, _from_front(b, part, x.shape[d]), [count]) for d, part in enumerate(parts)]
    return put_rows(b, x, places, reshape(b, updates, [count, *x.shape[len(parts) :]]), combine)


def _from_front(b: Builder, indices: Tensor, size: Size) -> Tensor:
    wide = convert(b, indices, I64)
    return formula(b, lambda i, n: (i < 0).choose(i + n, i), wide, size_as(b, size, I64))


def put_rows(b: Builder, x: Tensor, places: Sequence[Tensor], updates: Tensor, combine: str | None = None) -> Tensor:
    """x with updates [n, the other axes] at places, a vector [n] for each of its first axes."""
    depth = len(places)
    slices = reshape(b, updates, [updates.shape[0], *[1] * depth, *updates.shape[1:]])
    rows = concat(b, [expand_dims(b, p, [1]) for p in places], 1)

    def combined(s: Scalars, old: Scalar, new: Scalar) -> Scalar:
        return s.binary(combine, old, new) if combine else new

    return scatter_first(b, x, rows, slices, depth, combined)
