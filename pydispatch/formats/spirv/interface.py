"""Checks a shader's interface against a program's layout, and its requirements of a device; for compiler and
runtime."""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.formats.spirv.reflect import EntryPoint, Reflection, Resource

_UNIVERSAL_CAPABILITIES = frozenset(("Shader", "Matrix", "GroupNonUniform", "AtomicStorage"))
"""Capabilities that every device with Vulkan 1.2 has."""
_VULKAN_1_2_SPIRV = (1, 5)
"""Newest version of SPIR-V that every device with Vulkan 1.2 accepts."""

CORE_EXTENSIONS = frozenset((
    "SPV_KHR_storage_buffer_storage_class", "SPV_KHR_16bit_storage", "SPV_KHR_8bit_storage",
    "SPV_KHR_variable_pointers", "SPV_KHR_subgroup_vote", "SPV_KHR_shader_ballot", "SPV_KHR_device_group",
    "SPV_KHR_float_controls", "SPV_KHR_no_integer_wrap_decoration", "SPV_KHR_physical_storage_buffer",
    "SPV_KHR_vulkan_memory_model", "SPV_KHR_shader_draw_parameters", "SPV_KHR_non_semantic_info",
    "SPV_GOOGLE_decorate_string", "SPV_GOOGLE_hlsl_functionality1", "SPV_EXT_descriptor_indexing",
    "SPV_KHR_integer_dot_product", "SPV_EXT_physical_storage_buffer", "SPV_KHR_expect_assume",
    "SPV_KHR_bit_instructions",
))  # fmt: skip
"""Extensions that are not required of a device by name: they are part of Vulkan 1.2, imply no device feature, or have
capabilities, which are required instead."""

GUARANTEED_LIMITS = {
    "maxComputeWorkGroupInvocations": 128,
    "maxComputeWorkGroupSize[0]": 128,
    "maxComputeWorkGroupSize[1]": 128,
    "maxComputeWorkGroupSize[2]": 64,
    "maxComputeSharedMemorySize": 16384,
    "maxPushConstantsSize": 128,
    "maxPerStageDescriptorStorageBuffers": 4,
}
"""Minimum limits that Vulkan guarantees on every device: only a need above them is stated as a requirement."""


def are_spilled(constants: int) -> bool:
    """Return whether generated shaders read this many 32-bit constants from a storage buffer instead of push constants.

    The buffer is bound after the bindings of the program.
    More push constants than the minimum limit of Vulkan would exclude some devices.
    """
    return 4 * constants > GUARANTEED_LIMITS["maxPushConstantsSize"]


def watching_binding(constants: int, bindings: int) -> int:
    """Return the binding of the buffer in which a generated shader reports a loop that the driver ended early.

    It follows the program's bindings, and the buffer of constants if there is one. `emit/spirv/watch.py` writes it.

    Args:
        constants: Number of 32-bit constants in the layout.
        bindings: Number of bindings in the layout.
    """
    return bindings + 1 if are_spilled(constants) else bindings  # the buffer of constants has the binding before


def is_watched(entry: EntryPoint, constants: int, bindings: int) -> bool:
    """Return whether a generated entry point reports loops that the driver ended early.

    It does so if it uses the buffer at `watching_binding`: the check that `compiler/emit/spirv/watch.py` appends to an
    entry point writes 1 to that buffer if a loop was cut short.

    Args:
        entry: The entry point.
        constants: Number of 32-bit constants in the layout.
        bindings: Number of bindings in the layout.
    """
    binding = watching_binding(constants, bindings)
    return any(resource.binding == binding for resource in entry.resources)


def requirements(reflection: Reflection, entry: EntryPoint) -> list[str]:
    """Return the device features that an entry point requires: capabilities, extensions, "spirv1.6",
    "limit>=number"."""
    features = [name for name in reflection.capabilities if name not in _UNIVERSAL_CAPABILITIES]
    features += [name for name in reflection.extensions if name not in CORE_EXTENSIONS]
    if reflection.version > _VULKAN_1_2_SPIRV:
        features.append(f"spirv{reflection.version[0]}.{reflection.version[1]}")
    features += [f"{name}>={need}" for name, need in limits(entry).items() if need > GUARANTEED_LIMITS[name]]
    return features


def limits(entry: EntryPoint) -> dict[str, int]:
    """Return how much an entry point needs of each Vulkan limit, by name.

    A size that is a specialization constant counts with its default value.
    """
    x, y, z = entry.workgroup_size or (1, 1, 1)
    return {
        "maxComputeWorkGroupInvocations": x * y * z,
        "maxComputeWorkGroupSize[0]": x,
        "maxComputeWorkGroupSize[1]": y,
        "maxComputeWorkGroupSize[2]": z,
        "maxComputeSharedMemorySize": entry.shared_bytes,
        "maxPushConstantsSize": entry.push_constant_bytes,
        "maxPerStageDescriptorStorageBuffers": sum(r.kind == "storage_buffer" for r in entry.resources),
    }


def mismatch(entry: EntryPoint, constants: int, bindings: int, read_only: Sequence[bool] | None = None) -> str | None:
    """Return why an entry point cannot be dispatched with this layout, as a clause of an error message; None if it can.

    It can if it states a workgroup size, if its push constants are among those of the layout, and if its resources are
    storage buffers of descriptor set 0 with bindings of the layout, which it does not write if they are read-only.

    Args:
        entry: The entry point.
        constants: Number of 32-bit constants in the layout.
        bindings: Number of bindings in the layout.
        read_only: For each binding, whether the program declares it as read-only; None if not known.
    """
    if entry.workgroup_size is None:
        return "it states no workgroup size (LocalSize)"
    if 0 in entry.workgroup_size:
        return f"its workgroup size {list(entry.workgroup_size)} has a zero"
    if entry.push_constant_bytes > 4 * constants:
        return (
            f"its push constants reach {entry.push_constant_bytes} bytes, the layout has {constants} constants of 4 "
            "bytes (a 64-bit scalar is two, and is aligned to 8 bytes)"
        )
    problems = (_resource_problem(resource, bindings, read_only) for resource in entry.resources)
    return next((problem for problem in problems if problem is not None), None)


def _resource_problem(resource: Resource, bindings: int, read_only: Sequence[bool] | None) -> str | None:
    """Return why a dispatch cannot bind a resource; None if it can. For the other arguments see `mismatch`."""
    shown = f"'{resource.name}' (set {resource.set}, binding {resource.binding})"
    if resource.kind == "other":
        return f"{shown} is no buffer; a dispatch binds storage buffers"
    if resource.kind == "uniform_buffer":
        return f"{shown} is a uniform buffer; a dispatch binds storage buffers, declare it `readonly buffer`"
    if resource.set != 0:
        return f"{shown} is in another descriptor set than 0"
    if resource.binding >= bindings:
        return f"{shown} is beyond the {bindings} bindings of the layout"
    if read_only is not None and read_only[resource.binding] and resource.written:
        return f"{shown} is written, and the layout says ReadOnly"
    return None
