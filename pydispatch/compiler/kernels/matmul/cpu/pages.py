"""Gathered pages as factor B: where register blocks read them in place, and the blocks that do not cross pages."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Attribute

from pydispatch.compiler.kernels.matmul.cpu.schedule import Schedule
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages, gathered_pages
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.ir.values import shape_of

MAX_ROWS_OF_PAGES = 8
"""Rows of A up to which gathered pages are read in place, in blocks as short as pages; for more, packing them pays."""

STEPS_OF_PAGES = 64
"""Steps of K in a page that a register block adds up at once, at least, if the page has so many."""


def pages_in_place(contraction: Contraction, rows: int | None, compute: Attribute) -> GatheredPages | None:
    """Return B as gathered pages if register blocks can read them in place, with their rows along N or K; else None.

    `rows` are those of A, None if dynamic. `compute` is the type of products.
    """
    b = contraction.b
    pages = gathered_pages(contraction.tensor_of(b))
    if pages is None or not b.direct or pages.element_type != compute or not 0 < (rows or 0) <= MAX_ROWS_OF_PAGES:
        return None
    if shape_of(pages.source)[0] < 1:  # a gather from no pages is 0, and reads nothing
        return None
    row, is_contiguous = b.coordinates[pages.axis], pages.strides[-1] == 1
    is_along = any(dim is not None and row.is_identity(dim) for dim in (contraction.n, contraction.k))
    return pages if is_along and is_contiguous else None


def within_pages(contraction: Contraction, schedule: Schedule, pages: GatheredPages) -> Schedule:
    """Return a schedule whose register blocks, and chunks of K, do not cross pages of B."""
    (dim,) = contraction.b.coordinates[pages.axis].dims
    if dim == contraction.k:
        return replace(schedule, kc=_divisor(pages.rows, max(schedule.kc, STEPS_OF_PAGES)))
    nr = _divisor(pages.rows, schedule.nr)
    return replace(schedule, nr=nr, nt=schedule.nt // nr * nr)


def _divisor(size: int, limit: int) -> int:
    """Return the largest divisor of `size` that is at most `limit`."""
    return next(n for n in range(min(size, limit), 0, -1) if size % n == 0)
