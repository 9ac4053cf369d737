"""Conversion of non-ASCII names of users to ASCII, the only characters of bare identifiers in MLIR text."""

from __future__ import annotations

import re

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[%@][\w.$-]+')
"""A quoted string, which may have any characters and stays unchanged, or an SSA name or symbol."""


def ascii_names(text: str) -> str:
    """Return MLIR text with ASCII names of values and symbols: `%é` becomes `%_ue9_`. Quoted strings are unchanged."""
    return text if text.isascii() else _TOKEN.sub(lambda match: _mangled(match[0]), text)


def _mangled(token: str) -> str:
    """Return a token with `_uHEX_` in place of characters that are not ASCII; a quoted string unchanged."""
    if token[0] == '"' or token.isascii():
        return token
    return "".join(character if character.isascii() else f"_u{ord(character):x}_" for character in token)
