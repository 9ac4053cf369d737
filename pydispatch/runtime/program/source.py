"""Sources of `Device.load`: an artifact in memory, in bytes or in a file."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypeGuard

from pydispatch._core.artifact import ArtifactFile
from pydispatch.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pydispatch.formats.artifact.artifact import Artifact

_UNCOMPILED = (".mlir", ".onnx", ".pt2")
"""Endings of files that `pydispatch.compile` reads."""


def open_artifact(source: str | os.PathLike[str] | Artifact | bytes | bytearray | memoryview) -> ArtifactFile:
    """Open the artifact that `Device.load` is passed.

    Raises:
        ArtifactError: The source is not an artifact.
        InvalidArgumentError: The source is a program or model that is not compiled, or of another type.
    """
    if _is_artifact(source):
        return source.file()
    if not isinstance(source, (str, bytes, bytearray, memoryview, os.PathLike)):
        raise InvalidArgumentError(
            f"load: expected a path, a pydispatch.Artifact or bytes, got {type(source).__name__}"
        )
    if isinstance(source, (str, os.PathLike)):
        path = os.fsdecode(source)  # a path object may state its path in bytes, as entries of os.scandir(b"...") do
        if path.endswith(_UNCOMPILED):
            raise InvalidArgumentError(
                f"load: '{path}' is the source of a program; compile it first: device.load(pydispatch.compile(path))"
            )
    return ArtifactFile(source)


def _is_artifact(source: object) -> TypeGuard[Artifact]:
    """Return whether an object is an artifact; its class need not be imported for that."""
    module = sys.modules.get("pydispatch.formats.artifact.artifact")  # an Artifact implies the import
    return module is not None and isinstance(source, module.Artifact)
