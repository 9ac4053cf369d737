"""`util` operations on single values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from pydispatch.ir.core import syntax


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """Bytes in host memory."""

    name = "util.buffer"


@irdl_attr_definition
class UninitializedAttr(ParametrizedAttribute):
    """The initial value of a global that is stored to before it is loaded: `#util.uninitialized : type`."""

    name = "util.uninitialized"
    type: Attribute

    @classmethod
    def parse_parameters(cls, p: AttrParser) -> Sequence[Attribute]:
        p.parse_punctuation(":", " and the type of the value")
        return [p.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(" : ")
        printer.print_attribute(self.type)


@irdl_op_definition
class OptimizationBarrierOp(IRDLOperation):
    """Passes its operands on, and nothing may be known about them."""

    name = "util.optimization_barrier"
    operands_ = var_operand_def()
    results_ = var_result_def()

    @classmethod
    def parse(cls, p: Parser) -> OptimizationBarrierOp:
        names = [p.parse_unresolved_operand()]
        while p.parse_optional_punctuation(",") is not None:
            names.append(p.parse_unresolved_operand())
        attributes = p.parse_optional_attr_dict()
        start = p.pos
        p.parse_punctuation(":")
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        operands = p.resolve_operands(names, types, start)
        return cls(operands=[operands], result_types=[types], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands_, printer.print_ssa_value)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_list(self.operands_, lambda o: printer.print_attribute(o.type))


@irdl_op_definition
class UnfoldableConstantOp(IRDLOperation):
    """A constant that no pass may fold."""

    name = "util.unfoldable_constant"
    value = prop_def(Attribute)
    result = result_def()

    @classmethod
    def parse(cls, p: Parser) -> UnfoldableConstantOp:
        attributes = p.parse_optional_attr_dict()
        start = p.pos
        value = p.parse_attribute()
        type = getattr(value, "type", None)
        if not isinstance(type, Attribute):
            p.raise_error("expected a typed constant", start, p.pos)
        return cls(result_types=[type], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" ")
        printer.print_attribute(self.value)


@irdl_op_definition
class AlignOp(IRDLOperation):
    """The next multiple of `alignment` that is not below `value`."""

    name = "util.align"
    value = operand_def()
    alignment = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> AlignOp:
        first = p.parse_unresolved_operand()
        p.parse_punctuation(",")
        second = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        operands = [p.resolve_operand(first, type), p.resolve_operand(second, type)]
        return cls(operands=operands, result_types=[type], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        syntax.print_operands(printer, [self.value, self.alignment], "", "")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class SizeofOp(IRDLOperation):
    """Bytes of one element of a type."""

    name = "util.sizeof"
    sized_type = prop_def(Attribute)
    size = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> SizeofOp:
        type = p.parse_type()
        return cls(
            result_types=[IndexType()], properties={"sized_type": type}, attributes=p.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.sized_type)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class NullOp(IRDLOperation):
    """No object."""

    name = "util.null"
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"


@irdl_op_definition
class CastOp(IRDLOperation):
    """The same value under another type."""

    name = "util.cast"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand) `to` type($result)"


@irdl_op_definition
class UnreachableOp(IRDLOperation):
    """Ends a block that is never reached."""

    name = "util.unreachable"
    message = opt_prop_def(StringAttr)
    traits = traits_def(IsTerminator())
    assembly_format = "($message^)? attr-dict"


OPERATIONS: list[type[Operation]] = [
    OptimizationBarrierOp, UnfoldableConstantOp, AlignOp, SizeofOp, NullOp, CastOp, UnreachableOp,
]  # fmt: skip
ATTRIBUTES: list[type[Attribute]] = [BufferType, UninitializedAttr]
