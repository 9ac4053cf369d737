"""Lowering of invocation ids and workgroup barriers to WGSL."""

from __future__ import annotations

from xdsl.ir import Operation

from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.kernel_ir.readers import attribute


def _thread(f: FunctionEmitter, op: Operation) -> None:
    """Lower `gpu.thread_id`. In a workgroup of one dimension, the x id is the linear invocation index."""
    found = attribute(op, "dimension")
    axis = "xyz".index(str(getattr(getattr(found, "data", None), "value", "x")))
    is_line = f.size[1:] == (1, 1)
    f.define(op.results[0], f.index_of(f.built_in("invocation")) if is_line else f.component("local", axis))


def _barrier(f: FunctionEmitter, op: Operation) -> None:
    """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
    if f.invocations > 1:
        if f.meets_in_buffers:
            f.do("storageBarrier();")
        f.do("workgroupBarrier();")


ROWS: dict[str, Lowering] = {"gpu.thread_id": _thread, "gpu.barrier": _barrier}
