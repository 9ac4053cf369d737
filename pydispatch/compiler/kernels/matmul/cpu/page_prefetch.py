"""Prefetches of the next page of B. Pages are blocks of rows anywhere in memory, which a table of indices selects."""

from __future__ import annotations

from pydispatch.compiler.kernels.loops.transpose_blocks import view_as
from pydispatch.compiler.kernels.matmul.cpu.nest import Block, Nest, Region, Span
from pydispatch.compiler.kernels.matmul.cpu.operand_memrefs import element_offset
from pydispatch.compiler.kernels.matmul.cpu.operands import OperandView
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.ir.dialects.pyd.prefetch import PrefetchOp

MAX_PREFETCH_DISTANCE_BYTES = 128 << 10
"""Maximum number of bytes that a product reads of a page while it prefetches the next page. Lines that are prefetched
further ahead leave the L2 cache before they are used: 4 heads of 128 in pages of 1,024 took 298 us with prefetches and
244 without (AMD EPYC Zen 4, one worker)."""


def prefetch_next_page(build: Builder, nest: Nest, b: OperandView, region: Region, block: Block) -> None:
    """Emit the prefetch of the elements of B in the next page at the position of a block; nothing without pages.

    The CPU's prefetchers do not find the next page. Rows of pages are along K or along N. The next of pages of more
    than `MAX_PREFETCH_DISTANCE_BYTES` is not prefetched.

    Example:
        With pages of 256 rows along K, and chunks of 64 steps, a block that reads the steps 0 to 63 prefetches the
        steps 256 to 319 of its columns. With pages of 16 rows along N, a block that reads the columns 8 to 15
        prefetches the columns 24 to 31, at the same steps of K.
    """
    pages, n, k = nest.plan.pages, nest.plan.contraction.n, nest.plan.contraction.k
    if pages is None or n is None:
        return
    # Each index of `row_dim`, K or N, is a row of a page. The other one, `contiguous_dim`, is along the rows.
    (row_dim,) = nest.plan.contraction.b.coordinates[pages.axis].dims
    contiguous_dim = k if row_dim == n else n
    steps = region.extent(k)
    has_static_sizes = isinstance(steps, int)  # as a prefetched block must have
    if not has_static_sizes or not _pays_prefetching(nest, pages.rows, nest.sizes[contiguous_dim]):
        return
    first_of_next_page = build.plus(region.first(row_dim), pages.rows)
    next_page = region.with_span(row_dim, Span(first_of_next_page, region.extent(row_dim)))

    def prefetch(inner: Builder) -> None:
        """Emit the prefetch of all steps of K of the region, in the columns of the block."""
        offset = element_offset(inner, next_page, b, {n: block.column})
        extents: dict[int, Index] = {k: steps, n: nest.plan.schedule.nr}
        shape = [extents[row_dim], extents[contiguous_dim]]
        strides = [b.stride(inner, row_dim), b.stride(inner, contiguous_dim)]
        inner.add(PrefetchOp(operands=[view_as(inner, b.buffer, offset, shape, strides)]))

    # The first row that the block reads, counted from the first row of the region. A block has all of the region's
    # steps of K, but not all of its columns.
    first_row = block.column if row_dim == n else 0
    has_next = build.less(build.plus(first_of_next_page, first_row), nest.end(row_dim))
    build.when(has_next, prefetch)


def _pays_prefetching(nest: Nest, rows: int, elements_of_row: Index) -> bool:
    """Return whether pages of so many rows have a known size of at most `MAX_PREFETCH_DISTANCE_BYTES`."""
    if not isinstance(elements_of_row, int):
        return False
    element_bytes = nest.plan.problem.b.element_bytes or nest.plan.problem.sum_bytes  # 0: as a packed element
    return rows * elements_of_row * element_bytes <= MAX_PREFETCH_DISTANCE_BYTES
