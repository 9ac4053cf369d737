"""Equality check for sizes that have the same name in a Python pattern.

Some sizes are equal in every program that contains the computation, such as those of both operands of a sum. The
other equalities, such as the two sizes of a square matrix, are derived from the types and the origin of dynamic
sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from pydispatch.compiler.match.graph.facts import size_identity
from pydispatch.compiler.match.python.programs import function_of, join_sizes
from pydispatch.compiler.match.python.same_sizes import Axis, SameSizes
from pydispatch.patterns import Pattern
from pydispatch.patterns.trace import Value


def to_compare(pattern: Pattern) -> list[tuple[str, list[Axis]]]:
    """Return, for each size name, the axes that the matcher must compare: one axis of each equivalence class.

    Names whose axes the computation itself makes equal are omitted.
    """
    same = SameSizes()  # receives the sizes that the computation makes equal
    if pattern.program is not None:
        join_sizes(function_of(pattern).body.block, same)
    else:
        known: dict[Value, Sequence[Axis]] = {}
        for value in pattern.outputs:
            _record_equal_sizes(value, same, known)
    classes: dict[str, dict[Axis, Axis]] = {}  # size name -> representative of a class -> an axis of the class
    for i, (_, type) in enumerate(pattern.inputs):
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                input_and_axis = (i, axis)
                classes.setdefault(size, {}).setdefault(same.find(input_and_axis), input_and_axis)
    return [(name, list(axes.values())) for name, axes in classes.items() if len(axes) > 1]


def disagreement(
    pattern: Pattern, compare: Sequence[tuple[str, list[Axis]]], inputs: Sequence[SSAValue | None]
) -> str | None:
    """Return None if sizes of the same name are equal in the match, else the reason why not."""
    for name, axes in compare:
        first: tuple[object, Axis] | None = None
        for i, axis in axes:
            value = inputs[i]
            if value is None or not isinstance(value.type, TensorType):
                continue
            got = size_identity(value, axis)
            if first is None:
                first = (got, (i, axis))
            elif got != first[0]:
                here, there = (f"size {a} of {pattern.inputs[n][0]}" for n, a in (first[1], (i, axis)))
                if isinstance(got, int) and isinstance(first[0], int):
                    return f"size {name} is {first[0]} as {here} and {got} as {there}"
                return f"size {name}: {here} and {there} are not known to be equal"
    return None


def _record_equal_sizes(value: Value, same: SameSizes, known: dict[Value, Sequence[Axis]]) -> Sequence[Axis]:
    """Record in `same` the axes that the computation of a value makes equal. Return, for each axis of the value, an
    input's axis of equal size. known: the results for values that were visited before.
    """
    if value not in known:
        axes_of_operands = [_record_equal_sizes(v, same, known) for v in value.operands]
        known[value] = _axes_of_result(value, axes_of_operands, same)
    return known[value]


def _axes_of_result(value: Value, operands: list[Sequence[Axis]], same: SameSizes) -> Sequence[Axis]:
    """Return the axes of a value from those of its operands, and record in `same` which axes its operation makes
    equal.
    """
    if value.op == "input":
        assert isinstance(value.detail, int)
        return [(value.detail, axis) for axis in range(len(value.shape))]
    if value.op == "matmul":
        a, b = operands
        same.join(a[1], b[0])
        return [a[0], b[1]]
    if value.op in ("reduce", "argmax"):
        assert isinstance(value.detail, tuple)
        # The detail is (combiner, axis) of a reduction, (axis, type of the index, ...) of an argmax.
        dropped = value.detail[1] if value.op == "reduce" else value.detail[0]
        return [axis for n, axis in enumerate(operands[0]) if n != dropped]
    longest: Sequence[Axis] = max(operands, key=len, default=())
    for axes in operands:
        for mine, theirs in zip(reversed(longest), reversed(axes), strict=False):
            same.join(mine, theirs)
    return longest
