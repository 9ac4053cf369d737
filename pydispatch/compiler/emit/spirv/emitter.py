"""Kernel IR to SPIR-V: the module and the table of lowerings.

`emit_module` is the door. A lowering is a row `op name -> function(FunctionEmitter, op)` in one of the `spirv_*` files,
by subject. SPIR-V 1.3 for Vulkan 1.1: buffers of set 0, constants in one block of push constants as 32-bit words,
executable constants as specialization constants numbered by word.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.iterations import watch as watch_loops
from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.emit.spirv.ops import (
    affine,
    arith,
    calls,
    casts,
    floats,
    hal,
    math,
    memref,
    parallel,
    scf,
    views,
)
from pydispatch.compiler.emit.spirv.words import BUILTIN, OP
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, CALLS
from pydispatch.compiler.kernel_ir.hazards import TOUCHING
from pydispatch.compiler.kernel_ir.kernel import Export, Target
from pydispatch.compiler.kernel_ir.readers import attribute, integer, op_name, symbol, unsupported
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of

SUBJECTS = (arith, floats, casts, math, memref, views, scf, parallel,
            affine, calls, hal)  # fmt: skip

INVOCATIONS = 64
"""Invocations of a workgroup that spreads points, when neither the export nor the function says."""

UNREGISTERED = "builtin.unregistered"

ESCAPES = frozenset(("arith.index_cast", "arith.index_castui"))


@functools.cache
def lowerings() -> dict[str, Lowering]:
    """Every row of every subject. Two rows for one op are an error of this package."""
    table: dict[str, Lowering] = {}
    for subject in SUBJECTS:
        rows: dict[str, Lowering] = subject.ROWS
        if clash := table.keys() & rows.keys():
            raise AssertionError(f"two lowerings for {sorted(clash)}")
        table.update(rows)
    return table


def emit_module(
    module: ModuleOp,
    exports: Sequence[Export],
    constants: Sequence[str] = (),
    target: Target | None = None,
    libraries: Sequence[tuple[str, bytes]] = (),
    watch: bool = False,
) -> bytes:
    """A SPIR-V module with an entry point for each export.

    watch: entry points whose loops may be longer than some device runs take a buffer more, see spirv_iterations.

    constants: the keys of the executable constants, in order; target: what its configuration says about the device is a
    hint; libraries: (name, SPIR-V) of modules whose functions calls
    of external functions are resolved from. Raises CompileError, at the op, for whatever has no lowering.
    """
    return Emitter(module, exports, constants, libraries, watch).run()


class Emitter:
    """One SPIR-V module in the making. Not shared between threads."""

    def __init__(
        self,
        module: ModuleOp,
        exports: Sequence[Export],
        constants: Sequence[str],
        libraries: Sequence[tuple[str, bytes]] = (),
        watch: bool = False,
    ) -> None:
        self.m = Module()
        self.exports, self.constants, self.libraries = tuple(exports), tuple(constants), tuple(libraries)
        self.watch = watch
        self.table = lowerings()
        self.functions: dict[str, FuncOp] = {}
        self.memref_globals: dict[str, Operation] = {}
        self._ops: dict[FuncOp, dict[str, list[Operation]]] = {}
        self._touching: dict[FuncOp, list[Operation]] = {}
        self._reached: dict[FuncOp, list[FuncOp]] = {}
        self.linked: object = None
        for op in module.body.block.ops:
            if isinstance(op, FuncOp):
                self.functions[op.sym_name.data] = op
            elif op_name(op) == "memref.global":
                name = attribute(op, "sym_name")
                assert isinstance(name, StringAttr)
                self.memref_globals[name.data] = op
            else:
                raise unsupported(op)

    def run(self) -> bytes:
        for export in self.exports:
            self._export(export)
        return self.m.bytes()

    def _export(self, export: Export) -> None:
        function = self._function(export.name)
        size = local_size(export, self, function)
        f = FunctionEmitter(self, function, size[0] * size[1] * size[2])
        m, name = self.m, export.name
        f.declared_size, f.layout = export.workgroup_size, export.layout
        memref.find_shared(f)
        f.region(function.body, lambda op: None)
        if self.watch and f.iterations.is_open:
            watch_loops(f)
        f.code.do("Return")
        for binding, variables in f.units.items():
            for variable in variables:
                if len(variables) > 1:
                    m.decorate(variable, "Aliased")
                if ("binding", binding) in f.met:
                    m.decorate(variable, "Coherent")
        made = m.id()
        void = m.void()
        head = [5 << 16 | OP["Function"], void, made, 0, m.type("TypeFunction", void)]
        f.code.lines[:0] = f.entry
        f.code.finish(head)
        m.name(made, name)
        m.entry(name, made, [*f.interface.values()], size)

    def _function(self, name: str) -> FuncOp:
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

    def builtin(self, name: str, type_: Id) -> Id:
        """The input variable of a built-in, made once."""

        def make() -> Id:
            made = self.m.variable("Input", type_)
            self.m.decorate(made, "BuiltIn", BUILTIN[name])
            return made

        return self.m.once(("builtin", name), make)

    def ops(self, function: FuncOp) -> dict[str, list[Operation]]:
        """The operations of a function by name, found once."""
        found = self._ops.get(function)
        if found is None:
            found = self._ops[function] = {}
            blocks = list(function.body.blocks)
            while blocks:
                op = blocks.pop().first_op
                while op is not None:
                    name = op.name
                    if name == UNREGISTERED:
                        name = op_name(op)
                    same = found.get(name)
                    if same is None:
                        found[name] = [op]
                    else:
                        same.append(op)
                    if op.regions:
                        for region in op.regions:
                            blocks += region.blocks
                    op = op.next_op
        return found

    def reached(self, function: FuncOp) -> list[FuncOp]:
        """A function and the helpers that it may call."""
        found = self._reached.get(function)
        if found is not None:
            return found
        found = self._reached[function] = [function]
        pending = [function]
        while pending:
            ops = self.ops(pending.pop())
            for call in (op for name in (*CALLS, AVAILABLE) for op in ops.get(name, ())):
                callee = self.functions.get(symbol(call, "callee"))
                if callee is not None and callee not in found:
                    found.append(callee)
                    pending.append(callee)
        return found

    def touching(self, function: FuncOp) -> list[Operation]:
        """The operations of a function and its helpers that may read or write memory."""
        found = self._touching.get(function)
        if found is None:
            tables = [self.ops(each) for each in self.reached(function)]
            found = self._touching[function] = [
                op for table in tables for name in TOUCHING for op in table.get(name, ())
            ]
        return found

    def bindings_of(self, function: FuncOp) -> dict[int, bool]:
        """The bindings that a function and its helpers name -> whether they only read them."""
        found: dict[int, bool] = {}
        for each in self.reached(function):
            for op in self.ops(each).get(SUBSPAN, ()):
                number, flags = integer(op, "binding"), attribute(op, "flags")
                read = isinstance(flags, ArrayAttr) and any(_says_read_only(flag) for flag in flags.data)
                found[number] = found.get(number, True) and read
        return found

    def index_width(self, function: FuncOp) -> int:
        """32, unless the function makes integers of more bits from an index, or stores one: those are 64 bits wide."""
        for each in self.reached(function):
            for name, ops in self.ops(each).items():
                for op in ops:
                    for value in op.results:
                        if isinstance(value.type, MemRefType) and isinstance(value.type.element_type, IndexType):
                            return 64
                    escapes = name in ESCAPES and isinstance(op.operands[0].type, IndexType)
                    if escapes and getattr(getattr(op.results[0].type, "width", None), "data", 64) > 32:
                        return 64
        return 32


def _says_read_only(flag: Attribute) -> bool:
    return flag.data == "ReadOnly" if isinstance(flag, StringAttr) else "ReadOnly" in str(flag)


def local_size(export: Export, emitter: Emitter, function: FuncOp) -> tuple[int, int, int]:
    """The invocations of a workgroup: what the function or the export says, else one where no points are spread."""
    stated = attribute(function, "pyd.invocations")
    if stated is not None:
        return (int(stated.value.data), 1, 1)  # type: ignore[attr-defined]
    if export.workgroup_size[0] > 0:
        x, y, z = export.workgroup_size
        return (x, y, z)
    spread = ("scf.parallel", "scf.forall", "affine.parallel")
    found = any(name in spread for each in emitter.reached(function) for name in emitter.ops(each))
    return (INVOCATIONS, 1, 1) if found else (1, 1, 1)


__all__ = ["SUBSPAN", "Emitter", "emit_module"]
