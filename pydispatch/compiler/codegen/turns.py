"""Nests that read along one dimension and write along another, as transpositions do: small blocks of both.

A workgroup takes square blocks: it computes one along the dimension that is read into workgroup memory, then writes it
along the other, so that every cache line is read and written whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from pydispatch.compiler.codegen.builder import Builder, Index
from pydispatch.compiler.codegen.elements import Elements, tensor_type
from pydispatch.compiler.codegen.nests import Cut
from pydispatch.compiler.codegen.tiles import points_per_workgroup

Store = tuple[SSAValue, SSAValue]
"""(value, buffer)"""

BLOCKS = (16, 8)
"""Rows and columns of a block: the first that both dimensions are multiples of, else the first."""


def block_of(dims: Sequence[Index], along: int) -> tuple[int, bool]:
    """(the side of a block, whether all blocks are whole)."""
    for side in BLOCKS:
        if all(isinstance(n, int) and n % side == 0 for n in (dims[along], dims[-1])):
            return side, True
    return BLOCKS[0], False


def turned(loads: Sequence[tuple[SSAValue, tuple[Index, ...]]], indices: Sequence[Index]) -> int:
    """The dimension that a nest with the counters `indices` reads along, -1 when it is the last one or none."""
    if len(indices) < 2:
        return -1
    last = indices[-1]
    along = [where[-1] for _, where in loads if where]
    across = [where for _, where in loads if where and where[-1] in indices[:-1] and last in where[:-1]]
    if not across or sum(index is last for index in along) > len(across):
        return -1
    return list(indices).index(across[0][-1])


def cut_turned(build: Builder, backend: str, dims: Sequence[Index], along: int, bytes_per_point: Index) -> Cut:
    """Like `cut_points`; a row of the cut is a block of rows along `along`."""
    side, _ = block_of(dims, along)
    budget = points_per_workgroup(build, backend, build.times(bytes_per_point, side))
    wide = build.times(build.most(build.quotient(budget, side), 1), side)
    tile = build.least(dims[-1], wide)
    rows = build.most(build.quotient(budget, build.most(tile, 1)), 1)
    others = build.product([n for d, n in enumerate(dims[:-1]) if d != along])
    outer = build.times(others, build.ceil_quotient(dims[along], side))
    tiles = build.ceil_quotient(dims[-1], tile)
    return Cut(outer, rows, tile, tiles, build.times(build.ceil_quotient(outer, rows), tiles))


def emit_turned(
    e: Elements, build: Builder, group: Index, cut: Cut, dims: Sequence[Index], along: int, stores: Sequence[Store]
) -> None:
    """The blocks of a workgroup: computed along what is read into workgroup memory, and written along the result."""
    side, whole = block_of(dims, along)
    others = [d for d in range(len(dims) - 1) if d != along]
    blocks = build.ceil_quotient(dims[along], side)
    tile, number = build.remainder(group, cut.tiles), build.quotient(group, cut.tiles)
    low = build.times(tile, cut.tile)
    high = build.least(build.plus(low, cut.tile), dims[-1])
    first = build.times(number, cut.rows)
    last = build.least(build.plus(first, cut.rows), cut.outer)
    buffers = [e.fresh(tensor_type(value).element_type, side * side) for value, _ in stores]

    def block(b: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        *rest, row_block = b.split(index, [*(dims[d] for d in others), blocks])
        outer: list[Index] = [0] * (len(dims) - 1)
        for dimension, part in zip(others, rest, strict=True):
            outer[dimension] = part if isinstance(part, int) else b.bounded(part, dims[dimension])
        top = b.times(row_block, side)
        bottom = b.plus(top, side) if whole else b.least(b.plus(top, side), dims[along])

        def columns(c: Builder, left: Index, unused: list[SSAValue]) -> list[SSAValue]:
            right = c.plus(left, side) if whole else c.least(c.plus(left, side), high)

            def at(row: Index, column: Index) -> list[Index]:
                return [*outer[:along], row, *outer[along + 1 :], column]

            def place(p: Builder, row: Index, column: Index) -> Index:
                return p.plus(p.times(p.minus(column, left), side), p.minus(row, top))

            def compute(p: Builder, row: Index, column: Index) -> None:
                for (value, _), buffer in zip(stores, buffers, strict=True):
                    e.store(p, e.at(p, value, at(row, column)), buffer, [place(p, row, column)])

            def write(p: Builder, row: Index, column: Index) -> None:
                for (_, result), buffer in zip(stores, buffers, strict=True):
                    element = p.add(memref.LoadOp.get(buffer, [p.value(place(p, row, column))]))
                    e.store(p, element, result, at(row, column))

            def column_first(p: Builder, column: Index, unused: list[SSAValue]) -> list[SSAValue]:
                p.points(top, bottom, lambda q, row: compute(q, row, column), limit=dims[along])
                return []

            def row_first(p: Builder, row: Index, unused: list[SSAValue]) -> list[SSAValue]:
                p.points(left, right, lambda q, column: write(q, row, column), limit=dims[-1])
                return []

            c.loop(left, right, [], column_first, limit=dims[-1])
            c.loop(top, bottom, [], row_first, limit=dims[along])
            return []

        b.loop(low, high, [], columns, step=side, limit=dims[-1])
        return []

    build.loop(first, last, [], block, limit=cut.outer)
