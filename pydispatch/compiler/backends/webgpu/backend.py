"""The WebGPU target: a variant becomes WGSL.

A variant may have several modules. They are concatenated in the artifact, and the manifest states the offset of each,
and the module and entry point of each export. Generated kernels are one module, with the user's functions linked in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pydispatch.compiler.backends.webgpu.functions import libraries_of, with_functions
from pydispatch.compiler.backends.webgpu.objects import compile_objects
from pydispatch.compiler.emit.wgsl.emitter import EntryPoint, emit_module
from pydispatch.compiler.kernel_ir.fallbacks import resolve_fallbacks
from pydispatch.compiler.kernel_ir.kernel import Binary, Variant
from pydispatch.compiler.target.backend import Dump, located_errors
from pydispatch.errors import CompileError
from pydispatch.formats.wgsl.interface import GUARANTEED_LIMITS, features
from pydispatch.formats.wgsl.merge import least_buffer_count
from pydispatch.formats.wgsl.module import WgslModule
from pydispatch.formats.wgsl.read import read
from pydispatch.link.wgsl.link import WgslLibrary

FORMAT = "webgpu-wgsl-fb"
"""IREE's name of the format of WebGPU executables, as in target attributes."""
ALIGNMENT = 4
"""Alignment in bytes that host code guarantees for bindings. If a device requires more, it copies less aligned ones."""


def compile_variant(variant: Variant, *, dump: Dump | None = None) -> Binary:
    """Compile and check one variant. Raises CompileError.

    dump: called with the text. `Binary.notes` holds "wgsl" for the manifest, and "seconds", the time of each phase.
    """
    with located_errors(variant):
        return _compile(variant, dump)


def _compile(variant: Variant, dump: Dump | None) -> Binary:
    """Compile a variant for WebGPU; `dump` receives the WGSL. The caller adds missing locations to errors.

    In `Binary.notes`, "overrides" has the names of the executable constants, which are overridable constants of the
    WGSL. `Binary.imports` has the symbols to resolve at load, and the note "imports" their prototypes.
    """
    if variant.target.format != FORMAT:
        raise CompileError(f"there is no format '{variant.target.format}' for WebGPU", note=f"known is: {FORMAT}")
    if variant.module is None and not variant.objects:  # "dynamic": code is supplied when the program is loaded
        return _declared_binary(variant)
    if variant.module is None:  # only kernels of the user
        return compile_objects(variant, dump)
    start = time.perf_counter()
    libraries = libraries_of(variant.objects)
    provided = {name for library in libraries for name in library.names()}
    module = resolve_fallbacks(variant.module, provided=lambda: provided)
    has_f16 = bool(dict(variant.target.config).get("f16"))
    text, entries = emit_module(module, variant.exports, variant.constants, has_f16)
    linked_module = with_functions(text, module, libraries, variant)
    if dump is not None:
        dump(".wgsl", linked_module.text)
    data = linked_module.text.encode()
    notes: dict[str, object] = {
        "seconds": {"emit": time.perf_counter() - start},
        "wgsl": {
            "modules": [[0, len(data)]],  # (offset, size) in bytes of the one module
            "entries": [[0, entry.name] for entry in entries],  # (index in "modules", entry point) of each export
            "overrides": list(variant.constants),
            "workgroup_sizes": [list(entry.size) for entry in entries],
        },
    }
    if linked_module.imports:
        notes["imports"] = linked_module.calls  # descriptions of the imports, with their prototypes
    return Binary(
        data=data,
        suffix=".wgsl",
        requires=_requirements_of_module(linked_module.text, entries, libraries),
        alignment=ALIGNMENT,
        imports=linked_module.imports,
        notes=notes,
    )


def _declared_binary(variant: Variant) -> Binary:
    """Return an empty binary for an executable whose WGSL is supplied when the program is loaded."""
    read_only = [[binding.read_only for binding in export.layout.bindings] for export in variant.exports]
    declared = {"overrides": list(variant.constants), "read_only": read_only}
    return Binary(b"", ".wgsl", requires=(), alignment=ALIGNMENT, notes={"dynamic": True, "wgsl": declared})


def _requirements_of_module(
    text: str, entries: Sequence[EntryPoint], libraries: Sequence[WgslLibrary]
) -> tuple[str, ...]:
    """Return the features and limits that a device must have for a module.

    Args:
        text: The linked WGSL.
        entries: Its entry points.
        libraries: The libraries of functions that may be linked in.
    """
    # Kernels that declare more storage buffers than every device can bind require only as many as they use. Which ones
    # they use is read from the parsed text.
    parsed = None
    if any(len(entry.bindings) > GUARANTEED_LIMITS["maxStorageBuffersPerShaderStage"] for entry in entries):
        parsed = read(text.encode(), "the generated text")
    requires = dict.fromkeys(need for entry in entries for need in requirements(entry, parsed))
    if text.startswith("enable f16;"):
        requires["shader-f16"] = None
    requires |= dict.fromkeys(need for library in libraries for need in features(library.module))
    return tuple(requires)


def requirements(entry: EntryPoint, module: WgslModule | None) -> list[str]:
    """Return the limits that an entry point needs above those that every device has.

    Storage buffers count as after merging: at load, several buffers become slices of one if a device has too few
    bindings.

    Args:
        entry: The entry point.
        module: The parsed text, from which the number of buffers after merging is computed. None if it is not needed,
            because no entry point has more bindings than every device supports.

    Returns:
        Requirements such as "maxComputeInvocationsPerWorkgroup>=512"; none for a limit that every device has.
    """
    x, y, z = entry.size
    function = module.entry(entry.name) if module is not None else None
    buffer_count = least_buffer_count(module, function) if module and function else len(entry.bindings)
    needs = {
        "maxStorageBuffersPerShaderStage": buffer_count,
        "maxComputeInvocationsPerWorkgroup": x * y * z,
        "maxComputeWorkgroupSizeX": x,
        "maxComputeWorkgroupSizeY": y,
        "maxComputeWorkgroupSizeZ": z,
        "maxComputeWorkgroupStorageSize": entry.workgroup_bytes,
    }
    return [f"{name}>={need}" for name, need in needs.items() if need > GUARANTEED_LIMITS[name]]
