"""`tensor.expand_shape` may leave out `output_shape` where the result type has all sizes, as older programs do."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IndexType, TensorType, i64
from xdsl.dialects.utils import parse_dynamic_index_list_without_types
from xdsl.ir import SSAValue
from xdsl.parser import Parser

from pydispatch.ir.core.widen import give_syntax


def _parse(cls: type[tensor.ExpandShapeOp], p: Parser) -> tensor.ExpandShapeOp:
    source = p.parse_unresolved_operand()
    reassociation = cast(Any, p.parse_attribute())
    operands: list[SSAValue] = []
    static: Any = None
    if p.parse_optional_keyword("output_shape") is not None:
        names, static = parse_dynamic_index_list_without_types(p, dynamic_index=DYNAMIC_INDEX)
        operands = list(p.resolve_operands(names, (IndexType(),) * len(names), p.pos))
    attributes = p.parse_optional_attr_dict()
    position = p.pos
    p.parse_punctuation(":")
    source_type = p.parse_type()
    p.parse_characters("into")
    result = cast("TensorType[Any]", p.parse_type())
    if static is None:
        if not result.has_static_shape():
            p.raise_error(f"'output_shape' expected, since {result} has a dynamic size", position, position + 1)
        static = result.get_shape()
    shape = DenseArrayBase.from_list(i64, list(static))
    return cls(p.resolve_operand(source, source_type), operands, reassociation, shape, result, attributes)


give_syntax(tensor.ExpandShapeOp, _parse, tensor.ExpandShapeOp.print)
