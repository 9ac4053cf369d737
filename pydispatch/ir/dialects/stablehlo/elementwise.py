"""Operations on each element: arithmetic, comparisons, choices, conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.core.elements import with_element
from pydispatch.ir.dialects.stablehlo.attributes import ComparisonDirection, ComparisonType
from pydispatch.ir.dialects.stablehlo.clauses import Clause, Properties
from pydispatch.ir.dialects.stablehlo.syntax import (
    FUNCTIONAL,
    SAME,
    Types,
    TypeSignature,
    make,
    opens_signature,
    operation,
    parse_attributes,
    print_attributes,
)

UNARY = (
    "abs", "cbrt", "ceil", "convert", "cosine", "count_leading_zeros", "exponential", "exponential_minus_one", "floor",
    "imag", "is_finite", "log", "log_plus_one", "logistic", "negate", "not", "popcnt", "real", "round_nearest_afz",
    "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
"""Operations, without their dialect, on each element of one operand."""
BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip
"""Operations on the elements at one index of two operands of one shape."""


class SelectSignature(TypeSignature):
    """Type syntax `P, T` of a select: the type of the predicate, then that of both choices and of the result."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse `predicate, type`, or a full signature `(P, T, T) -> T`. The number of operands is always 3."""
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        predicate = parser.parse_type()
        parser.parse_punctuation(",")
        type = parser.parse_type()
        return Types((predicate, type, type), [type])

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `predicate, type` if both choices and the result have the same type; otherwise print a signature."""
        predicate, *types = op.operand_types
        if {*types, *op.result_types} == {types[0]}:
            printer.print_list((predicate, types[0]), printer.print_attribute)
        else:
            super().print(printer, op)


class ComplexSignature(TypeSignature):
    """Type syntax `tensor<4xcomplex<f32>>` of `complex`: the result type, which implies that the real and the imaginary
    part are of type `tensor<4xf32>`."""

    def parse(self, parser: Parser, operand_count: int) -> Types:
        """Parse the type of the complex result, or a full signature `(T, T) -> U`. The number of operands is always 2.

        `tensor<4xcomplex<f32>>` states two operands of type tensor<4xf32>.
        """
        if opens_signature(parser):
            return super().parse(parser, operand_count)
        start = parser.pos
        type = parser.parse_type()
        # Type of the parts of a complex element: f32 for tensor<4xcomplex<f32>>; None for elements without parts.
        element = getattr(getattr(type, "element_type", None), "element_type", None)
        if element is None:
            parser.raise_error(f"expected a tensor of complex numbers, got {type}", start, parser.pos)
        part = with_element(type, element)
        return Types((part, part), [type])

    def print(self, printer: Printer, op: Operation) -> None:
        """Print the complex type of the result."""
        printer.print_attribute(op.result_types[0])


class Format(Clause):
    """Clause `format = e5m10`: 5 exponent bits and 10 mantissa bits, which are two properties."""

    def __init__(self) -> None:
        super().__init__(word="format", name="exponent_bits")  # is_present() looks at this property of the two

    @property
    def properties(self) -> Mapping[str, Any]:
        """The two properties that the clause sets, with the class of their attributes."""
        return {"exponent_bits": IntegerAttr, "mantissa_bits": IntegerAttr}

    def parse(self, parser: Parser, properties: Properties) -> None:
        """Parse `format = e5m10` into the properties `exponent_bits` (5) and `mantissa_bits` (10)."""
        parser.parse_keyword(self.word)
        parser.parse_punctuation("=")
        start = parser.pos
        text = parser.parse_identifier()
        exponent, _, mantissa = text.removeprefix("e").partition("m")
        if not (text.startswith("e") and exponent.isdecimal() and mantissa.isdecimal()):
            parser.raise_error(f"expected a format such as e5m10, got {text}", start, start + len(text))
        for name, bits in zip(self.properties, (exponent, mantissa), strict=True):
            properties[name] = IntegerAttr(int(bits), 32)

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `format = e5m10`."""
        exponent, mantissa = (op.properties[name].value.data for name in self.properties)  # type: ignore[attr-defined]
        printer.print_string(f"format = e{exponent}m{mantissa}")


@irdl_op_definition
class CompareOp(IRDLOperation):
    """Comparison, `compare GT, %a, %b, FLOAT : (T, T) -> tensor<i1>`."""

    name = "stablehlo.compare"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    comparison_direction = prop_def(ComparisonDirection)
    compare_type = opt_prop_def(ComparisonType)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> CompareOp:
        """Parse `GT, %lhs, %rhs, FLOAT : signature`; the type of the comparison, here FLOAT, may be left out."""
        properties: Properties = {
            "comparison_direction": ComparisonDirection(ComparisonDirection.parse_parameter(parser))
        }
        parser.parse_punctuation(",")
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        if parser.parse_optional_punctuation(",") is not None:
            properties["compare_type"] = ComparisonType(ComparisonType.parse_parameter(parser))
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, operand_count=2)
        return make(cls, parser, (lhs, rhs), types, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `GT, %lhs, %rhs, FLOAT : signature`, without FLOAT if the operation has no `compare_type`."""
        printer.print_string(f" {self.comparison_direction.data}, ")
        printer.print_list(self.operands, printer.print_ssa_value)
        if self.compare_type is not None:
            printer.print_string(f", {self.compare_type.data}")
        print_attributes(printer, self, ("comparison_direction", "compare_type"))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)


_ACCURACY: dict[str, type[Attribute]] = {"result_accuracy": Attribute}
"""Optional property of unary operations: the accuracy that the program asks for."""

OPERATIONS: list[type[Operation]] = [
    *(operation(f"stablehlo.{name}", signature=SAME, optional=_ACCURACY) for name in UNARY),
    *(operation(f"stablehlo.{name}", "lhs rhs", signature=SAME) for name in BINARY),
    operation("stablehlo.bitcast_convert"),
    operation("stablehlo.clamp", "min operand max", signature=SAME),
    operation("stablehlo.complex", "lhs rhs", signature=ComplexSignature()),
    operation("stablehlo.reduce_precision", clauses=[Format()], signature=SAME),
    operation("stablehlo.select", "pred on_true on_false", signature=SelectSignature()),
    operation(
        "stablehlo.map", "inputs*", regions="computation", base=IRDLOperation, optional={"dimensions": Attribute}
    ),
    CompareOp,
]
