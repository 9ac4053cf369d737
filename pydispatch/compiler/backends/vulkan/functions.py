"""Generated shaders that call functions of the user: SPIR-V or GLSL objects are linked now, other symbols at load.

An executable with kernels in kernel IR takes its objects as libraries of functions, see docs/vulkan-functions.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import Float32Type, Float64Type, IndexType, MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.backends.functions import Language, check_static, imports_at_load
from pydispatch.compiler.backends.vulkan import tools
from pydispatch.compiler.emit.spirv.emitter import emit_module
from pydispatch.compiler.kernel_ir.calls import is_declaration
from pydispatch.compiler.kernel_ir.fallbacks import resolve_fallbacks
from pydispatch.compiler.kernel_ir.kernel import ObjectFile, Variant
from pydispatch.compiler.kernel_ir.types import bit_width, is_float
from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.link.spirv import link
from pydispatch.link.spirv.link import SpirvLibrary

KINDS = (".spv", ".glsl", ".comp")
"""Suffixes of the objects that may define functions for generated shaders: SPIR-V and GLSL."""
_SIZES_BY_CONSTANTS = "layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;"
"""GLSL declaration that makes the workgroup size three specialization constants."""


@dataclass(frozen=True)
class GeneratedSpirv:
    """Generated SPIR-V module of a variant, before libraries are linked with it.

    Attributes:
        data: The module.
        imports: Symbols to resolve at load, with '?' before optional ones.
        calls: Descriptions of the imports for the manifest, with their prototypes.
    """

    data: bytes
    imports: tuple[str, ...]
    calls: list[dict[str, object]]


def generate(variant: Variant) -> GeneratedSpirv:
    """Generate the module of the kernels of a variant, and link it with its objects.

    Functions that the kernels call and no object defines become imports, which are resolved when the program is loaded.

    Raises:
        CompileError: A kernel cannot be compiled, an object is broken or does not fit its calls, or a function that
            must be linked statically is in no object.
    """
    assert variant.module is not None
    libraries = [_library(file) for file in variant.objects]
    provided = {name for library in libraries for name in library.functions}
    # A function may name a fallback, a function of the module that is called if no object defines the function.
    module = resolve_fallbacks(variant.module, lambda: provided)
    # Some devices cut long loops short: kernels with such loops take one more buffer, in which they report it.
    data = emit_module(module, variant.exports, variant.constants, reports_cut_loops=True)
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    if not any(is_declaration(function) for function in functions.values()):
        return GeneratedSpirv(data, (), calls=[])
    try:
        # `absent` has the imports that are known to be missing: none while compiling. Others stay for the load.
        linked = link.link(data, libraries, absent=(), what=f"executable '@{variant.executable}'")
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), variant.location) from None
    known = [name for library in libraries for name in library.names()]
    files = [library.name for library in libraries]
    check_static(linked.unresolved, functions, LANGUAGE, known=known, files=files)
    return GeneratedSpirv(linked.data, *imports_at_load(linked.unresolved, functions, variant, LANGUAGE))


def _library(file: ObjectFile) -> SpirvLibrary:
    """Return an object as a library of functions; GLSL is compiled. Raises CompileError for a wrong kind or content."""
    if file.suffix not in KINDS:
        raise CompileError(
            f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot be used for Vulkan",
            file.location,
            f"known kinds: {', '.join(KINDS)}",
        )
    data = file.data if file.suffix == ".spv" else _compiled(file)
    try:
        return link.open_library(data, file.name)
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), file.location) from None


def _compiled(file: ObjectFile) -> bytes:
    """Compile GLSL functions to SPIR-V, also those that nothing calls. An empty `main` is added if there is none.

    A text that reads gl_WorkGroupSize gets the size of the kernel that it is linked into. Raises CompileError if the
    text has a fixed size of its own.
    """
    text = file.data.decode("utf-8", "replace")
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)  # without comments
    has_size_constants = "local_size_x_id" in plain
    if "gl_WorkGroupSize" in plain and not has_size_constants:
        has_fixed_size = "local_size_" in plain
        if has_fixed_size:
            raise CompileError(
                f"{file.name}: gl_WorkGroupSize of a library is that of the kernel it is linked into, "
                "and its own layout(local_size...) would be compiled in",
                file.location,
                f"leave the layout out, or write {_SIZES_BY_CONSTANTS}",
            )
        text = _with_sizes(text)  # the sizes become specialization constants, which the kernel's module sets
    if not re.search(r"\bvoid\s+main\s*\(", plain):
        text += "\nvoid main() {}\n"
    return tools.compile_functions(replace(file, data=text.encode()))


def _with_sizes(text: str) -> str:
    """Return the text with workgroup sizes set by linking, after its #version line."""
    # Not after lines of #extension: these may be inside of #if, where the sizes would be conditional.
    lines = text.split("\n")
    begin = next((i + 1 for i, line in enumerate(lines) if re.match(r"\s*#\s*version\b", line)), 0)
    # #line states the number, counted from 1, of the line after it in the user's file.
    return "\n".join([*lines[:begin], _SIZES_BY_CONSTANTS, f"#line {begin + 1}", *lines[begin:]])


def prototype(symbol: str, function: FuncOp) -> str:
    """Return a prototype in GLSL, such as `void scale(uint offset0, int)  // binding 0: float[]`."""
    parameters: list[str] = []
    buffers: list[str] = []
    for type_ in function.function_type.inputs.data:
        if isinstance(type_, MemRefType):
            parameters.append(f"uint offset{len(buffers)}")
            buffers.append(f"binding {len(buffers)}: {_glsl(type_.element_type)}[]")
        else:
            parameters.append(_glsl(type_))
    outputs = function.function_type.outputs.data
    result = _glsl(outputs[0]) if outputs else "void"
    return f"{result} {symbol}({', '.join(parameters)})" + (f"  // {', '.join(buffers)}" if buffers else "")


def _glsl(type_: Attribute) -> str:
    """Return a scalar type in GLSL; floats narrower than f32 are passed as their bits in a uint."""
    if isinstance(type_, Float32Type):
        return "float"
    if isinstance(type_, Float64Type):
        return "double"
    if isinstance(type_, IndexType) or is_float(type_):
        return "uint"
    width = bit_width(type_)
    if width == 1:
        return "bool"
    return "int" if width <= 32 else "int64_t"


LANGUAGE = Language(name="Vulkan", key="glsl", prototype=prototype, remedy="add a .spv or .glsl with it")
"""Form in which messages and the manifest show functions of Vulkan to users."""
