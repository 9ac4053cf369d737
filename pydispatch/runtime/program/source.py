"""Sources of `Device.load`: an artifact in memory, in bytes or in a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from pydispatch._core.artifact import ArtifactFile
from pydispatch.errors import InvalidArgumentError, SystemError_
from pydispatch.files import is_text
from pydispatch.formats.artifact.uncompiled import check_compiled

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact

Data: TypeAlias = "str | Artifact | bytes | bytearray | memoryview"
"""Argument of `Device.load`, with a path as a string."""


def with_plain_path(source: Data | os.PathLike[str]) -> Data:
    """Return the argument of `Device.load` with the path of a path object as a string; others are returned unchanged.

    A test for os.PathLike, an abstract class, takes a measurable part of the time of a load, so that it is done once.
    """
    if type(source) is not str and hasattr(type(source), "__fspath__"):
        # A path object may state its path in bytes, as entries of os.scandir(b"...") do.
        return os.fsdecode(source)  # type: ignore[arg-type]
    return source  # type: ignore[return-value]


def open_artifact(source: Data) -> ArtifactFile:
    """Open the artifact that `Device.load` is passed: an Artifact in memory, the path of a file, or its bytes.

    Raises:
        ArtifactError: The source is not an artifact.
        InvalidArgumentError: The source is a program or model that is not compiled, or of another type.
    """
    if _is_artifact(source):
        return source.file()
    if not isinstance(source, (str, bytes, bytearray, memoryview)):
        raise InvalidArgumentError(
            f"load: expected a path, a pydispatch.Artifact or bytes, got {type(source).__name__}"
        )
    if not isinstance(source, str):
        return ArtifactFile(source)
    check_compiled(source, "load: ")
    try:
        return ArtifactFile(source)
    except SystemError_:
        if is_text(source):
            raise InvalidArgumentError(
                "load: got the text of a program; compile it first: device.load(pydispatch.compile(text))"
            ) from None
        raise


def _is_artifact(source: object) -> TypeGuard[Artifact]:
    """Return whether an object is an artifact; its class need not be imported for that."""
    module = sys.modules.get("pydispatch.formats.artifact.artifact")  # an Artifact implies the import
    return module is not None and isinstance(source, module.Artifact)
