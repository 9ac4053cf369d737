"""WGSL module under construction: unique declarations and functions outside of its entry points."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from pydispatch.compiler.emit.wgsl.library import functions as library_functions
from pydispatch.errors import CompileError

_F16 = re.compile(r"\bf16\b")
"""Text that needs the extension for f16."""


@dataclass
class Module:
    """Builder of one WGSL module: its declarations and functions, each once, and its entry points.

    Attributes:
        declarations: Name of a variable, constant, structure or import -> its text.
        functions: Name of a function -> its text, in the order of first use, callees first.
        entries: Texts of the entry points.
        imports: (symbol, types of the parameters, type of the result, buffers that are passed) of an external function
            -> the name that it is called by.
    """

    declarations: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    entries: list[str] = field(default_factory=list)
    imports: dict[object, str] = field(default_factory=dict)

    def library(self, name: str) -> str:
        """Add a library function and its callees to the module, each once, and return its name.

        Raises:
            CompileError: The library has no such function.
        """
        if name not in self.functions:
            if name not in library_functions():  # the only functions that the library lacks are on f64
                raise CompileError(f"f64 cannot be computed with on this target ({name})", note="compute in f32")
            text, callees = library_functions()[name]
            for callee in callees:
                self.library(callee)
            self.functions[name] = text
        return name

    def declare(self, name: str, make: Callable[[], str]) -> str:
        """Add the declaration whose text `make` returns unless the module has one of this name, and return the name."""
        if name not in self.declarations:
            self.declarations[name] = make()
        return name

    def unused(self, stem: str) -> str:
        """Return a name that no declaration has: `stem` and a number."""
        suffix = 0
        while f"{stem}{suffix}" in self.declarations:
            suffix += 1
        return f"{stem}{suffix}"

    def include(self, other: Module) -> None:
        """Add the declarations and functions of another module that this one lacks."""
        for mine, others in ((self.declarations, other.declarations), (self.functions, other.functions)):
            for name, text in others.items():
                mine.setdefault(name, text)

    def text(self) -> str:
        """Return the text of the module."""
        body = ["\n".join(self.declarations.values()), *self.functions.values(), *self.entries]
        text = "\n\n".join(part for part in body if part) + "\n"
        uses_f16 = _F16.search(text) is not None
        return f"enable f16;\n\n{text}" if uses_f16 else text
