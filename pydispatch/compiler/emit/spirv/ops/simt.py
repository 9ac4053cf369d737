"""What invocations do: their numbers, and where all of a workgroup meet."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP
from pydispatch.compiler.kernel_ir.readers import attribute


def _thread(f: FunctionEmitter, op: Operation) -> None:
    """Along x the number of the invocation, where a workgroup has one dimension."""
    found = attribute(op, "dimension")
    axis = "xyz".index(str(getattr(getattr(found, "data", None), "value", "x")))
    is_line = f.size[1:] == (1, 1)
    f.define(op.results[0], f.invocation() if is_line else f.component("LocalInvocationId", axis))


def _barrier(f: FunctionEmitter, op: Operation) -> None:
    """All invocations meet, and see what the others wrote."""
    if f.invocations > 1:
        scope = f.m.integer(SCOPE_WORKGROUP)
        f.code.do("ControlBarrier", scope, scope, f.m.integer(ALL_MEMORY))


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
