"""Generated shaders that call functions of the user: WGSL objects are linked now, other symbols at load.

An executable with kernels in kernel IR takes its objects as libraries of functions, see docs/webgpu.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, IndexType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.backends.functions import Language, check_static, imports_at_load
from pydispatch.compiler.backends.webgpu.objects import preprocessed
from pydispatch.compiler.kernel_ir.calls import is_declaration
from pydispatch.compiler.kernel_ir.kernel import ObjectFile, Variant
from pydispatch.compiler.kernel_ir.types import bit_width, storage_bits
from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.link.wgsl.link import WgslLibrary, link, open_library


@dataclass(frozen=True)
class GeneratedWgsl:
    """Generated WGSL module of a variant, before libraries are linked with it.

    Attributes:
        text: The module.
        imports: Symbols to resolve at load, with '?' before optional ones.
        calls: Descriptions of the imports for the manifest, with their prototypes.
    """

    text: str
    imports: tuple[str, ...]
    calls: list[dict[str, object]]


def libraries_of(objects: Sequence[ObjectFile]) -> list[WgslLibrary]:
    """Return WGSL objects as libraries of functions. Raises CompileError for a wrong kind or content."""
    libraries: list[WgslLibrary] = []
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


def with_functions(text: str, module: ModuleOp, libraries: Sequence[WgslLibrary], variant: Variant) -> GeneratedWgsl:
    """Link a generated module with the functions of the libraries. Raises CompileError.

    Args:
        text: The generated WGSL.
        module: The kernel IR that it was generated from.
        libraries: The user's objects.
        variant: The variant.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    if not any(is_declaration(function) for function in functions.values()):
        return GeneratedWgsl(text, (), calls=[])
    try:
        # When compiling, no import is known to be missing (`absent`): unresolved ones stay, for loading.
        linked = link(text.encode(), libraries, absent=(), where=f"executable '@{variant.executable}'")
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), variant.location) from None
    known = [name for library in libraries for name in library.names()]
    files = [library.name for library in libraries]
    check_static(linked.unresolved, functions, LANGUAGE, known=known, files=files)
    return GeneratedWgsl(linked.data.decode(), *imports_at_load(linked.unresolved, functions, variant, LANGUAGE))


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
    """Return the WGSL type that a scalar is passed as.

    64-bit integers and f64 are a `vec2u`, low word first; floats narrower than f32 are their bits in an `i32`.
    """
    if isinstance(type_, Float32Type):
        return "f32"
    if isinstance(type_, IndexType):
        return "i32"
    width = bit_width(type_)
    if width == 1:
        return "bool"
    return "i32" if width <= 32 else "vec2u"


def _element(type_: Attribute) -> str:
    """Return the WGSL type of the elements of a buffer: elements below 32 bits share words, which are written
    atomically.
    """
    if isinstance(type_, Float32Type):
        return "f32"
    return {64: "vec2u", 32: "i32"}.get(storage_bits(type_), "atomic<u32>")


LANGUAGE = Language(name="WebGPU", key="wgsl", prototype=prototype, remedy="wanted is {prototype}; add a .wgsl with it")
"""Form in which messages and the manifest show functions of WebGPU to users."""
