"""Frontend for Python objects, such as kernels and programs, that provide their own MLIR text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from pydispatch import ir
from pydispatch.errors import CompileError
from pydispatch.frontends.source import Frontend, ReadOptions
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.programs.program import ProgramSource


class PythonFunction(Frontend):
    """Frontend for objects whose method `mlir` returns the program text; a list of such objects becomes one program."""

    def reads_object(self, source: object) -> bool:
        if isinstance(source, (list, tuple)):
            return bool(source) and all(map(self.reads_object, source))
        return type(source).__module__.startswith("pydispatch.") and callable(getattr(source, "mlir", None))

    def read(self, source: Path | object, options: ReadOptions) -> ModuleOp:
        if isinstance(source, (list, tuple)):
            return _joined([self.read(item, options) for item in source])
        if isinstance(source, ProgramSource):
            return source.module(options.weights)
        named: Any = source
        return ir.parse(named.mlir(), named.name)


def _joined(modules: Sequence[ModuleOp]) -> ModuleOp:
    """Merge the functions of all modules into the first one.

    Symbols whose names are taken are renamed. Raise CompileError if two public functions have the same name.
    """
    first, *rest = modules
    taken = set(_symbols(first))
    for module in rest:
        own = _symbols(module)
        for name, op in own.items():
            if name not in taken:
                continue
            if op.name in ("func.func", "util.func") and not _is_private(op):
                raise CompileError(
                    f"two of the functions are called '{name}'; compile them apart, or give one another name",
                    location_of(op),
                )
            suffix = next(n for n in range(1, len(taken) + 2) if not {f"{name}_{n}"} & (taken | own.keys()))
            _rename(module, op, name, f"{name}_{suffix}")
        taken |= set(_symbols(module))
        for op in list(module.body.block.ops):
            op.detach()
            first.body.block.add_op(op)
    return first


def _symbols(module: ModuleOp) -> dict[str, Operation]:
    """Return the top-level operations of a module that define a symbol, by name."""
    definitions = {}
    for op in module.body.block.ops:
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr):
            definitions[name.data] = op
    return definitions


def _is_private(op: Operation) -> bool:
    """Return whether a function or global is private."""
    return op.properties.get("sym_visibility") == StringAttr("private")


def _rename(module: ModuleOp, op: Operation, old: str, new: str) -> None:
    """Rename a symbol, and all references to it in the module."""
    op.properties["sym_name"] = StringAttr(new)
    for user in walk(module):
        for attributes in (user.properties, user.attributes):
            attributes.update({key: _referring(value, old, new) for key, value in attributes.items()})


def _referring(attribute: Attribute, old: str, new: str) -> Attribute:
    """Return an attribute with references to the symbol `old` replaced by `new`."""
    if isinstance(attribute, SymbolRefAttr) and attribute.root_reference.data == old:
        return SymbolRefAttr(new, attribute.nested_references)
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr(_referring(element, old, new) for element in attribute)
    return attribute


FRONTEND = PythonFunction()
