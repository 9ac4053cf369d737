"""`hal` operations of host code on buffer views and fences: the compiled form of a function's boundary."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
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
from pydispatch.ir.dialects.hal.device import BufferType, BufferViewType, DeviceType, FenceType

_VIEW = "`<` $buffer_view `:` type($buffer_view) `>`"


@irdl_op_definition
class BufferViewDimOp(IRDLOperation):
    """The size of one dimension."""

    name = "hal.buffer_view.dim"
    buffer_view = operand_def(BufferViewType)
    index = prop_def(Attribute)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> BufferViewDimOp:
        view = parse_subject(p)
        with p.in_square_brackets():
            index = syntax.parse_integer_attr(p, IndexType())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(
            operands=[view], result_types=[p.parse_type()], properties={"index": index}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        print_subject(printer, self.buffer_view)
        value = self.properties["index"]
        printer.print_string(f"[{value.value.data}]")  # type: ignore[attr-defined]
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def parse_subject(p: Parser) -> SSAValue:
    """`<%value : type>`."""
    with p.in_angle_brackets():
        name = p.parse_unresolved_operand()
        p.parse_punctuation(":")
        return p.resolve_operand(name, p.parse_type())


def print_subject(printer: Printer, value: SSAValue) -> None:
    printer.print_string("<")
    printer.print_ssa_value(value)
    printer.print_string(" : ")
    printer.print_attribute(value.type)
    printer.print_string(">")


@irdl_op_definition
class BufferViewRankOp(IRDLOperation):
    """How many dimensions there are."""

    name = "hal.buffer_view.rank"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@irdl_op_definition
class BufferViewElementTypeOp(IRDLOperation):
    """The code of the element type."""

    name = "hal.buffer_view.element_type"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@irdl_op_definition
class BufferViewEncodingTypeOp(IRDLOperation):
    """The code of the encoding."""

    name = "hal.buffer_view.encoding_type"
    buffer_view = operand_def(BufferViewType)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@irdl_op_definition
class BufferViewBufferOp(IRDLOperation):
    """The bytes behind a view."""

    name = "hal.buffer_view.buffer"
    buffer_view = operand_def(BufferViewType)
    result = result_def(BufferType)
    traits = traits_def(Pure())
    assembly_format = _VIEW + " attr-dict `:` type($result)"


@irdl_op_definition
class BufferViewAssertOp(IRDLOperation):
    """Stops unless a view has this shape, element type and encoding."""

    name = "hal.buffer_view.assert"
    buffer_view = operand_def(BufferViewType)
    element_type = operand_def(i32)
    encoding_type = operand_def(i32)
    shape = var_operand_def(IndexType)
    message = prop_def(StringAttr)
    assembly_format = (
        _VIEW + " `message` `(` $message `)` `shape` `(` `[` $shape `]` `)` "
        "`type` `(` $element_type `)` `encoding` `(` $encoding_type `)` attr-dict"
    )


@irdl_op_definition
class ElementTypeOp(IRDLOperation):
    """The code of an element type."""

    name = "hal.element_type"
    type = prop_def(Attribute)
    result = result_def(IntegerType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> ElementTypeOp:
        with p.in_angle_brackets():
            type = p.parse_type()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(result_types=[p.parse_type()], properties={"type": type}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_attribute(self.properties["type"])
        printer.print_string(">")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class EncodingTypeOp(IRDLOperation):
    """The code of an encoding, `dense_row_major` or `opaque`."""

    name = "hal.encoding_type"
    encoding = prop_def(StringAttr)
    result = result_def(IntegerType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> EncodingTypeOp:
        with p.in_angle_brackets():
            encoding = StringAttr(p.parse_identifier(" for the encoding"))
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(result_types=[p.parse_type()], properties={"encoding": encoding}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f"<{self.encoding.data}>")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class FenceCreateOp(IRDLOperation):
    """A new fence of a device."""

    name = "hal.fence.create"
    device = operand_def(DeviceType)
    flags = prop_def(StringAttr)
    result = result_def(FenceType)
    assembly_format = "`device` `(` $device `:` type($device) `)` `flags` `(` $flags `)` `:` type($result) attr-dict"


@irdl_op_definition
class FenceJoinOp(IRDLOperation):
    """A fence that is reached when all of these are."""

    name = "hal.fence.join"
    fences = var_operand_def(FenceType)
    result = result_def(FenceType)
    assembly_format = "`at` `(` `[` $fences `]` `)` `->` type($result) attr-dict"


@irdl_op_definition
class FenceSignalOp(IRDLOperation):
    """Reaches a fence."""

    name = "hal.fence.signal"
    fence = operand_def(FenceType)
    assembly_format = "`<` $fence `:` type($fence) `>` attr-dict"


@irdl_op_definition
class FenceAwaitOp(IRDLOperation):
    """Waits on the host."""

    name = "hal.fence.await"
    fences = var_operand_def(FenceType)
    timeout_millis = operand_def(i32)
    status = result_def(i32)

    @classmethod
    def parse(cls, p: Parser) -> FenceAwaitOp:
        p.parse_keyword("until")
        with p.in_parens(), p.in_square_brackets():
            fences = []
            while (name := p.parse_optional_unresolved_operand()) is not None:
                fences.append(p.resolve_operand(name, FenceType()))
                if p.parse_optional_punctuation(",") is None:
                    break
        p.parse_keyword("timeout_millis")
        with p.in_parens():
            timeout = p.parse_operand(i32)
        attributes: dict[str, Attribute] = {}
        if p.parse_optional_keyword("flags") is not None:
            with p.in_parens():
                attributes["flags"] = p.parse_attribute()
        attributes.update(p.parse_optional_attr_dict())
        p.parse_punctuation(":")
        return cls(operands=[fences, timeout], result_types=[p.parse_type()], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" until([")
        printer.print_list(self.fences, printer.print_ssa_value)
        printer.print_string("]) timeout_millis(")
        printer.print_ssa_value(self.timeout_millis)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.status.type)


OPERATIONS: list[type[Operation]] = [
    BufferViewDimOp, BufferViewRankOp, BufferViewElementTypeOp, BufferViewEncodingTypeOp, BufferViewBufferOp,
    BufferViewAssertOp, ElementTypeOp, EncodingTypeOp, FenceCreateOp, FenceJoinOp, FenceSignalOp, FenceAwaitOp,
]  # fmt: skip
