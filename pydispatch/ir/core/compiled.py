"""Directives as functions: what is the same for every operation of a format is decided once.

A directive that has no function here is read and printed by its own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.irdl import OpDef, VariadicDef
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    FormatDirective,
    KeywordDirective,
    OperandVariable,
    OptionalGroupDirective,
    ParsingState,
    PrintingState,
    PunctuationDirective,
    ResultVariable,
    TypeDirective,
)

Read = Callable[[Any, ParsingState], None]
"""Function read(parser, state) that parses the text of one directive into the state."""
Write = Callable[[Any, PrintingState, Any], None]
"""Function write(printer, state, operation) that prints the text of one directive."""


# --- reading ---


def reader(directive: FormatDirective) -> Read:
    """Return a function that does the same as `directive.parse`, faster for the most frequent kinds of directives."""
    match directive:
        case OperandVariable(index=index):
            return _read_operand(index)
        case KeywordDirective(word) | PunctuationDirective(word):
            return _read_literal(directive, word)
        case TypeDirective(OperandVariable(index=index)):
            return _read_operand_type(index)
        case TypeDirective(ResultVariable(index=index)):
            return _read_result_type(index)
        case AttrDictDirective(with_keyword=keyword):
            return _read_if_next("attributes" if keyword else "{", directive.parse)
        case OptionalGroupDirective(then_first=KeywordDirective(word) | PunctuationDirective(word)):
            return _read_group(directive, word)
    return directive.parse


def _read_operand(index: int) -> Read:
    """Return the reader of the operand with this index in the operation's definition, which is one value."""

    def read(parser: Any, state: ParsingState) -> None:
        """Parse one operand, and set operand `index` of the definition to it."""
        state.operands[index] = (parser.parse_unresolved_operand(),)

    return read


def _read_operand_type(index: int) -> Read:
    """Return the reader of the type of the operand with this index in the operation's definition."""

    def read(parser: Any, state: ParsingState) -> None:
        """Parse one type, and set it as the type of operand `index` of the definition."""
        state.operand_types[index] = (parser.parse_type(),)

    return read


def _read_result_type(index: int) -> Read:
    """Return the reader of the type of the result with this index in the operation's definition."""

    def read(parser: Any, state: ParsingState) -> None:
        """Parse one type, and set it as the type of result `index` of the definition."""
        state.result_types[index] = (parser.parse_type(),)

    return read


def _read_literal(directive: FormatDirective, text: str) -> Read:
    """Return a reader of the token `text`; `directive` is the keyword or punctuation directive for it."""

    def read(parser: Any, state: ParsingState) -> None:
        """Consume the token, or raise the directive's error for a missing one."""
        if parser.parse_optional_characters(text) is None:
            directive.parse(parser, state)  # raises the error, which says what is missing

    return read


def _read_if_next(token: str, parse: Read) -> Read:
    """Return a reader that calls `parse` only if the current token is `token`, and reads nothing otherwise."""

    def read(parser: Any, state: ParsingState) -> None:
        """Call `parse` if the current token is `token`."""
        if parser._parser_state.current_token.text == token:
            parse(parser, state)

    return read


def _read_group(group: OptionalGroupDirective, word: str) -> Read:
    """Return a reader of an optional group that starts with the token `word`.

    If the text has the token, the rest of the group follows; else the alternative after `:`, if the format has one.
    """
    # Besides the directives that are read, the operands and attributes of the other alternative are set to absent.
    present = [reader(directive) for directive in group.then_elements] + _absence_recorders(group.else_elements)
    left_out = _absence_recorders(group.then_elements) + [reader(directive) for directive in group.else_elements]

    def read(parser: Any, state: ParsingState) -> None:
        """Read the rest of the group if `word` is next, which is consumed; else read the alternative."""
        for step in left_out if parser.parse_optional_characters(word) is None else present:
            step(parser, state)

    return read


def _absence_recorders(directives: Sequence[FormatDirective]) -> list[Read]:
    """Return functions that record the absence of the operands and attributes of an omitted group."""

    def recorder(directive: FormatDirective) -> Read:
        """Return the function that records the absence of one directive's value; it reads nothing."""
        return lambda _, state: directive.set_empty(state)

    # `set_empty` of the base class does nothing.
    return [recorder(element) for element in directives if type(element).set_empty is not FormatDirective.set_empty]


# --- printing ---


def writer(directive: FormatDirective, definition: OpDef) -> Write:
    """Return a function that does the same as `directive.print`, faster for the most frequent kinds of directives.

    `definition` is that of the operation: operands are specialized only if none is variadic or optional.
    """
    match directive:
        case OperandVariable(index=index) if _all_single(definition.operands):
            return _write_operand(index)
        case TypeDirective(OperandVariable(index=index)) if _all_single(definition.operands):
            return _write_operand_type(index)
        case TypeDirective(ResultVariable(index=index)) if _all_single(definition.results):
            return _write_result_type(index)
        case PunctuationDirective(text):
            return _write_punctuation(text)
        case OptionalGroupDirective():
            return _write_group(directive, definition)
    return directive.print


def _all_single(definitions: Sequence[tuple[str, Any]]) -> bool:
    """Return whether none of these operands or results, (name, definition), is variadic or optional.

    Their indices in the definition of the operation are then those of the values in an operation.
    """
    return not any(isinstance(definition, VariadicDef) for _, definition in definitions)


def _write_operand(index: int) -> Write:
    """Return a writer of the operand with this index."""

    def write(printer: Any, state: PrintingState, op: Any) -> None:
        """Print an operand, after a space where words would touch."""
        if state.should_emit_space or not state.last_was_punctuation:
            printer.print_string(" ")
        state.should_emit_space, state.last_was_punctuation = True, False
        printer.print_ssa_value(op._operands[index])

    return write


def _write_operand_type(index: int) -> Write:
    """Return a writer of the type of the operand with this index."""

    def write(printer: Any, state: PrintingState, op: Any) -> None:
        """Print the type of the operand, after a space if one is due."""
        state.print_whitespace(printer)
        printer.print_attribute(op._operands[index].type)

    return write


def _write_result_type(index: int) -> Write:
    """Return a writer of the type of the result with this index."""

    def write(printer: Any, state: PrintingState, op: Any) -> None:
        """Print the type of the result, after a space if one is due."""
        state.print_whitespace(printer)
        printer.print_attribute(op.results[index].type)

    return write


def _write_punctuation(text: str) -> Write:
    """Return a writer of a punctuation token, with the spaces that belong to it."""
    # Texts where the state asks for a space, which some tokens omit.
    text_after_punctuation = " " + text if text not in (">", ")", "}", "]", ",") else text
    text_after_word = " " + text if text not in ("<", ">", "(", ")", "{", "}", "[", "]", ",") else text
    space_follows = text not in ("<", "(", "{", "[")

    def write(printer: Any, state: PrintingState, op: Any) -> None:
        """Print a literal with the spaces that the state asks for."""
        if not state.should_emit_space:
            printer.print_string(text)
        else:
            printer.print_string(text_after_punctuation if state.last_was_punctuation else text_after_word)
        state.should_emit_space, state.last_was_punctuation = space_follows, True

    return write


def _write_group(group: OptionalGroupDirective, definition: OpDef) -> Write:
    """Return a writer of an optional group: it prints the group if the operation has a value for the anchor (`^`)."""
    present = [
        writer(directive, definition) for directive in (*group.then_whitespace, group.then_first, *group.then_elements)
    ]
    left_out = [writer(directive, definition) for directive in group.else_elements]
    is_present = group.anchor.is_present

    def write(printer: Any, state: PrintingState, op: Any) -> None:
        """Print the group if the anchor is present in `op`, else the alternative."""
        for step in present if is_present(op) else left_out:
            step(printer, state, op)

    return write
