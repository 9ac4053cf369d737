"""WGSL objects with whole kernels, checked against the exports of an executable.

A variant may have several modules. They are concatenated in the artifact, and the manifest states the offset of each,
the module and entry point of each export, and the names of the executable constants.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from pydispatch.compiler.kernel_ir.kernel import Binary, Export, ObjectFile, Variant
from pydispatch.compiler.target.backend import Dump
from pydispatch.errors import ArtifactError, CompileError
from pydispatch.formats.wgsl import interface
from pydispatch.formats.wgsl.adapt import adapted
from pydispatch.formats.wgsl.interface import WgslEntryPoint
from pydispatch.formats.wgsl.module import WgslModule
from pydispatch.formats.wgsl.overrides import check, overrides_of, unknown_constant
from pydispatch.formats.wgsl.preprocess import preprocess
from pydispatch.formats.wgsl.read import read
from pydispatch.suggestions import did_you_mean

ALIGNMENT = 4
"""Alignment in bytes that host code guarantees for bindings. If a device requires more, it copies less aligned ones."""


@dataclass(frozen=True)
class UserModule:
    """WGSL module of the user, parsed; `data` is its text in bytes, `stem` the name of its file without suffixes."""

    wgsl: WgslModule
    data: bytes
    stem: str


def compile_objects(variant: Variant, dump: Dump | None) -> Binary:
    """Compile a variant that has kernels in WGSL alone, and return its modules as a binary. Raises CompileError.

    Its objects are parsed, adapted to the binding points of the runtime, checked against the exports, and concatenated.
    """
    # Parse the objects, adapt them, and check the entry point of each export.
    start = time.perf_counter()
    objects = [_user_module(file) for file in variant.objects]
    # For each export: (index in `objects`, name of the entry point).
    entry_points = [_entry_point_of(export, objects, variant) for export in variant.exports]
    objects = [_with_adapted_bindings(index, module, variant, entry_points) for index, module in enumerate(objects)]
    problem = unknown_constant([module.wgsl for module in objects], variant.constants)
    if problem is not None:
        raise CompileError(problem, variant.location)
    entries: list[WgslEntryPoint] = []
    for export, (index, name) in zip(variant.exports, entry_points, strict=True):
        entries.append(_checked_entry(export, objects[index].wgsl, name, variant.constants))
    # Concatenate the modules. The notes say where each is, and which entry point each export has.
    modules, data = [], b""  # [offset, size] of each module in `data`
    for index, module in enumerate(objects):
        modules.append([len(data), len(module.data)])
        data += module.data
        if dump is not None:
            dump(".wgsl" if len(objects) == 1 else f".{index}.wgsl", module.data)
    requires = dict.fromkeys(need for entry in entries for need in interface.requirements(entry))
    notes: dict[str, object] = {
        "seconds": {"objects": time.perf_counter() - start},
        "wgsl": {
            "modules": modules, "entries": [list(entry_point) for entry_point in entry_points],
            "overrides": list(variant.constants),
            "files": [PurePath(module.wgsl.where).name for module in objects],
            "workgroup_sizes": [list(entry.workgroup_size or (1, 1, 1)) for entry in entries],
        },
    }  # fmt: skip
    return Binary(data, ".wgsl", tuple(requires), ALIGNMENT, notes=notes)


def preprocessed(file: ObjectFile) -> bytes:
    """Return the WGSL of an object after preprocessing: #include, #define and other directives are replaced.

    Raises ArtifactError for a directive that is not valid.
    """
    return preprocess(file.data, file.name, defines=file.defines, include_dirs=file.include_path)


def _user_module(file: ObjectFile) -> UserModule:
    """Parse an object as a module. Raises CompileError if it is malformed or has no entry point."""
    if file.suffix != ".wgsl":
        raise CompileError(
            f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot be used for WebGPU",
            file.location, "known kinds: .wgsl",
        )  # fmt: skip
    try:
        module = read(preprocessed(file), file.name)
    except ArtifactError as error:
        raise CompileError(str(error), file.location) from None
    if not module.entry_points:
        others = ", ".join(f"'{stage.name}'" for stage in module.other_stages)
        more = f"; it has {others} of other stages" if others else ""
        raise CompileError(
            f"object '{file.name}' has no entry point for compute{more}",
            file.location, "write @compute @workgroup_size(64) before the function",
        )  # fmt: skip
    return UserModule(module, module.text.encode(), PurePath(file.name).name.split(".")[0])


def _with_adapted_bindings(
    index: int, source: UserModule, variant: Variant, entry_points: Sequence[tuple[int, str]]
) -> UserModule:
    """Return a module of the user with the bindings that the runtime expects.

    Its uniform block, which holds the constants of a dispatch, moves to the binding point of the constants, and storage
    buffers after it move down by one. A storage buffer becomes `var<storage, read>` if no entry point writes it and the
    layout of an export declares it as ReadOnly. For one read-only buffer:

        @group(0) @binding(0) var<uniform> n: u32;             // becomes @group(3) @binding(0) var<uniform> n: u32;
        @group(0) @binding(1) var<storage, read_write> x: T;   // becomes @group(0) @binding(0) var<storage, read> x: T;

    Args:
        index: Index of the module among those of the variant.
        source: The module.
        variant: The variant, with the layouts of its exports.
        entry_points: (module index, name of the entry point) of each export.
    """
    read_only_flags = {
        name: [binding.read_only for binding in export.layout.bindings]
        for export, (module_index, name) in zip(variant.exports, entry_points, strict=True)
        if module_index == index
    }
    module = adapted(source.wgsl, read_only_flags)
    return replace(source, wgsl=module, data=module.text.encode())


def _entry_point_of(export: Export, objects: Sequence[UserModule], variant: Variant) -> tuple[int, str]:
    """Return the module index and entry point of an export.

    Raises CompileError if there is no such entry point, or if there are several.
    """
    # 1. The entry point has the name of the export.
    named = [(i, export.name) for i, source in enumerate(objects) if source.wgsl.entry(export.name) is not None]
    single = [(i, source) for i, source in enumerate(objects) if len(source.wgsl.entry_points) == 1]
    if not named:  # 2. The file of the object has the name of the export, and the object has a single entry point.
        named = [(i, source.wgsl.entry_points[0].name) for i, source in single if source.stem == export.name]
    if not named:  # 3. There is a single export, a single object, and a single entry point.
        is_only_one = len(variant.exports) == len(objects) == len(single) == 1
        named = [(0, objects[0].wgsl.entry_points[0].name)] if is_only_one else []
    if len(named) == 1:
        return named[0]
    if named:
        where = ", ".join(objects[i].wgsl.where for i, _ in named)
        raise CompileError(
            f"export '@{export.name}' is an entry point of several objects: {where}", export.location,
            "leave one of them out, or name the exports after the files of the shaders",
        )  # fmt: skip
    names = [entry.name for source in objects for entry in source.wgsl.entry_points]
    have = "; ".join(
        f"{source.wgsl.where}: {', '.join(e.name for e in source.wgsl.entry_points)}" for source in objects
    )
    raise CompileError(
        f"export '@{export.name}' is no entry point of the objects of executable '@{variant.executable}'",
        export.location, f"{did_you_mean(export.name, names)}entry points: {have}",
    )  # fmt: skip


def _checked_entry(export: Export, module: WgslModule, name: str, constants: Sequence[str]) -> WgslEntryPoint:
    """Check an entry point against the layout of its export, and return its interface. Raises CompileError for a
    mismatch.

    Args:
        export: The export.
        module: The module of the entry point.
        name: The name of the entry point.
        constants: The names of the executable constants, which set overrides of the module.
    """
    function = module.entry(name)
    assert function is not None
    try:
        overrides = overrides_of(module, constants)
        check(module, function, overrides)
        unknown_values = {override.name: None for override in overrides}  # they are set when the program is loaded
        entry = interface.entry_of(module.with_overrides(unknown_values), function)
    except ArtifactError as error:
        raise CompileError(str(error), export.location) from None
    layout = export.layout
    read_only = [binding.read_only for binding in layout.bindings]
    problem = interface.mismatch(entry, layout.constants, bindings=len(read_only), read_only=read_only)
    stated = export.workgroup_size
    states_size = any(stated)  # (0, 0, 0): not stated
    if problem is None and states_size and entry.workgroup_size not in (None, stated):
        assert entry.workgroup_size is not None
        problem = f"the export declares workgroup_size = {list(stated)}, the shader has {list(entry.workgroup_size)}"
    if problem is not None:
        raise CompileError(
            f"export '@{export.name}' does not fit entry point '{name}' of {module.where}: {problem}",
            export.location, "change the layout of the export or the shader",
        )  # fmt: skip
    return entry
