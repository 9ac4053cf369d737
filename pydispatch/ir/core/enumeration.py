"""Attributes that are one of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class Enumeration(Data[str]):
    """Base of enum attributes `#dialect.name<WORD>`, where WORD is one of the class's `WORDS`.

    In the attribute dictionary of an operation the keyword may be written alone, or as a string.
    """

    WORDS: ClassVar[Sequence[str]] = ()

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        """Parse `<word>`."""
        with parser.in_angle_brackets():
            return cls._checked(parser.pos, parser.parse_identifier(), parser)

    @classmethod
    def parse_short(cls, parser: AttrParser) -> Attribute:
        """Parse a value that stands where this enumeration is expected: `WORD`, `"WORD"`, or `#dialect.name<WORD>`.

        Any other attribute is returned as it is: the verifier of the operation rejects it.
        """
        start = parser.pos
        word = parser.parse_optional_identifier()
        if word is None:
            value = parser.parse_attribute()
            if not isinstance(value, StringAttr):
                return value
            word = value.data
        return cls(cls._checked(start, word, parser))

    @classmethod
    def _checked(cls, start: int, word: str, parser: AttrParser) -> str:
        """Return `word`, which begins at the offset `start`; raise a parse error if it is not one of WORDS."""
        if word not in cls.WORDS:
            kind = cls.name.rpartition(".")[2]  # without the dialect
            parser.raise_error(f"unknown {kind} '{word}', expected {' or '.join(cls.WORDS)}", start, parser.pos)
        return word

    def print_parameter(self, printer: Printer) -> None:
        """Print `<WORD>`."""
        with printer.in_angle_brackets():
            printer.print_string(self.data)
