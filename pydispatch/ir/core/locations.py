"""Locations of operations and values in the source text."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from types import CodeType
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Block, BlockArgument, BuiltinAttribute, Operation, OpResult, SSAValue
from xdsl.printer import Printer

from pydispatch.errors import Location
from pydispatch.ir.core.long_literals import ElidedText
from pydispatch.locations import GeneratedText, code_location, stated_location

LONGEST_LINE = 2000
"""Maximum number of characters of a line that errors show."""


_ORIGIN = re.compile(r"(?P<alias>#loc\d*) = loc(?P<parenthesis>\()")
"""Start of the definition of a location alias, such as `#loc3 = loc("name"(#loc1))`. Its groups are the alias, #loc3,
and the parenthesis after `loc`, at whose offset `_ORIGIN_NAME` matches the value."""
_ORIGIN_NAME = re.compile(r'\((?:fused(?:<[^>]*>)?\[|callsite\()?(?:"(?P<name>[^"\\]*)"|(?P<alias>#loc\d*))')
"""Start of a location after `loc`: its parenthesis, and the first name in quotes or alias, as in `("name"` or
`(fused[#loc1`. A fused location or a call site has the name of its first location."""
_LONGEST_CHAIN = 64
"""Maximum number of aliases that are followed: aliases may refer to themselves."""


class Source:
    """Named source text; converts offsets, 0-based indices into `text`, to `Location`s.

    Attributes:
        text: The whole text.
        filename: Name of the text in messages.
        blobs: Offset of the quote that ends a long hexadecimal literal → its bytes; `text` lacks the digits.
        is_generated: Whether the text is a `GeneratedText`, which a frontend wrote: its operations state their
            locations in the user's own program.
    """

    def __init__(self, text: str, filename: str) -> None:
        """Store the text, the bytes of the literals that an `ElidedText` lacks, and whether a frontend wrote it."""
        self.text = str(text)
        self.blobs = text.blobs if isinstance(text, ElidedText) else {}
        self.filename = filename
        self.is_generated = isinstance(text, GeneratedText)
        self._starts: list[int] | None = None  # offset of each line; set by the first call of line_column()
        self._origins: dict[str, int] | None = None  # location alias → offset of its value; set by layer_at()

    def layer_at(self, start: int) -> str:
        """Return the model's layer at a location `loc(...)`, given the offset of its parenthesis; "" if it has none.

        The layer is the name in the location: that of `loc("name"(...))` is "name", that of `loc(callsite(a at b))` is
        the name of a. Aliases (`#loc3`) are followed.
        """
        if self._origins is None:
            self._origins = {match["alias"]: match.start("parenthesis") for match in self._aliases()}
        for _ in range(_LONGEST_CHAIN):
            match = _ORIGIN_NAME.match(self.text, start)  # the pattern skips `callsite(` and `fused[`
            if match is None:
                return ""
            if match["alias"] is None:  # a name, or the name of a file, as in `loc("model.py":3:8)`
                is_file = self.text[match.end() : match.end() + 1] == ":"
                return "" if is_file else match["name"]
            start = self._origins.get(match["alias"], len(self.text))  # nothing matches at the end of the text
        return ""

    def _aliases(self) -> Iterator[re.Match[str]]:
        """Yield the definitions of location aliases, which stand at the start of a line.

        The text may contain gigabytes of weights. Searching for a fixed string is ten times as fast as for a regular
        expression, so the expression is matched only at lines that begin with `#loc`.
        """
        start = 0 if self.text.startswith("#loc") else self._next_alias(0)
        while start >= 0:
            if alias := _ORIGIN.match(self.text, start):
                yield alias
            start = self._next_alias(start)

    def _next_alias(self, start: int) -> int:
        """Return the offset of the next line that begins with `#loc`; -1 if there is none."""
        newline = self.text.find("\n#loc", start)
        return newline + 1 if newline >= 0 else -1

    def line_column(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, both counted from 1.

        The column also counts the hexadecimal digits that `ElidedText` removed from the line before the offset.
        """
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect.bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        return line, offset - start + self._missing_digits(start, offset) + 1

    def _missing_digits(self, start: int, end: int) -> int:
        """Return the number of hexadecimal digits that were removed from `text[start:end]`, its ends included.

        They were removed before the offsets in `blobs`, two digits for each byte.
        """
        return sum(2 * len(data) for offset, data in self.blobs.items() if start <= offset <= end)

    def with_digits(self, start: int, end: int) -> str:
        """Return `text[start:end]` with the hexadecimal digits that were removed from it."""
        parts = []
        for offset, data in self.blobs.items():  # in the order of the text
            if start <= offset < end:
                parts += [self.text[start:offset], data.hex().upper()]
                start = offset
        return "".join([*parts, self.text[start:end]])

    def locate(self, start: int, end: int | None = None) -> Location:
        """Return the location of `text[start:end]` with its line, column, length and the text of the line.

        A range over several lines is cut at the end of its first line. Without `end` the range is one character.

        In generated text, the result is instead the first location that the text states after `start`, if there is
        one: `loc("kernel.py":3:8 to :22)` gives line 3 of kernel.py, which the user knows.
        """
        if self.is_generated and (stated := stated_location(self.text, start)) is not None:
            return stated
        start = max(0, min(start, len(self.text)))
        line, column = self.line_column(start)
        # The text that is shown is `text[shown_start:shown_end]`: the line, or a part of it.
        shown_start = self.text.rfind("\n", 0, start) + 1
        shown_end = self.text.find("\n", start)
        if shown_end < 0:
            shown_end = len(self.text)
        # A line that is too long with its removed digits is shown in part: at most 100 characters from `start` on, and
        # no character after the next removed digits, since it would have another column. If `start` itself is in column
        # LONGEST_LINE or further, no text is shown.
        if shown_end - shown_start + self._missing_digits(shown_start, shown_end) > LONGEST_LINE:
            shown_end = min(shown_end, start + 100, *(offset for offset in self.blobs if offset > start))
            if column >= LONGEST_LINE:
                shown_start = shown_end
        text = self.text[shown_start:shown_end].rstrip("\r")
        length = 1 if end is None else max(1, min(end - start, len(text) - column + 1))
        return Location(self.filename, line, column, text, length)


class SourceLoc(BuiltinAttribute):
    """Location attribute of an operation that `ProgramParser` has parsed; line and column are computed when needed.

    Attributes:
        source: The text.
        start, end: Offsets of the range in it: that of the operation's name.
        stated_start: Offset of the parenthesis in the `loc(...)` that the text states after the operation; -1 if it
            states none.
    """

    name = "builtin.source_loc"
    __slots__ = ("end", "source", "start", "stated_start")

    source: Source
    start: int
    end: int
    stated_start: int

    def __init__(self, source: Source, start: int, end: int, stated_start: int = -1) -> None:
        """Set the fields; for the arguments see the attributes of the class."""
        # Attributes are frozen, so that assignments raise errors. No other work is done here, since each operation has
        # a location.
        setter = object.__setattr__
        setter(self, "source", source)
        setter(self, "start", start)
        setter(self, "end", end)
        setter(self, "stated_start", stated_start)

    def resolve(self) -> Location | None:
        """Return the location for messages, which is always in a file that the user has.

        In the user's own text it is that of the operation's name. A `loc("name"(...))` after the operation adds the
        layer of the model, "name", which messages show too.

        Text that a frontend generated is unknown to the user. Its operations state their location in the user's
        source, as `loc("kernel.py":3:8 to :22)`, which is returned; None for an operation without one.
        """
        states_location = self.stated_start >= 0
        if self.source.is_generated:
            # In generated text, `locate` returns the first location that is stated from an offset on.
            return self.source.locate(self.stated_start - len("loc")) if states_location else None
        location = self.source.locate(self.start, self.end)
        return replace(location, layer=self.source.layer_at(self.stated_start)) if states_location else location

    def print_builtin(self, printer: Printer) -> None:
        """Print `"file":line:column`."""
        line, column = self.source.line_column(self.start)
        printer.print_string(f'"{self.source.filename}":{line}:{column}')


class CodeLoc(BuiltinAttribute):
    """Location attribute of an operation that is recorded while a Python program (`pydispatch.programs`) is traced.

    It denotes the instruction of the user's function that recorded the operation, or a whole line. The column is
    computed by `resolve`, since only messages need it.

    Attributes:
        code: Code of the function.
        instruction: Offset of the instruction in `code.co_code`, in bytes; -1 for the whole line.
        line: Line of the instruction in the file, from 1.
    """

    name = "builtin.code_loc"
    __slots__ = ("code", "instruction", "line")

    code: CodeType
    instruction: int
    line: int

    def __init__(self, code: CodeType, instruction: int, line: int) -> None:
        """Set the fields, although attributes are frozen."""
        object.__setattr__(self, "code", code)
        object.__setattr__(self, "instruction", instruction)
        object.__setattr__(self, "line", line)

    def resolve(self) -> Location:
        """Return the location of the expression; the whole line if `instruction` is -1, and before Python 3.11."""
        return code_location(self.code, self.instruction, self.line)

    def print_builtin(self, printer: Printer) -> None:
        """Print the file and the line as one quoted text; the column is not printed."""
        printer.print_string(f"{json.dumps(self.code.co_filename)}:{self.line}")


class NamedLoc(BuiltinAttribute):
    """Location attribute that consists of a name only, such as that of an argument in the source of a model."""

    name = "builtin.named_loc"
    __slots__ = ("text",)

    text: str

    def __init__(self, text: str) -> None:
        """Set the field, although attributes are frozen."""
        object.__setattr__(self, "text", text)

    def print_builtin(self, printer: Printer) -> None:
        """Print the name as quoted text."""
        printer.print_string(json.dumps(self.text))


class LayerLoc(BuiltinAttribute):
    """Location attribute that names a layer of a model without source text; "" stands for the model itself."""

    name = "builtin.layer_loc"
    __slots__ = ("filename", "layer")

    filename: str
    layer: str

    def __init__(self, filename: str, layer: str) -> None:
        """Set the fields, although attributes are frozen: the file of the model, and the name of the layer."""
        object.__setattr__(self, "filename", filename)
        object.__setattr__(self, "layer", layer)

    def print_builtin(self, printer: Printer) -> None:
        """Print the file and the layer as one quoted text."""
        printer.print_string(json.dumps(f"{self.filename}: {self.layer}"))


def resolved(location: Any) -> Location | None:
    """Return the location that an attribute denotes; None for other attributes."""
    if isinstance(location, LayerLoc):
        return Location(location.filename, line=0, column=0, layer=location.layer)
    if isinstance(location, (SourceLoc, CodeLoc)):
        return location.resolve()
    if isinstance(location, FileLineColLoc):
        return Location(location.filename.data, location.line.data, location.column.data)
    return None


def line_of(op: Operation, function: Operation) -> Location | None:
    """Return the location of an operation, or None if it has no line or is in another file than its function."""
    location, function_location = location_of(op), location_of(function)
    if location is None or function_location is None or location.file != function_location.file:
        return None
    if not location.line:  # 0 for a layer of a model without source text
        return None
    return location


def location_of(item: Operation | SSAValue | Block | None) -> Location | None:
    """Return the location of an operation, value or block, or else that of its nearest parent with a location."""
    while item is not None:
        if isinstance(item, SSAValue):
            location = resolved(getattr(item, "location", None))
            if location is not None:
                return location
            item = item.owner  # an operation; of a block argument, the block
        if isinstance(item, Block):
            item = item.parent_op()
            continue
        location = resolved(item.location)
        if location is not None:
            return location
        item = item.parent_op()
    return None


def set_location(new_op: Operation, like: Operation | SSAValue) -> None:
    """Give a new operation the location of `like`, or, for a value, of the operation that defines it.

    For a block argument that is the operation around the block.
    """
    # By exact types: isinstance would call the metaclass of these classes for each operation that is created.
    owner: Operation | Block | None = like  # type: ignore[assignment]
    if type(like) is OpResult:
        owner = like.op
    elif type(like) is BlockArgument:
        owner = like.block.parent_op()
    if owner is not None:
        new_op.location = owner.location  # type: ignore[union-attr]
