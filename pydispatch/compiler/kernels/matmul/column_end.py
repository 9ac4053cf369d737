"""Columns of a chain that a mask hides from all rows of a tile, so that the kernel does not visit them.

A mask hides a column of a row by a very low number, its fill, which it selects instead of the score or adds to the
score. For two forms of masks, the kernel finds the end of the visible columns:

- A comparison `column <= v`, where v does not depend on the column. In causal attention, v is the position of the
  query; for sequences of several lengths, it is the length.
- A tensor in memory, of booleans, or of numbers that are added to the scores. The kernel reads it from the last column
  backwards, until a column is visible.

Hidden columns may be skipped if the operations on the rows turn the fill into a weight of 0, which adds nothing to the
sum of the weights and to the second product. A fill of -inf always has the weight 0. A finite fill has it if the
largest visible score of the row is above half of the fill. The kernel checks this condition, and visits all columns if
it does not hold, for example in rows without a visible column.

Results are equal to those with all columns visited, with an exception: hidden keys and values have no effect even if
they are infinite or NaN. If a finite mask is added, nor do hidden scores above 1e29, or above 16,000 for a mask of f16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, Float16Type, FloatAttr, IndexType, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.matmul.hidden_columns import ignores_hidden_columns
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.conditions import opposite
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.expressions import Expression
from pydispatch.ir.op_info import info_of
from pydispatch.ir.values import shape_of

SIGNED_PREDICATES = {2: "lt", 3: "le", 4: "gt", 5: "ge"}
"""Number of a signed predicate of `arith.cmpi` -> its name."""

SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Comparison -> the comparison with exchanged operands: `a lt b` is `b gt a`."""
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""Comparison -> the opposite comparison: `a lt b` holds exactly where `a ge b` does not."""

CONVERSIONS = ("arith.index_cast", "arith.extsi", "arith.trunci", "arith.extf", "arith.truncf")
"""Conversions that preserve the number of a column, and approximately the value of a fill."""

MIN_COLUMN_BITS, MAX_SHIFT = 32, 1 << 20
"""Minimum width in bits of the integers that a column is compared as, and maximum of a constant that is added to the
column before the comparison. Within these limits, columns and sums do not wrap around."""

HIGHEST_FILL = -4096.0
"""Highest fill, the number that a mask selects at hidden columns. Hidden columns have the weight 0 if the largest
visible score exceeds half of the fill (see `Limits.floor`): the exponential of this half is 0, in f64 too."""

HIGHEST_ADDEND = -1e30
"""Highest number that hides a column where a mask adds it to the score. The score of a hidden column is then at most
about this number. As with a fill, the column has the weight 0 if the largest visible score of the row exceeds half of
the number, -5e29 (see `Limits.floor`). Scores do not come near that."""

HIGHEST_F16_ADDEND = -60000.0
"""`HIGHEST_ADDEND` for masks of f16, whose lowest number is -65504: scores of f16 models do not come near its half."""

LOWEST_FLOOR = -1e38
"""Lower bound of `Limits.floor`, which is half of a fill: if the fill was multiplied by a constant, this half may be
infinite in f32."""


@dataclass(frozen=True)
class ColumnBound:
    """The end of the columns that one comparison leaves visible, exclusive: `value + offset`.

    Attributes:
        value: An integer that does not depend on the column.
        offset: A constant: 1 for `column <= value`, 0 for `column < value`.
    """

    value: Expression
    offset: int

    def emit(self, elements: Elements, build: Builder, point: Sequence[Index], columns: int) -> Index:
        """Emit the end of the visible columns of a row, at most `columns`, the number of all columns.

        `point` has the indices of the row in the scores, and any index along the columns. The end may be negative: no
        column is visible then.
        """
        value = self.value.emit(elements, build, point)
        index = value if isinstance(value.type, IndexType) else build.pure(arith.IndexCastOp(value, IndexType()))
        # min(index + offset, columns). The offset is added last: index + offset could overflow for a large index.
        return build.plus(build.least(index, columns - self.offset), self.offset)


@dataclass(frozen=True)
class StoredMask:
    """A mask in memory, with an element for each column: a boolean, or a number that is added to the score.

    Attributes:
        element: The element of the mask.
        shown_value: The boolean that shows a column, True or False; None for a mask of numbers.
    """

    element: Expression
    shown_value: bool | None

    def emit(self, elements: Elements, build: Builder, point: Sequence[Index]) -> SSAValue:
        """Emit whether the mask shows the column at a point (its indices in the scores), an i1.

        A mask of numbers that are added shows the column unless its number is at most -1e30, or -60000 in f16.
        """
        value = self.element.emit(elements, build, point)
        if self.shown_value is None:  # a mask of numbers
            assert isinstance(value.type, AnyFloat)
            highest_hiding = build.pure(arith.ConstantOp(FloatAttr(_highest_hiding_addend(value.type), value.type)))
            # "ugt" is true for a NaN: the column is then computed, and the NaN gets into the results of the row.
            return build.add(arith.CmpfOp(value, highest_hiding, "ugt"))
        is_shown = value if self.shown_value else opposite(build, value)
        assert isinstance(is_shown, SSAValue)
        return is_shown


@dataclass(frozen=True)
class Limits:
    """Masks of the scores of an attention (a `Chain`). A column is visible to a row only where all of them show it.

    Rows are queries, columns are keys. `column_limits` creates the limits of a chain. Those of the causal attention
    `select(column <= row, score, -1e9)` have the bound `row` + 1 and the fill -1e9: columns 0 to 3 are visible to row
    3, and the scores of the others are -1e9. The weight of a column is the exponential of its score, relative to the
    largest score of the row.

    Attributes:
        bounds: The ends of columns that comparisons leave visible.
        stored: Masks in memory.
        fill: Upper bound of the scores at hidden columns, or of the numbers that a mask adds to them. With -inf, the
            default, hidden columns have the weight 0.

    Limits without bounds and stored masks are false: all columns are visible.
    """

    bounds: tuple[ColumnBound, ...] = ()
    stored: tuple[StoredMask, ...] = ()
    fill: float = -inf

    def __bool__(self) -> bool:
        return bool(self.bounds or self.stored)

    @property
    def floor(self) -> float | None:
        """The number that the largest visible score of a row must exceed for hidden columns to have no effect.

        None if no number is needed: with a fill of -inf, hidden columns have the weight 0. Otherwise, the weight of a
        hidden column is at most exp(fill - largest score). If the largest score exceeds fill / 2, the weight is below
        exp(fill / 2), which is rounded to 0, since fills are at most `HIGHEST_FILL`.
        """
        return None if self.fill == -inf else max(self.fill / 2, LOWEST_FLOOR)

    def end(self, elements: Elements, build: Builder, point: Sequence[Index], columns: int) -> Index:
        """Emit the end of the columns that comparisons leave visible to the row at a point, at most `columns`.

        `columns` is the number of all columns.
        """
        end: Index = columns
        for bound in self.bounds:
            end = build.least(end, bound.emit(elements, build, point, columns))
        return end

    def intersected(self, other: Limits) -> Limits:
        """Return the limits of two masks that both apply: a column is hidden if one of them hides it.

        A column may be hidden by either mask alone, so that only the higher one of their fills is an upper bound of the
        scores at all hidden columns.
        """
        return Limits(
            bounds=(*self.bounds, *other.bounds),
            stored=(*self.stored, *other.stored),
            fill=max(self.fill, other.fill),
        )

    def if_hiding(self, fill: float, *, highest_fill: float) -> Limits:
        """Return these limits with the fill `fill`, an upper bound of the scores at hidden columns.

        Return no limits if the fill is above `highest_fill`, so that hidden columns might have a weight other than 0.
        """
        hides_columns = bool(self)
        return replace(self, fill=fill) if hides_columns and fill <= highest_fill else Limits()


def column_limits(chain: Chain) -> Limits:
    """Return the limits of the visible columns of each row of a chain; no limits if rows depend on hidden columns.

    Without limits, a kernel computes all columns.
    """
    column = len(shape_of(chain.scores)) - 1
    dims = tuple(range(column + 1))  # axis i of the scores is indexed by number i of a point
    score = Expression(chain.scores, dims).expanded()  # the scalar that an operation computes the element from
    limits = _limits_of_score(score, column)
    if not limits or not ignores_hidden_columns(chain, is_infinite=limits.fill == -inf):
        return Limits()
    return limits


def _limits_of_score(score: Expression, column: int) -> Limits:
    """Return the limits of the columns that the masks of a score leave visible.

    `column` is the dimension of the scores that columns are along. Limits have bounds (exclusive ends of the visible
    columns), stored masks (elements in memory that show or hide a column), and a fill: the low number that a mask
    selects or adds at hidden columns, as later operations change it:

        select(column <= row, s, -1e9)             bound row + 1, fill -1e9
        select(column <= row, s, -1e9) * 0.5       bound row + 1, fill -5e8
        s + select(column <= row, 0, -inf)         bound row + 1, fill -inf
        s + m[row, column], an argument            stored mask m, fill `HIGHEST_ADDEND`, -1e30

    A score has no limits if other operations compute it, or if its fill is too high for a weight of 0: above
    `HIGHEST_FILL`, or above `HIGHEST_ADDEND` for a mask that is added.
    """
    op, operands = score.op, score.operands
    if op is None or not operands:  # no operation in a kernel computes the score: no mask is applied to it
        return Limits()
    if op.name == "arith.select":
        return _limits_of_selection(operands, column)
    if op.name in CONVERSIONS:
        return _limits_of_score(operands[0], column)
    if op.name == "arith.addf":  # either operand may be a mask
        left, right = (_limits_of_addend(operand, column) for operand in operands)
        return left.intersected(right)
    if op.name in ("arith.mulf", "arith.divf"):
        return _limits_of_scaled_score(op, operands, column)
    return Limits()


def _limits_of_scaled_score(op: Operation, operands: Sequence[Expression], column: int) -> Limits:
    """Return the limits of the score `operands[0]` with the fill multiplied or divided by the constant `operands[1]`.

    Return no limits unless the constant is finite and above 0. `op` is the multiplication or division.
    """
    factor = operands[1].number()
    if factor is None or not 0 < factor < inf:
        return Limits()
    limits = _limits_of_score(operands[0], column)
    scaled_fill = limits.fill * factor if op.name == "arith.mulf" else limits.fill / factor
    return limits.if_hiding(scaled_fill, highest_fill=HIGHEST_FILL)


def _limits_of_selection(operands: Sequence[Expression], column: int) -> Limits:
    """Return the limits of a score that a condition selects at visible columns, in place of a fill at hidden ones.

    The fill is a constant of at most `HIGHEST_FILL`, either operand of the selection. Without it there are no limits.
    """
    condition, chosen, other = operands  # of the `select`
    # Either operand may be the fill. The tuples are: value of the condition at visible columns, the score there, the
    # fill at hidden columns.
    for is_true, shown, hidden in ((True, chosen, other), (False, other, chosen)):
        if (fill := hidden.number()) is not None and fill <= HIGHEST_FILL:
            limits_of_condition = _limits_of_condition(condition, column, is_true)
            limits = limits_of_condition.if_hiding(fill, highest_fill=HIGHEST_FILL)
            return limits.intersected(_limits_of_score(shown, column))
    return Limits()


def _limits_of_addend(addend: Expression, column: int) -> Limits:
    """Return the limits of a mask that is added to a score.

    Their fill is an upper bound of the numbers that the mask adds to scores at hidden columns.
    """
    while addend.op is not None and addend.op.name == "arith.extf":
        addend = addend.operands[0]
    type_ = addend.value.type.element_type if isinstance(addend.value.type, TensorType) else addend.value.type
    highest = _highest_hiding_addend(type_)
    if _is_argument(addend) and addend.depends_on(column):
        # The kernel takes a column as hidden if the mask's number is at most `highest`.
        return Limits(stored=(StoredMask(addend, shown_value=None),), fill=highest)
    limits = _limits_of_score(addend, column)
    return limits.if_hiding(limits.fill, highest_fill=highest)


def _highest_hiding_addend(element: Attribute) -> float:
    """Return the highest number of a floating-point type that hides a column when a mask adds it to a score."""
    return HIGHEST_F16_ADDEND if isinstance(element, Float16Type) else HIGHEST_ADDEND


def _limits_of_condition(condition: Expression, column: int, is_true: bool) -> Limits:
    """Return the limits of a mask that shows the columns where `condition` has the value `is_true`, and hides others.

    The mask hides all columns outside of the limits, and perhaps others. If `is_true` is True:

        column <= row                    bound row + 1
        m[column], an argument           stored mask m
        column <= row and m[column]      both

    If it is False, `column > row` has the bound row + 1. Return no limits if none are known.
    """
    is_constant = condition.number() is not None
    if not is_constant and condition.depends_on(column) and _depends_on_memory_only(condition):
        return Limits(stored=(StoredMask(condition, shown_value=is_true),))  # the kernel itself evaluates the condition
    op, operands = condition.op, condition.operands
    if op is None:
        return Limits()
    # A conjunction: `a and b`, or the negation of `a or b`, which is `not a and not b`.
    if op.name == ("arith.andi" if is_true else "arith.ori"):
        lhs, rhs = (_limits_of_condition(operand, column, is_true) for operand in operands)
        return lhs.intersected(rhs)
    if op.name == "arith.select":
        return _limits_of_selected_condition(operands, column, is_true)
    is_negation = op.name == "arith.xori" and operands[1].number() in (1, -1, True)  # -1 is the signed i1 true
    if is_negation:
        return _limits_of_condition(operands[0], column, not is_true)
    return _limits_of_comparison(op, operands, column, is_true) if op.name == "arith.cmpi" else Limits()


def _limits_of_selected_condition(operands: Sequence[Expression], column: int, is_true: bool) -> Limits:
    """Return the limits of a `select` of two conditions, one of them constant: `select c, x, false` is `c and x`.

    The constant must be the value of the condition at hidden columns, `not is_true`. Else there are no limits.
    """
    selector, chosen, other = operands  # of the `select`
    for shown_selector, condition, constant in ((True, chosen, other), (False, other, chosen)):
        if (value := constant.number()) is not None and bool(value) != is_true:
            limits = _limits_of_condition(selector, column, shown_selector)
            return limits.intersected(_limits_of_condition(condition, column, is_true))
    return Limits()


def _limits_of_comparison(op: Operation, operands: Sequence[Expression], column: int, is_true: bool) -> Limits:
    """Return the limits of a mask that shows the columns where a comparison of integers has the value `is_true`.

    The limits are one bound, the exclusive end of these columns: row - 1 for `column + 2 <= row` if `is_true`, and for
    `column + 2 > row` if not. Return no limits unless the column plus a constant is compared with an upper bound that
    does not depend on the column. `column >= row` has none, nor has an unsigned comparison.
    """
    predicate = op.properties.get("predicate")
    relation = SIGNED_PREDICATES.get(predicate.value.data) if isinstance(predicate, IntegerAttr) else None
    if relation is None:
        return Limits()
    relation = relation if is_true else NEGATED[relation]
    position, bound = operands  # of `position <relation> bound`, where the position is `column + shift`
    if not position.depends_on(column):  # `row > column` is `column < row`
        position, bound, relation = bound, position, SWAPPED[relation]
    if relation not in ("lt", "le") or bound.depends_on(column):
        return Limits()
    shift = _shift(position, column)
    if shift is None:
        return Limits()
    # `column + shift <= bound` shows the columns before bound + 1 - shift, and `<` those before bound - shift.
    return Limits(bounds=(ColumnBound(bound, offset=int(relation == "le") - shift),))


def _is_argument(expression: Expression) -> bool:
    """Return whether an expression is an element of an argument of the dispatch, which is in memory."""
    return expression.is_element and isinstance(expression.value, BlockArgument)


def _depends_on_memory_only(expression: Expression) -> bool:
    """Return whether a kernel can compute an expression from elements in memory and constants, elementwise."""
    if _is_argument(expression) or expression.number() is not None:
        return True
    op, operands = expression.op, expression.operands
    if op is None or not operands or not info_of(op).elementwise:
        return False
    return all(map(_depends_on_memory_only, operands))


def _shift(position: Expression, column: int) -> int | None:
    """Return the constant c of a position `column + c`; None if the position is another expression."""
    type_ = position.value.type
    if isinstance(type_, IntegerType) and type_.width.data < MIN_COLUMN_BITS:  # the column may have wrapped around
        return None
    if position.is_index(column):
        return 0
    op, operands = position.op, position.operands
    if op is not None and op.name in CONVERSIONS:
        return _shift(operands[0], column)
    if op is None or op.name not in ("arith.addi", "arith.subi"):
        return None
    shift, constant = _shift(operands[0], column), operands[1].number()
    if shift is None or not isinstance(constant, int) or abs(constant) > MAX_SHIFT:
        return None
    return shift + constant if op.name == "arith.addi" else shift - constant
