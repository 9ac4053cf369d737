"""Constants whose bytes come from outside of the program: `#flow.parameter.named<"scope"::"key"> : tensor<…>`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pydispatch.ir.core.syntax import EMPTY_DICT


class ParameterAttr(ParametrizedAttribute):
    """Base of attributes for constants whose bytes are supplied when the program is loaded.

    Attributes:
        scope: Name of a set of parameters, such as those of one file; may be "".
        key: Name of the parameter in its scope.
        config: Configuration dictionary, printed again but otherwise ignored.
        type: Type of the constant.
    """

    scope: StringAttr
    key: StringAttr
    config: DictionaryAttr
    type: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<"scope"::"key", config> : type`; scope and configuration may be left out."""
        config: Attribute = EMPTY_DICT
        with parser.in_angle_brackets():
            scope, key = "", parser.parse_str_literal()
            if parser.parse_optional_punctuation(":") is not None:
                parser.parse_punctuation(":")
                scope, key = key, parser.parse_str_literal()
            if parser.parse_optional_punctuation(",") is not None:
                config = parser.parse_attribute()
        parser.parse_punctuation(":", " and the type of the parameter")
        type = parser.parse_type()
        return [StringAttr(scope), StringAttr(key), config, type]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"scope"::"key", config> : type`, without an empty scope and an empty configuration."""
        with printer.in_angle_brackets():
            if self.scope.data:
                printer.print_string_literal(self.scope.data)
                printer.print_string("::")
            printer.print_string_literal(self.key.data)
            if self.config.data:
                printer.print_string(", ")
                printer.print_attribute(self.config)
        printer.print_string(" : ")
        printer.print_attribute(self.type)


@irdl_attr_definition
class FlowParameterAttr(ParameterAttr):
    """Constant `#flow.parameter.named<"scope"::"key"> : type`, whose bytes are supplied when the program is loaded.

    Normalization rewrites `#stream.parameter.named` to it. `ParameterAttr` describes the fields.
    """

    name = "flow.parameter.named"
    scope: StringAttr
    key: StringAttr
    config: DictionaryAttr
    type: Attribute


@irdl_attr_definition
class StreamParameterAttr(ParameterAttr):
    """Constant whose bytes are supplied at load, as IREE's later phases spell it, `#stream.parameter.named`.

    `ParameterAttr` describes the fields.
    """

    name = "stream.parameter.named"
    scope: StringAttr
    key: StringAttr
    config: DictionaryAttr
    type: Attribute
