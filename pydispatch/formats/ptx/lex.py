"""PTX text as words with offsets: one pass of one regular expression, which every character of a text matches."""

from __future__ import annotations

import re
import struct
from bisect import bisect_left

from pydispatch.errors import ArtifactError
from pydispatch.formats.elf.reader import is_elf

_WORD = re.compile(
    r"""[A-Za-z_$%][\w$]*(?:\.\w+(?:::\w+)*)*  # a name, an opcode with modifiers: ld.shared::cta.u32, %tid.x
      | \.\w+(?:::\w+)*                        # a directive or a type: .reg, .b32
      | 0[xX]\w+ | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \d\w*
      | "(?:[^"\\\n]|\\.)*"?                   # a string
      | << | >> | [=!<>]= | && | \|\|
      | \S""",
    re.ASCII | re.VERBOSE,
)
"""Token of a text: a name, opcode, directive, number, string, or operator, or any other character."""
# A string is matched, too, as it may contain the beginning of a comment. Of a comment without an end, only "/*" is
# matched.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*(?:.*?\*/)?', re.DOTALL)
_NOT_NEWLINE = re.compile(r"[^\n]")
"""Characters of a comment that become spaces, so that line numbers stay the same."""
_BEGINNING = re.compile(rb"(?:\s|//[^\n]*\n|/\*[^*]*\*+(?:[^*/][^*]*\*+)*/)*\.version\b")
"""Start of a PTX file: `.version`, the first directive, after spaces and comments."""
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0[bB][01]{1,64}|0[0-7]{0,22}|[1-9][0-9]{0,19})U?", re.ASCII)
"""Integer literal in base 16, 2, 8 or 10, such as 0x1F, 0b101, 017 and 42U."""
_SINGLE = re.compile(r"0[fF][0-9a-fA-F]{8}", re.ASCII)
"""The bits of an f32 as a literal: 0f3F800000 is 1.0."""
_DOUBLE = re.compile(r"0[dD][0-9a-fA-F]{16}", re.ASCII)
"""The bits of an f64 as a literal: 0d3FF0000000000000 is 1.0."""
_DECIMAL = re.compile(r"\.\d+(?:[eE][+-]?\d+)?|\d+(?:\.\d*(?:[eE][+-]?\d+)?|[eE][+-]?\d+)", re.ASCII)
"""Decimal float literal, such as 1.5, .5 or 2e10."""
_SHOWN, _LONGEST = 60, 240
"""Characters of a token in messages, and of a message; longer ones are shortened."""
_MAX_DECIMAL_LENGTH = 400
"""Characters that a decimal literal must not reach; the largest f64 has 309 digits before the point."""


class Words:
    """PTX text that has been divided into tokens, the words, which an empty token follows. Parsers read it.

    Attributes:
        text: The text.
        name: Name of the text in messages, such as its file.
        words: The tokens; "" marks the end.
        starts: Offset of each token in `text`, in characters; for the last one, the end of the text without spaces.
    """

    def __init__(self, text: str, name: str) -> None:
        """Split a text into tokens; raise ArtifactError, which states the location, for a comment without an end."""
        self.text, self.name = text, name
        self._newlines: list[int] | None = None  # offsets of line breaks; None until a position is queried
        uncommented = self._with_blank_comments() if "/" in text else text
        tokens = [(match.group(), match.start()) for match in _WORD.finditer(uncommented)]
        self.words = [word for word, _ in tokens]
        self.starts = [start for _, start in tokens]
        self.words.append("")
        self.starts.append(len(text.rstrip()))

    def _with_blank_comments(self) -> str:
        """Return the text with each comment replaced by spaces; offsets and lines stay the same."""

        def replace_comment(match: re.Match[str]) -> str:
            """Return a string as it is, and a comment as spaces, so that offsets stay."""
            match_text = match.group()
            if match_text[0] == '"':
                return match_text
            if match_text == "/*":  # a comment with an end is matched up to it
                raise self.fail_at(match.start(), "a comment begins here and has no end, write */ after it")
            return _NOT_NEWLINE.sub(" ", match_text)

        return _STRING_OR_COMMENT.sub(replace_comment, self.text)

    def end(self, index: int) -> int:
        """Return the offset in the text after the token of index `index`."""
        return self.starts[index] + len(self.words[index])

    def line(self, index: int) -> int:
        """Return the line of the token of index `index`, counted from 1."""
        return self._line_and_column(self.starts[index])[0]

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset, both from 1; line breaks are searched for on first use."""
        if self._newlines is None:
            self._newlines = [match.start() for match in re.finditer("\n", self.text)]
        breaks_before = bisect_left(self._newlines, offset)  # number of line breaks before the offset
        last_break = self._newlines[breaks_before - 1] if breaks_before else -1
        return breaks_before + 1, offset - last_break

    def fail_at(self, offset: int, message: str) -> ArtifactError:
        """Return an ArtifactError "name:line:column: message" for an offset in the text."""
        line, column = self._line_and_column(offset)
        if len(message) > _LONGEST:  # it quotes a name that is too long to read
            message = message[: _LONGEST - 40] + " ... " + message[-30:]  # the end says what was expected
        return ArtifactError(f"{self.name}:{line}:{column}: {message}")

    def fail(self, index: int, message: str) -> ArtifactError:
        """Return an ArtifactError with a message for the token of index `index`."""
        return self.fail_at(self.starts[index], message)

    def shown(self, index: int) -> str:
        """Return the token of index `index` as it appears in messages: quoted, and shortened if it is long."""
        word = self.words[index]
        if not word:
            return "the end of the text"
        return f"'{word}'" if len(word) <= _SHOWN else f"'{word[:_SHOWN]}...'"


def is_number(word: str, digits: int = 3) -> bool:
    """Return whether a word consists of 1 to `digits` ASCII decimal digits."""
    return word.isascii() and word.isdecimal() and len(word) <= digits


def literal(word: str) -> tuple[int | float, int | None] | None:
    """Return (value, bits) of a PTX literal; None for other words, and for integers of more than 64 bits.

    `bits` is the bit pattern of a float that is written as such, a 0f or 0d literal, so that a NaN keeps its bits; None
    for others. "0x1F" gives (31, None), "1.5" (1.5, None), and "0f3F800000" (1.0, 0x3F800000).
    """
    if _INTEGER.fullmatch(word):
        digits = word[:-1] if word[-1] == "U" else word  # "U" marks an unsigned integer, which has the same value
        base_letter = digits[1:2]
        if base_letter in ("x", "X"):
            value = int(digits, 16)
        elif base_letter in ("b", "B"):
            value = int(digits, 2)
        else:
            value = int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)
        return (value, None) if value < 1 << 64 else None
    if _SINGLE.fullmatch(word):
        bits = int(word[2:], 16)
        return _float_of("<f", "<I", bits), bits
    if _DOUBLE.fullmatch(word):
        bits = int(word[2:], 16)
        return _float_of("<d", "<Q", bits), bits
    # A decimal literal is an f64; texts are untrusted, and its length is limited.
    if len(word) < _MAX_DECIMAL_LENGTH and _DECIMAL.fullmatch(word):
        return float(word), None
    return None


def _float_of(float_format: str, integer_format: str, bits: int) -> float:
    """Return the float with a bit pattern. The formats are those of `struct` for it, and for an integer of its size."""
    value: float = struct.unpack(float_format, struct.pack(integer_format, bits))[0]
    return value


def is_ptx(data: bytes) -> bool:
    """Return whether bytes begin as a PTX file does: with the directive `.version`, which comments may precede."""
    return _BEGINNING.match(data) is not None


def decode(data: str | bytes | bytearray | memoryview, name: str) -> str:
    """Return the text of a PTX file without the NULs that end it for drivers; raise ArtifactError if it is not text.

    `name` names the file in messages.
    """
    if isinstance(data, str):
        text = data
    else:
        raw = bytes(data)
        if is_elf(raw):
            raise ArtifactError(f"{name} is an ELF file, a cubin or an object; expected the text of PTX")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise ArtifactError(f"{name}:{line}:1: byte {error.start} is no UTF-8, PTX is text") from None
    text = text.rstrip("\0")
    at = text.find("\0")
    if at >= 0:
        raise ArtifactError(f"{name}:{text.count(chr(10), 0, at) + 1}:1: a zero byte (at {at}), PTX is text")
    return text
