"""WebGPU as a compilation target."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr

from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr


class WebGPU(Backend):
    """WGSL shaders. The target option `f16 = true`, or `targets="webgpu-f16"`, is for devices with f16.

    `Backend` describes the attributes.
    """

    name = "webgpu-wgsl"
    format = "webgpu-wgsl-fb"
    emitter = "pydispatch.compiler.backends.webgpu.backend:compile_variant"
    workgroup_bytes = 16 << 10
    row_bytes = 8 << 10  # half of the workgroup memory of every device, which holds rows of intermediates
    machines = ("webgpu-f16",)
    most_tensors = 8  # storage buffers that every device has
    has_invocations = True
    has_large_buffers = False

    def select(self, machine: str) -> ExecutableTargetAttr | None:
        """Return the target for "", the target with f16 for "webgpu-f16", and None for another backend's name."""
        if machine not in ("", *self.machines):
            return None
        target = self.target()
        configuration = DictionaryAttr({"f16": BoolAttr.from_bool(True)} if machine else {})
        return ExecutableTargetAttr(target.backend, target.format, configuration)

    def loads_pairs(self, target: ExecutableTargetAttr) -> bool:
        """Return True: a vector of two words is read at once."""
        return True


BACKEND = WebGPU()
"""Backend that `extensions.builtin` registers."""
