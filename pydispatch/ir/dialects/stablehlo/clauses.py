"""The parts of an operation's text that are `word = value`, one class for each kind of value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import AnyAttr, AnyOf, BaseAttr
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.dialects.stablehlo import attributes, records

Properties = dict[str, Attribute]
"""Properties of an operation by name, which clauses fill in while its text is parsed."""
NUMBERS = AnyOf((BaseAttr(DenseArrayBase), BaseAttr(DenseIntOrFPElementsAttr)))
"""Constraint of a list of integers: older releases write them as dense elements."""

NUMBER = IntegerAttr
"""Constraint of a single integer."""


class Clause:
    """Clause `word = value` of an operation's syntax, which stores the property `name`.

    `IntegersClause("sizes", "slice_sizes")` is the clause of `stablehlo.dynamic_slice` whose text
    `sizes = [1, 4]` stores the property `slice_sizes = array<i64: 1, 4>`.

    An instance belongs to the class of an operation: it is an entry of `RegularOp.CLAUSES`. `RegularOp` calls `opens`
    and then `parse` to read the text, and `is_present` and then `print` to write it. A subclass for a kind of value
    defines `parse_value` and `print_value`; one that stores several properties overrides `parse` and `print` instead.

    Attributes:
        constraint: Constraint of the property.
        word: The keyword before `=`.
        name: Name of the property; if not passed, it is the word.
        optional: Whether the text may omit the clause.
    """

    constraint: ClassVar[Any] = AnyAttr()

    def __init__(self, word: str, name: str | None = None, optional: bool = False) -> None:
        """Set the word, and the property, which has the same name by default."""
        self.word = word
        self.name = name or word
        self.optional = optional

    @property
    def properties(self) -> Mapping[str, Any]:
        """Return the constraints of the properties that the clause stores, by name."""
        return {self.name: self.constraint}

    def is_present(self, op: Operation) -> bool:
        """Return whether the clause is printed: whether `op` has the property."""
        return self.name in op.properties

    def opens(self, parser: Parser) -> bool:
        """Return whether the current token starts the clause."""
        return parser._current_token.text == self.word

    def parse(self, parser: Parser, properties: Properties) -> None:
        """Parse `word = value`, and store the value in `properties` by the name of the property."""
        parser.parse_keyword(self.word)
        parser.parse_punctuation("=")
        properties[self.name] = self.parse_value(parser)

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `word = value`."""
        printer.print_string(f"{self.word} = ")
        self.print_value(printer, op.properties[self.name])

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse the value after `=`."""
        raise NotImplementedError

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the value of the property, without `word =`."""
        raise NotImplementedError


class IntegersClause(Clause):
    """Clause with a list of integers, `dims = [0, 1]`."""

    constraint = NUMBERS

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse a list of integers, and return it as an array of 64-bit integers."""
        return DenseArrayBase.from_list(i64, records.parse_integers(parser))

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the integers of the property's value in brackets."""
        records.print_value(printer, attributes.integers(value))


class IntegerClause(Clause):
    """Clause with an integer, `dim = 0`."""

    constraint = NUMBER

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse an integer, and return it as an attribute of 64 bits."""
        return IntegerAttr(parser.parse_integer(allow_boolean=False), i64)

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the integer."""
        printer.print_string(str(value.value.data))


class Flag(Clause):
    """Clause with a boolean, `lower = true`."""

    constraint = BoolAttr

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse `true` or `false`, and return it as an attribute."""
        return attributes.flag(parser.parse_boolean())

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print `true` or `false`."""
        records.print_value(printer, bool(value.value.data))


class OneWord(Clause):
    """Clause with a keyword of the attribute class `kind`, `type = RFFT`."""

    def __init__(
        self, word: str, kind: type[attributes.KeywordAttr], name: str | None = None, optional: bool = False
    ) -> None:
        """Use the attribute class `kind` as the constraint. For the other arguments see `Clause`."""
        super().__init__(word, name, optional)
        self.kind = self.constraint = kind  # type: ignore[misc]

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse a keyword of `kind`; raise ParseError for another word."""
        return self.kind(self.kind.parse_parameter(parser))

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the keyword."""
        printer.print_string(value.data)


class Precisions(Clause):
    """Clause with the precision of each operand, `precision = [DEFAULT, HIGHEST]`."""

    constraint = ArrayAttr

    def __init__(self) -> None:
        """Create the clause `precision = [...]`, which texts may omit, of the property `precision_config`."""
        super().__init__("precision", "precision_config", optional=True)

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse the precision of each operand, `[HIGHEST, DEFAULT]`, and return them as an ArrayAttr."""

        def parse_precision() -> attributes.Precision:
            """Parse the precision of one operand, such as HIGHEST."""
            return attributes.Precision(attributes.Precision.parse_parameter(parser))

        return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_precision))

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the keywords, `[DEFAULT, HIGHEST]`."""
        with printer.in_square_brackets():
            printer.print_list(value.data, lambda word: printer.print_string(word.data))


class RecordClause(Clause):
    """Clause with a record of fields, `algorithm = <...>`, an attribute of the class `kind`."""

    def __init__(self, word: str, kind: type[records.Record], optional: bool = False) -> None:
        """Use the attribute class `kind` as the constraint. For the other arguments see `Clause`."""
        super().__init__(word, optional=optional)
        self.kind = self.constraint = kind  # type: ignore[misc]

    def parse_value(self, parser: Parser) -> Attribute:
        """Parse the fields in angle brackets, and return them as an attribute of `kind`."""
        return self.kind(self.kind.parse_parameter(parser))

    def print_value(self, printer: Printer, value: Any) -> None:
        """Print the fields in angle brackets."""
        value.print_parameter(printer)
