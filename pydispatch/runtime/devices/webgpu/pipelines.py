"""Shader modules, layouts and pipelines of a WebGPU device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydispatch.errors import ArtifactError
from pydispatch.runtime.devices.webgpu import api

if TYPE_CHECKING:
    from pydispatch.runtime.devices.webgpu.logical import LogicalDevice


class BufferRange(NamedTuple):
    """Range of a WGPUBuffer that is bound: `size` bytes from byte `offset` on."""

    buffer: Any
    offset: int
    size: int


class Pipelines:
    """Factory of compute pipelines, shader modules and bind groups, with a cache of the layouts that they need.

    The device has one factory, which is used under the context's lock. Callers own the objects that it creates, except
    the layouts.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Create a factory without cached layouts."""
        self.context, self.ffi, self.lib = context, context.ffi, context.lib
        # WGPUBufferBindingType of each binding → WGPUBindGroupLayout
        self._group_layouts: dict[tuple[int, ...], Any] = {}
        # (flags `read_only`, groups `uniforms`) of `layout` → (layout of bind group 0, WGPUPipelineLayout)
        self._layouts: dict[tuple[tuple[bool, ...], frozenset[int]], tuple[Any, Any]] = {}

    def release(self) -> None:
        """Hand all layouts, and the pipelines of copies and fills, to the garbage of the device."""
        lib, garbage = self.lib, self.context.garbage
        garbage.extend((lib.wgpuPipelineLayoutRelease, layout) for _, layout in self._layouts.values())
        garbage.extend((lib.wgpuBindGroupLayoutRelease, group) for group in self._group_layouts.values())
        self._layouts, self._group_layouts = {}, {}
        self.context.moves.release()

    def module(self, code: str, where: str) -> Any:
        """Create a shader module from WGSL text. where: names the text in tools and messages.

        Raise ArtifactError with the message of wgpu, including line and column, if the text is invalid.
        """
        arena, context = api.Arena(), self.context
        source = arena.new("WGPUShaderSourceWGSL", code=code)
        source.chain.sType = api.WGSL_SOURCE
        descriptor = arena.new("WGPUShaderModuleDescriptor", label=where)
        descriptor.nextInChain = self.ffi.addressof(source, "chain")
        context.errors.begin()
        module = self.lib.wgpuDeviceCreateShaderModule(context.device, descriptor)
        error = context.errors.take()
        if error is not None:
            _kind, message = error
            raise ArtifactError(_shader_error(message, where))
        return module

    def layout(self, read_only: tuple[bool, ...], uniforms: frozenset[int]) -> tuple[Any, Any]:
        """Return the layout of bind group 0 and the pipeline layout of a kernel, created on first use.

        Args:
            read_only: For each binding of group 0, a storage buffer, whether it is read-only.
            uniforms: Indices, greater than 0, of the bind groups that consist of one uniform buffer. Groups between
                them are empty.
        """
        cached = self._layouts.get((read_only, uniforms))
        if cached is None:
            storage = tuple(api.READ_ONLY_STORAGE if flag else api.STORAGE for flag in read_only)
            groups = [self._group_layout(storage)]
            for index in range(1, max(uniforms, default=0) + 1):
                groups.append(self.uniform_group_layout() if index in uniforms else self._group_layout(()))
            arena = api.Arena()
            descriptor = arena.new(
                "WGPUPipelineLayoutDescriptor", bindGroupLayoutCount=len(groups),
                bindGroupLayouts=arena.array("WGPUBindGroupLayout", groups),
            )  # fmt: skip
            context = self.context
            context.errors.begin()
            handle = self.lib.wgpuDeviceCreatePipelineLayout(context.device, descriptor)
            context.errors.end(f"{context.name}: a pipeline layout")
            cached = self._layouts[read_only, uniforms] = groups[0], handle
        return cached

    def uniform_group_layout(self) -> Any:
        """Return the layout of a bind group of one uniform buffer."""
        return self._group_layout((api.UNIFORM,))

    def _group_layout(self, kinds: tuple[int, ...]) -> Any:
        """Return the layout of a bind group of buffers, created on first use.

        kinds: WGPUBufferBindingType of each binding; () for an empty group.
        """
        layout = self._group_layouts.get(kinds)
        if layout is None:
            arena, context = api.Arena(), self.context
            entries = arena.array("WGPUBindGroupLayoutEntry", max(1, len(kinds)))
            for index, kind in enumerate(kinds):
                entries[index].binding, entries[index].visibility = index, api.COMPUTE_STAGE
                entries[index].buffer.type = kind
            descriptor = arena.new("WGPUBindGroupLayoutDescriptor", entryCount=len(kinds), entries=entries)
            context.errors.begin()
            handle = self.lib.wgpuDeviceCreateBindGroupLayout(context.device, descriptor)
            context.errors.end(f"{context.name}: a layout of {len(kinds)} bindings")
            layout = self._group_layouts[kinds] = handle
        return layout

    def pipeline(
        self, module: Any, entry: str, layout: Any, values: Mapping[str, float], label: str, where: str
    ) -> Any:
        """Create a compute pipeline. Raise ArtifactError if wgpu rejects it.

        Args:
            module: WGPUShaderModule.
            entry: Name of the entry point.
            layout: WGPUPipelineLayout.
            values: Key of an overridable constant (its name, or its @id as text) → its value.
            label: Name of the pipeline for tools.
            where: Text that error messages begin with.
        """
        arena, context = api.Arena(), self.context
        descriptor = arena.new("WGPUComputePipelineDescriptor", label=label, layout=layout)
        descriptor.compute.module = module
        # `text` assigns a text to a WGPUStringView.
        arena.text(descriptor.compute.entryPoint, entry)
        constants = arena.array("WGPUConstantEntry", max(1, len(values)))  # not empty, so that its pointer is valid
        for constant, (name, value) in zip(constants, values.items(), strict=False):
            arena.text(constant.key, name)
            constant.value = value
        descriptor.compute.constantCount, descriptor.compute.constants = len(values), constants
        context.errors.begin()
        pipeline = self.lib.wgpuDeviceCreateComputePipeline(context.device, descriptor)
        error = context.errors.take()
        if error is not None:
            _kind, message = error
            raise ArtifactError(_shader_error(message, where))
        return pipeline

    def group(self, layout: Any, ranges: Sequence[BufferRange]) -> Any:
        """Create a bind group of binding 0, 1, ... with these ranges. layout: its WGPUBindGroupLayout."""
        arena, context = api.Arena(), self.context
        entries = arena.array("WGPUBindGroupEntry", max(1, len(ranges)))
        for index, (buffer, offset, size) in enumerate(ranges):
            entry = entries[index]
            entry.binding, entry.buffer, entry.offset, entry.size = index, buffer, offset, size
        descriptor = arena.new("WGPUBindGroupDescriptor", layout=layout, entryCount=len(ranges), entries=entries)
        return self.lib.wgpuDeviceCreateBindGroup(context.device, descriptor)


def _shader_error(message: str, where: str) -> str:
    """Return the message of wgpu about a shader, preceded by its location. where: names the text.

    From "Shader 'x' parsing error: expected ';'" with a line "┌─ wgsl:3:7" it returns "WHERE:3:7: expected ';'".
    """
    lines = [line.rstrip() for line in message.splitlines() if line.strip()]
    lines = [line for line in lines if line not in ("Validation Error", "Caused by:")]
    text = "\n".join(line for line in lines if not line.strip().startswith("In wgpu")).strip()
    location = _LOCATION.search(text)  # line and column
    if location is not None:  # move it from the text to the front
        where = f"{where}:{location[1]}:{location[2]}"
        text = text[: location.start()].rstrip() + text[location.end() :]
    return f"{where}: {_FRAME.sub('', text)}"


_LOCATION = re.compile(r"\n *┌─ [^\n]*:(\d+):(\d+)(?=\n|$)")
"""Line of an error message with the line and column in the shader: `┌─ wgsl:3:7`."""
_FRAME = re.compile(r"^(Shader '[^\n]*' parsing error: |Shader validation error: |Pipeline constant error: )")
"""Start of an error message of wgpu that is removed, because it only says that a shader is wrong."""
