"""Checks of an entry point against a program's layout, and its requirements of a device; for compiler and runtime."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.merge import least_buffer_count
from pydispatch.formats.wgsl.module import Declaration, UniformBinding, WgslModule
from pydispatch.formats.wgsl.types import layout, minimum_size

FEATURES = {
    "shader-f16": 0x0B, "subgroups": 0x00030021, "shader-f64": 0x0003001D, "shader-i16": 0x0003001E,
    "shader-int64": 0x00030026, "shader-int64-atomic-min-max": 0x0003002C, "shader-int64-atomic-all-ops": 0x0003002D,
    "shader-float32-atomic": 0x00030028,
}  # fmt: skip
"""Features of shaders → their numbers in wgpu. The first two are of the WebGPU standard, the others wgpu's own."""

GUARANTEED_LIMITS = {
    "maxStorageBuffersPerShaderStage": 8, "maxComputeInvocationsPerWorkgroup": 256, "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256, "maxComputeWorkgroupSizeZ": 64, "maxComputeWorkgroupStorageSize": 16384,
    "maxComputeWorkgroupsPerDimension": 65535, "maxUniformBufferBindingSize": 65536,
    "maxStorageBufferBindingSize": 128 << 20, "maxBufferSize": 256 << 20, "minStorageBufferOffsetAlignment": 256,
    "minUniformBufferOffsetAlignment": 256,
}  # fmt: skip
"""Limits that every WebGPU device guarantees: an entry point within them needs no requirement."""

CONSTANTS = UniformBinding(group=3, binding=0)
"""Uniform buffer of the constants of a dispatch: a block of 32-bit words."""

_ENABLES = {"f16": "shader-f16", "subgroups": "subgroups"}
"""Name in an `enable` directive → the feature that it needs."""
_WIDE = {"f64": "shader-f64", "i64": "shader-int64", "u64": "shader-int64"}
"""Type of 64 bits → the feature that it needs."""


class WgslFeatures(frozenset[str]):
    """Set of feature names that also evaluates limits.

    "maxComputeWorkgroupSizeX>=512" is in the set if the limit is at least 512.

    Attributes:
        limits: Value of each limit of the device, by name.
    """

    limits: Mapping[str, int]

    def __new__(cls, names: Iterable[str], limits: Mapping[str, int]) -> WgslFeatures:
        """Create the set. A frozenset takes its elements here, since `__init__` cannot add any."""
        instance = super().__new__(cls, names)
        instance.limits = limits
        return instance

    def __contains__(self, name: object) -> bool:
        """Return whether the device has a feature, or a limit: `"maxBindGroups>=4" in features`."""
        if isinstance(name, str) and ">=" in name:
            limit, _, least = name.partition(">=")
            # 20 digits exceed any limit, and int() refuses thousands of them.
            return least.isdecimal() and len(least) < 20 and self.limits.get(limit, -1) >= int(least)
        return frozenset.__contains__(self, name)

    def issuperset(self, names: Iterable[object]) -> bool:
        """Return whether the device has each feature, and satisfies each limit, of `names`."""
        return all(name in self for name in names)


@dataclass(frozen=True)
class BufferDeclaration:
    """Declaration of a storage buffer in a shader.

    Attributes:
        name: Name of the variable.
        type: Its type, as in the text.
        bytes: Minimum size of the buffer.
        is_fixed_size: Whether that is the exact size: the type has no array of dynamic size.
    """

    name: str
    type: str
    bytes: int
    is_fixed_size: bool


@dataclass(frozen=True)
class WgslEntryPoint:
    """Entry point of a WGSL module, with the buffers and constants that a dispatch of it must provide.

    Attributes:
        name: Name of the function.
        bindings: Binding of each storage buffer of group 0 that it uses → whether the buffer is declared as writable.
        buffers: Binding → the declaration of the buffer.
        constant_bytes: Size in bytes of the uniform block with the constants of a dispatch; 0 without one; None if not
            known.
        workgroup_size: Workgroup size; None if it depends on unknown overrides.
        workgroup_bytes: Workgroup memory in bytes.
        features: Features that its module requires, by their names in WebGPU or wgpu.
        least_buffer_count: Number of storage buffers that a device has to support: those that it uses, or, if not every
            device supports as many, those that are left when `formats.wgsl.merge` has merged them.
    """

    name: str
    bindings: Mapping[int, bool]
    buffers: Mapping[int, BufferDeclaration]
    constant_bytes: int | None
    workgroup_size: tuple[int, int, int] | None
    workgroup_bytes: int
    features: tuple[str, ...]
    least_buffer_count: int


class _Resources:
    """Resources of one entry point, collected by `add` from the variables that it uses.

    Attributes:
        module: The module.
        function: The entry point.
        buffers: Binding in group 0 → the variable of the storage buffer.
        constants: Uniform block with the constants of a dispatch; None so far.
        workgroup_bytes: Workgroup memory in bytes; variables of unknown size count as 0.
    """

    def __init__(self, module: WgslModule, function: Declaration) -> None:
        """Begin without resources."""
        self.module, self.function = module, function
        self.buffers: dict[int, Declaration] = {}
        self.constants: Declaration | None = None
        self.workgroup_bytes = 0

    @property
    def constant_bytes(self) -> int | None:
        """Return the size of the constants' block in bytes; 0 without a block; None if it is not known."""
        if self.constants is None:
            return 0
        known_layout = layout(self.module, self.constants.type)
        return None if known_layout is None else known_layout.size

    def add(self, variable: Declaration) -> None:
        """Record a variable that an entry point uses; raise ArtifactError if a dispatch cannot bind it.

        Workgroup variables count for their bytes. A dispatch binds the uniform block CONSTANTS and storage buffers of
        group 0; variables without a binding need none.
        """
        if variable.space == "workgroup":
            known_layout = layout(self.module, variable.type)
            if known_layout is not None:
                self.workgroup_bytes += known_layout.size
        if variable.attribute("binding") is None and variable.attribute("group") is None:
            return  # memory of the shader itself: var<private> or var<workgroup>
        group, binding = (self.module.number(variable, key) for key in ("group", "binding"))
        if variable.space == "uniform" and (group, binding) == CONSTANTS:
            self._add_constants(variable)
        elif variable.space == "storage" and group == 0 and binding is not None:
            self._add_buffer(variable, binding)
        else:
            kind = f"var<{variable.space}>" if variable.template else f"a {variable.type}"
            raise self._fail(
                variable,
                f"is {kind} of group {group}, binding {binding}: programs give storage buffers in group 0, and "
                "constants as one var<uniform>",
            )

    def _add_constants(self, variable: Declaration) -> None:
        """Record the block of constants; raise ArtifactError if there is one already."""
        if self.constants is not None:
            raise self._fail(
                variable,
                f"and '{self.constants.name}' are both uniform blocks of entry point '{self.function.name}'; the "
                "constants of a dispatch are one block",
            )
        self.constants = variable

    def _add_buffer(self, variable: Declaration, binding: int) -> None:
        """Record a storage buffer; raise ArtifactError if another one has its binding."""
        if binding in self.buffers:
            raise self._fail(
                variable,
                f"and '{self.buffers[binding].name}' are both binding {binding} of group 0; an entry point has one "
                "variable for each binding",
            )
        self.buffers[binding] = variable

    def _fail(self, variable: Declaration, problem: str) -> ArtifactError:
        """Return the error of a variable; `problem` follows the variable's name."""
        return ArtifactError(f"{self.module.location(variable)}: '{variable.name}' {problem}")


def _buffer(module: WgslModule, variable: Declaration) -> BufferDeclaration:
    """Return the declaration of a storage buffer with its size."""
    size, is_exact = minimum_size(module, variable.type)
    return BufferDeclaration(variable.name, variable.type, bytes=size, is_fixed_size=is_exact)


def entry_of(module: WgslModule, function: Declaration) -> WgslEntryPoint:
    """Return the resources and limits that an entry point uses; raise ArtifactError for resources that programs
    cannot bind."""
    # The variables that the entry point or its callees name.
    resources = _Resources(module, function)
    for declaration in module.reached([function]):
        if declaration.kind == "var":
            resources.add(declaration)
    # The workgroup size: sizes that are left out are 1. It is None if one of them is no constant of the module, such as
    # an override, which has its value when the pipeline is created.
    sizes = function.attribute("workgroup_size")
    numbers = [module.constant(text) for text in (sizes.arguments if sizes is not None else ())]
    numbers += [1] * (3 - len(numbers))
    workgroup_size = None if sizes is None or None in numbers else tuple(numbers)
    buffer_count = len(resources.buffers)
    if buffer_count > GUARANTEED_LIMITS["maxStorageBuffersPerShaderStage"]:  # within the limit, none need be merged
        buffer_count = least_buffer_count(module, function)
    return WgslEntryPoint(
        name=function.name,
        bindings={binding: buffer.access != "read" for binding, buffer in resources.buffers.items()},
        buffers={binding: _buffer(module, variable) for binding, variable in resources.buffers.items()},
        constant_bytes=resources.constant_bytes,
        workgroup_size=workgroup_size,  # type: ignore[arg-type]
        workgroup_bytes=resources.workgroup_bytes,
        features=features(module),
        least_buffer_count=buffer_count,
    )


def features(module: WgslModule) -> tuple[str, ...]:
    """Return the features that a module requires, by their names in WebGPU or wgpu."""
    required = [_ENABLES.get(name, name) for name in module.enables]
    words = {token.text for token in module.tokens if token.kind == "name"}
    required += [need for word, need in _WIDE.items() if word in words]
    # wgpu's suffixes of 64-bit literals are li, lu and lf, for i64, u64 and f64.
    suffixes = {token.text[-2:] for token in module.tokens if token.kind == "number"}
    if not suffixes.isdisjoint(("li", "lu")):
        required.append("shader-int64")
    if "lf" in suffixes:
        required.append("shader-f64")
    text = re.sub(r"\s", "", module.text)
    if "atomic<f32>" in text:
        required.append("shader-float32-atomic")
    if "atomic<i64>" in text or "atomic<u64>" in text:
        required.append("shader-int64-atomic-all-ops")
    return tuple(dict.fromkeys(required))


def requirements(entry: WgslEntryPoint) -> list[str]:
    """Return the features that an entry point requires, and the limits that exceed those of every device as
    "name>=number"."""
    needs = [(name, need) for name, need in limits(entry).items() if need > GUARANTEED_LIMITS[name]]
    return [*entry.features, *(f"{name}>={need}" for name, need in needs)]


def limits(entry: WgslEntryPoint) -> dict[str, int]:
    """Return the least value of each WebGPU limit that suffices for an entry point, by the limit's name.

    A workgroup size that is not known counts as 1 x 1 x 1.
    """
    x, y, z = entry.workgroup_size or (1, 1, 1)
    return {
        "maxStorageBuffersPerShaderStage": entry.least_buffer_count, "maxComputeInvocationsPerWorkgroup": x * y * z,
        "maxComputeWorkgroupSizeX": x, "maxComputeWorkgroupSizeY": y, "maxComputeWorkgroupSizeZ": z,
        "maxComputeWorkgroupStorageSize": entry.workgroup_bytes,
    }  # fmt: skip


def mismatch(
    entry: WgslEntryPoint, constants: int, bindings: int, read_only: Sequence[bool] | None = None
) -> str | None:
    """Return why an entry point cannot be dispatched with this layout, as a clause of an error message; None if it can.

    Its uniform block must have room in the constants, its bindings must be among those of the layout, and a buffer that
    is read-only in the layout must be declared as `read`.

    Args:
        entry: The entry point.
        constants: Number of 32-bit constants in the layout.
        bindings: Number of bindings in the layout.
        read_only: For each binding, whether the program declares it as read-only; None if not known.
    """
    if entry.workgroup_size is not None and min(entry.workgroup_size) < 1:
        return f"its workgroup size is {list(entry.workgroup_size)}; each of them is 1 or more"
    size = entry.constant_bytes or 0
    vector_count = -(-constants // 4)  # rounded up: the size of a block of vectors is a multiple of 16 bytes
    if size > 16 * vector_count:
        return (
            f"its uniform block has {size} bytes, the layout has {constants} constants of 4 bytes; the block has one "
            "member of 4 bytes for each"
        )
    for binding, is_written in sorted(entry.bindings.items()):
        if binding >= bindings:
            return f"binding {binding} of group 0 is beyond the {bindings} bindings of the layout"
        if read_only is not None and read_only[binding] and is_written:
            return f"binding {binding} is ReadOnly in the layout, and var<storage, read_write> in the shader"
    return None
