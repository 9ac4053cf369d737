"""What the functions of a SPIR-V module share while they are written: the module, and facts about kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.module import Id, Module
from pydispatch.compiler.emit.spirv.words import BUILTIN
from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported
from pydispatch.compiler.kernel_ir.scan import Ops

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


def index_width(ops: Ops) -> int:
    """32, unless a function makes integers of more bits from an index, or stores one: those are 64 bits wide."""
    for name, same in ops.items():
        for op in same:
            for value in op.results:
                if isinstance(value.type, MemRefType) and isinstance(value.type.element_type, IndexType):
                    return 64
            escapes = name in ESCAPES and isinstance(op.operands[0].type, IndexType)
            if escapes and getattr(getattr(op.results[0].type, "width", None), "data", 64) > 32:
                return 64
    return 32
