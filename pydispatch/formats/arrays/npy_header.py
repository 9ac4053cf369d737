"""The header of NumPy's .npy format, read without trusting it and without NumPy."""

from __future__ import annotations

import ast
import re
import struct
from dataclasses import dataclass

_MAX_HEADER_BYTES = 1 << 16
"""Maximum size of a header. NumPy writes about a hundred bytes; a larger limit would let a broken file take more time
and memory."""
_ELEMENT_TYPE = re.compile(r"(?P<order>[<>|=])(?P<kind>[biufcV])(?P<bytes>[1-9]\d{0,2})")
"""Element type such as `<f4`: byte order (`|` without one, `=` for that of this machine), kind, number of bytes."""


@dataclass(frozen=True)
class NpyHeader:
    """Header of a .npy file, as the reader of arrays has decoded it.

    Attributes:
        kind: NumPy kind of the elements: b, i, u, f, c, or V for raw bits.
        bits: Size of an element, in bits.
        shape: Sizes of the array; () for a number.
        length: Offset of the first element in the file, in bytes: the length of the header with its prefix.
    """

    kind: str
    bits: int
    shape: tuple[int, ...]
    length: int

    @classmethod
    def read(cls, data: memoryview) -> NpyHeader:
        """Parse the header of a .npy file. data: the file, or its begin with the whole header.

        Raises ValueError if the header is broken, or if the array cannot be mapped as it is (big-endian or Fortran
        order).
        """
        header, length = _parse_dictionary(data)
        descr, shape = header.get("descr"), header.get("shape")
        match = _ELEMENT_TYPE.fullmatch(descr) if isinstance(descr, str) else None
        if match is None:
            raise ValueError(f"elements of type {descr!r:.60} are not supported")
        if match["order"] == ">" and match["bytes"] != "1":  # a byte has no order
            raise ValueError("its elements are big-endian; write x.astype(x.dtype.newbyteorder('<'))")
        if not isinstance(shape, tuple) or not all(type(v) is int and 0 <= v < 2**63 for v in shape) or len(shape) > 64:
            raise ValueError(f"its shape is {_shown(shape)}")
        # With at most one axis of more than one element, both orders are the same.
        if header.get("fortran_order") is not False and sum(v != 1 for v in shape) > 1:
            raise ValueError("its elements are in Fortran order; write np.ascontiguousarray(x)")
        return cls(match["kind"], 8 * int(match["bytes"]), shape, length)


def _parse_dictionary(data: memoryview) -> tuple[dict[object, object], int]:
    """Return the dictionary of a .npy header, and the length of the header with its prefix; raise ValueError if broken.

    The prefix has 6 bytes of magic number, 2 of the version, and the size of the dictionary's text in 2 or 4 bytes.
    """
    if len(data) < 12 or bytes(data[:6]) != b"\x93NUMPY":
        raise ValueError("it is no .npy file")
    if data[6] not in (1, 2, 3):
        raise ValueError(f"format {data[6]}.{data[7]} of .npy is not known")
    width = 2 if data[6] == 1 else 4
    (size,) = struct.unpack("<H" if width == 2 else "<I", data[8 : 8 + width])
    length = 8 + width + size
    if size > _MAX_HEADER_BYTES or length > len(data):
        raise ValueError(f"a header of {size} bytes does not fit")
    try:
        header = ast.literal_eval(bytes(data[8 + width : length]).decode("utf-8").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):  # TypeError: a list as a key
        raise ValueError("its header cannot be read") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no dictionary")
    return header, length


def _shown(shape: object) -> str:
    """Return a shape for messages; Python refuses to print integers of thousands of digits."""
    try:
        return f"{shape!r:.60}"
    except ValueError:
        return "of numbers of thousands of digits"
