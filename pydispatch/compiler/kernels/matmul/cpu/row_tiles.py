"""Division of the rows of two chained contractions among workgroups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.matmul.cpu.nest import Span
from pydispatch.compiler.kernels.matmul.cpu.plan import Plan
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level, ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.values import shape_of

MAX_ROWS_BYTES = 128 << 10
"""Maximum size of the rows of a workgroup: half of a small second-level cache, which also has packed operands."""

MIN_WORKGROUPS = 8
"""Minimum number of workgroups of a kernel. There are fewer if the rows have fewer register blocks, since a workgroup
has at least one."""


@dataclass(frozen=True)
class RowTiles:
    """The division of the rows of two chained contractions among workgroups.

    A chain is a contraction, operations on each row of its result, and a contraction of these rows (`Chain`). A
    workgroup computes some rows of all of them. For an attention of 12 heads with 512 queries, `Chain.rows` has the
    shape [12, 512, keys]: `axis` is 1, and `outer` (12,).

    Attributes:
        axis: The dimension of `Chain.rows` that is M in both products; None where there is a single row.
        row_count: Size of that dimension.
        columns: Elements of a row.
        outer: Sizes of the outer dimensions of `Chain.rows`: all but the rows and columns.
        block: Rows of the higher register block of both products, at most `row_count`.
        rows: Rows of a workgroup: a multiple of `block`, or all. The last workgroup may have fewer.
        stride: Elements from one row to the next in workgroup memory.
    """

    axis: int | None
    row_count: int
    columns: int
    outer: tuple[int, ...]
    block: int
    rows: int
    stride: int

    @staticmethod
    def of(chain: Chain, first_plan: Plan, second_plan: Plan, level: Level) -> RowTiles:
        """Return the division with the most rows for each workgroup that two limits allow.

        The rows of a workgroup take at most `MAX_ROWS_BYTES` (128 KiB) of its memory, and there are at least
        `MIN_WORKGROUPS` workgroups. A workgroup has at least one register block of rows, even if that exceeds a limit.

        Args:
            chain: The chain of two contractions.
            first_plan, second_plan: Plans of its first and its second contraction.
            level: Vector registers, caches and instructions of the CPU.

        Example:
            An attention of f32 with 12 heads, 512 queries and 512 keys, on AVX-512 in blocks of 14 rows: a row is
            padded to 528 elements, a block of rows is 29,568 bytes, and 4 blocks fit into 128 KiB. So `rows` is 56,
            and there are 12 * 10 workgroups.
        """
        shape, m = shape_of(chain.rows), chain.second.m
        axis = None if m is None else chain.second_loops.index(m)
        row_count, columns = 1 if axis is None else shape[axis], shape[-1]
        outer = tuple(shape[d] for d in chain.outer)
        element_bytes = 8 if str(tensor_type(chain.rows).element_type) == "f64" else 4  # chains are f32 or f64
        stride = _row_stride(level, columns, element_bytes)
        # The most register blocks of rows that fit; fewer of them while there are too few workgroups.
        block = min(max(first_plan.schedule.mr, second_plan.schedule.mr), row_count)
        blocks = max(1, MAX_ROWS_BYTES // (element_bytes * stride * block))
        while blocks > 1 and prod(outer) * ceil_quotient(row_count, blocks * block) < MIN_WORKGROUPS:
            blocks -= 1
        rows = min(row_count, blocks * block)
        return RowTiles(axis, row_count, columns, outer, block=block, rows=rows, stride=stride)

    @property
    def workgroups(self) -> int:
        """Number of workgroups."""
        return prod(self.outer) * ceil_quotient(self.row_count, self.rows)


def _row_stride(level: Level, columns: int, element_bytes: int) -> int:
    """Return the elements from one row to the next in workgroup memory.

    Rows that are a multiple of 256 bytes apart would compete for few sets of the cache: a vector pads each row.
    """
    is_padded = columns * element_bytes % 256 == 0
    return columns + level.vector // element_bytes if is_padded else columns


@dataclass(frozen=True)
class WorkgroupRows:
    """Rows of a chain that one workgroup computes, at one index of each outer dimension.

    Attributes:
        tiles: The division of all rows among workgroups.
        outer_dims: `Chain.outer`, the outer dimensions of `Chain.rows`: [0] for rows of shape [heads, queries, keys].
        outer: The workgroup's index in each of `outer_dims`.
        span: The range of indices of the workgroup's rows in the dimension `tiles.axis`.
    """

    tiles: RowTiles
    outer_dims: Sequence[int]
    outer: tuple[Index, ...]
    span: Span

    def indices(self, build: Builder, row: Index, rank: int) -> list[Index]:
        """Return the indices of a row's first element: [head, first query of the workgroup + `row`, 0].

        This example is for a tensor of shape [heads, queries, keys]. In a tensor of row maxima, of shape [heads,
        queries], the indices have no column: [head, first query of the workgroup + `row`].

        Args:
            build: Emits the arithmetic.
            row: The row, counted from the first row of the workgroup.
            rank: Rank of the tensor: that of `Chain.rows`, or one less for a tensor without columns.
        """
        indices: list[Index] = [0] * rank
        for dim, index in zip(self.outer_dims, self.outer, strict=True):
            indices[dim] = index
        if self.tiles.axis is not None:  # there is more than a single row
            indices[self.tiles.axis] = build.plus(self.span.first, row)
        return indices
