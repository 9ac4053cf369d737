"""The value grammar of the command line, which is that of IREE's runner: reading of `--input`.

8xf32=1 2 3 4 5 6 7 8     a tensor; one value fills it, none means zeros; , [ ] and blanks separate
f32=3                     a tensor of rank 0
4xi4=1 -2 3 4             i2, i4 and f4E2M1FN elements are numbers like others (in raw files they are packed)
4xi1=01,00,01,00          i1, complex (cf64) and opaque (x8) elements are bytes in hexadecimal
4xf32=@file.bin           raw bytes; =+file.bin continues in the open file
@a.npy  +a.npy  *a.npy    the first array of a file, the next one, all that are left
3.5                       a number, or a tensor of rank 0
(null)  (ignored)         0 for a number
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pydispatch._core.arrays import ElementType, type_of, unpack_elements
from pydispatch.errors import InvalidArgumentError, SystemError_
from pydispatch.files import open_binary
from pydispatch.formats.arrays.small_floats import encode, encode_bfloat
from pydispatch.formats.program.opcodes import Numerical, dtype_word

Array = NDArray[Any]
"""Tensor as a value; floats without a NumPy type are unsigned integers with their bits."""
Value = Array | int | float | bool
"""Value of an argument or a result."""

_PREFIXES = {
    "i": Numerical.INTEGER,
    "si": Numerical.SIGNED,
    "ui": Numerical.UNSIGNED,
    "f": Numerical.FLOAT,
    "bf": Numerical.BFLOAT,
    "cf": Numerical.COMPLEX,
    "x": Numerical.UNSIGNED,
    "*": Numerical.UNSIGNED,
}
"""Numerical types by the letters before the width, as in `i32`; `x` and `*` are opaque bits."""
SMALL_FLOATS = {kind.name.replace("F", "f", 1): kind for kind in Numerical if kind.name[:2] in ("F8", "F4")}
"""Floats of 8 and 4 bits by their names, such as f8E5M2."""
_ABSENT = ("(null)", "(ignored)")
"""Texts of IREE's runner for a value that is absent or not compared."""
_MISSPELLED_TENSOR = "*8x"
"""Beginning of a misspelled tensor, such as `*8xf32=1`, which also has the form `*file`.

It is parsed as a tensor, so that the error names the wrong size `*8` and not a missing file."""
_SEPARATORS = re.compile(r"[\s,\[\]]+")
"""Text between the elements of a tensor; brackets show rows and have no meaning."""


@dataclass(frozen=True)
class Spec:
    """Parsed tensor type of a command-line value, such as `2x3xf32`.

    Attributes:
        shape: Sizes; () for rank 0.
        kind: Element type.
        is_hex: Whether elements are written as hexadecimal bytes.
    """

    shape: tuple[int, ...]
    kind: ElementType
    is_hex: bool


@dataclass
class Reader:
    """Reader of command-line values. Files stay open, so that `+` continues after the last array that was read.

    `read` and `read_all` parse values in any order; `close` closes the files at the end.

    Attributes:
        streams: Path → open file.
    """

    streams: dict[str, IO[bytes]] = field(default_factory=dict)

    def read_all(self, texts: list[str], scalars: list[ElementType | None]) -> list[Value]:
        """Read one value per text; `*file` gives several.

        Args:
            texts: The values in the grammar of this module.
            scalars: For each position the element type of a number or rank-0 tensor; None for other tensors.
        """
        values: list[Value] = []
        for text in texts:
            position = len(values)  # of the next argument: `*file` may have given several
            scalar = scalars[position] if position < len(scalars) else None
            # Quotes around a value that no shell has removed are no part of it.
            values += self.read(text.strip().removeprefix('"').removesuffix('"'), scalar)
        return values

    def read(self, text: str, scalar: ElementType | None) -> list[Value]:
        """Parse one text of the command line into a value, or several for `*file`; raise InvalidArgumentError.

        scalar: the type of a number that is expected; None for a tensor. `@f.npy` reads a file from its beginning,
        `+f.npy` where the last reading ended, `*f.npy` all arrays from there on, and `2xf32=1 2` states a tensor.
        `&2xf32=1 2`, IREE's form of an argument that is also written, is read like a tensor without the `&`. `(null)`
        and `(ignored)` are the number 0.
        """
        try:
            # Names of files may have any characters, but Python would also read digits of other scripts as numbers.
            may_name_file = any(mark in text for mark in "@+*")
            if not text.isascii() and not may_name_file:
                raise ValueError("expected a value in ASCII")
            is_number_text = text[:1] not in "@+*&" and "=" not in text
            if scalar is not None and is_number_text:
                return [0 if text in _ABSENT else _parse_number(text, scalar)]
            if text[:1] == "@":
                return [_read_npy(self.open(text[1:], restart=True))]
            if text[:1] == "+":
                return [_read_npy(self.open(text[1:]))]
            # `*8xf32=1` is read as a tensor below, whose error names the size `*8`.
            if text[:1] == "*" and not text.startswith(_MISSPELLED_TENSOR):
                return self._remaining_arrays(self.open(text[1:]))
            return [self.tensor(text.removeprefix("&"))]
        except (ValueError, OverflowError, EOFError, MemoryError) as error:
            raise InvalidArgumentError(f"input '{_shortened(text)}': {error}") from None
        except SystemError_:  # names the file, which could not be opened
            raise
        except OSError as error:
            raise SystemError_(f"input '{_shortened(text)}': {error.strerror or error}") from None

    def tensor(self, text: str) -> Array:
        """Parse the text of a tensor into an array; raise ValueError for other text.

        The text is a type, or a type, `=` and the elements:

        - `2x2xf32=1 2 3 4`: all elements, in row-major order
        - `2x2xf32=7`: one value for all elements
        - `2x2xf32=` or `2x2xf32`: zeros
        - `2x2xf32=@data.bin`: the bytes of the elements, here 16, at the start of a file
        - `2x2xf32=+data.bin`: the bytes that follow those that were read last from this file
        """
        if text in _ABSENT:
            raise ValueError("a tensor is needed here, for example 8xf32=2")
        head, equals, body = text.partition("=")
        if not equals and "x" not in head:  # no shape, but a number such as `3.5`, or a file name without its @
            raise ValueError("expected a shape and type such as 4x2xf32=..., or the name of an .npy file after @")
        spec = parse_type(head.strip())
        count = math.prod(spec.shape)
        if body[:1] in ("@", "+"):  # `body` is empty without an =
            stream = self.open(body[1:], restart=body[0] == "@")
            size = spec.kind.nbytes(count)
            data = stream.read(size)
            if len(data) < size:
                raise ValueError(f"the file has {len(data)} bytes left, expected {size}")
            if spec.kind.packed:  # two or more elements share a byte of the file; in the array each has its own
                return unpack_elements(spec.kind, data, spec.shape)
            return np.frombuffer(data, spec.kind.dtype).reshape(spec.shape)
        tokens = [token for token in _SEPARATORS.split(body) if token]
        if len(tokens) not in (0, 1, count):
            raise ValueError(f"expected {count} values, one, or none, got {len(tokens)}")
        array = np.zeros(spec.shape, spec.kind.dtype)
        if tokens:  # a single value has the shape (), which is broadcast
            array[...] = _elements(tokens, spec).reshape(spec.shape if len(tokens) == count else ())
        return array

    def open(self, path: str, restart: bool = False) -> IO[bytes]:
        """Return the stream of a file, from its start if `restart` is set, else from where the last read ended."""
        if restart and path in self.streams:
            self.streams.pop(path).close()
        if path not in self.streams:
            self.streams[path] = open_binary(path)
        return self.streams[path]

    def close(self) -> None:
        """Close the streams of all files."""
        for stream in self.streams.values():
            stream.close()

    def _remaining_arrays(self, stream: IO[bytes]) -> list[Value]:
        """Return all arrays from the current position of a stream on."""
        values: list[Value] = []
        while stream.read(1):  # no end of file yet
            stream.seek(-1, os.SEEK_CUR)
            values.append(_read_npy(stream))
        return values


def parse_type(text: str) -> Spec:
    """Parse a tensor type; raise ValueError for other text.

    - `2x3xf32`: shape (2, 3), elements f32
    - `f32`: shape (), a tensor of rank 0
    - `2x3xx8` or `2x3x*8`: opaque elements, 8 bits without a numeric meaning
    - `4xi1`: bools, which are stored in a byte each; like opaque and complex elements they are written in hexadecimal
    """
    *sizes, name = _split_type(text)
    for axis, size in enumerate(sizes):
        if not size.isdecimal():
            raise ValueError(f"size {axis}: expected a number, got '{size}'")
    shape = tuple(int(size) for size in sizes)
    if len(shape) > 32:
        raise ValueError(f"rank {len(shape)} is more than NumPy has in common; at most 32")
    if name in SMALL_FLOATS:  # f8E5M2, f4E2M1FN and the like: the character after `f` is the width in bits
        return Spec(shape, type_of(dtype_word(SMALL_FLOATS[name], int(name[1]))), is_hex=False)
    match = re.fullmatch(r"(i|si|ui|f|bf|cf|x|\*)(\d+)", name)  # IREE writes opaque elements as x8 or *8
    if match is None or len(match[2]) > 3:  # the widest has 128 bits
        raise ValueError(f"unknown element type '{name}'; for example f32, i8, ui16, bf16, cf64, i1, x8")
    prefix, bits = match[1], int(match[2])
    numerical = Numerical.BOOLEAN if bits == 1 and prefix != "x" else _PREFIXES[prefix]
    is_hex = bits == 1 or prefix in ("cf", "x", "*")  # IREE writes bools, complex and opaque elements so
    return Spec(shape, type_of(dtype_word(numerical, 8 if bits == 1 else bits)), is_hex)


def is_integer(kind: ElementType) -> bool:
    """Return whether elements are integers: signless, signed or unsigned, but not bool."""
    return kind.numerical <= Numerical.UNSIGNED  # the first types of the enumeration


def _split_type(text: str) -> list[str]:
    """Split a type at its `x`: `4x2xf32` into 4, 2 and f32.

    The `x` of an opaque type begins the text or follows another `x`: `4x2xx8` gives 4, 2 and x8. `4x8` gives 4 and 8,
    and `8` gives 8, where 8 is no element type.
    """
    *sizes, name = text.split("x")
    if name.isdecimal() and sizes[-1:] == [""]:  # the `x` before the number is of the name
        return [*sizes[:-1], f"x{name}"]
    return [*sizes, name]


def _elements(tokens: list[str], spec: Spec) -> Array:
    """Return the elements that tokens of this type spell, as a flat array. Raise ValueError or OverflowError for wrong
    ones.

    Tokens of opaque and complex elements are hexadecimal digits of their bytes. In the result, integers of fewer than 8
    bits have a byte each, and floats without a NumPy type (bf16, f8, f4) are unsigned integers with their bits.
    """
    if spec.is_hex:
        return _hexadecimal_elements(tokens, spec.kind.dtype)
    if is_integer(spec.kind):
        return _integer_elements([_integer(token) for token in tokens], spec.kind)
    return _float_elements(np.array([float(token) for token in tokens]), spec.kind)


def _hexadecimal_elements(tokens: list[str], dtype: np.dtype[Any]) -> Array:
    """Return elements whose bytes are given as hexadecimal digits; raise ValueError for another number of digits."""
    data = bytearray()
    for token in tokens:
        if len(token) != 2 * dtype.itemsize:
            raise ValueError(f"'{token}': expected {2 * dtype.itemsize} hexadecimal digits per element")
        data += bytes.fromhex(token)
    return np.frombuffer(bytes(data), dtype)


def _integer(token: str) -> int:
    """Return the integer that a token spells, decimal or with the prefix 0x; raise ValueError."""
    return int(token, 0) if token.lstrip("+-")[:2] in ("0x", "0X") else int(token)


def _integer_elements(numbers: list[int], kind: ElementType) -> Array:
    """Return integers as elements of a type, in a flat array; raise OverflowError for one that does not fit.

    Elements without a sign in their type may be written as signed or as unsigned numbers: i8 accepts -128 to 255, where
    255 and -1 are the same element. si8 accepts -128 to 127, ui8 0 to 255.
    """
    dtype, bits = kind.dtype, kind.bits
    # The range of the type; the highest number has a bit less if the type is signed.
    low = 0 if kind.numerical == Numerical.UNSIGNED else -(1 << (bits - 1))
    high = (1 << (bits - (kind.numerical == Numerical.SIGNED))) - 1
    for value in numbers:
        if not low <= value <= high:
            raise OverflowError(f"{value} does not fit {kind.name}")
    # An element of less than 8 bits is a byte. In a signed dtype it is sign-extended: 15 of an i4 is stored as -1.
    if bits < 8 and dtype.kind != "u" and kind.numerical != Numerical.UNSIGNED:
        numbers = [value - (1 << bits) if value >= 1 << (bits - 1) else value for value in numbers]
    # In an unsigned dtype the high bits of the byte are 0: -1 of an i4 is stored as 15.
    stored_bits = bits if bits < 8 and dtype.kind == "u" else 8 * dtype.itemsize
    # Two's complement of that width, as an unsigned number whose bytes are then viewed as the dtype.
    wrapped = [value & ((1 << stored_bits) - 1) for value in numbers]
    return np.array(wrapped, f"u{dtype.itemsize}").view(dtype)


def _float_elements(values: Array, kind: ElementType) -> Array:
    """Return `values`, of type f64, rounded to `kind`.

    A type without a NumPy type is one of ml_dtypes, whose conversions may round twice, or integers with its bits.
    Values beyond the range become infinities if the type has them.
    """
    if kind.name == "bf16":
        return encode_bfloat(values).view(kind.dtype)
    if kind.name in SMALL_FLOATS:
        return encode(values, kind.name).view(kind.dtype)
    with np.errstate(over="ignore"):
        return values.astype(kind.dtype)


def _parse_number(text: str, kind: ElementType) -> Value:
    """Convert a text to a number of an element type; raise ValueError for other text."""
    try:
        if kind.dtype.kind == "c":
            return np.array(complex(text), kind.dtype)
        if kind.numerical >= Numerical.FLOAT:
            return float(text)
        value = _integer(text)
        # Only 0 and 1 become a bool: a call rejects other integers, and names them.
        return bool(value) if kind.dtype.kind == "b" and value in (0, 1) else value
    except ValueError:
        raise ValueError(f"expected a number for {kind.name}") from None


def _read_npy(stream: IO[bytes]) -> Array:
    """Return the next array of a stream of .npy files, in C order."""
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return np.ascontiguousarray(array).reshape(array.shape)  # which gives an array of rank 0 the rank 1


def _shortened(text: str) -> str:
    """Return a text cut to 60 characters, for messages."""
    return text if len(text) <= 60 else text[:57] + "..."
