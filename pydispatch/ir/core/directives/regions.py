"""Regions."""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState, RegionVariable
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives.base import for_every_format


@for_every_format
class NamedRegion(CustomDirective):
    """Directive for a region with named arguments, `(%a: T, %b: U) {...}`."""

    region: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(%a: T, ...)` and then the region, whose entry block has these arguments."""
        self.region.set(state, parser.parse_region(syntax.parse_signature_args(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `(%a: T, %b: U) {...}`."""
        state.print_whitespace(printer)
        syntax.print_region_signature(printer, self.region.get(op), results=None)  # the arguments, without `-> (...)`


@for_every_format
class SymbolBody(CustomDirective):
    """Directive for a region of symbols, such as that of an executable. `{}` is read as one empty block, which such a
    region must have.
    """

    body: RegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a region. For `{}`, add an empty block, because a region of symbols must have one."""
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        self.body.set(state, region)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `{...}`; one empty block is printed as `{}`."""
        state.print_whitespace(printer)
        printer.print_region(self.body.get(op), print_empty_block=False)
