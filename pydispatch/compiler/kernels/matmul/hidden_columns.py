"""Analysis of the row-wise operations of a chain at hidden columns: whether they compute a weight of 0 there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Flag, auto
from math import inf

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.ops.expressions import Expression
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import GENERIC, structured


class Hidden(Flag):
    """Knowledge of a value at the hidden columns of a row that has visible ones; flags that may be combined.

    Columns are the keys of an attention. A mask hides those whose scores it replaces by a very low number, its fill.
    """

    UNKNOWN = 0
    AT_MOST_FILL = auto()
    """The value is at most the fill. The largest visible value of the row is far above the fill."""
    NEGATIVE_INFINITY = auto()
    """The value is -inf."""
    NEGLIGIBLE = auto()
    """The value is so low that its exponential is 0."""
    ZERO = auto()
    """The value is 0."""
    UNIFORM = auto()
    """The value is the same at all columns, and depends on visible columns alone."""
    AT_LEAST_LARGEST = auto()
    """The value is at least the largest score of the row."""


MAXIMA = ("arith.maximumf", "arith.maxnumf")
"""Operations that return the larger of two numbers."""

NEUTRAL = {
    "arith.addf": Hidden.ZERO,
    **dict.fromkeys(MAXIMA, Hidden.NEGATIVE_INFINITY | Hidden.AT_MOST_FILL),
}
"""Operation of a reduction -> values that do not change its accumulator: 0 for a sum; for a maximum -inf, and numbers
up to the fill, which the largest visible value exceeds."""


def ignores_hidden_columns(chain: Chain, is_infinite: bool) -> bool:
    """Return whether `chain.rows` is 0 at hidden columns, and does not depend on the number of hidden columns.

    Hidden columns are those whose scores the mask of an attention replaces by -inf or by a very low number, the fill.

    is_infinite: whether scores at hidden columns are -inf; otherwise they are at most a finite fill.
    """
    # A score of -inf has both properties: it is at most any fill.
    hidden = Hidden.AT_MOST_FILL | Hidden.NEGATIVE_INFINITY if is_infinite else Hidden.AT_MOST_FILL
    known: dict[SSAValue, Hidden] = {chain.scores: hidden}
    for op in chain.parts.row_operations:
        if any(v in known for v in op.operands):
            values = [_of_tensor(v, known) for v in op.operands]
            results = _of_generic(op, values) if op.name == GENERIC else [_combined(op, values)]
            known.update(zip(op.results, results, strict=True))
    return Hidden.ZERO in known[chain.rows]


def _of_tensor(value: SSAValue, known: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what is known of a tensor at the columns that a mask hides: `UNKNOWN` unless `known` has it, or it is a
    constant.
    """
    constant = Expression(value, ()).number()
    return known.get(value, Hidden.UNKNOWN) if constant is None else _of_number(constant)


def _of_scalar(value: SSAValue, scalars: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what is known of a scalar that a body reads at hidden columns: by `scalars`, or as a constant from outside
    of the body.
    """
    return scalars.get(value, _of_tensor(value, known={}))


def _of_number(constant: float) -> Hidden:
    """Return what is known of a constant: it is the same at all columns, hidden ones too."""
    if constant == -inf:
        return Hidden.NEGATIVE_INFINITY | Hidden.UNIFORM
    return Hidden.ZERO | Hidden.UNIFORM if constant == 0 else Hidden.UNIFORM


def _of_generic(op: Operation, operands: Sequence[Hidden]) -> list[Hidden]:
    """Return what is known of each result of a generic at the columns that a mask hides, from what is known of its
    operands there.
    """
    generic = structured(op)
    rank = max(len(m.results) for m in generic.maps)
    if len({m for m in generic.maps if len(m.results) == rank}) > 1:
        return [Hidden.UNKNOWN for _ in op.results]  # the order of dimensions changes
    scalars: dict[SSAValue, Hidden] = dict(zip(generic.block.args, operands, strict=True))
    has_accumulators = bool(generic.reduced_loops)
    accumulators = generic.block.args[len(generic.inputs) :] if has_accumulators else ()
    scalars.update(dict.fromkeys(accumulators, Hidden.UNKNOWN))
    *body, last = generic.block.ops
    for inner in body:
        hidden = _combined(inner, [_of_scalar(v, scalars) for v in inner.operands])
        scalars.update((result, hidden) for result in inner.results)
    if not accumulators:
        return [_of_scalar(v, scalars) for v in last.operands]
    initial = operands[len(generic.inputs) :]
    return [_reduced(*reduction, scalars) for reduction in zip(last.operands, accumulators, initial, strict=True)]


def _reduced(total: SSAValue, accumulator: SSAValue, initial: Hidden, scalars: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what is known of a reduction over the columns: its result is `UNIFORM` if hidden columns do not change it.

    A maximum of scores is `AT_LEAST_LARGEST`: hidden columns, whose scores are at most the fill, do not change it.

    Args:
        total: The accumulator after one column.
        accumulator: The accumulator before that column.
        initial: Known properties of the accumulator before the first column.
        scalars: Scalar of the body -> what is known of it.
    """
    op = total.owner
    if not isinstance(op, Operation) or accumulator not in op.operands or Hidden.UNIFORM not in initial:
        return Hidden.UNKNOWN
    neutral = NEUTRAL.get(op.name)
    addends = [_of_scalar(v, scalars) for v in op.operands if v is not accumulator]
    # Every addend must have one of the flags of `neutral`.
    if neutral is None or not addends or not all(neutral & v for v in addends):
        return Hidden.UNKNOWN
    is_maximum_of_row = op.name in MAXIMA and all(Hidden.AT_MOST_FILL in v for v in addends)
    return Hidden.UNIFORM | Hidden.AT_LEAST_LARGEST if is_maximum_of_row else Hidden.UNIFORM


def _combined(op: Operation, values: Sequence[Hidden]) -> Hidden:
    """Return what is known of the result of an elementwise operation at hidden columns, from what is known of its
    operands there.

    "Fill" is the number that a mask writes to hidden scores, and "largest" the largest visible score of the row.
    """
    if (constant := Expression(op.results[0], ()).number()) is not None:
        return _of_number(constant)
    is_pure = info_of(op).is_pure and bool(values) and not op.regions
    result = Hidden.UNIFORM if is_pure and all(Hidden.UNIFORM in v for v in values) else Hidden.UNKNOWN
    if op.name == "arith.select":
        condition, chosen, other = values
        return (chosen & other) if Hidden.UNIFORM in condition else Hidden.UNKNOWN
    first = values[0] if values else Hidden.UNKNOWN
    second = values[1] if len(values) > 1 else Hidden.UNKNOWN
    if op.name in ("arith.extf", "arith.truncf"):
        return first
    # With u for a uniform value: max(u, largest) is at least the largest score; exp(-inf) = 0; exp(fill - largest)
    # is negligible; -inf +- u = -inf; 0 * u and 0 / u are 0.
    if op.name in MAXIMA and Hidden.UNIFORM in result and any(Hidden.AT_LEAST_LARGEST in v for v in values):
        return result | Hidden.AT_LEAST_LARGEST
    if op.name in ("math.exp", "math.exp2") and first & (Hidden.NEGATIVE_INFINITY | Hidden.NEGLIGIBLE):
        return result | Hidden.ZERO
    if op.name == "arith.subf" and Hidden.AT_MOST_FILL in first and Hidden.AT_LEAST_LARGEST in second:
        result |= Hidden.NEGLIGIBLE
    if op.name in ("arith.subf", "arith.addf") and Hidden.NEGATIVE_INFINITY in first and Hidden.UNIFORM in second:
        return result | Hidden.NEGATIVE_INFINITY
    if op.name in ("arith.divf", "arith.mulf") and Hidden.ZERO in first and Hidden.UNIFORM in second:
        return result | Hidden.ZERO
    return result
