"""Types and attributes of TOSA."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pydispatch.ir.core.enumeration import Enumeration


@irdl_attr_definition
class ShapeType(Data[int], TypeAttribute):
    """Type of a list of sizes, `!tosa.shape<3>` for three sizes; `data` is their number."""

    name = "tosa.shape"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        """Parse `<3>`."""
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<3>`."""
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_attr_definition
class NanMode(Enumeration):
    """NaN mode of minimum and maximum: PROPAGATE a NaN operand, or IGNORE it and return the other operand."""

    name = "tosa.nan_mode"
    WORDS: ClassVar = ("PROPAGATE", "IGNORE")


@irdl_attr_definition
class RoundingMode(Enumeration):
    """Rounding mode of `rescale`: the scaled value is rounded once, twice, or in a way that is left open."""

    name = "tosa.rounding_mode"
    WORDS: ClassVar = ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND")


@irdl_attr_definition
class ResizeMode(Enumeration):
    """Interpolation mode of a resized image."""

    name = "tosa.resize_mode"
    WORDS: ClassVar = ("NEAREST_NEIGHBOR", "BILINEAR")


class ZeroPoints(ParametrizedAttribute):
    """Base of zero points of quantized tensors, `<input_zp = 3, weight_zp = 0>`, as releases before 1.0 write them.

    `values` holds the integers by these names.
    """

    values: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parse `<name = value, ...>`."""
        with parser.in_angle_brackets():
            entries = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser._parse_attribute_entry)
        return [DictionaryAttr(dict(entries))]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<name = value, ...>`."""

        def print_entry(item: tuple[str, Attribute]) -> None:
            """Print `name = value`."""
            name, value = item
            printer.print_string(f"{name} = ")
            printer.print_attribute(value)

        with printer.in_angle_brackets():
            printer.print_list(self.values.data.items(), print_entry)


@irdl_attr_definition
class ConvQuant(ZeroPoints):
    """Zero points of a convolution."""

    name = "tosa.conv_quant"


@irdl_attr_definition
class MatMulQuant(ZeroPoints):
    """Zero points of a matrix product."""

    name = "tosa.matmul_quant"


@irdl_attr_definition
class PadQuant(ZeroPoints):
    """Zero point of a padding."""

    name = "tosa.pad_quant"


@irdl_attr_definition
class UnaryQuant(ZeroPoints):
    """Zero points of a unary operation."""

    name = "tosa.unary_quant"


ATTRIBUTES: list[type[Attribute]] = [
    ShapeType, NanMode, RoundingMode, ResizeMode, ConvQuant, MatMulQuant, PadQuant, UnaryQuant,
]  # fmt: skip
