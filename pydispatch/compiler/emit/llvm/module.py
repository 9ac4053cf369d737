"""Kernel IR to LLVM IR text: the module and the table of lowerings.

`emit_module` is the door. A lowering is a row `op name -> function(FunctionEmitter, op)` in one of the `llvm_*` files,
by subject; a `Platform` holds what the CPU and CUDA do differently.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.llvm.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.llvm.ops import (
    affine,
    arith,
    calls,
    contract,
    divide,
    hal,
    math,
    memref,
    parallel,
    scf,
    transpose,
    views,
)
from pydispatch.compiler.emit.llvm.platform import Platform
from pydispatch.compiler.kernel_ir.calls import asserts, is_import, reachable
from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

SUBJECTS = (arith, divide, math, memref, views, scf, parallel, affine,
            calls, hal, contract, transpose)  # fmt: skip


@functools.cache
def lowerings(subjects: tuple[ModuleType, ...] = SUBJECTS) -> dict[str, Lowering]:
    """Every row of every subject. Two rows for one op are an error of this package."""
    table: dict[str, Lowering] = {}
    for subject in subjects:
        rows: dict[str, Lowering] = subject.ROWS
        if clash := table.keys() & rows.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(rows)
    return table


def emit_module(
    module: ModuleOp, platform: Platform, exports: Sequence[str], subjects: tuple[ModuleType, ...] = SUBJECTS
) -> str:
    """LLVM IR text of the functions `exports` of a kernel IR module and all that they reach.

    subjects: the modules whose `ROWS` lower operations. Raises CompileError, at the op, for whatever has no lowering.
    """
    return Emitter(module, platform, exports, lowerings(subjects)).run()


class Emitter:
    """One LLVM module in the making. Not shared between threads."""

    def __init__(
        self, module: ModuleOp, platform: Platform, exports: Sequence[str], table: dict[str, Lowering]
    ) -> None:
        self.platform = platform
        self.exports = tuple(exports)
        self.table = table
        self.globals: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.functions: dict[str, FuncOp] = {}
        self.memref_globals: dict[str, Operation] = {}
        self._metadata: list[str] = []
        self._needed: list[str] = []
        self._fallible: dict[str, bool] = {}
        for op in module.body.block.ops:
            self._register(op)

    def _register(self, op: Operation) -> None:
        if isinstance(op, FuncOp):
            self.functions[op.sym_name.data] = op
        elif op_name(op) == "memref.global":
            symbol = attribute(op, "sym_name")
            assert isinstance(symbol, StringAttr)
            self.memref_globals[symbol.data] = op
        else:
            raise unsupported(op)

    def run(self) -> str:
        text = [FunctionEmitter(self, self._export(name), exported=True).run() for name in self.exports]
        for name in self._needed:  # grows while helpers ask for helpers
            text.append(FunctionEmitter(self, self.functions[name], exported=False).run())
        self.platform.finish(self)
        metadata = [f"!{number} = {node}" for number, node in enumerate(self._metadata)]
        return "\n".join([*self.globals.values(), *self.declarations.values(), *text, *metadata, ""])

    def _export(self, name: str) -> FuncOp:
        function = self.functions.get(name)
        if function is None or not function.body.blocks:
            defined = ", ".join(sorted(n for n, f in self.functions.items() if f.body.blocks)) or "none"
            raise CompileError(f"export '{name}' has no function in the executable", note=f"defined are: {defined}")
        if function.function_type.inputs.data or function.function_type.outputs.data:
            raise CompileError(
                f"export '{name}' must take no arguments and return nothing, got {function.function_type}",
                location_of(function),
                "reach buffers and scalars through hal.interface.binding.subspan and hal.interface.constant.load",
            )
        return function

    def metadata(self, node: str = "") -> int:
        """Adds a metadata node and returns its number; `set_metadata` fills one that was added empty."""
        self._metadata.append(node)
        return len(self._metadata) - 1

    def set_metadata(self, number: int, node: str) -> None:
        self._metadata[number] = node

    def declare(self, symbol: str, text: str) -> None:
        """Declares an external function once. Two declarations that differ raise CompileError."""
        known = self.declarations.setdefault(symbol, text)
        if known != text:
            raise CompileError(
                f"function '{symbol}' is called with two signatures: '{known}' and '{text}'",
                note="declare it once, or give one of the declarations another symbol with hal.import.name",
            )

    def need(self, name: str) -> None:
        """Asks for a helper to be emitted. An export may be called as a helper too."""
        if name not in self._needed:
            self._needed.append(name)

    def fallible(self, name: str) -> bool:
        """Whether calling this helper may fail: it, or one that it calls, calls an import or asserts something."""
        if not self.platform.fallible or name not in self.functions:
            return False
        if name not in self._fallible:
            reached = [self.functions[other] for other in reachable(self.functions, name)]
            self._fallible[name] = any(is_import(f) or asserts(f) for f in reached)
        return self._fallible[name]
