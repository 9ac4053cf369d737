"""The syntax that all structured `linalg` operations share: `name {…} ins(%a : T) outs(%b : U) -> U`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ShapedType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    opt_prop_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttrDictDirective,
    AttributeVariable,
    CustomDirective,
    OperandDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    VariadicRegionVariable,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives import directive, parsed_types, request_space
from pydispatch.ir.dialects.linalg.structure import Structure, check_sizes


class _WordAttr(Data[str]):
    """Base of attributes that consist of a keyword, `<word>`; `data` is the word, which parsing does not check."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        """Parse `<word>`."""
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        """Print the keyword as `<word>`."""
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ElementwiseKindAttr(_WordAttr):
    """Scalar function of `linalg.elementwise`."""

    name = "linalg.elementwise_kind"


@irdl_attr_definition
class TypeFnAttr(_WordAttr):
    """Cast of operands to the accumulator's type: cast_signed or cast_unsigned."""

    name = "linalg.type_fn"


@irdl_attr_definition
class UnaryFnAttr(_WordAttr):
    """Scalar function of `linalg.elemwise_unary`."""

    name = "linalg.unary_fn"


@irdl_attr_definition
class BinaryFnAttr(_WordAttr):
    """Scalar function of `linalg.elemwise_binary`."""

    name = "linalg.binary_fn"


ATTRIBUTES: list[type[Attribute]] = [ElementwiseKindAttr, TypeFnAttr, UnaryFnAttr, BinaryFnAttr]


def parse_side(parser: Parser, keyword: str) -> tuple[list[UnresolvedOperand], list[Attribute]]:
    """Parse optional operands with their types, `ins(%a, %b : T, U)`, where `keyword` is `ins` or `outs`.

    Return the operands and as many types; both are empty without the keyword, and for `ins()`.
    """
    if parser.parse_optional_keyword(keyword) is None:
        return [], []
    parser.parse_punctuation("(")
    if parser.parse_optional_punctuation(")") is not None:
        return [], []
    names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    start = parser.pos
    parser.parse_punctuation(":")
    types: list[Attribute] = list(parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))
    if len(types) != len(names):
        parser.raise_error(f"{len(names)} operand(s) are given, but {len(types)} type(s)", start, parser.pos)
    parser.parse_punctuation(")")
    return names, types


@directive
class Sides(CustomDirective):
    """Directive for inputs and outputs, `ins(%a, %b : T, U) outs(%c : V)`."""

    inputs: VariadicOperandVariable
    input_types: TypeDirective
    outputs: OperandDirective  # variadic, or a single operand, as the operation defines it
    output_types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `ins(%a : T) outs(%b : U)`."""
        for keyword, values, types in self._sides():
            names, side_types = parse_side(parser, keyword)
            state.operands[values.index] = names
            types.set(state, side_types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `ins(%a : T) outs(%b : U)`, without sides that are empty."""
        for keyword, values, _ in self._sides():
            operand = values.get(op)  # one value if the format declares a single operand, else a sequence
            listed = [operand] if isinstance(operand, SSAValue) else list(operand)
            if listed:
                printer.print_string(f" {keyword}(")
                printer.print_list(listed, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list([value.type for value in listed], printer.print_attribute)
                printer.print_string(")")
        request_space(state)

    def _sides(self) -> tuple[tuple[str, Any, TypeDirective], ...]:
        """Return (keyword, variable of the operands, directive of their types) of the inputs and of the outputs."""
        return ("ins", self.inputs, self.input_types), ("outs", self.outputs, self.output_types)


@directive
class ResultTypes(CustomDirective):
    """Directive for result types `-> T` or `-> (T, U)`; if omitted, they are those of the output tensors.

    Attributes:
        types: Receives the types of the results.
        outputs: Types of the outputs, which were parsed before; those that are no tensors have no result.
    """

    types: TypeDirective
    outputs: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `-> types`, by default the types of the output tensors."""
        if parser.parse_optional_punctuation("->") is not None:
            self.types.set(state, syntax.parse_types(parser))
        else:
            self.types.set(state, [type for type in parsed_types(self.outputs, state) if isinstance(type, TensorType)])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> T` or `-> (T, U)`; nothing if there are no results."""
        if types := self.types.get(op):
            printer.print_string(" -> ")
            syntax.print_types(printer, types)


@directive
class ImpliedTypes(ResultTypes):
    """Directive that parses result types like ResultTypes and does not print them."""

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing, since the outputs imply the result types."""


@directive
class NoRegions(CustomDirective):
    """Directive without syntax: an operation has no regions after it is parsed, and regions are not printed.

    Named operations have a region in MLIR's generic form, which their name implies.
    """

    regions: VariadicRegionVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Set the operation's regions to none; nothing is read."""
        self.regions.set(state, ())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing, since the name of the operation implies its body."""


@directive
class Numbers(CustomDirective):
    """Directive for a list of integers, `[1, 0]` or `array<i64: 1, 0>`, which sets the property `value`."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a list of integers, `[0, 1]` or `array<i64: 0, 1>`."""
        start = parser.pos
        value: Attribute
        if parser._current_token.text == "[":
            numbers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            value = DenseArrayBase.from_list(i64, numbers)
        else:
            value = parser.parse_attribute()
            if not isinstance(value, DenseArrayBase):
                parser.raise_error("expected a list of integers such as [0, 1]", start, parser.pos)
        self.value.set(state, value)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `[0, 1]`."""
        value = self.value.get(op)
        assert isinstance(value, DenseArrayBase)
        state.print_whitespace(printer)
        printer.print_string(str([int(v) for v in value.get_values()]))

    def is_present(self, op: IRDLOperation) -> bool:
        """Return whether `op` has the property, so that its optional group is printed."""
        return self.value.is_present(op)

    def is_anchorable(self) -> bool:
        """Return True: the list may decide whether its optional group is printed."""
        return True


@directive
class Options(CustomDirective):
    """Directive for `kind = #kind indexing_maps = [...] {...}` in any order, where the kind may be abbreviated as
    `<add>`."""

    kind: AttributeVariable  # scalar function of an elementwise operation
    maps: AttributeVariable  # property `indexing_maps`
    attributes: AttrDictDirective  # the dictionary {...}

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse properties `name = value`, attributes in braces and a kind in angle brackets, in any order."""
        known = state.op_type.get_irdl_definition().properties  # definitions by name
        while True:
            text = parser._current_token.text
            if text == "{":
                self.attributes.parse(parser, state)
            elif text in known:
                parser.parse_keyword(text)
                parser.parse_punctuation("=")
                state.properties[text] = parser.parse_attribute()
            elif text == "<":
                self.kind.set(state, ElementwiseKindAttr(ElementwiseKindAttr.parse_parameter(parser)))
            else:
                break

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the kind, the maps and the attributes."""
        for variable in (self.kind, self.maps):
            if (value := variable.get(op)) is not None:
                printer.print_string(f" {variable.name} = ")
                printer.print_attribute(value)
        self.attributes.print(printer, state, op)


@directive
class TrailingAttributes(CustomDirective):
    """Directive for attributes after the operands, `attrs = {...}`.

    They are parsed but not printed: the format of the operation prints all attributes before the operands.
    """

    attributes: AttrDictDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `attrs = {...}` if it is next."""
        if parser.parse_optional_keyword("attrs") is not None:
            parser.parse_punctuation("=")
            self.attributes.parse(parser, state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: all attributes are printed before the operands."""


def integers(value: Attribute | None, count: int, default: int = 1) -> list[int]:
    """Return the integers of an attribute such as strides, one for each of `count` dimensions.

    A splat such as `dense<2>` is expanded; a missing attribute counts as `default` for each dimension. Raise
    VerifyException if there are not `count` integers.
    """
    if value is None:
        return [default] * count
    if isinstance(value, DenseArrayBase | DenseIntOrFPElementsAttr):
        result = [int(v) for v in value.get_values()]
    elif isinstance(value, ArrayAttr) and all(isinstance(v, IntegerAttr) for v in value):
        result = [v.value.data for v in value]
    else:
        raise VerifyException(f"expected {count} integer(s), got {value}")
    if len(result) != count:
        raise VerifyException(f"expected {count} integer(s), got {value}")
    return result


def maps_of(value: Attribute) -> list[Any]:
    """Return the affine maps of an `indexing_maps` attribute; raise VerifyException if it is no list of maps."""
    if not isinstance(value, ArrayAttr) or not all(isinstance(m, AffineMapAttr) for m in value):
        raise VerifyException(f"indexing_maps is a list of affine maps, got {value}")
    return [m.data for m in value]


def operand_names(inputs: int, outputs: int) -> list[str]:
    """Return names for error messages, "input 0", ..., "output 0", ..., from the numbers of inputs and outputs."""
    return [f"input {i}" for i in range(inputs)] + [f"output {i}" for i in range(outputs)]


class StructuredOp(IRDLOperation):
    """Base of named structured operations, whose name implies the body. A subclass defines `structure`.

    Example: `%2 = linalg.matmul ins(%0, %1 : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) ->
    tensor<4x16xf32>`.

    Attributes:
        inputs: Scalars or shaped values.
        outputs: Initial values of the results; operations that do not accumulate only use their types.
        res: The results, one per output tensor.
        indexing_maps: One map per operand, inputs first: the loops -> the operand's dimensions; if absent, the maps
            that the name of the operation implies.
        cast: Conversion of the operands to the accumulator's type; if absent, it is signed unless the name of the
            operation says unsigned.
        strides, dilations: Strides and dilations of the sliding windows of convolutions and poolings; 1 if absent.
        kind, fun: Scalar function of `linalg.elementwise`, and of `linalg.elemwise_unary` and `elemwise_binary`.
        hidden: Region with the body, which MLIR's generic form `"linalg.matmul"(...) ({...})` states. It is ignored,
            and the assembly format neither parses nor prints it.
    """

    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    res = var_result_def(TensorType)
    indexing_maps = opt_prop_def(ArrayAttr)
    cast = opt_prop_def(TypeFnAttr)
    strides = opt_prop_def(Attribute)
    dilations = opt_prop_def(Attribute)
    kind = opt_prop_def(ElementwiseKindAttr)
    fun = opt_prop_def(Attribute)
    hidden = var_region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    custom_directives = (TrailingAttributes, NoRegions, Options, ResultTypes, Sides)
    assembly_format = (
        "custom<Options>($kind, $indexing_maps, attr-dict) custom<Sides>($inputs, type($inputs), $outputs, "
        "type($outputs)) custom<TrailingAttributes>(attr-dict) custom<ResultTypes>(type($res), ref(type($outputs))) "
        "custom<NoRegions>($hidden)"
    )

    def structure(self) -> Structure:
        """Return the loops and the indexing maps; raise VerifyException if they cannot be derived."""
        raise NotImplementedError

    def verify_(self) -> None:
        """Check the types of the results, and that the sizes of all operands agree with the indexing maps."""
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        types = [v.type for v in self.operands]
        names = operand_names(len(self.inputs), len(self.outputs))
        check_sizes(types, structure.maps, structure.loop_count, names)


def check_results(outputs: Sequence[SSAValue], results: Sequence[Attribute]) -> None:
    """Check that `results`, the types of the results, are those of the tensors among the outputs, and that there is an
    output; raise VerifyException otherwise."""
    expected = [o.type for o in outputs if isinstance(o.type, TensorType)]
    if not outputs:
        raise VerifyException("expected at least one output: outs(%value : type)")
    if list(results) != expected:
        got, wanted = (", ".join(map(str, t)) or "none" for t in (results, expected))
        raise VerifyException(f"the results are ({got}), expected ({wanted}) as the outputs")


def check_counts(op: Any, inputs: int, outputs: int = 1) -> None:
    """Check the number of inputs and outputs of an operation; raise VerifyException otherwise."""
    if len(op.inputs) != inputs or len(op.outputs) != outputs:
        raise VerifyException(
            f"expected {inputs} input(s) and {outputs} output(s), got {len(op.inputs)} and {len(op.outputs)}"
        )
