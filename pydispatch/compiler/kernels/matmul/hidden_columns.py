"""Analysis of the row-wise operations of a chain at hidden columns: whether they compute a weight of 0 there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Flag, auto
from math import inf
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from pydispatch.compiler.kernels.matmul.chain import Chain
from pydispatch.compiler.kernels.ops.expressions import Expression
from pydispatch.ir.op_info import info_of
from pydispatch.ir.structured import GENERIC, structured


class HiddenFlags(Flag):
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

NEUTRAL_FLAGS = {
    "arith.addf": HiddenFlags.ZERO,
    **dict.fromkeys(MAXIMA, HiddenFlags.NEGATIVE_INFINITY | HiddenFlags.AT_MOST_FILL),
}
"""Operation of a reduction -> flags of values that leave its result unchanged. In a sum, the value must be 0. In a
maximum, it must be -inf, or a score of at most the fill, which the largest visible score exceeds."""


class Rule(NamedTuple):
    """Rule of arithmetic: if the operands of an operation have some flags, the result has others.

    Attributes:
        operations: The names of the operations that the rule is for.
        left, right: The flags that the first and the second operand must have; none are required by `UNKNOWN`.
        result: The flags that the result then has.
    """

    operations: tuple[str, ...]
    left: HiddenFlags
    right: HiddenFlags
    result: HiddenFlags


RULES = (
    # exp(-inf) = 0, and exp of a negligible number is 0, too.
    Rule(("math.exp", "math.exp2"), HiddenFlags.NEGATIVE_INFINITY, HiddenFlags.UNKNOWN, HiddenFlags.ZERO),
    Rule(("math.exp", "math.exp2"), HiddenFlags.NEGLIGIBLE, HiddenFlags.UNKNOWN, HiddenFlags.ZERO),
    # fill - largest score is negligible.
    Rule(("arith.subf",), HiddenFlags.AT_MOST_FILL, HiddenFlags.AT_LEAST_LARGEST, HiddenFlags.NEGLIGIBLE),
    # -inf + uniform = -inf - uniform = -inf.
    Rule(
        ("arith.addf", "arith.subf"), HiddenFlags.NEGATIVE_INFINITY, HiddenFlags.UNIFORM, HiddenFlags.NEGATIVE_INFINITY
    ),
    # 0 * uniform = 0 / uniform = 0.
    Rule(("arith.mulf", "arith.divf"), HiddenFlags.ZERO, HiddenFlags.UNIFORM, HiddenFlags.ZERO),
)
"""Rules by which elementwise operations of a softmax compute a weight of 0 from a score that a mask hides."""


def ignores_hidden_columns(chain: Chain, is_infinite: bool) -> bool:
    """Return whether `chain.rows`, such as the weights of an attention, is 0 at hidden columns, however many there are.

    Hidden columns are those whose scores the mask of an attention replaces by -inf or by a very low number, the fill.

    is_infinite: whether the fill is -inf; otherwise scores at hidden columns are at most a finite fill.
    """
    flags_of_scores = HiddenFlags.AT_MOST_FILL
    if is_infinite:  # a score of -inf is also at most any fill
        flags_of_scores |= HiddenFlags.NEGATIVE_INFINITY
    known_flags: dict[SSAValue, HiddenFlags] = {chain.scores: flags_of_scores}
    for op in chain.parts.row_operations:
        depends_on_scores = any(v in known_flags for v in op.operands)
        if depends_on_scores:
            operands = [_flags_of_tensor(v, known_flags) for v in op.operands]
            results = _flags_of_generic(op, operands) if op.name == GENERIC else [_flags_of_result(op, operands)]
            known_flags.update(zip(op.results, results, strict=True))
    return HiddenFlags.ZERO in known_flags[chain.rows]


def _flags_of_tensor(value: SSAValue, known_flags: Mapping[SSAValue, HiddenFlags]) -> HiddenFlags:
    """Return the properties of a tensor at the columns that a mask hides.

    If the tensor is a constant, return the properties of its number. Otherwise return its entry in `known_flags`, or
    `UNKNOWN` without an entry.
    """
    constant = Expression(value, ()).number()
    return known_flags.get(value, HiddenFlags.UNKNOWN) if constant is None else _flags_of_constant(constant)


def _flags_of_scalar(value: SSAValue, flags_in_body: Mapping[SSAValue, HiddenFlags]) -> HiddenFlags:
    """Return the properties, at the columns that a mask hides, of a scalar that the body of a generic reads.

    If the scalar is defined in the body, return its entry in `flags_in_body`. Otherwise the scalar is from outside, and
    has the properties of a constant, or `UNKNOWN`.
    """
    if value in flags_in_body:
        return flags_in_body[value]
    return _flags_of_tensor(value, known_flags={})


def _flags_of_constant(constant: float) -> HiddenFlags:
    """Return the properties of a constant at hidden columns: it is `UNIFORM`, the same at all columns."""
    if constant == -inf:
        return HiddenFlags.NEGATIVE_INFINITY | HiddenFlags.UNIFORM
    return HiddenFlags.ZERO | HiddenFlags.UNIFORM if constant == 0 else HiddenFlags.UNIFORM


def _flags_of_generic(op: Operation, operands: Sequence[HiddenFlags]) -> list[HiddenFlags]:
    """Return the properties of each result of a generic at hidden columns, from those of its operands.

    Each scalar of the body gets its flags in turn. The body `acc + exp(s - m)` with s `AT_MOST_FILL`, m `UNIFORM` and
    `AT_LEAST_LARGEST`, and the initial value 0 has a `UNIFORM` result: hidden columns add 0 to the sum.
    """
    generic = structured(op)
    # Operands of full rank must all have the same map: in a transposed operand, columns would be another dimension.
    rank = max(len(m.results) for m in generic.maps)
    maps_of_full_rank = {m for m in generic.maps if len(m.results) == rank}
    if len(maps_of_full_rank) > 1:
        return [HiddenFlags.UNKNOWN for _ in op.results]
    # An accumulator changes from column to column, so that it has no known properties in the body.
    accumulators = generic.block.args[len(generic.inputs) :] if generic.reduced_loops else ()
    flags_in_body: dict[SSAValue, HiddenFlags] = dict(zip(generic.block.args, operands, strict=True))
    flags_in_body.update(dict.fromkeys(accumulators, HiddenFlags.UNKNOWN))
    *body, yield_op = generic.block.ops
    for inner in body:
        flags = _flags_of_result(inner, [_flags_of_scalar(v, flags_in_body) for v in inner.operands])
        flags_in_body.update(dict.fromkeys(inner.results, flags))
    if not generic.reduced_loops:
        return [_flags_of_scalar(v, flags_in_body) for v in yield_op.operands]
    initial_flags = operands[len(generic.inputs) :]
    return [
        _flags_of_reduction(total, accumulator, initial, flags_in_body)
        for total, accumulator, initial in zip(yield_op.operands, accumulators, initial_flags, strict=True)
    ]


def _flags_of_reduction(
    total: SSAValue, accumulator: SSAValue, initial: HiddenFlags, flags_in_body: Mapping[SSAValue, HiddenFlags]
) -> HiddenFlags:
    """Return the properties of the result of a reduction over columns: `UNIFORM` if hidden columns do not change it.

    Hidden columns do not change a sum to which each adds 0, nor a maximum with -inf or with scores of at most the fill.
    A maximum of scores is also `AT_LEAST_LARGEST`. Return `UNKNOWN` for another operation, or if its initial value is
    not the same at all columns.

    Args:
        total: The accumulator after one column, such as `acc + x`.
        accumulator: The accumulator before that column, `acc`.
        initial: Properties of the accumulator before the first column.
        flags_in_body: Scalar of the body -> its properties at hidden columns.
    """
    op = total.owner
    if not isinstance(op, Operation) or accumulator not in op.operands or HiddenFlags.UNIFORM not in initial:
        return HiddenFlags.UNKNOWN
    # The operands that are combined with the accumulator must leave it unchanged: each needs one of `neutral_flags`.
    neutral_flags = NEUTRAL_FLAGS.get(op.name, HiddenFlags.UNKNOWN)
    addends = [_flags_of_scalar(v, flags_in_body) for v in op.operands if v is not accumulator]
    if not addends or not all(neutral_flags & flags for flags in addends):
        return HiddenFlags.UNKNOWN
    # Only scores have the flag `AT_MOST_FILL`: a maximum of values with this flag is the maximum of a row's scores.
    is_maximum_of_row = op.name in MAXIMA and all(HiddenFlags.AT_MOST_FILL in flags for flags in addends)
    return HiddenFlags.UNIFORM | HiddenFlags.AT_LEAST_LARGEST if is_maximum_of_row else HiddenFlags.UNIFORM


def _flags_of_result(op: Operation, operands: Sequence[HiddenFlags]) -> HiddenFlags:
    """Return the properties of the result of an elementwise operation at hidden columns, from those of its operands."""
    if (constant := Expression(op.results[0], ()).number()) is not None:
        return _flags_of_constant(constant)
    # A uniform condition selects the same operand at all columns. Which one is not known: the result has the flags that
    # both have.
    if op.name == "arith.select":
        condition, chosen, other = operands
        return (chosen & other) if HiddenFlags.UNIFORM in condition else HiddenFlags.UNKNOWN
    if op.name in ("arith.extf", "arith.truncf"):  # a conversion preserves all properties
        return operands[0]
    result = HiddenFlags.UNKNOWN
    is_pure = info_of(op).is_pure and bool(operands) and not op.regions
    if is_pure and all(HiddenFlags.UNIFORM in flags for flags in operands):
        result = HiddenFlags.UNIFORM
        # The maximum of values, one of which is at least the largest score, is at least the largest score.
        if op.name in MAXIMA and any(HiddenFlags.AT_LEAST_LARGEST in flags for flags in operands):
            result |= HiddenFlags.AT_LEAST_LARGEST
    left, right, *_ = (*operands, HiddenFlags.UNKNOWN, HiddenFlags.UNKNOWN)
    for rule in RULES:
        if op.name in rule.operations and rule.left in left and rule.right in right:
            result |= rule.result
    return result
