"""Frontend for ONNX models, given as files or as `onnx.ModelProto` objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import Frontend, ReadOptions


class Onnx(Frontend):
    """Frontend that reads `.onnx` files and `onnx.ModelProto` objects."""

    suffixes = (".onnx",)
    takes_inputs = True  # the options `inputs` and `constants` apply to graph inputs

    def reads_object(self, source: object) -> bool:
        """Return whether an object is a `ModelProto`, without import of the package onnx."""
        return type(source).__name__ == "ModelProto" and hasattr(source, "SerializeToString")

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Return the program of a file or of a `ModelProto`."""
        from pydispatch.frontends.onnx.read import read

        if isinstance(source, Path):
            return read(source, options)
        data: bytes = source.SerializeToString()  # type: ignore[attr-defined]
        return read(data, options)

    def operators(self) -> Mapping[str, Iterable[str]]:
        """Return the supported operators by their domains."""
        from pydispatch.frontends.onnx.operators import OPERATORS

        return {f"ONNX, domain {domain or 'ai.onnx'}": table for domain, table in OPERATORS.items()}


FRONTEND = Onnx()
"""Frontend that `extensions.builtin` registers."""
