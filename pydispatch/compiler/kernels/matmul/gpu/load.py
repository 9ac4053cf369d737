"""Tiles of the factors on their way into workgroup memory: every invocation takes some elements to its own memory,
and puts them into the tile when the others are done with what is there.

Beyond the end of rows and columns lie others' elements once more, which no result needs; beyond the last step zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from pydispatch.compiler.kernel_ir.words import bit_width
from pydispatch.compiler.kernels.matmul.cpu.packing import factor_at
from pydispatch.compiler.kernels.matmul.gpu.plan import Plan, Side, joined
from pydispatch.compiler.kernels.ops.bodies import clone_block
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.constants import WORKGROUP
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.tensors import zero_attribute
from pydispatch.compiler.tensor_ops.registry import source_of
from pydispatch.compiler.tensor_ops.rules.joins import pad_amounts, where_padded

PRIVATE = 5
"""The memory space of an invocation by itself."""

LINE = 16
"""Bytes by which the rows of a tile are longer than they need to be, so that they begin in different banks."""


def storage(build: Builder, element: Attribute, size: int, space: int) -> SSAValue:
    """Allocate memory of the workgroup or of an invocation, aligned for 16 bytes at a time."""
    made = memref.AllocOp if space == WORKGROUP else memref.AllocaOp
    op = made.get(element, LINE, shape=[size])
    op.results[0]._type = MemRefType(element, [size], NoneAttr(), IntegerAttr(space, 64))
    return build.add(op)


def state_alignment(op: Operation, bytes_: int) -> None:
    """Say that the address of a load or store is a multiple of so many bytes, 16 at most."""
    op.attributes["alignment"] = IntegerAttr(min(LINE, bytes_), 64)


@dataclass(frozen=True)
class Run:
    """Neighbours that an invocation moves: the place of the first in the tile, and their number in its memory."""

    row: Index
    step: Index
    slot: int


class Staging:
    """The tile of one factor. pitch: elements from row to row of the tile; its rows are of steps where the products
    are tensor cores' and the operand's rows are, else they are steps."""

    def __init__(self, elements: Elements, plan: Plan, side: Side, extent: int, pad_negative: bool) -> None:
        self.e, self.plan, self.side, self.extent = elements, plan, side, extent
        tile, bits = plan.tile, bit_width(plan.element) or 64
        self.by_rows = plan.form == "tensor" and side.steps
        long, short = (tile.depth, extent) if self.by_rows else (extent, tile.depth)
        self.pitch = long + max(1, LINE * 8 // bits)
        self.threads = tile.invocations
        self.runs = -(-extent * tile.depth // side.run // self.threads)
        self.buffer = storage(elements.entry, plan.element, short * self.pitch, WORKGROUP)
        self.own = storage(elements.entry, plan.element, self.runs * side.run, PRIVATE)
        self.negative = pad_negative

    def place(self, build: Builder, row: Index, step: Index) -> Index:
        """Return the offset of an element in the tile, in elements."""
        long, short = (row, step) if self.by_rows else (step, row)
        return build.plus(build.times(long, self.pitch), short)

    @property
    def strides(self) -> tuple[int, int]:
        """Of rows and steps."""
        return (self.pitch, 1) if self.by_rows else (1, self.pitch)

    def _runs(self, build: Builder, point: Index, body: Callable[[Builder, Run, Index, Index], None]) -> None:
        """`body` with each run of an invocation, and the number of its first row and step in runs."""
        side, tile = self.side, self.plan.tile
        fast, slow = (tile.depth, self.extent) if side.steps else (self.extent, tile.depth)
        fast //= side.run
        for number in range(self.runs):
            if self.threads >= fast:
                inner = build.remainder(point, fast)
                outer = build.plus(build.quotient(point, fast), number * (self.threads // fast))
            else:
                inner = build.plus(point, number % (fast // self.threads) * self.threads)
                outer = number // (fast // self.threads)
            run = build.times(inner, side.run)
            found = Run(outer, run, number) if side.steps else Run(run, outer, number)
            units = (outer, inner) if side.steps else (inner, outer)

            def one(builder: Builder, found: Run = found, units: tuple[Index, Index] = units) -> None:
                body(builder, found, *units)

            spare = fast * slow < self.threads * self.runs
            build.when(build.less(outer, slow) if spare else True, one)

    # From memory

    def take(self, build: Builder, point: Index, low: Index, turn: Index, at: dict[int, Index],
             sizes: Sequence[Index]) -> None:  # fmt: skip
        """Emit loads of the elements that an invocation moves in one iteration, into its private memory.

        Args:
            build: The builder of the invocation's code.
            point: The number of the invocation.
            low: The number of the tile along its rows.
            turn: The number of the iteration over K.
            at: Indices of the outer dimensions.
            sizes: Sizes of all loop dimensions.
        """
        side, tile = self.side, self.plan.tile
        rows, steps = joined(build, sizes, side.dims), joined(build, sizes, self.plan.steps)

        def run(builder: Builder, found: Run, row: Index, step: Index) -> None:
            row_run, step_run = (1, side.run) if side.steps else (side.run, 1)
            first, _ = self._unit(builder, low, self.extent, row, row_run, rows)
            k, inside = self._unit(builder, turn, tile.depth, step, step_run, steps)
            places: list[list[Index]] = []
            for part in range(side.run):
                own_row = first if side.steps else builder.linear(first, side.run, part)
                own_step = builder.linear(k, side.run, part) if side.steps else k
                where = dict(at)
                where.update(zip(side.dims, builder.split(own_row, [sizes[d] for d in side.dims]), strict=True))
                where.update(
                    zip(self.plan.steps, builder.split(own_step, [sizes[d] for d in self.plan.steps]), strict=True)
                )
                places.append(self._coordinates(builder, where))
            if side.run > 1:
                main = self.plan.c.generic.inputs[side.factor.main]
                for place, value in zip(places, self._neighbours(builder, main, places), strict=True):
                    builder.remember((main, tuple(place)), value)
            for part, place in enumerate(places):
                value = fitted(builder, factor_at(self.e, builder, self.plan.c, side.factor, place), self.plan.element)
                if isinstance(inside, SSAValue):
                    value = builder.pure(arith.SelectOp(inside, value, self._nothing(builder)))
                elif not inside:
                    value = self._nothing(builder)
                builder.add(memref.StoreOp.get(value, self.own, [builder.index(found.slot * side.run + part)]))

        fence = Builder(build.block, build.source, build, guarded=True)
        self._runs(fence, point, run)

    def _unit(
        self, build: Builder, tile: Index, extent: int, number: Index, run: int, size: Index
    ) -> tuple[Index, SSAValue | bool]:
        """Return the number of a run along a dimension, that of the last one for those beyond the end; and whether the
        run exists.
        """
        count = build.quotient(size, run)
        per = extent // run
        if isinstance(number, SSAValue):
            build.bounded(number, per)
        at = build.linear(tile, per, number)
        if isinstance(size, int) and size % extent == 0:
            return at, True
        inside = build.less(at, count)
        return build.least(at, build.minus(count, 1)), inside

    def _coordinates(self, build: Builder, where: dict[int, Index]) -> list[Index]:
        found: list[Index] = []
        for coordinate in self.side.factor.coordinates:
            total: Index = coordinate.constant
            for dim, times in coordinate.terms:
                total = build.plus(total, build.times(where[dim], times))
            found.append(total)
        return found

    def _neighbours(self, build: Builder, value: SSAValue, places: Sequence[list[Index]]) -> list[SSAValue]:
        """Load the elements of a run together, and return them; those of a padded tensor are all under one
        condition.
        """
        value = source_of(value)
        if not isinstance(value, OpResult):
            found = [self.e.at(build, value, place) for place in places]
            load = found[0].owner
            assert isinstance(load, memref.LoadOp)
            state_alignment(load, self.side.run * (bit_width(found[0].type) or 64) // 8)
            return found
        op: Any = value.op
        inside = where_padded(self.e, build, op, places[0])
        low, _ = pad_amounts(self.e, op)
        blocks, results = (Block(), Block()), []
        for block, exists in zip(blocks, (True, False), strict=True):
            b = build.nested(block, guarded=True)
            if exists:
                own = [[b.minus(i, before) for i, before in zip(place, low, strict=True)] for place in places]
                results.append(self._neighbours(b, op.source, own))
            else:
                results.append([self._padding(b, op, place) for place in places])
            b.add(scf.YieldOp(*results[-1]))
        if not isinstance(inside, SSAValue):
            inside = build.pure(arith.ConstantOp(IntegerAttr(int(inside), 1)))
        choice = scf.IfOp(inside, [v.type for v in results[0]], Region(blocks[0]), Region(blocks[1]))
        build.add(choice)
        return list(choice.results)

    def _padding(self, build: Builder, op: Any, place: Sequence[Index]) -> SSAValue:
        block = op.regions[0].block
        mapping = {argument: build.value(i) for argument, i in zip(block.args, place, strict=True)}
        return clone_block(self.e, build, block, mapping, [])[0]

    def _nothing(self, build: Builder) -> SSAValue:
        """Return the element of this side for a product that adds nothing: -0 by 0 on floats, so that a sum of -0 stays
        what it is.
        """
        element = self.plan.element
        if self.negative and not isinstance(element, IntegerType):
            return build.pure(arith.ConstantOp(FloatAttr(-0.0, cast(AnyFloat, element))))
        return build.pure(arith.ConstantOp(zero_attribute(element)))

    # Into the tile

    def put(self, build: Builder, point: Index) -> None:
        """Emit stores of the elements that `take` loaded, from private memory into the tile in workgroup memory."""
        side, bits = self.side, bit_width(self.plan.element) or 64

        def run(builder: Builder, found: Run, row: Index, step: Index) -> None:
            first, apart = self.place(builder, found.row, found.step), self.strides[side.steps]
            for part in range(side.run):
                value = builder.add(memref.LoadOp.get(self.own, [builder.index(found.slot * side.run + part)]))
                store = memref.StoreOp.get(value, self.buffer, [builder.value(builder.plus(first, part * apart))])
                if part == 0 and apart == 1:
                    state_alignment(store, side.run * bits // 8)
                builder.add(store)

        fence = Builder(build.block, build.source, build, guarded=True)
        self._runs(fence, point, run)


def fitted(build: Builder, value: SSAValue, to: Attribute) -> SSAValue:
    """Return an element in the type that workgroup memory has for it, or a sum in the type that the program has."""
    if value.type == to:
        return value
    if isinstance(to, IntegerType):
        have = value.type
        assert isinstance(have, IntegerType | IndexType)
        wider = isinstance(have, IntegerType) and have.width.data < to.width.data
        return build.pure(arith.ExtSIOp(value, to) if wider else arith.TruncIOp(value, to))
    wider = (bit_width(value.type) or 64) < (bit_width(to) or 64)
    return build.pure(arith.ExtFOp(value, to) if wider else arith.TruncFOp(value, to))
