"""Programs of torch.export: `.pt2` files, and exported programs of a process that has PyTorch."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import Frontend, ReadOptions


class TorchFrontend(Frontend):
    """Reads `.pt2` files without PyTorch. An exported program is saved first, by the PyTorch that made it."""

    suffixes = (".pt2",)

    def reads_object(self, source: object) -> bool:
        return type(source).__module__ == "torch.export.exported_program" and type(source).__name__ == "ExportedProgram"

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        from pydispatch.frontends.torch import archive
        from pydispatch.frontends.torch.read import module_of

        if isinstance(source, Path):
            return module_of(archive.read(source), str(source), options)
        stream = io.BytesIO()
        sys.modules["torch"].export.save(source, stream)
        name = "exported program"
        return module_of(archive.read(stream.getvalue(), name), name, options)

    def operators(self) -> Mapping[str, Iterable[str]]:
        from pydispatch.frontends.torch.nodes import CONVERSIONS

        return {"PyTorch": CONVERSIONS}


FRONTEND = TorchFrontend()
