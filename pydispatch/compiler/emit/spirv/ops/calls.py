"""Calls of external functions, which come from SPIR-V modules. Helpers of the program are inlined before."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.ops.link_calls import available, linked_call
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, import_symbol, is_declaration, is_import
from pydispatch.compiler.kernel_ir.readers import symbol


def _call(emitter: FunctionEmitter, op: Operation) -> None:
    name = symbol(op, "callee")
    callee = emitter.module.functions.get(name)
    if callee is None:
        raise emitter.error(f"call of an unknown function '{name}'")
    linked_call(emitter, op, callee, import_symbol(callee), is_import(callee))


def _available(emitter: FunctionEmitter, op: Operation) -> None:
    """Linking decides."""
    name = symbol(op, "callee")
    callee = emitter.module.functions.get(name)
    if callee is None:
        raise emitter.error(f"'{AVAILABLE}' of an unknown function '{name}'")
    emitter.define(
        op.results[0],
        emitter.m.truth(True) if not is_declaration(callee) else available(emitter, callee, import_symbol(callee)),
    )


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
