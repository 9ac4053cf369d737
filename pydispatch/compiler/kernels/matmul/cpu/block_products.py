"""Product of one register block of a tile: the views of its operands, and the loops over reductions around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.cpu.pack import Tile
from pydispatch.compiler.kernels.matmul.cpu.sides import Side
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.contract import ContractOp


@dataclass(frozen=True)
class Place:
    """A register block: its number (row, column) in the tile, and the first row and column of the tile that it has."""

    block: tuple[Index, Index]
    row: Index
    column: Index


class TileOfSums(Tile, Protocol):
    """A tile whose operands lie where its blocks read them."""

    build: Builder
    a: Side

    def loop(self, build: Builder, high: Index, step: int, body: Callable[[Builder, Index], object]) -> None: ...


class BlockProducts:
    """Emitter of the products of register blocks in a tile."""

    def __init__(self, tile: TileOfSums) -> None:
        self.tile = tile

    def loops(self) -> Sequence[int]:
        """Return the reductions that are loops around blocks; the others are dimensions of K, whose sums stay in
        registers.
        """
        return self._reductions()[1]

    def _reductions(self) -> tuple[Index, Sequence[int], Sequence[int]]:
        """Return (steps of K, reductions around blocks, those that are dimensions of K): those that continue K in both
        operands are one with it."""
        w, build = self.tile, self.tile.build
        steps: Index = w.valid[w.c.k]
        rest = list(w.plan.inside)
        if w.plan.group == 1 and isinstance(steps, int) and w.plan.single:
            merged = True
            while merged:
                merged = False
                for dim in reversed(rest):
                    size = w.sizes[dim]
                    assert isinstance(size, int)
                    if all(s.stride(build, dim) == build.times(s.stride(build, w.c.k), steps) for s in (w.a, w.b)):
                        steps, merged = steps * size, True
                        rest.remove(dim)
                        break
        rest = [d for d in rest if w.sizes[d] != 1]
        return (steps, rest, ()) if w.plan.rows_of_k else (steps, (), rest)

    def at(
        self, build: Builder, sides: tuple[Side, Side], block: tuple[Index, Index], shape: tuple[int, int],
        target: tuple[SSAValue, Index], accumulate: bool,
    ) -> None:  # fmt: skip
        """Emit the product of a block of rows of one operand and a panel of the other. block: their two numbers."""
        w, t = self.tile, self.tile.t
        place = Place(block, w.starts(build, w.c.m, block[0], t.mr), w.starts(build, w.c.n, block[1], t.nr))
        self.multiply(build, sides, place, shape, target, accumulate)

    def multiply(
        self, build: Builder, sides: tuple[Side, Side], place: Place, shape: tuple[int, int],
        target: tuple[SSAValue, Index], accumulate: bool,
    ) -> None:  # fmt: skip
        """target (=, +=) the product of rows of one operand and columns of the other, of `shape`."""
        w, (height, width) = self.tile, shape
        steps, around, window = self._reductions()
        properties = self._properties(sides, accumulate)

        def level(builder: Builder, dims: Sequence[int], at: dict[int, Index]) -> None:
            if dims:
                w.loop(builder, w.sizes[dims[0]], 1, lambda inner, i: level(inner, dims[1:], {**at, dims[0]: i}))
                return
            rows = at if w.c.m is None else {**at, w.c.m: place.row}
            left = self._view(builder, sides[0], rows, (height, steps), window, None)
            columns = at if w.c.n is None else {**at, w.c.n: place.column}
            right = self._view(builder, sides[1], columns, (width, steps), window, place)
            sums = view_as(builder, *target, [height, width], [width, 1])
            builder.add(ContractOp(operands=[left, right, sums], properties=properties))

        level(build, around, {})

    def _properties(self, sides: tuple[Side, Side], accumulate: bool) -> dict[str, Attribute]:
        w, arithmetic = self.tile, self.tile.plan.arithmetic
        unsigned_a, unsigned_b = arithmetic.unsigned_a, arithmetic.unsigned_b
        if arithmetic.matrix_steps and unsigned_a == unsigned_b:  # ones have both signs; vectors multiply mixed ones
            unsigned_a ^= sides[0] is not w.a
            unsigned_b ^= sides[1] is not w.b
        stated = {"accumulate": accumulate, "unsigned_a": unsigned_a, "unsigned_b": unsigned_b}
        properties: dict[str, Attribute] = {name: UnitAttr() for name, value in stated.items() if value}
        if w.plan.ahead:
            properties["prefetch"] = IntegerAttr(w.plan.ahead, i64)
        return properties

    def _view(
        self, build: Builder, side: Side, at: dict[int, Index], sizes: tuple[Index, Index], window: Sequence[int],
        place: Place | None,
    ) -> SSAValue:  # fmt: skip
        """Return an operand of a block as a memref: A where `place` is None, else B. sizes: (rows or columns, steps of
        K). window: reductions that are dimensions of K too.
        """
        w, offset = self.tile, 0  # type: tuple[TileOfSums, Index]
        panel = side.panel is not None and place is not None
        for coordinate, stride in zip(side.factor.coordinates, side.strides, strict=True):
            where: Index = coordinate.constant if side.absolute else 0
            for dim, times in coordinate.terms:
                if panel and dim == w.c.n:
                    continue
                index = at.get(dim, 0)
                if side.absolute:
                    index = build.plus(w.low[dim], index)
                where = build.plus(where, build.times(index, times))
            offset = build.plus(offset, build.times(where, stride))
        if panel and place is not None and side.panel is not None:
            offset = build.plus(offset, self._in_panel(build, side, place))
        extent, steps = sizes
        stride, step = side.stride(build, w.c.m if place is None else w.c.n), side.stride(build, w.c.k)
        groups: list[Index] = []
        if (group := w.plan.group) > 1:
            groups, step = [group], build.times(step, group)
            steps = build.ceil_quotient(w.valid[w.c.k], group)
            stride = stride if place is None else build.times(stride, group)
        shape = [*(w.sizes[d] for d in window), steps]
        strides = [*(side.stride(build, d) for d in window), step]
        at_k = len(shape) if place is not None else 0
        shape.insert(at_k, extent)
        strides.insert(at_k, stride)
        return view_as(build, side.buffer, offset, [*shape, *groups], [*strides, *[1] * len(groups)])

    def _in_panel(self, build: Builder, side: Side, place: Place) -> Index:
        """Return the offset in the panels at which the columns of a block begin: packed panels are those of the tile,
        panels of an argument all of B's.
        """
        w = self.tile
        assert side.panel is not None and w.c.n is not None
        if w.plan.panels is None:
            return build.times(place.block[1], side.panel)
        column, layout = build.plus(w.low[w.c.n], place.column), w.plan.panels.layout
        panel = build.times(build.quotient(column, layout.width), side.panel)
        return build.plus(panel, build.times(build.remainder(column, layout.width), layout.group))
