"""Declarations of PTX variables: types, alignments, sizes and initializers, in modules and in functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pydispatch.formats.ptx.cursor import Cursor, Value
from pydispatch.formats.ptx.lex import Words
from pydispatch.formats.ptx.module import SIZES, PtxSymbol, Variable

VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}  # number of components
_OPAQUE = frozenset((".texref", ".samplerref", ".surfref"))
"""Types of textures, samplers and surfaces, which are refused."""
_MAX_BYTES, _MAX_ALIGN, _MAX_DIMENSIONS = 1 << 40, 1 << 20, 8
_MAX_FILLED = 1 << 24
"""Maximum number of zeros for values that the array initializers of a module leave out: a short text could ask for
terabytes of them."""


class DeclarationCursor(Cursor):
    """Cursor that parses declarations of variables.

    Attributes:
        filled: Number of zeros so far for values that initializers of arrays leave out.
    """

    def __init__(self, source: Words) -> None:
        """Create a cursor at the first token of `source`."""
        super().__init__(source)
        self.filled = 0  # number of zeros for values that initializers leave out, which is limited

    def parse_type(self, what: str) -> str:
        """Parse a fundamental type and return it without the dot. `what` is what has the type, for error messages."""
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

    def parse_alignment(self) -> int:
        """Parse an alignment in bytes, a power of two."""
        at = self.at
        value = self.parse_integer("an alignment", 1)
        is_power_of_two = value & (value - 1) == 0
        if not is_power_of_two or value > _MAX_ALIGN:
            raise self.fail(f"an alignment of {value}; expected a power of two up to {_MAX_ALIGN}", at)
        return value

    def parse_dimensions(self) -> list[int]:
        """Parse the sizes of an array such as `[4][8]`; a first size of `[]` is returned as 0."""
        sizes: list[int] = []
        while self.accept("["):
            is_unsized = self.words[self.at] == "]" and not sizes  # only the first size may be left out
            sizes.append(0 if is_unsized else self.parse_integer("a size"))
            self.expect("]")
            if len(sizes) > _MAX_DIMENSIONS:
                raise self.fail(f"more than {_MAX_DIMENSIONS} dimensions")
        return sizes

    def skip_attribute(self) -> None:
        """Skip the operand of `.attribute`, such as `(.managed)` or `(.unified(0x1, 0x2))`; it has no effect here."""
        self.expect("(")
        depth = 1
        while depth:
            word = self.words[self.at]
            if word in ("", ";", "{", "}"):
                raise self.fail_expected("the ')' of an .attribute")
            if word == "(":
                depth += 1
            elif word == ")":
                depth -= 1
            self.at += 1

    def parse_variables(
        self, space: str, linkage: str, start: int, resolve: Callable[[str, int], PtxSymbol]
    ) -> list[tuple[Variable, int]]:
        """Parse the variables after a state space such as `.global`.

        `.align 16 .v4 .f32 a[2], b = {1, 2, 3, 4};` declares a with the sizes [2, 4] and b with the sizes [4].

        Args:
            space: The state space without its dot.
            linkage: The linkage directive without its dot; "" for none.
            start: Index of the declaration's first token.
            resolve: Returns the symbol for a name, at a token index, in an initializer.

        Returns:
            The variables, each with the token index of its name.
        """
        what = f"a .{space} variable"
        align, lanes = self._parse_qualifiers()
        kind = self.parse_type(what)
        if kind == "pred":
            raise self.fail(f"{what} cannot be of type .pred", self.at - 1)
        # Declarators `name[sizes] = initializer`, separated by commas.
        variables: list[tuple[Variable, int]] = []
        while True:
            at = self.at
            name = self.parse_name(what)
            sizes = self.parse_dimensions()
            if lanes > 1:
                sizes.append(lanes)  # components of a vector are an innermost dimension
            values = self._parse_initializer(sizes, kind, name, resolve) if self.accept("=") else []
            variable = Variable(
                name=name,
                space=space,
                type=kind,
                align=align or SIZES[kind] * lanes,
                sizes=tuple(sizes),
                line=self.source.line(at),
                linkage=linkage,
                values=tuple(values),
                start=self.source.starts[start],
            )
            if variable.size > _MAX_BYTES:
                raise self.fail(f"'{name}' has {variable.size} bytes, more than {_MAX_BYTES}", at)
            variables.append((variable, at))
            if not self.accept(","):
                break
        self.end_statement(f"the declaration of '{variables[-1][0].name}'")
        end = self.source.end(self.at - 1)  # offset in the text after the `;`, which all variables share
        return [(replace(variable, end=end), at) for variable, at in variables]

    def _parse_qualifiers(self) -> tuple[int, int]:
        """Parse `.align`, `.attribute` and vector widths before a type.

        Returns:
            The alignment in bytes, 0 if none is stated; and the number of components, 1 if it is no vector.
        """
        align, lanes = 0, 1
        while (word := self.words[self.at]) in (".align", ".attribute", *VECTORS):
            self.at += 1
            if word == ".align":
                align = self.parse_alignment()
            elif word == ".attribute":
                self.skip_attribute()
            else:
                lanes = VECTORS[word]
        return align, lanes

    def _parse_initializer(
        self, sizes: list[int], kind: str, name: str, resolve: Callable[[str, int], PtxSymbol]
    ) -> list[Value]:
        """Parse an initializer: one value, a string, or nested braces. Return the values of the first elements, row by
        row; further elements are 0.

        Args:
            sizes: Sizes of the dimensions, empty for a scalar. A first size of 0, for `[]`, is set to the one that
                the values determine.
            kind: Type of the elements.
            name: Name of the variable, for messages.
            resolve: Returns the symbol for a name at a token index.
        """
        if not sizes:
            if self.words[self.at] == "{":
                raise self.fail(f"'{name}' is a scalar; expected one value, without braces")
            return [self.parse_expression(resolve)]
        at, values = self.at, list[Value]()
        if self.words[self.at][:1] == '"' and SIZES[kind] == 1:
            text = self.parse_string("a string")
            values.extend([*text.encode(), 0])  # zero-terminated, as in C
        else:
            self._parse_braces(sizes, level=0, values=values, name=name, resolve=resolve)
        row_elements = math.prod(sizes[1:])
        if sizes[0] == 0:  # `[]`: as many rows as the values need, rounded up
            sizes[0] = -(-len(values) // row_elements) if row_elements else 0
        if len(values) > sizes[0] * row_elements:
            raise self.fail(f"{len(values)} values for the {sizes[0] * row_elements} elements of '{name}'", at)
        return values

    def _parse_braces(
        self, sizes: list[int], level: int, values: list[Value], name: str, resolve: Callable[[str, int], PtxSymbol]
    ) -> None:
        """Parse the braces around the elements of dimension `level`, 0 for the outermost, and append their values.

        For sizes [2, 3], `{{1}, {4, 5, 6}}` appends 1, 0, 0, 4, 5, 6: `_parse_row` fills inner rows with zeros. Values
        without inner braces, as in `{1, 2, 3, 4}`, are elements row by row.

        Args:
            sizes: Sizes of the dimensions.
            level: Dimension whose elements the braces enclose.
            values: List to which the values are appended.
            name: Name of the variable, for messages.
            resolve: Returns the symbol for a name at a token index.
        """
        self.expect("{", f" before the values of '{name}'")
        words, literals = self.words, self.literals
        while words[self.at] != "}":
            word = words[self.at]
            if word == "{":
                if level + 1 >= len(sizes):
                    raise self.fail(f"more braces than '{name}' has dimensions")
                self._parse_row(sizes, level + 1, values, name, resolve)
            else:
                # A literal that was parsed before, and is the whole value, is not parsed again: tables can be large.
                value = literals.get(word)
                if value is not None and words[self.at + 1] in (",", "}"):
                    self.at += 1
                    values.append(value)
                else:
                    values.append(self.parse_expression(resolve))
            if not self.accept(","):
                break
        self.expect("}", f" after the values of '{name}'")

    def _parse_row(
        self, sizes: list[int], level: int, values: list[Value], name: str, resolve: Callable[[str, int], PtxSymbol]
    ) -> None:
        """Parse a row in braces as `_parse_braces` does; append zeros for values that it lacks up to its size.

        `level` is the dimension of the row's elements; the other arguments are those of `_parse_braces`.
        """
        at, previous_count, row_elements = self.at, len(values), math.prod(sizes[level:])
        self._parse_braces(sizes, level, values, name, resolve)
        stated = len(values) - previous_count
        if stated > row_elements or row_elements > _MAX_BYTES:
            raise self.fail(f"{stated} values where '{name}' has {row_elements} elements", at)
        missing = row_elements - stated
        self.filled += missing  # number of zeros in all rows so far
        if self.filled > _MAX_FILLED:
            raise self.fail(f"the rows of '{name}' lack {missing} values, too many to fill up with zeros", at)
        values.extend([0] * missing)
