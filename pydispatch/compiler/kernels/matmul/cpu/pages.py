"""Gathered pages as factor B: where register blocks read them in place, and the blocks that do not cross pages."""

from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import Float32Type

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import HALF_TYPES, Arithmetic
from pydispatch.compiler.kernels.matmul.cpu.in_place import argument_of
from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages, gathered_pages
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.ir.values import shape_of

MAX_ROWS_OF_PAGES = 8
"""Maximum number of rows of A for which gathered pages are read in place, by register blocks that do not cross pages.
For more rows, packing the pages pays."""

MIN_PAGE_STEPS = 64
"""Minimum length of a chunk of K, in steps, if a page has at least so many: a shorter chunk of the schedule is extended
to it. Each chunk loads and stores the sums of all register blocks."""


def pages_in_place(
    contraction: Contraction, rows: int | None, arithmetic: Arithmetic, level: Level
) -> GatheredPages | None:
    """Return B as gathered pages of an argument if register blocks can read them in place; else None.

    Pages are blocks of rows of the argument that a table of indices selects. Their rows are along N or K. Pages of f16
    and bf16 are widened to f32 as they are read, if the CPU has instructions for that. For more than
    `MAX_ROWS_OF_PAGES` rows of A, packing pages is faster than reading them in place.

    Args:
        contraction: The contraction.
        rows: Number of rows of A; None if it is dynamic, for which pages are packed, too.
        arithmetic: Element types and instructions of the product.
        level: Vector registers, caches and instructions of the CPU.
    """
    b = contraction.b
    pages = gathered_pages(contraction.tensor_of(b))
    has_few_rows = rows is not None and 0 < rows <= MAX_ROWS_OF_PAGES
    if pages is None or not b.is_element or not has_few_rows:  # `is_element`: nothing is computed from the element
        return None
    if argument_of(pages.source) is None or shape_of(pages.source)[0] < 1:  # a gather from no pages reads nothing
        return None
    # Elements have the type in which the product is computed, or are widened to it.
    is_widened = level.widens_half and pages.element_type in HALF_TYPES and arithmetic.compute == Float32Type()
    is_readable = pages.element_type == arithmetic.compute or is_widened
    if not is_readable or not arithmetic.reads_in_place(contraction.acc):
        return None
    row_coordinate, is_contiguous = b.coordinates[pages.axis], pages.strides[-1] == 1
    dims = [dim for dim in (contraction.n, contraction.k) if dim is not None]
    is_along_n_or_k = any(row_coordinate.is_identity(dim) for dim in dims)
    return pages if is_along_n_or_k and is_contiguous else None


def within_pages(contraction: Contraction, schedule: Schedule, pages: GatheredPages) -> Schedule:
    """Return a schedule whose register blocks, and chunks of K, do not cross pages of B.

    If the rows of pages are along K, the length of a chunk (`kc`) becomes a divisor of the rows of a page. If they are
    along N, the columns of a register block (`nr`) do.
    """
    (row_dim,) = contraction.b.coordinates[pages.axis].dims
    if row_dim == contraction.k:
        return replace(schedule, kc=_largest_divisor_up_to(pages.rows, max(schedule.kc, MIN_PAGE_STEPS)))
    nr = _largest_divisor_up_to(pages.rows, schedule.nr)
    return replace(schedule, nr=nr, nt=schedule.nt // nr * nr)  # tiles consist of whole blocks


def _largest_divisor_up_to(size: int, limit: int) -> int:
    """Return the largest divisor of `size` that is at most `limit`."""
    return next(n for n in range(min(size, limit), 0, -1) if size % n == 0)
