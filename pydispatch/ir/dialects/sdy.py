"""The operations of Shardy in programs for one device: meshes, and constraints on the sharding of a tensor."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure, SymbolOpInterface


@irdl_op_definition
class MeshOp(IRDLOperation):
    """Device mesh, `mesh @m = <["a"=2]>`. `mesh` is the text in the brackets, which is not interpreted."""

    name = "sdy.mesh"
    sym_name = prop_def(StringAttr)
    mesh = prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, parser: Parser) -> MeshOp:
        """Parse `@name = <...>`; the text in brackets is stored verbatim, without parsing it."""
        name = parser.parse_symbol_name()
        parser.parse_punctuation("=")
        mesh = _parse_bracketed_text(parser)
        attributes = parser.parse_optional_attr_dict()
        return cls.create(properties={"sym_name": name, "mesh": mesh}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `@name = <...>`."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(" = ")
        _print_verbatim(printer, self.mesh)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ShardingConstraintOp(IRDLOperation):
    """Identity that constrains the sharding of a tensor, `sharding_constraint %a <@m, [{"a"}, {}]> : T`.

    `sharding` is the text in the brackets, which is not interpreted: programs are for one device.
    """

    name = "sdy.sharding_constraint"
    input = operand_def()
    sharding = prop_def(Attribute)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ShardingConstraintOp:
        """Parse `%x <...> : type`; the text in brackets is stored verbatim, without parsing it."""
        operand = parser.parse_unresolved_operand()
        sharding = _parse_bracketed_text(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(operand, type)], result_types=[type], properties={"sharding": sharding},
            attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        """Print `%x <...> : type`."""
        printer.print_string(" ")
        printer.print_ssa_value(self.input)
        printer.print_string(" ")
        _print_verbatim(printer, self.sharding)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def _parse_bracketed_text(parser: Parser) -> StringAttr:
    """Parse balanced angle brackets and return their text."""
    if parser._current_token.text != "<":
        parser.raise_error("expected '<'")
    return StringAttr(parser._parse_dialect_symbol_body())


def _print_verbatim(printer: Printer, value: Attribute) -> None:
    """Print a string, which `_parse_bracketed_text` has parsed, in angle brackets; another attribute as its text."""
    if isinstance(value, StringAttr):
        printer.print_string(f"<{value.data}>")
    else:
        printer.print_attribute(value)


Sdy = Dialect("sdy", [MeshOp, ShardingConstraintOp], [])
