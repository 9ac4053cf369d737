"""Sums of packed factors, which correct products of packed bytes for the constants that packing subtracts.

The product of a factor and a matrix of ones is the sum of the factor: instructions for products compute the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8, i32
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Region
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.products import BlockSums, Products, emit_loop
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load

LANES = 16
"""Number of columns of ones that A is multiplied by: a block of a single column would not fill a vector. The sums of
all these columns are equal."""


class _Sums(NamedTuple):
    """Sums over K of one packed factor: of each row of A, or of each column of B.

    Attributes:
        buffer: Memory of the sums, of i32.
        ones: A matrix of ones that takes the place of the other factor in a product, whose results are the sums.
    """

    buffer: SSAValue
    ones: OperandView


@dataclass(frozen=True)
class FactorSums:
    """Sums of a tile's packed factors over K, which correct products for the offsets of packed bytes.

    An offset is a constant that packing subtracts from the elements of a factor, so that they fit bytes: a' = a - p and
    b' = b - q. With K steps, sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q. The sums of a' and b' are computed
    as products by 1, once for each block of rows of A and each panel of columns of B.

    Attributes:
        products: Emitter of the products.
        columns_of_b: Sum of each column of B, sum(b'), which is needed for an offset of A; None if A has no offset.
        rows_of_a: Sum of each row of A, sum(a'), which is needed for an offset of B, stored `LANES` times; None if B
            has no offset.
    """

    products: Products
    columns_of_b: _Sums | None
    rows_of_a: _Sums | None

    @staticmethod
    def cleared(frame: Frame, products: Products, build: Builder) -> FactorSums:
        """Allocate the sums that the offsets of `Arithmetic` need, emit code that sets them to zero, and return them.

        An offset is a constant that packing subtracts from elements, so that they fit bytes. Sums of the columns of B
        correct products for an offset of A, and sums of the rows of A for an offset of B. `add` computes these sums as
        products: a row of ones times B, and A times LANES equal columns of ones.
        """
        arithmetic, schedule = products.nest.plan.arithmetic, products.nest.plan.schedule
        zero = IntegerAttr(0, i32)
        # A workgroup's tile has mt rows of A and nt columns of B.
        sums_of_columns = _filled(frame, build, zero, schedule.nt) if arithmetic.a_offset else None
        sums_of_rows = _filled(frame, build, zero, schedule.mt * LANES) if arithmetic.b_offset else None
        ones_a, ones_b = _ones(frame, build, products.nest.plan)
        return FactorSums(
            products,
            columns_of_b=None if sums_of_columns is None else _Sums(sums_of_columns, ones=ones_a),
            rows_of_a=None if sums_of_rows is None else _Sums(sums_of_rows, ones=ones_b),
        )

    def add(self, build: Builder, region: Region) -> None:
        """Emit the addition of the packed factors to their sums, for all blocks of a tile.

        `region` is the tile, with the range of K that is packed.
        """
        if self.columns_of_b is not None:  # needed for an offset of A
            self._add_columns_of_b(build, region, self.columns_of_b)
        if self.rows_of_a is not None:  # needed for an offset of B
            self._add_rows_of_a(build, region, self.rows_of_a)

    def _add_columns_of_b(self, build: Builder, region: Region, column_sums: _Sums) -> None:
        """Emit the addition of B's columns to their sums: products of a row of ones and panels of `nr` columns."""
        nest, b = self.products.nest, self.products.b
        n, nr = nest.plan.contraction.n, nest.plan.schedule.nr
        panel_count = 1 if n is None else build.ceil_quotient(region.extent(n), nr)

        def add_panel(inner: Builder, j: Index) -> None:
            """Emit the product of a row of ones and the `nr` columns of panel `j` of B, added to their sums."""
            sums = BlockSums(column_sums.buffer, offset=inner.times(j, nr), rows=1, columns=nr)
            block = nest.block(inner, region, row_index=0, column_index=j)
            self.products.emit_factors(inner, region, (column_sums.ones, b), block, sums)

        emit_loop(build, panel_count, step=1, body=add_panel)

    def _add_rows_of_a(self, build: Builder, region: Region, row_sums: _Sums) -> None:
        """Emit the addition of the rows of A to their sums: products of blocks of `mr` rows and columns of ones.

        There are LANES equal columns of ones, so that products fill vectors. Each sum is then stored LANES times.
        """
        nest, a = self.products.nest, self.products.a
        m, mr = nest.plan.contraction.m, nest.plan.schedule.mr
        block_count = 1 if m is None else build.ceil_quotient(region.extent(m), mr)

        def add_block(inner: Builder, i: Index) -> None:
            """Emit the product of the `mr` rows of block `i` of A and LANES columns of ones, added to their sums."""
            sums = BlockSums(row_sums.buffer, offset=inner.times(i, mr * LANES), rows=mr, columns=LANES)
            block = nest.block(inner, region, row_index=i, column_index=0)
            self.products.emit_factors(inner, region, (a, row_sums.ones), block, sums)

        emit_loop(build, block_count, step=1, body=add_block)

    def corrected(self, build: Builder, total: SSAValue, block: Block, i: Index, j: Index) -> SSAValue:
        """Emit sum(a b) at row `i` and column `j` of a block from `total`, the sum of packed elements, and return it.

        Packing subtracts p = `a_offset` from elements of A, and q = `b_offset` from those of B, so that they fit bytes.
        With the packed elements a' = a - p, b' = b - q, and K steps:

            sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q

        With p = 128 and q = 0, a = (130, 140) is packed as (2, 12). Times b = (3, 5), `total` is 2 * 3 + 12 * 5 = 66,
        and the result 66 + 128 * (3 + 5) = 1090 = 130 * 3 + 140 * 5.
        """
        nest = self.products.nest
        arithmetic, schedule = nest.plan.arithmetic, nest.plan.schedule
        if self.columns_of_b is not None:  # p sum(b')
            column = build.plus(build.times(block.column_index, schedule.nr), j)
            total = _plus_product(build, total, load(build, self.columns_of_b.buffer, column), arithmetic.a_offset)
        if self.rows_of_a is not None:  # q sum(a'); the sum of a row is stored `LANES` times
            row = build.times(build.plus(build.times(block.row_index, schedule.mr), i), LANES)
            total = _plus_product(build, total, load(build, self.rows_of_a.buffer, row), arithmetic.b_offset)
        if arithmetic.a_offset and arithmetic.b_offset:  # K p q
            contraction = nest.plan.contraction
            steps = build.product([nest.sizes[d] for d in (contraction.k, *contraction.reductions)])
            count = build.pure(arith.IndexCastOp(build.value(steps), i32))
            total = _plus_product(build, total, count, arithmetic.a_offset * arithmetic.b_offset)
        return total


def _ones(frame: Frame, build: Builder, plan: Plan) -> tuple[OperandView, OperandView]:
    """Emit a small buffer of ones, and return two views of it: matrices of ones in place of A and of B.

    The buffer has the ones that an instruction reads at a time: `plan.group` steps of K in `LANES` columns. Strides of
    0 repeat it along the rows and along K.
    """
    buffer = _filled(frame, build, IntegerAttr(1, i8), plan.group * LANES)
    a, b, n = plan.contraction.a, plan.contraction.b, plan.contraction.n
    strides_b = tuple(1 if n is not None and c.coefficient(n) != 0 else 0 for c in b.coordinates)  # 1 along N
    ones_a = OperandView(a, buffer, strides=(0,) * len(a.coordinates), is_ones=True)
    return ones_a, OperandView(b, buffer, strides_b, is_ones=True)


def _filled(frame: Frame, build: Builder, initial: IntegerAttr, count: int) -> SSAValue:
    """Allocate a buffer of `count` elements, emit code that sets each of them to `initial`, and return the buffer."""
    elements = frame.elements
    buffer = elements.fresh(initial.type, count)
    value = build.pure(arith.ConstantOp(initial))
    build.parallel(0, count, lambda b, i: elements.store(b, value, buffer, [i]))
    return buffer


def _plus_product(build: Builder, total: SSAValue, value: SSAValue, factor: int) -> SSAValue:
    """Emit total + value * factor, modulo 2^32, and return it."""
    # The factor, a product of offsets, may exceed an i32. Modulo 2^32 and signed, 2^31 + 5 becomes 5 - 2^31.
    wrapped_factor = (factor + (1 << 31)) % (1 << 32) - (1 << 31)
    constant = build.pure(arith.ConstantOp(IntegerAttr(wrapped_factor, i32)))
    return build.pure(arith.AddiOp(total, build.pure(arith.MuliOp(value, constant))))
