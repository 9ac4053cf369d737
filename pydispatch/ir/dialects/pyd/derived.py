"""`#pyd.derived<"name", 0> : tensor<…>`: a constant that a function of the program computes once, its result 0."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class DerivedAttr(ParametrizedAttribute):
    """Constant that a function of the program computes once, before the first call that needs it.

    It is the value of a constant: `flow.tensor.constant #pyd.derived<"derived_0", 0> : tensor<4x16xf32>` is the first
    result of the function `derived_0`. The passes in `compiler/constants` move computations that depend on constants
    alone into such functions: the packing of weights, for example.

    Attributes:
        function: Name of a private function of the module, without arguments, that returns tensors.
        result: Index of the constant among the function's results, from 0.
        type: Type of the constant, with static sizes.
    """

    name = "pyd.derived"
    function: StringAttr
    result: IntAttr
    type: TensorType[Attribute]

    @classmethod
    def of(cls, function: str, result: int, type: TensorType[Attribute]) -> DerivedAttr:
        """Create the attribute of result `result` of the function named `function`."""
        return cls(StringAttr(function), IntAttr(result), type)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<"function", result> : type`."""
        with parser.in_angle_brackets():
            function = parser.parse_str_literal()
            parser.parse_punctuation(",")
            result = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if not isinstance(type, TensorType) or not type.has_static_shape():
            parser.raise_error("a derived constant has the type of a tensor with static sizes")
        return [StringAttr(function), IntAttr(result), type]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<"function", result> : type`."""
        with printer.in_angle_brackets():
            printer.print_string_literal(self.function.data)
            printer.print_string(f", {self.result.data}")
        printer.print_string(" : ")
        printer.print_attribute(self.type)


ATTRIBUTES: list[type[Attribute]] = [DerivedAttr]
