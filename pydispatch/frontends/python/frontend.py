"""Functions of Python that know their program as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.frontends.source import Frontend, ReadOptions
from pydispatch.programs.program import ProgramSource


class PythonFunction(Frontend):
    """Reads objects with a method `mlir`, which gives a program as text."""

    def reads_object(self, source: object) -> bool:
        return type(source).__module__.startswith("pydispatch.") and callable(getattr(source, "mlir", None))

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        if isinstance(source, ProgramSource):
            return source.module(options.weights)
        named: Any = source
        return ir.parse(named.mlir(), named.name)


FRONTEND = PythonFunction()
