"""Columns of a chain that a mask hides from all rows of a tile, so that the kernel does not visit them.

A mask hides a column of a row where it makes the score -inf: it selects -inf, or adds it, unless `column <= v` holds,
where v does not depend on the column. In causal attention v is the position of the query, and for sequences of several
lengths the length. Hidden columns may be skipped if the operations on the rows turn -inf into a weight of 0, which adds
nothing to the sum of the weights and to the second product. Only infinities and NaN of hidden keys and values make a
difference: they have no effect where their column is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from math import inf

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.ops.builder import Builder, Index
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.expressions import Expression
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import GENERIC, structured
from pydispatch.ir.values import shape_of

SIGNED = {2: "lt", 3: "le", 4: "gt", 5: "ge"}
"""Signed comparisons of `arith.cmpi`, by their numbers."""

SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

CONVERSIONS = ("arith.index_cast", "arith.extsi", "arith.extf", "arith.truncf")
"""Conversions that keep the number of a column, and a score of -inf."""

MIN_COLUMN_BITS, MAX_SHIFT = 32, 1 << 20
"""Least width of the integers that a column is compared as, and the largest constant that is added to it before that:
columns and sums do not wrap then."""


@dataclass(frozen=True)
class Limit:
    """The end of the columns that one comparison leaves visible: `bound + extra`.

    Attributes:
        bound: An integer that does not depend on the column.
        extra: A constant.
    """

    bound: Expression
    extra: int

    def emit(self, elements: Elements, build: Builder, point: Sequence[Index], columns: int) -> Index:
        """Emit the limit of the row at a point, at most `columns`. The index of the point along columns is ignored."""
        bound = self.bound.emit(elements, build, point)
        index = bound if isinstance(bound.type, IndexType) else build.pure(arith.IndexCastOp(bound, IndexType()))
        return build.plus(build.least(index, columns - self.extra), self.extra)


def column_limits(chain: Chain) -> list[Limit]:
    """Return the limits of the visible columns of a row; the least one holds. None are known if the list is empty."""
    column = len(shape_of(chain.scores)) - 1
    if not _ignores_hidden_columns(chain):
        return []
    return _limits_of_score(Expression(chain.scores, tuple(range(column + 1))).expanded(), column)


# Masks


def _limits_of_score(score: Expression, column: int) -> list[Limit]:
    """Return limits beyond which a score is -inf."""
    op, operands = score.op, score.operands
    if op is None or not operands:
        return []
    if op.name == "arith.select":
        condition, chosen, other = operands
        if other.number() == -inf:
            return [*_limits(condition, column, is_true=True), *_limits_of_score(chosen, column)]
        if chosen.number() == -inf:
            return [*_limits(condition, column, is_true=False), *_limits_of_score(other, column)]
        return []
    if op.name in CONVERSIONS:
        return _limits_of_score(operands[0], column)
    if op.name == "arith.addf":
        return [limit for operand in operands for limit in _limits_of_score(operand, column)]
    if op.name in ("arith.mulf", "arith.divf") and _is_positive(operands[1]):
        return _limits_of_score(operands[0], column)
    return []


def _is_positive(expression: Expression) -> bool:
    """Return whether an expression is a finite constant above 0."""
    constant = expression.number()
    return constant is not None and 0 < constant < inf


def _limits(condition: Expression, column: int, is_true: bool) -> list[Limit]:
    """Return limits beyond which a condition is not `is_true`."""
    op, operands = condition.op, condition.operands
    if op is None:
        return []
    if op.name == ("arith.andi" if is_true else "arith.ori"):
        return [limit for operand in operands for limit in _limits(operand, column, is_true)]
    if op.name == "arith.xori" and operands[1].number() in (1, -1, True):
        return _limits(operands[0], column, not is_true)
    predicate = op.properties.get("predicate") if op.name == "arith.cmpi" else None
    relation = SIGNED.get(predicate.value.data) if isinstance(predicate, IntegerAttr) else None
    if relation is None:
        return []
    relation = relation if is_true else NEGATED[relation]
    position, bound = operands
    if not position.depends_on(column):
        position, bound, relation = bound, position, SWAPPED[relation]
    if relation not in ("lt", "le") or bound.depends_on(column):
        return []
    shift = _shift(position, column)
    return [] if shift is None else [Limit(bound, int(relation == "le") - shift)]


def _shift(position: Expression, column: int) -> int | None:
    """Return the constant that is added to the column in `position`; None if that is no column plus a constant."""
    type_ = position.value.type
    if isinstance(type_, IntegerType) and type_.width.data < MIN_COLUMN_BITS:
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


# Operations on rows


class Hidden(Flag):
    """Knowledge of a value at hidden columns of a row that has visible ones."""

    UNKNOWN = 0
    NEGATIVE_INFINITY = auto()
    ZERO = auto()
    UNIFORM = auto()
    """It has the same value at each column, and depends on visible columns alone."""


NEUTRAL = {
    "arith.addf": Hidden.ZERO,
    "arith.maximumf": Hidden.NEGATIVE_INFINITY,
    "arith.maxnumf": Hidden.NEGATIVE_INFINITY,
}
"""Values that do not change an accumulator, by the operation that adds them to it."""


def _ignores_hidden_columns(chain: Chain) -> bool:
    """Return whether rows are 0 at hidden columns, and do not depend on the number of hidden columns."""
    known: dict[SSAValue, Hidden] = {chain.scores: Hidden.NEGATIVE_INFINITY}
    for op in chain.parts[1]:
        if any(v in known for v in op.operands):
            values = [_of_tensor(v, known) for v in op.operands]
            results = _of_generic(op, values) if op.name == GENERIC else [_combined(op, values)]
            known.update(zip(op.results, results, strict=True))
    return Hidden.ZERO in known[chain.rows]


def _of_tensor(value: SSAValue, known: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what a tensor is at hidden columns. Tensors that are not computed from the scores may have any values."""
    constant = Expression(value, ()).number()
    return known.get(value, Hidden.UNKNOWN) if constant is None else _of_number(constant)


def _of_number(constant: float) -> Hidden:
    if constant == -inf:
        return Hidden.NEGATIVE_INFINITY | Hidden.UNIFORM
    return Hidden.ZERO | Hidden.UNIFORM if constant == 0 else Hidden.UNIFORM


def _of_generic(op: Operation, operands: Sequence[Hidden]) -> list[Hidden]:
    """Return what the results of a generic are at hidden columns."""
    generic = structured(op)
    rank = max(len(m.results) for m in generic.maps)
    if len({m for m in generic.maps if len(m.results) == rank}) > 1:
        return [Hidden.UNKNOWN for _ in op.results]  # the order of dimensions changes
    scalars: dict[SSAValue, Hidden] = dict(zip(generic.block.args, operands, strict=True))
    accumulators = generic.block.args[len(generic.inputs) :] if generic.loops else ()
    scalars.update(dict.fromkeys(accumulators, Hidden.UNKNOWN))
    *body, last = generic.block.ops
    for inner in body:
        hidden = _combined(inner, [scalars.get(v, _of_tensor(v, {})) for v in inner.operands])
        scalars.update((result, hidden) for result in inner.results)
    if not accumulators:
        return [scalars.get(v, _of_tensor(v, {})) for v in last.operands]
    initial = operands[len(generic.inputs) :]
    return [_reduced(*reduction, scalars) for reduction in zip(last.operands, accumulators, initial, strict=True)]


def _reduced(total: SSAValue, accumulator: SSAValue, initial: Hidden, scalars: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what a reduction over the columns is: uniform if hidden columns do not change it.

    Args:
        total: The accumulator after one column.
        accumulator: The accumulator before that column.
        initial: The accumulator before the first column.
        scalars: The other scalars in the body.
    """
    op = total.owner
    if not isinstance(op, Operation) or accumulator not in op.operands or Hidden.UNIFORM not in initial:
        return Hidden.UNKNOWN
    neutral = NEUTRAL.get(op.name)
    addends = [scalars.get(v, _of_tensor(v, {})) for v in op.operands if v is not accumulator]
    is_unchanged = neutral is not None and bool(addends) and all(neutral in v for v in addends)
    return Hidden.UNIFORM if is_unchanged else Hidden.UNKNOWN


def _combined(op: Operation, values: Sequence[Hidden]) -> Hidden:
    """Return what an elementwise operation computes at hidden columns."""
    if (constant := Expression(op.results[0], ()).number()) is not None:
        return _of_number(constant)
    is_pure = info_of(op).is_pure and bool(values) and not op.regions
    result = Hidden.UNIFORM if is_pure and all(Hidden.UNIFORM in v for v in values) else Hidden.UNKNOWN
    if op.name == "arith.select":
        condition, chosen, other = values
        return (chosen & other) if Hidden.UNIFORM in condition else Hidden.UNKNOWN
    first, *rest = [*values, Hidden.UNKNOWN]
    if op.name in ("arith.extf", "arith.truncf"):
        return first
    if op.name in ("math.exp", "math.exp2") and Hidden.NEGATIVE_INFINITY in first:
        return result | Hidden.ZERO
    if op.name in ("arith.subf", "arith.addf") and Hidden.NEGATIVE_INFINITY in first and Hidden.UNIFORM in rest[0]:
        return result | Hidden.NEGATIVE_INFINITY
    if op.name in ("arith.divf", "arith.mulf") and Hidden.ZERO in first and Hidden.UNIFORM in rest[0]:
        return result | Hidden.ZERO
    return result
