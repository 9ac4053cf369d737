"""The library's `tensor` dialect with operations it lacks."""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DenseArrayBase, IndexType, TensorType, i64
from xdsl.ir import Dialect, Operation
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import Mixed, directive, parse_mixed, request_space
from pydispatch.ir.core.elements import check_same_shape
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.linalg import shape as linalg_shape
from pydispatch.ir.dialects.tensor import gather, insert
from pydispatch.ir.dialects.tensor.verify import CHECKS, element_of, shape_of, verify_yield


@op_definition
class GenerateOp(IRDLOperation):
    """Tensor whose elements the body computes from their indices. `dynamic_extents` are its dynamic sizes, in order."""

    name = "tensor.generate"
    dynamic_extents = var_operand_def(IndexType)
    body = region_def("single_block")
    result = result_def(TensorType)
    assembly_format = "$dynamic_extents $body attr-dict `:` type($result)"

    def verify_(self) -> None:
        """Check that each dynamic dimension of the result has an extent, and that the body yields an element."""
        expected = syntax.dynamic_dims(self.result.type)
        if len(self.dynamic_extents) != expected:
            raise VerifyException(
                f"{self.result.type} has {expected} dynamic dimension(s), got {len(self.dynamic_extents)} extent(s)"
            )
        verify_yield(self, element_of(self.result), rank=len(shape_of(self.result)))


@op_definition
class RankOp(IRDLOperation):
    """Rank of a tensor."""

    name = "tensor.rank"
    tensor = operand_def()
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$tensor attr-dict `:` type($tensor)"


@op_definition
class BitcastOp(IRDLOperation):
    """Reinterpretation of elements as another type of the same width."""

    name = "tensor.bitcast"
    source = operand_def(TensorType)
    dest = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `to` type($dest)"

    def verify_(self) -> None:
        """Check that both types have the same shape, and elements of the same width."""
        check_same_shape(self, self.source.type, self.dest.type)
        widths = [getattr(element_of(v), "bitwidth", None) for v in (self.source, self.dest)]
        if widths[0] != widths[1]:
            raise VerifyException(f"the elements of {self.source.type} and {self.dest.type} differ in width")


@directive
class OutputShape(Mixed):
    """Directive for `output_shape [%n, 4]`, which older programs omit if the result type is static."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an optional `output_shape [...]`."""
        if parser.parse_optional_keyword("output_shape") is not None:
            super().parse(parser, state)
        else:
            self.values.set(state, ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `output_shape [%n, 4]`."""
        printer.print_string(" output_shape")
        super().print(printer, state, op)


@directive
class ExpandedType(CustomDirective):
    """Directive for the result type of `tensor.expand_shape`, which is also the output shape if the text states none.

    `... output_shape [%n, 4] : tensor<?xf32> into tensor<?x4xf32>` states the shape. Older programs may omit it for a
    static result: after `... : tensor<8xf32> into tensor<2x4xf32>`, `numbers` is set to [2, 4].
    """

    type: TypeDirective
    numbers: AttributeVariable
    """Property `static_output_shape`: sizes of the result, DYNAMIC for those that are operands. The directive
    `OutputShape`, which is parsed before, sets it if the text has `output_shape`."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the result type; if the text has no `output_shape`, its static sizes become the output shape."""
        start = parser.pos
        type = parser.parse_type()
        self.type.set(state, (type,))
        if self.numbers.name not in state.properties:
            if not isinstance(type, TensorType) or not type.has_static_shape():
                parser.raise_error(f"'output_shape' expected, since {type} has a dynamic size", start, parser.pos)
            self.numbers.set(state, DenseArrayBase.from_list(i64, type.get_shape()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the result type."""
        self.type.print(printer, state, op)


_STATED_SIZES = "stated sizes"
"""Entry of the parsing state with all sizes of a `tensor.empty`: `AllocatedSizes` adds it, and `AllocatedType` compares
the sizes with the type and removes it."""


@directive
class AllocatedSizes(CustomDirective):
    """Directive for the sizes of a new tensor: its dynamic ones, or all of them.

    Both `tensor.empty(%n) : tensor<?x4xf32>`, the form that is printed, and `tensor.empty(%n, 4) : tensor<?x4xf32>` are
    parsed. Only the operand %n is stored. Numbers are redundant: `AllocatedType` compares them with the type.
    """

    values: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `(%size, ...)`; numbers among the sizes are checked against the type by `AllocatedType`."""
        names, numbers = parse_mixed(parser, parser.Delimiter.PAREN)  # numbers: DYNAMIC in place of each name
        self.values.set(state, names)
        # Without numbers, as in `(%n)`, the list is not that of all sizes, so that it cannot be compared with the type.
        states_static_sizes = len(names) < len(numbers)
        if states_static_sizes:  # `AllocatedType`, which is parsed later, removes the entry
            state.attributes[_STATED_SIZES] = DenseArrayBase.from_list(i64, numbers)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the dynamic sizes, `(%size, ...)`; the type states the static ones."""
        printer.print_string("(")
        printer.print_list(self.values.get(op), printer.print_ssa_value)
        printer.print_string(")")
        request_space(state)  # before `:` or the attribute dictionary


@directive
class AllocatedType(CustomDirective):
    """Directive for the type of a new tensor, which is compared with the sizes if they include static ones."""

    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse the type, and check the sizes that were written as numbers."""
        start = parser.pos
        type = parser.parse_type()
        self.type.set(state, (type,))
        stated = state.attributes.pop(_STATED_SIZES, None)  # left by the directive of the sizes, which is parsed before
        if isinstance(stated, DenseArrayBase) and isinstance(type, TensorType):
            sizes = list(stated.get_values())
            if sizes != list(type.get_shape()):
                listed = ", ".join("%" if n == syntax.DYNAMIC else str(n) for n in sizes)
                parser.raise_error(f"the sizes ({listed}) are not those of {type}", start, parser.pos)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the type of the new tensor."""
        self.type.print(printer, state, op)


_SYNTAX = {
    tensor.EmptyOp: "custom<AllocatedSizes>($dynamic_sizes) attr-dict `:` custom<AllocatedType>(type($tensor))",
    tensor.ExpandShapeOp: (
        "$src $reassociation custom<OutputShape>($dynamic_output_shape, $static_output_shape) attr-dict `:` "
        "type($src) `into` custom<ExpandedType>(type($result), ref($static_output_shape))"
    ),
}
"""xDSL's operation -> assembly format that replaces its own. The sizes of `tensor.empty` may include static ones, and
`tensor.expand_shape` may omit `output_shape` if the result type is static."""
_DIRECTIVES = (OutputShape, ExpandedType, AllocatedSizes, AllocatedType)  # those in _SYNTAX
for _op, _check in CHECKS.items():
    refine(_op, check=_check, assembly_format=_SYNTAX.get(_op), directives=_DIRECTIVES)

_EXTRA: list[type[Operation]] = [GenerateOp, RankOp, BitcastOp]  # operations of MLIR that xDSL lacks
Tensor = Dialect(
    "tensor",
    [
        *tensor.Tensor.operations, *_EXTRA, *gather.OPERATIONS, *insert.OPERATIONS,
        *linalg_shape.TENSOR_OPERATIONS,
    ],
    [*tensor.Tensor.attributes],
)  # fmt: skip
