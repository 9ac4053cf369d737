"""Evaluation of constant integer expressions in WGSL: literals, names of constants, and + - * / % of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.formats.wgsl.lex import WgslToken

_MAX_OPERANDS = 64
"""Maximum number of operands of an expression; the value of a longer one counts as unknown. A bracket or minus sign
counts as an operand too, so this limits the recursion of the evaluation."""
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
"""Binary operator → its precedence; others end an expression."""


def integer(text: str) -> int | None:
    """Return the value of an integer literal such as `64u` or `0x10`; None for other text."""
    digits = text[:-1] if text[-1:] in ("i", "u") else text
    try:  # 24 digits exceed any 64-bit integer, and int() is slow for thousands
        return int(digits, 16 if digits[:2] in ("0x", "0X") else 10) if len(digits) < 24 else None
    except ValueError:
        return None


def evaluate(tokens: Sequence[WgslToken], named: Callable[[str], int | None]) -> int | None:
    """Return the value of a constant integer expression; None for other expressions, and for 2^63 or more in magnitude.

    Args:
        tokens: Tokens of the whole expression.
        named: Returns the value of a named constant; None if it is not known.
    """
    try:
        expression = _Expression(tokens, named)
        value = expression.binary(above_precedence=0)
        return value if expression.at == len(tokens) and abs(value) < 1 << 63 else None
    except (ValueError, IndexError, ZeroDivisionError):
        return None


class _Expression:
    """Evaluator of a constant integer expression; it raises ValueError or IndexError for unsupported tokens.

    Attributes:
        tokens: Tokens of the whole expression.
        named: Returns the value of a named constant; None if it is not known.
        at: Index of the next token.
        count: Number of operands, brackets and minus signs read so far, for the limit `_MAX_OPERANDS`.
    """

    def __init__(self, tokens: Sequence[WgslToken], named: Callable[[str], int | None]) -> None:
        """Begin at the first token. named: returns the value of a named constant; None if it is not known."""
        self.tokens, self.named, self.at, self.count = tokens, named, 0, 0

    def binary(self, *, above_precedence: int) -> int:
        """Parse an expression at the next token, and return its value.

        It ends before the first operator whose precedence is not higher than `above_precedence`.
        """
        value = self.operand()
        # A token that is no operator has precedence 0, which is never higher.
        while self.at < len(self.tokens) and _PRECEDENCE.get(self.tokens[self.at].text, 0) > above_precedence:
            operator = self.tokens[self.at].text
            self.at += 1
            rhs = self.binary(above_precedence=_PRECEDENCE[operator])
            value = _apply(operator, value, rhs)
        return value

    def operand(self) -> int:
        """Return the value of a literal, a name, a conversion, parentheses or a negation, such as `u32(-(N + 1))`.

        Raise ValueError for anything else, and for a name whose value is not known. Each bracket and each minus sign
        counts as an operand, because it is a level of recursion; ValueError for more than _MAX_OPERANDS in all.
        """
        token = self.tokens[self.at]
        self.at += 1
        self.count += 1
        if self.count > _MAX_OPERANDS:
            raise ValueError
        if token.text == "-":
            return -self.operand()
        if token.text in ("u32", "i32") and self.tokens[self.at].text == "(":  # a conversion leaves the value as it is
            return self.operand()
        if token.text == "(":
            value = self.binary(above_precedence=0)
            if self.tokens[self.at].text != ")":
                raise ValueError
            self.at += 1
            return value
        operand = integer(token.text) if token.kind == "number" else self.named(token.text)
        if operand is None:
            raise ValueError
        return operand


def _apply(operator: str, lhs: int, rhs: int) -> int:
    """Return the value of a binary operation: + - * / or %. Division rounds towards zero: -7 / 2 = -3, -7 % 2 = -1."""
    if operator in "/%":
        magnitude = abs(lhs) // abs(rhs)
        have_same_sign = (lhs < 0) == (rhs < 0)
        quotient = magnitude if have_same_sign else -magnitude
        return quotient if operator == "/" else lhs - quotient * rhs
    if operator == "*":
        return lhs * rhs
    return lhs + rhs if operator == "+" else lhs - rhs
