"""Constants, and operations that move elements: broadcasts, slices, padding, joins, and sizes."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.dialects.stablehlo.attributes import integers
from pydispatch.ir.dialects.stablehlo.clauses import NUMBERS, IntegerClause, IntegersClause, Properties
from pydispatch.ir.dialects.stablehlo.syntax import (
    FUNCTIONAL,
    RESULT,
    SAME,
    Types,
    make,
    operation,
    parse_attributes,
    print_attributes,
)


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """Constant, `constant dense<...> : T`. The result type may differ from that of `value`: a quantized result has its
    integers as the value."""

    name = "stablehlo.constant"
    value = prop_def(Attribute)
    output = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        """Parse `dense<...> : type`, or `() <{value = ...}> : signature` for a type that differs from the value's."""
        properties: Properties = {}  # `parse_attributes` adds those that are written in the attribute dictionary
        if parser.parse_optional_punctuation("(") is not None:  # `() <{value = ...}>`, for a type that differs
            parser.parse_punctuation(")")
            properties |= parser.parse_optional_properties_dict()
            attributes = parse_attributes(parser, cls, properties)
            parser.parse_punctuation(":")
            signature = FUNCTIONAL.parse(parser, operand_count=0)
            return make(cls, parser, operands=(), types=signature, properties=properties, attributes=attributes)
        attributes = parse_attributes(parser, cls, properties)
        start = parser.pos
        value = parser.parse_attribute()
        type = getattr(value, "type", None)
        if not isinstance(type, Attribute):
            sample = "dense<0.0> : tensor<4xf32>"
            parser.raise_error(f"expected a constant with its type, such as {sample}", start, parser.pos)
        types = Types(operands=(), results=[type])
        return make(cls, parser, operands=(), types=types, properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        """Print `dense<...> : type`, or `() <{value = ...}> : signature` for a type that differs from the value's."""
        if getattr(self.value, "type", None) != self.output.type:  # the short form states only the value's type
            printer.print_string("() <{value = ")
            printer.print_attribute(self.value)
            printer.print_string("}>")
            printer.print_op_attributes(self.attributes)
            printer.print_string(" : ")
            FUNCTIONAL.print(printer, self)
            return
        printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_attribute(self.value)


@irdl_op_definition
class SliceOp(IRDLOperation):
    """Slice, `slice %a [0:4:2, 1:5] : (T) -> U`: start, exclusive limit, and stride (if not 1) of each dimension."""

    name = "stablehlo.slice"
    operand = operand_def()
    start_indices = prop_def(NUMBERS)
    limit_indices = prop_def(NUMBERS)
    strides = prop_def(NUMBERS)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> SliceOp:
        """Parse `%x [start:limit:stride, ...] : signature`."""
        operand = parser.parse_unresolved_operand()
        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_range(parser), " in ranges")
        columns = zip(*ranges, strict=True) if ranges else ((), (), ())  # all starts, all limits, all strides
        names = ("start_indices", "limit_indices", "strides")
        properties: Properties = {
            name: DenseArrayBase.from_list(i64, column) for name, column in zip(names, columns, strict=True)
        }
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, operand_count=1)
        return make(cls, parser, (operand,), types, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `%x [start:limit:stride, ...] : signature`, without strides of 1."""
        printer.print_string(" ")
        printer.print_ssa_value(self.operand)
        lists = map(integers, (self.start_indices, self.limit_indices, self.strides))
        ranges = (f"{a}:{b}" if step == 1 else f"{a}:{b}:{step}" for a, b, step in zip(*lists, strict=True))
        printer.print_string(f" [{', '.join(ranges)}]")
        print_attributes(printer, self, ("start_indices", "limit_indices", "strides"))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)


def _parse_range(parser: Parser) -> tuple[int, int, int]:
    """Parse `start:limit` or `start:limit:stride`; return start, limit and stride, which is 1 if it is omitted."""
    start = parser.parse_integer()
    parser.parse_punctuation(":")
    limit = parser.parse_integer()
    has_stride = parser.parse_optional_punctuation(":") is not None
    stride = parser.parse_integer() if has_stride else 1
    return start, limit, stride


_PADDING = (
    IntegersClause("low", "edge_padding_low"), IntegersClause("high", "edge_padding_high"),
    IntegersClause("interior", "interior_padding"),
)  # fmt: skip
"""Clauses of a pad, each with a number of elements per axis: `low = [0, 1], high = [0, 1], interior = [0, 0]`."""
_DIMENSION = IntegerClause("dim", "dimension")
"""Clause with the axis that an operation refers to: `dim = 1`."""

OPERATIONS: list[type[Operation]] = [
    ConstantOp,
    SliceOp,
    operation("stablehlo.broadcast", clauses=[IntegersClause("sizes", "broadcast_sizes")]),
    operation("stablehlo.broadcast_in_dim", clauses=[IntegersClause("dims", "broadcast_dimensions")]),
    operation("stablehlo.concatenate", "inputs*", clauses=[_DIMENSION]),
    operation("stablehlo.get_dimension_size", clauses=[_DIMENSION]),
    operation(
        "stablehlo.iota",
        operands="",
        results="output",
        clauses=[IntegerClause("dim", "iota_dimension")],
        signature=RESULT,
    ),
    operation("stablehlo.pad", "operand padding_value", clauses=_PADDING),
    operation("stablehlo.reshape"),
    operation("stablehlo.reverse", clauses=[IntegersClause("dims", "dimensions")], signature=SAME),
    operation("stablehlo.set_dimension_size", "operand size", clauses=[_DIMENSION]),
    operation("stablehlo.transpose", clauses=[IntegersClause("dims", "permutation")]),
]
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones."""
