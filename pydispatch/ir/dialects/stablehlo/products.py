"""Products, convolutions, and what is computed with matrices: factors, solutions, Fourier transforms."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from pydispatch.ir.dialects.stablehlo.attributes import (
    Conv,
    Dot,
    DotAlgorithm,
    DotNumbers,
    FftType,
    Transpose,
    integers,
    parse_convolution,
    print_convolution,
)
from pydispatch.ir.dialects.stablehlo.clauses import (
    NUMBERS,
    Clause,
    Flag,
    IntegersClause,
    OneWord,
    Precisions,
    Properties,
    RecordClause,
)
from pydispatch.ir.dialects.stablehlo.records import parse_integers, print_value
from pydispatch.ir.dialects.stablehlo.syntax import (
    FUNCTIONAL,
    SAME,
    make,
    operation,
    parse_attributes,
    parse_equals,
    print_attributes,
)


class DimensionPairs(Clause):
    """Clause with paired dimensions of a dot_general, `contracting_dims = [1] x [0]`.

    Here dimension 1 of the left operand is contracted with dimension 0 of the right one. `batching_dims` and
    `contracting_dims` store their lists in one property, `dot_dimension_numbers`: each parses its two fields of
    `DotNumbers`, and leaves the other two unchanged.
    """

    constraint = Dot  # the class of the property `dot_dimension_numbers`, which holds a `DotNumbers`

    def __init__(self, word: str, lhs: str, rhs: str, optional: bool = False) -> None:
        """Create a clause that sets two fields of `DotNumbers`, one for each operand.

        Args:
            word: Keyword of the clause, see `Clause`.
            lhs: Name of the field for the left operand, such as "lhs_contracting_dimensions".
            rhs: Name of the field for the right operand.
            optional: Whether the text may omit the clause.
        """
        super().__init__(word, "dot_dimension_numbers", optional)
        self._fields = (lhs, rhs)

    def _lists(self, op: Operation) -> list[tuple[int, ...]]:
        """Return the dimensions of the left and of the right operand that this clause prints."""
        numbers = op.properties["dot_dimension_numbers"]
        assert isinstance(numbers, Dot)
        return [getattr(numbers.data, field) for field in self._fields]

    def is_present(self, op: Operation) -> bool:
        """Return whether the clause is printed: it is required, or `op` has pairs of dimensions."""
        return not self.optional or any(self._lists(op))

    def parse(self, parser: Parser, properties: Properties) -> None:
        """Parse `word = [lhs] x [rhs]`, the batching or contracting dimensions of both operands."""
        parse_equals(parser, self.word)
        lhs = parse_integers(parser)
        parser.parse_keyword("x")
        fields = dict(zip(self._fields, (lhs, parse_integers(parser)), strict=True))
        numbers = properties.get("dot_dimension_numbers", Dot(DotNumbers()))  # present if the other clause precedes
        assert isinstance(numbers, Dot)
        properties["dot_dimension_numbers"] = Dot(numbers.data._replace(**fields))

    def print(self, printer: Printer, op: Operation) -> None:
        """Print `word = [1] x [0]`."""
        lhs, rhs = (str(list(dims)) for dims in self._lists(op))
        printer.print_string(f"{self.word} = {lhs} x {rhs}")


_BATCHING = DimensionPairs("batching_dims", "lhs_batching_dimensions", "rhs_batching_dimensions", optional=True)
"""Pairs of batch dimensions in the text of a dot_general: `batching_dims = [0] x [0]`."""
_CONTRACTING = DimensionPairs("contracting_dims", "lhs_contracting_dimensions", "rhs_contracting_dimensions")
"""Pairs of dimensions that are summed over: `contracting_dims = [2] x [1]`."""


_PROPERTY_OF_KEYWORD = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}  # fmt: skip
"""Keywords of `window = {...}` to the properties that their entries are stored in."""


class Convolution(IRDLOperation):
    """Base of convolutions `(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], ...} {...} :
    (T, U) -> V`.

    Attributes:
        lhs, rhs: The images %a and the kernel %k.
        window_strides, lhs_dilation, rhs_dilation, window_reversal: An integer per spatial dimension, in `window`.
        dimension_numbers: Order of the dimensions of images, kernel and result, `dim_numbers`.
        feature_group_count, batch_group_count: Numbers of groups of features and of images, in the braces {...}.
        precision_config: Precision of both operands, in the braces.
    """

    WINDOW: ClassVar[dict[str, str]]
    """Keywords of `window = {...}` to the properties that their entries are stored in."""

    lhs = operand_def()
    rhs = operand_def()
    window_strides = opt_prop_def(NUMBERS)
    lhs_dilation = opt_prop_def(NUMBERS)
    rhs_dilation = opt_prop_def(NUMBERS)
    window_reversal = opt_prop_def(NUMBERS)
    dimension_numbers = prop_def(Conv)
    feature_group_count = prop_def(IntegerAttr)
    batch_group_count = prop_def(IntegerAttr)
    precision_config = opt_prop_def(ArrayAttr)
    result = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Convolution:
        """Parse `(%image, %filter) dim_numbers = ..., window = {...} {attributes} : signature`."""
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parse_equals(parser, "dim_numbers")
        properties: Properties = {"dimension_numbers": Conv(parse_convolution(parser))}
        parser.parse_punctuation(",")
        parse_equals(parser, "window")

        def parse_entry() -> None:
            """Parse one entry of the window, such as `stride = [2]`, into `properties`."""
            _parse_window_entry(parser, cls.WINDOW, properties)

        parser.parse_comma_separated_list(parser.Delimiter.BRACES, parse_entry)
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        types = FUNCTIONAL.parse(parser, len(operands))
        return make(cls, parser, operands, types, properties, attributes)

    def print(self, printer: Printer) -> None:
        """Print `(%image, %filter) dim_numbers = ..., window = {...} {attributes} : signature`."""
        with printer.in_parens():
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(" dim_numbers = ")
        print_convolution(printer, self.dimension_numbers.data)
        printer.print_string(", window = ")
        present = [word for word, name in self.WINDOW.items() if name in self.properties]
        with printer.in_braces():
            printer.print_list(present, lambda word: self._print_window_entry(printer, word))
        print_attributes(printer, self, ("dimension_numbers", *self.WINDOW.values()))
        printer.print_string(" : ")
        FUNCTIONAL.print(printer, self)

    def _print_window_entry(self, printer: Printer, word: str) -> None:
        """Print `word = [values]` of the window; values of `pad` are pairs [low, high], of `reverse` booleans."""
        values = integers(self.properties[self.WINDOW[word]])
        printer.print_string(f"{word} = ")
        if word == "pad":
            rank = len(self.dimension_numbers.data.image.spatial)
            if len(values) == 1:  # a splat, `dense<0>`
                values = values * (2 * rank)
            printer.print_string(str([list(values[n : n + 2]) for n in range(0, 2 * rank, 2)]))
        elif word == "reverse":
            printer.print_string(str([bool(v) for v in values]).lower())
        else:
            print_value(printer, values)


@irdl_op_definition
class ConvolutionOp(Convolution):
    """Convolution with static padding, which `window = {pad = ...}` states; `dynamic_conv` has it as an operand."""

    name = "stablehlo.convolution"
    WINDOW: ClassVar[dict[str, str]] = _PROPERTY_OF_KEYWORD
    padding = opt_prop_def(DenseIntOrFPElementsAttr)


@irdl_op_definition
class DynamicConvOp(Convolution):
    """Convolution whose padding is an operand."""

    name = "stablehlo.dynamic_conv"
    WINDOW: ClassVar[dict[str, str]] = {word: name for word, name in _PROPERTY_OF_KEYWORD.items() if word != "pad"}
    padding = operand_def()


def _parse_window_entry(parser: Parser, words: dict[str, str], properties: Properties) -> None:
    """Parse one entry of `window = {...}` into its property.

        stride = [2, 2]            window_strides = array<i64: 2, 2>
        pad = [[0, 1], [0, 1]]     padding = dense<[[0, 1], [0, 1]]> : tensor<2x2xi64>
        reverse = [true, false]    window_reversal = array<i1: true, false>

    Args:
        parser: Parser, positioned at the keyword.
        words: Keywords that are allowed, to the names of their properties.
        properties: Receives the property.
    """
    start = parser.pos
    word = parser.parse_identifier()
    if word not in words or words[word] in properties:
        parser.raise_error(f"expected each of {', '.join(words)} at most once, got '{word}'", start, start + len(word))
    parser.parse_punctuation("=")
    square = parser.Delimiter.SQUARE
    if word == "pad":
        pairs = parser.parse_comma_separated_list(square, lambda: parse_integers(parser))
        if any(len(pair) != 2 for pair in pairs):
            parser.raise_error("each padding is a pair, as in [[0, 1], [0, 1]]", start, parser.pos)
        properties["padding"] = _dense_pairs([value for pair in pairs for value in pair])
    elif word == "reverse":
        # An i1 that is true is stored as -1.
        flags = parser.parse_comma_separated_list(square, lambda: -int(parser.parse_boolean()))
        properties["window_reversal"] = DenseArrayBase.from_list(i1, flags)
    else:
        properties[words[word]] = DenseArrayBase.from_list(i64, parse_integers(parser))


def _dense_pairs(values: list[int]) -> DenseIntOrFPElementsAttr:
    """Return the constant `dense<[[0, 1], ...]> : tensor<nx2xi64>` for the flat list [0, 1, ...]."""
    return DenseIntOrFPElementsAttr.from_list(TensorType(i64, (len(values) // 2, 2)), values)


_FLAGS = {name: BoolAttr for name in ("left_side", "lower", "unit_diagonal")}
"""Properties of a triangular solve: side and half of the triangular matrix, and whether its diagonal is all ones."""

OPERATIONS: list[type[Operation]] = [
    ConvolutionOp,
    DynamicConvOp,
    operation("stablehlo.cholesky", "a", clauses=[Flag("lower", optional=True)], signature=SAME),
    operation("stablehlo.dot", "lhs rhs", clauses=[Precisions()]),
    operation(
        "stablehlo.dot_general", "lhs rhs",
        clauses=[_BATCHING, _CONTRACTING, Precisions(), RecordClause("algorithm", DotAlgorithm, optional=True)],
    ),
    operation("stablehlo.fft", clauses=[OneWord("type", FftType, "fft_type"), IntegersClause("length", "fft_length")]),
    operation("stablehlo.triangular_solve", "a b", base=IRDLOperation, required={**_FLAGS, "transpose_a": Transpose}),
]  # fmt: skip
"""Operations of this module. `operation` takes the names of the operands and results, by default "operand" and
"result"; `*` marks variadic ones. Those with the base `IRDLOperation` have only the generic form, `"name"(...)`."""
