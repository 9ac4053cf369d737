"""Parsers and printers that several dialects share: shaped types, tied results, visibility, named attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, Region, SSAValue
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

DYNAMIC = DYNAMIC_INDEX  # the size `?` in a shape
AttrT = TypeVar("AttrT", bound=ParametrizedAttribute)  # class that `parse_attr_of` parses
_IDENTIFIER = re.compile(r"[a-zA-Z_][\w$.]*", re.ASCII)
"""Name of an attribute that is written without quotes."""


def dynamic_dims(type: Attribute) -> int:
    """Return the number of dynamic dimensions of a type; 0 for a type without a shape."""
    shape = getattr(type, "get_shape", None)
    return 0 if shape is None else sum(1 for d in shape() if d == DYNAMIC)


def split_dims(types: Iterable[Attribute], dims: Sequence[SSAValue]) -> list[tuple[SSAValue, ...]]:
    """Split the flat list of an operation's dynamic sizes into one tuple per type, empty for static types."""
    groups, start = [], 0
    for type in types:
        end = start + dynamic_dims(type)
        groups.append(tuple(dims[start:end]))
        start = end
    return groups


# --- parsing ---


def exact_names(
    arguments: Sequence[Parser.Argument], values: Sequence[SSAValue], attrs: Sequence[DictionaryAttr]
) -> list[DictionaryAttr]:
    """Return the attributes of a function's arguments, with names that xDSL shortens added as `pyd.name`.

    The name hint of a value `%x_1` is "x", but callers may pass arguments by their full name. `arguments` are the
    arguments as parsed, `values` their block arguments, and `attrs` their attributes.
    """
    result = []
    for argument, value, attributes in zip(arguments, values, attrs, strict=True):
        name = argument.name.text[1:]  # without `%`
        if value.name_hint is not None and name != value.name_hint and "pyd.name" not in attributes.data:
            attributes = DictionaryAttr({**attributes.data, "pyd.name": StringAttr(name)})
        result.append(attributes)
    return result


def parse_index_operands(parser: Parser, open: str = "[", close: str = "]") -> list[SSAValue]:
    """Parse operands of type index in brackets, `[%a, %b]`; return [] if there is no bracket."""
    operands: list[SSAValue] = []
    if parser.parse_optional_punctuation(open) is None:  # type: ignore[arg-type]
        return operands
    if parser.parse_optional_punctuation(close) is not None:  # type: ignore[arg-type]
        return operands
    while True:
        operands.append(parser.parse_operand(IndexType()))
        if parser.parse_optional_punctuation(",") is None:
            break
    parser.parse_punctuation(close)  # type: ignore[arg-type]
    return operands


def parse_dim_names(parser: Parser, type: Attribute) -> list[UnresolvedOperand]:
    """Parse the sizes `{%d0, %d1}` after a type, one per dynamic dimension; a static type has no braces.

    Tensors and memrefs with dynamic dimensions require the sizes; other types may omit them, which returns [].
    """
    start = parser.pos
    expected = dynamic_dims(type)
    may_have_dims = expected > 0 or hasattr(type, "get_shape")  # a `{` after a type without a shape begins a region
    if parser._current_token.text != "{" or not may_have_dims:
        must_have_dims = expected > 0 and getattr(type, "name", "") in ("tensor", "memref")
        if must_have_dims:
            parser.raise_error(
                f"{type} has {expected} dynamic dimension(s), which must be given as {{%dim, ...}}", start
            )
        return []
    dims = parser.parse_comma_separated_list(parser.Delimiter.BRACES, parser.parse_unresolved_operand)
    if len(dims) != expected:
        parser.raise_error(
            f"{type} has {expected} dynamic dimension(s), but {len(dims)} value(s) are given", start, parser.pos
        )
    return dims


class ShapedSignature(NamedTuple):
    """Parsed types of a dispatch or call, with the dynamic sizes of tensors.

    Attributes:
        argument_types: Types of the arguments.
        argument_dims: Operand names of the dynamic sizes of all arguments, flattened in order.
        result_types: Types of the results.
        result_dims: Operand names of the dynamic sizes of all results, flattened in order.
        tied: For each result, the index of the argument whose memory it reuses, or -1.
    """

    argument_types: list[Attribute]
    argument_dims: list[UnresolvedOperand]
    result_types: list[Attribute]
    result_dims: list[UnresolvedOperand]
    tied: list[int]


def parse_shaped_signature(
    parser: Parser, names: Sequence[UnresolvedOperand], with_dims: bool = True
) -> ShapedSignature:
    """Parse `(T{%d}, ...) -> (T{%d}, %operand{%d}, %operand as T{%d})`: types with their dynamic sizes in braces.

    A result that is written as an operand is tied to it: the result reuses the operand's memory. After the operands
    %a and %s, `(tensor<?xf32>{%n}, i32) -> (%a{%n}, i64)` gives the argument types [tensor<?xf32>, i32] with the sizes
    [%n], the result types [tensor<?xf32>, i64] with the sizes [%n], and `tied` [0, -1].

    Args:
        parser: The parser.
        names: The operands, parsed before: each has a type in the signature, and results may be tied to it.
        with_dims: Whether sizes `{%d}` are part of the syntax.
    """
    start = parser.pos
    types: list[Attribute] = []
    argument_dims: list[UnresolvedOperand] = []

    def parse_argument() -> None:
        """Parse `T{%d}`: append the type to `types`, and the sizes of its dynamic dimensions to `argument_dims`."""
        type = parser.parse_type()
        types.append(type)
        if with_dims:
            argument_dims.extend(parse_dim_names(parser, type))

    parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument, " in operand types")
    if len(types) != len(names):
        parser.raise_error(f"{len(names)} operand(s) are given, but {len(types)} operand type(s)", start, parser.pos)
    parser.parse_punctuation("->")
    return ShapedSignature(types, argument_dims, *parse_tied_results(parser, names, types, with_dims))


def parse_tied_results(
    parser: Parser, names: Sequence[UnresolvedOperand], types: Sequence[Attribute], with_dims: bool
) -> tuple[list[Attribute], list[UnresolvedOperand], list[int]]:
    """Parse one result or a list in parentheses: `T{%d}`, `%operand{%d}` or `%operand as T{%d}`.

    A result that is written as an operand is tied to it: the result is stored in the operand's memory, and has the
    operand's type unless `as T` follows. `names` and `types` are the operands that may be named, and their types.
    `with_dims` says whether sizes `{%d}` are part of the syntax.

    For the operands %a and %b, `(tensor<?xf32>{%n}, %b as i32)` gives [tensor<?xf32>, i32], [%n] and [-1, 1].

    Returns:
        The types of the results; the sizes of their dynamic dimensions, all in one list; for each result the index of
        the operand that it is tied to, or -1.
    """
    result_types: list[Attribute] = []
    result_dims: list[UnresolvedOperand] = []
    tied: list[int] = []
    operand_keys = [(n.operand_name, n.index) for n in names]  # index: i in `%name#i`

    def parse_result() -> None:
        """Parse one result, and append its type, its dynamic sizes and the operand that it is tied to."""
        name = parser.parse_optional_unresolved_operand()
        if name is None:
            type: Attribute = parser.parse_type()
            tied.append(-1)
        else:
            key = (name.operand_name, name.index)
            if key not in operand_keys:
                parser.raise_error(f"result is tied to %{name.operand_name}, which is not an operand of this operation",
                              name.span.start, name.span.end)  # fmt: skip
            tied.append(operand_keys.index(key))
            type = parser.parse_type() if parser.parse_optional_keyword("as") else types[tied[-1]]
        result_types.append(type)
        if with_dims:
            result_dims.extend(parse_dim_names(parser, type))

    if parser._current_token.text == "(":
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_result, " in result types")
    else:
        parse_result()
    return result_types, result_dims, tied


def tied_attr(tied: Sequence[int]) -> DenseArrayBase[Any] | None:
    """Return the property that stores, for each result, the index of its tied operand or -1; None if all are -1."""
    return DenseArrayBase.from_list(i64, list(tied)) if any(t >= 0 for t in tied) else None


def parse_signature_args(parser: Parser) -> list[Parser.Argument]:
    """Parse the arguments `(%name: type, ...)` of an inline region; a location may follow each."""

    def parse_argument() -> Parser.Argument:
        """Parse one argument of a block, and skip its location."""
        parsed = parser.parse_argument()
        parser.parse_optional_location()
        return parsed

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_argument, " in region arguments")


def parse_types(parser: Parser) -> list[Attribute]:
    """Parse one type `T`, or a list `(T, ...)`."""
    if parser._current_token.text == "(":
        return list(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type, " in result types"))
    return [parser.parse_type()]


def parse_attr_of(parser: AttrParser, kind: type[AttrT]) -> AttrT:
    """Parse an attribute of the class `kind`, `#name<...>` or only `<...>`; another class is a parse error."""
    start = parser.pos
    if parser._current_token.text == "<":
        parameters = kind.parse_parameters(parser)
        return kind(*parameters)
    attr = parser.parse_attribute()
    if not isinstance(attr, kind):
        parser.raise_error(f"expected a #{kind.name}", start, parser.pos)
    return attr


def parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """Parse an optional `attributes {...}`; return {} if it is absent."""
    if parser.parse_optional_keyword("attributes") is None:
        return {}
    return parser.parse_optional_attr_dict()


def parse_integer_attr(parser: Parser, type: Attribute) -> IntegerAttr[Any]:
    """Parse an integer `4` or `4 : T` as an attribute of the type `type`, whatever T is."""
    value = parser.parse_integer(allow_boolean=False)
    if parser.parse_optional_punctuation(":") is not None:
        parser.parse_type()
    return IntegerAttr(value, type)


def mixed(numbers: Attribute | None, values: Iterable[SSAValue]) -> list[int | SSAValue]:
    """Return integers and values as one list: [4, DYNAMIC, 8] with the values [%n] gives [4, %n, 8].

    Args:
        numbers: ArrayAttr or DenseArrayBase of integers, in which DYNAMIC marks a value.
        values: As many values as there are markers, in order.
    """
    if isinstance(numbers, ArrayAttr):
        listed = [n.value.data for n in numbers if isinstance(n, IntegerAttr)]
    else:
        assert isinstance(numbers, DenseArrayBase)
        listed = [int(n) for n in numbers.get_values()]
    dynamic = iter(values)
    return [next(dynamic) if n == DYNAMIC else n for n in listed]


# --- printing ---


def print_mixed(printer: Printer, items: Iterable[int | SSAValue]) -> None:
    """Print integers and values, separated by commas: `4, %n, 8`."""
    printer.print_list(items, lambda i: printer.print_ssa_value(i) if isinstance(i, SSAValue) else printer.print_int(i))


def print_visibility(printer: Printer, visibility: StringAttr | None) -> None:
    """Print ` private`, or another visibility, after a space; nothing for None."""
    if visibility is not None:
        printer.print_string(f" {visibility.data}")


def print_attributes(printer: Printer, attributes: Mapping[str, Attribute], keyword: bool = True) -> None:
    """Print ` attributes {...}`, or ` {...}` without the keyword; nothing if there are no attributes."""
    if not attributes:
        return
    printer.print_string(" attributes {" if keyword else " {")
    printer.print_list(attributes.items(), lambda item: _print_entry(printer, *item))
    printer.print_string("}")


def _print_entry(printer: Printer, name: str, value: Attribute) -> None:
    """Print `name = value`, or the name alone for a unit attribute; a name that is no identifier is quoted."""
    if _IDENTIFIER.fullmatch(name):
        printer.print_string(name)
    else:
        printer.print_string_literal(name)
    if not isinstance(value, UnitAttr):
        printer.print_string(" = ")
        printer.print_attribute(value)


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """Print a single type as `T`, an empty or longer list as `(T, U)`."""
    if len(types) == 1:
        printer.print_attribute(types[0])
    else:
        with printer.in_parens():
            printer.print_list(types, printer.print_attribute)


def print_dims(printer: Printer, dims: Sequence[SSAValue]) -> None:
    """Print dynamic sizes in braces; nothing if there are none."""
    if dims:
        printer.print_string("{")
        printer.print_list(dims, printer.print_ssa_value)
        printer.print_string("}")


def print_operands(printer: Printer, operands: Sequence[SSAValue], open: str = "(", close: str = ")") -> None:
    """Print `(%a, %b)`, or with other brackets."""
    printer.print_string(open)
    printer.print_list(operands, printer.print_ssa_value)
    printer.print_string(close)


def print_results(
    printer: Printer,
    types: Sequence[Attribute],
    dims: Sequence[SSAValue],
    tied: Sequence[int] | None,
    print_operand: Callable[[int], object],
    operand_types: Sequence[Attribute],
) -> None:
    """Print result types in the syntax that `parse_tied_results` parses: `T{%d}` or `%operand as T{%d}`.

    The second form is that of a tied result, which is stored in the memory of an operand. For the results
    tensor<?xf32>, of the size %n, and i32, tied to %b of another type, print `(tensor<?xf32>{%n}, %b as i32)`.

    Args:
        printer: The printer.
        types: The result types.
        dims: Dynamic sizes of all results, in order; empty if they are not part of the syntax.
        tied: For each result, the index of the operand that it is tied to, or -1; None if no result is tied.
        print_operand: Function that prints the operand with an index.
        operand_types: Types of the operands: a tied result of the same type is printed without `as T`.
    """
    dims_of_results = split_dims(types, dims) if dims else [()] * len(types)

    def print_result(i: int) -> None:
        """Print `T{%d}` of result `i`; or `%operand{%d}`, with `as T` for another type, if it is tied to an operand."""
        if tied is not None and tied[i] >= 0:
            print_operand(tied[i])
            if operand_types[tied[i]] != types[i]:
                printer.print_string(" as ")
                printer.print_attribute(types[i])
        else:
            printer.print_attribute(types[i])
        print_dims(printer, dims_of_results[i])

    if len(types) == 1:
        print_result(0)
    else:
        printer.print_string("(")
        printer.print_list(range(len(types)), print_result)
        printer.print_string(")")


def print_shaped_signature(
    printer: Printer,
    arguments: Sequence[SSAValue],
    argument_dims: Sequence[SSAValue],
    result_types: Sequence[Attribute],
    result_dims: Sequence[SSAValue],
    tied: Sequence[int] | None,
) -> None:
    """Print the types of `arguments` and results in the syntax that `parse_shaped_signature` parses.

    For example, print `(tensor<?xf32>{%n}, i32) -> (%a{%n}, i64)` for the arguments %a and %s and `tied` [0, -1].

    `argument_dims` and `result_dims` are flattened sizes, empty if they are not part of the syntax. `tied` has for each
    result the index of the argument whose memory it reuses, or -1; it is None if no result is tied.
    """
    types = [a.type for a in arguments]
    groups = split_dims(types, argument_dims) if argument_dims else [()] * len(types)
    printer.print_string("(")

    def print_type(i: int) -> None:
        """Print `T{%d}`, the type of argument `i` with its dynamic sizes."""
        printer.print_attribute(types[i])
        print_dims(printer, groups[i])

    printer.print_list(range(len(types)), print_type)
    printer.print_string(") -> ")
    print_results(printer, result_types, result_dims, tied, lambda i: printer.print_ssa_value(arguments[i]), types)


def print_region_signature(printer: Printer, region: Region, results: Sequence[Attribute] | None) -> None:
    """Print `(%a: T) -> (R) {...}`: the arguments of a region's entry block, types, and the region without a label.

    `results` are the types R; None omits `-> (R)`. A single type is printed without parentheses.
    """
    block = region.blocks.first
    assert block is not None
    with printer.in_parens():
        printer.print_list(block.args, printer.print_block_argument)
    if results is not None:
        printer.print_string(" -> ")
        if len(results) == 1:
            printer.print_attribute(results[0])
        else:
            with printer.in_parens():
                printer.print_list(results, printer.print_attribute)
    printer.print_string(" ")
    printer.print_region(region, print_entry_block_args=False, print_empty_block=True)


def tied_list(tied: DenseArrayBase[Any] | None) -> tuple[int, ...] | None:
    """Return the property that `tied_attr` builds as a tuple: for each result the index of its tied operand, or -1.

    Return None if the property is absent.
    """
    return None if tied is None else tuple(int(v) for v in tied.get_values())


def strings(items: Iterable[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(s) for s in items])


EMPTY_DICT = DictionaryAttr({})  # attributes of an argument or result that has none
