"""Operands, alone or among numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives.base import for_every_format


@for_every_format
class OneOperand(CustomDirective):
    """Directive for exactly one operand, where the operation definition allows several."""

    values: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse one operand, and set it as the only value of the operand."""
        self.values.set(state, (parser.parse_unresolved_operand(),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the operand."""
        state.print_whitespace(printer)
        printer.print_ssa_value(self.values.get(op)[0])


@for_every_format
class Mixed(CustomDirective):
    """Directive for a list `[4, %n]` of static numbers and index values.

    Attributes:
        values: The operands for the index values, in order.
        numbers: The property for the static numbers, an array that has DYNAMIC in place of each index value.
    """

    BRACKETS: ClassVar[tuple[str, str]] = ("[", "]")

    values: VariadicOperandVariable
    numbers: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a list such as `[%a, 4]`: set the operands to [%a], and the property to the numbers [DYNAMIC, 4].

        `BRACKETS` are the brackets of the list, square ones or parentheses.
        """
        delimiter = parser.Delimiter.SQUARE if self.BRACKETS[0] == "[" else parser.Delimiter.PAREN
        names, numbers = parse_mixed(parser, delimiter)
        self.values.set(state, names)
        definitions = state.op_type.get_irdl_definition().properties
        bases = definitions[self.numbers.name].constr.get_bases() or set()
        is_dense = DenseArrayBase in bases  # else the property is an ArrayAttr of integers
        self.numbers.set(state, _numbers(numbers, is_dense))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print values and numbers in the order of the list."""
        state.print_whitespace(printer)
        printer.print_string(self.BRACKETS[0])
        syntax.print_mixed(printer, syntax.mixed(self.numbers.get(op), self.values.get(op)))
        printer.print_string(self.BRACKETS[1])


@for_every_format
class MixedInParens(Mixed):
    """Directive for a list of static numbers and index values in parentheses, `(4, %n)`."""

    BRACKETS: ClassVar[tuple[str, str]] = ("(", ")")


def parse_mixed(parser: Parser, delimiter: Parser.Delimiter) -> tuple[list[UnresolvedOperand], list[int]]:
    """Parse a list of static numbers and SSA values: `[4, %n]` gives the values [%n] and the numbers [4, DYNAMIC]."""
    names: list[UnresolvedOperand] = []
    numbers: list[int] = []

    def parse_number() -> None:
        """Parse one item: a value, or a static number."""
        name = parser.parse_optional_unresolved_operand()
        if name is None:
            numbers.append(parser.parse_integer(allow_boolean=False))
        else:
            names.append(name)
            numbers.append(syntax.DYNAMIC)

    parser.parse_comma_separated_list(delimiter, parse_number, " in a list of numbers and values")
    return names, numbers


def _numbers(values: Sequence[int], is_dense: bool) -> Attribute:
    """Return integers of 64 bits as an attribute: a dense array, or an array of integer attributes."""
    return DenseArrayBase.from_list(i64, values) if is_dense else ArrayAttr([IntegerAttr(v, 64) for v in values])
