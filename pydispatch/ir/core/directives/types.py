"""Types of operands and results, alone or with the sizes of their dynamic dimensions."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives.base import Implied, for_every_format, parsed_types, request_space
from pydispatch.ir.core.elements import with_element


@for_every_format
class Typed(CustomDirective):
    """Directive for a type with one operand per dynamic dimension, which is its size: `T{%d}`."""

    type: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a type, and the names of its dynamic sizes: `tensor<?xf32>{%n}`."""
        type = parser.parse_type()
        self.type.set(state, (type,))
        self.dims.set(state, syntax.parse_dim_names(parser, type))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type and its dynamic sizes."""
        state.print_whitespace(printer)
        printer.print_attribute(self.type.get(op)[0])
        syntax.print_dims(printer, self.dims.get(op))


@for_every_format
class ElementOf(Implied):
    """Directive without text: it sets a type to the element type of a tensor type that was parsed before."""

    type: TypeDirective  # set to the element type
    tensor: TypeDirective  # the tensor type

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set the type to the element type of a tensor type that was parsed before; nothing is written for it."""
        (tensor_type,) = parsed_types(self.tensor, state)
        if not hasattr(tensor_type, "get_element_type"):
            parser.raise_error(f"expected a tensor type, got {tensor_type}", parser.pos)
        self.type.set(state, (tensor_type.get_element_type(),))


@for_every_format
class Results(CustomDirective):
    """Directive for result types `-> T` or `-> (T, U)`; nothing if there are no results."""

    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `-> types`; without an arrow there are none."""
        has_types = parser.parse_optional_punctuation("->") is not None
        self.types.set(state, syntax.parse_types(parser) if has_types else ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> (types)`; nothing without results."""
        if types := self.types.get(op):
            printer.print_string(" -> ")
            syntax.print_types(printer, types)
            request_space(state)


@for_every_format
class SameTypes(Implied):
    """Directive without text: `types` are equal to `others`, which were parsed before."""

    types: TypeDirective
    others: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set `types` to the types of `others`; nothing is read."""
        self.types.set(state, parsed_types(self.others, state))


@for_every_format
class Absent(Implied):
    """Directive without text: the optional values whose types are `types` are absent."""

    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set `types` to no types; nothing is read."""
        self.types.set(state, ())


@for_every_format
class TruthOf(Implied):
    """Directive without text: `type` is i1, or a tensor of i1 in the shape of `other`, the type of one operand that was
    parsed before."""

    type: TypeDirective
    other: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set `type` from the type that was parsed for `other`; nothing is written for it."""
        (other_type,) = parsed_types(self.other, state)
        self.type.set(state, (with_element(other_type, i1),))


@for_every_format
class ShapedResults(CustomDirective):
    """Directive for result types with sizes of dynamic dimensions, `-> (T{%d}, U)`.

    Without results it is printed as `-> ()`, which the text may omit.
    """

    types: TypeDirective
    dims: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `-> (T{%d}, ...)`: result types, each with the sizes of its dynamic dimensions. No `->`: no results."""
        types: list[Attribute] = []
        dims: list[UnresolvedOperand] = []
        if parser.parse_optional_punctuation("->") is not None:
            # Without operands no result is tied to one.
            types, dims, _ = syntax.parse_tied_results(parser, names=[], types=[], with_dims=True)
        self.types.set(state, types)
        self.dims.set(state, dims)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> (T{%d}, ...)`."""
        types = self.types.get(op)
        # `dims` has the sizes of all results, one after the other.
        sizes_by_type = iter(syntax.split_dims(types, self.dims.get(op)))

        def print_type(type: Attribute) -> None:
            """Print a result type with its dynamic sizes, `T{%d}`; it is called once for each, in order."""
            printer.print_attribute(type)
            syntax.print_dims(printer, next(sizes_by_type))

        printer.print_string(" -> ")
        with printer.in_parens():
            printer.print_list(types, print_type)
        request_space(state)
