"""Frontend for Python objects, such as kernels and programs, that provide their own MLIR text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.frontends.source import Frontend, ReadOptions
from pydispatch.ir.combine import combine


class PythonFunction(Frontend):
    """Frontend for this package's objects whose method `mlir` returns MLIR text, such as kernels and programs.

    A list of such objects becomes one program.
    """

    def reads_object(self, source: object) -> bool:
        """Return whether an object is a function of this package's decorators, or a list of such functions."""
        if isinstance(source, (list, tuple)):
            return bool(source) and all(map(self.reads_object, source))
        return type(source).__module__.startswith("pydispatch.") and callable(getattr(source, "mlir", None))

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Return the program of an object with a method `mlir`, or one program with the functions of a list of them.

        A program of `@pydispatch.program` (ProgramSource) gets the options `weights` and `state_names`. The MLIR text
        of other objects, such as kernels, is parsed. Other options have no effect.
        """
        if isinstance(source, (list, tuple)):
            # `combine` adds a key to the names of a program's functions; None leaves them unchanged.
            return combine([(None, self.read(item, options)) for item in source])
        from pydispatch.programs.program import ProgramSource

        if isinstance(source, ProgramSource):
            return source.module(options.weights, options.state_names)
        named: Any = source
        return ir.parse(named.mlir(), named.name)


FRONTEND = PythonFunction()
"""Frontend that `extensions.builtin` registers."""
