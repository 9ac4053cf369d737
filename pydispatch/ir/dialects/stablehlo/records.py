"""Attributes that are records, `<field = value, ...>`: parsing and printing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Record(Data[Any]):
    """Base of attributes that are records: `#stablehlo.gather<offset_dims = [0], index_vector_dim = 1>`.

    The fields may have any order, and those with their default values are omitted. The value `data` of an attribute is
    an instance of `VALUE`: here `GatherNumbers(offset_dims=(0,), index_vector_dim=1)`, whose other fields are `()`.
    """

    VALUE: ClassVar[type[tuple[Any, ...]]]
    """NamedTuple with a default for each field, whose type decides what is parsed: a list of integers for a tuple, an
    integer for an int, a boolean for a bool or None, a type for a NoneAttr."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        """Parse `<field = value, ...>`; fields that are left out have their defaults."""
        defaults: dict[str, Any] = cls.VALUE._field_defaults  # type: ignore[attr-defined]
        with parser.in_angle_brackets():
            return cls.VALUE(**parse_fields(parser, defaults, f"#{cls.name}"))

    def print_parameter(self, printer: Printer) -> None:
        """Print `<name = value, ...>` with the fields that differ from their defaults.

        `data` is the record, an instance of the NamedTuple class `VALUE`, whose fields all have defaults.
        """
        defaults: dict[str, Any] = self.VALUE._field_defaults  # type: ignore[attr-defined]
        changed = [(name, value) for name, value in zip(defaults, self.data, strict=True) if value != defaults[name]]

        def print_field(entry: tuple[str, Any]) -> None:
            """Print `name = value`."""
            name, value = entry
            printer.print_string(f"{name} = ")
            print_value(printer, value)

        with printer.in_angle_brackets():
            printer.print_list(changed, print_field)


def parse_fields(parser: AttrParser, defaults: Mapping[str, Any], attribute_name: str) -> dict[str, Any]:
    """Parse `field = value, ...` up to a closing `>`, which a comma may precede; return the stated values by field.

    Args:
        parser: Parser, positioned after the opening `<`.
        defaults: A default for each field; its type determines the kind of the value.
        attribute_name: Name of the attribute in error messages, such as "#stablehlo.gather".
    """
    fields: dict[str, Any] = {}
    while parser._current_token.text != ">":
        start = parser.pos
        name = parser.parse_identifier()
        if name not in defaults or name in fields:
            problem = "is given twice" if name in fields else f"is not one of {', '.join(defaults)}"
            parser.raise_error(f"'{name}' {problem} in {attribute_name}", start, start + len(name))
        parser.parse_punctuation("=")
        fields[name] = _READ[type(defaults[name])](parser)  # integers for a tuple, a boolean for a bool, ...
        if parser.parse_optional_punctuation(",") is None:
            break
    return fields


def parse_integers(parser: AttrParser) -> tuple[int, ...]:
    """Parse a list of integers, `[1, 2]`."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))


_READ: dict[type, Callable[[AttrParser], Any]] = {
    tuple: parse_integers,
    int: lambda parser: parser.parse_integer(allow_boolean=False),
    bool: lambda parser: parser.parse_boolean(),
    type(None): lambda parser: parser.parse_boolean(),  # the default of a boolean that may be absent
    NoneAttr: lambda parser: parser.parse_type(),  # the default of a type that may be absent
}
"""Parsers of a field's value, by the type of the field's default."""


def print_value(printer: Printer, value: Any) -> None:
    """Print a tuple of integers as `[1, 2]`, an integer as `1`, a boolean as `true` or `false`, or a type."""
    if isinstance(value, Attribute):
        printer.print_attribute(value)
    elif isinstance(value, tuple):
        printer.print_string(f"[{', '.join(map(str, value))}]")
    else:
        printer.print_string(str(value).lower())
