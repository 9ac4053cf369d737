"""Elements and slices of a tensor at positions that other tensors hold.

Except in `gather`, positions count from the end when they are negative. Those outside of an axis are moved to its
nearest element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.dtypes import I64
from pydispatch.frontends.graph.sizes import Expr, Shape, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops.elementwise import FOLDED, broadcast_shape
from pydispatch.frontends.ops.indexing import (
    CoordinateBuilder,
    clamped_start,
    elements_at,
    require_elements,
    require_slices,
)
from pydispatch.frontends.ops.reals import Scalar
from pydispatch.frontends.ops.shapes import reshape, slice_, slice_axis

# -- as NumPy has them


def _from_the_front(coords: CoordinateBuilder, position: Scalar, n: SSAValue) -> SSAValue:
    """Return a position counted from the front of an axis of n elements, and clamped to it; negative ones count from
    the end.
    """
    at = coords.index_of(position)
    if not position.dtype.is_unsigned:
        negative = coords.add_op(arith.CmpiOp(at, coords.index_constant(0), "slt"))
        at = coords.add_op(arith.SelectOp(negative, coords.plus(at, n), at))
    return coords.clamped(at, coords.minus(n, coords.index_constant(1)))


def _elements(
    builder: Builder, x: Tensor, shape: Sequence[Size], positions: Mapping[int, Tensor], others: Mapping[int, int]
) -> Tensor:
    """Return the tensor of `shape` whose elements are the elements of x at positions.

    positions: for axes of x tensors of integers that broadcast to `shape`. others: for the other axes of x the axes of
    the result that they are.
    """
    require_elements(builder, x, positions, tuple(shape))
    sizes = {d: builder.index(x.shape[d]) for d in positions}

    def written(p: CoordinateBuilder) -> list[SSAValue]:
        at = dict(zip(positions, p.elements, strict=True))
        return [_from_the_front(p, at[d], sizes[d]) if d in at else p.index(others[d]) for d in range(x.rank)]

    return elements_at(builder, x, tuple(shape), written, *positions.values())


def take(builder: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """numpy.take: the slices of x at the indices along an axis; axes of the indices replace it.

    Known indices outside of the axis are an error.
    """
    known = indices.numbers
    n = x.shape[axis]
    if known is not None and not isinstance(n, Expr) and (known.min(initial=0) < -n or known.max(initial=-n) >= n):
        raise builder.fail(f"an index in {known.reshape(-1)[:8].tolist()} is not within axis {axis} of {x}")
    if known is not None and x.known is not None and x.known.size <= FOLDED:
        return builder.constant(x.known.take(known, axis), x.dtype)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if known is not None and known.size == 1 and (known.item() >= 0 or not isinstance(n, Expr)):
        at = known.item() % n if not isinstance(n, Expr) else known.item()
        return reshape(builder, slice_axis(builder, x, axis, at, at + 1), shape)
    after = x.rank - axis - 1
    others = {d: d if d < axis else d + indices.rank - 1 for d in range(x.rank)}
    return _elements(builder, x, shape, {axis: reshape(builder, indices, [*indices.shape, *[1] * after])}, others)


def take_along(builder: Builder, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """numpy.take_along_axis: for each index the element of x there along an axis, and at its own position along the
    other axes.
    """
    return _elements(builder, x, indices.shape, {axis: indices}, {d: d for d in range(x.rank)})


def take_nd(builder: Builder, x: Tensor, indices: Tensor, batch: int) -> Tensor:
    """Gather the slices of x at the rows of indices [..., k]. A row has the positions along the k axes of x after the
    first `batch` ones, which x and indices share.
    """
    lead, parts = indices.shape[:-1], columns(builder, indices)
    first = batch + len(parts)
    rest = x.shape[first:]
    positions = {batch + n: reshape(builder, part, [*lead, *[1] * len(rest)]) for n, part in enumerate(parts)}
    others = {d: d if d < batch else len(lead) + d - first for d in range(x.rank)}
    return _elements(builder, x, (*lead, *rest), positions, others)


def columns(builder: Builder, indices: Tensor) -> list[Tensor]:
    """Return indices [..., k] as k tensors [...]."""
    count = indices.shape[-1]
    if isinstance(count, Expr):
        raise builder.fail(f"the last size of the indices {indices} must be known")
    last = indices.rank - 1
    return [reshape(builder, slice_axis(builder, indices, last, n, n + 1), indices.shape[:-1]) for n in range(count)]


def index(builder: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """NumPy's x[indices] with tensors of integers, which broadcast together, and None for a whole axis.

    The axes of the indices come where the first of them is, or first when whole axes are between them.
    """
    by_axis = {d: i for d, i in enumerate(indices) if i is not None}
    axes = list(by_axis)
    if len(axes) == 1:
        return take(builder, x, by_axis[axes[0]], axes[0])
    if (folded := _folded(builder, x, indices)) is not None:
        return folded
    shape = broadcast_shape(builder, *(i.shape for i in by_axis.values()))
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    kept = [d for d in range(x.rank) if d not in by_axis]
    before, after = kept[:first], kept[first:]
    others = {d: n if n < first else n + len(shape) for n, d in enumerate(kept)}
    positions = {
        d: reshape(builder, i, [*[1] * (len(shape) - i.rank), *i.shape, *[1] * len(after)]) for d, i in by_axis.items()
    }
    result = (*(x.shape[d] for d in before), *shape, *(x.shape[d] for d in after))
    return _elements(builder, x, result, positions, others)


def _folded(builder: Builder, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor | None:
    if x.known is None or x.known.size > FOLDED or any(i is not None and i.numbers is None for i in indices):
        return None
    positions = tuple(slice(None) if i is None else i.numbers for i in indices)
    try:
        return builder.constant(np.asarray(x.known[positions]), x.dtype)
    except IndexError as error:
        raise builder.fail(f"indices into {x}: {error}") from None


# -- slices, as StableHLO has them


@dataclass(frozen=True)
class GatherAxes:
    """Correspondence between the axes of the operand, indices and result of a gather, as in StableHLO's `gather`.

    Attributes:
        offset: axes of the result that index into a slice.
        collapsed, batching: axes of the operand that a slice does not have.
        index_batching: for each axis in `batching`, the corresponding axis of the indices.
        indexed: for each coordinate, the axis of the operand that it indexes.
        vector: axis of the indices that contains the coordinates; the rank of the indices if each index is a single
            coordinate.
    """

    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    indexed: tuple[int, ...]
    vector: int

    def batch_of_indices(self, rank: int) -> list[int]:
        """Return the axes of the indices that count the slices."""
        return [d for d in range(rank) if d != self.vector]

    def kept(self, rank: int) -> list[int]:
        """Return the axes of the operand that slices have."""
        return [d for d in range(rank) if d not in self.collapsed and d not in self.batching]


def gather(builder: Builder, x: Tensor, indices: Tensor, axes: GatherAxes, sizes: Sequence[Size]) -> Tensor:
    """Return slices of x of these sizes, each at the coordinates that `indices` has for it, moved to lie inside."""
    lead = [indices.shape[d] for d in axes.batch_of_indices(indices.rank)]
    kept = axes.kept(x.rank)
    rank = len(lead) + len(axes.offset)
    batch_axes = [d for d in range(rank) if d not in axes.offset]
    lead_sizes, kept_sizes = iter(lead), iter([sizes[d] for d in kept])
    shape = tuple(next(kept_sizes) if d in axes.offset else next(lead_sizes) for d in range(rank))
    require_slices(builder, x, sizes, shape)
    if not lead and (known := indices.sizes()) is not None:
        return _slice_at(builder, x, known, axes, sizes, shape)
    columns = _coordinates(builder, indices, axes, batch_axes, rank)
    last = {d: builder.index(x.shape[d] - sizes[d]) for d in axes.indexed}
    offset_of = dict(zip(kept, axes.offset, strict=True))
    sources = builder.parts(x)

    def body(block: Block, args: Sequence[SSAValue]) -> list[SSAValue]:
        p = CoordinateBuilder(block, [Scalar(indices.dtype, (a,)) for a in args[: len(columns)]])
        at = {d: p.index(offset_of[d]) if d in offset_of else p.index_constant(0) for d in range(x.rank)}
        for d, n in zip(axes.batching, axes.index_batching, strict=True):
            at[d] = p.index(batch_axes[n - (n > axes.vector)])
        for d, coordinate in zip(axes.indexed, p.elements, strict=True):
            begin = p.clamped(p.index_of(p.convert(coordinate, I64)), last[d])
            at[d] = p.plus(begin, at[d]) if d in offset_of else begin
        position = [at[d] for d in range(x.rank)]
        return [p.add_op(tensor.ExtractOp(source, position, x.dtype.element)) for source in sources]

    identity = AffineMap.identity(rank)
    outputs = [(builder.empty(x.dtype.element, shape), identity) for _ in sources]
    return builder.wrap(x.dtype, shape, *builder.generic(columns, outputs, [True] * rank, body))


def _slice_at(
    builder: Builder, x: Tensor, known: Sequence[Size], axes: GatherAxes, sizes: Sequence[Size], shape: Shape
) -> Tensor:
    """Return the slice at coordinates that are known."""
    begins: list[Size] = [0] * x.rank
    for d, start in zip(axes.indexed, known, strict=True):
        begins[d] = clamped_start(start, x.shape[d], sizes[d])
    taken = slice_(builder, x, begins, [begin + size for begin, size in zip(begins, sizes, strict=True)])
    return reshape(builder, taken, shape)


def _coordinates(
    builder: Builder, indices: Tensor, axes: GatherAxes, batch_axes: Sequence[int], rank: int
) -> list[tuple[SSAValue, AffineMap]]:
    """Return each coordinate as an input of loops of `rank`, of which `batch_axes` count the slices."""
    value = builder.value(indices)
    lead = axes.batch_of_indices(indices.rank)
    batch_exprs: dict[int, AffineExpr] = {d: AffineExpr.dimension(batch_axes[n]) for n, d in enumerate(lead)}
    coordinates = []
    for n in range(len(axes.indexed)):
        exprs = {**batch_exprs, axes.vector: AffineExpr.constant(n)} if axes.vector < indices.rank else batch_exprs
        coordinates.append((value, AffineMap(rank, 0, tuple(exprs[d] for d in range(indices.rank)))))
    return coordinates
