"""Searches in the columns of a row: for the last column that masks show, and for any column that meets a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.column_end import Limits
from pydispatch.compiler.kernels.matmul.cpu.nest import End
from pydispatch.compiler.kernels.matmul.cpu.row_tiles import WorkgroupRows
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.conditions import both

COLUMN_UNIT = 64
"""Columns that are visited or skipped as a whole. Loops over visited columns have no remainder then, so that hidden
columns do not change which columns share a partial sum."""


def visible_end(
    frame: Frame, scores: Sequence[int], limits: Limits, rows: WorkgroupRows, unit: int, block_columns: int
) -> End | None:
    """Emit the end of the columns that are visible to at least one row of a workgroup, rounded up to whole units.

    Columns are the keys of an attention, and rows its queries. A column is visible to a row if no mask hides its score.
    In causal attention, rows 10 to 13 see the columns 0 to 13: with units of 64 columns, the end is 64. Return None
    if all columns are computed.

    Args:
        frame: The kernel function.
        scores: Shape of the scores, whose last dimension is the columns.
        limits: The masks that hide columns: computed bounds, and masks that are stored in memory.
        rows: The rows of the workgroup.
        unit: Number of adjacent columns that are computed or skipped as a whole.
        block_columns: Columns of a register block of the product that computes the scores.
    """
    build, columns = frame.build, rows.tiles.columns
    has_one_unit = unit >= columns
    has_wider_blocks = block_columns > unit  # a register block would compute columns beyond the end
    if not limits or has_one_unit or has_wider_blocks:
        return None

    row_count, most_rows = rows.span.extent, rows.tiles.rows  # the last workgroup may have fewer than `most_rows`

    def end_from_row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit the end of the columns that are visible to row `row_count` - 1 - `i` of the workgroup or a later row.

        `carried` has the end of the columns that are visible to later rows, which earlier iterations have visited.
        """
        row = inner.minus(inner.minus(row_count, 1), i)
        point = rows.indices(inner, row, rank=len(scores))
        (end_of_later_rows,) = carried
        end_of_row = limits.end(frame.elements, inner, point, columns)  # by computed bounds, such as column <= row
        # Masks in memory may hide the last of these columns. Columns that a later row sees need no search.
        if limits.stored:
            search = _MaskSearch(frame, limits, point, begin=end_of_later_rows, end=end_of_row, columns=columns)
            end_of_row = search.emit(inner)
        return [inner.value(inner.most(end_of_later_rows, end_of_row))]

    # The loop begins with the last row. In causal attention, it sees the most columns, so that the masks of earlier
    # rows need not be read. The end is at least 1, because a row without visible columns is computed from hidden ones.
    (end,) = build.loop(0, row_count, [build.index(1)], end_from_row, index_below=most_rows)
    end = build.assume_below(end, columns + 1)
    whole_units = build.times(build.ceil_quotient(end, unit), unit)
    return End(build.least(whole_units, columns), unit)


@dataclass(frozen=True)
class _MaskSearch:
    """Search for the last column of a row that no mask in memory hides, in units of `COLUMN_UNIT` columns.

    The loop visits the units of all columns, from the last to the first. It reads the masks only in units that overlap
    [begin, end), and only until a unit has a visible column.

    Attributes:
        frame: The kernel function.
        limits: The masks, of which those in memory (`limits.stored`) are read.
        point: Indices of an element of the row in the scores; the last one, its column, is not used.
        begin: The first column that is checked. It is also the result if no checked column is visible.
        end: The end of the columns that are checked.
        columns: Number of all columns of a row, a constant.
    """

    frame: Frame
    limits: Limits
    point: Sequence[Index]
    begin: Index
    end: Index
    columns: int

    def emit(self, build: Builder) -> Index:
        """Emit the number of columns up to which a row of scores has to be computed.

        The number is the end of the last unit of `COLUMN_UNIT` adjacent columns that has a visible column, but at most
        `end`. A column is visible if no mask hides it. If no column in [begin, end) is visible, the result is `begin`.
        """
        units = ceil_quotient(self.columns, COLUMN_UNIT)

        def search_unit(inner: Builder, i: Index, carried: list[SSAValue]) -> list[SSAValue]:
            """Emit the search of unit `units - 1 - i`: iteration 0 is for the last unit.

            `carried` has the result for the later units: the end of the last one with a visible column, or `begin`.
            """
            (end_of_later_units,) = carried
            return [self._search_unit(inner, inner.minus(units - 1, i), end_of_later_units)]

        (end_of_unit,) = build.loop(0, units, [build.value(self.begin)], search_unit)
        return build.least(end_of_unit, build.most(self.end, self.begin))  # the unit may reach past `end`

    def _search_unit(self, build: Builder, unit: Index, end_of_later_units: SSAValue) -> SSAValue:
        """Emit the end of a unit if it is the last one that has a visible column; else `end_of_later_units`.

        `end_of_later_units` is the result for the later units: the end of the last one with a visible column in
        [begin, end), or `begin` if there is none. The unit is searched only if it is `begin`.
        """
        first = build.times(unit, COLUMN_UNIT)
        stop = build.least(build.plus(first, COLUMN_UNIT), self.columns)
        begin = build.value(self.begin)
        overlaps_range = both(build, build.less(first, self.end), build.less(self.begin, stop))
        is_searched = both(build, overlaps_range, build.add(arith.CmpiOp(end_of_later_units, begin, "eq")))
        return build.choose(
            is_searched,
            lambda b: b.add(arith.SelectOp(is_any_column(b, first, stop, self._is_visible), b.value(stop), begin)),
            lambda b: end_of_later_units,
        )

    def _is_visible(self, build: Builder, column: Index) -> SSAValue:
        """Emit whether all masks in memory show a column to the row, an i1."""
        shown = [mask.emit(self.frame.elements, build, [*self.point[:-1], column]) for mask in self.limits.stored]
        return reduce(lambda a, b: build.add(arith.AndIOp(a, b)), shown)


@dataclass(frozen=True)
class FloorCheck:
    """Check whether each row of a workgroup has a score above a floor in the columns before an end.

    The floor is half of the low score, such as -1e9, that a mask gives to the other columns. If a score of the row
    exceeds it, their weights in the softmax are rounded to 0.

    Attributes:
        rows: The rows of the workgroup.
        scores: Workgroup memory of their scores, [row][column].
        floor: The floor, in the type of the scores.
        end: The end of the columns that are checked.
    """

    rows: WorkgroupRows
    scores: SSAValue
    floor: FloatAttr[AnyFloat]
    end: Index

    def emit(self, build: Builder) -> SSAValue:
        """Emit whether each row has a score above the floor, an i1."""

        def check_row(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
            """Emit whether row `i` and all rows before it have such a score; `carried` has it before `i`."""
            return [inner.add(arith.AndIOp(carried[0], self._is_row_above(inner, i)))]

        true = build.pure(arith.ConstantOp(IntegerAttr(1, IntegerType(1))))
        (are_above,) = build.loop(0, self.rows.span.extent, [true], check_row, index_below=self.rows.tiles.rows)
        return are_above

    def _is_row_above(self, build: Builder, row: Index) -> SSAValue:
        """Emit whether a row has a score above the floor, an i1.

        Units of `COLUMN_UNIT` columns are searched until one has such a score.
        """

        def search_unit(inner: Builder, first: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
            """Emit whether a column before the end of the unit from `first` on has such a score, an i1.

            `carried` has whether a column before `first` has one. If so, the unit is not searched.
            """
            (is_above_before,) = carried
            unit_end = inner.least(inner.plus(first, COLUMN_UNIT), self.end)
            is_above = partial(self._is_above, row)
            search = partial(is_any_column, first=first, stop=unit_end, condition=is_above)
            return [inner.choose(is_above_before, then=lambda _: is_above_before, other=search)]

        (is_any_above,) = build.loop(0, self.end, [false_constant(build)], search_unit, step=COLUMN_UNIT)
        return is_any_above

    def _is_above(self, row: Index, build: Builder, column: Index) -> SSAValue:
        """Emit whether the score of a row at a column is above the floor, an i1."""
        score = load(build, self.scores, build.plus(build.times(row, self.rows.tiles.stride), column))
        return build.add(arith.CmpfOp(score, build.pure(arith.ConstantOp(self.floor)), "ogt"))


def is_any_column(
    build: Builder, first: Index, stop: Index, condition: Callable[[Builder, Index], SSAValue]
) -> SSAValue:
    """Emit whether a condition holds for one of the columns in [first, stop), an i1.

    `condition` emits whether the condition holds for a column, also an i1.
    """

    def check_column(inner: Builder, j: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit whether the `condition` holds for a column up to `j`; `carried` has the result before `j`."""
        return [inner.add(arith.OrIOp(carried[0], condition(inner, j)))]

    (result,) = build.loop(first, stop, [false_constant(build)], check_column)
    return result


def false_constant(build: Builder) -> SSAValue:
    """Emit the i1 constant false."""
    return build.pure(arith.ConstantOp(IntegerAttr(0, IntegerType(1))))
