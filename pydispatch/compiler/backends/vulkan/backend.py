"""The Vulkan target: a variant becomes SPIR-V, generated or provided by the user.

A variant may have several modules. They are concatenated in the artifact, and the manifest states the offset of each,
the module and entry point of each export, and which specialization constants receive the executable constants.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from pydispatch.compiler.backends.vulkan import tools
from pydispatch.compiler.kernel_ir.kernel import Binary, Export, ObjectFile, Variant
from pydispatch.compiler.target.backend import Dump, located_errors
from pydispatch.errors import ArtifactError, CompileError
from pydispatch.formats.spirv import interface
from pydispatch.formats.spirv.check import check
from pydispatch.formats.spirv.interface import are_spilled
from pydispatch.formats.spirv.reflect import EntryPoint, Reflection, reflect
from pydispatch.formats.spirv.validator import validate

if TYPE_CHECKING:
    from pydispatch.compiler.backends.vulkan.functions import GeneratedSpirv

FORMAT = "vulkan-spirv-fb"
"""IREE's name of the format of Vulkan executables, as in target attributes."""
SPIRV = (".spv",)
"""Suffixes of the users' objects that are SPIR-V."""
SOURCES = (".glsl", ".comp")
"""Suffixes of the users' objects that are GLSL, which is compiled to SPIR-V here."""
ALIGNMENT = 4
"""Alignment in bytes that host code guarantees for bindings. If a device requires more, it copies less aligned ones."""


@dataclass
class SpirvModule:
    """SPIR-V module of a variant, as the artifact stores it.

    Attributes:
        data: The module.
        reflection: Its entry points and requirements.
        name: Its name in messages.
        stem: Name of its file without suffixes; "" for a generated module.
        file: The object that it was read from; None for a generated module.
    """

    data: bytes
    reflection: Reflection
    name: str
    stem: str
    file: ObjectFile | None = None


def compile_variant(variant: Variant, *, dump: Dump | None = None) -> Binary:
    """Compile and check one variant. Raises CompileError.

    dump: called with each module as (suffix, bytes). `Binary.notes` holds "spirv" for the manifest, and "seconds", the
    time of each phase.
    """
    with located_errors(variant):
        return _compile(variant, dump)


def _compile(variant: Variant, dump: Dump | None) -> Binary:
    """Compile a variant for Vulkan; `dump` receives the modules. The caller adds missing locations to errors."""
    if variant.target.format != FORMAT:
        raise CompileError(f"there is no format '{variant.target.format}' for Vulkan", note=f"known is: {FORMAT}")
    if variant.module is None and not variant.objects:  # "dynamic": code is supplied when the program is loaded
        return Binary(b"", ".spv", requires=(), alignment=ALIGNMENT, notes={"dynamic": True})
    start = time.perf_counter()
    modules, generated = _modules_of(variant)  # generated: None if the modules are the user's objects
    seconds = {"emit" if generated is not None else "objects": time.perf_counter() - start}
    entries = [_entry(export, modules, variant) for export in variant.exports]  # (index in modules, EntryPoint)
    for export, (module_index, entry) in zip(variant.exports, entries, strict=True):
        _check_export(export, modules[module_index], entry, generated)
    spirv = _manifest_entry(variant, modules, entries, is_generated=generated is not None)
    notes: dict[str, object] = {"seconds": seconds, "spirv": spirv}
    imports: tuple[str, ...] = ()
    if generated is not None and generated.imports:
        imports, notes["imports"] = generated.imports, generated.calls
        # Functions that are linked at load may write to buffers: the runtime checks them against these flags.
        spirv["read_only"] = [[binding.read_only for binding in export.layout.bindings] for export in variant.exports]
    if dump is not None:
        for i, binary in enumerate(modules):
            dump(".spv" if len(modules) == 1 else f".{i}.spv", binary.data)
    return Binary(
        data=b"".join(module.data for module in modules),
        suffix=".spv",
        requires=_requirements(modules, entries),
        alignment=ALIGNMENT,
        imports=imports,
        notes=notes,
    )


def _modules_of(variant: Variant) -> tuple[list[SpirvModule], GeneratedSpirv | None]:
    """Generate the module of a variant in kernel IR, or read those of its objects.

    Return them, and the generated SPIR-V; None for modules of objects.
    """
    if variant.module is None:
        return [_user_module(file) for file in variant.objects], None
    from pydispatch.compiler.backends.vulkan.functions import generate

    generated = generate(variant)
    return [_generated_module(generated, variant)], generated


def _manifest_entry(
    variant: Variant, modules: Sequence[SpirvModule], entries: Sequence[tuple[int, EntryPoint]], is_generated: bool
) -> dict[str, object]:
    """Return the entry "spirv" of the manifest (docs/artifact.md): what the runtime must know of the modules.

    Args:
        variant: The variant.
        modules: Its modules.
        entries: (index of the module, entry point) of each export.
        is_generated: Whether the module is generated. Only generated shaders have further buffers: one for constants
            that do not fit ("spilled"), and one into which they report failed checks ("watched").
    """
    watched = [
        is_generated and _is_watched(entry, export) for export, (_, entry) in zip(variant.exports, entries, strict=True)
    ]
    return {
        "modules": _offsets(modules),
        "entries": [[module_index, entry.name] for module_index, entry in entries],
        "specialization": _specialization(variant, modules),  # per word of the executable constants, its SpecIds
        "spilled": [is_generated and are_spilled(export.layout.constants) for export in variant.exports],
        "watched": watched,
        "workgroup_sizes": [list(entry.workgroup_size or (1, 1, 1)) for _, entry in entries],
    }


def _offsets(modules: Sequence[SpirvModule]) -> list[list[int]]:
    """Return [offset, size] in bytes of each module in the binary, in which the modules are concatenated."""
    sizes = [len(module.data) for module in modules]
    return [[sum(sizes[:i]), size] for i, size in enumerate(sizes)]


def _requirements(modules: Sequence[SpirvModule], entries: Sequence[tuple[int, EntryPoint]]) -> tuple[str, ...]:
    """Return the features that a device must have for the exports. entries: (index in modules, entry point) of each."""
    needs = dict.fromkeys(
        need for module, entry in entries for need in interface.requirements(modules[module].reflection, entry)
    )
    needs.pop("Linkage", None)  # removed when the imports are linked
    return tuple(needs)


def _generated_module(generated: GeneratedSpirv, variant: Variant) -> SpirvModule:
    """Return generated SPIR-V with its reflection as a module."""
    label = f"@{variant.executable}"
    return SpirvModule(generated.data, reflect(generated.data, f"executable '{label}'"), label, stem="")


def _user_module(file: ObjectFile) -> SpirvModule:
    """Read an object that contains kernels as a module; GLSL is compiled. Raises CompileError if it is malformed or has
    no entry point.
    """
    if file.suffix in SOURCES:
        data = tools.compile_glsl(file)
    elif file.suffix in SPIRV:
        data = file.data
    else:
        raise CompileError(
            f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot be used for Vulkan",
            file.location,
            f"known kinds: {', '.join((*SPIRV, *SOURCES))}",
        )
    try:
        reflection = reflect(data, file.name)  # entry points and resources
        check(data, file.name)  # that the driver can read the module safely: ids, types, structure
    except ArtifactError as error:
        hint = "compile it again: glslangValidator -V, glslc or dxc -spirv"
        raise CompileError(str(error), file.location, hint) from None
    if not reflection.entry_points:
        others = ", ".join(f"'{name}' ({model})" for name, model in reflection.others)
        raise CompileError(
            f"object '{file.name}' has no entry point for compute{f'; it has {others}' if others else ''}",
            file.location,
        )
    problem = validate(data)  # by spirv-val, if installed
    if problem:
        raise CompileError(f"object '{file.name}' is not valid SPIR-V:\n{problem}", file.location)
    return SpirvModule(
        data=data, reflection=reflection, name=file.name, stem=PurePath(file.name).name.split(".")[0], file=file
    )


def _entry(export: Export, modules: Sequence[SpirvModule], variant: Variant) -> tuple[int, EntryPoint]:
    """Return the module index and entry point of an export.

    Raises CompileError if there is no such entry point, or if there are several.
    """
    # 1. The entry point has the name of the export.
    named = [
        (i, entry) for i, m in enumerate(modules) for entry in m.reflection.entry_points if entry.name == export.name
    ]
    single = [(i, m) for i, m in enumerate(modules) if len(m.reflection.entry_points) == 1]
    if not named:  # 2. The file of the object has the name of the export, and the object has a single entry point.
        named = [(i, m.reflection.entry_points[0]) for i, m in single if m.stem == export.name]
    if not named:  # 3. There is a single export, a single object, and a single entry point.
        is_only_one = len(variant.exports) == len(modules) == len(single) == 1
        named = [(0, modules[0].reflection.entry_points[0])] if is_only_one else []
    if len(named) == 1:
        return named[0]
    if named:
        where = ", ".join(modules[i].name for i, _ in named)
        raise CompileError(
            f"export '@{export.name}' is an entry point of several objects: {where}", export.location,
            "leave one of them out, or name the exports after the files of the shaders",
        )  # fmt: skip
    have = "; ".join(f"{m.name}: {', '.join(e.name for e in m.reflection.entry_points)}" for m in modules)
    raise CompileError(
        f"export '@{export.name}' is no entry point of the objects of executable '@{variant.executable}'",
        export.location,
        f"entry points: {have}. GLSL's are all called 'main': name the file like the export ({export.name}.spv)",
    )


def _is_watched(entry: EntryPoint, export: Export) -> bool:
    """Return whether the entry point has the additional binding into which shaders report failed checks."""
    return interface.is_watched(entry, export.layout.constants, len(export.layout.bindings))


def _check_export(export: Export, module: SpirvModule, entry: EntryPoint, generated: GeneratedSpirv | None) -> None:
    """Check that the shader's interface matches the layout of its export; raise CompileError otherwise."""
    layout = export.layout
    read_only = [binding.read_only for binding in layout.bindings]
    if generated is not None and are_spilled(layout.constants):
        read_only.append(True)  # a further buffer that holds the constants
    if generated is not None and _is_watched(entry, export):
        read_only.append(False)  # a further buffer, into which the shader reports failed checks
    # Imports may write to buffers; they are not known yet, so that read-only buffers cannot be checked.
    has_imports = generated is not None and bool(generated.imports)
    problem = interface.mismatch(
        entry, layout.constants, bindings=len(read_only), read_only=None if has_imports else read_only
    )
    if problem is None and any(export.workgroup_size) and entry.workgroup_size is not None:
        has_fixed_size = entry.size_spec == (None, None, None)  # no specialization constant sets it
        if has_fixed_size and export.workgroup_size != entry.workgroup_size:
            problem = (
                f"the export declares workgroup_size = {list(export.workgroup_size)}, "
                f"the shader has {list(entry.workgroup_size)}"
            )
    if problem is not None:
        raise CompileError(
            f"export '@{export.name}' does not fit entry point '{entry.name}' of {module.name}: {problem}",
            export.location,
            "change the layout of the export or the shader",
        )


def _specialization(variant: Variant, modules: Sequence[SpirvModule]) -> list[list[int]]:
    """Return, for each word of the executable constants, the SpecIds that receive the word.

    The SpecIds of a constant are those that have its name; if there are none, the SpecId equal to the word's number. A
    one-word constant sets all of them. Each word of a two-word constant sets one: the SpecId equal to the word's number
    if it is among them, else the low word sets the first and the high word the second.
    """
    known = {(c.id, c.name) for m in modules for c in m.reflection.spec_constants}
    spec_ids = []
    for index, key in enumerate(variant.constants):
        ids_of_name = sorted({id for id, name in known if name == key})
        ids_of_number = sorted({id for id, _ in known if id == index})  # one, or none
        ids = ids_of_name or ids_of_number
        if variant.constants.count(key) > 1:
            word = index - variant.constants.index(key)  # 0: the low word, 1: the high word
            # ids[word], or none if the constant has a single SpecId and this is the high word.
            ids = [index] if index in ids else ids[word : word + 1]
        spec_ids.append(ids)
    return spec_ids
