"""Frontends of MLIR dialects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import Frontend, ReadOptions

if TYPE_CHECKING:
    from pydispatch.frontends.graph.builder import Builder
    from pydispatch.frontends.mlir.trace import MlirTracer


class DialectFrontend(Frontend):
    """A frontend whose operations may be mixed with those of other dialects: `read` translates a module of its dialects
    alone, `tracer` converts single operations.
    """

    def tracer(self, builder: Builder, module: ModuleOp, options: ReadOptions) -> MlirTracer:
        """Return the converter of single operations of `dialects`.

        builder: writes what operations become. module: has the functions that operations name.
        """
        raise NotImplementedError
