"""Which variant a device may use, and with which constants: host regions that ask the device."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i1,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
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
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.device import DeviceType
from pydispatch.ir.dialects.hal.region import check_region, parse_host_region


@irdl_op_definition
class ExecutableConditionOp(IRDLOperation):
    """Whether a variant may be used: a host region from the device to i1."""

    name = "hal.executable.condition"
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableConditionOp:
        body = parse_host_region(p, [i1])
        return cls(regions=[body], attributes=syntax.parse_attributes(p))

    def print(self, printer: Printer) -> None:
        syntax.print_region_signature(printer, self.body, [i1])
        syntax.print_attributes(printer, self.attributes)

    def verify_(self) -> None:
        check_region(self, self.body, [i1], "condition", device=True)


@irdl_op_definition
class ExecutableConstantBlockOp(IRDLOperation):
    """Computes the executable constants `keys` on the host at load."""

    name = "hal.executable.constant.block"
    keys = prop_def(ArrayAttr[StringAttr])
    function_type = prop_def(FunctionType)
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableConstantBlockOp:
        start = p.pos
        arguments = syntax.parse_signature_args(p)
        p.parse_punctuation("->", " after the arguments of a constant block")
        types = syntax.parse_types(p)
        p.parse_keyword("as")
        if p._current_token.text == "(":
            names = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_str_literal)
        else:
            names = [p.parse_str_literal()]
        if len(names) != len(types):
            p.raise_error(f"the block gives {len(types)} value(s), but {len(names)} key(s)", start, p.pos)
        attributes = syntax.parse_attributes(p)
        body = p.parse_region(arguments)
        type = FunctionType.from_lists([a.type for a in arguments], types)
        keys = syntax.strings(names)
        return cls(properties={"keys": keys, "function_type": type}, attributes=attributes, regions=[body])

    def print(self, printer: Printer) -> None:
        block = self.body.blocks.first
        assert block is not None
        with printer.in_parens():
            printer.print_list(block.args, printer.print_block_argument)
        printer.print_string(" -> (")
        printer.print_list(self.function_type.outputs, printer.print_attribute)
        printer.print_string(") as (")
        printer.print_list(self.keys, printer.print_attribute)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        check_region(self, self.body, self.function_type.outputs.data, "constant", device=True)


@irdl_op_definition
class ExecutableConstantLoadOp(IRDLOperation):
    """Reads an executable constant in a kernel."""

    name = "hal.executable.constant.load"
    key = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$key attr-dict `:` type($result)"


@irdl_op_definition
class DeviceQueryOp(IRDLOperation):
    """Asks the device for `category :: key`: whether it knows the key, and its value or `default_value`."""

    name = "hal.device.query"
    device = operand_def(DeviceType)
    category = prop_def(StringAttr)
    key = prop_def(StringAttr)
    default_value = opt_prop_def(Attribute)
    ok = result_def(i1)
    value = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> DeviceQueryOp:
        with p.in_angle_brackets():
            name = p.parse_unresolved_operand()
            p.parse_punctuation(":")
            device = p.resolve_operand(name, p.parse_type())
        p.parse_keyword("key")
        with p.in_parens():
            category = p.parse_str_literal(" for the category")
            p.parse_punctuation(":", " between category and key")
            p.parse_punctuation(":", " between category and key")
            key = p.parse_str_literal(" for the key")
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        first = p.parse_type()
        p.parse_punctuation(",", " between the result types")
        type = p.parse_type()
        default: Attribute | None = None
        if p.parse_optional_punctuation("=") is not None:
            default = parse_typed_literal(p, type)
        default = attributes.pop("default_value", default)
        properties: dict[str, Attribute | None] = {
            "category": StringAttr(category), "key": StringAttr(key), "default_value": default,
        }  # fmt: skip
        return cls(operands=[device], result_types=[first, type], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_ssa_value(self.device)
        printer.print_string(" : ")
        printer.print_attribute(self.device.type)
        printer.print_string("> key(")
        printer.print_attribute(self.category)
        printer.print_string(" :: ")
        printer.print_attribute(self.key)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.ok.type)
        printer.print_string(", ")
        printer.print_attribute(self.value.type)
        if self.default_value is not None:
            printer.print_string(" = ")
            printer.print_attribute(self.default_value)


def parse_typed_literal(p: Parser, type: Attribute) -> Attribute:
    """A literal whose type may be left out when the operation has stated it."""
    start = p.pos
    value = p.parse_attribute()
    if isinstance(value, IntegerAttr) and value.type != type and isinstance(type, IntegerType | IndexType):
        if p.lexer.input.content[start : p.pos].find(":") >= 0:
            p.raise_error(f"the default is of type {value.type}, expected {type}", start, p.pos)
        return IntegerAttr(value.value.data, type)
    return value


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a host region."""

    name = "hal.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


OPERATIONS: list[type[Operation]] = [
    ExecutableConditionOp, ExecutableConstantBlockOp, ExecutableConstantLoadOp, DeviceQueryOp, ReturnOp,
]  # fmt: skip
