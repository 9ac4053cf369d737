"""`dense<…>` constants straight from the text into bytes: hexadecimal blobs, long lists and splats.

A program may hold hundreds of megabytes in one literal. Neither a token nor a Python number is made for each element;
what is unusual in a list (hexadecimal elements, comments, complex numbers) goes to the library's parser.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

_WHOLE_SPLAT_ELEMENTS = 1024
"""Maximum elements of a splat that stores each of them, as code that reads lists of numbers expects. A larger splat
stores the bytes of one element only."""

_COMPARED_BYTES = 1 << 16
"""Maximum bytes that `_all_equal` compares at a time with a block, which repeats the first element of a constant."""

_LEAST_NUMPY_CHARACTERS = 1024
"""Minimum characters of a list that is parsed by NumPy; shorter ones are parsed by xDSL, without importing NumPy."""

_LONGEST_LIST = 100
"""Elements that are printed one by one; more are printed as a blob."""

ELIDED = "__elided__"
"""Name that MLIR prints in place of a constant's elements when it omits them: `dense_resource<__elided__>`."""

_BLOB = re.compile(r'\s*"0x')
"""Start of a constant that is stored as hexadecimal digits, `"0x0000803F"`, after the `<` of `dense<`."""
_LIST = re.compile(r"[\[\]0-9eE+\-.,\s]*")
"""Text of a list of decimal numbers, `[[1, 2.5e3], [-3, 4]]`, which NumPy reads; xDSL's parser reads any other."""
_DELETE_NUMBERS = {ord(c): None for c in "0123456789eE+-. \t\r\n\v\f"}
"""Table for `str.translate` that leaves the brackets and commas of a list, to compare its nesting with a shape."""
_DELETE_BRACKETS = {ord(c): None for c in "[]"}
"""Table for `str.translate` that leaves the numbers and commas of a list."""
_FLOATS: dict[type, str] = {Float16Type: "<f2", Float32Type: "<f4", Float64Type: "<f8"}
"""Float type → the same type of NumPy, little-endian."""


def blob_of(text: str, blobs: Mapping[int, bytes], start: int, end: int) -> bytes | None:
    """Return the bytes of the literal whose hexadecimal digits are `text[start:end]`, or were removed from there.

    Args:
        text: The text.
        blobs: Offset of the quote that ends a literal → its bytes. The digits of long literals are removed from a text
            before it is parsed: of `"0x0000803F"`, `"0x"` remains.
        start: Offset of the first digit.
        end: Offset of the quote after the last one.

    Returns:
        The bytes; None if the text has other characters than pairs of hexadecimal digits.
    """
    if end in blobs:
        return blobs[end]
    try:
        return binascii.unhexlify(text[start:end])
    except ValueError:
        return None


def parse_dense(parser: AttrParser, type: Any, blobs: Mapping[int, bytes]) -> DenseIntOrFPElementsAttr[Any] | None:
    """Parse a `dense` literal at its `<`. Return None, with nothing consumed, for a literal that the caller handles.

    Two forms are parsed here, without a token for each element:

        <"0x0000803F00000040"> : tensor<2xf32>      the bytes of the elements 1.0 and 2.0
        <[[1, 2, ...], ...]> : tensor<...xi32>      a list of decimal numbers of at least 1024 characters

    All others, such as `<0.0>`, short lists and complex numbers, return None. So do long lists that do not fit the
    type, whose error the caller's parser raises.

    Args:
        parser: The parser.
        type: Type of the constant; None if the text has it after the literal, as `dense<...> : type`.
        blobs: Offset of the quote that ends a literal → its bytes, for literals whose digits were removed from the
            text, so that only `<"0x">` remains of them.

    Raises:
        ParseError: The data does not fit the type.
    """
    content = str(parser.lexer.input.content)
    open = parser.pos
    if content[open : open + 1] != "<":
        return None
    blob = _BLOB.match(content, open + 1)
    if blob is not None:
        return _parse_blob(parser, content, open, blob.end(), type, blobs)
    close = content.find(">", open)
    if close - open < _LEAST_NUMPY_CHARACTERS or _LIST.fullmatch(content, open + 1, close) is None:
        return None
    parser._resume_from(close)  # at the `>`, after the list: the type is needed to convert the elements
    type = _parse_type(parser, type)
    body = content[open + 1 : close]
    data = list_bytes(body, type) if _nesting_fits(body, type.get_shape()) else None
    if data is None:
        parser._resume_from(open)  # so that nothing is consumed
        return None
    return DenseIntOrFPElementsAttr(type, BytesAttr(data))


def _parse_type(parser: AttrParser, type: Any) -> Any:
    """Parse the `>` that ends a literal, and its type after it if `type` is None; return the type."""
    parser.parse_punctuation(">", " in dense attribute")
    if type is None:
        parser.parse_punctuation(":", " in dense attribute")
        type = parser._parse_dense_literal_type()
    return type


def _parse_blob(
    parser: AttrParser, content: str, open: int, start: int, type: Any, blobs: Mapping[int, bytes]
) -> DenseIntOrFPElementsAttr[Any]:
    """Parse a literal that is a string of hexadecimal digits, `<"0x0000803F">`: the bytes of the elements.

    Args:
        parser: The parser.
        content: The whole text.
        open: Offset of the `<`, where errors are reported.
        start: Offset of the first digit.
        type: Type of the constant; None if it follows the literal.
        blobs: Offset of the quote that ends a literal → its bytes, for literals whose digits were removed from the
            text, so that only `<"0x">` remains of them.

    Raises:
        ParseError: The literal is not closed, has other characters than digits, or does not fit the type.
    """
    end = content.find('"', start)
    if end < 0:  # the error is reported at the opening quote
        parser.raise_error("this string is not closed", start - len('"0x'), start)
    parser._resume_from(end + 1)
    type = _parse_type(parser, type)
    data = blob_of(content, blobs, start, end)
    if data is None:
        parser.raise_error("a blob is made of pairs of hexadecimal digits after 0x", open, open + 1)
    return blob_constant(parser, data, type, open)


def blob_constant(parser: AttrParser, data: bytes, type: Any, error_offset: int) -> DenseIntOrFPElementsAttr[Any]:
    """Return a constant of the type `type` with the raw bytes `data`; the bytes of a single element make a splat.

    Raises ParseError, at the offset `error_offset` of the text, if the number of bytes does not fit the type.
    """
    size = element_bytes(type.element_type)
    expected = math.prod(type.get_shape()) * size
    data = sign_extended(data, type.element_type)
    if len(data) == size:
        return splat_of_bytes(type, data)
    if len(data) != expected:
        message = f"{len(data)} bytes are given, but {type} has {expected}"
        parser.raise_error(message, error_offset, error_offset + 1)
    return DenseIntOrFPElementsAttr(type, BytesAttr(data))


def sign_extended(data: bytes, element: Any) -> bytes:
    """Return the bytes of elements in which integers of less than 8 bits are sign-extended to one byte each.

    That is the form of constants in this compiler. MLIR prints the unused bits as 0: an i4 of -1 is 0F in its text, and
    FF in the result. Bytes of other element types are returned unchanged.
    """
    if not isinstance(element, IntegerType) or element.width.data >= 8:
        return data
    import numpy as np

    unused_bits = 8 - element.width.data
    # The arithmetic right shift of i8 copies the sign.
    return bytes((np.frombuffer(data, np.int8) << unused_bits >> unused_bits).tobytes())


def element_bytes(element: Any) -> int:
    """Return the size of one element in a constant, in bytes; elements of less than 8 bits take one byte."""
    return int(element.compile_time_size)


def splat(type: Any, value: Any) -> DenseIntOrFPElementsAttr[Any]:
    """Return the constant of the shaped `type` whose elements are all the Python number `value`."""
    one = DenseIntOrFPElementsAttr.from_list(type.__class__(type.element_type, [1]), [value])
    return splat_of_bytes(type, one.data.data)


def splat_of_bytes(type: Any, element: bytes) -> DenseIntOrFPElementsAttr[Any]:
    """Return the constant whose elements all have the bytes `element`; a large constant stores only these bytes."""
    count = math.prod(type.get_shape())
    return DenseIntOrFPElementsAttr(type, BytesAttr(element if count > _WHOLE_SPLAT_ELEMENTS else element * count))


def whole_bytes(constant: DenseIntOrFPElementsAttr[Any]) -> bytes:
    """Return the bytes of all elements of a constant, which may store those of one element only."""
    data = constant.data.data
    return data * (math.prod(constant.get_shape()) * element_bytes(constant.get_element_type()) // max(len(data), 1))


_SPLATS: WeakKeyDictionary[DenseIntOrFPElementsAttr[Any], bool] = WeakKeyDictionary()
"""Cached results of is_splat(): passes query it repeatedly, and a constant may have millions of elements."""


def is_splat(constant: DenseIntOrFPElementsAttr[Any]) -> bool:
    """Return whether all elements, of which there is at least one, have the same bits."""
    data, size = constant.data.data, element_bytes(constant.type.element_type)
    if data[:size] != data[-size:]:  # a fast test for most constants: a look-up in the cache hashes all bytes
        return False
    known = _SPLATS.get(constant)
    if known is None:
        known = _SPLATS[constant] = _all_equal(data, size)
    return known


def print_dense(
    printer: Printer, constant: DenseIntOrFPElementsAttr[Any], elide_bytes: int | None = None
) -> None:  # fmt: skip
    """Print a constant, or the placeholder `dense_resource<__elided__>` if it has more than `elide_bytes` bytes.

    Equal elements are printed as one, `dense<1.0>`; more than `_LONGEST_LIST` others as their bytes, `dense<"0x...">`;
    fewer as a list, `dense<[1, 2]>`. None prints all constants.

    xDSL's printer is not used: it treats 0.0 and -0.0 as equal, and compares the elements of a splat one by one.
    """
    shape = constant.get_shape()
    data = constant.data.data
    if elide_bytes is not None and len(data) > elide_bytes and not is_splat(constant):
        printer.print_string(f"dense_resource<{ELIDED}> : ")
        printer.print_attribute(constant.type)
        return
    printer.print_string("dense<")
    if data and is_splat(constant):
        one = DenseIntOrFPElementsAttr(constant.type.__class__(constant.type.element_type, [1]),
                                       BytesAttr(data[: element_bytes(constant.type.element_type)]))  # fmt: skip
        constant._print_one_elem(one.get_values()[0], printer)
    elif math.prod(shape) > _LONGEST_LIST:
        printer.print_string(f'"0x{data.hex().upper()}"')
    elif data:
        constant._print_dense_list(constant.get_values(), shape, printer)
    printer.print_string("> : ")
    printer.print_attribute(constant.type)


def _all_equal(data: bytes, size: int) -> bool:
    """Return whether all elements of `size` bytes are equal; False if there is none."""
    if len(data) <= size:
        return len(data) > 0
    # `block` repeats the first element. All blocks of the data must equal it, and the remainder after the last whole
    # block must equal its first bytes.
    block = data[:size] * max(1, min(len(data), _COMPARED_BYTES) // size)
    end = len(data) - len(data) % len(block)
    are_blocks_equal = all(data.startswith(block, offset) for offset in range(0, end, len(block)))
    return are_blocks_equal and block.startswith(data[end:])


def _nesting_fits(body: str, shape: tuple[int, ...]) -> bool:
    """Return whether the brackets and commas of a list match `shape`: "[[1, 2], [3, 4]]" matches (2, 2)."""
    if not shape or 0 in shape:  # a constant of this shape is no list, or is written without elements
        return False
    expected = "[" + "," * (shape[-1] - 1) + "]"
    for size in reversed(shape[:-1]):
        expected = "[" + ",".join([expected] * size) + "]"
    return body.translate(_DELETE_NUMBERS) == expected  # brackets and commas remain


def list_bytes(body: str, type: Any) -> bytes | None:
    """Return the bytes of the elements of a list, little-endian; None if one is not a decimal number or out of range.

    `body` is the list with its brackets, which must match the shape of `type`, the tensor, vector or memref type.
    """
    element = type.element_type
    numbers = _decimal_numbers(body.translate(_DELETE_BRACKETS), element)
    if numbers is None or numbers.size != math.prod(type.get_shape()):
        return None
    if not isinstance(element, AnyFloat):
        return _integer_bytes(numbers, element)
    numpy_code = _FLOATS.get(element.__class__)  # None for floats that NumPy lacks, such as bf16
    if numpy_code is None:
        return bytes(element.pack(numbers.tolist()))
    return bytes(numbers.astype(numpy_code).tobytes())


def _decimal_numbers(flat: str, element: Any) -> Any:
    """Return the numbers of a list without brackets as an array of f64 or i64; None if one is not a decimal number.

    `element` is their element type. None is also returned for a type that is neither float nor integer, and for an
    integer that is written as a float.
    """
    import numpy as np

    is_float = isinstance(element, AnyFloat)
    if not is_float and not isinstance(element, IntegerType | IndexType):
        return None
    if not is_float and re.search(r"[.eE]", flat) is not None:
        return None
    try:
        return np.array(flat.split(","), dtype=np.float64 if is_float else np.int64)
    except (ValueError, OverflowError):
        return None


def _integer_bytes(numbers: Any, element: Any) -> bytes | None:
    """Return the bytes of i64 numbers in an integer type, little-endian; None if one is out of range."""
    import numpy as np

    width = 64 if isinstance(element, IndexType) else element.width.data
    if width > 64:
        return None
    least = -(1 << (width - 1))
    # Integers may also be written as unsigned ones, up to 2^width - 1; but `numbers` are i64.
    greatest = (1 << min(width, 63)) - 1
    if int(numbers.min()) < least or int(numbers.max()) > greatest:
        return None
    if width < 8:  # as in xDSL: one byte each, sign-extended
        return sign_extended(numbers.astype(np.int8).tobytes(), element)
    return bytes(numbers.astype(f"<i{element_bytes(element)}").tobytes())
