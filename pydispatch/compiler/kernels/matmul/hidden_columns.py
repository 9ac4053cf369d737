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
    """Properties of a value at the columns of a row that a mask hides; flags that may be combined.

    A row of a chain such as attention has a score for each column, a key. At a hidden column the score is at most the
    fill of the mask, a very low number such as -1e9 or -inf. The flags hold for rows with a visible column and, if the
    fill is finite, a largest visible score above half of it (`column_end.Limits.floor`). A softmax has these flags:

        s = masked scores            AT_MOST_FILL
        m = maximum of s in a row    UNIFORM | AT_LEAST_LARGEST
        d = s - m                    NEGLIGIBLE
        e = exp(d)                   ZERO
        t = sum of e in a row        UNIFORM
        w = e / t                    ZERO: hidden columns have the weight 0
    """

    UNKNOWN = 0
    AT_MOST_FILL = auto()
    """The value is a score of at most the fill, which the largest visible score of the row exceeds by far."""
    NEGATIVE_INFINITY = auto()
    """The value is -inf."""
    NEGLIGIBLE = auto()
    """The value is so low that its exponential is 0."""
    ZERO = auto()
    """The value is 0."""
    UNIFORM = auto()
    """The value is the same at all columns, and depends on visible columns alone, as a row's maximum does."""
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

    Rows and columns are those of an attention's scores. A mask gives hidden columns a score of at most its fill, such
    as -1e9 (`AT_MOST_FILL`). `UNIFORM` values are the same at all columns, `AT_LEAST_LARGEST` ones at least the largest
    score of the row. Each scalar of the body gets its flags in turn. The body `acc + exp(s - m)` with s `AT_MOST_FILL`,
    m `UNIFORM` and `AT_LEAST_LARGEST`, and the initial value 0 has a `UNIFORM` result: hidden columns add 0 to the sum.
    """
    generic = structured(op)
    # Operands of full rank must have one map: in a transposed operand, columns would be another dimension.
    rank = max(len(m.results) for m in generic.maps)
    if len({m for m in generic.maps if len(m.results) == rank}) > 1:
        return [Hidden.UNKNOWN for _ in op.results]
    scalars: dict[SSAValue, Hidden] = dict(zip(generic.block.args, operands, strict=True))
    # An accumulator changes from column to column: nothing is known of it in the body. `_reduced` judges the reduction.
    has_accumulators = bool(generic.reduced_loops)
    accumulators = generic.block.args[len(generic.inputs) :] if has_accumulators else ()
    scalars.update(dict.fromkeys(accumulators, Hidden.UNKNOWN))
    *body, last = generic.block.ops  # `last` is the yield of the results
    for inner in body:
        hidden = _combined(inner, [_of_scalar(v, scalars) for v in inner.operands])
        scalars.update((result, hidden) for result in inner.results)
    if not accumulators:
        return [_of_scalar(v, scalars) for v in last.operands]
    initial = operands[len(generic.inputs) :]
    return [_reduced(*reduction, scalars) for reduction in zip(last.operands, accumulators, initial, strict=True)]


def _reduced(total: SSAValue, accumulator: SSAValue, initial: Hidden, scalars: Mapping[SSAValue, Hidden]) -> Hidden:
    """Return what is known of a reduction over the columns: its result is `UNIFORM` if hidden columns do not change it.

    A mask gives hidden columns a score of at most its fill, such as -1e9. They do not change a sum to which each adds
    0, nor a maximum with -inf or with scores of at most the fill. A maximum of scores is also `AT_LEAST_LARGEST`: at
    least the largest score of the row. Return `UNKNOWN` for another operation, or if its initial value is not the same
    at all columns.

    Args:
        total: The accumulator after one column, such as `acc + x`.
        accumulator: The accumulator before that column, `acc`.
        initial: Known properties of the accumulator before the first column.
        scalars: Scalar of the body -> what is known of it.
    """
    op = total.owner
    if not isinstance(op, Operation) or accumulator not in op.operands or Hidden.UNIFORM not in initial:
        return Hidden.UNKNOWN
    neutral = NEUTRAL.get(op.name)
    addends = [_of_scalar(v, scalars) for v in op.operands if v is not accumulator]
    # Every other operand, here called an addend, must have one of the flags of `neutral`.
    if neutral is None or not addends or not all(neutral & v for v in addends):
        return Hidden.UNKNOWN
    # Only scores have the flag `AT_MOST_FILL`, so that this is their maximum.
    is_maximum_of_row = op.name in MAXIMA and all(Hidden.AT_MOST_FILL in v for v in addends)
    return Hidden.UNIFORM | Hidden.AT_LEAST_LARGEST if is_maximum_of_row else Hidden.UNIFORM


def _combined(op: Operation, values: Sequence[Hidden]) -> Hidden:
    """Return what is known of the result of an elementwise operation at hidden columns, from what is known of its
    operands there.

    `arith.subf` of a score (`AT_MOST_FILL`) and the maximum of the row (`AT_LEAST_LARGEST`) is `NEGLIGIBLE`. Where no
    rule applies, the result is `UNIFORM` if all operands are, else `UNKNOWN`.

    "Fill" is the number that a mask writes to hidden scores, and "largest" the largest visible score of the row. A
    value is `UNIFORM` if it is the same at all columns, and `NEGLIGIBLE` if its exponential is 0.
    """
    if (constant := Expression(op.results[0], ()).number()) is not None:
        return _of_number(constant)
    is_pure = info_of(op).is_pure and bool(values) and not op.regions
    result = Hidden.UNIFORM if is_pure and all(Hidden.UNIFORM in v for v in values) else Hidden.UNKNOWN
    # A uniform condition selects the same operand at all columns, but either one: the flags of both hold.
    if op.name == "arith.select":
        condition, chosen, other = values
        return (chosen & other) if Hidden.UNIFORM in condition else Hidden.UNKNOWN
    first = values[0] if values else Hidden.UNKNOWN
    second = values[1] if len(values) > 1 else Hidden.UNKNOWN
    if op.name in ("arith.extf", "arith.truncf"):  # a conversion preserves all properties
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
