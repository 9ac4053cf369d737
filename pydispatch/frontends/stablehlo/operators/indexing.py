"""Conversions of gathers, scatters and slices at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import gathers, indexing, scatters


def _check_starts(tracer: StablehloTracer, x: Tensor, starts: Sequence[Tensor]) -> None:
    """Raise CompileError unless there is one integer start index per axis of x."""
    if len(starts) != x.rank or any(s.rank or not s.dtype.is_integer for s in starts):
        raise tracer.b.fail(f"{x} takes {x.rank} start indices, which are single integers")


def _check_inside(tracer: StablehloTracer, sizes: Sequence[Size], x: Tensor) -> None:
    """Raise CompileError if slices of these sizes, one along each axis of x, exceed it. Dynamic sizes pass."""
    for d, (size, n) in enumerate(zip(sizes, x.shape, strict=True)):
        if not isinstance(size, Expr) and not isinstance(n, Expr) and not 0 <= size <= n:
            raise tracer.b.fail(f"slices of {list(sizes)} do not fit into {x}: {size} elements along axis {d}")


def _dynamic_slice(tracer: StablehloTracer, op: Operation, x: Tensor, *starts: Tensor) -> Tensor:
    """Return a slice of static sizes that begins at `starts`, an index for each axis, clamped so that it fits."""
    sizes = tracer.listed(op, "slice_sizes", x.rank)
    _check_starts(tracer, x, starts)
    _check_inside(tracer, sizes, x)
    return indexing.dynamic_slice(tracer.b, x, starts, sizes)


def _dynamic_update_slice(tracer: StablehloTracer, op: Operation, x: Tensor, update: Tensor, *starts: Tensor) -> Tensor:
    """Return x with `update` in place of a slice, which begins at `starts`, an index for each axis, clamped so that it
    fits.
    """
    _check_starts(tracer, x, starts)
    if update.rank != x.rank or update.dtype != x.dtype:
        raise tracer.b.fail(f"{update} is no slice of {x}")
    _check_inside(tracer, update.shape, x)
    return indexing.dynamic_update_slice(tracer.b, x, update, starts)


def gather(tracer: StablehloTracer, op: Operation, x: Tensor, indices: Tensor, sizes: Sequence[Size]) -> Tensor:
    """Return slices of x. sizes: the size of a slice along each axis of x.

    The operation's dimension numbers say which axis of x each coordinate in `indices` belongs to. Raise CompileError if
    they do not fit x and the indices, or if a slice is larger than x or not 1 along an axis that slices lack.
    """
    numbers = tracer.record(op, "dimension_numbers")
    axes = gathers.GatherAxes(
        offset_dims=numbers.offset_dims, collapsed_dims=numbers.collapsed_slice_dims,
        batching_dims=numbers.operand_batching_dims, indices_batching_dims=numbers.start_indices_batching_dims,
        start_index_map=numbers.start_index_map, index_vector_dim=numbers.index_vector_dim,
    )  # fmt: skip
    _check_axes(tracer, axes, x, indices)
    _check_inside(tracer, sizes, x)
    for d in (*axes.collapsed_dims, *axes.batching_dims):
        message = f"slices of {list(map(str, sizes))} lack axis {d} of {x}, so their size along it is 1"
        if isinstance(sizes[d], Expr):
            tracer.b.require_equal(sizes[d], 1, f"{message}, not {{a}}")  # a call writes sizes[d] in place of {a}
        elif sizes[d] not in (0, 1):  # StableHLO allows 0 too: slices without elements
            raise tracer.b.fail(message)
    return gathers.gather(tracer.b, x, indices, axes, sizes)


def _check_axes(tracer: StablehloTracer, axes: gathers.GatherAxes, x: Tensor, indices: Tensor) -> None:
    """Raise CompileError if the axes of a gather from x at `indices` are invalid.

    All of them exist and have a single role, and there is one coordinate for each axis of x that is indexed.
    Example: x is [8, 9, 5], and indices [4, 2] have the coordinates of 4 slices along axis 1, the index_vector_dim.
    With start_index_map (0, 1) and collapsed_dims (0, 1), each slice is [5], and the result [4, 5] has the
    offset_dims (1,). A scatter has the updates in place of the result of the gather.
    """
    if not indices.dtype.is_integer:
        raise tracer.b.fail(f"indices are integers, got {indices}")
    if not 0 <= axes.index_vector_dim <= indices.rank:
        raise tracer.b.fail(f"index_vector_dim {axes.index_vector_dim} of {indices}")
    # `tracer.axes` raises for axes that are repeated or do not exist. An axis of x that corresponds to a batching axis
    # of the indices can neither be collapsed nor indexed as well.
    tracer.axes((*axes.collapsed_dims, *axes.batching_dims), "collapsed and batching dimensions", x.rank)
    tracer.axes((*axes.start_index_map, *axes.batching_dims), "start_index_map", x.rank)
    tracer.axes(axes.indices_batching_dims, "start_indices_batching_dims", indices.rank)
    batching_dims = axes.indices_batching_dims
    if len(axes.batching_dims) != len(batching_dims) or axes.index_vector_dim in batching_dims:
        raise tracer.b.fail(
            "each batching dimension of the operand needs one of the indices, other than index_vector_dim"
        )
    coordinates = indices.shape[axes.index_vector_dim] if axes.index_vector_dim < indices.rank else 1
    if coordinates != len(axes.start_index_map):
        raise tracer.b.fail(f"{indices} has {coordinates} coordinate(s), {len(axes.start_index_map)} axes are indexed")
    # Axes of the result: those within a slice (offset_dims), and those of the indices that count the slices.
    rank = len(axes.offset_dims) + len(axes.indices_batch_dims(indices.rank))
    tracer.axes(axes.offset_dims, "offset_dims", rank)
    slice_rank = len(axes.slice_dims(x.rank))
    if len(axes.offset_dims) != slice_rank:
        raise tracer.b.fail(f"offset_dims has {len(axes.offset_dims)} entries, slices have {slice_rank} axes")


def _gather(tracer: StablehloTracer, op: Operation, x: Tensor, indices: Tensor) -> Tensor:
    """Return slices of static sizes at computed positions."""
    return gather(tracer, op, x, indices, tracer.listed(op, "slice_sizes", x.rank))


def _scatter(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Combine updates into tensors at computed positions, by the region of the operation, and return the n tensors.

    operands: n tensors, the coordinates of the slices to update, and the slices for each of the n tensors. Raise
    CompileError for axes that do not fit them.
    """
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers = tracer.record(op, "scatter_dimension_numbers")
    axes = gathers.GatherAxes(
        offset_dims=numbers.update_window_dims, collapsed_dims=numbers.inserted_window_dims,
        batching_dims=numbers.input_batching_dims, indices_batching_dims=numbers.scatter_indices_batching_dims,
        start_index_map=numbers.scatter_dims_to_operand_dims, index_vector_dim=numbers.index_vector_dim,
    )  # fmt: skip
    for x, update in zip(inputs, updates, strict=True):
        _check_axes(tracer, axes, x, indices)
        if update.rank != len(axes.offset_dims) + len(axes.indices_batch_dims(indices.rank)) or update.dtype != x.dtype:
            raise tracer.b.fail(f"{update} is no update of {x} at {indices}")
    if not inputs or any(x.rank != inputs[0].rank for x in inputs):
        raise tracer.b.fail("'stablehlo.scatter' takes tensors of one shape, at least one")
    # unique: the program promises that no two updates have the same position, so that their order does not matter.
    combine, unique = tracer.combination(op.regions[0]), bool(tracer.integer(op, "unique_indices"))
    return scatters.scatter(tracer.b, inputs, indices, updates, axes, combine, unique)


def _torch_index_select(tracer: StablehloTracer, op: Operation, x: Tensor, indices: Tensor) -> Tensor:
    """Return the slices of x at the indices along the axis `dim`. The first `batch_dims` axes of both correspond.

    For x [2, 5, 7] and indices [2, 3] with dim 1 and batch_dims 1, the result is [2, 3, 7]: element [b, i, c] is
    x[b, indices[b, i], c]. Without batch_dims it is [2, 2, 3, 7]: element [a, j, i, c] is x[a, indices[j, i], c].

    A negative `dim` counts from the end of x's axes, a negative `batch_dims` from the rank of the indices.

    Raise CompileError if the indices are no integers, or `dim` or `batch_dims` is out of range.
    """
    axis, batch = (tracer.integer(op, name) for name in ("dim", "batch_dims"))
    axis, batch = axis + x.rank * (axis < 0), batch + indices.rank * (batch < 0)
    if not indices.dtype.is_integer:
        raise tracer.b.fail(f"indices are integers, got {indices}")
    if not 0 <= batch <= axis < x.rank or batch > indices.rank:
        raise tracer.b.fail(f"'stablehlo.torch_index_select' of {x} at {indices}: dim {axis} and batch_dims {batch}")
    # The `indices.rank - batch` axes of the indices after the batch take the place of `axis` in the result: later axes
    # of x move by their number minus 1. Each index is a single coordinate, so index_vector_dim is the rank.
    axes = gathers.GatherAxes(
        offset_dims=tuple(d if d < axis else d + indices.rank - batch - 1 for d in range(batch, x.rank) if d != axis),
        collapsed_dims=(axis,), batching_dims=tuple(range(batch)), indices_batching_dims=tuple(range(batch)),
        start_index_map=(axis,), index_vector_dim=indices.rank,
    )  # fmt: skip
    sizes = [1 if d < batch or d == axis else n for d, n in enumerate(x.shape)]
    return gathers.gather(tracer.b, x, indices, axes, sizes)


ROWS: dict[str, Convert] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.scatter": _scatter,
    "stablehlo.torch_index_select": _torch_index_select,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
