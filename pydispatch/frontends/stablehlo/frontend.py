"""Frontend for StableHLO and CHLO, as text or as objects of JAX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.errors import CompileError
from pydispatch.frontends.mlir.frontend import DialectFrontend
from pydispatch.frontends.source import ReadOptions

if TYPE_CHECKING:
    from pydispatch.frontends.mlir.trace import MlirTracer
    from pydispatch.graph.builder import Builder


class StableHlo(DialectFrontend):
    """Frontend for modules with operations of StableHLO or CHLO, and for the results of `jax.jit(f).lower(...)` and
    `jax.export`.

    An operation of `dialects` in a module selects this frontend. Operations of `companions` are translated too, but do
    not select it.
    """

    dialects = frozenset({"stablehlo", "chlo", "sdy"})  # sdy: annotations of Shardy, how tensors are distributed
    companions = frozenset({"check", "interpreter"})  # dialects of StableHLO's own tests

    def reads_file(self, path: Path, head: bytes) -> bool:
        """Return whether a file, which begins with `head`, is StableHLO bytecode."""
        # MLIR bytecode begins with these four bytes; its strings name the dialect.
        return head.startswith(b"ML\xefR") and b"StableHLO" in head

    def reads_object(self, source: object) -> bool:
        """Return whether an object is one of JAX that has StableHLO text, such as a lowered function."""
        return type(source).__module__.startswith("jax.") and _text_of(source) is not None

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Translate a module to a program, or parse the text of a JAX object to a module.

        The parsed module still has StableHLO operations; the caller then translates it like a module from a file of
        text. Raise CompileError for bytecode.
        """
        from pydispatch.frontends.stablehlo.program import translated

        if isinstance(source, Path):  # files of text arrive parsed, as a ModuleOp; only bytecode arrives as a path
            raise CompileError(
                f"'{source}' is StableHLO bytecode, which is not supported",
                note="give text: jax.jit(f).lower(x).as_text(), or jax.export.export(jax.jit(f))(x).mlir_module()",
            )
        if isinstance(source, ModuleOp):
            return translated(source, options)
        text: Any = _text_of(source)
        return ir.parse(text(), type(source).__name__)

    def tracer(self, builder: Builder, module: ModuleOp, options: ReadOptions) -> MlirTracer:
        """Return a tracer for StableHLO operations in a module."""
        from pydispatch.frontends.stablehlo.operators import TABLE
        from pydispatch.frontends.stablehlo.operators.elementwise import SCALAR_FUNCTIONS
        from pydispatch.frontends.stablehlo.tracer import StablehloTracer

        return StablehloTracer(builder, module, options, TABLE, SCALAR_FUNCTIONS)

    def operators(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the supported operations."""
        from pydispatch.frontends.stablehlo.operators import TABLE

        return {"StableHLO and CHLO": TABLE}


def _text_of(source: object) -> Any:
    """Return the function without parameters that returns the MLIR text of a JAX object; None for other objects."""
    if hasattr(source, "as_text") and hasattr(source, "compiler_ir"):
        return lambda: source.as_text(debug_info=True)
    return getattr(source, "mlir_module", None)


FRONTEND = StableHlo()
"""Frontend that `extensions.builtin` registers."""
