"""Arithmetic of a contraction, and the memory in which register blocks can read its factors, before a schedule is made.

The schedule depends on the result, a `Problem`: the sizes of the contraction, and the layout of its factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import BFloat16Type
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic, arithmetic_of, half_precision_b
from pydispatch.compiler.kernels.matmul.cpu.in_place import (
    MAX_SINGLE_USE_ROWS,
    Sizes,
    half_operand,
    is_a_stored_as_packed,
    is_argument_element,
    operand_of,
    paged_operand,
    panels_of_b,
)
from pydispatch.compiler.kernels.matmul.cpu.pages import pages_in_place
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Panels
from pydispatch.compiler.kernels.ops.bits import bits_of

ASSUMED_ROWS, ASSUMED_SKINNY_ROWS = 256, 4
"""Row counts that tiles are chosen for if M is dynamic: in a plan for at least a register block of rows, and in a plan
for fewer rows."""


@dataclass(frozen=True)
class RowRange:
    """The values of a dynamic M, the number of rows of A, that a plan is for: `least` to `most`, both included.

    `most` is None for no upper bound. Otherwise it is less than the rows of a register block.
    """

    least: int
    most: int | None

    @property
    def assumed_rows(self) -> int:
        """The number of rows that tiles are chosen for: the only one in the range, else an assumed one.

        If the range has an upper bound, it is for fewer rows than a register block has, and few rows are assumed.
        """
        if self.most == self.least:
            return self.least
        has_upper_bound = self.most is not None
        return ASSUMED_SKINNY_ROWS if has_upper_bound else ASSUMED_ROWS


@dataclass(frozen=True)
class OperandAccess:
    """Arithmetic of a contraction, and the memory from which register blocks can read its factors.

    Attributes:
        arithmetic: Element types and instructions.
        problem: The properties of the contraction that its schedule depends on.
        panels: The panels, each some adjacent columns, in which an argument stores B; None for a B in another layout.
        b_in_half_precision: The tensor of f16 or bf16 whose elements register blocks can widen to those of B; None if
            B is no such tensor.
        pages: B as gathered pages, blocks of rows that a table of indices selects, if register blocks can read them in
            place; else None.
    """

    arithmetic: Arithmetic
    problem: Problem
    panels: Panels | None
    b_in_half_precision: SSAValue | None
    pages: GatheredPages | None


def operand_access(
    contraction: Contraction, level: Level, sizes: Sizes, row_range: RowRange | None
) -> OperandAccess | None:
    """Return the arithmetic of a contraction and the access to its factors; None if no register block has its types.

    Register blocks can read B in place if an argument has it in panels, each some adjacent columns; if it is f16 or
    bf16, which they widen; or if it is in pages, blocks of rows that a table of indices selects, as in a cache of keys.

    Args:
        contraction: The contraction.
        level: Vector registers, caches and instructions of the CPU.
        sizes: Sizes of its dimensions; None if dynamic.
        row_range: The values of a dynamic M that a plan is for; None if there is one plan for all.
    """
    arithmetic = _arithmetic(contraction, level, sizes, row_range)
    if arithmetic is None:
        return None
    b_in_half_precision, panels = _memory_of_b(contraction, level, sizes, arithmetic)
    problem = _problem(contraction, sizes, row_range, arithmetic, panels)
    if b_in_half_precision is not None:
        problem = replace(problem, b=half_operand(contraction, problem, b_in_half_precision, level))
    # B cannot be in both panels and pages: panels are in an argument, and pages are gathered.
    pages = pages_in_place(contraction, problem.m, arithmetic, level)
    if pages is not None and not problem.b.is_readable_in_place:
        problem = replace(problem, b=paged_operand(contraction, pages, problem.sum_bytes))
    return OperandAccess(
        arithmetic=arithmetic,
        problem=problem,
        panels=panels,
        b_in_half_precision=b_in_half_precision,
        pages=pages,
    )


def _arithmetic(contraction: Contraction, level: Level, sizes: Sizes, row_range: RowRange | None) -> Arithmetic | None:
    """Return the arithmetic of a contraction; None if no register block has its element types.

    Instructions on groups of steps of K need a B that is packed in groups, unless an argument has it in such panels.
    For few rows, instructions on single steps may be faster than packing.
    """
    arithmetic = arithmetic_of(contraction, level)
    if arithmetic is None or arithmetic.group == 1:
        return arithmetic
    _, panels = _memory_of_b(contraction, level, sizes, arithmetic)
    has_to_pack_groups = panels is None
    if has_to_pack_groups and _is_faster_without_groups(contraction, sizes, row_range, arithmetic):
        return _without_groups(arithmetic)
    return arithmetic


def _memory_of_b(
    contraction: Contraction, level: Level, sizes: Sizes, arithmetic: Arithmetic
) -> tuple[SSAValue | None, Panels | None]:
    """Return the tensor of f16 or bf16 that register blocks widen to B, and the panels in which an argument stores B.

    The tensor is None in two cases: B is no widened f16 or bf16, or an instruction multiplies a group of several steps
    of K, whose elements cannot be widened. The panels, each a few adjacent columns of B, are None if no argument stores
    B in panels, or if register blocks cannot read these.
    """
    multiplies_groups = arithmetic.group > 1
    b_in_half_precision = None if multiplies_groups else half_precision_b(contraction, level)
    return b_in_half_precision, panels_of_b(contraction, sizes, arithmetic, b_in_half_precision)


def _without_groups(grouped: Arithmetic) -> Arithmetic:
    """Return the arithmetic that converts operands to the type of the sums and multiplies single steps of K."""
    return Arithmetic(compute=grouped.sum_type, sum_type=grouped.sum_type)


def outer_dims_sharing_b(contraction: Contraction, sizes: Sizes) -> list[int]:
    """Return the outer dimensions at whose indices B is equal, so that packed columns of B may serve all of them.

    Outer dimensions are the parallel ones other than M and N. Dynamic ones are left out.
    """
    # A reduced dimension of dynamic size becomes a loop around the packing of B. The copy then has one index of this
    # dimension at a time, and is overwritten before another outer index could use it.
    if any(sizes[d] is None for d in contraction.reductions):
        return []
    return [d for d in contraction.outer if sizes[d] is not None and not contraction.b.positions_of(d)]


def _is_faster_without_groups(
    contraction: Contraction, sizes: Sizes, row_range: RowRange | None, grouped: Arithmetic
) -> bool:
    """Return whether multiplying single steps of K is faster than packing B for instructions on groups of steps.

    Single steps are faster for few rows of A. Then packing B, which stores the steps of a group side by side, takes
    longer than the products.

    Args:
        contraction: The contraction.
        sizes: Sizes of its dimensions; None if dynamic.
        row_range: Bounds of a dynamic number of rows; None for a static number, or one of which nothing is known.
        grouped: The arithmetic with groups: pairs of bf16, or groups of integers.
    """
    problem = _problem(contraction, sizes, row_range, _without_groups(grouped))
    most_rows = problem.max_rows or problem.m or 0
    if most_rows == 0:  # no upper bound is known, or there are no rows
        return False
    if isinstance(grouped.compute, BFloat16Type):
        return most_rows < MATRIX_ROWS  # fewer than a block of matrix registers has
    # Without groups, a B of bytes or i16 may be packed in the order of memory (`vectorizes_packed_k`), which is fast.
    return problem.vectorizes_packed_k and most_rows <= MAX_SINGLE_USE_ROWS


def _problem(
    contraction: Contraction,
    sizes: Sizes,
    row_range: RowRange | None,
    arithmetic: Arithmetic,
    panels: Panels | None = None,
) -> Problem:
    """Return the properties of a contraction that determine its schedule.

    Args:
        contraction: The contraction.
        sizes: Sizes of its dimensions; None if dynamic.
        row_range: The row counts that a plan for a dynamic M is for; None for a static M, or one plan for all counts.
        arithmetic: Element types and instructions.
        panels: The panels, each some adjacent columns, in which an argument stores B; None for another layout.
    """
    m, min_rows, max_rows = _row_counts(contraction, sizes, row_range)
    return Problem(
        sum_bytes=bits_of(arithmetic.sum_type) // 8,
        m=m,
        n=1 if contraction.n is None else sizes[contraction.n],
        k=sizes[contraction.k],
        min_rows=min_rows,
        max_rows=max_rows,
        # Dynamic sizes count as 1.
        outer=prod(sizes[d] or 1 for d in contraction.outer),
        reductions=prod(sizes[d] or 1 for d in contraction.reductions),
        a=_operand_a(contraction, sizes, arithmetic),
        b=_operand_b(contraction, arithmetic, panels),
        panel_width=0 if panels is None else panels.layout.width,
        group=arithmetic.group,
        matrix_steps=arithmetic.matrix_steps,
        b_uses=prod(sizes[d] or 1 for d in outer_dims_sharing_b(contraction, sizes)),
    )


def _row_counts(
    contraction: Contraction, sizes: Sizes, row_range: RowRange | None
) -> tuple[int | None, int, int | None]:
    """Return the row count that tiles are chosen for, and the least and greatest one of a plan.

    For a dynamic M in the range of 2 to 13 rows, they are 4, an assumption, 2 and 13; for a static M of 100, each is
    100; for a dynamic M without a range, None, 0 and None.
    """
    if row_range is not None:
        return row_range.assumed_rows, row_range.least, row_range.most
    m = 1 if contraction.m is None else sizes[contraction.m]
    return m, m or 0, m


def _operand_a(contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic) -> Operand:
    """Return the layout of A, and whether register blocks can read it in place.

    Matrix registers can load elements that are shorter than the sums, such as bytes whose sums are i32. Other registers
    read elements in place that have the type of the sums.
    """
    uses_matrix_registers = arithmetic.matrix_steps > 0
    if not (uses_matrix_registers and is_a_stored_as_packed(contraction, sizes, arithmetic)):
        is_readable = _is_unconverted_argument(contraction.a, contraction, arithmetic)
        return _operand_of_sums(contraction.a, contraction, arithmetic, is_readable, rows=contraction.m)
    element_bytes = bits_of(arithmetic.compute) // 8
    operand = operand_of(
        contraction.a, contraction, is_readable_in_place=True, rows=contraction.m, bytes_in_memory=element_bytes
    )
    return replace(operand, element_bytes=element_bytes)


def _operand_b(contraction: Contraction, arithmetic: Arithmetic, panels: Panels | None) -> Operand:
    """Return the layout of B, and whether register blocks can read it in place.

    `panels` are those, each some adjacent columns, in which an argument stores B; None for another layout. Outside of
    panels, elements that are read in place have the type of the sums.
    """
    is_readable = panels is not None or _is_unconverted_argument(contraction.b, contraction, arithmetic)
    return _operand_of_sums(contraction.b, contraction, arithmetic, is_readable, rows=contraction.k)


def _is_unconverted_argument(factor: Factor, contraction: Contraction, arithmetic: Arithmetic) -> bool:
    """Return whether a factor is an element of an argument whose type is that of products and sums."""
    needs_no_conversion = arithmetic.reads_in_place(contraction.acc)
    return needs_no_conversion and is_argument_element(factor, contraction, arithmetic.compute)


def _operand_of_sums(
    factor: Factor, contraction: Contraction, arithmetic: Arithmetic, is_readable_in_place: bool, rows: int | None
) -> Operand:
    """Return the layout of a factor whose elements in memory are as long as the sums."""
    sum_bytes = bits_of(arithmetic.sum_type) // 8
    return operand_of(factor, contraction, is_readable_in_place, rows=rows, bytes_in_memory=sum_bytes)
