"""Assignment to elements at NumPy's indices: negative positions count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Size, product
from pydispatch.graph.values import Tensor
from pydispatch.operations.elementwise import binary, broadcast_shape, convert
from pydispatch.operations.formulas import formula
from pydispatch.operations.gathers import index_columns
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import size_as
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.scatters import scatter_leading
from pydispatch.operations.shapes import broadcast_to, expand_dims, iota, reshape
from pydispatch.operations.slicing import concat


def put_along(
    builder: Builder, x: Tensor, indices: Tensor, updates: Tensor, axis: int, combine: str | None = None
) -> Tensor:
    """Return x with the elements of `updates` at the indices along one axis, applied in order.

    `indices` and `updates` have one shape, with the rank of x. As in NumPy's `put_along_axis`, an update keeps its own
    position along the other axes. Negative indices count from the end; positions outside of x are ignored.

    Args:
        builder: The builder.
        x: The tensor before the assignment.
        indices: Positions along `axis`.
        updates: New elements.
        axis: Axis of x, from 0.
        combine: "add", "mul", "max" or "min" of old and new element; None replaces.
    """
    # Position of each update along each axis of x.
    positions = [
        _from_front(builder, indices, x.shape[d]) if d == axis else iota(builder, indices.shape, d, I64)
        for d in range(x.rank)
    ]
    count = product(indices.shape)
    return put_rows(
        builder, x, [reshape(builder, p, [count]) for p in positions], reshape(builder, updates, [count]), combine
    )


def put_nd(builder: Builder, x: Tensor, indices: Tensor, updates: Tensor, combine: str | None = None) -> Tensor:
    """Return x with updates at the positions in the rows of indices [..., k], along the first k axes.

    The updates are [..., *the other axes of x]. Negative indices count from the end; positions outside of x are
    ignored. `combine` is "add", "mul", "max" or "min" of old and new element; None replaces.
    """
    parts = index_columns(builder, indices)
    if len(parts) > x.rank:
        raise builder.fail(f"indices {indices} name positions along {len(parts)} axes of {x}")
    count = product(indices.shape[:-1])
    positions = [reshape(builder, _from_front(builder, part, x.shape[d]), [count]) for d, part in enumerate(parts)]
    return put_rows(builder, x, positions, reshape(builder, updates, [count, *x.shape[len(parts) :]]), combine)


@dataclass(frozen=True)
class Range:
    """The `size` positions `start`, `start + step`, ... along an axis. `start` counts from the front."""

    start: Size
    size: Size
    step: int = 1


def put(
    builder: Builder, x: Tensor, indices: Sequence[Tensor | Range | None], updates: Tensor, combine: str | None = None
) -> Tensor:
    """Return x after NumPy's `x[indices] = updates`, or after old elements were combined with the new ones.

    The assignment becomes one of slices at rows of positions, `put_rows`. For example, the indices i, None, j of
    x [A, B, C, D], with vectors i and j of n elements, have n * B rows (positions along A, B and C) and slices [D].

    Args:
        builder: The builder.
        x: The tensor before the assignment.
        indices: For each axis of x a tensor of integers, a Range, or None for the whole axis. Tensors broadcast
            together. Positions outside of x are ignored.
        updates: The new elements, which are converted to the type of x and broadcast to the shape of `x[indices]`.
        combine: "add", "mul", "max" or "min" of old and new element; None replaces.
    """
    by_axis = {d: i for d, i in enumerate(indices) if isinstance(i, Tensor)}  # axis of x → its index tensor
    axes = list(by_axis)
    # Shape that the index tensors broadcast to; [n] in the example.
    shape = broadcast_shape(builder, *(i.shape for i in by_axis.values()))

    # The updates in the shape of x[indices]; [n, B, D] in the example. It contains the axes of `shape` from axis
    # `tensors_axis` on. As in NumPy, that is the first axis with an index tensor if these axes are adjacent, else 0.
    are_adjacent = bool(axes) and axes == list(range(axes[0], axes[0] + len(axes)))
    tensors_axis = axes[0] if are_adjacent else 0
    others = [d for d in range(x.rank) if d not in by_axis]  # axes without an index tensor
    sizes = [i.size if isinstance(i := indices[d], Range) else x.shape[d] for d in others]
    indexed_shape = (*sizes[:tensors_axis], *shape, *sizes[tensors_axis:])
    written = broadcast_to(builder, convert(builder, updates, x.dtype), indexed_shape)

    # Number of leading axes of x up to the last one that is indexed; the elements of the others are assigned as slices.
    depth = 1 + max((d for d, i in enumerate(indices) if i is not None), default=-1)
    if depth == 0:  # no axis is indexed: all elements are assigned
        return written if combine is None else binary(builder, combine, x, written)

    # The position of each slice along each indexed axis. A slice has the shape x.shape[depth:]. The other, leading axes
    # of `indexed_shape` number the slices; [n, B] in the example.
    slice_counts = indexed_shape[: len(indexed_shape) - x.rank + depth]
    positions: dict[int, Tensor] = {}  # axis of x → position of each slice along it, with the shape `slice_counts`
    for d, tensor_ in by_axis.items():
        column = _from_front(builder, tensor_, x.shape[d])
        # Axes of `slice_counts` after those of the index tensors, over which the positions broadcast.
        ones = [1] * (len(slice_counts) - tensors_axis - len(shape))
        positions[d] = broadcast_to(builder, reshape(builder, column, [*column.shape, *ones]), slice_counts)
    for n, d in enumerate(others):
        if d < depth:
            counted_axis = n if n < tensors_axis else n + len(shape)
            index, counter = indices[d], iota(builder, slice_counts, counted_axis, I64)
            positions[d] = _in_range(builder, index, counter) if isinstance(index, Range) else counter

    # The slices as rows.
    count = product(slice_counts)
    rows = [reshape(builder, positions[d], [count]) for d in range(depth)]
    is_unique = all(i.rank == 0 for i in by_axis.values())  # a single position each; vectors may repeat one
    return put_rows(builder, x, rows, reshape(builder, written, [count, *x.shape[depth:]]), combine, is_unique)


def _in_range(builder: Builder, along: Range, index: Tensor) -> Tensor:
    """Return start + index * step for each element of a tensor of i64 indices."""
    start = size_as(builder, along.start, I64)
    return formula(builder, lambda i, begin: i * along.step + begin, index, start)


def _from_front(builder: Builder, indices: Tensor, size: Size) -> Tensor:
    """Return non-negative i64 positions for ones that may count from the end of an axis of `size` elements."""
    wide = convert(builder, indices, I64)
    return formula(builder, lambda i, n: (i < 0).where(i + n, i), wide, size_as(builder, size, I64))


def put_rows(
    builder: Builder, x: Tensor, positions: Sequence[Tensor], updates: Tensor, combine: str | None = None,
    unique: bool = False,
) -> Tensor:  # fmt: skip
    """Return x with slices `updates` [n, other axes...] at `positions`, which has a vector [n] for each leading axis.

    For x [A, B, C] and positions [i, j], the updates are [n, C], and x[i[r], j[r]] = updates[r] for each r < n.

    Args:
        builder: The builder.
        x: The tensor before the assignment.
        positions: Vectors of integers. Slices outside of x are ignored, those at negative positions included.
        updates: The slices, of the type of x.
        combine: "add", "mul", "max" or "min" of old and new element; None replaces.
        unique: Whether no two slices have the same positions; otherwise they are applied in order.
    """
    depth = len(positions)
    # `scatter_leading` takes slices [n, 1..., other axes...] with all axes of x, and positions [n, depth].
    slices = reshape(builder, updates, [updates.shape[0], *[1] * depth, *updates.shape[1:]])
    rows = concat(builder, [expand_dims(builder, p, axes=[1]) for p in positions], axis=1)

    def combined(scalars: Scalars, old: Scalar, new: Scalar) -> Scalar:
        """Return the old and new element combined by the function `combine`, or the new one if it is None."""
        return scalars.binary(combine, old, new) if combine else new

    return scatter_leading(builder, x, rows, slices, depth, combined, unique)
