"""Calls of operations by name: custom calls, and composites, which a function of the module defines."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.dialects.stablehlo.clauses import Properties
from pydispatch.ir.dialects.stablehlo.syntax import FUNCTIONAL, make, parse_attributes, print_attributes


@irdl_op_definition
class CustomCallOp(IRDLOperation):
    """Call of an external function by name, `custom_call @target(%a, %b) {...} : (T, U) -> V`.

    `call_target_name` is the name. The other properties are optional and printed in the braces; their values may be any
    attributes.
    """

    name = "stablehlo.custom_call"
    inputs = var_operand_def()
    call_target_name = prop_def(StringAttr)
    has_side_effect = opt_prop_def(Attribute)
    backend_config = opt_prop_def(Attribute)
    api_version = opt_prop_def(Attribute)
    called_computations = opt_prop_def(Attribute)
    operand_layouts = opt_prop_def(Attribute)
    result_layouts = opt_prop_def(Attribute)
    output_operand_aliases = opt_prop_def(Attribute)
    result = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> CustomCallOp:
        """Parse `@target(%a, %b) {attributes} : signature`."""
        properties: Properties = {"call_target_name": parser.parse_symbol_name()}
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, len(operands))
        return make(cls, parser, operands, types, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `@target(%a, %b) {attributes} : signature`."""
        printer.print_string(" ")
        printer.print_symbol_name(self.call_target_name.data)
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        print_attributes(printer, self, ("call_target_name",))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)


@irdl_op_definition
class CompositeOp(IRDLOperation):
    """Named operation that a function of the module defines, `composite "my.op" %a {decomposition = @f} : (T) -> U`.

    Attributes:
        name_: Name of the operation.
        decomposition: Function that computes the operation: it has the types of its operands and results.
        composite_attributes: Parameters of the operation, as a dictionary.
        version: Version of the operation's definition.
    """

    name = "stablehlo.composite"
    inputs = var_operand_def()
    name_ = prop_def(StringAttr, prop_name="name")
    decomposition = prop_def(SymbolRefAttr)
    composite_attributes = opt_prop_def(Attribute)
    version = opt_prop_def(IntegerAttr)
    result = var_result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> CompositeOp:
        """Parse `"name" %a, %b {attributes} : signature`."""
        properties: Properties = {"name": StringAttr(parser.parse_str_literal())}
        operands = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            operands.append(operand)
            if parser.parse_optional_punctuation(",") is None:
                break
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, len(operands))
        return make(cls, parser, operands, types, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `"name" %a, %b {attributes} : signature`."""
        printer.print_string(" ")
        printer.print_string_literal(self.name_.data)
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        print_attributes(printer, self, ("name",))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)


OPERATIONS: list[type[Operation]] = [CustomCallOp, CompositeOp]
