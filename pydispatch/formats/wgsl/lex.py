"""WGSL text → tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydispatch.errors import ArtifactError

MAX_BYTES = 16 << 20
"""Size of the largest text that is read: texts are untrusted."""
_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n\r]*)|(?P<comment>/\*)|(?P<name>[^\W\d]\w*)|(?P<number>(?:0[xX][\da-fA-F]|\.?\d)(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<mark>->|[-+*/%&|^!~=]=|&&|\|\||\+\+|--|[-+*/%&|^!~=<>@(){}\[\],:;.])"
)
"""Token, or space between tokens: "space" is also a line comment, "comment" is the opening mark of a block comment."""
_COMMENT_EDGE = re.compile(r"/\*|\*/")
"""Opening or closing mark of a block comment; these nest."""


@dataclass(frozen=True)
class WgslToken:
    """Token of a WGSL text.

    Attributes:
        kind: "name", "number" or "mark" (punctuation).
        text: Its characters.
        start: Offset of its first character in the text of the module.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset in the text of the first character after the token."""
        return self.start + len(self.text)


def decode(data: bytes | memoryview, where: str) -> str:
    """Decode WGSL from UTF-8, without a byte order mark; raise ArtifactError for other encodings, NULs, or more than
    16 MiB. `where` names the module in messages."""
    if len(data) > MAX_BYTES:
        raise ArtifactError(f"{where}: {len(data)} bytes of WGSL, at most {MAX_BYTES} are read")
    try:
        text = bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{where} is no WGSL: byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise ArtifactError(f"{where} is no WGSL: character {text.index(chr(0))} is NUL")
    return text.removeprefix("\ufeff")


def tokens_of(text: str, where: str) -> list[WgslToken]:
    """Split a text into tokens; raise ArtifactError for an unexpected character or an unterminated comment.

    `<` and `>` are always single tokens, because they also enclose template arguments.
    """
    tokens: list[WgslToken] = []
    at = 0  # offset of the next token
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            is_directive = text[at] == "#"
            more = "; directives are carried out when a program is compiled: give WGSL without" if is_directive else ""
            raise ArtifactError(f"{location(text, at, where)}: unexpected character {text[at]!r}{more}")
        kind = match.lastgroup
        if kind == "comment":
            at = _comment_end(text, match.end(), where)
            continue
        if kind != "space":
            tokens.append(WgslToken(str(kind), match.group(), at))
        at = match.end()
    return tokens


def _comment_end(text: str, at: int, where: str) -> int:
    """Return the offset after a block comment; block comments nest. at: offset after the opening `/*`."""
    depth, start = 1, at
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            raise ArtifactError(f"{location(text, start - 2, where)}: a comment that does not end")
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
    return at


def location(text: str, at: int, where: str) -> str:
    """Return the position of the character at offset `at` for messages: "file:line:column", counted from 1."""
    line = text.count("\n", 0, at) + 1
    return f"{where}:{line}:{at - text.rfind(chr(10), 0, at)}"
