"""The globals of `ml_program`."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface

from pydispatch.ir.core import syntax


@irdl_op_definition
class GlobalOp(IRDLOperation):
    """A value that lives as long as the program."""

    name = "ml_program.global"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    is_mutable = opt_prop_def(UnitAttr)
    type = prop_def(Attribute)
    value = opt_prop_def(Attribute)
    traits = traits_def(SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> GlobalOp:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        if p.parse_optional_keyword("mutable") is not None:
            properties["is_mutable"] = UnitAttr()
        properties["sym_name"] = p.parse_symbol_name()
        if p.parse_optional_punctuation("(") is not None:
            properties["value"] = p.parse_attribute()
            p.parse_punctuation(")")
        p.parse_punctuation(":")
        properties["type"] = p.parse_type()
        return cls(properties=properties, attributes=p.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" " if self.is_mutable is None else " mutable ")
        printer.print_symbol_name(self.sym_name.data)
        if self.value is not None:
            with printer.in_parens():
                printer.print_attribute(self.value)
        printer.print_string(" : ")
        printer.print_attribute(self.type)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class GlobalLoadOp(IRDLOperation):
    """The value of a global."""

    name = "ml_program.global_load"
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "$global `:` type($result) attr-dict"


@irdl_op_definition
class GlobalLoadConstOp(IRDLOperation):
    """The value of a global that never changes."""

    name = "ml_program.global_load_const"
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    result = result_def()
    assembly_format = "$global `:` type($result) attr-dict"


@irdl_op_definition
class GlobalStoreOp(IRDLOperation):
    """Gives a global another value."""

    name = "ml_program.global_store"
    value = operand_def()
    global_ = prop_def(SymbolRefAttr, prop_name="global")
    assembly_format = "$global `=` $value `:` type($value) attr-dict"


OPERATIONS: list[type[Operation]] = [GlobalOp, GlobalLoadOp, GlobalLoadConstOp, GlobalStoreOp]
MLProgram = Dialect("ml_program", OPERATIONS, [])
