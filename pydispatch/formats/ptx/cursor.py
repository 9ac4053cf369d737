"""Cursor over the tokens of a PTX text, with the evaluation of constant expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.lex import Words, is_number, literal
from pydispatch.formats.ptx.module import PtxSymbol

SPACES = frozenset(("global", "const", "shared", "local", "param"))
"""State spaces of variables, without their dot."""
LINKAGE = frozenset(("visible", "extern", "weak", "common"))
"""Linkage directives, without their dot."""
WARP_SIZE = 32
"""Value of the constant WARP_SZ: threads of a warp."""
_NAME_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$%")
"""Characters that a name may begin with."""
_MAX_DEPTH = 64  # of nested expressions
_RANKS = {
    "?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8, "<<": 9,
    ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}  # fmt: skip
"""Precedence of each binary operator of constant expressions; a higher rank binds tighter."""
COMPARISONS = 8
"""Rank of the operators <, <=, > and >=."""
_COMPARE: dict[str, Callable[[int | float, int | float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "||": lambda a, b: bool(a or b), "&&": lambda a, b: bool(a and b),
}  # fmt: skip
"""Operators whose result is 0 or 1."""
_INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip
"""Operators that are the same for Python's integers as for 64-bit ones, as long as the result has 64 bits."""
_FLOAT_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
"""Operators of floats that have a result for all operands."""

Value = int | float | PtxSymbol
"""Value of a constant expression: a number, or an address."""


def is_name(word: str) -> bool:
    """Return whether a word is an identifier: with a dot it is an opcode or part of a register."""
    return word[:1] in _NAME_FIRST and word != "" and "." not in word


class Cursor:
    """Base of the parsers of PTX: the position in the tokens of a text, and methods that parse common constructs.

    `DeclarationCursor` adds declarations of variables, and `HeadCursor` heads of functions. Parsing methods consume the
    construct they are named after, or raise ArtifactError.

    Attributes:
        source: The text with the positions of its tokens.
        words: The tokens; "" marks the end.
        at: Index of the next token in `words`.
        literals: Cache of token → its value as a number, None if it is no number.
    """

    def __init__(self, source: Words) -> None:
        """Create a cursor at the first token of a text."""
        self.source, self.words, self.at = source, source.words, 0
        self.literals: dict[str, int | float | None] = {}

    def fail(self, message: str, at: int | None = None) -> ArtifactError:
        """Return an error at the token of index `at`, by default the next one."""
        return self.source.fail(self.at if at is None else at, message)

    def fail_expected(self, what: str) -> ArtifactError:
        """Return an error at the next token, such as "expected `what`, got ';'"."""
        return self.fail(f"expected {what}, got {self.source.shown(self.at)}")

    def accept(self, word: str) -> bool:
        """Consume the next token if it is `word`; return whether it was."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str, why: str = "") -> None:
        """Consume the next token, which must be `word`; `why` is appended to the word in the error message."""
        if self.words[self.at] != word:
            raise self.fail_expected(f"'{word}'{why}")
        self.at += 1

    def end_statement(self, what: str) -> None:
        """Consume the ';' at the end of a statement; raise ArtifactError if it is missing. `what` names the statement.

        If the next token is on another line, the error is located at the end of the previous token instead of there.
        """
        if self.words[self.at] == ";":
            self.at += 1
            return
        if self.at and self.source.line(self.at) != self.source.line(self.at - 1):
            raise self.source.fail_at(self.source.end(self.at - 1), f"{what} has no ';' at its end")
        raise self.fail(f"expected ',' or ';' in {what}, got {self.source.shown(self.at)}")

    def parse_name(self, what: str) -> str:
        """Parse an identifier. `what` describes its owner in the error message."""
        word = self.words[self.at]
        if not is_name(word):
            raise self.fail_expected(f"the name of {what}")
        self.at += 1
        return word

    def parse_string(self, what: str) -> str:
        """Parse a quoted string and return its content; `what` says in the error message what it is."""
        word = self.words[self.at]
        if word[:1] != '"' or len(word) < 2 or word[-1] != '"':
            raise self.fail_expected(f'{what} in "quotes"')
        self.at += 1
        return word[1:-1]

    def number(self, word: str) -> int | float | None:
        """Return the value of a literal, None for another token; cache it in `literals`."""
        parsed = literal(word)
        value = self.literals[word] = parsed[0] if parsed else None
        return value

    def parse_integer(self, what: str, least: int = 0, rank: int = 0) -> int:
        """Parse a constant integer expression, and return its value.

        Args:
            what: Name of the integer, for the error message.
            least: Least value that is allowed.
            rank: Operators of this rank or lower (`_RANKS`) end the expression.
        """
        start = self.at
        value = self.parse_expression(self.reject_symbol, rank=rank)
        if not isinstance(value, int) or value < least:
            raise self.fail(f"expected {what}, an integer from {least}, got {self.source.shown(start)}", start)
        return value

    def reject_symbol(self, name: str, at: int) -> PtxSymbol:
        """Raise an error for a name where only numbers are allowed; passed as `resolve` to `parse_expression`."""
        raise self.fail(f"expected a number, got '{name}'", at)

    # Constant expressions

    def parse_expression(self, resolve: Callable[[str, int], PtxSymbol], depth: int = 0, rank: int = 0) -> Value:
        """Parse a constant expression by precedence climbing: `2 + 3 * 4` gives 14, `a + 8` the address of a plus 8.

        Args:
            resolve: Returns the symbol for a name at a token index, or raises.
            depth: Number of expressions around this one.
            rank: Operators of this rank (`_RANKS`) or lower end the expression; 0 for all binary operators.

        Returns:
            A number, or the address of a symbol plus an offset in bytes.
        """
        if depth > _MAX_DEPTH:
            raise self.fail(f"an expression nested deeper than {_MAX_DEPTH}")
        # Extend `left` by each operator that binds more tightly than `rank`, and its right operand.
        left = self._parse_primary(resolve, depth)
        while True:
            at, sign = self.at, self.words[self.at]
            sign_rank = _RANKS.get(sign, 0)  # 0: no binary operator
            if sign_rank <= rank:
                return left
            self.at += 1
            right_rank = 0 if sign == "?" else sign_rank  # 0: only the `:` ends the operand after `?`
            right = self.parse_expression(resolve, depth + 1, right_rank)
            if sign == "?":
                self.expect(":", " of a ? b : c")
                other = self.parse_expression(resolve, depth + 1)
                if isinstance(left, PtxSymbol):
                    raise self.fail("an address cannot be a condition; expected a number before '?'", at)
                return right if left else other  # `?` has the lowest rank: no operator is left for this call
            left = self._binary_value(sign, left, right, at)

    def _parse_primary(self, resolve: Callable[[str, int], PtxSymbol], depth: int) -> Value:
        """Parse an operand of an expression: a literal, a name, `generic(...)`, a masked address, parentheses, a
        unary operator.

        resolve: returns the symbol for a name at a token index, or raises. depth: number of expressions around it.
        """
        at, word = self.at, self.words[self.at]
        self.at += 1
        if word in ("-", "+", "~", "!"):
            return self._parse_unary(word, at, resolve, depth)
        if word == "(":
            if self.words[self.at] in (".s64", ".u64") and self.words[self.at + 1 : self.at + 2] == [")"]:
                self.at += 2  # a cast: integers of expressions have 64 bits in any case
                return self._parse_primary(resolve, depth + 1)
            return self._parse_closed(resolve, depth)
        literal_value = self.literals.get(word)
        if literal_value is None:
            literal_value = self.number(word)
        if literal_value is not None:
            if self.words[self.at] == "(":  # the literal is the mask of a byte of an address
                return self._parse_masked_byte(literal_value, at, resolve, depth)
            return literal_value
        if word == "WARP_SZ":
            return WARP_SIZE
        if word == "generic" and self.words[self.at] == "(":  # an address in the generic space: the symbol is the same
            self.at += 1
            return self._parse_closed(resolve, depth)
        if is_name(word):
            return resolve(word, at)
        self.at = at  # the error is at the operand
        if is_number(word[:1]):
            raise self.fail(f"{self.source.shown(at)} is no number of PTX")
        raise self.fail_expected("a number or a name")

    def _parse_closed(self, resolve: Callable[[str, int], PtxSymbol], depth: int) -> Value:
        """Parse an expression and the `)` after it. For the arguments see `_parse_primary`."""
        value = self.parse_expression(resolve, depth + 1)
        self.expect(")")
        return value

    def _parse_masked_byte(
        self, mask: int | float, at: int, resolve: Callable[[str, int], PtxSymbol], depth: int
    ) -> PtxSymbol:
        """Parse the parentheses of `0xff00(name)`, which selects one byte of an address: a symbol with a shift in bits.

        Args:
            mask: Value of the literal before the parentheses.
            at: Its token index, for errors.
            resolve: Returns the symbol for a name at a token index, or raises.
            depth: Number of expressions around this one.
        """
        shift = next((shift for shift in range(0, 64, 8) if mask == 0xFF << shift), None)
        if shift is None:
            raise self.fail(f"'{self.words[at]}' selects no byte of an address; expected 0xff, 0xff00, ...", at)
        self.expect("(")
        value = self.parse_expression(resolve, depth + 1)
        self.expect(")")
        if not isinstance(value, PtxSymbol) or value.shift is not None:
            raise self.fail("expected an address in parentheses after a mask", at)
        return PtxSymbol(value.name, value.offset, shift)

    def _parse_unary(self, word: str, at: int, resolve: Callable[[str, int], PtxSymbol], depth: int) -> Value:
        """Parse the operand of the unary operator `word` (`-`, `+`, `~` or `!`) at token `at`, and apply the operator.

        `resolve` and `depth` are those of `parse_expression`.
        """
        if depth > _MAX_DEPTH:
            raise self.fail(f"an expression nested deeper than {_MAX_DEPTH}", at)
        value = self._parse_primary(resolve, depth + 1)
        if isinstance(value, PtxSymbol) or (isinstance(value, float) and word in "~!"):
            raise self.fail(f"'{word}' of something that is no number", at)
        if word == "~":
            assert isinstance(value, int)
            return ~value
        if word == "!":
            return int(not value)
        return -value if word == "-" else value

    def _binary_value(self, sign: str, left: Value, right: Value, at: int) -> Value:
        """Return the value of a binary operation; addresses allow only the addition and subtraction of bytes.

        A symbol with a shift is no address but one byte of it, which allows no operation. `sign` is the operator, at
        token `at`.
        """
        # Addresses: `a + 4` and `a - 4`, then `4 + a`.
        if isinstance(left, PtxSymbol) and left.shift is None and isinstance(right, int) and sign in ("+", "-"):
            distance = right if sign == "+" else -right
            return PtxSymbol(left.name, left.offset + distance)
        if isinstance(right, PtxSymbol) and right.shift is None and isinstance(left, int) and sign == "+":
            return PtxSymbol(right.name, right.offset + left)
        if isinstance(left, PtxSymbol) or isinstance(right, PtxSymbol):
            raise self.fail(f"'{sign}' of an address; one may add and subtract bytes", at)
        # Numbers: a comparison gives 0 or 1, integers an integer, and others a float.
        if sign in _COMPARE:
            return int(_COMPARE[sign](left, right))
        if isinstance(left, int) and isinstance(right, int):
            value = self._integer_value(sign, left, right, at)
            if not -(1 << 64) < value < 1 << 64:
                raise self.fail("a number of more than 64 bits", at)
            return value
        if sign in _FLOAT_OPERATORS:
            return _FLOAT_OPERATORS[sign](left, right)
        if sign == "/" and right != 0:
            return left / right
        raise self.fail(f"'{sign}' of {left} and {right} has no value", at)

    def _integer_value(self, sign: str, left: int, right: int, at: int) -> int:
        """Return the value of a binary operation on integers, as C defines it for 64 bits.

        Comparisons are not among the operators. Raise ArtifactError for an operation without a value: division by 0,
        and a shift by less than 0 or more than 63 bits.
        """
        if sign in ("/", "%") and right:
            magnitude = abs(left) // abs(right)
            have_same_sign = (left < 0) == (right < 0)
            quotient = magnitude if have_same_sign else -magnitude  # rounded towards zero, as in C
            return quotient if sign == "/" else left - right * quotient
        if sign == "<<" and 0 <= right < 64:
            return (left << right) & ((1 << 64) - 1)
        if sign == ">>" and 0 <= right < 64:
            return left >> right
        if sign in _INTEGER_OPERATORS:
            return _INTEGER_OPERATORS[sign](left, right)
        raise self.fail(f"'{sign}' of {left} and {right} has no value", at)
