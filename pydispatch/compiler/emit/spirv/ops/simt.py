"""Lowering of invocation ids and workgroup barriers to SPIR-V."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP
from pydispatch.compiler.kernel_ir.readers import attribute


def _thread(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.thread_id`. In a workgroup of one dimension, the x id is the linear invocation index."""
    dimension = attribute(op, "dimension")
    axis = "xyz".index(str(getattr(getattr(dimension, "data", None), "value", "x")))
    is_line = emitter.size[1:] == (1, 1)
    emitter.define(op.results[0], emitter.invocation() if is_line else emitter.component("LocalInvocationId", axis))


def _barrier(emitter: FunctionEmitter, op: Operation) -> None:
    """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
    if emitter.invocations > 1:
        scope = emitter.m.integer(SCOPE_WORKGROUP)
        emitter.code.do("ControlBarrier", scope, scope, emitter.m.integer(ALL_MEMORY))


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
