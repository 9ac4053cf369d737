"""The `pyd` dialect: what pydispatch adds to the dialects of IREE's programs."""

from __future__ import annotations

from xdsl.dialects.builtin import SymbolRefAttr, i1
from xdsl.ir import Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.pyd import contract, mma, transpose


@irdl_op_definition
class ImportAvailableOp(IRDLOperation):
    """`%has = pyd.import.available @my_mul : i1`: whether an import was found when the program was loaded.

    The symbol is that of a declaration beside the calling function. True for everything that is not optional.
    """

    name = "pyd.import.available"
    callee = prop_def(SymbolRefAttr)
    result = result_def(i1)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> ImportAvailableOp:
        start = p.pos
        callee = p.parse_attribute()
        if not isinstance(callee, SymbolRefAttr):
            p.raise_error("expected the name of a declared function: @symbol", start, p.pos)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        return cls(properties={"callee": callee}, attributes=attributes, result_types=[p.parse_type()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.callee)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


OPERATIONS: list[type[Operation]] = [
    ImportAvailableOp, *contract.OPERATIONS, *mma.OPERATIONS, *transpose.OPERATIONS
]  # fmt: skip
Pyd = Dialect("pyd", OPERATIONS, [])
