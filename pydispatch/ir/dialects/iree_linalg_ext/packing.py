"""`pack` and `unpack`: the operations of `linalg` in another syntax."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState, TypeDirective
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.linalg.base import Numbers
from pydispatch.ir.dialects.linalg.shape import Pack, Unpack


@directive
class Pair(CustomDirective):
    """Directive for the types of source and destination and that of the result, `(T U) -> U`; a destination that is a
    memref has no result type."""

    source: TypeDirective
    dest: TypeDirective
    results: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(source dest)`, and the result type, by default that of a destination tensor."""
        with parser.in_parens():
            self.source.set(state, (parser.parse_type(),))
            dest = parser.parse_type()
        self.dest.set(state, (dest,))
        if parser.parse_optional_punctuation("->") is not None:
            self.results.set(state, (parser.parse_type(),))
        else:
            self.results.set(state, (dest,) if isinstance(dest, TensorType) else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `(source dest) -> result`."""
        state.print_whitespace(printer)
        printer.print_string("(")
        printer.print_attribute(self.source.get(op)[0])
        printer.print_string(" ")
        printer.print_attribute(self.dest.get(op)[0])
        printer.print_string(")")
        for type in self.results.get(op):
            printer.print_string(" -> ")
            printer.print_attribute(type)


_FORMAT = (
    "attr-dict $source (`padding_value` `(` $padding_value^ `:` type($padding_value) `)`)? (`outer_dims_perm` `=` "
    "custom<Numbers>($outer_dims_perm)^)? `inner_dims_pos` `=` custom<Numbers>($inner_dims_pos) `inner_tiles` `=` "
    "custom<Mixed>($inner_tiles, $static_inner_tiles) `into` $dest `:` "
    "custom<Pair>(type($source), type($dest), type($res))"
)
"""Assembly format of both operations: `%a inner_dims_pos = [0] inner_tiles = [4] into %b : (T U) -> U`."""


@op_definition
class PackOp(Pack):
    """Pack: the source divided into tiles. Dimensions that count tiles are followed by those of a tile."""

    name = "iree_linalg_ext.pack"
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (Numbers, Pair)
    assembly_format = _FORMAT


@op_definition
class UnpackOp(Unpack):
    """Unpack: the tensor whose tiles the source contains."""

    name = "iree_linalg_ext.unpack"
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (Numbers, Pair)
    assembly_format = _FORMAT


OPERATIONS: list[type[Operation]] = [PackOp, UnpackOp]
