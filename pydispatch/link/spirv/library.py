"""SPIR-V modules as libraries of functions: their exports by name.

A function is offered by its Linkage decoration. No common compiler writes one: in a module without any, every function
with a name (OpName) is offered, but those of entry points; GLSL's `f(f1;u1;` answers to `f` too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.spirv.instruction import SpirvFunction
from pydispatch.formats.spirv.names import Op, Storage, capability_name
from pydispatch.formats.spirv.parts import SpirvParts, read_parts

_NOT_FOR_VULKAN = (4, 6, 7, 38, 5347)  # Addresses, Kernel, Vector16, GenericPointer, PhysicalStorageBufferAddresses
"""Numbers of the capabilities of which a library may declare none, because it is then not made for Vulkan."""
_VULKAN_MEMORY = 3
"""Number of the memory model Vulkan in OpMemoryModel."""
_SCALARS = {(Op.TYPE_INT, 0): "uint", (Op.TYPE_INT, 1): "int", (Op.TYPE_FLOAT, 0): "float"}
"""(opcode of a 32-bit number type, 1 if it is signed) → its name in GLSL."""
_VECTORS = {"float": "vec", "int": "ivec", "uint": "uvec", "bool": "bvec", "double": "dvec"}
"""GLSL type of an element → prefix of vectors of it: `vec4` of float."""
EXPORT = 0
"""Linkage type of a definition that other modules may use."""


@dataclass
class SpirvLibrary:
    """SPIR-V module of functions that kernels link against.

    Attributes:
        name: Name of the module for messages.
        parts: The parsed module.
        functions: Ids of the exported functions by name; a name has several because GLSL allows overloads.
    """

    name: str
    parts: SpirvParts
    functions: dict[str, list[int]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the exported names for messages, without the mangled forms of plain names."""
        return [name for name in self.functions if "(" not in name]


def open_library(data: bytes | bytearray | memoryview, name: str) -> SpirvLibrary:
    """Read a SPIR-V module as a library.

    Args:
        data: The module.
        name: Name of the module for messages.

    Raises:
        ArtifactError: The module is broken.
        InvalidArgumentError: The module exports no function or is not made for Vulkan with the GLSL450 memory
            model.
    """
    parts = read_parts(data, name)
    _require_kernels_model(parts, name)
    library = SpirvLibrary(name, parts)
    for offered, id in _offered_functions(parts):
        library.functions.setdefault(offered, []).append(id)
    if not library.functions:
        raise InvalidArgumentError(
            f"{name} offers no function: none has a Linkage decoration, or a name besides the entry points; "
            "glslangValidator -V -g --keep-uncalled keeps functions and their names"
        )
    return library


def _require_kernels_model(parts: SpirvParts, name: str) -> None:
    """Raise InvalidArgumentError for a module that cannot be linked into kernels, which it names `name`.

    Kernels are made for Vulkan, and have logical addressing and the memory model GLSL450.
    """
    unsupported = [capability_name(c) for c in parts.tables.capabilities if c in _NOT_FOR_VULKAN]
    if parts.addressing or unsupported:
        raise InvalidArgumentError(
            f"{name} is not made for Vulkan ({', '.join(unsupported) or f'addressing model {parts.addressing}'}); "
            "compile its functions from GLSL or HLSL, with logical addressing"
        )
    if parts.memory == _VULKAN_MEMORY:
        raise InvalidArgumentError(
            f"{name} has the Vulkan memory model, kernels have GLSL450; "
            "compile it without GL_KHR_memory_scope_semantics"
        )


def _offered_functions(parts: SpirvParts) -> Iterator[tuple[str, int]]:
    """Yield the functions that kernels may call: pairs (name, id).

    A library that exports functions offers these. Without exports, it offers each function with a name, except for
    entry points: by the mangled name `f(f1;u1;` of GLSL, and by the plain name `f`.
    """
    exports = {id: text for id, (text, kind) in parts.tables.linkage.items() if kind == EXPORT}
    entries = {entry.function for entry in parts.tables.entry_points}
    for id, function in parts.functions.items():
        if not function.body:
            continue
        if exports:
            if id in exports:
                yield exports[id], id
        elif id not in entries:
            mangled = parts.tables.names.get(id, "")  # "" without a name
            plain = mangled.partition("(")[0]
            for name in dict.fromkeys((mangled, plain)):  # once if both are equal
                if name:
                    yield name, id


def type_text(parts: SpirvParts, type_: int, depth: int = 0) -> str:
    """Return the type with id `type_` in GLSL syntax for messages; "?" for one that GLSL cannot express.

    depth: number of types that contain this one; a deeply nested type is not shown whole.
    """
    inst = parts.globals.get(type_)
    if inst is None or depth > 8:
        return "?"
    words = inst.words  # 0: word count and opcode, 1: result id, from 2: operands
    if inst.op == Op.TYPE_VOID:
        return "void"
    if inst.op == Op.TYPE_BOOL:
        return "bool"
    if inst.op in (Op.TYPE_INT, Op.TYPE_FLOAT):
        width = words[2]
        is_signed = words[3] if inst.op == Op.TYPE_INT else 0
        name = _SCALARS.get((Op(inst.op), is_signed), "?")
        if width == 32:
            return name
        return "double" if inst.op == Op.TYPE_FLOAT and width == 64 else f"{name}{width}_t"
    if inst.op == Op.TYPE_VECTOR:
        element, count = type_text(parts, words[2], depth + 1), words[3]
        return f"{_VECTORS[element]}{count}" if element in _VECTORS else f"{element}[{count}]"
    if inst.op in (Op.TYPE_ARRAY, Op.TYPE_RUNTIME_ARRAY):
        return f"{type_text(parts, words[2], depth + 1)}[]"
    if inst.op == Op.TYPE_POINTER:
        storage, pointee = words[2], type_text(parts, words[3], depth + 1)
        # GLSL passes a parameter by value as a pointer to a variable of the calling function.
        return pointee if storage == Storage.FUNCTION else f"buffer {pointee}"
    if inst.op == Op.TYPE_STRUCT:
        first_members = words[2:6]  # enough for a message
        return "{" + ", ".join(type_text(parts, member, depth + 1) for member in first_members) + "}"
    return f"type {inst.op}"


def signature_text(parts: SpirvParts, function: SpirvFunction, name: str) -> str:
    """Return the prototype of a function in GLSL syntax for messages."""
    parameters = ", ".join(type_text(parts, p.type_id) for p in function.parameters)
    return f"{type_text(parts, function.head.type_id)} {name}({parameters})"


def reached(parts: SpirvParts, root: int) -> list[int]:
    """Return the ids of the function `root` and of its transitive callees, callees first.

    Raises:
        ArtifactError: A function is recursive, or a called function has no body.
    """
    done: dict[int, None] = {}  # functions whose callees precede them here
    active: set[int] = set()  # functions on the current call path
    stack = [(root, False)]  # depth-first search: (function, whether its callees are done)
    while stack:
        id, has_callees_done = stack.pop()
        if has_callees_done:
            active.remove(id)
            done[id] = None
            continue
        if id in active or id in done:
            continue
        active.add(id)
        stack.append((id, True))
        function = parts.functions[id]
        name = parts.tables.names.get(id, f"id {id}")
        if not function.body:
            raise ArtifactError(f"{parts.tables.what}: function '{name}' is called and has no body")
        for inst in function.body:
            if inst.op != Op.FUNCTION_CALL:
                continue
            callee = inst.words[3]
            if callee in active:
                raise parts.tables.fail(inst.at, f"function '{name}' calls itself, which shaders cannot")
            if callee not in done:
                stack.append((callee, False))
    return list(done)
