"""Generated shaders with functions of the user: objects in WGSL are linked in, the rest is left for loading.

An executable that has kernels in kernel IR takes its objects as libraries of functions. docs/webgpu.md says how to
write one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, IndexType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.backends.webgpu.objects import preprocessed
from pydispatch.compiler.emit.llvm.cpu.imports import bare_symbol, imports_of, reached_imports
from pydispatch.compiler.kernel_ir.calls import import_symbol, is_declaration, is_import
from pydispatch.compiler.kernel_ir.kernel import ObjectFile, Variant
from pydispatch.compiler.kernel_ir.types import bit_width, is_float, storage_bits
from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.ir.core.locations import location_of
from pydispatch.link.wgsl.link import Library, link, open_library


@dataclass(frozen=True)
class GeneratedWgsl:
    """text: of the module. imports: symbols to resolve at load, with '?' before optional ones; calls: the same for
    people, as the manifest has it."""

    text: str
    imports: tuple[str, ...]
    calls: list[dict[str, object]]


def libraries_of(objects: Sequence[ObjectFile]) -> list[Library]:
    """Open objects as libraries of functions. Raises CompileError."""
    libraries: list[Library] = []
    for file in objects:
        if file.suffix != ".wgsl":
            raise CompileError(
                f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot be used for WebGPU",
                file.location, "known kinds: .wgsl",
            )  # fmt: skip
        try:
            libraries.append(open_library(preprocessed(file), file.name))
        except (ArtifactError, InvalidArgumentError) as error:
            raise CompileError(str(error), file.location) from None
    return libraries


def with_functions(text: str, module: ModuleOp, libraries: Sequence[Library], variant: Variant) -> GeneratedWgsl:
    """Link a generated module with the functions that the objects have. Raises CompileError."""
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    if not any(is_declaration(function) for function in functions.values()):
        return GeneratedWgsl(text, (), [])
    try:
        linked = link(text.encode(), libraries, (), f"executable '@{variant.executable}'")
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), variant.location) from None
    _check_static(linked.unresolved, functions, libraries)
    names = [export.name for export in variant.exports]
    wanted = [entry for entry in imports_of(functions, names) if entry.symbol in linked.unresolved]
    calls: list[dict[str, object]] = [
        {
            "symbol": entry.symbol,
            "optional": entry.optional,
            "exports": [n for n in names if entry.symbol in map(bare_symbol, reached_imports(functions, n))],
            "wgsl": prototypes(entry.symbol, functions),
        }
        for entry in wanted
    ]
    return GeneratedWgsl(linked.data.decode(), tuple(str(entry) for entry in wanted), calls)


def _check_static(unresolved: Sequence[str], functions: Mapping[str, FuncOp], libraries: Sequence[Library]) -> None:
    """CompileError for a function that must be linked now and is in no object."""
    for function in functions.values():
        name = import_symbol(function)
        if is_declaration(function) and not is_import(function) and name in unresolved:
            near = difflib.get_close_matches(name, [known for library in libraries for known in library.names()], 1)
            asked = ", ".join(library.name for library in libraries) or "there are no objects"
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise CompileError(
                f"function '{name}' is declared as hal.import.static, and no object for WebGPU defines it",
                location_of(function),
                f"{hint}asked: {asked}; wanted is {prototype(name, function)}; "
                "add a .wgsl with it to the objects, or drop hal.import.static to resolve it when loading",
            )


def prototypes(symbol: str, functions: Mapping[str, FuncOp]) -> list[str]:
    """Return the prototypes by which kernels call a symbol, in WGSL."""
    declarations = [f for f in functions.values() if is_import(f) and bare_symbol(f) == symbol]
    return list(dict.fromkeys(prototype(symbol, f) for f in declarations))


def prototype(symbol: str, function: FuncOp) -> str:
    """Return a prototype in WGSL, such as `fn scale(offset0: u32, a1: i32)  // binding 0: array<f32>`."""
    parameters: list[str] = []
    buffers: list[str] = []
    for index, type_ in enumerate(function.function_type.inputs.data):
        if isinstance(type_, MemRefType):
            parameters.append(f"offset{len(buffers)}: u32")
            buffers.append(f"binding {len(buffers)}: array<{_element(type_.element_type)}>")
        else:
            parameters.append(f"a{index}: {_wgsl(type_)}")
    outputs = function.function_type.outputs.data
    result = f" -> {_wgsl(outputs[0])}" if outputs else ""
    return f"fn {symbol}({', '.join(parameters)}){result}" + (f"  // {', '.join(buffers)}" if buffers else "")


def _wgsl(type_: Attribute) -> str:
    """Return the WGSL type that a scalar is passed as: 64 bits as two words, small floats as their bits."""
    if isinstance(type_, Float32Type):
        return "f32"
    if isinstance(type_, IndexType):
        return "i32"
    width = 32 if is_float(type_) and bit_width(type_) < 32 else bit_width(type_)
    return "bool" if width == 1 else "i32" if width <= 32 else "vec2u"


def _element(type_: Attribute) -> str:
    """Return the WGSL type of the elements of a buffer: small elements share words."""
    if isinstance(type_, Float32Type):
        return "f32"
    return {64: "vec2u", 32: "i32"}.get(storage_bits(type_), "atomic<u32>")
