"""Relaxes operations of the library to the types that MLIR gives them.

The library states some operations for scalars only. Its classes stay the classes of these operations, so that code may
name them; their constraints are replaced here, once per process, by wider ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import AttrConstraint, IRDLOperation, OperandDef, ResultDef
from xdsl.utils.exceptions import VerifyException


def element_type(type: Attribute) -> Attribute:
    """The type of one element; the type itself for a scalar."""
    return type.get_element_type() if isinstance(type, ShapedType) else type  # type: ignore[attr-defined]


def same_shape(op: Operation, a: Attribute, b: Attribute) -> None:
    """Two types have the same shape, and are both tensors, both vectors or both scalars."""
    shape_a = a.get_shape() if isinstance(a, ShapedType) else None
    shape_b = b.get_shape() if isinstance(b, ShapedType) else None
    if shape_a != shape_b or (shape_a is not None and a.name != b.name):
        raise VerifyException(f"'{op.name}' has operand {a} and result {b}, which differ in shape")


def widen(
    op: type[IRDLOperation],
    operand: AttrConstraint[Any] | None = None,
    result: AttrConstraint[Any] | None = None,
    verify: Callable[[Any], None] | None = None,
) -> None:
    """Gives all operands and results of `op` the constraints, and replaces its own check."""
    definition = op.get_irdl_definition()
    for i, (name, _) in enumerate(definition.operands):
        if operand is not None:
            definition.operands[i] = (name, OperandDef(operand))
    for i, (name, _) in enumerate(definition.results):
        if result is not None:
            definition.results[i] = (name, ResultDef(result))
    if verify is not None:
        op.verify_ = verify  # type: ignore[method-assign,assignment]


def give_syntax(op: type[IRDLOperation], parse: Callable[..., Any], print: Callable[[Any, Any], None]) -> None:
    """Gives an operation of the library the custom syntax that it lacks: `parse(cls, parser)`, `print(op, printer)`."""
    op.parse = classmethod(parse)  # type: ignore[method-assign,assignment]
    op.print = print  # type: ignore[method-assign,assignment]
