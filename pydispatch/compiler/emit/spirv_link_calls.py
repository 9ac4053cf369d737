"""External functions of a kernel: what is linked, and the error for what is not."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv_function import FunctionEmitter


def linked_call(f: FunctionEmitter, op: Operation, callee: FuncOp, symbol: str, is_import: bool) -> None:
    raise f.error(f"function '{symbol}' has no SPIR-V module that defines it")


def is_linked(f: FunctionEmitter, symbol: str) -> bool:
    return False
