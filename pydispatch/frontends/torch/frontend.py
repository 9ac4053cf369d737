"""Frontend for programs of torch.export: `.pt2` files and ExportedProgram objects."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch.errors import CompileError
from pydispatch.frontends.source import Frontend, ReadOptions


@dataclass(frozen=True)
class NamedProgram:
    """Exported program and the names of its sizes.

    Attributes:
        program: The `torch.export.ExportedProgram`.
        size_names: Names that the user gave sizes (`torch.export.Dim`), by their symbols in the program.
    """

    program: Any
    size_names: Mapping[str, str]


class TorchFrontend(Frontend):
    """Frontend for `.pt2` files that does not require PyTorch.

    An ExportedProgram object is first serialized with the PyTorch that created it.
    """

    suffixes = (".pt2",)

    def reads_object(self, source: object) -> bool:
        """Return whether an object is an `ExportedProgram`, without import of PyTorch, or a `NamedProgram`."""
        if isinstance(source, NamedProgram):
            return True
        return type(source).__module__ == "torch.export.exported_program" and type(source).__name__ == "ExportedProgram"

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        """Return the program of an archive (.pt2 file), or of a `torch.export.ExportedProgram`, which is saved as one.

        A NamedProgram is an exported program with names of its dynamic sizes.
        """
        from pydispatch.frontends.torch import archive
        from pydispatch.frontends.torch.read import module_of

        if isinstance(source, Path):
            return module_of(archive.read(source), str(source), options)
        name = "exported program"
        named = source if isinstance(source, NamedProgram) else NamedProgram(source, {})
        model = archive.read(_saved(named.program, name), name)
        program = replace(model.program, size_names=named.size_names)
        return module_of(replace(model, program=program), name, options)

    def operators(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the supported operators."""
        from pydispatch.frontends.torch.nodes import CONVERSIONS

        return {"PyTorch": CONVERSIONS}


def _saved(program: Any, name: str) -> bytes:
    """Return the bytes of the file that PyTorch writes for an exported program. Raise CompileError if it cannot.

    name: what the error calls the program.
    """
    save = sys.modules["torch"].export.save  # imported already, by the caller that exported `program`
    stream = io.BytesIO()
    try:
        try:
            save(program, stream)
        except NotImplementedError:  # the results are in a Python structure that files cannot describe
            save(_with_flat_results(program), stream := io.BytesIO())
    except Exception as error:
        raise CompileError(
            f"{name}: torch.export.save cannot write it: {type(error).__name__}: {error}\n"
            "note: PyTorch fails for some constants, such as those without elements; pass these as arguments"
        ) from None
    return stream.getvalue()


def _with_flat_results(program: Any) -> Any:
    """Return a copy of an exported program whose results are a flat tuple, like those of a compiled program.

    `_saved` writes this copy if the program returns a Python structure that files cannot describe.
    """
    structure = sys.modules["torch"].utils._pytree.tree_structure  # structure(tuple of n items): that of a flat tuple
    flat = copy.copy(program)
    flat._module_call_graph = [
        replace(entry, signature=replace(s, out_spec=structure(tuple(range(s.out_spec.num_leaves)))))
        if (s := entry.signature) is not None else entry
        for entry in program.module_call_graph
    ]  # fmt: skip
    return flat


FRONTEND = TorchFrontend()
"""Frontend that `extensions.builtin` registers."""
