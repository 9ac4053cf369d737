"""StableHLO's form of the assertions of the `check` dialect, `check.expect_eq %a, %b, word = value : T`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, StringAttr, TensorType, f32, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer


def _parse_number(parser: Parser) -> Attribute:
    """Parse an integer of at least 0."""
    return IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), i64)


def _parse_tolerance(parser: Parser) -> Attribute:
    """Parse a number as f32."""
    return FloatAttr(float(parser.parse_number()), f32)


WORDS: dict[str, tuple[str, Callable[[Parser], Attribute]]] = {
    "tolerance": ("atol", _parse_tolerance),
    "max_ulp_difference": ("max_ulp_difference", _parse_number),
    "min_ulp_difference": ("min_ulp_difference", _parse_number),
    "probe_id": ("probe_id", lambda parser: StringAttr(parser.parse_str_literal())),
    "iter": ("iteration", _parse_number),
}
"""Word of an option `word = value` of StableHLO → name of its property, and the function that parses the value."""


def parse_stablehlo_form(kind: type[Any], parser: Parser, *words: str) -> Any:
    """Parse an assertion in StableHLO's form, `%a, %b, word = value : T`, after its name.

    The definition of the class decides what follows `%a`: the operand `rhs`, a typed constant for the property `value`,
    or neither, as in these three lines:

        check.expect_almost_eq %a, %b, tolerance = 0.1 : tensor<4xf32>
        check.expect_eq_const %a, dense<0> : tensor<4xi32>
        check.expect_serialized_eq %a, probe_id = "p", iter = 1 : tensor<4xf32>

    Args:
        kind: Class of the assertion.
        parser: The parser.
        words: Names of the options `word = value` that the assertion may have: keys of `WORDS`.

    Returns:
        The assertion, an instance of `kind`.
    """
    operands = [parser.parse_unresolved_operand()]
    properties: dict[str, Attribute] = {}
    type: Attribute | None = None  # the type of all operands
    definition = kind.get_irdl_definition()
    if "value" in definition.properties:
        parser.parse_punctuation(",")
        start = parser.pos
        properties["value"] = parser.parse_attribute()
        type = getattr(properties["value"], "type", None)
        if not isinstance(type, TensorType):
            parser.raise_error("expected a constant with its type, such as dense<0> : tensor<4xi32>", start, parser.pos)
    elif "rhs" in dict(definition.operands):
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
    _parse_options(parser, words, properties)
    attributes = parser.parse_optional_attr_dict()
    if type is None:
        type = _parse_operand_type(parser, attributes)
    # `check.expect_close` may have two types, `: tensor<3xf32>, tensor<3xf32>`, which are equal.
    if kind.name == "check.expect_close" and parser.parse_optional_punctuation(",") is not None:
        parser.parse_type()
    # The tolerance may also be in the dictionary: `check.expect_almost_eq %a, %b {tolerance = 0.1 : f32} : T`.
    if isinstance(tolerance := attributes.pop("tolerance", None), FloatAttr) and "tolerance" in words:
        properties["atol"] = FloatAttr(tolerance.value.data, f32)
    values = [parser.resolve_operand(operand, type) for operand in operands]
    return kind.create(operands=values, properties=properties, attributes=attributes)


def _parse_options(parser: Parser, words: Sequence[str], properties: dict[str, Attribute]) -> None:
    """Parse options `, word = value` into their properties; `words` are the options that may occur, each once."""
    while parser.parse_optional_punctuation(",") is not None:
        start = parser.pos
        word = parser.parse_identifier()
        if word not in words or WORDS[word][0] in properties:
            wanted = " and ".join(words) or "no option"
            parser.raise_error(f"expected {wanted}, each once, got '{word}'", start, parser.pos)
        parser.parse_punctuation("=")
        name, parse_value = WORDS[word]
        properties[name] = parse_value(parser)


def _parse_operand_type(parser: Parser, attributes: dict[str, Attribute]) -> Attribute:
    """Parse `: type` with the type of all operands; a dictionary before the type is added to `attributes`.

    In `probe_id = "a", iter = 3 : i64 : tensor<4xf32>`, i64 is the type of the last option's number: types of numbers
    are skipped.
    """
    while True:
        parser.parse_punctuation(":")
        attributes |= parser.parse_optional_attr_dict()
        type = parser.parse_type()
        if not isinstance(type, AnyFloat | IntegerType):
            return type


def print_stablehlo_form(op: IRDLOperation, printer: Printer, words: Sequence[str]) -> None:
    """Print an assertion in StableHLO's form, with those of the options `words` that it has."""
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_ssa_value)
    for word in words:
        value = op.properties.get(WORDS[word][0])
        if value is not None:
            printer.print_string(f", {word} = ")
            text = f'"{value.data}"' if isinstance(value, StringAttr) else str(value.value.data)  # type: ignore[attr-defined]
            printer.print_string(text)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.operands[0].type)
