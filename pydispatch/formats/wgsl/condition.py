"""Evaluation of #if conditions: C's expressions of integers, after macros were replaced."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from pydispatch.errors import ArtifactError

MAX_NESTING = 200
"""Maximum number of nested parser calls for the operators and brackets of a condition: each takes a frame of Python's
stack, which has 1000 by default. C requires 63 nested brackets, which with an operator each, as in `1 + (1 + (...))`,
take 189: a bracket takes two calls and an operator one."""
_MAX_BITS = 64
"""Width of values; a wider one is an error."""
_MAX_DIGITS = len(str(2**_MAX_BITS))
"""Decimal digits of 2^64. Of a literal, one digit more is converted, which suffices to detect that it is too large."""
_MAX_SHOWN = 100
"""Characters of a condition or token in a message; the rest would hide what the message says."""
_TOKEN = re.compile(r"\s*(\d\w*|[^\W\d]\w*|&&|\|\||[=!<>]=|<<|>>|\S)")
"""Token after spaces: a number, a name, or an operator."""
_NUMBER = re.compile(r"(0[xX][\da-fA-F]+|\d+)[uUlLi]*")
"""Integer literal with C's suffixes, such as 0x10u or 42UL."""


def _quotient(lhs: int, rhs: int) -> int:
    """Return the quotient rounded toward zero, as in C."""
    return abs(lhs) // abs(rhs) * (1 if (lhs < 0) == (rhs < 0) else -1)


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
"""Operators from the loosest to the tightest; the index is the precedence. Shifts are limited to 63 bits."""
_BINARY = {mark: (level, apply) for level, row in enumerate(_LEVELS) for mark, apply in row.items()}
"""Binary operator → (precedence, function of the two operands)."""
_DECISIVE = {"&&": False, "||": True}
"""The truth of a left operand for which C does not evaluate the right operand."""
_UNARY: dict[str, Callable[[int], int]] = {
    "!": operator.not_, "-": operator.neg, "+": operator.pos, "~": operator.invert,
}  # fmt: skip
"""Unary operator → function of its operand."""


def _shown(text: str) -> str:
    """Return a text for a message, cut if it is long."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def holds(text: str, location: str) -> bool:
    """Return whether the condition of an #if is not 0; identifiers count as 0.

    Raises ArtifactError, prefixed with `location`, for a malformed condition.
    """
    reader = _ConditionParser(_TOKEN.findall(text), text, location)
    value = reader.binary(least_precedence=0, is_evaluated=True)
    if reader.at < len(reader.tokens):
        raise reader.error(f"unexpected '{_shown(reader.peek())}'")
    return value != 0


class _ConditionParser:
    """Parser and evaluator of a condition, by precedence climbing.

    `binary` is called for the whole condition; tokens that are left are an error of the caller.

    Attributes:
        tokens: Tokens of the condition.
        text: The condition, for messages.
        location: File and line, for messages.
        depth: Number of operators and brackets around the next token.
        at: Index of the next token.
    """

    def __init__(self, tokens: list[str], text: str, location: str) -> None:
        """Begin at the first token of the condition. For the arguments see the attributes of the class."""
        self.tokens, self.text, self.location, self.depth, self.at = tokens, text, location, 0, 0

    def peek(self) -> str:
        """Return the next token; "the end" after the last, which is no token and reads well in messages."""
        return self.tokens[self.at] if self.at < len(self.tokens) else "the end"

    def take(self) -> str:
        """Consume a token, and return it."""
        token, self.at = self.peek(), self.at + 1
        return token

    def error(self, problem: str, remedy: str = "") -> ArtifactError:
        """Return an error about the condition."""
        message = f"{self.location}: {problem} in the condition '{_shown(self.text.strip())}'"
        return ArtifactError(f"{message}; {remedy}" if remedy else message)

    def enter_level(self) -> None:
        """Enter a nesting level; raise ArtifactError if there are too many."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise self.error(f"more than {MAX_NESTING} nested operators and brackets", "split it into several #if")

    def leave_level(self) -> None:
        """Leave the nesting level of an operator or bracket, which `enter_level` entered."""
        self.depth -= 1

    def binary(self, least_precedence: int, *, is_evaluated: bool) -> int:
        """Return the value of an expression whose operators have at least the precedence `least_precedence`.

        `binary(0)` of `1 + 2 * 3 == 7` is 1; `binary` at the precedence of `+` would return 7 and leave `== 7`.

        `is_evaluated` states whether C evaluates it: an operand that `&&` or `||` skips is parsed, but errors such as a
        division by zero are ignored, and its value means nothing.
        """
        self.enter_level()
        value = self.unary(is_evaluated=is_evaluated)
        while self.peek() in _BINARY:
            precedence, apply = _BINARY[self.peek()]
            if precedence < least_precedence:
                break
            mark = self.take()
            is_decided = _DECISIVE.get(mark) == bool(value)  # `0 && x` or `1 || x`, where C does not evaluate x
            # Operators of the same precedence end the right operand: they associate to the left.
            right = self.binary(precedence + 1, is_evaluated=is_evaluated and not is_decided)
            if not is_evaluated:
                continue
            if mark in ("/", "%") and right == 0:
                raise self.error("division by 0", "test the divisor first, with &&")
            value = int(apply(value, right))
            if value.bit_length() > _MAX_BITS:
                raise self.error(f"more than {_MAX_BITS} bits", f"values have to be below 2^{_MAX_BITS}")
        self.leave_level()
        return value

    def unary(self, *, is_evaluated: bool) -> int:
        """Return the value of an operand: a literal, an identifier, parentheses, or a unary operator.

        `-(2 + N)` gives -2, as an identifier counts as 0. Raises ArtifactError for any other token.

        is_evaluated: False for an operand that `&&` or `||` skips, in which a division by zero is no error.
        """
        self.enter_level()
        token = self.take()
        if token in _UNARY:
            value = int(_UNARY[token](self.unary(is_evaluated=is_evaluated)))
        elif token == "(":
            value = self.binary(least_precedence=0, is_evaluated=is_evaluated)
            if self.take() != ")":
                raise self.error("')' is missing")
        elif (match := _NUMBER.fullmatch(token)) is not None:
            value = self.literal(match[1])
        elif token.isidentifier():
            value = 0
        else:
            raise self.error(f"unexpected '{_shown(token)}'")
        self.leave_level()
        return value

    def literal(self, text: str) -> int:
        """Return the value of a literal; raise ArtifactError if it has more than 64 bits.

        Only its first digits are converted, because Python refuses to convert thousands of them.
        """
        is_hexadecimal = text[:2] in ("0x", "0X")
        digits = text[2 if is_hexadecimal else 0 :].lstrip("0") or "0"
        value = int(digits[: _MAX_DIGITS + 1], 16 if is_hexadecimal else 10)
        if value.bit_length() > _MAX_BITS:
            problem = f"number '{_shown(text)}' has more than {_MAX_BITS} bits"
            raise self.error(problem, f"write one below 2^{_MAX_BITS}")
        return value
