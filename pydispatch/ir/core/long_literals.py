"""Program texts without the digits of their long hexadecimal literals, whose bytes are stored beside them.

The weights of a model take two characters per byte in `dense<"0x...">` and in `dialect_resources`. They are decoded
while a file is read, so that no later step handles their digits.
"""

from __future__ import annotations

import binascii
import io
import os
import re
from pathlib import Path

from pydispatch.files import pieces

LEAST_DIGITS = 4096
"""Minimum number of digits of a literal that is stored as bytes. Errors cut a line with such a
literal, since it is longer than `locations.LONGEST_LINE`."""
_PIECE_CHARACTERS = 1 << 20
"""Characters of a text that are encoded at a time."""
_HEAD_BYTES = 64
"""Bytes at the start of a file that show whether it is text."""
_OPEN = b'"0x'
"""Start of a hexadecimal literal; its digits follow, up to a quote."""
_RESOURCES = b"{-#"
"""Start of the block with the resources, after the program."""
_BEFORE = re.compile(rb"(?:dense<|(:))[ \t]*\Z")
"""Text that precedes a literal: the beginning of a `dense` attribute, or the colon after the key of a resource. It is
in the line of the literal: at the end of another line it may be part of a comment."""
_LONGEST_BEFORE = 64
"""Number of characters before a literal in which `_BEFORE` is searched. After more white space its digits remain."""
ALIGNMENT_DIGITS = 8
"""Digits at the start of a resource that state its alignment; they remain in the text."""
_PAIRS = re.compile(rb"(?:[0-9A-Fa-f]{2})*")
"""Pairs of hexadecimal digits, two for each byte, that a text begins with."""
_CONTROL = re.compile(rb"[\0-\10\16-\37\177]")
"""Control characters other than white space: they occur in binary files, such as MLIR bytecode, and not in text."""


class ElidedText(str):
    """MLIR text without the digits of its long hexadecimal literals.

    Attributes:
        blobs: Offset of the quote that ends a literal → bytes that its missing digits stand for, in the order of the
            text.
    """

    __slots__ = ("blobs",)

    blobs: dict[int, bytes]

    def __new__(cls, text: str, blobs: dict[int, bytes]) -> ElidedText:
        """Create the text; a str gets its characters here, not in `__init__`."""
        self = super().__new__(cls, text)
        self.blobs = blobs
        return self


class ProgramFile(os.PathLike[str]):
    """Path of a program, with the text that was read from it for the cache key, so that it is not read again."""

    def __init__(self, path: str, text: str) -> None:
        """Store the path, and the text that was read from it, without the digits of long literals."""
        self._path, self.text = path, text

    def __fspath__(self) -> str:
        """Return the path, so that the file can be passed where a path is expected."""
        return self._path

    def __repr__(self) -> str:
        return repr(self._path)


def elide_literals(text: str) -> str:
    """Return a text without the digits of its long hexadecimal literals; the text itself if it has none.

    A string of a subclass, such as an `ElidedText`, is returned as it is: its creator has removed long literals.
    """
    if type(text) is not str or len(text) < LEAST_DIGITS or '"0x' not in text:
        return text
    reader = _Reader(is_file=False)
    for start in range(0, len(text), _PIECE_CHARACTERS):
        reader.feed(text[start : start + _PIECE_CHARACTERS].encode("utf-8", "surrogatepass"))
    return reader.finish()


def read_program(path: str | os.PathLike[str]) -> str:
    """Read a program in UTF-8, with line ends converted to \\n, without the digits of its long hexadecimal literals.

    Raises:
        SystemError: The file cannot be read.
        UnicodeDecodeError: The file is not UTF-8.
    """
    reader = _Reader(is_file=True)
    for piece in pieces(path):
        reader.feed(piece)
    return reader.finish()


def read_small_program(path: str | os.PathLike[str], most: int) -> str | None:
    """Return the program in a file like `read_program`; None if it is too large, or not a text file.

    Too large is a program of more than `most` bytes without the digits of its long literals. A file that is no regular
    file, such as a pipe, or that begins with control characters, is no text file. Neither is read to its end.
    """
    if not Path(path).is_file():  # reading a pipe would consume it
        return None
    reader = _Reader(is_file=True)
    for piece in pieces(path):
        is_binary = not reader.size and _CONTROL.search(piece[:_HEAD_BYTES])  # the head of the first piece decides
        if is_binary or reader.size > most:
            return None
        reader.feed(piece)
    return reader.finish() if reader.size <= most else None


class _Reader:
    """Reader of a program text in pieces, which takes long hexadecimal literals out of the text.

    `feed` is called with each piece in order, and then `finish`, which returns the text.

    Attributes:
        size: Size of the text so far in bytes, without the digits of long literals.
    """

    def __init__(self, *, is_file: bool) -> None:
        """Begin an empty text.

        `is_file` states whether its pieces are read from a file, whose line ends become \\n, or are those of a string,
        whose line ends are left unchanged and which may contain lone surrogates.
        """
        self._is_file = is_file
        self._text = bytearray()  # the text that has been read but not processed
        self._searched = 0  # offset in `_text` before which no literal begins
        self._has_resources = False  # whether the block of resources has begun
        self._blob: io.BytesIO | None = None  # bytes of the long literal that `_text` continues; None outside of one
        self._before: list[str] = []  # the text before `_text`, decoded, without the digits of long literals
        self._before_size = 0  # size of the text in `_before`, in characters
        self._blobs: dict[int, bytes] = {}  # offset in the result of the quote that ends a literal → its bytes

    @property
    def size(self) -> int:
        """Size of the text so far, without the digits of long literals."""
        return self._before_size + len(self._text)

    def feed(self, piece: bytes) -> None:
        """Read the next bytes of the text."""
        self._text += piece
        while self._advance(is_end=False):
            pass

    def finish(self) -> str:
        """Process the bytes that `feed` has left, and return the whole text without the digits of long literals."""
        while self._advance(is_end=True):
            pass
        self._take(len(self._text))
        text = "".join(self._before)
        return ElidedText(text, self._blobs) if self._blobs else text

    def _advance(self, *, is_end: bool) -> bool:
        """Do the next step of removing long literals from `_text`.

        Outside of a long literal, a step searches for `"0x`. If a long literal begins there, the text up to its digits
        moves to `_before`, and `_blob` begins; otherwise the step only skips the `"0x`. Inside of a long literal, a
        step decodes digits of `_text` into `_blob`, and ends the literal after the last digit.

        For `dense<"0x` with 5000 digits and `">`, the first step moves `dense<"0x` to `_before`, the second decodes
        2500 bytes, and the third finds no further literal in `">`.

        Args:
            is_end: Whether `_text` has the last bytes of the text.

        Returns:
            Whether to call again. False: more bytes of the text are needed first, or its end is reached.
        """
        if self._blob is not None:
            return self._decode(self._blob, is_end=is_end)
        quote = self._text.find(_OPEN, self._searched)  # _OPEN is `"0x`
        if quote < 0:  # the last bytes, `"` or `"0`, may begin a literal
            self._searched = max(self._searched, len(self._text) - len(_OPEN) + 1)
            return False
        first_digit = quote + len(_OPEN)
        kept_digits = self._kept_digits(quote)
        if kept_digits is None:
            self._searched = first_digit
            return True
        first_removed = first_digit + kept_digits
        end = first_removed + LEAST_DIGITS
        if len(self._text) < end and not is_end:  # too few bytes yet to count the digits
            self._searched = quote
            return False
        is_long = 2 * len(_unhex(self._text[first_digit:end])) == end - first_digit  # all characters are digits
        if is_long:
            self._take(first_removed)
            self._blob = io.BytesIO()
        else:
            self._searched = first_removed
        return True

    def _kept_digits(self, quote: int) -> int | None:
        """Return how many digits of the literal at `quote` stay in the text if it is long; None for other strings.

        A blob in `dense<"0x..."` is removed whole. A resource `key: "0x..."` begins with ALIGNMENT_DIGITS digits that
        state its alignment, which stay.
        """
        before = _BEFORE.search(self._text, max(0, quote - _LONGEST_BEFORE), quote)
        if before is None:
            return None
        has_colon = before[1] is not None  # as after the key of a resource
        if not has_colon:
            return 0
        return ALIGNMENT_DIGITS if self._is_resource(quote) else None

    def _is_resource(self, quote: int) -> bool:
        """Return whether a string after a colon is a resource: the block of resources, `{-#`, begins before it.

        `quote` is the offset of its opening quote.
        """
        self._has_resources = self._has_resources or self._text.find(_RESOURCES, 0, quote) >= 0
        return self._has_resources

    def _decode(self, blob: io.BytesIO, *, is_end: bool) -> bool:
        """Move the digits at the start of `_text`, which continue a long literal, into `blob` as bytes.

        The bytes of a complete literal are stored in `_blobs` by the offset of its last quote: `_before_size`, the size
        of the text before `_text`.

        Return False if the next bytes of the text may continue the literal; True if it is complete, or malformed.
        """
        data = _unhex(self._text)
        blob.write(data)
        del self._text[: 2 * len(data)]
        if len(self._text) < 2 and not is_end:  # nothing, or half a byte, is left of the text so far
            return False
        self._blob, data = None, blob.getvalue()
        if self._text.startswith(b'"'):
            self._blobs[self._before_size] = data
        else:  # malformed, such as an odd number of digits: restore the digits, so that the parser reports the literal
            self._text[:0] = data.hex().encode()
            self._searched = 2 * len(data)
        return True

    def _take(self, size: int) -> None:
        """Move the first `size` bytes of `_text`, decoded from UTF-8, to `_before`; line ends of a file become \\n.

        `_has_resources` records whether the block of resources has begun, and `_searched`, the offset in `_text` before
        which no literal begins, returns to 0. A string may contain lone surrogates, but a file may not.
        """
        self._has_resources = self._has_resources or self._text.find(_RESOURCES, 0, size) >= 0
        text = self._text[:size].decode("utf-8", "strict" if self._is_file else "surrogatepass")
        if self._is_file and "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._before.append(text)
        self._before_size += len(text)
        del self._text[:size]
        self._searched = 0


def _unhex(text: bytearray) -> bytes:
    """Return the bytes of the pairs of hexadecimal digits that a text begins with."""
    quote = text.find(b'"')
    end = len(text) if quote < 0 else quote
    try:
        return binascii.unhexlify(text[: end - end % 2])  # whole pairs
    except binascii.Error:  # another character before the quote
        pairs = _PAIRS.match(text)
        assert pairs is not None
        return binascii.unhexlify(pairs[0])
