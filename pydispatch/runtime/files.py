"""Code that is given as a path or as bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydispatch.errors import InvalidArgumentError, SystemError_


def read_code(what: str, source: Any, kind: str) -> tuple[bytes, str]:
    """The bytes, and what messages call them: the path, or how many there are.

    what: begins messages, "add_executable 'name'"; kind: what the file holds, "a SPIR-V module". SystemError for a file
    that cannot be read, InvalidArgumentError for what is neither path nor bytes.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
        return data, f"{len(data)} bytes"
    check_path(what, source, kind)
    try:
        return Path(source).read_bytes(), os.fspath(source)
    except OSError as error:
        place = "" if Path(source).is_absolute() else f" in {Path.cwd()}"
        raise SystemError_(
            f"{what}: cannot read '{os.fspath(source)}'{place}: {error.strerror}; give the path or the bytes of {kind}"
        ) from None


def check_path(what: str, source: Any, kind: str) -> None:
    """InvalidArgumentError unless a source is a path."""
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgumentError(f"{what}: expected the path or the bytes of {kind}, got {type(source).__name__}")
