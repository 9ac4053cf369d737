"""Refusal of programs and models that are passed where an artifact is expected."""

from __future__ import annotations

from pydispatch.errors import InvalidArgumentError

_SUFFIXES = (".mlir", ".onnx", ".pt2")
"""Endings of files that `pydispatch.compile` reads."""


def check_compiled(path: str, prefix: str = "") -> None:
    """Raise InvalidArgumentError if a path is that of a program or model. `prefix` begins the message, as "load: "."""
    if path.endswith(_SUFFIXES):
        raise InvalidArgumentError(
            f"{prefix}'{path}' is the source of a program; compile it first: pydispatch.compile(path) or "
            f"`pydispatch compile {path}`"
        )
