"""WebGPU as a target."""

from __future__ import annotations

from pydispatch.compiler.target.backend import Backend


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


BACKEND = WebGPU()
