"""WebGPU as a target."""

from __future__ import annotations

from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr


class WebGPU(Backend):
    """WGSL shaders."""

    name = "webgpu-wgsl"
    format = "webgpu-wgsl-fb"
    emitter = "pydispatch.compiler.backends.webgpu.backend:compile_variant"
    workgroup_bytes = 16 << 10
    row_bytes = 8 << 10  # every device has 16 KiB of workgroup memory
    most_tensors = 8  # storage buffers that every device has
    has_invocations = True
    has_large_buffers = False

    def loads_pairs(self, target: ExecutableTargetAttr) -> bool:
        return True  # as a vector of two words


BACKEND = WebGPU()
