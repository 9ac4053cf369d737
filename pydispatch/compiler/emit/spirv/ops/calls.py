"""Calls of external functions, which come from SPIR-V modules. Helpers of the program are inlined before."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.calls import callee_of
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.ops.link_calls import available, linked_call
from pydispatch.compiler.kernel_ir.calls import AVAILABLE, import_symbol, is_declaration


def _call(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower a call of an external function; calls of the program's own functions were inlined before."""
    callee = callee_of(emitter, op)
    linked_call(emitter, op, callee, import_symbol(callee))


def _available(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower the query whether an external function is linked. It is true for a function with a body."""
    callee = callee_of(emitter, op)
    if is_declaration(callee):
        is_linked = available(emitter, callee, import_symbol(callee))
    else:
        is_linked = emitter.m.truth(value=True)
    emitter.define(op.results[0], is_linked)


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
"""Name of an operation → function that emits SPIR-V for it."""
