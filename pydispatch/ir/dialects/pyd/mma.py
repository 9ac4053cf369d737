"""`pyd.mma`: a block of a matrix product by 32 invocations together, in kernel IR for GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IndexType,
    MemRefType,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import KeywordChoice, directive

LANES = 32
"""Invocations that compute a block together; each of them is called a lane."""

FORMS = ("fma", "tensor")
"""Instructions that compute a block: scalar fused multiply-adds, or instructions of matrix units."""


@dataclass(frozen=True)
class LaneLayout:
    """Distribution of the elements of a matrix block C over the lanes, the invocations that compute it together.

    All lanes hold the same number of elements, each in a slot: slot s is element s of the lane's private memory. The
    lanes are arranged in rows of `across`: lane l is in row l / across and column l mod across. Slot s of lane l, both
    counted from 0, holds C[rows[s] + (l / across) * row_step, columns[s] + (l mod across) * column_step].

    Example: for a C of 16x32 elements, across = 8, row_step = column_step = 4, rows = (0, 0, 0, 0, 1, ...) and
    columns = (0, 1, 2, 3, 0, ...) give each lane 4x4 elements. Lane 9 holds C[4..7, 4..7], and C[5, 6] in slot 6.

    Attributes:
        across: Number of lanes beside each other, along a row of C.
        row_step: Distance in rows of C from one row of lanes to the next.
        column_step: Distance in columns of C from a lane to its right neighbour.
        rows: Row in C of each slot of lane 0.
        columns: Column in C of each slot of lane 0.
    """

    across: int
    row_step: int
    column_step: int
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @classmethod
    def of_slots(cls, slots: Sequence[tuple[int, int]], across: int, row_step: int, column_step: int) -> LaneLayout:
        """Return a layout from (row, column) of each slot of lane 0."""
        return cls(across, row_step, column_step, tuple(row for row, _ in slots), tuple(column for _, column in slots))


def lane_layout(form: str, height: int, width: int, run: int) -> LaneLayout:
    """Return the distribution of the elements of a block of C, of height x width, over 32 lanes.

    Form "fma": 4 rows of 8 lanes, each lane with `run` x `run` adjacent elements. In a step of K, a lane can then read
    `run` neighbours of A, or of B, with one load. The lanes cover 4 * run rows and 8 * run columns, and this pattern
    repeats over the block. With `run` 4, lane 9 of a block of 32x32 has C[4..7, 4..7] and C[20..23, 4..7].

    Form "tensor": the layout of the accumulators of 16x8 matrix instructions. Lane 5 has C[1, 2], C[1, 3], C[9, 2] and
    C[9, 3] of the first 16x8 elements.

    Args:
        form: One of `FORMS`.
        height: Rows of the block; a multiple of 4 * run for "fma", of 16 for "tensor".
        width: Columns of the block; a multiple of 8 * run for "fma", of 8 for "tensor".
        run: Number of adjacent rows and columns of a lane, the elements that one load of 16 bytes reads, at most 4;
            "tensor" ignores it.
    """
    if form == "tensor":
        # Lane 0 has four elements of each 16x8 matrix: two adjacent ones in row 0, and two in row 8.
        slots = [
            (first_row + row, first_column + column)
            for first_row in range(0, height, 16)
            for first_column in range(0, width, 8)
            for row, column in ((0, 0), (0, 1), (8, 0), (8, 1))
        ]
        return LaneLayout.of_slots(slots, across=4, row_step=1, column_step=2)
    # Lane 0 has the first run x run elements of each part of 4 * run rows and 8 * run columns.
    slots = [
        (first_row + row, first_column + column)
        for first_row in range(0, height, 4 * run)
        for row in range(run)
        for first_column in range(0, width, 8 * run)
        for column in range(run)
    ]
    return LaneLayout.of_slots(slots, across=8, row_step=run, column_step=run)


def adjacent_elements_of(bits: int) -> int:
    """Return the number of adjacent elements of a lane: as many elements of `bits` bits as fit in 16 bytes, the widest
    load, but at most 4."""
    return max(1, min(4, 128 // bits))


@directive
class Form(KeywordChoice):
    """Directive for the form of a matrix product: `fma` (fused multiply-adds) or `tensor` (matrix units)."""

    WORDS: ClassVar[Sequence[str]] = FORMS
    WHAT: ClassVar[str] = "form"


@op_definition
class MmaOp(IRDLOperation):
    """Product of a matrix block by a group of 32 invocations in kernel IR: C += A·B.

    Syntax: `pyd.mma %lane, %a, %b, %c tensor : memref<MxK…>, memref<KxN…>, memref<S…, 5>`. All 32 invocations execute
    it; %lane is their index in the group.

    A and B are in workgroup memory and the same for all lanes; their rows or columns are contiguous and 16-byte
    aligned. C is distributed over the private memory of the lanes, as `lane_layout` defines. With `fma` all operands
    have one type, and products are fused with the sums in the order of K. With `tensor` A and B are f16 or bf16, C is
    f32, K is a multiple of 16, and the hardware determines order and rounding within 16 products. A slot is one element
    of the memref of C: each lane has its own.
    """

    name = "pyd.mma"
    lane = operand_def(IndexType)
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    form = prop_def(StringAttr)
    custom_directives = (Form,)
    assembly_format = "$lane `,` $a `,` $b `,` $c custom<Form>($form) attr-dict `:` type($a) `,` type($b) `,` type($c)"

    def verify_(self) -> None:
        """Check element types and sizes for the form of the instruction, `fma` or `tensor`.

        M, N and K of A [M, K] and B [K, N] must be multiples of 16, 16 and 16 for `tensor`; of 16, 32 and 1 for `fma`
        with f32, and of 8, 16 and 1 with f64. The memref of C has M * N / 32 elements, its slots: the sums that one of
        the 32 invocations holds. With `fma` and f32, A of 16x8 and B of 8x32 have a C of 16 elements.
        """
        a, b, c = (v.type for v in (self.a, self.b, self.c))
        assert isinstance(a, MemRefType) and isinstance(b, MemRefType) and isinstance(c, MemRefType)
        ranks = [type.get_num_dims() for type in (a, b, c)]
        if ranks != [2, 2, 1] or not all(type.has_static_shape() for type in (a, b, c)):
            raise VerifyException(f"pyd.mma takes two static matrices and a row of slots, got {a}, {b} and {c}")
        (m, k), (k_of_b, n), (slots,) = a.get_shape(), b.get_shape(), c.get_shape()
        if k != k_of_b or a.element_type != b.element_type:
            raise VerifyException(f"pyd.mma of {a} and {b}: they differ in K or in their elements")
        if self.form.data not in FORMS:
            raise VerifyException(f"pyd.mma has the forms {' and '.join(FORMS)}, not '{self.form.data}'")
        rows, columns, inner = self._block(a.element_type, c.element_type)
        if m % rows or n % columns or k % inner or m * n != slots * LANES:
            raise VerifyException(
                f"pyd.mma {self.form.data} does blocks of multiples of {rows}x{columns}x{inner} with one slot for "
                f"{LANES} elements; got {m}x{n}x{k} and {slots} slots"
            )

    def _block(self, factor: Attribute, total: Attribute) -> tuple[int, int, int]:
        """Return the sizes of which M, N and K must be multiples; raise VerifyException for element types that the form
        does not multiply.

        They are (16, 16, 16) for `tensor`, and for `fma` (16, 32, 1) with f32 and (8, 16, 1) with f64.

        Args:
            factor: Element type of A and B.
            total: Element type of C.
        """
        if self.form.data == "tensor":
            # An instruction multiplies 16x16 elements of A by 16x8 of B; B is loaded in blocks of 16x16.
            block = 16, 16, 16
            fits = isinstance(factor, Float16Type | BFloat16Type) and isinstance(total, Float32Type)
        else:
            # The 32 lanes form a grid of 4 x 8 over C, and each computes blocks of run x run adjacent elements. The
            # loop over K multiplies one step at a time, so that any K is possible.
            run = adjacent_elements_of(_bits(total))  # 4 of f32, 2 of f64
            block = 4 * run, 8 * run, 1
            fits = factor == total
        if not fits:
            raise VerifyException(f"pyd.mma {self.form.data} of {factor} into {total}")
        return block


def _bits(type_: Attribute) -> int:
    """Return the number of bits of an element type; 32 for a type without a fixed width, such as index."""
    bits = getattr(type_, "bitwidth", None) or getattr(getattr(type_, "width", None), "data", None)
    return bits if isinstance(bits, int) else 32


@op_definition
class RematerializeOp(IRDLOperation):
    """Identity on an index below 2^32, `%y = pyd.rematerialize %x : index`, which common subexpression elimination does
    not merge.

    Formulas of %x that are needed again are emitted again with %y: then their earlier results need not stay in
    registers.
    """

    name = "pyd.rematerialize"
    value = operand_def(IndexType)
    result = result_def(IndexType)
    assembly_format = "$value attr-dict `:` type($result)"


OPERATIONS: list[type[Operation]] = [MmaOp, RematerializeOp]
"""Operations of this file, which dialect.py adds to the dialect."""
