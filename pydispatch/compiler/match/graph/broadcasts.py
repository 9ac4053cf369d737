"""Maps from the elements of a result to those of an operand that is broadcast, transposed, or has other unit axes.

In a loop of one iteration, 0 and the index of the loop are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.analysis.sizes import reassociation

ZERO = AffineExpr.constant(0)


def reads_equal_elements(wanted: AffineMap, actual: AffineMap, loop_sizes: Sequence[int]) -> bool:
    """Return whether two maps from loops to elements of an operand have equal results in all iterations.

    A loop with one iteration has the index 0: (d0, d1) -> (d0, d1) equals (d0, d1) -> (0, d1) if loop 0 has size 1.

    Args:
        wanted: The map of the pattern.
        actual: The map of the program.
        loop_sizes: Iterations of each loop, negative for an unknown number.
    """
    if wanted.num_dims != actual.num_dims or len(wanted.results) != len(actual.results):
        return False
    pairs = zip(wanted.results, actual.results, strict=True)
    return all(_in_loops(a, loop_sizes) == _in_loops(b, loop_sizes) for a, b in pairs)


def _in_loops(expr: AffineExpr, loop_sizes: Sequence[int]) -> AffineExpr:
    """Return 0 for the index of a loop with one iteration, else the expression."""
    return ZERO if isinstance(expr, AffineDimExpr) and loop_sizes[expr.position] == 1 else expr


def map_of_unit_axes(op: Operation) -> AffineMap | None:
    """Return the map of a `tensor.expand_shape` or `tensor.collapse_shape` that only adds or removes axes of size 1.

    It maps indices of the result to those of the operand: (i, j) to (j) for an expansion of [4] to [1, 4]. Return None
    for other operations.
    """
    if op.name not in ("tensor.expand_shape", "tensor.collapse_shape"):
        return None
    source, result = op.operands[0].type, op.results[0].type
    assert isinstance(source, TensorType) and isinstance(result, TensorType)
    is_expansion = op.name == "tensor.expand_shape"
    wide_sizes = (result if is_expansion else source).get_shape()  # of the tensor with more axes
    # For each axis of the narrow tensor, the axis of the wide one that has its elements. For [4] and [1, 4]: [1].
    wide_axes: list[int] = []
    for axes in reassociation(op):  # the axes of the wide tensor that form one axis of the narrow one
        long_axes = [axis for axis in axes if wide_sizes[axis] != 1]
        if len(long_axes) > 1:
            return None
        wide_axes.append((long_axes or axes)[0])
    if is_expansion:
        exprs = [AffineExpr.dimension(axis) for axis in wide_axes]
    else:  # along an axis that the collapse removes, the index is 0
        exprs = [
            AffineExpr.dimension(wide_axes.index(axis)) if axis in wide_axes else ZERO
            for axis in range(len(wide_sizes))
        ]
    return AffineMap(len(result.get_shape()), 0, tuple(exprs))
