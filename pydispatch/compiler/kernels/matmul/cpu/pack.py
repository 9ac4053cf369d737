"""Packing: the elements of a factor that a tile reads, copied into workgroup memory in the order of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from pydispatch.compiler.kernels.loops.transpose_blocks import SIDE, turn
from pydispatch.compiler.kernels.matmul.cpu.arithmetic import narrow_of
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan, argument_of
from pydispatch.compiler.kernels.matmul.cpu.sides import Side, Sides
from pydispatch.compiler.kernels.matmul.cpu.tiles import Tiles
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor, Linear
from pydispatch.compiler.kernels.ops.bodies import clone_op, resolve
from pydispatch.compiler.kernels.ops.builder import Builder, Index, equal, opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import zero_attribute


class Tile(Protocol):
    """The tile whose factors are packed: what it reads and where it lies. low, valid: by dimension."""

    plan: Plan
    e: Elements
    c: Contraction
    t: Tiles
    b: Side
    sides: Sides
    sizes: list[Index]
    low: dict[int, Index]
    valid: dict[int, Index]

    def starts(self, build: Builder, dim: int | None, number: Index, block: int) -> Index: ...
    def left(self, build: Builder, dim: int | None, start: Index, block: int) -> Index: ...


@dataclass(frozen=True)
class Column:
    """A column of B: its place in the tile, its panel, and its place there. exists: whether B has it; else it is zero,
    see `Packing`."""

    index: Index
    panel: Index
    column: Index
    exists: bool = True


@dataclass(frozen=True)
class Missing:
    """A coordinate that blocks read and the factor does not have."""

    index: Index


@dataclass(frozen=True)
class Group:
    """Steps of K that are multiplied at once; count: those that exist, the others are beyond the end."""

    first: Index
    count: int


class Packing:
    """Emitter of the code that packs the elements of a factor that a tile reads into its buffer.

    Padding that blocks read beyond the edges is filled with zeros. The sums of padding are never used, but stale
    memory may contain subnormal numbers, which some CPUs multiply a hundred times more slowly.
    """

    def __init__(self, writer: Tile, side: Side) -> None:
        self.w, self.side, self.factor = writer, side, side.factor
        self.is_b = side.factor is writer.c.b and side is writer.b
        self.group = writer.plan.group
        self.offset = writer.plan.arithmetic.b_offset if self.is_b else writer.plan.arithmetic.a_offset

    def run(self, build: Builder) -> None:
        fence = Builder(build.block, build.source, build, guarded=True)
        self._level(fence, 0, [])

    def _extent(self, build: Builder, position: int) -> Index:
        """Return how many values a coordinate takes."""
        total: Index = 1
        for dim, times in self.factor.coordinates[position].terms:
            total = build.plus(total, build.times(build.minus(self.w.valid[dim], 1), times))
        return total

    def _level(self, build: Builder, position: int, at: list[Index]) -> None:
        """Emit loops over the coordinates of the factor from number `position` on, in memory order.

        at: the outer indices.
        """
        w = self.w
        if position == len(self.factor.coordinates):
            self._copy(build, at)
            return
        coordinate = self.factor.coordinates[position]
        if self.is_b and self.side.panel is not None and coordinate.of(w.c.n if w.c.n is not None else -1):
            self._panels(build, position, at)
            return
        if self.group > 1 and coordinate.is_plain(w.c.k):
            self._groups(build, position, at)
            return
        extent = self._extent(build, position)
        build.parallel(0, extent, lambda b, i: self._level(b, position + 1, [*at, i]))
        end = build.plus(extent, self._beyond(build, coordinate))
        if end != extent:
            build.parallel(extent, end, lambda b, i: self._level(b, position + 1, [*at, Missing(i)]))  # type: ignore[list-item]

    def _beyond(self, build: Builder, coordinate: Linear) -> Index:
        """Return how far blocks read beyond the values of a coordinate, when the last one hangs over the edge."""
        w = self.w
        dim, block = (w.c.n, w.t.nr) if self.is_b else (w.c.m, w.t.mr)
        if dim is None or not coordinate.of(dim) or w.plan.rows_of_k or w.plan.fills(dim, w.sizes[dim], block):
            return 0
        valid = w.valid[dim]
        whole = build.times(build.ceil_quotient(valid, block), block)
        return build.times(build.minus(whole, valid), coordinate.of(dim))

    def _panels(self, build: Builder, position: int, at: list[Index]) -> None:
        """Emit the loop over panels of columns. The index of a column is its panel and its position in the panel."""
        w, n, nr = self.w, self.w.c.n, self.w.t.nr
        assert n is not None

        def panel(builder: Builder, j: Index) -> None:
            start = w.starts(builder, n, j, nr)
            columns = w.left(builder, n, start, nr)

            def column(inner: Builder, i: Index, exists: bool = True) -> None:
                index = inner.plus(start, i)
                self._level(inner, position + 1, [*at, Column(index, j, i, exists)])  # type: ignore[list-item]

            def missing(inner: Builder, i: Index) -> None:
                column(inner, i, exists=False)

            if isinstance(columns, int):
                if columns == nr and self._lies_along_k(position):
                    self._turned(builder, at, Column(start, j, 0))
                else:
                    builder.parallel(0, columns, column)
                    builder.parallel(columns, nr, missing)
                return
            partial = builder.less(columns, nr)
            builder.when(partial, lambda g: g.parallel(0, columns, column))
            builder.when(partial, lambda g: g.parallel(columns, nr, missing))
            builder.when(opposite(builder, partial), lambda g: g.parallel(0, nr, column))

        build.parallel(0, build.ceil_quotient(w.valid[n], nr), panel)

    def _lies_along_k(self, position: int) -> bool:
        """Return whether the columns are rows of an argument, contiguous in K, that blocks of registers can turn."""
        w, coordinates = self.w, self.factor.coordinates
        value = w.c.generic.inputs[self.factor.main]
        return (
            position == len(coordinates) - 2 and coordinates[-1].is_plain(w.c.k) and self.factor.direct
            and isinstance(value.type, TensorType) and value.type.element_type == w.plan.compute
            and self.group == 1 and w.t.nr % 4 == 0 and argument_of(value) is not None
        )  # fmt: skip

    def _turned(self, build: Builder, at: Sequence[Index], column: Column) -> None:
        """Emit the packing of a full panel whose columns are contiguous along K.

        It transposes blocks of SIDE steps of K, and copies the remaining steps element by element.
        """
        w, side = self.w, self.side
        source = w.sides.in_place(build, self.factor)
        size = self._extent(build, len(self.factor.coordinates) - 1)
        from_, to = 0, build.times(column.panel, side.panel or 0)  # type: tuple[Index, Index]
        for index, stride, coordinate, there in zip(
            (*at, column.index, 0), side.strides, self.factor.coordinates, source.strides, strict=True
        ):
            total = build.plus(index, coordinate.constant)
            for dim, times in coordinate.terms:
                total = build.plus(total, build.times(w.low[dim], times))
            from_ = build.plus(from_, build.times(total, there))
            if index is not column.index:
                to = build.plus(to, build.times(index, stride))

        def block(builder: Builder, k: Index, carried: list[SSAValue]) -> list[SSAValue]:
            rows = source.buffer, builder.plus(from_, k), source.strides[-2]
            turn(
                builder,
                rows,
                (side.buffer, builder.plus(to, builder.times(k, side.strides[-1])), side.strides[-1]),
                w.t.nr,
                SIDE,
            )
            return []

        whole = build.times(build.quotient(size, SIDE), SIDE)
        build.loop(0, whole, [], block, SIDE)

        def rest(builder: Builder, i: Index) -> None:
            each = Column(builder.plus(column.index, i), column.panel, i)
            builder.parallel(whole, size, lambda p, k: self._copy(p, [*at, each, k]))

        if whole != size:
            build.parallel(0, w.t.nr, rest)

    def _groups(self, build: Builder, position: int, at: list[Index]) -> None:
        """Pack the steps of K in groups; the last group is padded with zeros."""
        size, group = self._extent(build, position), self.group

        def some(builder: Builder, first: Index, count: int) -> None:
            self._level(builder, position + 1, [*at, Group(first, count)])  # type: ignore[list-item]

        build.parallel(0, build.quotient(size, group), lambda b, i: some(b, b.times(i, group), group))
        left = build.remainder(size, group)
        for count in range(1, group):
            build.when(equal(build, left, count), lambda b, n=count: some(b, b.minus(size, n), n))  # type: ignore[misc]

    def _copy(self, build: Builder, at: Sequence[object]) -> None:
        group = next((i for i in at if isinstance(i, Group)), None)
        exists = not any(isinstance(i, Missing) or (isinstance(i, Column) and not i.exists) for i in at)
        for step in range(self.group):
            if exists and (group is None or step < group.count):
                self._element(build, at, step)
            else:
                zero = build.pure(arith.ConstantOp(zero_attribute(self.w.plan.compute)))
                self._store(build, zero, at, step)

    def _element(self, build: Builder, at: Sequence[object], step: int) -> None:
        """Copy one element. step: its number in the group of steps of K."""
        w = self.w
        where: list[Index] = []
        for coordinate, index in zip(self.factor.coordinates, at, strict=True):
            inner = index.index if isinstance(index, Column) else index
            if isinstance(index, Group):
                inner = build.plus(index.first, step)
            total: Index = build.plus(inner, coordinate.constant)  # type: ignore[arg-type]
            for dim, times in coordinate.terms:
                total = build.plus(total, build.times(w.low[dim], times))
            where.append(total)
        value = factor_at(w.e, build, w.c, self.factor, where)
        if self.offset:
            assert isinstance(value.type, IntegerType)
            offset = build.pure(arith.ConstantOp(IntegerAttr(self.offset, value.type)))
            value = build.pure(arith.SubiOp(value, offset))
        self._store(build, converted(build, value, w.plan.compute), at, step)

    def _store(self, build: Builder, value: SSAValue, at: Sequence[object], step: int) -> None:
        offset: Index = 0
        for index, stride in zip(at, self.side.strides, strict=True):
            if isinstance(index, Missing):
                place = build.times(index.index, stride)
            elif isinstance(index, Column):
                assert self.side.panel is not None
                place = build.plus(build.times(index.panel, self.side.panel), build.times(index.column, self.group))
            elif isinstance(index, Group):
                place = build.plus(build.times(index.first, stride), step)
            else:
                place = build.times(index, stride)  # type: ignore[arg-type]
            offset = build.plus(offset, place)
        w = self.w
        w.e.store(build, value, self.side.buffer, [offset])


def factor_at(
    elements: Elements, build: Builder, contraction: Contraction, factor: Factor, where: Sequence[Index]
) -> SSAValue:
    """Return the value of a factor where its coordinates are `where`."""
    mapping: dict[SSAValue, SSAValue] = {}
    for number, places in factor.inputs.items():
        operand = contraction.generic.inputs[number]
        if isinstance(operand.type, TensorType):
            indices = [where[p] if isinstance(p, int) else p.constant for p in places]
            mapping[contraction.generic.block.args[number]] = elements.at(build, operand, indices)
        else:
            mapping[contraction.generic.block.args[number]] = elements.scalar(operand)
    for op in factor.code:
        clone_op(elements, build, op, mapping, [])
    return resolve(elements, mapping, factor.value)


def converted(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return an element in the type of packed ones, which holds every value that it can have."""
    if value.type == to:
        return value
    if isinstance(to, IntegerType):
        return build.pure(arith.TruncIOp(value, to))
    return narrow_of(value, to) or widened(build, value, to)


def widened(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    return value if value.type == to else build.pure(arith.ExtFOp(value, to))


def narrowed(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return a sum in the type that the program gives it, rounded once."""
    return value if value.type == to else build.add(arith.TruncFOp(value, to))


def across(
    build: Builder, rows: Index, columns: Index, full: int, body: Callable[[Builder, Index, Index], None]
) -> None:
    """`body` for rows x columns points; columns of the full width have a loop of known length."""

    def nest(builder: Builder, width: Index) -> None:
        builder.parallel(0, rows, lambda r, i: r.parallel(0, width, lambda p, j: body(p, i, j)))

    if isinstance(columns, int):
        nest(build, columns)
        return
    partial = build.less(columns, full)
    build.when(partial, lambda b: nest(b, columns))
    build.when(opposite(build, partial), lambda b: nest(b, full))
