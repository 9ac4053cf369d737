"""Frontend for modules in the TOSA dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.mlir.frontend import DialectFrontend
from pydispatch.frontends.source import ReadOptions

if TYPE_CHECKING:
    from pydispatch.frontends.mlir.trace import MlirTracer
    from pydispatch.graph.builder import Builder


class Tosa(DialectFrontend):
    """Frontend for modules with operations of TOSA."""

    dialects = frozenset({"tosa"})

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Convert a TOSA module to a program, a module of `linalg` operations on tensors."""
        from pydispatch.frontends.tosa.program import translated

        assert isinstance(source, ModuleOp)
        return translated(source)

    def tracer(self, builder: Builder, module: ModuleOp, options: ReadOptions) -> MlirTracer:
        """Return a tracer for TOSA operations in a module, with the module's variables declared."""
        from pydispatch.frontends.tosa.operators import TABLE
        from pydispatch.frontends.tosa.program import declare_variables
        from pydispatch.frontends.tosa.tracer import TosaTracer

        tracer = TosaTracer(builder, module, TABLE)
        declare_variables(tracer, module)
        return tracer

    def operators(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the supported TOSA operations, by their heading in docs/models.md."""
        from pydispatch.frontends.tosa.operators import TABLE

        return {"TOSA": [name for name in TABLE if name.startswith("tosa.")]}


FRONTEND = Tosa()
"""Frontend that `extensions.builtin` registers."""
