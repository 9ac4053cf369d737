"""Views of memrefs that the library lacks: transpose and reshape."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core import syntax


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The dimensions in another order: `%source (i, j) -> (j, i) : T to U`."""

    name = "memref.transpose"
    source = operand_def(MemRefType)
    permutation = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> TransposeOp:
        name = p.parse_unresolved_operand()
        permutation = AffineMapAttr(p.parse_affine_map())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source = p.resolve_operand(name, p.parse_type())
        p.parse_keyword("to")
        return cls(operands=[source], result_types=[p.parse_type()], properties={"permutation": permutation},
                   attributes=attributes)  # fmt: skip

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f" {self.permutation.data}")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Other sizes, which lie in a memref of integers."""

    name = "memref.reshape"
    source = operand_def(MemRefType)
    shape = operand_def(MemRefType)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$source `(` $shape `)` attr-dict `:` functional-type(operands, results)"
