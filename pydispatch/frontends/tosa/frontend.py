"""Programs of TOSA: text in which operations of the dialect stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import Frontend, ReadOptions


class Tosa(Frontend):
    """Modules with operations of TOSA."""

    dialects = frozenset({"tosa"})

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        from pydispatch.frontends.tosa.program import translated

        assert isinstance(source, ModuleOp)
        return translated(source)

    def operators(self) -> Mapping[str, Iterable[str]]:
        from pydispatch.frontends.tosa.operators import TABLE

        return {"TOSA": [name for name in TABLE if name.startswith("tosa.")]}


FRONTEND = Tosa()
