"""Nests that read along one dimension and write along another, as transpositions do: small blocks of both.

A workgroup takes square blocks: it computes one along the dimension that is read into workgroup memory, then writes it
along the other, so that every cache line is read and written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.loops.nests import Cut
from pydispatch.compiler.kernels.loops.tiles import elements_per_workgroup
from pydispatch.compiler.kernels.loops.transpose_blocks import turn
from pydispatch.compiler.kernels.ops.builder import Builder, Index, opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.compiler.target.backend import Backend

Store = tuple[SSAValue, SSAValue]
"""(value, buffer)"""

BLOCKS = (16, 8)
"""Rows and columns of a block: the first that both dimensions are multiples of, else the first."""


def block_of(dims: Sequence[Index], along: int) -> tuple[int, bool]:
    """Return (the side of a block, whether all blocks are whole)."""
    for side in BLOCKS:
        if all(isinstance(n, int) and n % side == 0 for n in (dims[along], dims[-1])):
            return side, True
    return BLOCKS[0], False


def turned(loads: Sequence[tuple[SSAValue, tuple[Index, ...]]], indices: Sequence[Index]) -> int:
    """Return the dimension that a nest with the counters `indices` reads along, -1 when it is the last one or none."""
    if len(indices) < 2:
        return -1
    last = indices[-1]
    along = [where[-1] for _, where in loads if where]
    across = [where for _, where in loads if where and where[-1] in indices[:-1] and last in where[:-1]]
    if not across or sum(index is last for index in along) > len(across):
        return -1
    return list(indices).index(across[0][-1])


def cut_turned(build: Builder, backend: Backend, dims: Sequence[Index], along: int, bytes_per_element: Index) -> Cut:
    """Like `cut_elements`; a row of the cut is a block of rows along `along`."""
    side, _ = block_of(dims, along)
    budget = elements_per_workgroup(build, backend, build.times(bytes_per_element, side))
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
    """Emit the blocks of a workgroup.

    Each block is computed into workgroup memory in the order of the reads, then written in the order of the result.
    """
    _Turned(e, build, list(dims), along, stores).run(build, group, cut)


@dataclass(frozen=True)
class _Square:
    """Position of a block: the indices of all dimensions but the last, and half-open ranges of its rows and columns."""

    outer: list[Index]
    top: Index
    bottom: Index
    left: Index
    right: Index


class _Turned:
    """Blocks of one nest, each through a buffer that holds it column by column."""

    def __init__(self, e: Elements, build: Builder, dims: list[Index], along: int, stores: Sequence[Store]) -> None:
        self.e, self.dims, self.along, self.stores = e, dims, along, stores
        self.side, self.whole = block_of(dims, along)
        types = [tensor_type(value).element_type for value, _ in stores]
        self.buffers = [e.fresh(type_, self.side * self.side) for type_ in types]
        self.in_registers = all((bit_width(type_) or 1) % 8 == 0 for type_ in types)

    def run(self, build: Builder, group: Index, cut: Cut) -> None:
        dims, along, side = self.dims, self.along, self.side
        others = [d for d in range(len(dims) - 1) if d != along]
        blocks = build.ceil_quotient(dims[along], side)
        tile, number = build.remainder(group, cut.tiles), build.quotient(group, cut.tiles)
        low = build.times(tile, cut.tile)
        high = build.least(build.plus(low, cut.tile), dims[-1])
        first = build.times(number, cut.rows)
        last = build.least(build.plus(first, cut.rows), cut.outer)

        def row_of_blocks(b: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
            *rest, row_block = b.split(index, [*(dims[d] for d in others), blocks])
            outer: list[Index] = [0] * (len(dims) - 1)
            for dimension, part in zip(others, rest, strict=True):
                outer[dimension] = part if isinstance(part, int) else b.bounded(part, dims[dimension])
            top = b.times(row_block, side)
            bottom = b.plus(top, side) if self.whole else b.least(b.plus(top, side), dims[along])

            def block(c: Builder, left: Index, unused: list[SSAValue]) -> list[SSAValue]:
                right = c.plus(left, side) if self.whole else c.least(c.plus(left, side), high)
                self._block(c, _Square(outer, top, bottom, left, right))
                return []

            b.loop(low, high, [], block, step=side, limit=dims[-1])
            return []

        build.loop(first, last, [], row_of_blocks, limit=cut.outer)

    def _block(self, build: Builder, s: _Square) -> None:
        def column(b: Builder, j: Index, unused: list[SSAValue]) -> list[SSAValue]:
            b.parallel(s.top, s.bottom, lambda p, i: self._compute(p, s, i, j), limit=self.dims[self.along])
            return []

        build.loop(s.left, s.right, [], column, limit=self.dims[-1])
        if not self.in_registers:
            self._write(build, s)
        elif self.whole:
            self._turn(build, s)
        else:
            sides = build.least(build.minus(s.bottom, s.top), build.minus(s.right, s.left))
            full = build.less(self.side - 1, sides)
            build.when(full, lambda b: self._turn(b, s))
            build.when(opposite(build, full), lambda b: self._write(b, s))

    def _at(self, s: _Square, row: Index, column: Index) -> list[Index]:
        return [*s.outer[: self.along], row, *s.outer[self.along + 1 :], column]

    def _place(self, build: Builder, s: _Square, row: Index, column: Index) -> Index:
        return build.plus(build.times(build.minus(column, s.left), self.side), build.minus(row, s.top))

    def _compute(self, build: Builder, s: _Square, row: Index, column: Index) -> None:
        place = self._place(build, s, row, column)
        for (value, _), buffer in zip(self.stores, self.buffers, strict=True):
            self.e.store(build, self.e.at(build, value, self._at(s, row, column)), buffer, [place])

    def _write(self, build: Builder, s: _Square) -> None:
        """Element by element."""

        def element(b: Builder, row: Index, column: Index) -> None:
            place = self._place(b, s, row, column)
            for (_, result), buffer in zip(self.stores, self.buffers, strict=True):
                value = b.add(memref.LoadOp.get(buffer, [b.value(place)]))
                self.e.store(b, value, result, self._at(s, row, column))

        def row(b: Builder, i: Index, unused: list[SSAValue]) -> list[SSAValue]:
            b.parallel(s.left, s.right, lambda p, j: element(p, i, j), limit=self.dims[-1])
            return []

        build.loop(s.top, s.bottom, [], row, limit=self.dims[self.along])

    def _turn(self, build: Builder, s: _Square) -> None:
        """Emit the transposition of a full block from the buffers in workgroup memory to the results."""
        strides: list[Index] = [1]
        for size in reversed(self.dims[1:]):
            strides.insert(0, build.times(strides[0], size))
        offset: Index = 0
        for index, stride in zip(self._at(s, s.top, s.left), strides, strict=True):
            offset = build.plus(offset, build.times(index, stride))
        for (_, result), buffer in zip(self.stores, self.buffers, strict=True):
            turn(build, (buffer, 0, self.side), (result, offset, strides[self.along]), self.side, self.side)
