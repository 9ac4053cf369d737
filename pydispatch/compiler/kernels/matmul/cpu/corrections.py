"""Correction terms for offsets of packed bytes (`arithmetic.py`): sums of packed factors over K, times constants.

The sums are products of the packed operands with 1, once for each panel of B and each block of rows of A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.block_products import BlockProducts
from pydispatch.compiler.kernels.matmul.cpu.pack import Tile
from pydispatch.compiler.kernels.matmul.cpu.sides import Side
from pydispatch.compiler.kernels.ops.builder import Builder, Index

LANES = 16
"""Equal columns of the sums of rows: blocks of one column would not be vectors."""

Block = tuple[Index, Index]


class Products(Tile, Protocol):
    """A tile with its operands in place, and its products of blocks."""

    a: Side
    blocks: BlockProducts


class Corrections:
    """The sums of a tile's packed factors. Without offsets it does nothing."""

    def __init__(self, tile: Products, build: Builder) -> None:
        arithmetic, t = tile.plan.arithmetic, tile.t
        self.tile, self.a_offset, self.b_offset = tile, arithmetic.a_offset, arithmetic.b_offset
        self.columns = self._zeros(build, t.nt) if self.a_offset else None
        self.rows = self._zeros(build, t.mt * LANES) if self.b_offset else None
        if self.columns is self.rows is None:
            return
        ones = tile.e.fresh(i8, arithmetic.group * LANES)
        one = build.pure(arith.ConstantOp(IntegerAttr(1, i8)))
        build.parallel(0, arithmetic.group * LANES, lambda b, i: tile.e.store(b, one, ones, [i]))
        a, b, n = tile.c.a, tile.c.b, tile.c.n
        self.left = Side(a, ones, [0] * len(a.coordinates), False)
        self.right = Side(b, ones, [int(n is not None and c.of(n) != 0) for c in b.coordinates], False)

    def add(self, build: Builder) -> None:
        """Add the sums over what is packed now."""
        w, c, t = self.tile, self.tile.c, self.tile.t
        if (columns := self.columns) is not None:
            panels = 1 if c.n is None else build.ceil_quotient(w.valid[c.n], t.nr)
            _loop(build, panels, lambda b, j: w.blocks.at(
                b, (self.left, w.b), (0, j), (1, t.nr), (columns, b.times(j, t.nr)), True))  # fmt: skip
        if (rows := self.rows) is not None:
            blocks = 1 if c.m is None else build.ceil_quotient(w.valid[c.m], t.mr)
            _loop(build, blocks, lambda b, i: w.blocks.at(
                b, (w.a, self.right), (i, 0), (t.mr, LANES), (rows, b.times(i, t.mr * LANES)), True))  # fmt: skip

    def _zeros(self, build: Builder, count: int) -> SSAValue:
        sums = self.tile.e.fresh(i32, count)
        zero = build.pure(arith.ConstantOp(IntegerAttr(0, i32)))
        build.parallel(0, count, lambda b, i: self.tile.e.store(b, zero, sums, [i]))
        return sums

    def applied(self, build: Builder, total: SSAValue, block: Block, i: Index, j: Index) -> SSAValue:
        """Correct a sum of products of packed factors to one of the factors, and return it; (i, j): the element of the
        block.
        """
        w, t = self.tile, self.tile.t
        if self.columns is not None:
            column = _at(build, self.columns, build.plus(build.times(block[1], t.nr), j))
            total = _plus(build, total, column, self.a_offset)
        if self.rows is not None:
            row = build.times(build.plus(build.times(block[0], t.mr), i), LANES)
            total = _plus(build, total, _at(build, self.rows, row), self.b_offset)
        if self.a_offset and self.b_offset:
            steps = build.product([w.sizes[w.c.k], *(w.sizes[d] for d in w.c.reductions)])
            count = build.pure(arith.IndexCastOp(build.value(steps), i32))
            total = _plus(build, total, count, self.a_offset * self.b_offset)
        return total


def _loop(build: Builder, count: Index, body: Callable[[Builder, Index], None]) -> None:
    def inside(inner: Builder, index: Index, carried: list[SSAValue]) -> list[SSAValue]:
        body(inner, index)
        return []

    build.loop(0, count, [], inside)


def _at(build: Builder, buffer: SSAValue, index: Index) -> SSAValue:
    return build.add(memref.LoadOp.get(buffer, [build.value(index)]))


def _plus(build: Builder, total: SSAValue, sum_: SSAValue, times: int) -> SSAValue:
    wrapped = (times + (1 << 31)) % (1 << 32) - (1 << 31)
    factor = build.pure(arith.ConstantOp(IntegerAttr(wrapped, i32)))
    return build.pure(arith.AddiOp(total, build.pure(arith.MuliOp(sum_, factor))))
