"""Kernels of one loaded program on a WebGPU device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch.errors import ArtifactError, DeviceUnavailableError, InvalidArgumentError
from pydispatch.formats.wgsl import interface
from pydispatch.formats.wgsl.access import all_read_write
from pydispatch.formats.wgsl.adapt import adapted
from pydispatch.formats.wgsl.grid import GRID, form_of, why_not, with_grid
from pydispatch.formats.wgsl.interface import CONSTANTS, WgslEntryPoint, entry_of
from pydispatch.formats.wgsl.merge import OFFSETS, Merged, with_merged_buffers
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.formats.wgsl.overrides import check, overrides_of, unknown_constant
from pydispatch.formats.wgsl.read import read

if TYPE_CHECKING:
    from pydispatch._core.commands import Dispatch, Export
    from pydispatch.runtime.accelerators.execute import Executable
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice
    from pydispatch.runtime.devices.webgpu.wgsl_parts import WgslParts


class ShaderKey(NamedTuple):
    """Key under which a shader module is cached among those of one WGSL module: how the module's text was changed.

    Attributes:
        keeps_access: Whether buffers keep their declared access. Else all are declared read_write, for a dispatch that
            binds one buffer both read-only and writable, which WebGPU forbids.
        is_folded: Whether workgroup ids are computed from a folded grid: one of another shape, because an axis of the
            program's grid exceeds the device's limit.
        is_merged: Whether several storage buffers are merged into one, because the device cannot bind as many.
        entry: Entry point for which the text of a folded or merged variant is rewritten; "" for other variants, whose
            text serves all entry points of the module.
    """

    keeps_access: bool
    is_folded: bool
    is_merged: bool
    entry: str


class WebGPUKernel:
    """Loaded kernel of an export, ready to be dispatched. `Kernels.load` creates it.

    A kernel may have several pipelines, each created on first use. They differ in the access of the bound buffers, and
    in whether the grid is folded: if an axis of the program's grid exceeds the device's limit, the device runs a grid
    of another shape, such as 65,535 x 2 x 1 for 100,000 x 1 x 1.

    Attributes:
        executable, export: Names of its executable and export.
        module, entry: Its WGSL module and entry point.
        read_only: For each binding, whether it is declared read-only; False for one that the shader does not use.
        has_constants: Whether it has constants, in a uniform buffer.
        override_values: Values of overridable constants, by their keys in the pipeline's descriptor.
        merged: Text in which several storage buffers are merged into one, and which ones; None unless the kernel has
            more storage buffers than the device can bind.
        shaders: Key of an adaptation of the WGSL module → its WGPUShaderModule. All kernels of the module share this
            dict.
        variants: (for each binding, whether it is bound read-only; whether the grid is folded) →
            (WGPUComputePipeline, layout of bind group 0).
    """

    __slots__ = (
        "entry",
        "executable",
        "export",
        "has_constants",
        "merged",
        "module",
        "override_values",
        "read_only",
        "shaders",
        "variants",
    )  # fmt: skip

    def __init__(
        self,
        executable: str,
        export: str,
        module: WgslModule,
        entry: WgslEntryPoint,
        bindings: int,
        override_values: Mapping[str, float],
    ) -> None:
        """Create a kernel without pipelines.

        Args:
            executable: Name of the executable.
            export: Name of the export.
            module: WGSL module with the kernel.
            entry: Its entry point.
            bindings: Number of bindings of the export.
            override_values: Values of overridable constants, by their keys in the pipeline's descriptor.
        """
        self.executable, self.export, self.module, self.entry = executable, export, module, entry
        # `entry.bindings`: index of a binding that the shader declares → whether it is writable.
        self.read_only = tuple(i in entry.bindings and not entry.bindings[i] for i in range(bindings))
        self.has_constants = entry.constant_bytes != 0
        self.override_values = override_values
        self.merged: Merged | None = None  # set by the caller if the device cannot bind as many buffers
        self.shaders: dict[ShaderKey, Any] = {}  # adaptation of the module → WGPUShaderModule
        # (whether each binding is bound read-only; whether the grid is folded) → (pipeline, layout of bind group 0)
        self.variants: dict[tuple[tuple[bool, ...], bool], tuple[Any, Any]] = {}

    @property
    def where(self) -> str:
        """Module and export, for messages about the WGSL text."""
        return f"{self.module.where}, export '@{self.export}'"

    @property
    def label(self) -> str:
        """Executable and export, for messages."""
        return f"@{self.executable}::@{self.export}"


class Kernels:
    """Kernels of one program that its executor has loaded on a WebGPU device: their shader modules and pipelines.

    The executor calls `load` for each executable. A recorder then gets the kernel of each dispatch by `kernel_of`, its
    launch grid by `launch_grid` and its pipeline by `pipeline`. `release` hands everything to the device's garbage.

    Attributes:
        kernels: (index of the executable, ordinal of the export) → kernel.
        handles: (release function, handle) of each shader module and pipeline.
        context: The device.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Create an empty set of kernels."""
        self.kernels: dict[tuple[int, int], WebGPUKernel] = {}  # by index of the executable, ordinal of the export
        self.handles: list[tuple[Any, Any]] = []
        self.context = context

    def release(self) -> None:
        """Hand shaders and pipelines to the garbage of the device, which releases them later."""
        handles, self.handles, self.kernels = self.handles, [], {}
        self.context.garbage.extend(handles)

    def __del__(self) -> None:
        """Hand shaders and pipelines to the garbage of the device."""
        if hasattr(self, "context"):  # a signal handler's exception can leave __init__ anywhere
            self.release()

    def load(self, executable: Executable, parts: WgslParts, codes: Sequence[bytes]) -> None:
        """Create the shader modules of one executable; pipelines are created on first use, because drivers compile
        slowly.

        Args:
            executable: The executable.
            parts: Layout of its WGSL modules.
            codes: WGSL text of each module, with imports linked.

        Raises:
            ArtifactError: A module is invalid or does not fit the program.
            DeviceUnavailableError: The device lacks a feature or a limit.
        """
        # Read and check the modules. `files` are their names in messages.
        where = f"executable '{executable.name}'"
        if executable.source:
            files = [executable.source]
        else:
            files = parts.files or ["its shader"] * len(codes)
        modules = [read(code, f"{where}: {file}") for code, file in zip(codes, files, strict=True)]
        # A constant that no module of the user declares is an error. A generated module may lack a constant: code
        # generation removes unused ones.
        if parts.has_user_modules and (problem := unknown_constant(modules, parts.overrides)) is not None:
            raise ArtifactError(problem)
        if executable.source is not None:
            # Supplied code may number its bindings in its own way.
            modules = [self._adapted(module, executable, parts) for module in modules]
        # Find the entry point of each kernel, and create its shader module.
        shaders: list[dict[ShaderKey, Any]] = [{} for _ in modules]
        for export in executable.exports:
            index = parts.module_of(export, modules, where)
            kernel = self._kernel(executable, export, modules[index], parts)
            kernel.shaders = shaders[index]
            with self.context.lock:
                self._shader(kernel, keeps_access=True)  # reports errors in the text now, not at the first dispatch
            self.kernels[executable.index, export.ordinal] = kernel

    @staticmethod
    def _adapted(module: WgslModule, executable: Executable, parts: WgslParts) -> WgslModule:
        """Return a user-supplied module whose bindings have the numbers of the program's layouts.

        Buffers that the program declares ReadOnly, and that no entry point writes, also become read-only.
        """
        # If the module has only one entry point, the program need not state its name.
        only_entry = module.entry_points[0].name if len(module.entry_points) == 1 else ""
        layouts: dict[str, list[bool]] = {}  # entry point → for each binding, whether the program declares it ReadOnly
        for export in executable.exports:
            name, flags = parts.entry_name(export), parts.read_only_of(export)
            if flags is not None:
                has_entry = module.entry(name) is not None
                layouts[name if has_entry else only_entry] = flags
        return adapted(module, layouts)

    def _kernel(self, executable: Executable, export: Export, module: WgslModule, parts: WgslParts) -> WebGPUKernel:
        """Return the kernel of an export, checked against the program and the device.

        Args:
            executable: The executable.
            export: The export.
            module: WGSL module with the entry point of the export.
            parts: Layout of the executable's modules.

        Raises:
            ArtifactError: The module lacks the entry point, or it does not fit the export.
            DeviceUnavailableError: The device lacks a feature or a limit.
        """
        # Find the entry point. `source` names code that the user supplied at load: its only entry point may have any
        # name.
        function = _entry_point(module, parts.entry_name(export), any_name=executable.source is not None)
        where = module.where
        # Evaluate the overrides: each takes one word of the executable constants, or has a default. The module with
        # these values has a known workgroup size and known array lengths, which `entry` and the checks below need.
        words = executable.constants  # values of the executable constants
        overrides = overrides_of(module, parts.overrides, len(words))
        check(module, function, overrides)
        values = {override.name: override.value(words[override.word_index]) for override in overrides}
        entry = entry_of(module.with_overrides(values), function)
        # Compare the entry point with the export's layout, and its requirements with the device.
        flags = parts.read_only_of(export)  # for each binding, whether the program declares it ReadOnly; None: unknown
        problem = interface.mismatch(entry, export.constants, export.bindings, flags)
        if problem is not None:
            raise ArtifactError(f"{where}, export '@{export.name}', entry point '{entry.name}': {problem}")
        context = self.context
        missing = [need for need in interface.requirements(entry) if need not in context.features]
        if missing:
            raise DeviceUnavailableError(
                f"{where}, export '@{export.name}' needs {' and '.join(map(self._explain, missing))}, which "
                f"{context.name} ({context.adapter.model}) lacks; ask for less, or load it on another device"
            )
        # Create the kernel, with merged buffers if the device cannot bind all of them.
        override_values = {override.key: values[override.name] for override in overrides}
        kernel = WebGPUKernel(executable.name, export.name, module, entry, export.bindings, override_values)
        limit = context.limits["maxStorageBuffersPerShaderStage"]
        if export.bindings > limit:
            kernel.merged = with_merged_buffers(module, function, limit)
        return kernel

    def _explain(self, need: str) -> str:
        """Return a requirement in words: "the feature f16" for "f16", "maxBufferSize of 1024 (it has 512)" for
        "maxBufferSize>=1024" on a device that has 512.
        """
        limit, is_limit, minimum = need.partition(">=")
        if not is_limit:
            return f"the feature {need}"
        return f"{limit} of {minimum} (it has {self.context.limits.get(limit, 0)})"

    def pipeline(self, kernel: WebGPUKernel, read_only: tuple[bool, ...], is_folded: bool = False) -> tuple[Any, Any]:
        """Return the pipeline of a kernel and the layout of its bind group 0, created on first use.

        Args:
            kernel: The kernel.
            read_only: For each binding, whether it is bound read-only: the kernel's own flags, or all False. A buffer
                cannot be bound both read-only and writable in one dispatch, so every buffer is then read_write.
            is_folded: Whether the grid exceeds the device's limit and is folded: launched in another shape, such as
                (65535, 2, 1) for (100000, 1, 1), from which the shader computes the workgroup ids of the program.
        """
        cached = kernel.variants.get((read_only, is_folded))
        if cached is None:
            context, pipelines = self.context, self.context.pipelines
            keeps_access, merged = read_only == kernel.read_only, kernel.merged
            shader = self._shader(kernel, keeps_access, is_folded=is_folded, merged=merged)
            # Uniform buffers beside the bindings: the push constants, the program's grid if it is folded, and the
            # offset of each original buffer if buffers are merged.
            uniforms = (CONSTANTS, kernel.has_constants), (GRID, is_folded), (OFFSETS, merged is not None)
            uniform_groups = frozenset(uniform.group for uniform, is_used in uniforms if is_used)
            group_layout, layout = pipelines.layout(read_only, uniform_groups)
            pipeline = pipelines.pipeline(
                shader, kernel.entry.name, layout, kernel.override_values, label=kernel.label, where=kernel.where
            )
            self.handles.append((context.lib.wgpuComputePipelineRelease, pipeline))
            cached = kernel.variants[read_only, is_folded] = pipeline, group_layout
        return cached

    def _shader(
        self, kernel: WebGPUKernel, keeps_access: bool, is_folded: bool = False, merged: Merged | None = None
    ) -> Any:
        """Return the shader module of a kernel, created on first use.

        Args:
            kernel: The kernel.
            keeps_access: Whether buffers keep their declared access; else all are read_write, for a dispatch that
                binds one buffer both read-only and writable.
            is_folded: Whether the module computes workgroup ids from a folded grid: one of another shape, because an
                axis of the program's grid exceeds the device's limit.
            merged: Text of the kernel with merged buffers; None for the original one.
        """
        is_for_one_entry = is_folded or merged is not None  # folding and merging rewrite the text for one entry point
        entry_name = kernel.entry.name if is_for_one_entry else ""
        key = ShaderKey(keeps_access, is_folded, is_merged=merged is not None, entry=entry_name)
        shader = kernel.shaders.get(key)
        if shader is None:
            context, module = self.context, kernel.module
            if merged is not None:
                text = merged.text  # declares every merged buffer read_write, so `keeps_access` makes no difference
            elif keeps_access:
                text = module.text
            else:
                text = all_read_write(module)
            if is_folded:
                changed = read(text.encode(), module.where)  # `with_grid` takes a parsed module
                entry = changed.entry(kernel.entry.name)
                assert entry is not None
                text = with_grid(changed, entry)
            shader = kernel.shaders[key] = context.pipelines.module(text, module.where)
            self.handles.append((context.lib.wgpuShaderModuleRelease, shader))
        return shader

    def kernel_of(self, command: Dispatch) -> WebGPUKernel:
        """Return the kernel that a dispatch runs."""
        return self.kernels[command.executable, command.ordinal]

    def launch_grid(self, kernel: WebGPUKernel, grid: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the grid to dispatch for a kernel: `grid`, or a folded grid that the device's limit allows.

        A folded grid has another shape and at least as many workgroups; surplus workgroups return at once. For a limit
        of 65,535 workgroups along an axis, (100000, 1, 1) becomes (65535, 2, 1).

        Args:
            kernel: The kernel.
            grid: The program's grid, workgroups along x, y and z.

        Raises:
            InvalidArgumentError: No folded grid fits, or the kernel cannot be folded.
        """
        limit = self.context.limits["maxComputeWorkgroupsPerDimension"]
        if max(grid) <= limit:
            return grid
        folded, entry = form_of(grid, limit), kernel.module.entry(kernel.entry.name)
        assert entry is not None
        if folded is None:
            problem: str | None = "2^32 in all are too many: give each workgroup more"
        else:
            problem = why_not(kernel.module, entry)  # why the shader cannot be folded; None if it can
        if folded is None or problem is not None:
            raise InvalidArgumentError(
                f"{kernel.label}: a grid of {' x '.join(map(str, grid))} workgroups, {self.context.name} starts at "
                f"most {limit} a dimension, and {problem}"
            )
        return folded


def _entry_point(module: WgslModule, name: str, any_name: bool) -> Declaration:
    """Return the entry point `name` of a module; if `any_name`, also the only entry point under another name."""
    function = module.entry(name)
    if function is None and any_name and len(module.entry_points) == 1:
        function = module.entry_points[0]
    if function is None:
        entry_names = ", ".join(point.name for point in module.entry_points) or "none"
        raise ArtifactError(f"{module.where}: there is no entry point '{name}'; the module has: {entry_names}")
    return function
