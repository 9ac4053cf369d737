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
    """Lower the query whether an external function is linked; a function with a body is always there."""
    callee = callee_of(emitter, op)
    emitter.define(
        op.results[0],
        emitter.m.truth(value=True)
        if not is_declaration(callee)
        else available(emitter, callee, import_symbol(callee)),
    )


ROWS: dict[str, Lowering] = {"func.call": _call, "util.call": _call, AVAILABLE: _available}
"""Name of an operation → function that emits SPIR-V for it."""
