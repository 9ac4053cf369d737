"""`hal.executable.variant` -> `kernel.Variant`, with its objects read from disk."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from pydispatch import files
from pydispatch._core.artifact import MAX_ALIGNMENT
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout, ObjectFile, Target, Variant
from pydispatch.compiler.kernel_ir.words import words_of
from pydispatch.compiler.target.backend import architecture, config_string
from pydispatch.errors import CompileError, CompileWarning, SystemError_
from pydispatch.ir.core.dense import whole_bytes
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.dialects.hal.flops import flops_of
from pydispatch.ir.dialects.hal.parameters import described_parameters
from pydispatch.logs import caller_level


def exports_of(variant: hal.ExecutableVariantOp) -> list[hal.ExecutableExportOp]:
    """Return the exports of a variant, in the order of the program; `ordinals_of` returns their ordinals."""
    return [op for op in variant.body.block.ops if isinstance(op, hal.ExecutableExportOp)]


def variants_of(executable: hal.ExecutableOp) -> list[hal.ExecutableVariantOp]:
    """Return the variants of an executable, in the order of the program."""
    return [op for op in executable.body.block.ops if isinstance(op, hal.ExecutableVariantOp)]


USERS_ALIGNMENT = 64
"""Alignment in bytes that hand-written kernels may assume of their bindings, unless their export states another."""


def users_alignment(variant: hal.ExecutableVariantOp) -> int:
    """Return the alignment in bytes of the bindings of a variant whose kernels are all in objects.

    It is the largest that an export states in `pydispatch.alignment`; one that states none counts as USERS_ALIGNMENT.
    Raises CompileError for a number that is no power of two up to MAX_ALIGNMENT.
    """
    alignment = 1
    for export in exports_of(variant):
        stated = export.attributes.get("pydispatch.alignment")
        if stated is None:
            alignment = max(alignment, USERS_ALIGNMENT)
            continue
        value = stated.value.data if isinstance(stated, IntegerAttr) else 0
        is_power_of_2 = value & (value - 1) == 0
        if not 0 < value <= MAX_ALIGNMENT or not is_power_of_2:
            raise CompileError(
                f"pydispatch.alignment = {stated} of export '@{export.sym_name.data}'", location_of(export),
                f"expected a power of two up to {MAX_ALIGNMENT}, the bytes that its bindings are aligned to, such as "
                "4 : index",
            )  # fmt: skip
        alignment = max(alignment, value)
    return alignment


def layout_of(export: hal.ExecutableExportOp) -> Layout:
    """Return the layout that an export declares."""
    bindings = (
        Binding(read_only=any(flag.data == "ReadOnly" for flag in binding.flags.data))
        for binding in export.layout.bindings.data
    )
    return Layout(constants=export.layout.constants.data, bindings=tuple(bindings))


def ordinals_of(variant: hal.ExecutableVariantOp) -> dict[str, int]:
    """Return name of an export → its ordinal: the stated one, or its position.

    Raises CompileError unless the ordinals are 0, 1, 2, ... in any order.
    """
    exports = exports_of(variant)
    ordinals = [e.ordinal.value.data if e.ordinal is not None else i for i, e in enumerate(exports)]
    seen: set[int] = set()
    for export, ordinal in zip(exports, ordinals, strict=True):
        if ordinal in seen:
            raise CompileError(
                f"ordinal {ordinal} is used twice in variant '@{variant.sym_name.data}'", location_of(export)
            )
        if not 0 <= ordinal < len(exports):
            raise CompileError(
                f"ordinal {ordinal} of export '@{export.sym_name.data}' leaves a gap",
                location_of(export),
                f"the {len(exports)} exports of a variant are numbered 0 to {len(exports) - 1}",
            )
        seen.add(ordinal)
    return {e.sym_name.data: o for e, o in zip(exports, ordinals, strict=True)}


class Folders(NamedTuple):
    """Folders that are searched for object files.

    Attributes:
        source: The folders of the program and its specs.
        search: The folders that the user named, in order.
    """

    source: Sequence[str]
    search: Sequence[str]


def build_variant(executable: hal.ExecutableOp, op: hal.ExecutableVariantOp, folders: Folders) -> Variant:
    """Return a variant as a backend compiles it: exports, kernels and loaded objects.

    Raises CompileError for an object that cannot be found, and for an export that is not valid.

    Args:
        executable: The executable.
        op: The variant.
        folders: Folders that are searched for objects.
    """
    ordinals = ordinals_of(op)
    exports = [_export(e, ordinals[e.sym_name.data]) for e in exports_of(op)]
    # The kernels, at most one module; a variant without one has its kernels in objects.
    modules = [m for m in op.body.block.ops if isinstance(m, ModuleOp)]
    for module in modules:
        check_interface(module, exports)
    objects = op.objects.data if op.objects is not None else ()
    return Variant(
        executable=executable.sym_name.data,
        name=op.sym_name.data,
        target=target_of(op.target),
        exports=tuple(sorted(exports, key=lambda e: e.ordinal)),
        module=modules[0] if modules else None,
        objects=tuple(_object(cast(hal.ExecutableObjectAttr, o), op, folders) for o in objects),
        constants=constant_words(op),
        alignment=users_alignment(op),
        location=location_of(op),
    )


def _export(op: hal.ExecutableExportOp, ordinal: int) -> Export:
    """Return an export as a backend compiles it. Raises CompileError if it is not valid."""
    return Export(
        name=op.sym_name.data,
        ordinal=ordinal,
        layout=layout_of(op),
        workgroup_size=workgroup_size(op),
        local_memory=op.workgroup_local_memory.value.data if op.workgroup_local_memory is not None else 0,
        location=location_of(op),
        flops=_stated(op, flops_of),
        parameters=_stated(op, described_parameters),
    )


def _stated(
    export: hal.ExecutableExportOp, read: Callable[[hal.ExecutableExportOp], list[Any] | None]
) -> list[Any] | None:
    """Return `read(export)`, the value that it parses from an attribute; raise CompileError if that is malformed."""
    try:
        return read(export)
    except VerifyException as error:
        raise CompileError(f"export '@{export.sym_name.data}': {error}", location_of(export)) from None


def check_interface(module: ModuleOp, exports: Sequence[Export]) -> None:
    """Raise CompileError if a kernel reads a constant or binding that the layout of its export does not have.

    Functions that are no exports may be called by any of them, so they are checked against the largest layout.
    """
    layouts = {export.name: export.layout for export in exports}
    for function in module.body.block.ops:
        if not isinstance(function, func.FuncOp):
            continue
        layout = layouts.get(function.sym_name.data)
        if layout is not None:
            limits = {"constant": layout.constants, "binding": len(layout.bindings)}
            where = f"the layout of '@{function.sym_name.data}'"
        else:
            limits = {
                "constant": max((e.layout.constants for e in exports), default=0),
                "binding": max((len(e.layout.bindings) for e in exports), default=0),
            }
            where = "the layouts of the exports"
        for op in walk(function):
            noun, required = _requirement(op)
            if noun and required > limits[noun]:
                raise CompileError(
                    f"{noun} {required - 1} is read, but {where} has {limits[noun]}",
                    location_of(op),
                    f"raise `{noun}s` of the layout, or number from 0",
                )


def _requirement(op: Operation) -> tuple[str, int]:
    """Return "constant" or "binding" and the number of them that an operation requires; "" if it requires none."""
    if isinstance(op, hal.InterfaceConstantLoadOp):
        type = op.result.type
        # An index is one word in hand-written kernels and two in generated ones. Counting one is enough, since the
        # layout of a generated kernel is computed along with its loads.
        words = 1 if isinstance(type, IndexType) else words_of(type, location_of(op))
        return "constant", op.ordinal.value.data + words
    if isinstance(op, hal.InterfaceBindingSubspanOp):
        return "binding", op.binding.value.data + 1
    return "", 0


def constant_blocks(op: hal.ExecutableVariantOp) -> list[hal.ExecutableConstantBlockOp]:
    """Return the blocks of a variant that compute executable constants at load time."""
    return [b for b in op.body.block.ops if isinstance(b, hal.ExecutableConstantBlockOp)]


def constant_words(op: hal.ExecutableVariantOp) -> tuple[str, ...]:
    """Return the name (key) of each 32-bit word of the executable constants, in order.

    A 64-bit constant has two words, low word first, with the same name; one of type index has one word.
    """
    return tuple(
        key.data
        for block in constant_blocks(op)
        for key, type in zip(block.keys.data, block.function_type.outputs.data, strict=True)
        for _ in range(1 if isinstance(type, IndexType) else words_of(type, location_of(block)))
    )


def target_of(attribute: hal.ExecutableTargetAttr) -> Target:
    """Return a target attribute as a `Target`; entries that are not strings or integers are left out.

    The architecture is the entry "target" of the result, also if the attribute has it under another name.
    """
    config: list[tuple[str, object]] = []
    for key, value in attribute.configuration.data.items():
        if isinstance(value, StringAttr):
            config.append((key, value.data))
        elif isinstance(value, IntegerAttr):
            config.append((key, value.value.data))
    if name := architecture(attribute):
        config = [("target", name), *(pair for pair in config if pair[0] != "target")]
    features = tuple(f for f in config_string(attribute, "cpu_features").split(",") if f)
    cpu = config_string(attribute, "cpu", "generic")
    return Target(attribute.backend.data, attribute.format.data, cpu, features, tuple(config))


def workgroup_size(export: hal.ExecutableExportOp) -> tuple[int, int, int]:
    """Return the workgroup size (x, y, z) that an export declares; (0, 0, 0) if it declares none.

    Raises CompileError unless it is three sizes that are not negative.
    """
    if export.workgroup_size is None:
        return (0, 0, 0)
    values = [cast("IntegerAttr[Any]", v).value.data for v in export.workgroup_size.data]
    if len(values) != 3 or any(v < 0 for v in values):
        raise CompileError(f"workgroup_size {values} is not three sizes", location_of(export))
    return (values[0], values[1], values[2])


def _object(attribute: hal.ExecutableObjectAttr, op: Operation, folders: Folders) -> ObjectFile:
    """Load an object, and return it with its macros and the folders of its includes.

    A macro `NAME` becomes `NAME=1`. Raises CompileError if the object is not found, if it has macros or folders but is
    no source, and for a malformed macro.
    """
    file = load_object(attribute, op, folders)
    defines, include_dirs = attribute.strings("defines"), attribute.strings("include_dirs")
    if not defines and not include_dirs:
        return file
    if file.suffix not in files.SOURCE_SUFFIXES:
        raise CompileError(
            f"object file '{file.name}' has {'defines' if defines else 'include_dirs'}, and is not compiled",
            file.location, f"they are for {', '.join(files.SOURCE_SUFFIXES)}",
        )  # fmt: skip
    for entry in defines:
        if not re.fullmatch(r"[A-Za-z_]\w*(=[^\r\n]*)?", entry, re.ASCII):
            raise CompileError(
                f"object file '{file.name}': {entry!r} of its defines is no macro", file.location,
                "write NAME or NAME=VALUE",
            )  # fmt: skip
    dirs = tuple(_include_dir(entry, file, folders) for entry in include_dirs)
    return replace(file, defines=tuple(entry if "=" in entry else f"{entry}=1" for entry in defines), include_dirs=dirs)


def _include_dir(name: str, file: ObjectFile, folders: Folders) -> Path:
    """Return the first folder `name` next to the program, on the search path, or in the working directory.

    Raises CompileError if there is none. file: the source that includes from the folder, for the message.
    """
    tried = list(dict.fromkeys(Path(folder) / name for folder in (*folders.source, *folders.search, "")))
    is_valid_path = "\0" not in name
    directory = next((path for path in tried if path.is_dir()), None) if is_valid_path else None
    if directory is None:
        raise CompileError(
            f"object file '{file.name}': its folder of includes {name!r} was not found", file.location,
            f"looked at {', '.join(map(str, tried))}",
        )  # fmt: skip
    return directory


def load_object(attribute: hal.ExecutableObjectAttr, op: Operation, folders: Folders) -> ObjectFile:
    """Load an object: its inline bytes, or those of the file with its path.

    A file is searched in the folders of the program and its specs, then on the search path, and last, with a warning,
    in the working directory. Raises CompileError if it is not found, and if it is found with different contents in a
    folder of the program and in another one.
    """
    name = attribute.path or "inline.o"
    if "\0" in name:
        raise CompileError(f"object file {name!r}: a path cannot hold a NUL character", location_of(op))
    if attribute.data is not None:
        return ObjectFile(name, inline_bytes(attribute.data, op), location_of(op))
    # `near`: paths in the folders of the program and its specs; `far`: paths on the search path. An absolute path is
    # only read as it is, below.
    near, far = list[Path](), list[Path]()
    if not Path(name).is_absolute():
        near, far = (list(dict.fromkeys(Path(folder) / name for folder in part)) for part in folders)
    file = _only_file(name, near, far, op)
    if file is not None:
        return file
    here = _read(name, Path(name), op)
    if here is not None:
        if near or far:  # a relative path: another working directory would give another file
            text = (
                f"object file '{name}' is that of the working directory, {Path(name).absolute()}; name its folder with "
                "object_search_path=[...], or put it next to the program"
            )
            warnings.warn(text, CompileWarning, stacklevel=caller_level())
        return here
    tried = dict.fromkeys((*near, *far, Path(name)))
    raise CompileError(
        f"object file '{name}' was not found",
        location_of(op),
        f"looked at {', '.join(str(p) for p in tried)}; name its folder with --iree-hal-executable-object-search-path= "
        "or object_search_path=[...]",
    )


def _only_file(name: str, near: Sequence[Path], far: Sequence[Path], op: Operation) -> ObjectFile | None:
    """Return the file of an object, None if there is none. Raises CompileError if files of its name differ.

    Args:
        name: Path of the object, as the program states it.
        near: Its possible paths in the folders of the program. All files at these paths are compared.
        far: Its possible paths on the search path. The first existing file is compared with those of `near`; it hides
            later ones.
        op: The variant, for messages.
    """
    files = [file for path in near if (file := _read(name, path, op)) is not None]
    first_far = next((file for path in far if (file := _read(name, path, op)) is not None), None)
    if first_far is not None:
        files.append(first_far)
    for other in files[1:]:
        if other.data != files[0].data:
            raise CompileError(
                f"object file '{name}' is ambiguous: {files[0].name} and {other.name} differ",
                location_of(op),
                "rename one of them, or name its folder in the path",
            )
    return files[0] if files else None


def _read(name: str, path: Path, op: Operation) -> ObjectFile | None:
    """Return the object file at a path, None where there is none."""
    if not path.exists() or path.is_dir():
        files.record_accesses(missed=[str(path)])  # the compile cache depends on there being no such file
        return None
    try:
        return ObjectFile(str(path), files.read(path), location_of(op))
    except SystemError_ as error:
        raise CompileError(f"object file '{name}': {error}", location_of(op)) from None


def inline_bytes(data: Attribute, op: Operation) -> bytes:
    """Return the bytes of an inline `data` entry of an object.

    - The bytes of a string are those of the string in MLIR: text in UTF-8, or the bytes that escapes state.
    - The bytes of a dense constant are its elements in little-endian order. Elements have one byte or more.
    - A list has one integer for each byte, whatever its type is.

    Raises CompileError for other attributes.

    Args:
        data: The entry.
        op: The operation with the object, for messages.
    """
    remedy = "write dense<...> : vector<Nxi8>"
    if isinstance(data, StringAttr):
        return data.data.encode()
    if isinstance(data, BytesAttr):
        return bytes(data.data)
    if isinstance(data, DenseIntOrFPElementsAttr):
        type_ = data.get_element_type()
        if isinstance(type_, IntegerType) and type_.width.data % 8:
            raise CompileError(
                f"cannot read object data given as dense elements of type {type_}", location_of(op), remedy
            )
        return whole_bytes(data)
    if isinstance(data, ArrayAttr):
        content = bytearray()
        for element in data.data:
            if not isinstance(element, IntegerAttr) or not -128 <= element.value.data <= 255:
                raise CompileError(f"object data has the element {element}, which is no byte", location_of(op), remedy)
            content.append(element.value.data & 0xFF)
        return bytes(content)
    raise CompileError(f"cannot read object data given as {data.name}", location_of(op), remedy)
