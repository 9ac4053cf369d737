"""Vulkan as a compilation target."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr

from pydispatch.compiler.target.backend import Backend
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr


class Vulkan(Backend):
    """SPIR-V shaders. The target option `int64 = false` is for devices without 64-bit integers."""

    name = "vulkan-spirv"
    format = "vulkan-spirv-fb"
    emitter = "pydispatch.compiler.backends.vulkan.backend:compile_variant"
    workgroup_bytes = 16 << 10
    most_tensors = 16  # storage buffers that every device in use has
    row_bytes = 8 << 10  # half of the workgroup memory of every device, which holds rows of intermediates
    has_invocations = True
    has_large_buffers = False

    def loads_pairs(self, target: ExecutableTargetAttr) -> bool:
        """Return whether kernels read two adjacent elements of 32 bits as one of 64; not if the target lacks int64."""
        value = target.configuration.data.get("int64")
        return not (isinstance(value, IntegerAttr) and value.value.data == 0)


BACKEND = Vulkan()
"""Backend that `extensions.builtin` registers."""
