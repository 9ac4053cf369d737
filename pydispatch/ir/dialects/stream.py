"""The `stream` dialect as custom dispatch programs use it: executables over bindings."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, Region, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow.parameter import StreamParameterAttr
from pydispatch.ir.dialects.hal.interface import WorkgroupOp
from pydispatch.ir.dialects.hal.region import check_children, check_region, parse_body, parse_host_region, print_body


@irdl_attr_definition
class BindingType(ParametrizedAttribute, TypeAttribute):
    """A buffer that a dispatch passes, without shape or offset."""

    name = "stream.binding"


class ExecutableLikeOp(IRDLOperation):
    """A named body of exports and one module; the syntax of `stream.executable` and `flow.executable`."""

    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        attributes = syntax.parse_attributes(p)
        properties: dict[str, Attribute | None] = {"sym_name": name, "sym_visibility": visibility}
        return cls(properties=properties, attributes=attributes, regions=[parse_body(p)])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)

    def verify_(self) -> None:
        allowed = (f"{self.name}.export", "builtin.module", f"{self.name}_end", f"{self.name}.end")
        check_children(self, self.body, allowed)


class ExportLikeOp(IRDLOperation):
    """`@name workgroups(%w: index) -> (index, index, index) {...}`; the region is empty when it is not given."""

    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    function_ref = opt_prop_def(Attribute)
    count = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        name = p.parse_symbol_name()
        if p.parse_optional_punctuation("(") is not None:  # `@name(@function)`
            properties["function_ref"] = p.parse_attribute()
            p.parse_punctuation(")")
        if p.parse_optional_keyword("as") is not None:  # `@function as("name")`: the name that users see
            properties["function_ref"] = name
            with p.in_parens():
                name = StringAttr(p.parse_str_literal())
        properties["sym_name"] = name
        count = Region()
        if p.parse_optional_keyword("workgroups") is not None:
            count = parse_host_region(p, [IndexType()] * 3)
        attributes = syntax.parse_attributes(p)
        syntax.take_inherent(cls, attributes, ("function_ref",), properties)
        return cls(properties=properties, attributes=attributes, regions=[count])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.function_ref is not None:
            printer.print_string("(")
            if isinstance(self.function_ref, StringAttr):
                printer.print_symbol_name(self.function_ref.data)
            else:
                printer.print_attribute(self.function_ref)
            printer.print_string(")")
        if self.count.blocks:
            printer.print_string(" workgroups")
            syntax.print_region_signature(printer, self.count, [IndexType()] * 3)
        syntax.print_attributes(printer, self.attributes)

    def verify_(self) -> None:
        check_region(self, self.count, [IndexType()] * 3, "workgroups", device=False)


@irdl_op_definition
class ExecutableOp(ExecutableLikeOp):
    name = "stream.executable"


@irdl_op_definition
class ExecutableEndOp(IRDLOperation):
    """Older releases end the body of an executable with this; it has no meaning."""

    name = "stream.executable.end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableExportOp(ExportLikeOp):
    name = "stream.executable.export"


@irdl_op_definition
class BindingSubspanOp(IRDLOperation):
    """The memref that starts `byte_offset` bytes into a binding."""

    name = "stream.binding.subspan"
    binding = operand_def(BindingType)
    byte_offset = operand_def(IndexType)
    dynamic_dims = var_operand_def(IndexType)
    result = result_def()
    traits = traits_def(NoMemoryEffect())

    @classmethod
    def parse(cls, p: Parser) -> BindingSubspanOp:
        name = p.parse_unresolved_operand()
        with p.in_square_brackets():
            offset = p.parse_operand(IndexType())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        binding = p.resolve_operand(name, p.parse_type())
        p.parse_punctuation("->")
        result = p.parse_type()
        dims = syntax.parse_dims(p, result)
        return cls(operands=[binding, offset, dims], result_types=[result], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.binding)
        printer.print_string("[")
        printer.print_ssa_value(self.byte_offset)
        printer.print_string("]")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.binding.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        syntax.print_dims(printer, self.dynamic_dims)

    def verify_(self) -> None:
        expected = syntax.dynamic_dims(self.result.type)
        if len(self.dynamic_dims) != expected:
            raise VerifyException(
                f"{self.result.type} has {expected} dynamic dimension(s), "
                f"but {len(self.dynamic_dims)} value(s) are given"
            )


@irdl_op_definition
class DispatchWorkgroupIDOp(WorkgroupOp):
    name = "stream.dispatch.workgroup.id"


@irdl_op_definition
class DispatchWorkgroupCountOp(WorkgroupOp):
    name = "stream.dispatch.workgroup.count"


@irdl_op_definition
class DispatchWorkgroupSizeOp(WorkgroupOp):
    name = "stream.dispatch.workgroup.size"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a host region."""

    name = "stream.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


Stream = Dialect(
    "stream",
    [
        ExecutableOp, ExecutableEndOp, ExecutableExportOp, BindingSubspanOp, DispatchWorkgroupIDOp,
        DispatchWorkgroupCountOp, DispatchWorkgroupSizeOp, ReturnOp,
    ],
    [BindingType, StreamParameterAttr],
)  # fmt: skip
