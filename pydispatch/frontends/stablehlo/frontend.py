"""Programs of StableHLO: what is traced, and from what objects their text comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch import ir
from pydispatch.errors import CompileError
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.stablehlo.program import translated

DIALECTS = ("stablehlo", "chlo")


class StableHlo:
    """Text with operations of StableHLO or CHLO, and what `jax.jit(f).lower(...)` and `jax.export` give."""

    def reads_file(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"ML\xefR") and b"StableHLO" in head

    def reads_object(self, source: object) -> bool:
        return type(source).__module__.startswith("jax.") and _text_of(source) is not None

    def reads_module(self, module: ModuleOp) -> bool:
        return any(op.name.partition(".")[0] in DIALECTS for op in module.walk())

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        if isinstance(source, Path):
            raise CompileError(
                f"'{source}' is StableHLO bytecode, which is not supported",
                note="give text: jax.jit(f).lower(x).as_text(), or jax.export.export(jax.jit(f))(x).mlir_module()",
            )
        if isinstance(source, ModuleOp):
            return translated(source, options)
        text: Any = _text_of(source)
        return translated(ir.parse(text(), type(source).__name__), options)


def _text_of(source: object) -> Any:
    """The method that gives the text of an object of JAX."""
    if hasattr(source, "as_text") and hasattr(source, "compiler_ir"):
        return lambda: source.as_text(debug_info=True)
    return getattr(source, "mlir_module", None)


FRONTEND = StableHlo()
