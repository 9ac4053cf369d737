"""The short form of `linalg.map` and `linalg.reduce`, in which the name of one operation stands for the body."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xdsl.dialects.linalg import ops
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser

from pydispatch.ir.core.elements import element_type


def parse_payload(parser: Parser) -> tuple[type[Operation], dict[str, Attribute]] | None:
    """Parse an optional operation name with attributes that stands for a body, `{ name {…} }`.

    Return (class of the operation, its attributes by name); None if there is no `{`.
    """
    if parser.parse_optional_punctuation("{") is None:
        return None
    token = parser._current_token
    name = parser.parse_identifier(context_msg=" for the operation of the body")
    kind: type[Operation] = parser._get_op_by_name_at(name, token.span.start, token.span.end)  # type: ignore[attr-defined]
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation("}")
    return kind, attributes


def payload_body(
    payload: tuple[type[Operation], dict[str, Attribute]], arguments: Sequence[Attribute], order: Sequence[int],
    result: Attribute,
) -> Region:  # fmt: skip
    """Return a body of one operation, whose result it yields.

    For example, the payload `{ arith.subf }`, two arguments of type tensor<4xf32> and the order [1, 0] give

        ^bb0(%0: f32, %1: f32):
          %2 = arith.subf %1, %0 : f32
          linalg.yield %2 : f32

    Args:
        payload: (class, attributes) of the operation, as `parse_payload` returns them. Attributes that are properties
            of the operation are removed from the dictionary.
        arguments: Types of the tensors or scalars of which the body takes one element each.
        order: For each operand of the operation, the index of the block argument.
        result: Type of the tensor whose element is the operation's result.
    """
    kind, attributes = payload
    assert issubclass(kind, IRDLOperation)
    block = Block(arg_types=[element_type(t) for t in arguments])
    properties: dict[str, Attribute | None] = {}
    _take_inherent(attributes, kind.get_irdl_definition().properties, properties)
    operands: list[Any] = [block.args[i] for i in order]
    inner = kind.build(
        operands=operands, result_types=[element_type(result)], properties=properties, attributes=attributes
    )
    block.add_ops([inner, ops.YieldOp(*inner.results)])
    return Region(block)


def _take_inherent(
    attributes: dict[str, Attribute], names: Iterable[str], properties: dict[str, Attribute | None]
) -> None:
    """Move attributes that the operation has as properties from `attributes` to `properties`.

    Older releases of MLIR write properties into the attribute dictionary.

    Args:
        attributes: The parsed attribute dictionary.
        names: Names of the properties.
        properties: Receives the moved entries.
    """
    for name in names:
        if name in attributes:
            properties[name] = attributes.pop(name)
