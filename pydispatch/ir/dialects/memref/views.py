"""Views of memrefs that xDSL lacks: transpose and reshape."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, MemRefType
from xdsl.irdl import IRDLOperation, operand_def, prop_def, result_def, traits_def
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive


@directive
class Permutation(CustomDirective):
    """Directive for a permutation of dimensions as an affine map, `(i, j) -> (j, i)`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an affine map, and set the property to it."""
        self.value.set(state, AffineMapAttr(parser.parse_affine_map()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the map without `affine_map<>`."""
        value = self.value.get(op)
        assert isinstance(value, AffineMapAttr)
        state.print_whitespace(printer)
        printer.print_string(str(value.data))


@op_definition
class TransposeOp(IRDLOperation):
    """View of a memref with permuted dimensions, `%source (i, j) -> (j, i) : T to U`.

    The map has the dimensions of the source on the left, and those of the result, in order, on the right.
    """

    name = "memref.transpose"
    source = operand_def(MemRefType)
    permutation = prop_def(AffineMapAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    custom_directives = (Permutation,)
    assembly_format = "$source custom<Permutation>($permutation) attr-dict `:` type($source) `to` type($result)"


@op_definition
class ReshapeOp(IRDLOperation):
    """View of a memref in another shape; `shape` is a memref of rank 1 with the size of each dimension."""

    name = "memref.reshape"
    source = operand_def(MemRefType)
    shape = operand_def(MemRefType)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = "$source `(` $shape `)` attr-dict `:` functional-type(operands, results)"
