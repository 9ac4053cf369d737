"""Lowering of invocation ids and workgroup barriers to SPIR-V."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP
from pydispatch.compiler.kernel_ir.readers import attribute


def _thread(f: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.thread_id`. In a workgroup of one dimension, the x id is the linear invocation index."""
    found = attribute(op, "dimension")
    axis = "xyz".index(str(getattr(getattr(found, "data", None), "value", "x")))
    is_line = f.size[1:] == (1, 1)
    f.define(op.results[0], f.invocation() if is_line else f.component("LocalInvocationId", axis))


def _barrier(f: FunctionEmitter, op: Operation) -> None:
    """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
    if f.invocations > 1:
        scope = f.m.integer(SCOPE_WORKGROUP)
        f.code.do("ControlBarrier", scope, scope, f.m.integer(ALL_MEMORY))


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
