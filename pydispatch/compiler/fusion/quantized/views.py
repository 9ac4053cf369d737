"""Indices in the tensors that views read, as digits of loops."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Operation, OpResult, SSAValue

from pydispatch.compiler.fusion.quantized.mixed_radix import Position, collapsed, expanded
from pydispatch.ir.values import shape_of

Positions = tuple[Position, ...]
"""One `Position` for each dimension of a tensor, or for each loop of a generic: together the index of an element.

A position is a sum of terms stride * digit. A digit is a part of a loop's index: of an index i below 6, written as
3 * a + b, the digits are a = i // 3 and b = i % 3."""


def read_by_view(value: OpResult, at: Positions) -> tuple[SSAValue, Positions] | None:
    """Return the tensor that a view reads, and the index in it of the view's element at index `at`.

    Views are casts, reshapes of static shapes, and slices that start at index 0 with stride 1. The index is a sum of
    mixed-radix digits of loops (`mixed_radix.py`): the element (d0, d1, d2) of an expand_shape of [8, 6] to [8, 2, 3]
    is the element (d0, 3 * d1 + d2) of its source. Return None for other operations, and where the index in the tensor
    is no such sum.
    """
    op = value.op
    if op.name == "tensor.cast":
        return op.operands[0], at
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        index = _index_before_reshape(op, at)
        return None if index is None else (op.operands[0], index)
    if isinstance(op, tensor.ExtractSliceOp):
        drops_dimension = len(shape_of(op.operands[0])) != len(shape_of(value))
        # Dynamic offsets and strides have a negative marker here, which is in neither set.
        is_prefix = set(op.static_offsets.get_values()) <= {0} and set(op.static_strides.get_values()) <= {1}
        return (op.operands[0], at) if is_prefix and not drops_dimension else None
    return None


def _index_before_reshape(op: Operation, at: Positions) -> Positions | None:
    """Return the index in a reshape's operand of the element that its result has at index `at`.

    Return None for dynamic shapes, and if a dimension's index cannot be split into one for each dimension of a group.
    """
    source_shape, shape = shape_of(op.operands[0]), shape_of(op.results[0])
    if any(n < 0 for n in (*shape, *source_shape)):
        return None
    reassociation = cast("ArrayAttr[ArrayAttr[IntegerAttr]]", op.properties["reassociation"])
    # For each dimension of the tensor of lower rank, the dimensions of the other tensor that it stands for.
    groups = [[d.value.data for d in group.data] for group in reassociation.data]
    if op.name == "tensor.expand_shape":
        return tuple(collapsed([at[d] for d in group], [shape[d] for d in group]) for group in groups)
    positions = list[Position]()
    for group, position in zip(groups, at, strict=True):
        inner = expanded(position, [source_shape[d] for d in group])
        if inner is None:  # the quotients and remainders of `position` are no sums of mixed-radix digits
            return None
        positions += inner
    return tuple(positions)
