"""The functions and constant tables that the entry points of a shader module use."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.kernel_ir.readers import attribute, op_name, unsupported
from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


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

    def check_export(self, name: str) -> None:
        """Raise CompileError if an export is not an entry point."""
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
