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
from pydispatch.compiler.kernels.matmul.cpu.products import Products, Target, emit_loop
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load

LANES = 16
"""Number of columns of ones that A is multiplied by: a block of a single column would not fill a vector. The sums of
all these columns are equal."""


class _Sums(NamedTuple):
    """Sums of one factor.

    Attributes:
        buffer: Memory of the sums, of i32.
        ones: A matrix of ones, which replaces the other factor: its product with the factor is the factor's sums.
    """

    buffer: SSAValue
    ones: OperandView


@dataclass(frozen=True)
class FactorSums:
    """Sums of a tile's packed factors over K, which correct products for the offsets of packed bytes.

    With packed elements a' = a - a_offset and b' = b - b_offset, the sum of a * b is the sum of a' * b', plus a_offset
    times the sum of b', plus b_offset times the sum of a', plus a_offset * b_offset for each step. The sums of a' and
    b' are products with 1, once for each block of rows of A and each panel of B.

    Attributes:
        products: Emitter of the products.
        of_b: Sums of B's columns, one for each; None if A has no offset.
        of_a: Sums of A's rows, `LANES` equal ones for each; None if B has no offset.
    """

    products: Products
    of_b: _Sums | None
    of_a: _Sums | None

    @staticmethod
    def cleared(frame: Frame, products: Products, build: Builder) -> FactorSums:
        """Allocate the sums that the offsets of `Arithmetic` need, emit code that sets them to zero, and return them.

        An offset is a constant that packing subtracts from elements, so that they fit bytes. To make up for an offset
        of A, products need the sum of each column of B (`of_b`), and for an offset of B the sum of each row of A
        (`of_a`). `add` computes these sums as products, too: a row of ones times B has the sums of B's columns; A times
        LANES equal columns of ones has the sums of A's rows.
        """
        plan = products.nest.plan
        arithmetic, schedule, contraction = plan.arithmetic, plan.schedule, plan.contraction
        zero = IntegerAttr(0, i32)
        # A workgroup's tile has mt rows of A and nt columns of B.
        sums_of_columns = _filled(frame, build, zero, schedule.nt) if arithmetic.a_offset else None
        sums_of_rows = _filled(frame, build, zero, schedule.mt * LANES) if arithmetic.b_offset else None
        # Both matrices of ones are views of one small buffer, whose length is that of one group of `plan.group` steps
        # of K in LANES columns. Strides of 0 repeat it along rows and groups.
        ones = _filled(frame, build, IntegerAttr(1, i8), plan.group * LANES)
        a, b, n = contraction.a, contraction.b, contraction.n
        ones_a = OperandView(a, ones, strides=(0,) * len(a.coordinates), is_ones=True)
        strides_b = tuple(int(n is not None and c.coefficient(n) != 0) for c in b.coordinates)  # 1 along the columns
        ones_b = OperandView(b, ones, strides=strides_b, is_ones=True)
        return FactorSums(
            products,
            of_b=None if sums_of_columns is None else _Sums(sums_of_columns, ones_a),
            of_a=None if sums_of_rows is None else _Sums(sums_of_rows, ones_b),
        )

    def add(self, build: Builder, region: Region) -> None:
        """Emit the addition of the packed factors to their sums, for all blocks of a tile.

        The sum of each column of B is a product of a row of ones and a panel of nr columns; the sum of each row of A a
        product of a block of mr rows and columns of ones. `region` is the tile, with the range of K that is packed.
        """
        nest, products = self.products.nest, self.products
        contraction, schedule = nest.plan.contraction, nest.plan.schedule
        mr, nr = schedule.mr, schedule.nr
        sums_of_b, sums_of_a = self.of_b, self.of_a
        if sums_of_b is not None:
            panels = 1 if contraction.n is None else build.ceil_quotient(region.extent(contraction.n), nr)

            def panel(inner: Builder, j: Index) -> None:
                """Add the columns of panel `j` of B to their sums, as the product of a row of ones and B."""
                target = Target(sums_of_b.buffer, offset=inner.times(j, nr))
                block, factors = nest.block(inner, region, row_index=0, column_index=j), (sums_of_b.ones, products.b)
                products.emit_factors(inner, region, factors, block, shape=(1, nr), target=target)

            emit_loop(build, panels, step=1, body=panel)
        if sums_of_a is not None:  # products of LANES equal columns, since a block of one column would not be vectors
            blocks = 1 if contraction.m is None else build.ceil_quotient(region.extent(contraction.m), mr)

            def block_of_rows(inner: Builder, i: Index) -> None:
                """Add the rows of block `i` of A to their sums, as the product of A and columns of ones."""
                target = Target(sums_of_a.buffer, offset=inner.times(i, mr * LANES))
                block, factors = nest.block(inner, region, row_index=i, column_index=0), (products.a, sums_of_a.ones)
                products.emit_factors(inner, region, factors, block, shape=(mr, LANES), target=target)

            emit_loop(build, blocks, step=1, body=block_of_rows)

    def corrected(self, build: Builder, total: SSAValue, block: Block, i: Index, j: Index) -> SSAValue:
        """Emit sum(a b) at row `i` and column `j` of a block from `total`, the sum of packed elements, and return it.

        With a = a' + p, b = b' + q, p = `a_offset`, q = `b_offset`, and K steps:

            sum(a b) = sum(a' b') + p sum(b') + q sum(a') + K p q

        With p = 128 and q = 0, a = (130, 140) is packed as (2, 12). Times b = (3, 5), `total` is 2 * 3 + 12 * 5 = 66,
        and the result 66 + 128 * (3 + 5) = 1090 = 130 * 3 + 140 * 5.
        """
        nest = self.products.nest
        arithmetic, schedule = nest.plan.arithmetic, nest.plan.schedule
        if self.of_b is not None:  # p sum(b')
            column = build.plus(build.times(block.column_index, schedule.nr), j)
            total = _plus_product(build, total, load(build, self.of_b.buffer, column), arithmetic.a_offset)
        if self.of_a is not None:  # q sum(a'); the sum of a row is stored `LANES` times
            row = build.times(build.plus(build.times(block.row_index, schedule.mr), i), LANES)
            total = _plus_product(build, total, load(build, self.of_a.buffer, row), arithmetic.b_offset)
        if arithmetic.a_offset and arithmetic.b_offset:  # K p q
            contraction = nest.plan.contraction
            steps = build.product([nest.sizes[d] for d in (contraction.k, *contraction.reductions)])
            count = build.pure(arith.IndexCastOp(build.value(steps), i32))
            total = _plus_product(build, total, count, arithmetic.a_offset * arithmetic.b_offset)
        return total


def _filled(frame: Frame, build: Builder, initial: IntegerAttr, count: int) -> SSAValue:
    """Return a new buffer of `count` elements of the type and value of `initial`."""
    elements = frame.elements
    buffer = elements.fresh(initial.type, count)
    value = build.pure(arith.ConstantOp(initial))
    build.parallel(0, count, lambda b, i: elements.store(b, value, buffer, [i]))
    return buffer


def _plus_product(build: Builder, total: SSAValue, value: SSAValue, times: int) -> SSAValue:
    """Return total + value * times, modulo 2^32."""
    # `times` as the i32 with the same bits.
    wrapped = (times + (1 << 31)) % (1 << 32) - (1 << 31)
    factor = build.pure(arith.ConstantOp(IntegerAttr(wrapped, i32)))
    return build.pure(arith.AddiOp(total, build.pure(arith.MuliOp(value, factor))))
