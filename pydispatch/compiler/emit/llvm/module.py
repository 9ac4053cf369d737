"""LLVM module under construction: the declarations, globals and metadata that its functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.calls import asserts, is_import, reachable
from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported
from pydispatch.errors import CompileError


@dataclass(frozen=True)
class Symbols:
    """Functions and memref globals that a module of kernel IR defines, by name."""

    functions: dict[str, FuncOp]
    memref_globals: dict[str, Operation]


def symbols_of(module: ModuleOp) -> Symbols:
    """Return the functions and constants of a module.

    Raises:
        CompileError: The module has an operation that is neither a func.func nor a memref.global.
    """
    symbols = Symbols({}, {})
    for op in module.body.block.ops:
        if isinstance(op, FuncOp):
            symbols.functions[op.sym_name.data] = op
        elif op_name(op) == "memref.global":
            symbol = attribute(op, "sym_name")
            assert isinstance(symbol, StringAttr)
            symbols.memref_globals[symbol.data] = op
        else:
            raise unsupported(op)
    return symbols


class ModuleWriter:
    """Builder of one LLVM module, to which the emitters of its functions add globals and declarations.

    It is not for several threads.

    Args:
        symbols: The functions and constants that functions may refer to.
        kernels_may_fail: Whether kernels of the target can stop: an import or assertion returns a status that ends the
            workgroup.
        lowerings: The lowering of each operation, by operation name.

    Attributes:
        globals, declarations: Symbol -> its LLVM text.
        needed: Names of the helper functions that must be emitted.
    """

    def __init__(
        self, symbols: Symbols, kernels_may_fail: bool, lowerings: Mapping[str, Callable[[Any, Operation], None]]
    ) -> None:
        """Begin a module without definitions, in which functions may refer to `symbols`."""
        self.lowerings = lowerings  # by operation name
        self.globals: dict[str, str] = {}  # symbol → definition
        self.declarations: dict[str, str] = {}  # symbol → declaration
        self.functions, self.memref_globals = symbols.functions, symbols.memref_globals
        self.needed: list[str] = []  # helper functions, in order of their first call
        self._metadata: list[str] = []  # text of each node, by its number
        self._compile_unit: int | None = None  # node of the debug information
        self._fallible: dict[str, bool] = {}  # function → whether a call of it may fail; a cache
        self._kernels_may_fail = kernels_may_fail

    def text(self, functions: Sequence[str]) -> str:
        """Return the text of the module; `functions` are the definitions of its functions."""
        metadata = [f"!{node_id} = {node}" for node_id, node in enumerate(self._metadata)]
        if self._compile_unit is not None:
            debug_version = self._compile_unit + 1  # the node that compile_unit() adds after the unit
            metadata.append(f"!llvm.dbg.cu = !{{!{self._compile_unit}}}")
            metadata.append(f"!llvm.module.flags = !{{!{debug_version}}}")
        return "\n".join([*self.globals.values(), *self.declarations.values(), *functions, *metadata, ""])

    def metadata(self, node: str = "") -> int:
        """Add a metadata node with the text `node`, and return its number.

        Without text the number is reserved, for a node that refers to itself or later ones: see `set_metadata`.
        """
        self._metadata.append(node)
        return len(self._metadata) - 1

    def set_metadata(self, node_id: int, node: str) -> None:
        """Set the text of a metadata node."""
        self._metadata[node_id] = node

    def compile_unit(self, file: int) -> int:
        """Return the node of the compile unit of the debug information; the first call adds it for the node `file`."""
        if self._compile_unit is None:
            self._compile_unit = self.metadata(
                f"distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, emissionKind: LineTablesOnly)"
            )
            self.metadata('!{i32 2, !"Debug Info Version", i32 3}')
        return self._compile_unit

    def declare(self, symbol: str, text: str) -> None:
        """Add the declaration `text` of an external function, unless the module has it already.

        Raises:
            CompileError: The module declares the symbol with another signature.
        """
        declaration = self.declarations.setdefault(symbol, text)
        if declaration != text:
            raise CompileError(
                f"function '{symbol}' is called with two signatures: '{declaration}' and '{text}'",
                note="declare it once, or give one of the declarations another symbol with hal.import.name",
            )

    def need(self, name: str) -> None:
        """Request the emission of a helper function, once. An export may be called as a helper too."""
        if name not in self.needed:
            self.needed.append(name)

    def fallible(self, name: str) -> bool:
        """Return whether a call of a helper may fail: it, or a function that it calls, calls an import or asserts."""
        if not self._kernels_may_fail or name not in self.functions:
            return False
        if name not in self._fallible:
            reached = [self.functions[other] for other in reachable(self.functions, name)]
            self._fallible[name] = any(is_import(f) or asserts(f) for f in reached)
        return self._fallible[name]
