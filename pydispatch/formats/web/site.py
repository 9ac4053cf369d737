"""An artifact → the files of a site: the program as JSON, its shaders and constants, and the module that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.files import write
from pydispatch.formats.artifact.artifact import PROGRAM, Artifact, VariantEntry
from pydispatch.formats.artifact.strict import count, listed, table, text
from pydispatch.formats.web.functions import WebProgram
from pydispatch.formats.wgsl import access, interface
from pydispatch.formats.wgsl.interface import WgslEntryPoint, entry_of
from pydispatch.formats.wgsl.merge import Merged, with_merged_buffers
from pydispatch.formats.wgsl.module import Declaration, WgslModule
from pydispatch.formats.wgsl.overrides import overrides_of
from pydispatch.formats.wgsl.read import read

FORMAT = "webgpu-wgsl-fb"
"""Format of the variants that a page can run; others are skipped."""
_BUFFERS = "maxStorageBuffersPerShaderStage"
"""WebGPU's name of the limit of storage buffers per shader."""
_MAX_STORAGE_BUFFERS = interface.GUARANTEED_LIMITS[_BUFFERS]
"""Number of storage buffers that an entry point may have in every browser."""
_MAX_EXECUTABLE_CONSTANTS = 1 << 16
"""Number of executable constants (32-bit words set at load) that a page may set. Constant N sets the WGSL override with
the attribute `@id(N)`."""
VERSION = 1
"""Version of program.json, which pydispatch.js checks."""


def files(artifact: Artifact, where: str) -> dict[str, bytes]:
    """Return the contents of the site for a program, by relative path.

    Args:
        artifact: The program.
        where: Prefix of error messages.

    Raises:
        InvalidArgumentError: A page cannot run the program.
        ArtifactError: The artifact is broken.
    """
    try:
        return _files(artifact)
    except (ArtifactError, InvalidArgumentError) as error:
        raise type(error)(f"{where}: {error}") from None


def save(artifact: Artifact, folder: Path, where: str) -> list[str]:
    """Write the site of a program into a folder, which is created; return the relative paths of its files.

    Nothing is written if the program is rejected; error messages then begin with `where`. Raises as `files`.
    """
    contents = files(artifact, where)
    for name, data in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write("the output", path, data)
    return list(contents)


def _files(artifact: Artifact) -> dict[str, bytes]:
    """Return the contents of the site by relative path.

    The paths of a program with one executable, one variant and constants are

        program.json          functions, exports, executables and constants, for pydispatch.js
        pydispatch.js         module that loads program.json and runs it
        shaders/0-0-0.wgsl    numbers of the executable, the variant and the module
        constants/0.bin       member of the artifact that constants are ranges of

    Error messages do not name the artifact; `files` adds its name.
    """
    artifact.verify()
    program = WebProgram(bytes(artifact.read(PROGRAM)))
    contents: dict[str, bytes] = {"pydispatch.js": Path(__file__).with_name("pydispatch.js").read_bytes()}
    executables = []
    entries = zip(artifact.executables, program.executables(), strict=True)
    for ordinal, (entry, (constants_function, conditions)) in enumerate(entries):
        variants = _variants(artifact, ordinal, entry, conditions, contents)
        executables.append({"name": entry.name, "constants": constants_function, "variants": variants})
    functions = program.functions()
    constants = program.constants()
    # Constants: each member is one file, whose path replaces the member's name. Derived constants have no file.
    members: dict[str, int] = {}  # member of the artifact with constants → number of its file
    for constant in constants:
        if "member" in constant:
            member = constant.pop("member")
            name = f"constants/{members.setdefault(member, len(members))}.bin"
            constant["file"] = name
            contents[name] = bytes(artifact.read(member))
    content = {
        "version": VERSION, "functions": functions, "constants": constants, "queries": program.queries(),
        "executables": executables,
        "exports": program.exports(),
    }  # fmt: skip
    return {"program.json": _json(content), **contents}


def _variants(
    artifact: Artifact, ordinal: int, entry: Any, conditions: list[int | None], contents: dict[str, bytes]
) -> list[dict[str, Any]]:
    """Return the WebGPU variants of an executable as JSON, and add their shaders to `contents`.

    Args:
        artifact: The program.
        ordinal: Index of the executable.
        entry: Its entry in the artifact.
        conditions: For each variant, the index of the program's function that returns whether the variant supports the
            device; None for no such function.
        contents: Files of the site by path, to which the shaders are added.

    Raises:
        InvalidArgumentError: There is no such variant, or one takes code or functions from the program that loads it.
    """
    variants = []
    for index, (variant, condition) in enumerate(zip(entry.variants, conditions, strict=True)):
        if variant.format != FORMAT:
            continue
        _check_complete(entry.name, variant)
        prefix = f"shaders/{ordinal}-{index}"
        modules, kernels = _add_kernels(artifact, entry.name, variant, prefix, contents)
        requires = list(variant.requires)
        variants.append(
            {"index": index, "condition": condition, "requires": requires, "modules": modules, "kernels": kernels}
        )
    if not variants:
        raise InvalidArgumentError(
            f"executable '{entry.name}' has no variant for WebGPU; compile the program with --target webgpu"
        )
    return variants


def _check_complete(name: str, variant: VariantEntry) -> None:
    """Raise InvalidArgumentError if a variant of the executable `name` takes code or functions from the program that
    loads it."""
    if variant.extra.get("dynamic"):
        raise InvalidArgumentError(f"executable '{name}' is given at run time; a page has none to give")
    if variant.imports:
        functions = ", ".join(f"'{function}'" for function in variant.imports)
        raise InvalidArgumentError(
            f"executable '{name}' imports {functions} at load; a page has no plugins: link the functions when the "
            "program is compiled"
        )


def _add_kernels(
    artifact: Artifact, name: str, variant: VariantEntry, prefix: str, contents: dict[str, bytes]
) -> tuple[list[str], list[dict[str, Any]]]:
    """Add the shader modules of a variant to `contents`; return their paths, and the metadata of each export.

    A kernel with more storage buffers than every browser supports gets a module of its own, in which they are merged.
    Its path follows those of the compiled modules. For one compiled module and one such kernel, the paths are
    `shaders/0-0-0.wgsl` and `shaders/0-0-1.wgsl`, and the kernel's metadata has "module": 1 among its other keys.

    Args:
        artifact: The program.
        name: Name of the executable, for messages.
        variant: The variant; its member holds all modules, one after the other.
        prefix: Beginning of the paths of its modules.
        contents: Files of the site by path.
    """
    # The compiled modules.
    code = bytes(artifact.read(variant.member))
    notes = _read_shader_notes(variant, code, name)
    paths = [f"{prefix}-{i}.wgsl" for i in range(len(notes.ranges))]
    contents |= {path: code[start : start + size] for path, (start, size) in zip(paths, notes.ranges, strict=True)}
    # The kernels, one for each export. `index`: the module that the page loads for it, compiled or merged.
    kernels = []
    for index, function_name, function in notes.kernels:
        if function is None:
            raise ArtifactError(f"executable '{name}': there is no entry point '{function_name}'")
        module = notes.modules[index]
        entry = entry_of(module, function)
        has_too_many = _binding_count(entry) > _MAX_STORAGE_BUFFERS
        merged = with_merged_buffers(module, function, _MAX_STORAGE_BUFFERS) if has_too_many else None
        if merged is not None:
            index = len(paths)
            paths.append(f"{prefix}-{index}.wgsl")
            contents[paths[index]] = merged.text.encode()
        kernels.append(_kernel(module, function, entry, index, merged, notes.overrides))
    return paths, kernels


class _ShaderNotes(NamedTuple):
    """Shader modules of a variant, and its kernels in the order of the exports.

    Attributes:
        ranges: (offset, size) of each module in the variant's member, in bytes.
        modules: The modules.
        kernels: (index of the module, name of the entry point, its declaration or None if there is none).
        overrides: Names of the executable constants, 32-bit words that are set when the program is loaded.
    """

    ranges: list[tuple[int, int]]
    modules: list[WgslModule]
    kernels: list[tuple[int, str, Declaration | None]]
    overrides: list[str]


def _read_shader_notes(variant: VariantEntry, code: bytes, name: str) -> _ShaderNotes:
    """Read the key "wgsl" of a variant and the modules in its member; raise ArtifactError if it is broken.

    The key has the offset and size in bytes of each module in the member, the index of the module and the entry point
    of each export, and the name of each executable constant:

        {"modules": [[0, 120], [120, 96]], "entries": [[0, "mul"], [1, "sum"]], "overrides": ["tile"]}

    Args:
        variant: The variant.
        code: Content of its member.
        name: Name of the executable, for messages.
    """
    try:
        notes = table(variant.extra["wgsl"])
        # `listed`, `count` and `text` raise ValueError for values of other types: lists, integers, strings.
        range_pairs = [listed(pair, count=2) for pair in listed(notes["modules"])]
        ranges = [(count(start), count(size)) for start, size in range_pairs]
        entry_pairs = [listed(pair, count=2) for pair in listed(notes["entries"])]
        entries = [(count(module_index), text(entry)) for module_index, entry in entry_pairs]
        overrides = [text(override) for override in listed(notes.get("overrides", []))]
        modules = [read(code[start : start + size], f"executable '{name}'") for start, size in ranges]
        kernels = [(module_index, entry, modules[module_index].entry(entry)) for module_index, entry in entries]
    except (KeyError, ValueError, IndexError) as error:
        raise ArtifactError(f"executable '{name}': the key \"wgsl\" of its variant: {error}") from None
    return _ShaderNotes(ranges, modules, kernels, overrides)


def _kernel(
    module: WgslModule, function: Declaration, entry: WgslEntryPoint, index: int, merged: Merged | None,
    overrides: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Return the metadata of a kernel for pydispatch.js.

    A kernel with three buffers, which writes the last one, and one override has

        {"module": 0, "entry": "mul", "declared": ["read", "read", "read_write"], "written": [False, False, True],
         "hasConstants": True, "limits": {}, "overrides": [{"key": "tile", "type": "i32", "word": 0}]}

    "declared" and "written" are about its original bindings. "limits" has those that exceed the limits of every
    browser. If its first two buffers are merged, "merged" is {"bindings": ((0, 1), (2,)), "bytes": (4, 4)}: the
    original bindings in each new one, and the size of its elements.

    Args:
        module: The module as it was compiled.
        function: The kernel in it.
        entry: Resources of the kernel.
        index: Index of the module that the page loads for the kernel.
        merged: The module that the page loads, if it is a rewritten one in which several storage buffers are one; None
            if the page loads the compiled module.
        overrides: Name of the override that takes each word of the executable constants, in order of the words.
    """
    bindings = range(_binding_count(entry))
    written_bindings = access.written(module, function)  # some that are declared read_write are only read
    # A merged kernel has at most as many buffers as every browser supports, so that "limits" does not have them.
    buffer_count = len(entry.bindings) if merged is None else _MAX_STORAGE_BUFFERS
    limits = {**interface.limits(entry), _BUFFERS: buffer_count}
    kernel = {
        "module": index,
        "entry": entry.name,
        "declared": ["read_write" if entry.bindings.get(i) else "read" for i in bindings],
        "written": [i in written_bindings for i in bindings],
        "hasConstants": entry.constant_bytes != 0,
        "limits": {limit: value for limit, value in limits.items() if value > interface.GUARANTEED_LIMITS[limit]},
        "overrides": [
            {"key": override.key, "type": override.type, "word": override.word_index}
            for override in overrides_of(module, overrides, _MAX_EXECUTABLE_CONSTANTS)
        ],
    }
    if merged is not None:
        kernel["merged"] = {"bindings": merged.bindings, "bytes": merged.bytes}
    return kernel


def _binding_count(entry: WgslEntryPoint) -> int:
    """Return the number of bindings that a dispatch of a kernel has at least."""
    return max(entry.bindings, default=-1) + 1


def _json(content: dict[str, Any]) -> bytes:
    """Format JSON with one line per instruction and record, so that people can read it."""

    def lines(value: Any, depth: int) -> str:
        """Return a value as JSON: on one line if that has at most 110 characters, else with an element per line.

        depth: number of arrays and objects around the value; its elements are indented by `depth` + 1 spaces.
        """
        # A container that is too long for a line: its items, each again on one line if possible.
        flat = json.dumps(value, ensure_ascii=False)
        if len(flat) <= 110 or not isinstance(value, (dict, list)) or not value:
            return flat
        if isinstance(value, dict):
            opening, closing = "{", "}"
            parts = [f"{json.dumps(key)}: {lines(item, depth + 1)}" for key, item in value.items()]
        else:
            opening, closing = "[", "]"
            parts = [lines(item, depth + 1) for item in value]
        indented = ",\n".join(" " * (depth + 1) + part for part in parts)
        return f"{opening}\n{indented}\n{' ' * depth}{closing}"

    return (lines(content, 0) + "\n").encode()
