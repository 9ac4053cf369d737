"""Searches in the columns of a row: for the last one that masks show, and for one for which a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.column_end import Limits
from pydispatch.compiler.kernels.matmul.cpu.nest import End
from pydispatch.compiler.kernels.matmul.cpu.row_tiles import WorkgroupRows
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both

COLUMN_UNIT = 64
"""Columns that are visited or skipped as a whole. Loops over visited columns have no remainder then, so that hidden
columns do not change which columns share a partial sum."""


def visible_end(
    frame: Frame, scores: Sequence[int], limits: Limits, rows: WorkgroupRows, unit: int, block_columns: int
) -> End | None:
    """Emit the end of the columns that are visible to at least one row of a workgroup, rounded up to whole units.

    Columns are the keys of an attention, rows its queries; a mask shows a column to a row if it lets its score count.
    In causal attention, rows 10 to 13 see the columns 0 to 13: with units of 64 columns, the end is 64. Return None
    where all columns are visited.

    Args:
        frame: The kernel function.
        scores: Shape of the scores, whose last dimension is the columns.
        limits: The masks that hide columns: computed bounds, and masks that are stored in memory.
        rows: The rows of the workgroup.
        unit: Columns that are visited or skipped as a whole.
        block_columns: Columns of a register block of the product that computes the scores.
    """
    build, columns = frame.build, rows.tiles.columns
    has_one_unit = unit >= columns
    has_wider_blocks = block_columns > unit  # a register block would compute columns beyond the end
    if not limits or has_one_unit or has_wider_blocks:
        return None

    def end_up_to_row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Return the end of the columns that a row or a later one needs; `i` counts rows backwards from the last one.

        `carried` has the end of the columns that the later rows need.
        """
        row = inner.minus(inner.minus(rows.span.extent, 1), i)
        point = rows.indices(inner, row, rank=len(scores))
        (end_of_later_rows,) = carried
        end_of_row = limits.end(frame.elements, inner, point, columns)
        if limits.stored:  # masks in memory are read only beyond the columns that a later row needs anyway
            search = _MaskSearch(frame, limits, point, begin=end_of_later_rows, end=end_of_row, columns=columns)
            end_of_row = search.emit(inner)
        return [inner.value(inner.most(end_of_later_rows, end_of_row))]

    # At least one column is visited: a row without visible columns is computed from hidden ones. The loop begins with
    # the last row: in causal attention it sees most columns, and the masks of earlier rows need not be read then.
    row_count, most_rows = rows.span.extent, rows.tiles.rows  # the first may be dynamic
    (end,) = build.loop(0, row_count, [build.index(1)], end_up_to_row, index_below=most_rows)
    end = build.assume_below(end, columns + 1)
    return End(build.least(build.times(build.ceil_quotient(end, unit), unit), columns), unit)


@dataclass(frozen=True)
class _MaskSearch:
    """Search for the last column of a row that the masks in memory show, in units of `COLUMN_UNIT` columns.

    The loop has constant bounds and visits all units, but reads the masks only in units that overlap [begin, end).

    Attributes:
        frame: The kernel function.
        limits: The masks, of which those in memory (`limits.stored`) are read.
        point: Indices of an element of the row in the scores; the last one, its column, is not used.
        begin: The first column that is checked.
        end: The end of the columns that are checked.
        columns: Number of all columns, a constant.
    """

    frame: Frame
    limits: Limits
    point: Sequence[Index]
    begin: Index
    end: Index
    columns: int

    def emit(self, build: Builder) -> Index:
        """Emit the number of columns up to which a row of scores has to be computed.

        A column of the row is shown if no mask hides it, and columns are searched in units of `COLUMN_UNIT` adjacent
        ones. The result is the end of the last unit that has a shown column, but at most `end`; `begin` if there is
        none.
        """
        units = ceil_quotient(self.columns, COLUMN_UNIT)

        def search_unit(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Search the unit `units - 1 - i`: the last unit is the first one that is searched."""
            return [self._search_unit(inner, inner.minus(units - 1, i), *carried)]

        (last_end,) = build.loop(0, units, [build.value(self.begin)], search_unit)
        return build.least(last_end, build.most(self.end, self.begin))  # the unit may reach past `end`

    def _search_unit(self, build: Builder, unit: Index, later_end: SSAValue) -> SSAValue:
        """Return the end of a unit if it is in the range and has a shown column; else `later_end`.

        `later_end` is what later units have returned: `begin` as long as none of them has a shown column.
        """
        first = build.times(unit, COLUMN_UNIT)
        stop = build.least(build.plus(first, COLUMN_UNIT), self.columns)
        not_found = build.value(self.begin)
        overlaps_range = both(build, build.less(first, self.end), build.less(self.begin, stop))
        is_needed = both(build, overlaps_range, build.add(arith.CmpiOp(later_end, not_found, "eq")))
        return build.choose(
            is_needed,
            lambda b: b.add(
                arith.SelectOp(is_any_column(b, first, stop, self._is_shown), b.value(stop), not_found),
            ),
            lambda b: later_end,
        )

    def _is_shown(self, build: Builder, column: Index) -> SSAValue:
        """Return whether all masks show a column to the row, an i1."""
        shown = [mask.emit(self.frame.elements, build, [*self.point[:-1], column]) for mask in self.limits.stored]
        return reduce(lambda a, b: build.add(arith.AndIOp(a, b)), shown)


def is_any_column(build: Builder, first: Index, stop: Index, is_true: Callable[[Builder, Index], SSAValue]) -> SSAValue:
    """Emit whether a condition holds for one of the columns in [first, stop), an i1.

    `is_true` emits whether it holds for a column.
    """

    def column(inner: Builder, j: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Return whether the condition holds for a column up to `j`."""
        return [inner.add(arith.OrIOp(carried[0], is_true(inner, j)))]

    (result,) = build.loop(first, stop, [false_constant(build)], column)
    return result


def false_constant(build: Builder) -> SSAValue:
    """Emit the i1 constant false."""
    return build.pure(arith.ConstantOp(IntegerAttr(0, IntegerType(1))))
