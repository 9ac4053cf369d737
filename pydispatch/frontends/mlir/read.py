"""Reading of MLIR text in the dialects of `ir/dialects`."""

from __future__ import annotations

import os
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.errors import CompileError, SystemError_
from pydispatch.files import path_of
from pydispatch.frontends.remedies import remedy_of_binary
from pydispatch.ir.core.long_literals import ProgramFile, read_program


def path_from(what: str, source: str | os.PathLike[str]) -> Path:
    """Return a source as a path. Raise InvalidArgumentError if it is none; `what` names the parameter in errors."""
    return Path(path_of(what, source, "MLIR text, the path of a file with a program or a model, or a parsed module"))


def read_file(path: Path, source: object = None) -> ModuleOp:
    """Parse a text file, and return its program. Raise CompileError if it cannot be read or is invalid.

    If `source` is a `ProgramFile`, its text is parsed, and `path` is only named in locations. Any other `source` is
    ignored.
    """
    try:
        text = source.text if isinstance(source, ProgramFile) else read_program(path)
    except SystemError_ as error:
        raise CompileError(str(error), note="give MLIR text or the path of a file") from None
    except UnicodeDecodeError as error:
        raise CompileError(f"'{path}' is not text: {error}", note=remedy_of_binary(path)) from None
    if "\0" in text:
        raise CompileError(f"'{path}' is not text: it has NUL characters", note=remedy_of_binary(path))
    return ir.parse(text, str(path))
