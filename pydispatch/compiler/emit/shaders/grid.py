"""Invocations, workgroups and barriers, in every shader language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from pydispatch.compiler.emit.shaders.function import ShaderFunction
from pydispatch.compiler.kernel_ir.readers import gpu_dimension, integer

Emitter = ShaderFunction[Any]
"""Emitter of a function in any shader language."""


def _component(built_in: str) -> Callable[[Emitter, Operation], None]:
    """Return the lowering of a query of one dimension of the grid to that component of a built-in vector.

    built_in: name of the vector in SPIR-V, such as "WorkgroupId".
    """

    def lower(emitter: Emitter, op: Operation) -> None:
        """Lower the operation to a component of the vector `built_in`, such as "WorkgroupId": 0 is x."""
        emitter.define(op.results[0], emitter.component(built_in, integer(op, "dimension")))

    return lower


def _workgroup_size(emitter: Emitter, op: Operation) -> None:
    """Lower the query of the workgroup size: the size that the export declares.

    It may differ from the number of invocations that the compiler chose (`emitter.size`). An undeclared size (0) is 1.
    """
    emitter.define(op.results[0], max(1, emitter.declared_size[integer(op, "dimension")]))


def _thread(emitter: Emitter, op: Operation) -> None:
    """Lower `gpu.thread_id`.

    In a workgroup of one dimension, the compiler queries the x id only, which is the linear invocation index there.
    """
    is_line = emitter.size[1:] == (1, 1)
    thread_id = emitter.invocation() if is_line else emitter.component("LocalInvocationId", gpu_dimension(op))
    emitter.define(op.results[0], thread_id)


def _barrier(emitter: Emitter, op: Operation) -> None:
    """Emit a workgroup barrier that also makes the memory writes of all invocations visible."""
    if emitter.invocations > 1:  # one invocation sees its own writes
        emitter.barrier()


ROWS: dict[str, Callable[[Emitter, Operation], None]] = {
    "hal.interface.workgroup.id": _component("WorkgroupId"),
    "hal.interface.workgroup.count": _component("NumWorkgroups"),
    "hal.interface.workgroup.size": _workgroup_size,
    "gpu.thread_id": _thread,
    "gpu.barrier": _barrier,
}
"""Name of an operation → function that emits it through the emitter of a shader language."""
