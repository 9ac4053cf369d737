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


_SHOWN = 240  # characters of a source line


@dataclass(frozen=True)
class Location:
    """Source location: file name, 1-based line and column, and the text of that line.

    layer: layer of the model at this location. Line and column are 0 for files without lines.
    """

    file: str
    line: int
    column: int
    text: str = ""
    length: int = 1
    layer: str = ""

    def __str__(self) -> str:
        if not self.line:
            return f"{self.file}: {self.layer}" if self.layer else self.file
        layer = f" ({self.layer})" if self.layer else ""
        return f"{self.file}:{self.line}:{self.column}{layer}"

    def short(self) -> str:
        """Return the location without the folder of the file."""
        return str(replace(self, file=Path(self.file).name))

    def caret(self) -> str:
        """Return the source line with a caret under the location, or '' when the text is not known."""
        if not self.text:
            return ""
        # Of a very long line (in generated programs), the part around the location.
        skipped = max(0, self.column - _SHOWN // 2) if len(self.text) > _SHOWN else 0
        text, column = self.text[skipped : skipped + _SHOWN], self.column - skipped
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
    """Error in a program, for which it cannot be compiled.

    str() has file:line:column, the line with a caret, and the note.

    Attributes:
        message: The fault, without the location.
        location: Source location.
        note: The remedy.
    """

    location: Location | None

    def __init__(self, message: str, location: Location | None = None, note: str | None = None) -> None:
        self.message = message
        self.location = location
        self.note = note
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"]
        if self.location and self.location.caret():
            parts.append(self.location.caret())
        if self.note:
            parts.append(f"note: {self.note}")
        return "\n".join(parts)


# Tracebacks and pickles name these as users do. SystemError_ stays: `pydispatch` has no name for it.
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
