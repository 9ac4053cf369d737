"""The types of quantized numbers: integers that represent `(number - zero point) * scale`."""

from __future__ import annotations

from typing import Any, NamedTuple

from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Quantization(NamedTuple):
    """Scales, zero points and storage type of a quantized type: the data of `UniformType`.

    A stored integer q represents (q - zero point) * scale. Examples of the fields that say which elements share a scale
    and a zero point:

        i8:f32, 0.5                                      axes (), blocks (), shape ()
        i8:f32:1, {0.1, 0.2, 0.3}                        axes (1,), blocks (), shape (3,)
        i8:f32:{0:1, 1:2}, {{0.1, 0.2}, {0.3, 0.4}}      axes (0, 1), blocks (1, 2), shape (2, 2)

    Attributes:
        bits: Width of the stored integers.
        signed: Whether they are signed.
        low: Smallest permitted stored integer.
        high: Largest permitted stored integer.
        expressed: Type of the represented numbers.
        axes: Dimensions along which the scales differ; () for one scale.
        blocks: For each of these dimensions, how many consecutive indices share a scale; () if each index along the
            only axis has its own.
        shape: Number of scales along each of `axes`; () for one scale.
        scales: Scales in row-major order of `shape`.
        zero_points: Zero point for each scale, the stored integer that represents 0.
    """

    bits: int
    signed: bool
    low: int
    high: int
    expressed: Attribute
    axes: tuple[int, ...]
    blocks: tuple[int, ...]
    shape: tuple[int, ...]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]


class _Storage(NamedTuple):
    """Type of the stored integers of a quantized type: width in bits, signedness, and range from `low` to `high`, both
    inclusive."""

    bits: int
    signed: bool
    low: int
    high: int


def _limits(bits: int, signed: bool) -> tuple[int, int]:
    """Return the smallest and the largest integer of `bits` bits, both inclusive."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


@irdl_attr_definition
class UniformType(Data[Quantization], TypeAttribute):
    """Uniformly quantized type `!quant.uniform<i8:f32, 0.5:-3>`: i8 integers represent f32 numbers, with the scale 0.5
    and the zero point -3.

    With a scale for each index along axis 1, of integers from 1 to 255: `<u8<1:255>:f32:1, {0.1, 0.2:128}>`. With a
    scale for each block, of 1 index along axis 0 and 2 along axis 1: `<i8:f32:{0:1, 1:2}, {{0.1, 0.2}, {0.3, 0.4}}>`.
    A zero point of 0 is omitted.
    """

    name = "quant.uniform"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Quantization:
        """Parse `<storage:expressed, scale>`, or scales per index along an axis, or per block along several axes.

        Examples: `<i8:f32, 0.5:-3>`, with the zero point -3; `<i8:f32:1, {0.1, 0.2}>`, with a scale for each index
        along axis 1; `<i8:f32:{0:1, 1:2}, {{0.1, 0.2}, {0.3, 0.4}}>`, with a scale for each block of 1 index along
        axis 0 and 2 indices along axis 1.
        """
        with parser.in_angle_brackets():
            # The stored integers, such as `i8` or `i8<-127:127>`, and the type of the numbers that they stand for.
            storage = _parse_storage(parser)
            parser.parse_punctuation(":")
            expressed = parser.parse_type()
            axes, blocks = _parse_axes(parser)
            parser.parse_punctuation(",")
            start = parser.pos
            shape, pairs = _parse_scales(parser)  # the shape is that of the nested braces, one level per axis
            if len(shape) != len(axes):
                parser.raise_error(f"{len(axes)} axes need scales in as many braces", start, parser.pos)
        scales = tuple(scale for scale, _ in pairs)
        zero_points = tuple(zero_point for _, zero_point in pairs)
        return Quantization(
            bits=storage.bits, signed=storage.signed, low=storage.low, high=storage.high, expressed=expressed,
            axes=tuple(axes), blocks=tuple(blocks), shape=shape, scales=scales, zero_points=zero_points,
        )  # fmt: skip

    def print_parameter(self, printer: Printer) -> None:
        """Print the storage type, its limits if they are narrower than the type, the expressed type, the axes, and the
        scales with zero points.
        """
        data = self.data
        storage = f"{'i' if data.signed else 'u'}{data.bits}"
        limits = "" if (data.low, data.high) == _limits(data.bits, data.signed) else f"<{data.low}:{data.high}>"
        axes = ""
        if data.blocks:
            axes = ":{" + ", ".join(f"{axis}:{n}" for axis, n in zip(data.axes, data.blocks, strict=True)) + "}"
        elif data.axes:
            axes = f":{data.axes[0]}"
        pairs = [_pair(*pair) for pair in zip(data.scales, data.zero_points, strict=True)]
        with printer.in_angle_brackets():
            printer.print_string(f"{storage}{limits}:{data.expressed}{axes}, ")
            printer.print_string(_nested(data.shape, pairs))


def _pair(scale: float, zero_point: int) -> str:
    """Return a scale and a zero point as text: 0.5, 3 -> "0.5:3", and 0.5, 0 -> "0.5"; MLIR needs a `.` before an
    exponent."""
    mantissa, e, exponent = repr(scale).partition("e")
    text = f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"
    return f"{text}:{zero_point}" if zero_point else text


def _nested(shape: tuple[int, ...], texts: list[str]) -> str:
    """Return texts, in row-major order, as nested lists in braces of this shape; for (), return the one text itself."""
    if not shape:
        return texts[0]
    row_size = len(texts) // max(shape[0], 1)  # number of texts in each of the shape[0] lists
    rows = (texts[n * row_size : (n + 1) * row_size] for n in range(shape[0]))
    return "{" + ", ".join(_nested(shape[1:], row) for row in rows) + "}"


def _parse_storage(parser: AttrParser) -> _Storage:
    """Parse the storage type with its optional range, `u8<1:255>`."""
    start = parser.pos
    word = parser.parse_identifier()
    if word[0] not in "iu" or not word[1:].isdecimal() or not 1 <= int(word[1:]) <= 32:
        parser.raise_error(f"expected a storage type such as i8 or u8, got {word}", start, start + len(word))
    bits, signed = int(word[1:]), word[0] == "i"
    low, high = _limits(bits, signed)
    if parser.parse_optional_punctuation("<") is not None:
        minimum = parser.parse_integer()
        parser.parse_punctuation(":")
        maximum = parser.parse_integer()
        parser.parse_punctuation(">")
        if not low <= minimum < maximum <= high:
            parser.raise_error(f"the range {minimum}:{maximum} does not fit into {word}", start, parser.pos)
        low, high = minimum, maximum
    return _Storage(bits, signed, low, high)


def _parse_axes(parser: AttrParser) -> tuple[list[int], list[int]]:
    """Parse `:axis`, or `:{axis:size, ...}` for blocks, before several scales; or nothing before a single one.

    Return the axes, and the sizes of the blocks along them.
    """
    axes: list[int] = []
    blocks: list[int] = []
    if parser.parse_optional_punctuation(":") is not None:
        if parser._current_token.text == "{":
            parser.parse_comma_separated_list(
                parser.Delimiter.BRACES, lambda: _parse_block(parser, axes, blocks), " in blocks"
            )
        else:
            axes.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
    return axes, blocks


def _parse_block(parser: AttrParser, axes: list[int], blocks: list[int]) -> None:
    """Parse `axis:size` of a block; append the axis to `axes` and the size to `blocks`."""
    axes.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
    parser.parse_punctuation(":")
    blocks.append(parser.parse_integer(allow_boolean=False, allow_negative=False))


def _parse_scales(parser: AttrParser) -> tuple[tuple[int, ...], list[tuple[float, int]]]:
    """Parse nested braces of scales with optional zero points, `{0.1, 0.2:128}`, or one scale without braces.

    Return the shape of the braces, () without braces, and the (scale, zero point) pairs in row-major order.
    """
    start = parser.pos
    parts: Any = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, lambda: _parse_scales(parser))
    if parts is None:
        scale = float(parser.parse_number())
        zero_point = parser.parse_integer() if parser.parse_optional_punctuation(":") is not None else 0
        return (), [(scale, zero_point)]
    if len({shape for shape, _ in parts}) != 1:
        parser.raise_error("the scales are not a full array", start, parser.pos)
    row_shape = parts[0][0]
    return (len(parts), *row_shape), [pair for _, pairs in parts for pair in pairs]


Quant = Dialect("quant", [], [UniformType])
