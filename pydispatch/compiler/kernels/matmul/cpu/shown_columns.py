"""Searches in the columns of a row: for the last one that masks show, and for one for which a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import SSAValue

from pydispatch.compiler.kernels.loops.frame import Frame
from pydispatch.compiler.kernels.matmul.column_end import Limits
from pydispatch.compiler.kernels.matmul.cpu.tiles import ceil_quotient
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import both

COLUMN_UNIT = 64
"""Columns that are visited or skipped as a whole. Loops over visited columns have no remainder then, so that hidden
columns do not change which columns share a partial sum."""


def last_shown(
    frame: Frame, build: Builder, limits: Limits, point: Sequence[Index], begin: Index, end: Index, columns: int
) -> Index:
    """Emit the end of the unit with the last column in [begin, end) that the masks in memory show; `begin` if there is
    none.

    Columns are the keys of an attention, rows its queries; a mask shows a column to a row if it lets its score count. A
    unit is `COLUMN_UNIT` columns, which begin at a multiple of it. The loop visits all units, since its bounds are
    constants, and reads the masks only in units that overlap [begin, end).

    Args:
        frame: The kernel function.
        build: Receives the code.
        limits: The masks, of which those in memory (`limits.stored`) are read.
        point: Indices of an element of the row in the scores; the last one, its column, is not used.
        begin: The first column that is checked.
        end: The end of the columns that are checked.
        columns: Number of all columns, a constant.
    """
    units = ceil_quotient(columns, COLUMN_UNIT)

    def unit(inner: Builder, i: Index, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Return the end of the unit `units - 1 - i` if it is in the range and has a shown column; else `carried`.

        `carried` is what later units have returned: `begin` as long as none of them has a shown column.
        """
        first = inner.times(inner.minus(units - 1, i), COLUMN_UNIT)
        stop = inner.least(inner.plus(first, COLUMN_UNIT), columns)

        def is_shown(innermost: Builder, column: Index) -> SSAValue:
            """Return whether all masks show a column to the row."""
            shown = [mask.emit(frame.elements, innermost, [*point[:-1], column]) for mask in limits.stored]
            return reduce(lambda a, b: innermost.add(arith.AndIOp(a, b)), shown)

        # Masks are read from the last unit on, until a unit has a shown column.
        not_found = inner.value(begin)
        (later_end,) = carried
        overlaps_range = both(inner, inner.less(first, end), inner.less(begin, stop))
        is_needed = both(inner, overlaps_range, inner.add(arith.CmpiOp(later_end, not_found, "eq")))
        shown_end = inner.choose(
            is_needed,
            lambda b: b.add(arith.SelectOp(is_any_column(b, first, stop, is_shown), b.value(stop), not_found)),
            lambda b: later_end,
        )
        return [shown_end]

    (last_end,) = build.loop(0, units, [build.value(begin)], unit)
    return build.least(last_end, build.most(end, begin))  # the unit may reach past `end`


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
