"""Locations in source files: those of Python code, and those that MLIR text refers to; string literals of such text."""

from __future__ import annotations

import linecache
import re
from itertools import islice
from types import CodeType

from pydispatch.errors import Location

_STATED = re.compile(r'loc\("(?P<file>(?:[^"\\]|\\.)*)":(?P<line>\d+):(?P<column>\d+) to :(?P<end>\d+)\)')
"""Location as `stated` writes it: `loc("kernel.py":3:8 to :22)`."""
_UNQUOTED = re.compile(r'["\n\v\f]')
"""Character that a string literal of MLIR has as its code only."""
_ESCAPED = re.compile(r"\\(?:([0-9A-F]{2})|\\)")
"""Code of a character after a backslash, or a backslash that is escaped by another one."""


class GeneratedText(str):
    """MLIR text that states the location in the user's source for each of its operations, as `stated` writes it.

    Messages about the text refer to that source. Editing the text gives a plain string, whose messages refer to itself.
    """

    __slots__ = ()


def quoted(text: str) -> str:
    """Return a text as a string literal of MLIR: in quotes, with escapes."""
    escaped = _UNQUOTED.sub(lambda match: f"\\{ord(match[0]):02X}", text.replace("\\", "\\\\"))
    return f'"{escaped}"'


def stated(location: Location) -> str:
    """Return a location as MLIR text, such as `loc("kernel.py":3:8 to :22)`; the end column is exclusive."""
    end = location.column + location.length
    return f"loc({quoted(location.file)}:{location.line}:{location.column} to :{end})"


def stated_location(text: str, start: int) -> Location | None:
    """Return the first location after an offset that `stated` wrote into a text; None if there is none."""
    match = _STATED.search(text, start)
    if match is None:
        return None
    line, column, end = map(int, match.group("line", "column", "end"))
    file = _ESCAPED.sub(lambda code: chr(int(code[1], 16)) if code[1] else "\\", match["file"])
    return file_location(file, line, column, end - column)


def file_location(file: str, line: int, column: int, length: int) -> Location:
    """Return a location together with the text of its line; the text is "" if the file cannot be read."""
    return Location(file, line, column, linecache.getline(file, line).rstrip("\r\n"), length)


_INSTRUCTION_BYTES = 2
"""Bytes of an instruction of CPython."""
_MAX_DECORATOR_LINES = 100
"""Number of lines, from the first line of a function or its decorators, that are searched for its `def`. A lambda has
none: the limit keeps it from getting the `def` of a function far below."""


def code_location(code: CodeType, instruction: int, line: int) -> Location:
    """Return the location of an instruction of a Python function.

    The location is that of the expression that the instruction belongs to, or of its first line. It is the whole line
    if the instruction is unknown, and before Python 3.11, whose code objects have no columns.

    Args:
        code: Code of the function.
        instruction: Offset of the instruction in the bytecode, in bytes; -1 if unknown.
        line: Line of the instruction in the file, from 1.
    """
    text = linecache.getline(code.co_filename, line)
    # Columns from 0 of the line without its indentation; `stop` is exclusive.
    start, stop = len(text) - len(text.lstrip()), len(text.rstrip())
    if instruction >= 0 and hasattr(code, "co_positions"):
        # First and last line, and columns in bytes; any of them may be None.
        first, last, left, right = next(islice(code.co_positions(), instruction // _INSTRUCTION_BYTES, None))
        if first == line and left is not None:
            start = characters(text, left)
            stop = characters(text, right) if last == line and right is not None else stop
    return file_location(code.co_filename, line, start + 1, max(1, stop - start))


def definition_line(code: CodeType) -> int:
    """Return the line of a function's `def`, which is after its decorators; its first line if it has no `def`."""
    lines = range(code.co_firstlineno, code.co_firstlineno + _MAX_DECORATOR_LINES)
    definitions = (line for line in lines if linecache.getline(code.co_filename, line).lstrip().startswith("def "))
    return next(definitions, code.co_firstlineno)


def characters(text: str, byte_offset: int) -> int:
    """Return the number of characters in the first `byte_offset` bytes of a text in UTF-8.

    Columns of Python's syntax trees and code objects count bytes.
    """
    return byte_offset if text.isascii() else len(text.encode()[:byte_offset].decode(errors="ignore"))
