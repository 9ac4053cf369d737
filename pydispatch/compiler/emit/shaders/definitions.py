"""The functions and constant tables that the entry points of a shader module use."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported


class Definitions:
    """The functions and constant tables of a module of kernel IR, by name."""

    def __init__(self, module: ModuleOp) -> None:
        """Collect the functions and globals of a module by symbol. Raise CompileError for other operations."""
        self.functions: dict[str, FuncOp] = {}
        self.memref_globals: dict[str, Operation] = {}  # symbol -> `memref.global`
        for op in module.body.block.ops:
            if isinstance(op, FuncOp):
                self.functions[op.sym_name.data] = op
            elif op_name(op) == "memref.global":
                name = attribute(op, "sym_name")
                assert isinstance(name, StringAttr)
                self.memref_globals[name.data] = op
            else:
                raise unsupported(op)
