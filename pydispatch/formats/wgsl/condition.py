"""Conditions of #if: C's expressions of integers, after macros were replaced."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from pydispatch.errors import ArtifactError

MAX_NESTING = 100
_TOKEN = re.compile(r"\s*(\d\w*|[^\W\d]\w*|&&|\|\||[=!<>]=|<<|>>|\S)")
_NUMBER = re.compile(r"(0[xX][\da-fA-F]+|\d+)[uUlLi]*")


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_LEVELS: list[dict[str, Callable[[int, int], int]]] = [
    {"||": lambda a, b: a != 0 or b != 0},
    {"&&": lambda a, b: a != 0 and b != 0},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": lambda a, b: a << min(max(b, 0), 63), ">>": lambda a, b: a >> min(max(b, 0), 63)},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": _quotient, "%": lambda a, b: a - _quotient(a, b) * b},
]
"""Operators from the loosest to the tightest."""
_BINARY = {mark: (level, apply) for level, row in enumerate(_LEVELS) for mark, apply in row.items()}
_DECISIVE = {"&&": False, "||": True}
"""The truth of a left operand for which C does not evaluate the right operand."""
_UNARY: dict[str, Callable[[int], int]] = {
    "!": operator.not_, "-": operator.neg, "+": operator.pos, "~": operator.invert,
}  # fmt: skip


def holds(text: str, place: str) -> bool:
    """Return whether a condition is not 0; names are 0. ArtifactError, which begins with `place`, for other text."""
    reader = _Reader(_TOKEN.findall(text), text, place)
    value = reader.binary(0, is_used=True)
    if reader.at < len(reader.tokens):
        raise reader.error(f"unexpected '{reader.peek()}'")
    return value != 0


class _Reader:
    def __init__(self, tokens: list[str], text: str, place: str) -> None:
        self.tokens, self.text, self.place, self.depth, self.at = tokens, text, place, 0, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else "the end"

    def take(self) -> str:
        token, self.at = self.peek(), self.at + 1
        return token

    def error(self, problem: str, remedy: str = "") -> ArtifactError:
        message = f"{self.place}: {problem} in the condition '{self.text.strip()}'"
        return ArtifactError(f"{message}; {remedy}" if remedy else message)

    def binary(self, least: int, *, is_used: bool) -> int:
        """Return the value of an expression whose operators outside of brackets are of a level or tighter.

        is_used: whether the value matters. An expression that C does not evaluate is read, but has no defined value.
        """
        value = self.unary(is_used=is_used)
        while (found := _BINARY.get(self.peek())) is not None and found[0] >= least:
            mark = self.take()
            other = self.binary(found[0] + 1, is_used=is_used and _DECISIVE.get(mark) != bool(value))
            if not is_used:
                continue
            if mark in ("/", "%") and other == 0:
                raise self.error("division by 0", "test the divisor first, with &&")
            value = int(found[1](value, other))
            if value.bit_length() > 64:
                raise self.error("more than 64 bits")
        return value

    def unary(self, *, is_used: bool) -> int:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} levels")
        token = self.take()
        if token in _UNARY:
            value = int(_UNARY[token](self.unary(is_used=is_used)))
        elif token == "(":
            value = self.binary(0, is_used=is_used)
            if self.take() != ")":
                raise self.error("')' is missing")
        elif (number := _NUMBER.fullmatch(token)) is not None:
            value = int(number[1], 16 if token[:2] in ("0x", "0X") else 10)
        elif token.isidentifier():
            value = 0
        else:
            raise self.error(f"unexpected '{token}'")
        self.depth -= 1
        return value
