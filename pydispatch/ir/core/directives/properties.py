"""Properties: types, constants, numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives.base import directive, for_every_format


@directive
class _Property(CustomDirective):
    """Base of directives for one property, which may decide whether an optional group is printed (its anchor).

    Attributes:
        value: The property; `value.set(state, ...)` sets it for the operation that is parsed.
    """

    value: AttributeVariable

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether `op` has the property, so that its optional group is printed."""
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        """Return True: the property may decide whether its optional group is printed."""
        return True


@for_every_format
class TypeValue(CustomDirective):
    """Directive for a property that is a type."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the type, and set the property to it."""
        self.value.set(state, parser.parse_type())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type that is the property's value."""
        self.value.print(printer, state, op)


@for_every_format
class TypedConstant(CustomDirective):
    """Directive for a constant `value`, or `value -> T` if the type T of the result differs from that of the constant,
    for example by dynamic sizes.
    """

    value: AttributeVariable
    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a typed constant, such as `dense<0> : tensor<4xi32>`; its type is also the result's, unless `-> type`
        follows."""
        start = parser.pos
        value = parser.parse_attribute()
        type = getattr(value, "type", None)
        if parser.parse_optional_punctuation("->") is not None:
            type = parser.parse_type()
        if not isinstance(type, Attribute):
            parser.raise_error("expected a typed constant", start, parser.pos)
        self.value.set(state, value)
        self.type.set(state, (type,))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the constant, and the type of the result where it differs."""
        self.value.print(printer, state, op)
        (type,) = self.type.get(op)
        if getattr(self.value.get(op), "type", None) != type:
            printer.print_string(" -> ")
            printer.print_attribute(type)


@for_every_format
class Index(_Property):
    """Directive for an integer of type index. The type may be present in the text and is not printed."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the integer, and set the property to it."""
        self.value.set(state, syntax.parse_integer_attr(parser, IndexType()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the number without its type."""
        value = self.value.get(op)
        assert isinstance(value, IntegerAttr)
        state.print_whitespace(printer)
        printer.print_string(str(value.value.data))


@for_every_format
class Visibility(CustomDirective):
    """Directive for the optional keyword `public`, `private` or `nested`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an optional visibility: public, private or nested."""
        if (visibility := parser.parse_optional_visibility_keyword()) is not None:
            self.value.set(state, visibility)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `public`, `private` or nothing."""
        visibility = self.value.get(op)
        if isinstance(visibility, StringAttr):
            state.print_whitespace(printer)
            printer.print_string(visibility.data)


@for_every_format
class Word(_Property):
    """Directive for a string property that is written without quotes."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an identifier, and set the property to its text."""
        self.value.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the text without quotes."""
        value = self.value.get(op)
        assert isinstance(value, StringAttr)
        state.print_whitespace(printer)
        printer.print_string(value.data)


@directive
class KeywordChoice(Word):
    """Directive for a keyword out of `WORDS`; `WHAT` describes these keywords in error messages."""

    WORDS: ClassVar[Sequence[str]] = ()
    WHAT: ClassVar[str] = ""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse one of the words."""
        start = parser.pos
        word = parser.parse_identifier(context_msg=f" for the {self.WHAT}")
        self.value.set(state, StringAttr(self._checked(parser, word, start)))

    def _checked(self, parser: Parser, word: str, start: int) -> str:
        """Return `word`, which begins at `start`; raise a parse error if it is not one of WORDS."""
        if word not in self.WORDS:
            known = " or ".join(self.WORDS) if len(self.WORDS) < 3 else f"one of {', '.join(self.WORDS)}"
            parser.raise_error(f"unknown {self.WHAT} '{word}', expected {known}", start, start + len(word))
        return word


@cache
def _index_attr(index: int) -> IntegerAttr:
    """Return an integer attribute of 64 bits, the same object for equal numbers."""
    return IntegerAttr(index, 64)


@directive
class NumberedChoice(KeywordChoice):
    """Directive for a keyword out of `WORDS`, bare or in quotes, whose property is the index of the keyword."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a word of `WORDS`, with or without quotes; the property is its index."""
        start = parser.pos
        word = parser.parse_optional_str_literal()
        if word is None:
            word = parser.parse_identifier(context_msg=f" for the {self.WHAT}")
        self.value.set(state, _index_attr(self.WORDS.index(self._checked(parser, word, start))))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the word for the number."""
        value = self.value.get(op)
        assert isinstance(value, IntegerAttr)
        state.print_whitespace(printer)
        printer.print_string(self.WORDS[value.value.data])

    @classmethod
    def verify_index(cls, index: IntegerAttr) -> None:
        """Raise VerifyException unless a number is the index of a word: the generic form may state any number."""
        if not 0 <= index.value.data < len(cls.WORDS):
            raise VerifyException(f"expected a {cls.WHAT} from 0 to {len(cls.WORDS) - 1}, got {index.value.data}")
