"""`flow.tensor.*`: operations on whole tensors. Every tensor is followed by its dynamic dims, `tensor<?xf32>{%d}`."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow.base import parse_typed, print_typed


class _CastLikeOp(IRDLOperation):
    """`%source : T{%d} -> U{%e}`."""

    source = operand_def()
    source_dims = var_operand_def(IndexType)
    result_dims = var_operand_def(IndexType)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source, source_dims = parse_typed(p, name)
        p.parse_punctuation("->")
        type = p.parse_type()
        result_dims = syntax.parse_dims(p, type)
        return cls(operands=[source, source_dims, result_dims], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.source.type, self.source_dims)
        printer.print_string(" -> ")
        print_typed(printer, self.result.type, self.result_dims)


@irdl_op_definition
class TensorReshapeOp(_CastLikeOp):
    """The same elements in another shape."""

    name = "flow.tensor.reshape"


@irdl_op_definition
class TensorBitCastOp(_CastLikeOp):
    """The same bytes as another type."""

    name = "flow.tensor.bitcast"


class _SameTypeOp(IRDLOperation):
    """`%operand : T{%d}`, with a result of type T."""

    operand = operand_def()
    operand_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        operand, dims = parse_typed(p, name)
        return cls(operands=[operand, dims], result_types=[operand.type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.operand.type, self.operand_dims)


@irdl_op_definition
class TensorTieShapeOp(_SameTypeOp):
    """States the dims of a tensor."""

    name = "flow.tensor.tie_shape"


@irdl_op_definition
class DispatchTieShapeOp(_SameTypeOp):
    """States the dims of a kernel's binding."""

    name = "flow.dispatch.tie_shape"


@irdl_op_definition
class TensorCloneOp(_SameTypeOp):
    """A copy."""

    name = "flow.tensor.clone"


class _FreshOp(IRDLOperation):
    """`: T{%d}`, a tensor whose elements are not set."""

    result_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        return cls(operands=[syntax.parse_dims(p, type)], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.result.type, self.result_dims)


@irdl_op_definition
class TensorEmptyOp(_FreshOp):
    name = "flow.tensor.empty"


@irdl_op_definition
class TensorAllocaOp(_FreshOp):
    name = "flow.tensor.alloca"


@irdl_op_definition
class TensorSplatOp(IRDLOperation):
    """A tensor of one value."""

    name = "flow.tensor.splat"
    value = operand_def()
    result_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> TensorSplatOp:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        start = p.pos
        type = p.parse_type()
        dims = syntax.parse_dims(p, type)
        if not hasattr(type, "get_element_type"):
            p.raise_error(f"expected a tensor type, got {type}", start, p.pos)
        value = p.resolve_operand(name, type.get_element_type())
        return cls(operands=[value, dims], result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.result.type, self.result_dims)


class _ConstantOp(IRDLOperation):
    """`value`, or `value -> T` for a type that hides the dims."""

    value = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        attributes = p.parse_optional_attr_dict()
        start = p.pos
        value = p.parse_attribute()
        type = getattr(value, "type", None)
        if p.parse_optional_punctuation("->") is not None:
            type = p.parse_type()
        if not isinstance(type, Attribute):
            p.raise_error("expected a typed constant", start, p.pos)
        return cls(result_types=[type], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" ")
        printer.print_attribute(self.value)
        if getattr(self.value, "type", None) != self.result.type:
            printer.print_string(" -> ")
            printer.print_attribute(self.result.type)


@irdl_op_definition
class TensorConstantOp(_ConstantOp):
    name = "flow.tensor.constant"


@irdl_op_definition
class TensorDynamicConstantOp(_ConstantOp):
    """A constant whose dims no pass may know."""

    name = "flow.tensor.dynamic_constant"


@irdl_op_definition
class TensorTransferOp(IRDLOperation):
    """Moves a tensor to where `target` says."""

    name = "flow.tensor.transfer"
    operand = operand_def()
    operand_dims = var_operand_def(IndexType)
    target = prop_def(Attribute)
    result = result_def()

    @classmethod
    def parse(cls, p: Parser) -> TensorTransferOp:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        operand, dims = parse_typed(p, name)
        p.parse_keyword("to")
        return cls(
            operands=[operand, dims], result_types=[operand.type], properties={"target": p.parse_attribute()},
            attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        print_typed(printer, self.operand.type, self.operand_dims)
        printer.print_string(" to ")


@irdl_op_definition
class TensorTraceOp(IRDLOperation):
    """Shows tensors to who debugs: `"key" = [%a : T{%d}, …]`."""

    name = "flow.tensor.trace"
    values = var_operand_def()
    value_dims = var_operand_def(IndexType)
    key = prop_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> TensorTraceOp:
        key = p.parse_str_literal(" for the key of the trace")
        p.parse_punctuation("=")

        def value() -> tuple[SSAValue, list[SSAValue]]:
            name = p.parse_unresolved_operand()
            p.parse_punctuation(":")
            return parse_typed(p, name)

        pairs = p.parse_comma_separated_list(p.Delimiter.SQUARE, value)
        return cls(
            operands=[[v for v, _ in pairs], [d for _, dims in pairs for d in dims]],
            properties={"key": StringAttr(key)}, attributes=p.parse_optional_attr_dict(),
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.key.data)
        printer.print_string(" = [")
        dims = syntax.split_dims([v.type for v in self.values], self.value_dims)
        for number, value in enumerate(self.values):
            printer.print_string(", " if number else "")
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            print_typed(printer, value.type, dims[number])
        printer.print_string("]")
        syntax.print_attributes(printer, self.attributes, keyword=False)


OPERATIONS: list[type[Operation]] = [
    TensorReshapeOp, TensorBitCastOp, TensorTieShapeOp, DispatchTieShapeOp, TensorCloneOp, TensorEmptyOp,
    TensorAllocaOp, TensorSplatOp, TensorConstantOp, TensorDynamicConstantOp, TensorTransferOp, TensorTraceOp,
]  # fmt: skip
