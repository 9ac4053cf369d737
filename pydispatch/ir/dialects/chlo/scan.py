"""The scan of CHLO: a function of a slice and carried values along one dimension."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.dialects.stablehlo.clauses import Properties
from pydispatch.ir.dialects.stablehlo.syntax import FUNCTIONAL, make, parse_equals


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Scan along one dimension, `scan(%a, %b) inits(%c) dimension=0 attributes {...} {...} : (T, U, V) -> (W, X)`.

    The region takes a slice of each input, without the dimension, and the carried values. It returns a slice of each
    output and the next carried values. Results are the outputs and the final carried values.

    Attributes:
        inputs: Tensors that are sliced.
        inits: Initial carried values.
        dimension: Index of the dimension.
        is_reverse: Whether slices are taken from the last to the first; false if absent.
        is_associative: Whether the region is associative; accepted and ignored.
        outputs: Tensors of the slices that the region returns.
        carries: Final carried values.
    """

    name = "chlo.scan"
    inputs = var_operand_def(TensorType)
    inits = var_operand_def(TensorType)
    dimension = prop_def(IntegerAttr)
    is_reverse = opt_prop_def(BoolAttr)
    is_associative = opt_prop_def(BoolAttr)
    outputs = var_result_def(TensorType)
    carries = var_result_def(TensorType)
    body = region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), AttrSizedResultSegments(as_property=True))
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        """Parse `(%inputs) inits (%inits) dimension=n attributes {...} {body} : (types) -> types`.

        The operand types are those of the inputs, then of the inits. The result types are those of the outputs, then of
        the final carried values, one for each init. `(%x) inits (%c) dimension=0 {...} : (tensor<4x3xi32>,
        tensor<3xi32>) -> (tensor<4x3xi1>, tensor<3xi32>)` has one output and one carried value.
        """
        # Operands, properties, attributes and body.
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("inits")
        inits = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parse_equals(parser, "dimension")
        properties: Properties = {"dimension": IntegerAttr(parser.parse_integer(allow_boolean=False), i64)}
        dictionary = {}
        if parser.parse_optional_keyword("attributes") is not None:
            dictionary = parser.parse_optional_attr_dict()
        known = cls.get_irdl_definition().properties  # the text has properties such as is_reverse in the dictionary
        properties |= {name: value for name, value in dictionary.items() if name in known}
        attributes = {name: value for name, value in dictionary.items() if name not in known}
        body = parser.parse_region()
        # The types, which say how many of the results are outputs.
        start = parser.pos
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, len(inputs) + len(inits))
        output_count = len(types.results) - len(inits)  # the results after the outputs are the carried values
        if output_count < 0:
            message = f"{len(inits)} value(s) are carried, but there are {len(types.results)} result type(s)"
            parser.raise_error(message, start, parser.pos)
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(inputs), len(inits)])
        properties["resultSegmentSizes"] = DenseArrayBase.from_list(i32, [output_count, len(inits)])
        return make(cls, parser, [*inputs, *inits], types, properties, attributes, [body])

    def print(self, printer: Printer) -> None:
        """Print `(%inputs) inits (%inits) dimension=n attributes {...} {body} : (types) -> types`."""
        for word, values in (("", self.inputs), (" inits", self.inits)):
            printer.print_string(word)
            with printer.in_parens():
                printer.print_list(values, printer.print_ssa_value)
        printer.print_string(f" dimension={self.dimension.value.data}")
        in_syntax = ("dimension", "operandSegmentSizes", "resultSegmentSizes")
        in_dictionary = {name: value for name, value in self.properties.items() if name not in in_syntax}
        printer.print_op_attributes(in_dictionary | self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)
