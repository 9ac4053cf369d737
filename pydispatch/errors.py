"""Exceptions of pydispatch. All derive from `Error`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pydispatch._core.status import (
    ArtifactError,
    CommandError,
    DeviceUnavailableError,
    Error,
    InternalError,
    InvalidArgumentError,
    KernelError,
    MissingImportError,
    OutOfMemoryError,
    SystemError_,
)

__all__ = [
    "ArtifactError",
    "CheckError",
    "CommandError",
    "CompileError",
    "CompileWarning",
    "DeviceUnavailableError",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "KernelError",
    "Location",
    "MissingImportError",
    "OutOfMemoryError",
    "SystemError_",
]


_SHOWN = 240
"""Maximum number of characters of a source line in a message."""


@dataclass(frozen=True)
class Location:
    """Location in the source of a program or in a model, for the messages of errors.

    Attributes:
        file: Name of the file.
        line: Line, from 1; 0 for a file without lines, such as a model.
        column: Column of the first character, from 1; 0 without a line.
        text: The source line; "" if it is not known.
        length: Number of characters that the caret underlines.
        layer: Layer of the model at this location; "" without one.
    """

    file: str
    line: int
    column: int
    text: str = ""
    length: int = 1
    layer: str = ""

    def __str__(self) -> str:
        """Return `file:line:column`, or `file` without lines, with the layer of the model if it is known."""
        if not self.line:
            return f"{self.file}: {self.layer}" if self.layer else self.file
        layer = f" ({self.layer})" if self.layer else ""
        return f"{self.file}:{self.line}:{self.column}{layer}"

    def short(self) -> str:
        """Return the location without the folder of the file."""
        return str(replace(self, file=Path(self.file).name))

    def caret(self) -> str:
        """Return the source line, and a line with carets under the location, indented; "" if the text is not known."""
        if not self.text:
            return ""
        # Of a very long line, as generated programs have them, only the part around the location is shown.
        skipped = max(0, self.column - _SHOWN // 2) if len(self.text) > _SHOWN else 0
        text, column = self.text[skipped : skipped + _SHOWN], self.column - skipped
        # Tabs before the location are repeated, so that the caret is below it for any width of tabs.
        pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
        width = max(1, min(self.length, len(text) - column + 1))
        return f"  {text}\n  {pad}{'^' * width}"


class CheckError(Error):
    """Exception for failed checks of a program (`check.expect_…`).

    Its text lists the location of each failed check, and the first element that differs.
    """


class CompileWarning(UserWarning):
    """Warning about a program that compiles."""


class CompileError(Error):
    """Error in a program that is therefore not compiled.

    str() has file:line:column, the message, the source line with a caret, and the note.

    Attributes:
        message: What is wrong, without the location.
        location: Source location; None if it is not known.
        note: The remedy; None if there is none.
    """

    location: Location | None

    def __init__(self, message: str, location: Location | None = None, note: str | None = None) -> None:
        """Store the parts of the message. For the arguments see the attributes of the class."""
        self.message = message
        self.location = location
        self.note = note
        super().__init__(str(self))

    def __str__(self) -> str:
        """Return the located message, the source line with a caret, and the note, each on lines of its own."""
        parts = [f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"]
        if self.location and self.location.caret():
            parts.append(self.location.caret())
        if self.note:
            parts.append(f"note: {self.note}")
        return "\n".join(parts)


# Tracebacks and pickles name these as users do.
for _kind in (
    ArtifactError,
    CheckError,
    CommandError,
    CompileError,
    CompileWarning,
    DeviceUnavailableError,
    Error,
    InternalError,
    InvalidArgumentError,
    KernelError,
    MissingImportError,
    OutOfMemoryError,
):
    _kind.__module__ = "pydispatch"
del _kind
# `pydispatch` has no name for this one, which would be that of Python's own SystemError: it is public in this module.
SystemError_.__module__, SystemError_.__qualname__ = __name__, "SystemError_"
