"""Equality check for sizes that have the same name in a Python pattern.

Some sizes are equal in every program that contains the computation, such as those of both operands of a sum. The
other equalities, such as the two sizes of a square matrix, are derived from the types and the origin of dynamic
sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, OpResult

from pydispatch.compiler.match.graph.facts import size_identity
from pydispatch.compiler.match.graph.matches import Match
from pydispatch.compiler.match.python.program_sizes import ProgramSizes
from pydispatch.compiler.match.python.same_sizes import Axis, SameSizes
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of
from pydispatch.patterns import Pattern
from pydispatch.patterns.trace import Value

CompareAxis = tuple["int | OpResult", int]
"""Pair (tensor, axis). The tensor is the index of an input, or a result of an operation of the pattern."""


def axes_to_compare(pattern: Pattern, block: Block | None) -> list[tuple[str, list[CompareAxis]]]:
    """Return, for each size name, the axes whose sizes the matcher must compare.

    Several axes may have one name, as n in `x: f32['n']` and `y: f32['n']`. Some of them have equal sizes in every
    program that matches, because an operation of the pattern such as `x + y` requires it. Of each class of such axes
    the list has one. A name with a single class is omitted.

    For `x + y` with `x: f32['n', 'n']` and `y: f32['n']` the list is [("n", [(0, 0), (0, 1)])]: the two axes of input
    0, x. The axis of y is in the class of axis 1 of x, because y is broadcast along axis 0.

    block: the operations of the pattern, which are needed if it is a program.
    """
    same = SameSizes()  # receives the sizes that the computation makes equal
    repeated: dict[str, list[CompareAxis]] = {}  # size name -> axes along which a broadcast repeats elements so often
    if pattern.program is not None:
        assert block is not None
        repeated = _repeated_axes(pattern, ProgramSizes(block, same))
    else:
        axes_of: dict[Value, Sequence[Axis]] = {}
        for traced in pattern.outputs:
            _record_equal_sizes(traced, same, axes_of)
    classes: dict[str, dict[Axis, CompareAxis]] = {}  # size name -> representative of a class -> an axis of the class
    for i, (_, type) in enumerate(pattern.inputs):
        for axis, size in enumerate(type.shape or ()):
            if isinstance(size, str):
                classes.setdefault(size, {}).setdefault(same.find((i, axis)), (i, axis))
    # A single axis need not be compared.
    groups = {name: [*axes.values(), *repeated.get(name, ())] for name, axes in classes.items()}
    return [(name, axes) for name, axes in groups.items() if len(axes) > 1]


def _repeated_axes(pattern: Pattern, sizes: ProgramSizes) -> dict[str, list[CompareAxis]]:
    """Return, by size name n, the axes along which a broadcast in a pattern that is a program repeats elements n times.

    The matcher must compare their sizes with n. Raises CompileError if n is not the size of a parameter.
    """
    repeated: dict[str, list[CompareAxis]] = {}
    for value, axis, axis_of_count in sizes.repeated():  # the last: the axis of an input whose size is n, or None
        name = _name_of_size(pattern, axis_of_count)
        if name is None:
            raise CompileError(
                f"pattern '{pattern.name}' repeats elements as often as a size that it computes",
                location_of(value.op),
                "repeat them as often as a size of a parameter that has a name, as in f32['n']",
            )
        repeated.setdefault(name, []).append((value, axis))
    return repeated


def _name_of_size(pattern: Pattern, axis: Axis | None) -> str | None:
    """Return the name of the size of an axis of an input; None if it has no name, or there is no such axis."""
    if axis is None:
        return None
    index, dimension = axis
    size = (pattern.inputs[index][1].shape or ())[dimension]
    return size if isinstance(size, str) else None


def disagreement(pattern: Pattern, compare: Sequence[tuple[str, list[CompareAxis]]], match: Match) -> str | None:
    """Return None if sizes of the same name are equal in the match, else the reason why not.

    Dynamic sizes count as equal only if they have the same origin, such as one `tensor.dim` (`size_identity`). For an
    input `x: f32["n", "n"]` that matched a tensor<4x8xf32> the reason is "size n is 4 as size 0 of x and 8 as size 1
    of x".

    compare: for each name, the axes whose sizes to compare, such as ("n", [(0, 0), (0, 1)]) for the axes 0 and 1 of
        input 0.
    """
    for name, axes in compare:
        expected: tuple[object, str] | None = None  # (size, its description) of the first axis that the program has
        for source, axis in axes:
            # The tensor of the program: `source` is the index of an input of the pattern, or a result of an operation
            # of the pattern along which a broadcast repeats elements.
            value = match.inputs[source] if isinstance(source, int) else match.computed.get(source)
            if value is None or not isinstance(value.type, TensorType):
                continue  # the program does not have this tensor
            size = size_identity(value, axis)  # an int if it is static, else a key of its origin
            owner = pattern.inputs[source][0] if isinstance(source, int) else f"what {source.op.name} repeats"
            description = f"size {axis} of {owner}"
            if expected is None:
                expected = (size, description)
                continue
            expected_size, expected_description = expected
            if size == expected_size:
                continue
            if isinstance(size, int) and isinstance(expected_size, int):
                return f"size {name} is {expected_size} as {expected_description} and {size} as {description}"
            return f"size {name}: {expected_description} and {description} are not known to be equal"
    return None


def _record_equal_sizes(value: Value, same: SameSizes, axes_of: dict[Value, Sequence[Axis]]) -> Sequence[Axis]:
    """Record in `same` the axes that the computation of a value makes equal. Return, for each axis of the value, an
    input's axis of equal size.

    axes_of: the results for values that were visited before; receives those of the value and its operands.
    """
    if value not in axes_of:
        axes_of_operands = [_record_equal_sizes(v, same, axes_of) for v in value.operands]
        axes_of[value] = _axes_of_result(value, axes_of_operands, same)
    return axes_of[value]


def _axes_of_result(value: Value, operands: list[Sequence[Axis]], same: SameSizes) -> Sequence[Axis]:
    """Return the axes of a value from those of its operands, and record in `same` which axes its operation makes
    equal.

    The axis of a value is given as an input's axis of equal size, (position of the input, axis). For a matmul of the
    inputs 0 and 1, the axes are [(0, 0), (1, 1)], and `same` joins (0, 1) with (1, 0): the columns of the first operand
    are as many as the rows of the second.

    Args:
        value: The value.
        operands: The axes of each operand.
        same: Receives the axes of equal size.
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
    # An elementwise operation: operands of lower rank are broadcast along leading axes.
    longest: Sequence[Axis] = max(operands, key=len, default=())
    for axes in operands:
        for axis_of_longest, axis in zip(reversed(longest), reversed(axes), strict=False):
            same.join(axis_of_longest, axis)
    return longest
