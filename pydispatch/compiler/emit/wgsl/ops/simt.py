"""Lowering of invocation ids and workgroup barriers to WGSL."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.readers import attribute


def _thread(emitter: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.thread_id`. In a workgroup of one dimension, the x id is the linear invocation index."""
    dimension = attribute(op, "dimension")
    axis = "xyz".index(str(getattr(getattr(dimension, "data", None), "value", "x")))
    is_line = emitter.size[1:] == (1, 1)
    emitter.define(
        op.results[0], emitter.index_of(emitter.built_in("invocation")) if is_line else emitter.component("local", axis)
    )


def _barrier(emitter: FunctionEmitter, op: Operation) -> None:
    """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
    if emitter.invocations > 1:
        if emitter.meets_in_buffers:
            emitter.do("storageBarrier();")
        emitter.do("workgroupBarrier();")


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
