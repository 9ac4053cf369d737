"""Updates whose slices may write the same element: slices are applied in order, in a sequential loop.

The elements of a slice are parallel. The destination is also divided into parts, which are parallel: each part visits
all slices and applies those that belong to it. Slices that may write the same element have the same
`UpdateStep.conflict_key`, whose remainder by the number of parts is their part. So there is parallelism where slices
are short. No result depends on the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.nests import Partition, emit_inner, emit_nest
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import equal
from pydispatch.compiler.kernels.ops.elements import Elements

Write = Callable[[Builder, list[Index]], None]
"""Emitter of the update of one element of the destination, at the indices of the written element: first those of its
slice, then those within the slice."""

MOST_PARTS, WIDE_SLICE = 8, 32
"""Parts on a CPU at most; elements of a slice from which on several parts pay, as each part visits every slice."""

MOST_SLICE_ELEMENTS = 1024
"""Maximum number of elements of a slice that a workgroup of a CPU writes: longer slices are cut along their last
dimension. Each workgroup visits all slices: a smaller limit means more visits, a larger one fewer workgroups."""

SLICES_OF_A_PART = 4096
"""Number of slices of an ordered update for each part of its destination. Every part visits all slices, which takes
longer than the parts save if each of them applies fewer."""


def part_count(elements: Elements, build: Builder, update: UpdateStep, max_parts: int) -> Index:
    """Return the number of parts that the destination of `update` is divided into, which are written in parallel.

    It is a power of two, and at most `max_parts`, also a power of two.
    """
    dims = update.dims(elements)
    slices = build.product(dims[: update.slice_index_rank])
    if not isinstance(slices, int):  # a dynamic number of slices is assumed to be large
        return max_parts
    parts = max(1, slices // SLICES_OF_A_PART)
    next_power_of_two = 1 << (parts - 1).bit_length()  # 5 -> 8, 4 -> 4
    return min(max_parts, next_power_of_two)


def _parts_on_cpu(elements: Elements, build: Builder, update: UpdateStep) -> Index:
    """Return the number of parts of the destination that workgroups of a CPU write in parallel.

    Each part visits all slices to find its own, which does not pay if a slice has few elements to write: there is one
    part then.
    """
    slice_sizes = update.dims(elements)[update.slice_index_rank :]
    slice_elements = prod(size for size in slice_sizes if isinstance(size, int))  # a dynamic size counts as 1
    has_wide_slices = slice_elements >= WIDE_SLICE
    return part_count(elements, build, update, max_parts=MOST_PARTS if has_wide_slices else 1)


def partition_in_order(elements: Elements, build: Builder, update: UpdateStep) -> Partition:
    """Return the partition of an ordered update into workgroups of a CPU.

    Each workgroup writes one part of the destination. Of each slice in this part, it writes one tile of the last
    dimension, at one index along each other dimension of the slice.
    """
    slice_dims = update.dims(elements)[update.slice_index_rank :]
    outer = build.product([_parts_on_cpu(elements, build, update), *slice_dims[:-1]])
    tile: Index = 1
    tiles: Index = 1
    if slice_dims:  # a slice is not a single element
        tile = build.least(slice_dims[-1], MOST_SLICE_ELEMENTS)
        tiles = build.ceil_quotient(slice_dims[-1], build.most(tile, 1))
    return Partition(outer=outer, rows=1, tile=tile, tiles=tiles, workgroups=build.times(outer, tiles))


def emit_in_order(
    elements: Elements,
    build: Builder,
    group: Index,
    partition: Partition,
    update: UpdateStep,
    write: Write,
    has_whole_bytes: bool,
) -> None:
    """Emit the code of workgroup `group` of a CPU for an ordered update.

    A scatter of 1000 slices of 64x32 elements has the nest [parts, 64, 32]. A workgroup has one part, one index along
    the 64, and a tile of the 32. It loops over all 1000 slices in order. Of each slice in its part, it writes the
    elements of the tile in a parallel loop.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        group: Number of the workgroup.
        partition: The partition of the update into workgroups.
        update: The update.
        write: Emits the update of the destination by one written element.
        has_whole_bytes: Whether elements do not share bytes. If they do, the destination has only one part.
    """
    slice_dims = update.dims(elements)[update.slice_index_rank :]
    parts = _parts_on_cpu(elements, build, update) if has_whole_bytes else 1
    dims = [parts, *slice_dims]
    outer_rank = max(1, len(dims) - 1)  # the parts are an outer dimension even if a slice is one element

    def emit_part(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the writes of one part of the destination by elements `low` to `high` of the last dimension of slices.

        `outer` has the number of the part, and then an index in each dimension of a slice but the last one.
        """
        part, *indices_in_slice = outer

        def write_slice(builder: Builder, slice_index: list[Index]) -> None:
            """Emit the writes of one slice, or of its only element, in the range of this part."""
            last_dim = slice_dims[-1:]  # empty if a slice is one element
            emit_inner(builder, [*slice_index, *indices_in_slice], last_dim, low=low, high=high, write=write)

        emit_slices_in_order(elements, builder, update, parts, part, write_slice)

    emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=emit_part)


def emit_slices_in_order(
    elements: Elements, build: Builder, update: UpdateStep, parts: Index, part: Index,
    write_slice: Callable[[Builder, list[Index]], None],
) -> None:  # fmt: skip
    """Emit a sequential loop over all slices that writes those that belong to one part of the destination.

    The remainder of a slice's conflict key by `parts` is the index of its part. So slices that may write the same
    element are in the same part, and different parts can run in parallel. If each slice is a row of the destination,
    the key is the number of this row: with 4 parts, slices for the rows 1, 5 and 1 are in part 1, in this order.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        update: The ordered update.
        parts: Number of parts of the destination.
        part: Index of the part.
        write_slice: Emits the writes of one slice; its arguments are a builder and the indices of the slice.
    """
    dims = update.dims(elements)[: update.slice_index_rank]  # those that number the slices

    def visit_slice(builder: Builder, slice_number: Index) -> None:
        """Emit the writes of one slice, under the condition that its conflict key mod `parts` is `part`.

        `slice_number` is its position among all slices, in row-major order of their indices.
        """
        slice_index = builder.split(slice_number, dims)
        is_in_part: SSAValue | bool = True
        if parts != 1:  # a single part has all slices
            key = update.conflict_key(elements, builder, slice_index)
            is_in_part = equal(builder, builder.remainder(key, parts), part)
        builder.when(is_in_part, lambda inner: write_slice(inner, slice_index))

    build.sequential(0, build.product(dims), visit_slice)
