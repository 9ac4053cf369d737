"""Sizes of tensors, and what the types and producers of values say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, OpResult, SSAValue


class Dim(NamedTuple):
    """Size of one dimension of a tensor; `axis` counts from 0."""

    tensor: SSAValue
    axis: int


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a value, -1 for a dynamic size; () for a scalar."""
    type_ = value.type
    # a list is built faster than a generator runs, and this function is called more often than any other
    return tuple([-1 if n.data < 0 else n.data for n in type_.shape.data]) if isinstance(type_, TensorType) else ()


def reordered_type(value: SSAValue, order: Sequence[int]) -> TensorType[Attribute]:
    """Return a tensor type with the dimensions of `value` that `order` lists, in that order."""
    assert isinstance(value.type, TensorType)
    shape = value.type.get_shape()
    return TensorType(value.type.element_type, [shape[d] for d in order])


def constant_index(value: SSAValue) -> int | None:
    """Return the number that `arith.constant` defines as an integer or index; None for other values."""
    if isinstance(value, OpResult) and value.op.name == "arith.constant":
        attribute = value.op.properties.get("value")
        return attribute.value.data if isinstance(attribute, IntegerAttr) else None
    return None
