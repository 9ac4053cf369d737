"""The check of the functions that an executable exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects.func import FuncOp

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of


def check_exports(functions: Mapping[str, FuncOp], names: Iterable[str]) -> None:
    """Raise CompileError if an export is not defined, takes arguments or returns values.

    functions: all functions of the module by symbol, also declarations. names: the exports.
    """
    for name in names:
        function = functions.get(name)
        if function is None or not function.body.blocks:
            defined = ", ".join(sorted(n for n, f in functions.items() if f.body.blocks)) or "none"
            raise CompileError(f"export '{name}' has no function in the executable", note=f"defined are: {defined}")
        if function.function_type.inputs.data or function.function_type.outputs.data:
            raise CompileError(
                f"export '{name}' must take no arguments and return nothing, got {function.function_type}",
                location_of(function),
                "reach buffers and scalars through hal.interface.binding.subspan and hal.interface.constant.load",
            )
