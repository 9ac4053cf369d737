"""The attributes of StableHLO: keywords such as `#stablehlo<precision HIGH>`, and records of dimension numbers."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, NoneAttr, i1
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from pydispatch.ir.dialects.stablehlo.records import Record, parse_fields


def integers(attribute: Attribute | None) -> tuple[int, ...]:
    """Return the integers of `array<i64: ...>`, or of `dense<...>` as older releases write it; () for a missing
    attribute. Raise TypeError for any other attribute."""
    match attribute:
        case None:
            return ()
        case DenseArrayBase() | DenseIntOrFPElementsAttr():
            return tuple(int(value) for value in attribute.get_values())
        case _:
            raise TypeError(f"expected a list of numbers, got {attribute}")


# --- keywords ---


class KeywordAttr(Data[str], SpacedOpaqueSyntaxAttribute):
    """Base of attributes that are one of the keywords in `WORDS`, such as `#stablehlo<precision HIGH>`.

    The data is the keyword, `"HIGH"`.
    """

    WORDS: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        """Parse and return one of the keywords `WORDS`; any other token is a parse error."""
        start = parser.pos
        word = parser.parse_optional_identifier()
        if word not in cls.WORDS:
            kind = cls.name.partition(".")[2].replace("_", " ")  # "stablehlo.fft_type": "fft type"
            end = start + len(word or " ")  # the error marks the word, or the first character if there is none
            parser.raise_error(f"expected a {kind}: one of {', '.join(cls.WORDS)}", start, end)
        return word

    def print_parameter(self, printer: Printer) -> None:
        """Print the keyword."""
        printer.print_string(self.data)


@irdl_attr_definition
class ComparisonDirection(KeywordAttr):
    """Comparison predicate."""

    name = "stablehlo.comparison_direction"
    WORDS = ("EQ", "NE", "GE", "GT", "LE", "LT")


@irdl_attr_definition
class ComparisonType(KeywordAttr):
    """Type of a comparison: signed, unsigned, float, or a total or weak order of floats.

    With NOTYPE the element type of the operands determines it.
    """

    name = "stablehlo.comparison_type"
    WORDS = ("NOTYPE", "FLOAT", "TOTALORDER", "WEAKORDER", "SIGNED", "UNSIGNED")


@irdl_attr_definition
class Precision(KeywordAttr):
    """Precision of an operand of a product: DEFAULT is the fastest, HIGHEST the most accurate."""

    name = "stablehlo.precision"
    WORDS = ("DEFAULT", "HIGH", "HIGHEST")


@irdl_attr_definition
class FftType(KeywordAttr):
    """Kind of a Fourier transform."""

    name = "stablehlo.fft_type"
    WORDS = ("FFT", "IFFT", "RFFT", "IRFFT")


@irdl_attr_definition
class RngAlgorithm(KeywordAttr):
    """Algorithm of a random bit generator."""

    name = "stablehlo.rng_algorithm"
    WORDS = ("DEFAULT", "THREE_FRY", "PHILOX")


@irdl_attr_definition
class RngDistribution(KeywordAttr):
    """Distribution of random numbers."""

    name = "stablehlo.rng_distribution"
    WORDS = ("UNIFORM", "NORMAL")


@irdl_attr_definition
class Transpose(KeywordAttr):
    """Form in which a triangular solve reads its matrix: as it is, transposed, or transposed and conjugated."""

    name = "stablehlo.transpose"
    WORDS = ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


# --- dimension numbers ---


class GatherNumbers(NamedTuple):
    """Dimension numbers of a gather, which copies a slice of the operand for each start index.

    Example, the selection of rows, result[i, j] = operand[indices[i, 0], j]: for an operand of 5x4, start indices of
    2x1, slice sizes [1, 4] and a result of 2x4,

        offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1

    Dimension 1 of the result runs over a slice. Dimension 0 of the slice, of size 1, is dropped. The only component of
    an index is a row, dimension 0 of the operand, and dimension 1 of the start indices holds it.

    Attributes:
        offset_dims: Dimensions of the result that are dimensions of the slices.
        collapsed_slice_dims: Dimensions of the slices, of size 1, that the result does not have.
        operand_batching_dims: Dimensions of the operand that are batches.
        start_indices_batching_dims: For each batch dimension of the operand, the batch dimension of the start indices.
        start_index_map: For each component of a start index, the dimension of the operand that it indexes.
        index_vector_dim: Dimension of the start indices that holds the components of an index. The rank of the start
            indices stands for an omitted last dimension of size 1: with 1, start indices of shape [2] are read as if
            their shape was [2, 1].
    """

    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0


class ScatterNumbers(NamedTuple):
    """Dimension numbers of a scatter, which combines a slice of the updates with a slice of the operand for each index.

    Example, updates of rows, where updates[i, j] goes to operand[indices[i, 0], j]: for an operand of 5x4, indices of
    2x1 and updates of 2x4,

        update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1

    Dimension 1 of the updates runs over a slice. The updates lack dimension 0 of the slice, of size 1. The only
    component of an index is a row, dimension 0 of the operand, and dimension 1 of the indices holds it.

    Attributes:
        update_window_dims: Dimensions of the updates that are dimensions of the slices.
        inserted_window_dims: Dimensions of the operand in which a slice has size 1, and which the updates do not have.
        input_batching_dims: Dimensions of the operand that are batches.
        scatter_indices_batching_dims: For each batch dimension of the operand, the batch dimension of the indices.
        scatter_dims_to_operand_dims: For each component of an index, the dimension of the operand that it indexes.
        index_vector_dim: Dimension of the indices that holds the components of an index. The rank of the indices stands
            for an omitted last dimension of size 1: with 1, indices of shape [2] are read as if their shape was [2, 1].
    """

    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0


class DotNumbers(NamedTuple):
    """Dimension numbers of a dot product.

    The n-th batching dimensions of both operands belong together, and so do the n-th contracting ones, over which
    products are summed. The result has the batching dimensions, then the others of lhs, then those of rhs.
    """

    lhs_batching_dimensions: tuple[int, ...] = ()
    rhs_batching_dimensions: tuple[int, ...] = ()
    lhs_contracting_dimensions: tuple[int, ...] = ()
    rhs_contracting_dimensions: tuple[int, ...] = ()


class DotAlgorithmValue(NamedTuple):
    """Algorithm of a dot product: types and number of its internal operations.

    The algorithm bf16_6x of the StableHLO specification splits each element into 3 values of bf16, and adds up 6
    products of these values in f32: the precision types are bf16, accumulation_type is f32, the component counts are 3,
    and num_primitive_operations is 6. Without such a split, these three numbers are 1.

    Attributes:
        lhs_precision_type, rhs_precision_type: Types that elements of the operands are rounded to.
        accumulation_type: Type of the sums.
        lhs_component_count, rhs_component_count: Number of values of its precision type that an element is split into.
        num_primitive_operations: Number of products of such values per product of elements.
        allow_imprecise_accumulation: Whether sums may have fewer bits; None if not stated.
    """

    lhs_precision_type: Attribute = NoneAttr()
    rhs_precision_type: Attribute = NoneAttr()
    accumulation_type: Attribute = NoneAttr()
    lhs_component_count: int = 0
    rhs_component_count: int = 0
    num_primitive_operations: int = 0
    allow_imprecise_accumulation: bool | None = None


@irdl_attr_definition
class Gather(Record):
    """Attribute with the dimension numbers of a gather."""

    name = "stablehlo.gather"
    VALUE = GatherNumbers


@irdl_attr_definition
class Scatter(Record):
    """Attribute with the dimension numbers of a scatter."""

    name = "stablehlo.scatter"
    VALUE = ScatterNumbers


@irdl_attr_definition
class Dot(Record):
    """Attribute with the dimension numbers of a dot product."""

    name = "stablehlo.dot"
    VALUE = DotNumbers


@irdl_attr_definition
class DotAlgorithm(Record):
    """Attribute with the algorithm of a dot product."""

    name = "stablehlo.dot_algorithm"
    VALUE = DotAlgorithmValue


class Layout(NamedTuple):
    """Dimension order of a convolution operand.

    Attributes:
        first: Dimension that is the batch of an image or result, or the input feature of a kernel.
        second: Dimension that is the feature of an image or result, or the output feature of a kernel.
        spatial: Dimension that is spatial dimension 0, 1, ...: (1, 2) for NHWC.
    """

    first: int
    second: int
    spatial: tuple[int, ...]


class ConvNumbers(NamedTuple):
    """Dimension orders of the image (the first operand), the kernel and the result of a convolution."""

    image: Layout
    kernel: Layout
    result: Layout


@irdl_attr_definition
class Conv(Data[ConvNumbers]):
    """Attribute with the dimension numbers of a convolution.

    Syntax: `<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`, or `<raw input_batch_dimension = 0, ...>`.

    The short form lists the dimensions of image, kernel and result in order: b is the batch, f the feature, i and o the
    input and the output feature of the kernel, and 0 and 1 the spatial dimensions. The example has an image NHWC, and a
    kernel HWIO.
    """

    name = "stablehlo.conv"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ConvNumbers:
        """Parse the dimension numbers of a convolution, in the short form or, after `raw`, as fields."""
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("raw") is not None:
                return _parse_raw_convolution(parser)
            return parse_convolution(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print `<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`."""
        with printer.in_angle_brackets():
            print_convolution(printer, self.data)


def parse_convolution(parser: AttrParser) -> ConvNumbers:
    """Parse `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
    image = _parse_layout(parser, "b", "f")
    parser.parse_keyword("x")
    kernel = _parse_layout(parser, "i", "o")
    parser.parse_punctuation("->")
    return ConvNumbers(image, kernel, _parse_layout(parser, "b", "f"))


def _parse_layout(parser: AttrParser, first: str, second: str) -> Layout:
    """Parse the dimension order of one operand; `first` and `second` are the letters of its named dimensions."""
    start = parser.pos
    entries: list[str | int] = []

    def parse_entry() -> None:
        """Parse a letter, or the number of a spatial dimension, into `entries`."""
        integer = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        entries.append(parser.parse_identifier() if integer is None else integer)

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_entry, " in dimension numbers")
    spatial_rank = len(entries) - 2
    if sorted(map(str, entries)) != sorted([first, second, *map(str, range(spatial_rank))]):
        wanted = f"{first}, {second} and the spatial dimensions from 0, each once"
        parser.raise_error(f"expected {wanted}", start, parser.pos)
    spatial = tuple(entries.index(d) for d in range(spatial_rank))
    return Layout(first=entries.index(first), second=entries.index(second), spatial=spatial)


_RAW = {
    "input": ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "kernel": ("kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"),
    "output": ("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
}
"""Image (input), kernel or result (output) of a convolution -> words for the fields `first`, `second` and `spatial` of
its Layout in the form `<raw word = value, ...>`."""


def _parse_raw_convolution(parser: AttrParser) -> ConvNumbers:
    """Parse `input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2], ...`."""
    start = parser.pos
    # Fields with plural names are lists, with the default ().
    defaults = {name: () if name.endswith("s") else 0 for names in _RAW.values() for name in names}
    fields = defaults | parse_fields(parser, defaults, "#stablehlo.conv<raw>")
    layouts = []
    for operand, (first, second, spatial) in _RAW.items():
        layout = Layout(fields[first], fields[second], fields[spatial])
        if sorted([layout.first, layout.second, *layout.spatial]) != list(range(len(layout.spatial) + 2)):
            listed = f"{first} {layout.first}, {second} {layout.second} and {spatial} {list(layout.spatial)}"
            parser.raise_error(f"{listed} do not name each dimension of the {operand} once", start, parser.pos)
        layouts.append(layout)
    return ConvNumbers(*layouts)


def print_convolution(printer: Printer, numbers: ConvNumbers) -> None:
    """Print the dimension numbers of image, kernel and result, such as `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""

    def layout_text(layout: Layout, first: str, second: str) -> str:
        """Return a layout such as `[b, 0, 1, f]`, with the letters `first` and `second` of its named dimensions."""
        # Dimension of the operand → its letter, or the number of the spatial dimension.
        words = {layout.first: first, layout.second: second} | {d: str(n) for n, d in enumerate(layout.spatial)}
        return f"[{', '.join(words[d] for d in sorted(words))}]"

    printer.print_string(
        f"{layout_text(numbers.image, 'b', 'f')}x{layout_text(numbers.kernel, 'i', 'o')}->"
        f"{layout_text(numbers.result, 'b', 'f')}"
    )


# --- types ---


@irdl_attr_definition
class Token(ParametrizedAttribute, TypeAttribute):
    """Token type that orders side effects; programs pass tokens on, and a token has no value."""

    name = "stablehlo.token"


def flag(value: bool) -> IntegerAttr[Any]:
    """Return the attribute `true` or `false`."""
    return IntegerAttr(int(value), i1)


ATTRIBUTES: list[type[Attribute]] = [
    ComparisonDirection, ComparisonType, Precision, FftType, RngAlgorithm, RngDistribution, Transpose, Gather, Scatter,
    Dot, DotAlgorithm, Conv, Token,
]  # fmt: skip
