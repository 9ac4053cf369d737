"""Reads the operands of PTX instructions."""

from __future__ import annotations

from pydispatch.formats.ptx.cursor import Value, is_name
from pydispatch.formats.ptx.lex import is_number, literal
from pydispatch.formats.ptx.module import (
    SIZES,
    Address,
    Arguments,
    Immediate,
    Not,
    Operand,
    PtxSymbol,
    Register,
    RegisterPair,
    Vector,
)
from pydispatch.formats.ptx.names import NameScopes

ENDS = frozenset((",", ";", "}", ")", "]"))
"""Tokens that may follow an operand of a single token."""


def _is_component(word: str) -> bool:
    """Return whether a token is a name with a component, such as `v.x`, and neither a number nor a string."""
    return "." in word[1:] and not is_number(word[0]) and word[0] != '"'


class Operands(NameScopes):
    """Parser of instruction operands at the cursor; `parse_guard` parses the predicate before an instruction.

    Names are resolved in the open scopes."""

    def parse_guard(self) -> Register | Not:
        """Read the predicate after `@`, which `!` may negate."""
        cursor = self.cursor
        negated = cursor.accept("!")
        predicate = self._parse_predicate("a guard @p or @!p")
        return Not(predicate) if negated else predicate

    def _parse_predicate(self, what: str) -> Register:
        """Parse a predicate register. `what` is the construct that takes it, for the error message."""
        cursor, at = self.cursor, self.cursor.at
        if not is_name(self.words[at]):
            raise cursor.fail_expected(f"the predicate of {what}")
        cursor.at += 1
        register = self.resolve(self.words[at], at)
        if not isinstance(register, Register):
            raise cursor.fail(f"expected the predicate of {what}, got '{self.words[at]}'", at)
        return register

    def parse_operand(self, is_call: bool, depth: int) -> Operand | None:
        """Parse one operand; return None for `_`, which stands for an unused result or argument.

        Args:
            is_call: Whether it is an operand of a call, where parentheses enclose lists of arguments.
            depth: Number of enclosing braces, parentheses and brackets.

        Example:
            `[%rd1+4]` is an Address, `{%f1, %f2}` a Vector, `(%r1, 3)` of a call Arguments, `!%p` a Not, `%r1` a
            Register, `0f3F800000` an Immediate, and the name `a` of a variable a PtxSymbol.
        """
        # The first token decides. Brackets and `!` contain further operands, which are parsed in the same way.
        cursor, words = self.cursor, self.words
        at, word = cursor.at, words[cursor.at]
        if depth > 4:
            raise cursor.fail("operands nested deeper than any instruction takes")
        if word == "[":
            return self._parse_address(depth)
        if word == "{":
            return Vector(self._parse_list("}", is_call, depth))
        if word == "(" and is_call:
            return Arguments(self._parse_list(")", is_call=False, depth=depth))
        if word == "!" and is_name(words[at + 1]):
            cursor.at += 1
            return Not(self._parse_predicate(what="!p"))
        if word and (is_name(word) or _is_component(word)):
            return self._parse_named_operand(word, at)
        if is_number(word[:1]) and words[at + 1] in ENDS:  # a literal alone, without an operator after it
            value_bits = literal(word)
            if value_bits is not None:
                cursor.at += 1
                immediate = self.scopes[-1].cache[word] = Immediate(*value_bits)
                return immediate
        return self._parse_constant()

    def _parse_named_operand(self, word: str, at: int) -> Operand | None:
        """Parse an operand that begins with a name: a register or symbol, `sym+4`, a pair `%r|%p` or `a[3]`.

        Args:
            word: The name.
            at: Index of its token.
        """
        # An expression: `sym+4`, `WARP_SZ`, or `generic(sym)`.
        following = self.words[at + 1]
        is_generic_address = word == "generic" and following == "("
        if following in ("+", "-") or word == "WARP_SZ" or is_generic_address:
            return self._parse_constant()
        # Otherwise the name, and what the next token makes of it.
        self.cursor.at += 1
        resolved = self.resolve(word, at)
        if following == "|":
            return self._parse_pair(resolved, at)
        if following == "[" and isinstance(resolved, PtxSymbol):
            return self._parse_element(resolved)
        self.scopes[-1].cache[word] = resolved  # for later operands of this text in the scope
        return resolved

    def _parse_constant(self) -> Operand:
        """Parse a constant expression: a number, or the address of a symbol."""
        value = self._parse_value()
        return value if isinstance(value, PtxSymbol) else Immediate(value)

    def _parse_value(self) -> Value:
        """Parse a constant expression, and return its value; refuse `0xff00(a)`, which only initializers may have."""
        cursor, at = self.cursor, self.cursor.at
        value = cursor.parse_expression(self.address_of)
        if isinstance(value, PtxSymbol) and value.shift is not None:
            raise cursor.fail(f"a byte of the address of '{value.name}', which only the value of a variable may be", at)
        return value

    def _parse_pair(self, first: Operand | None, at: int) -> RegisterPair:
        """Parse `|p` after the first result of a pair such as `%r1|%p`.

        Args:
            first: The first result; None for `_`.
            at: Index of its token, for the error message.
        """
        cursor = self.cursor
        cursor.expect("|")
        second_at, word = cursor.at, self.words[cursor.at]
        if not is_name(word):
            raise cursor.fail_expected("a register after '|'")
        cursor.at += 1
        second = self.resolve(word, second_at)
        for register, where in ((first, at), (second, second_at)):
            if register is not None and not isinstance(register, Register):
                raise cursor.fail(f"expected a register on each side of '|', got '{self.words[where]}'", where)
        return RegisterPair(first, second)  # type: ignore[arg-type]

    def _parse_list(self, end: str, is_call: bool, depth: int) -> tuple[Operand | None, ...]:
        """Parse an opening token, and operands separated by commas up to the closing token `end`; None stands for `_`.

        is_call: whether they are operands of a call, which may be lists in parentheses. depth: number of enclosing
        braces, parentheses and brackets.
        """
        cursor = self.cursor
        cursor.at += 1
        items: list[Operand | None] = []
        if cursor.accept(end):
            return ()
        while True:
            items.append(self.parse_operand(is_call, depth + 1))
            if not cursor.accept(","):
                break
        cursor.expect(end)
        return tuple(items)

    def _parse_element(self, base: PtxSymbol) -> Operand:
        """Parse `[3]` of the operand `a[3]`, and return the address of the element; `base` is the symbol of `a`."""
        cursor = self.cursor
        cursor.expect("[")
        index = cursor.parse_integer("a number of an element")
        cursor.expect("]")
        kind = next((v.type for v in self.variables if v.name == base.name), self.types.get(base.name))
        if kind is None:
            raise cursor.fail(f"an element of '{base.name}', which is no variable; write [{base.name}+bytes]")
        return Address(base, index * SIZES[kind])

    def _parse_address(self, depth: int) -> Operand:
        """Parse a memory operand in brackets: an address, or an address followed by operands such as coordinates.

        depth: number of brackets, braces and parentheses around it.
        """
        cursor, words = self.cursor, self.words
        cursor.at += 1
        address = self._parse_base_and_offset()
        if words[cursor.at] == ",":  # a texture or a tensor map with coordinates
            items: list[Operand | None] = [address]
            while cursor.accept(","):
                items.append(self.parse_operand(is_call=False, depth=depth + 1))
            cursor.expect("]", " after an address")
            return Arguments(tuple(items))
        cursor.expect("]", " after an address")
        return address

    def _parse_base_and_offset(self) -> Address:
        """Parse the address in brackets: a register or symbol with an optional offset, or an expression.

        `%rd1+4` gives Address(Register("%rd1"), 4), `a` Address(PtxSymbol("a"), 0), and `0x10` Address(None, 16). The
        cursor is after the `[`.
        """
        cursor, words = self.cursor, self.words
        start, word = cursor.at - 1, words[cursor.at]
        base: Register | PtxSymbol | None = None  # None: `value` is the whole address
        value: Value = 0  # offset in bytes from the base
        # A name, except that of a number, is the base; a "+" or "-" begins its offset, which has no other symbol.
        is_name_of_number = word == "WARP_SZ"
        if (is_name(word) or word[:1] == "%") and not is_name_of_number:
            resolved = self.resolve(word, cursor.at)
            if not isinstance(resolved, Register | PtxSymbol):
                raise cursor.fail(f"'{word}' is no address")
            base = resolved
            cursor.at += 1
            if words[cursor.at] in ("+", "-"):
                cursor.accept("+")  # a "-" is the sign of the offset
                value = cursor.parse_expression(resolve=cursor.reject_symbol)
        else:  # an expression, such as 0x10 or (a + 4)
            value = self._parse_value()
            if isinstance(value, PtxSymbol):
                base, value = PtxSymbol(value.name), value.offset
        if not isinstance(value, int):
            raise cursor.fail("an address that is no integer", start)
        return Address(base, value)
