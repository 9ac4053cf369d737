"""Import of xDSL's dialects without parsing the assembly format of each of their operations.

xDSL parses a format when it defines the operation's class: a third of the time to import its dialects, of whose
operations a program uses a few. Operations of this package have formats of their own (`assembly.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from xdsl.ir import Operation
from xdsl.irdl import OpDef
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer

_parse_format = FormatProgram.from_str
"""xDSL's parser of assembly formats, saved because `formats_parsed_on_use` replaces the attribute `from_str`."""


class LazyFormat:
    """Assembly format that is parsed when its operation is first parsed or printed.

    Args:
        text: The format, such as "$value attr-dict `:` type($value)".
        definition: The definition of the operation.
    """

    def __init__(self, text: str, definition: OpDef) -> None:
        self._text, self._definition = text, definition

    @cached_property
    def _program(self) -> FormatProgram:
        """The parsed format, cached on first use."""
        return _parse_format(self._text, self._definition)

    def parse(self, parser: Parser, op_type: Any) -> Operation:
        """Parse an operation of a class after its name, and return it."""
        operation: Operation = self._program.parse(parser, op_type)
        return operation

    def print(self, printer: Printer, op: Any) -> None:
        """Print an operation after its name."""
        self._program.print(printer, op)


@contextmanager
def formats_parsed_on_use() -> Iterator[None]:
    """Give operations of xDSL that are defined inside the `with` block formats that are parsed on first use.

    An invalid format raises its error on first use, so the block is for imports of xDSL's dialects only.
    """
    patched: Any = FormatProgram
    patched.from_str = LazyFormat  # xDSL calls from_str(text, definition), and parse and print of the result
    try:
        yield
    finally:
        patched.from_str = staticmethod(_parse_format)
