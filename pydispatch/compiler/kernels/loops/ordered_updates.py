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
dimension. With a smaller one more workgroups visit all slices, with a larger one fewer workgroups are parallel."""

SLICES_OF_A_PART = 4096
"""Number of slices of an ordered update for each part of its destination. Every part visits all slices, which takes
longer than the parts save if each of them applies fewer."""


def partition_count(elements: Elements, build: Builder, update: UpdateStep, most: int) -> Index:
    """Return the number of parts that the destination of `update` is divided into, which are written in parallel.

    It is a power of two, and at most `most`, also a power of two.
    """
    dims = update.dims(elements)
    slices = build.product(dims[: update.slice_index_rank])
    if not isinstance(slices, int):  # assumed to be many
        return most
    # A part for every `SLICES_OF_A_PART`, rounded up to a power of two.
    return min(most, 1 << (max(1, slices // SLICES_OF_A_PART) - 1).bit_length())


def _parts_on_cpu(elements: Elements, build: Builder, update: UpdateStep) -> Index:
    """Return the number of parts of the destination on a CPU; 1 for short slices, as each part visits every slice.

    A dynamic size of a slice counts as 1.
    """
    inner = [n for n in update.dims(elements)[update.slice_index_rank :] if isinstance(n, int)]
    return partition_count(elements, build, update, MOST_PARTS if prod(inner) >= WIDE_SLICE else 1)


def partition_in_order(elements: Elements, build: Builder, update: UpdateStep) -> Partition:
    """Return the partition of an ordered update into workgroups of a CPU.

    Each workgroup writes one part of the destination. Of each slice in this part, it writes one tile of the last
    dimension, at one index along each other dimension.
    """
    inner = update.dims(elements)[update.slice_index_rank :]  # the dimensions of a slice
    outer = build.product([_parts_on_cpu(elements, build, update), *inner[:-1]])
    tile = build.least(inner[-1], MOST_SLICE_ELEMENTS) if inner else 1
    tiles = build.ceil_quotient(inner[-1], build.most(tile, 1)) if inner else 1
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
    inner = update.dims(elements)[update.slice_index_rank :]
    parts = _parts_on_cpu(elements, build, update) if has_whole_bytes else 1
    dims = [parts, *inner]
    outer_rank = max(1, len(dims) - 1)  # the parts are an outer dimension even if a slice is one element

    def row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        """Emit the updates of one part of the destination, by elements `low` to `high` of slices' last dimension.

        Every part visits all slices, and applies those whose destination belongs to it. `outer` has the number of the
        part, then indices of the dimensions of a slice before the last one.
        """
        part, *slice_indices = outer

        def write_slice(builder: Builder, leading: list[Index]) -> None:
            """Emit the writes of one slice of the update: its elements `low` to `high` along its last dimension.

            leading: Indices of the slice in the update. Slices are visited in their order, one after the other, since
            later ones may overwrite the same elements; the elements of one slice may be written in any order.
            """
            if inner:  # `slice_indices` are those before the last dimension, of which `low` to `high` are written
                last_dim = inner[-1:]
                emit_inner(builder, [*leading, *slice_indices], last_dim, low=low, high=high, write=write)
            else:  # a slice is one element, and `leading` all of its indices
                write(builder, leading)

        emit_slices_in_order(elements, builder, update, parts, part, write_slice)

    emit_nest(build, group, partition, dims, outer_rank=outer_rank, row=row)


def emit_slices_in_order(
    elements: Elements, build: Builder, update: UpdateStep, parts: Index, part: Index,
    body: Callable[[Builder, list[Index]], None],
) -> None:  # fmt: skip
    """Emit a sequential loop over all slices, with `body` for those that belong to one part of the destination.

    The remainder of a slice's conflict key by `parts` is the index of its part. So slices that may write the same
    element are in the same part, and different parts can run in parallel. If each slice is a row of the destination,
    the key is the number of this row: with 4 parts, slices for the rows 1, 5 and 1 are in part 1, in this order.

    Args:
        elements: Tensors of the kernel.
        build: The builder.
        update: The ordered update.
        parts: Number of parts of the destination.
        part: Index of the part.
        body: Emits the update by one slice; its arguments are a builder and the indices of the slice.
    """
    dims = update.dims(elements)[: update.slice_index_rank]

    def step(builder: Builder, flat: Index, carried: list[SSAValue]) -> list[SSAValue]:
        """Emit the update by the slice at position `flat`, if it belongs to the part.

        Slices that may write the same element have equal conflict keys, so that one part applies them in order.
        """
        leading = builder.split(flat, dims)
        is_in_part: SSAValue | bool = True
        if parts != 1:
            is_in_part = equal(builder, builder.remainder(update.conflict_key(elements, builder, leading), parts), part)
        builder.when(is_in_part, lambda c: body(c, leading))
        return []

    build.loop(0, build.product(dims), [], step)
