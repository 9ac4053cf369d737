"""What invocations do: their numbers, and where all of a workgroup meet."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.words import ALL_MEMORY, SCOPE_WORKGROUP


def _thread(f: FunctionEmitter, op: Operation) -> None:
    """Kernels come with workgroups of one dimension."""
    f.define(op.results[0], f.invocation())


def _barrier(f: FunctionEmitter, op: Operation) -> None:
    """All invocations meet, and see what the others wrote."""
    if f.invocations > 1:
        scope = f.m.integer(SCOPE_WORKGROUP)
        f.code.do("ControlBarrier", scope, scope, f.m.integer(ALL_MEMORY))


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
