"""What the functions of a SPIR-V module share while they are written: the module, and facts about kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.emit.spirv.words import BUILTIN
from pydispatch.compiler.kernel_ir.bindings import SUBSPAN
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, CALLS
from pydispatch.compiler.kernel_ir.hazards import TOUCHING
from pydispatch.compiler.kernel_ir.readers import attribute, integer, op_name, symbol, unsupported

UNREGISTERED = "builtin.unregistered"

ESCAPES = frozenset(("arith.index_cast", "arith.index_castui"))


class Kernels:
    """One SPIR-V module in the making. Not shared between threads.

    table: op name -> what writes its code.
    """

    def __init__(
        self,
        module: ModuleOp,
        table: Mapping[str, Callable[[Any, Operation], None]],
        constants: Sequence[str],
        libraries: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        self.m = Module()
        self.table, self.constants, self.libraries = table, tuple(constants), tuple(libraries)
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
