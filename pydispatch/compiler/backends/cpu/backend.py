"""The CPU target: a variant becomes an embedded ELF that implements library ABI 0.6.

Bitcode and C sources are linked into the generated module before it is optimised, so that their functions are inlined
and vectorised. Other objects are linked afterwards. The device library defines the functions that compilers call
implicitly, such as memcpy.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydispatch.compiler import devlib
from pydispatch.compiler.backends.cpu.clock import Clock
from pydispatch.compiler.backends.cpu.units import Linked, UnitContext, Units
from pydispatch.compiler.emit.llvm.cpu.library import QUERY_SYMBOL
from pydispatch.compiler.emit.llvm.cpu.platform import MAX_BINDINGS, MAX_CONSTANTS
from pydispatch.compiler.kernel_ir.kernel import Binary, Export, ObjectFile, Variant
from pydispatch.compiler.target.backend import Dump, located_errors
from pydispatch.compiler.target.cpu import Machine, machine_of
from pydispatch.compiler.target.cpu_features import check_features
from pydispatch.compiler.toolchain import objects, tools
from pydispatch.compiler.toolchain.llvm import bitcode_symbols
from pydispatch.errors import CompileError
from pydispatch.formats.elf.library import read_tables

BITCODE = (".bc",)
"""Suffixes of the users' objects that are LLVM bitcode."""
SOURCES = (".c",)
"""Suffixes of the users' objects that are compiled to bitcode first."""
LINKED = (".o", ".obj", ".a", ".lib")
"""Suffixes of the users' objects that are machine code, for the linker."""
LIBRARIES = (".so",)
"""Suffixes of the users' objects that are linked libraries: one has all kernels of a variant, and is used unchanged."""


def compile_variant(variant: Variant, *, dump: Dump | None = None) -> Binary:
    """Compile and link one variant; thread-safe. Raises CompileError.

    dump: called with each intermediate as (suffix, content): `.ll`, `.optimized.ll`, `.s`, `.o`, `.so`.
    `Binary.notes["seconds"]` holds the time of each phase.
    """
    with located_errors(variant):
        return _compile(variant, dump)


def _compile(variant: Variant, dump: Dump | None) -> Binary:
    """Compile a variant for a CPU; `dump` receives intermediate files. The caller adds missing locations to errors."""
    machine = machine_of(variant.target)
    check_features(machine.arch, (feature for feature in variant.target.features if feature[0] == "+"))
    _check_kinds(variant)
    _check_exports(variant)
    if variant.module is None and not variant.objects:  # "dynamic": code is supplied when the program is loaded
        return Binary(b"", ".so", machine.requires, variant.alignment, notes={"dynamic": True})
    has_one_object_only = variant.module is None and len(variant.objects) == 1
    if has_one_object_only and variant.objects[0].suffix in LIBRARIES:
        return _prebuilt_library(variant, machine)
    clock = Clock()

    # The user's objects: machine code is linked last; bitcode is linked into each generated module.
    with clock("check"):
        checked = [objects.check_object(file, machine.arch) for file in variant.objects if file.suffix in LINKED]
    with clock("bitcode"):  # (name, bitcode, whether its CPU features are checked, as it was not compiled here)
        modules = [(file.name, _bitcode(file, machine), file.suffix in BITCODE) for file in variant.objects
                   if file.suffix in BITCODE + SOURCES]  # fmt: skip

    # The generated objects. The symbols of the user's objects are read only if needed.
    units = Units(variant, machine)
    emitted = units.emit(lambda: _provided(checked, modules))
    context = UnitContext(machine=machine, user_bitcode=modules, user_objects=checked, clock=clock, dump=dump)
    codes = context.compile(emitted)

    with clock("link"):
        elf = _link(codes, variant, checked, machine)
    _check_linked(elf, variant, checked, machine, dump)
    has_user_code_only = variant.module is None
    notes: dict[str, object] = {"seconds": clock.seconds, "cpu": machine.cpu, "features": machine.llvm_features}
    if not has_user_code_only:
        notes["machine_model"] = str(machine.model)
    notes["imports"] = [signature.to_json() for signature in units.signatures]
    return Binary(
        data=elf,
        suffix=".so",
        requires=machine.requires,
        alignment=variant.alignment if has_user_code_only else units.alignment,
        imports=units.imports,
        notes=notes,
    )


def _check_linked(
    elf: bytes, variant: Variant, checked: Sequence[objects.Checked], machine: Machine, dump: Dump | None
) -> None:
    """Check the linked library of a variant, and dump it. Raise CompileError if it cannot be loaded.

    checked: the symbols of the user's objects that are linked.
    """
    objects.check_constructors(elf, checked)
    if dump is not None:
        dump(".so", elf)
    objects.check_library(elf, machine.arch, QUERY_SYMBOL)
    if variant.module is None:  # the tables are the user's, too
        _check_tables(variant, elf)


def _provided(checked: Sequence[objects.Checked], modules: Sequence[Linked]) -> frozenset[str]:
    """Return the symbols that the user's objects of the variant define.

    Args:
        checked: Objects with machine code.
        modules: Objects in bitcode; the second field of each is the bitcode.
    """
    own = (file.defined for file in checked)
    return frozenset[str]().union(*own, *(bitcode_symbols(data) for _, data, _ in modules))


def _bitcode(file: ObjectFile, machine: Machine) -> bytes:
    """Return an object as bitcode: checked if it is bitcode already, compiled from C otherwise."""
    if file.suffix in BITCODE:
        objects.check_bitcode(file)
        return file.data
    import pydispatch

    try:
        return tools.find().compile_c(
            file.data, arch=machine.arch, cpu=machine.cpu, features=machine.features, emit="bc",
            include_dirs=[*file.include_path, pydispatch.get_include()], defines=file.defines,
        )  # fmt: skip
    except tools.ToolchainError as error:
        shown = error.stderr.replace("<stdin>", file.name).strip()
        raise CompileError(
            f"{file.name} does not compile for {machine.arch}" + (f":\n{shown}" if shown else f": {error.message}"),
            file.location,
        ) from error


def _link(codes: Sequence[bytes], variant: Variant, checked: list[objects.Checked], machine: Machine) -> bytes:
    """Link the generated code, the user's objects and the device library to a shared object. Raises CompileError for
    undefined symbols.

    Args:
        codes: Relocatable objects of the generated code.
        variant: The variant, with the user's objects.
        checked: The symbols of those user's objects that are linked.
        machine: The CPU to link for.
    """
    user_files = [file for file in variant.objects if file.suffix in LINKED]
    inputs = [*codes, *(file.data for file in user_files)]
    labels = [f"object{index}.o" for index in range(len(codes))] + [file.name for file in user_files]  # for messages
    missing = objects.undefined_symbols(codes).union(*(checked_file.undefined for checked_file in checked))
    missing -= {symbol for checked_file in checked for symbol in checked_file.defined}
    # Without undefined symbols the device library, which is compiled on first use, is not needed.
    archives = devlib.objects(machine.arch, machine.cpu, machine.features) if missing else []
    try:
        return tools.find().link_shared(
            inputs, arch=machine.arch, exports=[QUERY_SYMBOL], archives=archives, labels=labels
        )
    except tools.UndefinedSymbolsError as error:
        names = ", ".join(f"'{symbol}' (used by {where})" for symbol, where in error.undefined)
        raise CompileError(
            f"executable '{variant.executable}' leaves symbols undefined: {names}",
            variant.location,
            "add an object that defines them, or drop hal.import.static so that they are resolved at load",
        ) from error
    except tools.ToolchainError as error:
        raise CompileError(f"executable '{variant.executable}' does not link: {error}", variant.location) from error


def _prebuilt_library(variant: Variant, machine: Machine) -> Binary:
    """Return a library that the user linked as the binary of a variant, unchanged, after checking it."""
    (file,) = variant.objects
    objects.check_library(file.data, machine.arch, QUERY_SYMBOL, file)
    _check_tables(variant, file.data)
    return Binary(file.data, ".so", machine.requires, variant.alignment)


def _check_tables(variant: Variant, elf: bytes) -> None:
    """Check that the tables of a prebuilt library match the declared exports; raise CompileError otherwise.

    Tables that cannot be read here are checked when the library is loaded.
    """
    library = read_tables(elf)
    if library is None:
        return
    names = [export.name for export in library.exports]
    for export in variant.exports:
        _check_ordinal(export, library.name, names)
    # By now, export i of the variant is export i of the library, which may have more.
    for export, compiled in zip(variant.exports, library.exports, strict=False):
        _check_count(export, library.name, "constants", export.layout.constants, compiled.constants)
        _check_count(export, library.name, "bindings", len(export.layout.bindings), compiled.bindings)


def _check_ordinal(export: Export, library: str, names: Sequence[str]) -> None:
    """Raise CompileError unless an export has the ordinal that it is declared with among the exports of a library."""
    declared = f"export '{export.name}' (ordinal {export.ordinal})"
    # Ordinal in the library. An export whose name the library lacks is identified by its declared ordinal.
    actual = names.index(export.name) if export.name in names else export.ordinal
    if actual >= len(names):
        raise CompileError(
            f"{declared} is not in the library '{library}', which has {len(names)}: {', '.join(names)}",
            export.location,
        )
    if actual != export.ordinal:
        there = names[export.ordinal] if export.ordinal < len(names) else "nothing"
        raise CompileError(
            f"{declared} has ordinal {actual} in the library '{library}', where {export.ordinal} is '{there}'",
            export.location,
            f"declare it with ordinal({actual})",
        )


def _check_count(export: Export, library: str, kind: str, declared: int, compiled: int) -> None:
    """Raise CompileError unless the layout of an export declares as many constants or bindings as its library takes."""
    if declared != compiled:
        raise CompileError(
            f"export '{export.name}' (ordinal {export.ordinal}) has {declared} {kind} in its layout, "
            f"the library '{library}' takes {compiled}",
            export.location,
            "the layout counts 32-bit constants; a 64-bit one is two",
        )


def _check_exports(variant: Variant) -> None:
    """Raise CompileError for exports out of order, and for layouts beyond the limits of the ABI."""
    for ordinal, export in enumerate(variant.exports):
        layout = export.layout
        if export.ordinal != ordinal:
            raise CompileError(
                f"export '{export.name}' has ordinal {export.ordinal}, expected {ordinal}", export.location
            )
        if layout.constants > MAX_CONSTANTS or len(layout.bindings) > MAX_BINDINGS:
            raise CompileError(
                f"export '{export.name}' takes {layout.constants} constants and {len(layout.bindings)} bindings, "
                f"the limits are {MAX_CONSTANTS} and {MAX_BINDINGS}",
                export.location,
                "put constants into a buffer, and join buffers",
            )


def _check_kinds(variant: Variant) -> None:
    """Raise CompileError for unsupported kinds of objects, and for a library beside other code."""
    for file in variant.objects:
        if file.suffix not in (*BITCODE, *SOURCES, *LINKED, *LIBRARIES):
            raise CompileError(
                f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot be linked into an embedded ELF",
                file.location,
                f"known kinds: {', '.join((*BITCODE, *SOURCES, *LINKED, *LIBRARIES))}",
            )
        if file.suffix in LIBRARIES and (variant.module is not None or len(variant.objects) > 1):
            raise CompileError(
                f"object '{file.name}' is a whole library and cannot be combined with other code",
                file.location,
                "give the objects it was linked from (.o, .a, .bc or .c), or make it the only object of its variant",
            )
