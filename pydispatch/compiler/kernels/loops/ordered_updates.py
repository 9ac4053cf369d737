"""Updates whose slices may meet in an element: each element gets them in their order, so the slices are a loop.

What runs side by side are the elements of a slice, and parts of the destination: each part walks through all slices and
takes those that belong to it, so that few elements to a slice leave work for many. No result depends on the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.nests import Cut, emit_inner, emit_nest
from pydispatch.compiler.kernels.loops.updates import UpdateStep
from pydispatch.compiler.kernels.ops.builder import Builder, Index, equal
from pydispatch.compiler.kernels.ops.elements import Elements

Write = Callable[[Builder, list[Index]], None]
"""Writes the element at an index of what is written."""

MOST_PARTS, WIDE_SLICE = 8, 32
"""Parts of a CPU, and elements of a slice from which on there are several."""

WIDEST_RUN = 1024
"""Elements of a slice that one workgroup of a CPU takes."""

SLICES_OF_A_PART = 4096
"""Slices that one part walks through before a second part is worth walking through all of them too."""


def parts_of(elements: Elements, build: Builder, update: UpdateStep, most: int) -> Index:
    """Return how many parts the destination has: a power of two, `most` at most."""
    dims = update.dims(elements)
    slices = build.product(dims[: update.ordered])
    if not isinstance(slices, int):
        return most
    return min(most, 1 << (max(1, slices // SLICES_OF_A_PART) - 1).bit_length())


def _parts_on_cpu(elements: Elements, build: Builder, update: UpdateStep) -> Index:
    """Return the number of parts of the destination: several where the elements of a slice outweigh that each part
    looks at it.
    """
    inner = [n for n in update.dims(elements)[update.ordered :] if isinstance(n, int)]
    return parts_of(elements, build, update, MOST_PARTS if prod(inner) >= WIDE_SLICE else 1)


def cut_in_order(elements: Elements, build: Builder, update: UpdateStep) -> Cut:
    """Partition an ordered update for a CPU: by parts, and by runs of the last dimension of the slices."""
    inner = update.dims(elements)[update.ordered :]
    outer = build.product([_parts_on_cpu(elements, build, update), *inner[:-1]])
    tile = build.least(inner[-1], WIDEST_RUN) if inner else 1
    tiles = build.ceil_quotient(inner[-1], build.most(tile, 1)) if inner else 1
    return Cut(outer, 1, tile, tiles, build.times(outer, tiles))


def emit_in_order(
    elements: Elements, build: Builder, group: Index, cut: Cut, update: UpdateStep, write: Write, whole_bytes: bool
) -> None:
    """Emit the code of workgroup `group` of a CPU for an ordered update.

    Parts and slices are sequential loops; the last dimension of a slice is a parallel loop. whole_bytes: elements do
    not share bytes; otherwise the destination has only one part.
    """
    inner = update.dims(elements)[update.ordered :]
    parts = _parts_on_cpu(elements, build, update) if whole_bytes else 1
    dims = [parts, *inner]
    split = max(1, len(dims) - 1)

    def row(builder: Builder, outer: list[Index], low: Index, high: Index) -> None:
        def element(builder: Builder, leading: list[Index]) -> None:
            if inner:
                emit_inner(builder, [*leading, *outer[1:]], inner[-1:], low, high, write)
            else:
                write(builder, leading)

        walk(elements, builder, update, parts, outer[0], element)

    emit_nest(build, group, cut, dims, split, row)


def walk(
    elements: Elements, build: Builder, update: UpdateStep, parts: Index, part: Index,
    body: Callable[[Builder, list[Index]], None],
) -> None:  # fmt: skip
    """`body` for the leading indices of all slices of a part, in order."""
    dims = update.dims(elements)[: update.ordered]

    def step(builder: Builder, flat: Index, carried: list[SSAValue]) -> list[SSAValue]:
        leading = builder.split(flat, dims)
        own: SSAValue | bool = True
        if parts != 1:
            own = equal(builder, builder.remainder(update.meeting(elements, builder, leading), parts), part)
        builder.when(own, lambda c: body(c, leading))
        return []

    build.loop(0, build.product(dims), [], step)
