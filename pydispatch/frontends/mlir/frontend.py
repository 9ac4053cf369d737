"""Interface of the frontends of MLIR dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import Frontend, ReadOptions

if TYPE_CHECKING:
    from pydispatch.frontends.mlir.trace import MlirTracer
    from pydispatch.graph.builder import Builder


class DialectFrontend(Frontend):
    """Frontend of a dialect that modules may mix with other dialects.

    `read` translates a module of this dialect alone; `tracer` returns the converter of single operations for mixed
    modules.

    Attributes:
        companions: names of other dialects whose operations `read` translates too, besides `builtin` and `func`.
    """

    companions: frozenset[str] = frozenset()

    def tracer(self, builder: Builder, module: ModuleOp, options: ReadOptions) -> MlirTracer:
        """Return the converter of single operations.

        Args:
            builder: Emits the converted operations.
            module: Module that defines the functions that operations call or refer to by name.
            options: Options of the reader.
        """
        raise NotImplementedError
