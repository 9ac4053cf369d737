"""The `{-# dialect_resources: ... #-}` block after a program: blobs that constants refer to by name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr
from xdsl.parser import AttrParser

from pydispatch.ir.core.dense import blob_of, element_bytes, sign_extended, splat_of_bytes
from pydispatch.ir.core.long_literals import ALIGNMENT_DIGITS

_ENTRY = re.compile(r'([A-Za-z_][\w$.\-]*|"(?:[^"\\]|\\.)*")\s*:\s*"0x([0-9A-Fa-f]*)"')
"""Resource in the block, `name: "0x04000000..."`: its key, and its hexadecimal digits."""


class Resources:
    """Resources of one text: constants whose bytes are in a block at its end, located on first use.

    A resource begins with 4 bytes that state its alignment. In the block

        {-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

    the resource `w` has the 8 bytes 0000803F00000040, two f32. The parser creates an instance for its text, and calls
    `get` and then `constant` for each `dense_resource<w> : tensor<2xf32>`.
    """

    def __init__(self, text: str, blobs: Mapping[int, bytes]) -> None:
        """Store a text from which the digits of long literals "0x..." have been removed, and the removed bytes."""
        self._text = text
        self._blobs = blobs  # offset of the quote that ends a literal → bytes of its removed digits
        # Key of a resource → offset of the first digit of its blob and after the last one; None before first use.
        self._spans: dict[str, tuple[int, int]] | None = None

    def get(self, key: str) -> bytes | None:
        """Return the bytes of a resource without its 4-byte alignment header; None if the text has none of this key."""
        if self._spans is None:
            start = self._text.rfind("{-#")
            matches = _ENTRY.finditer(self._text, start) if start >= 0 else ()
            self._spans = {m.group(1).strip('"'): m.span(2) for m in matches}
        if key not in self._spans:
            return None
        start, end = self._spans[key]
        return blob_of(self._text, self._blobs, start + ALIGNMENT_DIGITS, end)

    def constant(self, data: bytes, type: Any, parser: AttrParser, start: int) -> DenseIntOrFPElementsAttr[Any]:
        """Return the bytes `data` of a blob as a dense constant of the shaped type `type`.

        A blob of the size of one element gives a splat. An element of less than 8 bits takes one byte. Raise a parse
        error, for the text from the offset `start` to the current token, if the blob has any other size than that of
        all elements.
        """
        size = element_bytes(type.element_type)
        expected = math.prod(type.get_shape()) * size
        if expected != len(data) and len(data) != size:
            parser.raise_error(f"the resource has {len(data)} bytes, but {type} has {expected}", start, parser.pos)
        data = sign_extended(data, type.element_type)
        if len(data) == size:
            return splat_of_bytes(type, data)
        return DenseIntOrFPElementsAttr(type, BytesAttr(data))
