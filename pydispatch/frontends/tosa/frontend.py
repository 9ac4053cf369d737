"""Programs of TOSA: text in which operations of the dialect stand."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.tosa.program import translated


class Tosa:
    """Modules with operations of TOSA."""

    def reads_file(self, path: Path, head: bytes) -> bool:
        return False

    def reads_object(self, source: object) -> bool:
        return False

    def reads_module(self, module: ModuleOp) -> bool:
        return any(op.name.startswith("tosa.") for op in module.walk())

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        assert isinstance(source, ModuleOp)
        return translated(source)


FRONTEND = Tosa()
