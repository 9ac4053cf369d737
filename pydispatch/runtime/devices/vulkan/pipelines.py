"""Shader modules, layouts and pipelines of one loaded program on a Vulkan device."""

from __future__ import annotations

import struct
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pydispatch.errors import ArtifactError, DeviceUnavailableError, InvalidArgumentError
from pydispatch.formats.spirv import interface
from pydispatch.formats.spirv.check import check
from pydispatch.formats.spirv.reflect import EntryPoint, Reflection, reflect
from pydispatch.formats.spirv.validator import validate
from pydispatch.logs import caller_level
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.descriptors import STORAGE_BUFFER
from pydispatch.runtime.devices.vulkan.logical import OBJECT_PIPELINE, OBJECT_SHADER_MODULE, LogicalDevice
from pydispatch.runtime.devices.vulkan.member import SpirvMember

if TYPE_CHECKING:
    from pydispatch._core.commands import Dispatch, Export
    from pydispatch.runtime.accelerators.execute import Executable

CONSTANT_BYTES = 4
"""Size of one constant of a dispatch, a 32-bit push constant."""


class VulkanKernel:
    """Loaded kernel of an export, ready to be dispatched; `Executables.load` creates it.

    Its bindings are storage buffers. For an export of 2 bindings and 40 constants that `is_spilled` and `is_watched`,
    bindings 0 and 1 are those of the program, binding 2 has the constants, and binding 3 receives reports: `bindings`
    is 4, and `constants` is 0.

    Attributes:
        executable, export: Names of its executable and export.
        pipeline, layout: The VkPipeline and its VkPipelineLayout.
        set_layout: VkDescriptorSetLayout of its only descriptor set.
        bindings: Number of bindings in its descriptor set: the program's bindings, one for the constants if
            `is_spilled`, and one for reports if `is_watched`.
        constants: Number of 32-bit push constants; 0 if `is_spilled`.
        is_spilled: Whether a binding after the program's own holds the constants, because they exceed the push
            constants that each device has: 128 bytes.
        is_watched: Whether the shader reports in the last binding that the device ended a loop early, as llvmpipe does.
        written: For each binding, whether the shader may write it.
        grid_limits: Most workgroups along x, y and z that the device starts.
    """

    __slots__ = (
        "bindings", "constants", "executable", "export", "grid_limits", "is_spilled", "is_watched", "layout",
        "pipeline", "set_layout", "written",
    )  # fmt: skip

    executable: str
    export: str
    pipeline: Any
    layout: Any
    set_layout: Any
    bindings: int
    constants: int
    is_spilled: bool
    is_watched: bool
    written: list[bool]
    grid_limits: tuple[int, int, int]

    @property
    def label(self) -> str:
        """Executable and export, for messages."""
        return f"@{self.executable}::@{self.export}"


class Executables:
    """Loaded kernels of a program, with the driver objects that they need.

    `load` adds the kernels of one executable after another; recorders find a kernel by `kernel_of`. The driver objects
    are destroyed after `release`, or when the object is garbage.

    Attributes:
        kernels: (index of the executable, ordinal of the export) → kernel.
        modules: VkShaderModule of each loaded module.
        layouts: (number of bindings, number of push constants) → (VkDescriptorSetLayout, VkPipelineLayout).
        context: The device.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Create an empty set of kernels."""
        self.kernels: dict[tuple[int, int], VulkanKernel] = {}  # by index of the executable, ordinal of the export
        self.modules: list[Any] = []
        self.layouts: dict[tuple[int, int], tuple[Any, Any]] = {}
        self.context = context

    def load(self, executable: Executable, member: SpirvMember, modules: Sequence[bytes]) -> None:
        """Create the pipelines of one executable, and add a kernel per export to `kernels`.

        All checks precede the first call of a driver, because drivers crash on invalid code.

        Args:
            executable: The executable.
            member: Layout of its SPIR-V modules: the entry point of each export, and where constants are passed.
            modules: SPIR-V code of these modules, with imports linked.

        Raises:
            ArtifactError: A module is invalid or does not fit the program.
            DeviceUnavailableError: The device lacks a feature or a limit.
        """
        name = executable.name
        where = f"executable '{name}'{f' ({executable.source})' if executable.source else ''}"
        # Check the modules, and find the entry point (index of the module, reflection) of each export.
        for code in modules:
            check(code, where)
        reflections = [reflect(module, where) for module in modules]
        entry_points = [self._entry_point(where, export, member, reflections) for export in executable.exports]
        # Create one shader module per SPIR-V module with an entry point, and one pipeline per export.
        values = member.values(executable.constants)  # SpecId → value, of the executable's constants
        handles: dict[int, Any] = {}  # index in `modules` → VkShaderModule
        for export, (module, entry) in zip(executable.exports, entry_points, strict=True):
            if module not in handles:
                handles[module] = self._module(modules[module], f"@{name}")
            kernel = self._kernel(name, export, member, entry)
            # A module need not declare all constants of its executable; only those that it has are specialized.
            constant_bytes = {constant.id: constant.bytes for constant in reflections[module].spec_constants}
            specialization = {id: (value, constant_bytes[id]) for id, value in values.items() if id in constant_bytes}
            kernel.pipeline = self._pipeline(handles[module], modules[module], entry, kernel, specialization)
            self.kernels[executable.index, export.ordinal] = kernel

    def _kernel(self, executable: str, export: Export, member: SpirvMember, entry: EntryPoint) -> VulkanKernel:
        """Return the kernel of an export with its layouts; the caller sets its pipeline.

        Args:
            executable: Name of the executable.
            export: The export.
            member: Layout of the executable's modules.
            entry: Reflection of the entry point of the export.
        """
        kernel = VulkanKernel()
        kernel.executable, kernel.export = executable, export.name
        kernel.is_spilled = member.is_spilled(export.ordinal)  # one more binding has the constants
        kernel.constants = 0 if kernel.is_spilled else export.constants
        kernel.is_watched = member.is_watched(export.ordinal)  # one more binding reports loops that ended early
        kernel.bindings = export.bindings + int(kernel.is_spilled) + int(kernel.is_watched)
        # A buffer that is not declared as read-only may be written in a way that reflection does not see.
        written = {resource.binding for resource in entry.resources if resource.written or not resource.read_only}
        kernel.written = [i in written for i in range(kernel.bindings)]
        limits = self.context.features.limits
        kernel.grid_limits = tuple(limits[f"maxComputeWorkGroupCount[{i}]"] for i in range(3))  # type: ignore[assignment]
        kernel.set_layout, kernel.layout = self._layout(kernel.bindings, kernel.constants)
        return kernel

    def kernel_of(self, command: Dispatch) -> VulkanKernel:
        """Return the kernel that a dispatch runs."""
        return self.kernels[command.executable, command.ordinal]

    def _entry_point(
        self, where: str, export: Export, member: SpirvMember, reflections: Sequence[Reflection]
    ) -> tuple[int, EntryPoint]:
        """Return the entry point of an export, after checks against the program and the device.

        Args:
            where: The executable, for messages.
            export: The export of the program.
            member: Layout of the executable's modules, which names the module and the entry point.
            reflections: Reflection of each module of the executable.

        Returns:
            The index of its module, and the reflection of the entry point.

        Raises:
            ArtifactError: There is no such entry point, or it does not fit the export.
            DeviceUnavailableError: The device lacks a feature or a limit.
        """
        ordinal, name, constants, bindings = export.ordinal, export.name, export.constants, export.bindings
        module, entry_name = member.entry(ordinal, name, reflections, where)
        entry = reflections[module].entry_point(entry_name)
        if entry is None:
            entry_names = ", ".join(point.name for point in reflections[module].entry_points) or "none"
            raise ArtifactError(f"{where}: there is no entry point '{entry_name}'; the module has: {entry_names}")
        if member.is_spilled(ordinal):  # the constants are in a buffer, the binding after those of the program
            constants, bindings = 0, bindings + 1
        if member.is_watched(ordinal):  # the last binding reports loops that the device ended early
            bindings += 1
        problem = interface.mismatch(entry, constants, bindings)
        if problem is not None:
            raise ArtifactError(f"{where}, export '@{name}', entry point '{entry_name}': {problem}")
        subject = f"{where}, export '@{name}'"
        self._require(subject, interface.requirements(reflections[module], entry), constants * CONSTANT_BYTES)
        self._warn_of_subgroups(subject, entry)
        return module, entry

    def _require(self, subject: str, features: Sequence[str], constant_bytes: int) -> None:
        """Raise DeviceUnavailableError if the device lacks a feature, or takes fewer bytes of push constants.

        subject: executable and export, for the message.
        """
        lacking = [feature for feature in features if feature not in self.context.features.names]
        if constant_bytes > self.context.features.limits["maxPushConstantsSize"]:
            lacking.append(f"maxPushConstantsSize>={constant_bytes}")
        if lacking:
            raise DeviceUnavailableError(
                f"{subject} needs {', '.join(map(self._explain, lacking))} "
                f"of vulkan:{self.context.index} ({self.context.model})"
            )

    def _warn_of_subgroups(self, subject: str, entry: EntryPoint) -> None:
        """Warn if a shader that combines values within one subgroup has workgroups of several subgroups.

        subject: executable and export, for the message.
        """
        x, y, z = entry.workgroup_size or (1, 1, 1)  # None: the module states no size
        subgroup = self.context.features.subgroup_size
        if entry.one_subgroup and x * y * z > subgroup:
            warnings.warn(
                f"{subject}: it combines values within a subgroup only, and its workgroups of {x * y * z} invocations "
                f"are several subgroups on vulkan:{self.context.index}, whose subgroups are of {subgroup}; "
                "combine the subgroups through shared memory",
                RuntimeWarning, stacklevel=caller_level(),
            )  # fmt: skip

    def _explain(self, need: str) -> str:
        """Return the text about a missing feature or limit for the message "SUBJECT needs TEXT of vulkan:0".

        need: a feature, or a limit such as "maxPushConstantsSize>=128". For these the texts are "Float64, which is
        missing," and "maxPushConstantsSize of 128, where 64 is there,".
        """
        limit, is_limit, minimum = need.partition(">=")
        if not is_limit:
            return f"{need}, which is missing,"
        return f"{limit} of {minimum}, where {self.context.features.limits.get(limit, 0)} is there,"

    def _module(self, data: bytes, label: str) -> Any:
        """Create a shader module from the bytes of SPIR-V code. label: its name in debuggers and messages."""
        context, arena = self.context, api.Arena()
        code = arena.array("uint32_t", list(struct.unpack(f"<{len(data) // 4}I", data)))
        create_info = arena.new("VkShaderModuleCreateInfo", codeSize=len(data), pCode=code)
        handle = context.ffi.new("VkShaderModule*")
        result = context.calls.vkCreateShaderModule(context.handle, create_info, context.ffi.NULL, handle)
        if result < 0:
            self._refused(result, data, f"{label}: vkCreateShaderModule")
        self.modules.append(handle[0])
        context.set_name(OBJECT_SHADER_MODULE, handle[0], label)
        return handle[0]

    def _layout(self, bindings: int, constants: int) -> tuple[Any, Any]:
        """Return (descriptor set layout, pipeline layout), created on first use.

        Args:
            bindings: Number of storage buffers, at bindings 0, 1, ... of set 0.
            constants: Number of 32-bit push constants.
        """
        cached = self.layouts.get((bindings, constants))
        if cached is not None:
            return cached
        context, ffi, arena = self.context, self.context.ffi, api.Arena()
        # The descriptor set layout: storage buffers that compute shaders see.
        items = arena.array("VkDescriptorSetLayoutBinding", max(1, bindings))
        for i in range(bindings):
            items[i].binding, items[i].descriptorType, items[i].descriptorCount = i, STORAGE_BUFFER, 1
            items[i].stageFlags = api.COMPUTE_STAGE
        set_info = arena.new("VkDescriptorSetLayoutCreateInfo", bindingCount=bindings, pBindings=items)
        set_layouts = arena.array("VkDescriptorSetLayout", 1)
        result = context.calls.vkCreateDescriptorSetLayout(context.handle, set_info, ffi.NULL, set_layouts)
        api.check(result, "vkCreateDescriptorSetLayout")
        # The pipeline layout: this set, and the push constants from byte 0 on.
        ranges = arena.array("VkPushConstantRange", 1)
        ranges[0].stageFlags, ranges[0].offset, ranges[0].size = api.COMPUTE_STAGE, 0, constants * CONSTANT_BYTES
        layout_info = arena.new("VkPipelineLayoutCreateInfo", setLayoutCount=1, pSetLayouts=set_layouts)
        if constants:  # Vulkan forbids empty ranges
            layout_info.pushConstantRangeCount, layout_info.pPushConstantRanges = 1, ranges
        handle = ffi.new("VkPipelineLayout*")
        result = context.calls.vkCreatePipelineLayout(context.handle, layout_info, ffi.NULL, handle)
        api.check(result, "vkCreatePipelineLayout")
        self.layouts[bindings, constants] = set_layouts[0], handle[0]
        return set_layouts[0], handle[0]

    def _refused(self, result: int, code: bytes, call: str) -> None:
        """Raise the error for a VkResult other than success of a call that takes a shader.

        If the driver rejects the shader, this is ArtifactError, with the findings of spirv-val if that is installed.

        Args:
            result: The VkResult.
            code: The SPIR-V module.
            call: The shader and the Vulkan function, for the message.
        """
        if result not in api.SHADER_ERRORS:
            api.check(result, call)  # raises: the driver is out of memory, for example
        problem = validate(code)
        hint = problem or "the shader is invalid, or the driver has a fault; `spirv-val kernels.spv` says which"
        raise ArtifactError(
            f"vulkan:{self.context.index} ({self.context.model}) refuses a shader that passed the check of its form: "
            f"{call}: {api.NAMES[result]}: {hint}"
        )

    def _pipeline(
        self,
        module: Any,
        code: bytes,
        entry: EntryPoint,
        kernel: VulkanKernel,
        specialization: dict[int, tuple[int, int]],
    ) -> Any:
        """Create the compute pipeline of a kernel.

        Args:
            module: VkShaderModule.
            code: Its SPIR-V code, for errors.
            entry: The entry point.
            kernel: The kernel, with its layouts.
            specialization: SpecId of a specialization constant → (value, size in bytes).

        Raises:
            ArtifactError: The driver rejects the shader.
        """
        context, ffi, arena = self.context, self.context.ffi, api.Arena()
        create_info = arena.new("VkComputePipelineCreateInfo", layout=kernel.layout, basePipelineIndex=-1)
        stage = create_info.stage
        stage.sType = api.STRUCTURES["VkPipelineShaderStageCreateInfo"]
        stage.stage, stage.module, stage.pName = api.COMPUTE_STAGE, module, arena.text(entry.name)
        if specialization:
            stage.pSpecializationInfo = _specialization_info(arena, specialization)
        handle = ffi.new("VkPipeline*")
        result = context.calls.vkCreateComputePipelines(
            context.handle, context.cache.handle, 1, create_info, ffi.NULL, handle
        )
        if result < 0:
            self._refused(result, code, f"{kernel.label}: vkCreateComputePipelines")
        context.set_name(OBJECT_PIPELINE, handle[0], kernel.label)
        return handle[0]

    def check_grid(self, kernel: VulkanKernel, grid: tuple[int, int, int]) -> None:
        """Raise InvalidArgumentError for a grid, in workgroups along x, y and z, that the device cannot start."""
        if any(size > limit for size, limit in zip(grid, kernel.grid_limits, strict=True)):
            raise InvalidArgumentError(
                f"{kernel.label}: a grid of {grid[0]} x {grid[1]} x {grid[2]} workgroups, "
                f"vulkan:{self.context.index} starts at most {' x '.join(map(str, kernel.grid_limits))}"
            )

    def release(self) -> None:
        """Hand the driver objects to the context's garbage, which is destroyed when the next commands are recorded.

        None of the kernels may be running.
        """
        if self.modules:  # else there is nothing to destroy: a kernel has a module
            pipelines = [kernel.pipeline for kernel in self.kernels.values()]
            handles = pipelines, self.modules, list(self.layouts.values())
            self.context.garbage.append(partial(_destroy, self.context, *handles))
        self.kernels, self.modules, self.layouts = {}, [], {}

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Hand the driver objects to the context's garbage.

        is_finalizing: a default argument, which remains valid when the interpreter ends and `sys` is empty.
        """
        # When the interpreter ends, the modules of Python are empty, and the process ends the device.
        if not is_finalizing() and hasattr(self, "context"):  # a signal handler's exception can leave __init__ anywhere
            self.release()


def _specialization_info(arena: api.Arena, specialization: dict[int, tuple[int, int]]) -> Any:
    """Return the VkSpecializationInfo* of SpecId → (value, size in bytes), with the values in one array of bytes."""
    entries, data = arena.array("VkSpecializationMapEntry", len(specialization)), b""
    for item, (id, (value, size)) in zip(entries, specialization.items(), strict=True):
        item.constantID, item.offset, item.size = id, len(data), size
        all_bits = (1 << 8 * size) - 1
        data += (value & all_bits).to_bytes(size, "little")
    return arena.new(
        "VkSpecializationInfo", mapEntryCount=len(specialization), pMapEntries=entries, dataSize=len(data),
        pData=arena.array("char", data),
    )  # fmt: skip


def _destroy(context: LogicalDevice, pipelines: list[Any], modules: list[Any], layouts: list[tuple[Any, Any]]) -> None:
    """Destroy the driver objects of a program. layouts: pairs (descriptor set layout, pipeline layout)."""
    calls, handle, null = context.calls, context.handle, context.ffi.NULL
    for pipeline in pipelines:
        calls.vkDestroyPipeline(handle, pipeline, null)
    for module in modules:
        calls.vkDestroyShaderModule(handle, module, null)
    for set_layout, layout in layouts:
        calls.vkDestroyPipelineLayout(handle, layout, null)
        calls.vkDestroyDescriptorSetLayout(handle, set_layout, null)
