"""A token cursor over a PTX text, with the syntax common to declarations of modules and functions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.lex import Words, is_number, literal
from pydispatch.formats.ptx.module import SIZES, PtxSymbol, Variable

SPACES = frozenset(("global", "const", "shared", "local", "param"))
LINKAGE = frozenset(("visible", "extern", "weak", "common"))
VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
WARP_SIZE = 32
_OPAQUE = frozenset((".texref", ".samplerref", ".surfref"))
_NAME_FIRST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$%")
_MAX_DEPTH, _MAX_BYTES, _MAX_ALIGN, _MAX_DIMENSIONS = 64, 1 << 40, 1 << 20, 8
_MAX_FILLED = 1 << 24  # zeros for values missing in rows
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

Value = int | float | PtxSymbol


def is_name(word: str) -> bool:
    """Return whether a word is an identifier: with a dot it is an opcode or part of a register."""
    return word[:1] in _NAME_FIRST and word != "" and "." not in word


class Cursor:
    """Position in the tokens of a PTX text.

    Parsing methods consume the construct they are named after, or raise ArtifactError.

    Attributes:
        source: The text with the positions of its tokens.
        words: The tokens; "" marks the end.
        at: Index of the next token.
        literals: Token → its value as a number, None if it is none; a cache.
        filled: Number of zeros so far for values that initializers of arrays leave out.
    """

    def __init__(self, source: Words) -> None:
        self.source, self.words, self.at = source, source.words, 0
        self.literals: dict[str, int | float | None] = {}
        self.filled = 0

    def fail(self, message: str, at: int | None = None) -> ArtifactError:
        """Return an error at token `at`, by default the next one."""
        return self.source.fail(self.at if at is None else at, message)

    def fail_expected(self, what: str) -> ArtifactError:
        """Return an error at the next token: "expected `what`, got the token"."""
        return self.fail(f"expected {what}, got {self.source.shown(self.at)}")

    def accept(self, word: str) -> bool:
        """Consume the next token if it is `word`; return whether it was."""
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str, why: str = "") -> None:
        """Consume the next token, which must be `word`."""
        if self.words[self.at] != word:
            raise self.fail_expected(f"'{word}'{why}")
        self.at += 1

    def end_statement(self, what: str) -> None:
        """Consume the ';' at the end of a statement; raise an error if it is missing.

        If the next token is on another line, the error is reported at the end of the statement.
        """
        if self.words[self.at] == ";":
            self.at += 1
            return
        if self.at and self.source.line(self.at) != self.source.line(self.at - 1):
            raise self.source.fail_at(self.source.end(self.at - 1), f"{what} has no ';' at its end")
        raise self.fail(f"expected ',' or ';' in {what}, got {self.source.shown(self.at)}")

    def name(self, what: str) -> str:
        """Parse an identifier. `what` describes its owner in the error message."""
        word = self.words[self.at]
        if not is_name(word):
            raise self.fail_expected(f"the name of {what}")
        self.at += 1
        return word

    def string(self, what: str) -> str:
        """Parse a quoted string and return its content."""
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

    def integer(self, what: str, least: int = 0, rank: int = 0) -> int:
        """Parse a constant integer expression, and return its value.

        Args:
            what: What the integer is, for the error message.
            least: Least value that is allowed.
            rank: Operators of this rank or lower (`_RANKS`) end the expression.
        """
        start = self.at
        value = self.expression(self._no_symbol, rank=rank)
        if not isinstance(value, int) or value < least:
            raise self.fail(f"expected {what}, an integer from {least}, got {self.source.shown(start)}", start)
        return value

    def _no_symbol(self, name: str, at: int) -> PtxSymbol:
        raise self.fail(f"expected a number, got '{name}'", at)

    # Constant expressions

    def expression(self, resolve: Callable[[str, int], PtxSymbol], depth: int = 0, rank: int = 0) -> Value:
        """Parse a constant expression by precedence climbing.

        Args:
            resolve: Returns the symbol for a name at a token index.
            depth: Nesting depth so far.
            rank: Operators of this rank or lower end the expression.

        Returns:
            A number, or the address of a symbol plus an offset in bytes.
        """
        if depth > _MAX_DEPTH:
            raise self.fail(f"an expression nested deeper than {_MAX_DEPTH}")
        left = self._primary(resolve, depth)
        while True:
            at, sign = self.at, self.words[self.at]
            own = _RANKS.get(sign, 0)
            if own <= rank:
                return left
            self.at += 1
            right = self.expression(resolve, depth + 1, rank=0 if sign == "?" else own)  # `?` is closed by its `:`
            if sign == "?":
                self.expect(":", " of a ? b : c")
                other = self.expression(resolve, depth + 1)
                if isinstance(left, PtxSymbol):
                    raise self.fail("an address cannot be a condition; expected a number before '?'", at)
                return right if left else other
            left = self._binary_value(sign, left, right, at)

    def _primary(self, resolve: Callable[[str, int], PtxSymbol], depth: int) -> Value:
        """Parse an operand of an expression: a literal, a name, `generic(...)`, a masked address, parentheses, a
        unary operator."""
        at, word = self.at, self.words[self.at]
        self.at += 1
        if word in ("-", "+", "~", "!"):
            return self._unary_value(word, at, resolve, depth)
        if word == "(":
            if self.words[self.at] in (".s64", ".u64") and self.words[self.at + 1 : self.at + 2] == [")"]:
                self.at += 2  # a cast: integers of expressions have 64 bits in any case
                return self._primary(resolve, depth + 1)
            value = self.expression(resolve, depth + 1)
            self.expect(")")
            return value
        literal_value = self.literals.get(word)
        if literal_value is None:
            literal_value = self.number(word)
        if literal_value is not None:
            if self.words[self.at] == "(":
                return self._masked_byte(literal_value, at, resolve, depth)
            return literal_value
        if word == "WARP_SZ":
            return WARP_SIZE
        if word == "generic" and self.words[self.at] == "(":
            self.at += 1
            value = self.expression(resolve, depth + 1)
            self.expect(")")
            return value
        if is_name(word):
            return resolve(word, at)
        self.at = at
        if is_number(word[:1]):
            raise self.fail(f"{self.source.shown(at)} is no number of PTX")
        raise self.fail_expected("a number or a name")

    def _masked_byte(
        self, mask: int | float, at: int, resolve: Callable[[str, int], PtxSymbol], depth: int
    ) -> PtxSymbol:
        """Parse `0xff00(name)`, which selects one byte of an address."""
        shift = next((shift for shift in range(0, 64, 8) if mask == 0xFF << shift), None)
        if shift is None:
            raise self.fail(f"'{self.words[at]}' selects no byte of an address; expected 0xff, 0xff00, ...", at)
        self.expect("(")
        value = self.expression(resolve, depth + 1)
        self.expect(")")
        if not isinstance(value, PtxSymbol) or value.shift:
            raise self.fail("expected an address in parentheses after a mask", at)
        return PtxSymbol(value.name, value.offset, shift)

    def _unary_value(self, word: str, at: int, resolve: Callable[[str, int], PtxSymbol], depth: int) -> Value:
        """Parse the operand of a unary operator `-`, `+`, `~` or `!`, and apply the operator."""
        if depth > _MAX_DEPTH:
            raise self.fail(f"an expression nested deeper than {_MAX_DEPTH}", at)
        value = self._primary(resolve, depth + 1)
        if isinstance(value, PtxSymbol) or (isinstance(value, float) and word in "~!"):
            raise self.fail(f"'{word}' of something that is no number", at)
        if word == "~":
            assert isinstance(value, int)
            return ~value
        return -value if word == "-" else int(not value) if word == "!" else value

    def _binary_value(self, sign: str, left: Value, right: Value, at: int) -> Value:
        """Return the value of a binary operation; addresses allow only the addition and subtraction of bytes."""
        if isinstance(left, PtxSymbol) and not left.shift and isinstance(right, int) and sign in ("+", "-"):
            return PtxSymbol(left.name, left.offset + (right if sign == "+" else -right))
        if isinstance(right, PtxSymbol) and not right.shift and isinstance(left, int) and sign == "+":
            return PtxSymbol(right.name, right.offset + left)
        if isinstance(left, PtxSymbol) or isinstance(right, PtxSymbol):
            raise self.fail(f"'{sign}' of an address; one may add and subtract bytes", at)
        if sign in _COMPARE:
            return int(_COMPARE[sign](left, right))
        if isinstance(left, int) and isinstance(right, int):
            value = self._integer_value(sign, left, right, at)
            if not -(1 << 64) < value < 1 << 64:
                raise self.fail("a number of more than 64 bits", at)
            return value
        if sign in ("+", "-", "*"):
            return left + right if sign == "+" else left - right if sign == "-" else left * right
        if sign == "/" and right != 0:
            return left / right
        raise self.fail(f"'{sign}' of {left} and {right} has no value", at)

    def _integer_value(self, sign: str, left: int, right: int, at: int) -> int:
        """Return the value of a binary operation on integers, as C defines it."""
        if sign in ("/", "%") and right:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # towards zero, as C has it
            return quotient if sign == "/" else left - right * quotient
        if sign in ("<<", ">>") and 0 <= right < 64:
            return left << right & (1 << 64) - 1 if sign == "<<" else left >> right
        if sign in "+-*":
            return left + right if sign == "+" else left - right if sign == "-" else left * right
        if sign in "&|^":
            return left & right if sign == "&" else left | right if sign == "|" else left ^ right
        raise self.fail(f"'{sign}' of {left} and {right} has no value", at)

    # Types and variables

    def type(self, what: str) -> str:
        """Parse a fundamental type and return it without the dot."""
        word = self.words[self.at]
        if word[:1] == "." and word[1:] in SIZES:
            self.at += 1
            return word[1:]
        if word in _OPAQUE:
            raise self.fail(
                f"{what} is of type {word}; textures, samplers and surfaces are not supported, pass a pointer"
            )
        if word[:1] == ".":
            raise self.fail(f"unknown type '{word}' of {what}")
        raise self.fail_expected(f"the type of {what}")

    def alignment(self) -> int:
        """Parse an alignment in bytes, a power of two."""
        at = self.at
        value = self.integer("an alignment", 1)
        if value & (value - 1) or value > _MAX_ALIGN:
            raise self.fail(f"an alignment of {value}; expected a power of two up to {_MAX_ALIGN}", at)
        return value

    def dimensions(self) -> list[int]:
        """Parse the sizes of an array such as `[4][8]`; a first size of `[]` is returned as 0."""
        sizes: list[int] = []
        while self.accept("["):
            sizes.append(0 if self.words[self.at] == "]" and not sizes else self.integer("a size"))
            self.expect("]")
            if len(sizes) > _MAX_DIMENSIONS:
                raise self.fail(f"more than {_MAX_DIMENSIONS} dimensions")
        return sizes

    def attribute(self) -> None:
        """Skip an attribute such as `(.managed)` or `(.unified(0x1, 0x2))`, which has no effect here."""
        self.expect("(")
        depth = 1
        while depth:
            word = self.words[self.at]
            if word in ("", ";", "{", "}"):
                raise self.fail_expected("the ')' of an .attribute")
            depth += (word == "(") - (word == ")")
            self.at += 1

    def variables(
        self, space: str, linkage: str, start: int, resolve: Callable[[str, int], PtxSymbol]
    ) -> list[tuple[Variable, int]]:
        """Parse the variables after a state space such as `.global`.

        Args:
            space: The state space.
            linkage: The linkage directive without its dot; "" for none.
            start: Index of the declaration's first token.
            resolve: Returns the symbol for a name in an initializer.

        Returns:
            The variables, each with the token index of its name.
        """
        align, lanes = 0, 1
        what = f"a .{space} variable"
        while self.words[self.at] in (".align", ".attribute", *VECTORS):
            word = self.words[self.at]
            self.at += 1
            if word == ".align":
                align = self.alignment()
            elif word == ".attribute":
                self.attribute()
            else:
                lanes = VECTORS[word]
        kind = self.type(what)
        if kind == "pred":
            raise self.fail(f"{what} cannot be of type .pred", self.at - 1)
        variables: list[tuple[Variable, int]] = []
        while True:
            at = self.at
            name = self.name(what)
            sizes = self.dimensions()
            if lanes > 1:
                sizes.append(lanes)
            values: tuple[Value, ...] = ()
            if self.accept("="):
                values = tuple(self._initializer(sizes, kind, name, resolve))
            declared = Variable(name, space, kind, align or SIZES[kind] * lanes, tuple(sizes), self.source.line(at),
                            linkage, values, self.source.starts[start])  # fmt: skip
            if declared.size > _MAX_BYTES:
                raise self.fail(f"'{name}' has {declared.size} bytes, more than {_MAX_BYTES}", at)
            variables.append((declared, at))
            if not self.accept(","):
                break
        self.end_statement(f"the declaration of '{variables[-1][0].name}'")
        end = self.source.end(self.at - 1)
        return [(replace(variable, end=end), at) for variable, at in variables]

    def _initializer(
        self, sizes: list[int], kind: str, name: str, resolve: Callable[[str, int], PtxSymbol]
    ) -> list[Value]:
        """Parse an initializer: one value, a string, or nested braces. Sets the first size of an unsized array in
        `sizes`."""
        if not sizes:
            if self.words[self.at] == "{":
                raise self.fail(f"'{name}' is a scalar; expected one value, without braces")
            return [self.expression(resolve)]
        at, values = self.at, list[Value]()
        if self.words[self.at][:1] == '"' and SIZES[kind] == 1:
            text = self.string("a string")
            values.extend([*text.encode(), 0])
        else:
            self._braces(sizes, 0, values, name, resolve)
        inner = 1
        for size in sizes[1:]:
            inner *= size
        if sizes[0] == 0:
            sizes[0] = -(-len(values) // inner) if inner else 0
        if len(values) > sizes[0] * inner:
            raise self.fail(f"{len(values)} values for the {sizes[0] * inner} elements of '{name}'", at)
        return values

    def _braces(
        self, sizes: list[int], level: int, values: list[Value], name: str, resolve: Callable[[str, int], PtxSymbol]
    ) -> None:
        """Parse the braces of dimension `level` and append the values, with zeros for missing ones in inner rows."""
        self.expect("{", f" before the values of '{name}'")
        words, literals = self.words, self.literals
        while words[self.at] != "}":
            word = words[self.at]
            if word == "{":
                if level + 1 >= len(sizes):
                    raise self.fail(f"more braces than '{name}' has dimensions")
                inner = 1
                for size in sizes[level + 2 :]:
                    inner *= size
                before, whole = len(values), sizes[level + 1] * inner
                at = self.at
                self._braces(sizes, level + 1, values, name, resolve)
                if len(values) - before > whole or whole > _MAX_BYTES:
                    raise self.fail(f"{len(values) - before} values where '{name}' has {whole} elements", at)
                missing = whole - (len(values) - before)
                self.filled += missing
                if self.filled > _MAX_FILLED:
                    raise self.fail(f"the rows of '{name}' lack {missing} values, too many to fill up with zeros", at)
                values.extend([0] * missing)
            else:
                value = literals.get(word)
                if value is not None and words[self.at + 1] in (",", "}"):
                    self.at += 1
                    values.append(value)
                else:
                    values.append(self.expression(resolve))
            if not self.accept(","):
                break
        self.expect("}", f" after the values of '{name}'")
