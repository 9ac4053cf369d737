"""Division of the rows of a chain of two contractions among the workgroups of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from xdsl.dialects.builtin import AnyFloat

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages, gathered_pages
from pydispatch.compiler.kernels.matmul.match import Contraction
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.values import shape_of

MAX_ROWS = 8
"""Maximum number of rows of a workgroup. Each loaded element of a factor B is multiplied by all of them; more rows take
more registers than small devices have."""

STORED_ROWS = 1
"""Maximum number of intermediate rows, such as the exponentials of a softmax, that are stored for later row-wise
operations; others are computed again. With more of them, fewer rows of a workgroup fit into `MAX_BYTES`."""

MAX_BYTES = 15 << 10
"""Maximum size of the rows of a workgroup and their stored values: every device has 16 KiB of workgroup memory, of
which 1 KiB is left to partial results of reductions."""


def pages_of(chain: Chain) -> tuple[GatheredPages, GatheredPages] | None:
    """Return the pages that the first and the second product read as factor B; None if one of them reads no pages.

    The rows of the pages, along the axis that a table of pages gathers, must be the columns of the chain.
    """
    first, second = _pages_along(chain.first, chain.first.n), _pages_along(chain.second, chain.second.k)
    return None if first is None or second is None else (first, second)


def _pages_along(product: Contraction, column: int | None) -> GatheredPages | None:
    """Return the pages that factor B of a product is composed of, if loop `column` runs over their rows; else None."""
    pages = gathered_pages(product.tensor_of(product.b))
    if pages is None or column is None:
        return None
    index_of_row = product.b.coordinates[pages.axis]  # `axis` is the dimension of the rows, page after page
    return pages if index_of_row.is_identity(column) else None


@dataclass(frozen=True)
class RowTiles:
    """The division of the rows of two chained contractions, such as the queries of an attention, among workgroups.

    The rows of a chain are the scores f32[heads, queries, keys], later the weights. For f32[8, 32, 512], a row has
    2 KiB: 7 rows fit into `MAX_BYTES`, one of them for a stored tensor. So `rows` is 4, the largest divisor of 32 up to
    6, and there are 8 * 32 / 4 = 64 workgroups.

    Attributes:
        axis: The dimension of the rows that is M in both products, along which workgroups take `rows` indices; None
            where there is a single row.
        row_count: Size of that dimension.
        columns: Elements of a row, such as the number of keys.
        outer: Sizes of the outer dimensions, such as the number of heads.
        rows: Number of rows of a workgroup, a divisor of `row_count`.
        page_rows: Number of columns that are visited or skipped together: whole pages of the factors B, the keys and
            the values. The rows of a page are columns of the chain. The number is the least common multiple of both
            page sizes.
    """

    axis: int | None
    row_count: int
    columns: int
    outer: tuple[int, ...]
    rows: int
    page_rows: int

    @staticmethod
    def of(chain: Chain) -> RowTiles:
        """Return the division of a chain's rows among workgroups, each of which gets as many rows as possible.

        `MAX_ROWS` and the workgroup's memory limit their number, a divisor of the number of all rows: with 32 rows and
        a limit of 6, a workgroup has 4. Both products of the chain read pages, blocks of rows of the keys or values.
        """
        pages = pages_of(chain)
        assert pages is not None, "`has_chain_kernel` must have checked it"
        shape, m = shape_of(chain.rows), chain.second.m
        axis = None if m is None else chain.second_loops.index(m)  # of `chain.rows`; None: there is a single row
        row_count = 1 if axis is None else shape[axis]
        limit = min(row_count, MAX_ROWS, RowTiles.rows_that_fit(chain))
        rows = next(n for n in range(limit, 0, -1) if row_count % n == 0)
        return RowTiles(
            axis=axis,
            row_count=row_count,
            columns=shape[-1],
            outer=tuple(shape[d] for d in chain.outer),
            rows=rows,
            page_rows=lcm(*(pages_of_product.rows for pages_of_product in pages)),
        )

    @staticmethod
    def rows_that_fit(chain: Chain) -> int:
        """Return how many rows of a chain fit into `MAX_BYTES`, beside `STORED_ROWS` rows of intermediate results.

        The result is below 1 if a row is too long.
        """
        element = tensor_type(chain.rows).element_type
        assert isinstance(element, AnyFloat)
        row_bytes = shape_of(chain.rows)[-1] * element.size
        return MAX_BYTES // row_bytes - STORED_ROWS

    @property
    def workgroups(self) -> int:
        """Number of workgroups."""
        return prod(self.outer) * (self.row_count // self.rows)
