"""The `func` dialect of xDSL; here declarations, functions without a body, keep the attributes of their arguments."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, Dialect, Region
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.refine import refine

_IN_SYNTAX = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")
"""Properties that the syntax of a function states elsewhere than in `attributes {...}`."""


def _parse(cls: type[func.FuncOp], parser: Parser) -> func.FuncOp:
    """Parse `visibility @name(%a: T {...}, ...) -> (T {...}, ...) attributes {...} {...}`.

    A declaration has no body, and its arguments need no names.
    """
    # The declaration. `_IN_SYNTAX` are the properties that it states, which `attributes {...}` may not repeat.
    visibility = parser.parse_optional_visibility_keyword()
    name = parser.parse_symbol_name().data
    start = parser.pos
    arguments = _parse_arguments(parser)
    results, res_attrs = _parse_results(parser)
    extra = parser.parse_optional_attr_dict_with_keyword(_IN_SYNTAX)
    # The body, whose entry block has the arguments; an empty region for a declaration.
    arg_attrs = arguments.attrs
    body = Region()
    if parser._current_token.text == "{":
        if len(arguments.named) != len(arguments.types):
            parser.raise_error("the arguments of a function with a body have names", start, start + 1)
        body = parser.parse_region(arguments.named)
        if visibility is None or visibility.data != "private":  # callers may pass arguments by name
            # A name that xDSL shortens, such as `%x_1` to "x", is stored as an attribute.
            arg_attrs = syntax.exact_names(arguments.named, body.blocks[0].args, arg_attrs)
    op = func.FuncOp(
        name,
        (arguments.types, results),
        body,
        visibility,
        arg_attrs=_none_if_all_empty(arg_attrs),
        res_attrs=_none_if_all_empty(res_attrs),
    )
    if extra is not None:
        op.attributes |= extra.data
    return op


class _Arguments(NamedTuple):
    """Arguments of a function as its text declares them."""

    named: list[Parser.Argument]  # those with names: all, or none in a declaration
    types: list[Attribute]  # of all arguments
    attrs: list[DictionaryAttr]  # of all arguments; empty dictionaries for those without attributes


def _parse_arguments(parser: Parser) -> _Arguments:
    """Parse `(%name: type {attributes} loc(...), ...)`, or `(type {attributes}, ...)` in a declaration.

    Return the arguments with names (none in a declaration), the types of all, and their attributes: empty dictionaries
    for those without any.
    """
    arguments = _Arguments([], [], [])

    def parse_argument() -> None:
        """Parse `%name: type {attributes} loc(...)`, or `type {attributes} loc(...)` without a name, into `arguments`.

        Names may be omitted for all arguments only, as in a declaration.
        """
        start = parser.pos
        named = parser.parse_optional_argument()
        if named is None:
            arguments.types.append(parser.parse_type())
        else:
            arguments.named.append(named)
            arguments.types.append(named.type)
        if 0 < len(arguments.named) < len(arguments.types):
            parser.raise_error("either all arguments have names or none has", start, parser.pos)
        arguments.attrs.append(DictionaryAttr(parser.parse_optional_dictionary_attr_dict()))
        location = parser.parse_optional_location()
        if named is not None:
            named.location = location

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument, " in function arguments")
    return arguments


def _parse_results(parser: Parser) -> tuple[list[Attribute], list[DictionaryAttr]]:
    """Parse `-> type`, `-> (type {attributes}, ...)` or nothing.

    Returns:
        The types; and the attributes of each result in parentheses, [] without parentheses.
    """
    types: list[Attribute] = []
    attrs: list[DictionaryAttr] = []

    def parse_result() -> None:
        """Parse `type {...}` of a result into `types` and `attrs`; the attributes are optional."""
        types.append(parser.parse_type())
        attrs.append(DictionaryAttr(parser.parse_optional_dictionary_attr_dict()))

    if parser.parse_optional_punctuation("->") is not None:
        if parser._current_token.text == "(":
            parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_result, " in function results")
        else:
            types.append(parser.parse_type())
    return types, attrs


def _none_if_all_empty(attrs: list[DictionaryAttr]) -> ArrayAttr[DictionaryAttr] | None:
    """Return the attribute of the dictionaries; None, which omits the property, if all are empty."""
    return ArrayAttr(attrs) if any(a.data for a in attrs) else None


def _print(op: func.FuncOp, printer: Printer) -> None:
    """Print `visibility @name(%a: T {...}, ...) -> (T {...}, ...) attributes {...} {...}`; without a body for a
    declaration, whose arguments have no names.
    """
    syntax.print_visibility(printer, op.sym_visibility)
    printer.print_string(" ")
    printer.print_symbol_name(op.sym_name.data)
    _print_arguments(op, printer)
    if op.function_type.outputs.data:
        printer.print_string(" -> ")
        _print_results(op, printer)
    syntax.print_attributes(printer, {k: v for k, v in op.attributes.items() if k not in _IN_SYNTAX})
    if op.body.blocks.first is not None:
        printer.print_string(" ")
        printer.print_region(op.body, print_entry_block_args=False, print_empty_block=False)


def _print_arguments(op: func.FuncOp, printer: Printer) -> None:
    """Print `(%a: T {...}, ...)`, the arguments and their attributes; in a declaration `(T {...}, ...)`."""
    types, block = op.function_type.inputs.data, op.body.blocks.first
    attrs = op.arg_attrs.data if op.arg_attrs is not None else [syntax.EMPTY_DICT] * len(types)

    def print_argument(i: int) -> None:
        if block is None:
            printer.print_attribute(types[i])
        else:
            printer.print_block_argument(block.args[i])
        syntax.print_attributes(printer, attrs[i].data, keyword=False)

    with printer.in_parens():
        printer.print_list(range(len(types)), print_argument)


def _print_results(op: func.FuncOp, printer: Printer) -> None:
    """Print the types of the results with their attributes: `(T {...}, ...)`, or `T` for a single one without any."""
    types = op.function_type.outputs.data
    # A function type as the only result needs the parentheses.
    if len(types) == 1 and op.res_attrs is None and types[0].name != "fun":
        printer.print_attribute(types[0])
        return
    attrs = op.res_attrs.data if op.res_attrs is not None else [syntax.EMPTY_DICT] * len(types)

    def print_result(i: int) -> None:
        printer.print_attribute(types[i])
        syntax.print_attributes(printer, attrs[i].data, keyword=False)

    with printer.in_parens():
        printer.print_list(range(len(types)), print_result)


refine(func.FuncOp, syntax=(_parse, _print))

Func: Dialect = func.Func  # xDSL's dialect, whose operations are refined above
