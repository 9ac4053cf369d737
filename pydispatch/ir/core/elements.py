"""Elements of shaped types, where a scalar is its own element."""

from __future__ import annotations

from xdsl.dialects.builtin import ShapedType, TensorType, VectorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException


def element_type(type: Attribute) -> Attribute:
    """Return the type of one element; the type itself for a scalar."""
    return type.get_element_type() if isinstance(type, ShapedType) else type  # type: ignore[attr-defined]


def check_same_shape(op: Operation, lhs: Attribute, rhs: Attribute) -> None:
    """Raise VerifyException unless two types have the same shape and are both tensors, both vectors or both scalars.

    `lhs` is the type of an operand of `op`, and `rhs` that of its result.
    """
    lhs_shape = lhs.get_shape() if isinstance(lhs, ShapedType) else None
    rhs_shape = rhs.get_shape() if isinstance(rhs, ShapedType) else None
    is_one_kind = lhs_shape is None or lhs.name == rhs.name  # scalars; or both tensors or both vectors
    if lhs_shape != rhs_shape or not is_one_kind:
        raise VerifyException(f"'{op.name}' has operand {lhs} and result {rhs}, which differ in shape")


def with_element(type: Attribute, element: Attribute) -> Attribute:
    """Return a type with the shape of `type` and the given element type; the element type itself if `type` is a
    scalar."""
    if isinstance(type, TensorType):
        return TensorType(element, type.shape, type.encoding)
    if isinstance(type, VectorType):
        return VectorType(element, type.get_shape(), type.scalable_dims)
    return element
