"""Arithmetic of a contraction, and access to its factors, as far as no schedule decides them.

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
    has_packed_rows,
    is_argument_element,
    operand_of,
    paged_operand,
    panels_of_b,
)
from pydispatch.compiler.kernels.matmul.cpu.pages import pages_in_place
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem
from pydispatch.compiler.kernels.matmul.cpu.tiles import MATRIX_ROWS, Level
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.matmul.panels import Panels
from pydispatch.compiler.kernels.ops.bits import bits_of

ASSUMED_ROWS, ASSUMED_SKINNY_ROWS = 256, 4
"""Row counts that tiles are chosen for if M is dynamic: if there is at least a register block of rows, and if less."""


@dataclass(frozen=True)
class RowRange:
    """The values of a dynamic M, the number of rows of A, that a plan is for: `least` to `most`, both included.

    `most` is None for no upper bound.
    """

    least: int
    most: int | None

    @property
    def assumed(self) -> int:
        """The number of rows that tiles are chosen for: the only one in the range, else an assumed one."""
        if self.most == self.least:
            return self.least
        return ASSUMED_ROWS if self.most is None else ASSUMED_SKINNY_ROWS


@dataclass(frozen=True)
class OperandAccess:
    """Arithmetic of a contraction, and the memory from which register blocks can read its factors.

    Attributes:
        arithmetic: Element types and instructions.
        problem: The properties of the contraction that its schedule depends on.
        panels: The panels of adjacent columns that an argument has B in; None for a B in another layout.
        b_in_half_precision: Tensor of f16 or bf16 that B can be widened from in registers; None for another B.
        pages: B as gathered pages, where register blocks could read it in place; None elsewhere.
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

    B may be read in place from panels (blocks of adjacent columns of an argument), from f16 or bf16 that blocks widen,
    or from pages (blocks of rows that a table of indices gathers, as in a cache of keys).

    Args:
        contraction: The contraction.
        level: Vector registers, caches and instructions of the CPU.
        sizes: Sizes of its dimensions; None if dynamic.
        row_range: The values of a dynamic M that a plan is for; None if there is one plan for all.
    """
    arithmetic = arithmetic_of(contraction, level)
    if arithmetic is None:
        return None
    b_in_half_precision, panels = _memory_of_b(contraction, level, sizes, arithmetic)
    # Instructions on groups of steps of K need a packed B: for few rows, single steps in place may be faster.
    if arithmetic.group > 1 and panels is None and _pays_ungrouped(contraction, sizes, row_range, arithmetic):
        # B may be widened from half precision only without groups, and panels must have the groups of the arithmetic.
        arithmetic = _without_groups(arithmetic)
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


def _memory_of_b(
    contraction: Contraction, level: Level, sizes: Sizes, arithmetic: Arithmetic
) -> tuple[SSAValue | None, Panels | None]:
    """Return the tensor of f16 or bf16 that B is widened from, and the panels that B is stored in; each may be None.

    B is not widened from half precision if an instruction multiplies a group of several steps of K.
    """
    b_in_half_precision = None if arithmetic.group > 1 else half_precision_b(contraction, level)
    return b_in_half_precision, panels_of_b(contraction, sizes, arithmetic, b_in_half_precision)


def _without_groups(grouped: Arithmetic) -> Arithmetic:
    """Return the arithmetic that converts operands to the type of the sums and multiplies single steps of K."""
    return Arithmetic(compute=grouped.sum_type, sum_type=grouped.sum_type)


def dims_without_b(contraction: Contraction, sizes: Sizes) -> list[int]:
    """Return the outer dimensions of static size that B does not depend on: packed columns of B may serve all indices.

    Return none if a reduction has a dynamic size: it is a loop around the packing, so that no packed copy spans it.
    """
    if any(sizes[d] is None for d in contraction.reductions):
        return []
    return [d for d in contraction.outer if sizes[d] is not None and not contraction.b.positions_of(d)]


def _pays_ungrouped(contraction: Contraction, sizes: Sizes, row_range: RowRange | None, grouped: Arithmetic) -> bool:
    """Return whether widening the elements is faster than packing them in groups of steps of K, as `grouped` does.

    It is for few rows of A: interleaving the groups of B's columns takes longer than their products. `row_range` bounds
    a dynamic number of rows; None if nothing is known of it.
    """
    problem = _problem(contraction, sizes, row_range, _without_groups(grouped))
    most_rows = problem.max_rows or problem.m or 0  # 0: unknown, or no rows
    if isinstance(grouped.compute, BFloat16Type):  # pairs of steps pay where rows fill a block of matrix registers
        return 0 < most_rows < MATRIX_ROWS
    return problem.vectorizes_packed_k and 0 < most_rows <= MAX_SINGLE_USE_ROWS


def _problem(
    contraction: Contraction,
    sizes: Sizes,
    row_range: RowRange | None,
    arithmetic: Arithmetic,
    panels: Panels | None = None,
) -> Problem:
    """Return the properties of a contraction that determine its schedule.

    A dynamic M with the range of 2 to 13 rows has `m` 4, which is assumed, `min_rows` 2 and `max_rows` 13. A static M
    of 100 has the value 100 in all three.

    Args:
        contraction: The contraction.
        sizes: Sizes of its dimensions; None if dynamic.
        row_range: The row counts that a plan for a dynamic M is for; None for a static M, or one plan for all counts.
        arithmetic: Element types and instructions.
        panels: The panels that B is stored in and read from; None for a B in another layout.
    """
    m = 1 if contraction.m is None else sizes[contraction.m]
    m = m if row_range is None else row_range.assumed  # a range is only stated for a dynamic M
    return Problem(
        sum_bytes=bits_of(arithmetic.sum_type) // 8,
        m=m,
        n=1 if contraction.n is None else sizes[contraction.n],
        k=sizes[contraction.k],
        min_rows=(m or 0) if row_range is None else row_range.least,
        max_rows=m if row_range is None else row_range.most,
        outer=prod(sizes[d] or 1 for d in contraction.outer),  # dynamic sizes count as 1
        reductions=prod(sizes[d] or 1 for d in contraction.reductions),
        a=_operand_a(contraction, sizes, arithmetic),
        b=_operand_b(contraction, arithmetic, panels),
        panel_width=0 if panels is None else panels.layout.width,
        group=arithmetic.group,
        matrix_steps=arithmetic.matrix_steps,
        b_uses=prod(sizes[d] or 1 for d in dims_without_b(contraction, sizes)),
    )


def _operand_a(contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic) -> Operand:
    """Return the layout of A, and whether register blocks can read it in place.

    Matrix registers load rows of A from an argument, in the packed type, which is shorter than the type of the sums,
    such as bytes whose sums are i32. Other registers read elements in place that have the type of the sums.
    """
    if arithmetic.matrix_steps > 0 and has_packed_rows(contraction, sizes, arithmetic):
        is_readable_in_place, element_bytes = True, bits_of(arithmetic.compute) // 8
    else:
        has_type_in_place = arithmetic.reads_in_place(contraction.acc)
        is_readable_in_place = has_type_in_place and is_argument_element(contraction.a, contraction, arithmetic.compute)
        element_bytes = 0  # `Operand.element_bytes`: as long in memory as packed
    operand = operand_of(
        contraction.a,
        contraction,
        is_readable_in_place=is_readable_in_place,
        rows=contraction.m,
        bytes_in_memory=element_bytes or bits_of(arithmetic.sum_type) // 8,
    )
    return replace(operand, element_bytes=element_bytes)


def _operand_b(contraction: Contraction, arithmetic: Arithmetic, panels: Panels | None) -> Operand:
    """Return the layout of B, and whether register blocks can read it in place; `panels` are those it is stored in.

    Outside of panels, elements that are read in place have the type of the sums.
    """
    has_type_in_place = arithmetic.reads_in_place(contraction.acc)
    is_element_in_place = has_type_in_place and is_argument_element(contraction.b, contraction, arithmetic.compute)
    return operand_of(
        contraction.b,
        contraction,
        is_readable_in_place=panels is not None or is_element_in_place,
        rows=contraction.k,
        bytes_in_memory=bits_of(arithmetic.sum_type) // 8,
    )
