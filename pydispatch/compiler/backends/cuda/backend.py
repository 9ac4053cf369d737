"""The CUDA target: a variant becomes PTX or machine code, generated or provided by the user.

A variant may have several modules. They are concatenated in the artifact, and the manifest states the offset of each,
the module and symbol of each export, its block size, and the layout of its constants.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from pydispatch.compiler.backends.cuda.objects import (
    NEWEST,
    CudaKernel,
    CudaModule,
    Threads,
    of_cubin,
    of_ptx,
    open_objects,
)
from pydispatch.compiler.backends.cuda.target import DEFAULT, FORMAT
from pydispatch.compiler.kernel_ir.kernel import Binary, Export, Variant
from pydispatch.compiler.target.backend import Dump, located_errors
from pydispatch.errors import ArtifactError, CompileError
from pydispatch.formats.ptx import interface
from pydispatch.formats.ptx.parameters import parameters_of
from pydispatch.link.ptx import link

if TYPE_CHECKING:
    from pydispatch.compiler.backends.cuda.functions import LinkedKernels

ALIGNMENT = 16
"""Alignment in bytes of the bindings of hand-written kernels, which may load vectors of four floats."""


def compile_variant(variant: Variant, *, dump: Dump | None = None) -> Binary:
    """Compile and check one variant. Raises CompileError.

    `notes` of the result has "ptx" and "warnings" for the manifest, and "seconds", the time of each phase.

    Args:
        variant: The variant.
        dump: Function that is called with each module as (suffix, bytes), and with the LLVM IR of generated ones.
    """
    with located_errors(variant):
        return _compile(variant, dump)


def architecture_of(variant: Variant) -> str:
    """Return the architecture that a variant is compiled for, such as `sm_75`."""
    return str(dict(variant.target.config).get("target", DEFAULT))


def _compile(variant: Variant, dump: Dump | None) -> Binary:
    """Compile a variant for `compile_variant`, which adds the variant's location to errors that have none.

    A variant has either kernels in kernel IR, from which one module is generated, or hand-written kernels in one or
    several objects. `dump` receives the modules, and LLVM IR of generated ones.
    """
    if variant.target.format != FORMAT:
        raise CompileError(f"there is no format '{variant.target.format}' for CUDA", note=f"known is: {FORMAT}")
    if variant.module is None and not variant.objects:  # code is supplied when the program is loaded
        return _declared_binary(variant)

    start = time.perf_counter()
    modules, linked = _modules_of(variant, dump)
    seconds = {"objects" if linked is None else "emit": time.perf_counter() - start}
    chosen = [_kernel(export, modules, variant) for export in variant.exports]  # (index in modules, kernel)
    blocks = [
        _check_export(export, kernel, None if linked is None else linked.blocks.get(export.name))
        for export, (_, kernel) in zip(variant.exports, chosen, strict=True)
    ]
    if dump is not None:
        for i, image in enumerate(modules):
            dump(f".{image.kind}" if len(modules) == 1 else f".{i}.{image.kind}", image.data)

    # The entries of the manifest.
    dynamic_shared = {} if linked is None else linked.shared
    ptx = _manifest_entry(variant, modules, chosen, blocks, dynamic_shared)
    notes: dict[str, object] = {"seconds": seconds, "ptx": ptx}
    if warnings := _warnings(variant, modules, linked):
        notes["warnings"] = warnings
    if linked is not None:
        imports, calls = linked.imports, linked.calls
    else:
        imports, calls = _imports_of_objects(variant, modules, chosen)
    if imports:
        notes["imports"] = calls
    requires = dict.fromkeys(name for module in modules for name in module.requires)
    return Binary(
        data=b"".join(module.data for module in modules),
        suffix=".cubin" if all(module.kind == "cubin" for module in modules) else ".ptx",
        requires=tuple(requires),
        alignment=ALIGNMENT if linked is None else linked.alignment,
        imports=imports,
        notes=notes,
    )


def _modules_of(variant: Variant, dump: Dump | None) -> tuple[list[CudaModule], LinkedKernels | None]:
    """Generate the module of a variant in kernel IR, or read those of its objects.

    Return them, and the generated kernels; None for the kernels of objects.
    """
    arch = architecture_of(variant)
    if variant.module is None:
        return open_objects(variant.objects, arch), None
    from pydispatch.compiler.backends.cuda.functions import generate

    linked = generate(variant, arch, dump)
    return [_generated_module(linked, variant)], linked


def _manifest_entry(
    variant: Variant, modules: Sequence[CudaModule], chosen: Sequence[tuple[int, CudaKernel]],
    blocks: Sequence[Threads], dynamic_shared: Mapping[str, int],
) -> dict[str, object]:  # fmt: skip
    """Return the entry "ptx" of the manifest (docs/artifact.md), whose lists are in the order of the exports.

    Args:
        variant: The variant.
        modules: Its modules.
        chosen: (index of the module, kernel) of each export.
        blocks: Block size of each export.
        dynamic_shared: Export → bytes of dynamic shared memory of a generated kernel. A hand-written kernel has the
            bytes that its export states.
    """
    # Sizes of the parameters after the bindings; none where the export describes its parameters.
    parameters = [
        list(kernel.parameters[len(export.layout.bindings) :]) if export.parameters is None else []
        for export, (_, kernel) in zip(variant.exports, chosen, strict=True)
    ]
    return {
        "modules": _offsets(modules),
        "entries": [[module, kernel.name] for module, kernel in chosen],
        "blocks": [list(block) for block in blocks],
        "shared": [dynamic_shared.get(export.name, export.local_memory) for export in variant.exports],
        "parameters": parameters,
        "constants": _constants(variant, modules),
        **_parameter_descriptions(variant),
    }


def _offsets(modules: Sequence[CudaModule]) -> list[list[object]]:
    """Return [offset, size, kind] of each module in the binary, in which the modules are concatenated."""
    sizes = [len(module.data) for module in modules]
    return [[sum(sizes[:i]), size, module.kind] for i, (size, module) in enumerate(zip(sizes, modules, strict=True))]


def _imports_of_objects(
    variant: Variant, modules: Sequence[CudaModule], chosen: Sequence[tuple[int, CudaKernel]]
) -> tuple[tuple[str, ...], list[dict[str, object]]]:
    """Return the symbols that hand-written kernels call and no object defines, and their descriptions for the manifest.

    They are resolved when the program is loaded.

    Args:
        variant: The variant.
        modules: Its modules.
        chosen: (index of the module, kernel) of each export.
    """
    symbols = sorted({symbol for module in modules for symbol in module.unresolved})
    calls: list[dict[str, object]] = []
    for symbol in symbols:
        # The modules that call the symbol, the prototypes that they declare for it, and the exports whose kernel is in
        # such a module.
        users = [i for i, module in enumerate(modules) if symbol in module.unresolved]
        declared = {link.prototypes_of(modules[i].data, modules[i].name).get(symbol, "") for i in users}
        exports = [e.name for e, (i, _) in zip(variant.exports, chosen, strict=True) if i in users]
        shown = [f"{symbol}{text}" for text in sorted(declared)]
        calls.append({"symbol": symbol, "optional": False, "exports": exports, "cuda": shown})
    return tuple(symbols), calls


def _declared_binary(variant: Variant) -> Binary:
    """Return an empty binary for an executable whose PTX is supplied at run time.

    Its notes have what launches need of its exports: block sizes, shared memory, constants.
    """
    ptx: dict[str, object] = {
        "blocks": [list(e.workgroup_size) if any(e.workgroup_size) else None for e in variant.exports],
        "shared": [export.local_memory for export in variant.exports],
        "constants": list(variant.constants),
        **_parameter_descriptions(variant),
    }
    return Binary(b"", ".ptx", requires=(), alignment=ALIGNMENT, notes={"dynamic": True, "ptx": ptx})


def _parameter_descriptions(variant: Variant) -> dict[str, object]:
    """Return the entry "described" of the manifest: for each export the description of its kernel's parameters, or
    None.

    Return an empty mapping if no export describes its parameters.
    """
    if all(export.parameters is None for export in variant.exports):
        return {}
    return {"described": [export.parameters for export in variant.exports]}


def _generated_module(linked: LinkedKernels, variant: Variant) -> CudaModule:
    """Parse generated PTX or a generated cubin. Raises CompileError if that fails, which is a defect of the
    compiler.
    """
    name = f"executable '@{variant.executable}'"
    try:
        return of_cubin(linked.data, name) if linked.kind == "cubin" else of_ptx(linked.data, name)
    except ArtifactError as error:
        raise CompileError(f"generated PTX is refused: {error}", note="this is a defect of the compiler") from None


def _kernel(export: Export, modules: Sequence[CudaModule], variant: Variant) -> tuple[int, CudaKernel]:
    """Return (index of its module, kernel) of an export: the kernel of the same name.

    If the only export of hand-written modules describes its parameters, the only kernel may have another name: such
    kernels come from other compilers, such as Numba, which choose the name. Raises CompileError if there is no such
    kernel, or if there are several.
    """
    name = export.name if variant.module is None else _generated_symbol(export.name)
    kernels_of_name = [(i, kernel) for i, module in enumerate(modules) if (kernel := module.kernel(name)) is not None]
    if len(kernels_of_name) == 1:
        return kernels_of_name[0]
    if kernels_of_name:
        raise CompileError(
            f"export '@{export.name}' is an entry of several objects: {', '.join(k.where for _, k in kernels_of_name)}",
            export.location,
            "leave one of them out; objects for several architectures are listed under a target each",
        )
    kernels = [(i, kernel) for i, module in enumerate(modules) for kernel in module.kernels]
    is_hand_written = variant.module is None
    is_only_kernel = len(kernels) == len(variant.exports) == 1
    if is_hand_written and is_only_kernel and export.parameters is not None:
        return kernels[0]
    raise _missing_kernel(export, modules, variant)


def _missing_kernel(export: Export, modules: Sequence[CudaModule], variant: Variant) -> CompileError:
    """Return the error for an export without a kernel, with a hint if a kernel has its name as C++ mangles it."""
    kernels = [kernel for module in modules for kernel in module.kernels]
    have = ", ".join(f"'{kernel.name}' ({kernel.where})" for kernel in kernels)
    mangled = next((kernel.name for kernel in kernels if _is_mangled(kernel.name, export.name)), None)
    hint = f"; '{mangled}' is its name in C++: declare it extern \"C\"" if mangled else ""
    return CompileError(
        f"export '@{export.name}' is no entry of the objects of executable '@{variant.executable}'",
        export.location,
        f"entries: {have or 'none in ' + ', '.join(module.name for module in modules)}{hint}",
    )


def _generated_symbol(name: str) -> str:
    """Return the symbol of the kernel that is generated for an export."""
    from pydispatch.compiler.emit.llvm.nvptx.platform import entry_symbol

    return entry_symbol(name)


def _is_mangled(symbol: str, name: str) -> bool:
    """Return whether a symbol is the mangled C++ name of `name`: _Z6squarePf of `square`."""
    # A length is a whole number in the symbol: `11a` of `_Z11apply_scale` is not the name `a` after its length 1.
    return symbol.startswith("_Z") and re.search(rf"(?<!\d){len(name)}{re.escape(name)}", symbol) is not None


def _check_export(export: Export, kernel: CudaKernel, generated: Threads | None) -> Threads:
    """Check the kernel of an export against its layout, and return the block size. Raises CompileError for a mismatch.

    generated: the block size of a generated kernel; None for a hand-written one, whose block size is stated.
    """
    problem = _mismatch(export, kernel)
    if problem is not None:
        layout = export.layout
        raise CompileError(
            f"export '@{export.name}' does not fit entry '{kernel.name}' ({kernel.where}): {problem}",
            export.location,
            f"the layout has {_with_noun(len(layout.bindings), 'binding')}, which are pointers in front, and "
            f"{_with_noun(layout.constants, 'constant')} of 32 bits after them; 64-bit scalars are two; "
            "pydispatch.parameters of the export describes other parameters"
            if export.parameters is None
            else "change pydispatch.parameters of the export",
        )
    block = generated or _stated_block(export, kernel)
    problem = _block_problem(kernel, block, export.local_memory)
    if problem is not None:
        raise CompileError(
            f"export '@{export.name}' cannot run entry '{kernel.name}' ({kernel.where}): {problem}",
            export.location,
            "change the workgroup_size or workgroup_local_memory of the export, or what the kernel states: "
            ".reqntid comes from __block_size__, .maxntid from __launch_bounds__",
        )
    return block


def _block_problem(kernel: CudaKernel, block: Threads, shared: int) -> str | None:
    """Return why a kernel cannot run with this block size and `shared` bytes of dynamic workgroup memory; None if it
    can.

    The text is a clause of an error message, such as "its block of 2048x1x1 is 2048 threads, ...".
    """
    if kernel.ptx is not None:
        return interface.block_problem(kernel.ptx, block, shared)
    # A cubin: only the block sizes that its attributes state are known, not its static workgroup memory.
    limits = interface.MAX_BLOCK  # along x, y and z
    is_within_limits = all(0 < n <= limit for n, limit in zip(block, limits, strict=True))
    if not is_within_limits or prod(block) > interface.MAX_THREADS:
        most = f"{interface.MAX_THREADS}, {_format_block(limits)}"
        return f"its block of {_format_block(block)} is {prod(block)} threads, CUDA has up to {most}"
    if kernel.required is not None and block != kernel.required:
        required = _format_block(kernel.required)
        return f"it was compiled for blocks of {required}, the workgroup size is {_format_block(block)}"
    if kernel.maximum is not None and prod(block) > prod(kernel.maximum):
        return (
            f"it was compiled for at most {prod(kernel.maximum)} threads, the workgroup size is {_format_block(block)}"
        )
    if shared > interface.MAX_SHARED:
        return f"it takes {shared} bytes of workgroup memory, a block has up to {interface.MAX_SHARED}"
    return None


def _mismatch(export: Export, kernel: CudaKernel) -> str | None:
    """Return why the parameters of a kernel do not match the layout of an export; None if they do.

    The text is a clause of an error message. Unless the export describes its parameters, a kernel takes a pointer for
    each binding, and then the constants, words of 32 bits: a parameter of 8 bytes takes two words, a smaller one takes
    one.
    """
    constants, bindings = export.layout.constants, len(export.layout.bindings)
    if export.parameters is not None:
        try:
            described = parameters_of(export.parameters)
        except ValueError as error:
            raise CompileError(f"pydispatch.parameters of export '@{export.name}': {error}", export.location) from None
        return interface.described_mismatch(described, constants, bindings, kernel.parameters, kernel.ptx)
    if kernel.ptx is not None:
        return interface.mismatch(kernel.ptx, constants, bindings)
    return interface.mismatch_of_sizes(kernel.parameters, constants, bindings)


def _stated_block(export: Export, kernel: CudaKernel) -> Threads:
    """Return the block size of a hand-written kernel: that of the export, else the one that the kernel requires. Raises
    CompileError if neither is stated.
    """
    stated = export.workgroup_size if any(export.workgroup_size) else kernel.required
    if stated is None:
        raise CompileError(
            f"export '@{export.name}' has no workgroup_size, and '{kernel.name}' ({kernel.where}) no .reqntid: "
            "the block size is not known",
            export.location,
            "write attributes {workgroup_size = [64 : index, 1 : index, 1 : index]} after the layout of the export",
        )
    return stated


def _constants(variant: Variant, modules: Sequence[CudaModule]) -> list[str]:
    """Return the names of the executable constants, each of which sets the variables of its name.

    Each must be a variable of 4 or 8 bytes, in constant or global memory, of a PTX module. Raises CompileError
    otherwise, unless there is a cubin.
    """
    if any(module.kind == "cubin" for module in modules):  # its variables are looked up when it is loaded
        return list(variant.constants)
    all_variables = [v for module in modules if module.ptx is not None for v in module.ptx.variables]
    for key in variant.constants:
        variables = [v for v in all_variables if v.name == key and v.space in ("const", "global")]
        if not variables:
            names = [v.name for v in all_variables]
            raise CompileError(
                f"executable constant '{key}' is no variable of the objects of executable '@{variant.executable}'",
                variant.location,
                f'declare it: extern "C" __constant__ int {key}; variables: {", ".join(names) or "none"}',
            )
        for variable in variables:
            if variable.size not in (4, 8):
                raise CompileError(
                    f"executable constant '{key}' is a variable of {variable.size} bytes, expected 4 or 8",
                    variant.location,
                )
    return list(variant.constants)


def _warnings(variant: Variant, modules: Sequence[CudaModule], linked: LinkedKernels | None) -> list[str]:
    """Return warnings of the linker, and about user's objects for another architecture than the target states, or in a
    newer version of PTX than is known.
    """
    warnings = [] if linked is None else list(linked.warnings)
    declared = dict(variant.target.config).get("target")
    for module in modules:
        if module.file is None:  # a generated module
            continue
        if declared is not None and module.target != declared:
            warnings.append(
                f"object '{module.name}' of executable '@{variant.executable}' is for {module.target}, its target "
                f"declares {declared}: devices are chosen by {module.target}"
            )
        if module.ptx is not None and module.ptx.version > NEWEST:
            version = ".".join(map(str, module.ptx.version))
            warnings.append(
                f"object '{module.name}' is PTX {version}, newer than what this pydispatch knows: it may not run"
            )
    return warnings


def _format_block(block: Sequence[int]) -> str:
    """Format a block size, such as 16x8x1."""
    return "x".join(map(str, block))


def _with_noun(count: int, what: str) -> str:
    """Format a count with its noun, such as "1 binding" or "2 bindings"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
