"""Generated CUDA kernels that call functions of the user: objects are linked now, other symbols when the program is
loaded.

LLVM inlines bitcode and C. PTX, and CUDA C++ compiled to PTX, is merged as text, so that the result is PTX. Machine
code and LTO-IR are linked by NVIDIA's linker, whose result is machine code.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from pydispatch.compiler.backends.cuda import bitcode as cuda_bitcode
from pydispatch.compiler.backends.cuda import tools
from pydispatch.compiler.backends.cuda.link import link_machine_code
from pydispatch.compiler.backends.cuda.objects import with_kind
from pydispatch.compiler.backends.functions import Language, check_static, imports_at_load
from pydispatch.compiler.kernel_ir.calls import bare_symbol, is_declaration, is_set, reachable
from pydispatch.compiler.kernel_ir.fallbacks import resolve_fallbacks
from pydispatch.compiler.kernel_ir.kernel import Export, ObjectFile, Variant
from pydispatch.compiler.kernel_ir.types import bit_width, is_float
from pydispatch.compiler.target.backend import Dump
from pydispatch.compiler.toolchain.llvm import bitcode_symbols
from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.formats.elf import cubin
from pydispatch.ir.core.locations import location_of
from pydispatch.link.ptx import link
from pydispatch.link.ptx.link import LinkedPtx, PtxLibrary

BITCODE, C, CU, PTX = ".bc", ".c", ".cu", ".ptx"
MACHINE = {".cubin": "CUBIN", ".o": "OBJECT", ".obj": "OBJECT", ".a": "LIBRARY", ".fatbin": "FATBIN", ".ltoir": "LTOIR"}
"""Suffixes of objects for NVIDIA's linker, and its name of each kind."""
KINDS = (BITCODE, C, CU, PTX, *MACHINE)
"""Suffixes of objects that define functions for generated kernels."""


@dataclass(frozen=True)
class LinkedKernels:
    """Generated kernels, linked with their objects.

    Attributes:
        data: The kernels in the format `kind`.
        kind: "ptx", or "cubin" for machine code.
        imports: Symbols to resolve at load, with '?' before optional ones.
        calls: Descriptions of the imports for the manifest, with their prototypes.
        blocks: Export → threads of a block along x, y and z.
        shared: Export → bytes of dynamic workgroup memory.
        alignment: Alignment in bytes that the kernels require of bindings.
        warnings: Warnings of the linkers.
    """

    data: bytes
    kind: str
    imports: tuple[str, ...] = ()
    calls: list[dict[str, object]] = field(default_factory=list)
    blocks: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    alignment: int = 16
    warnings: tuple[str, ...] = ()


@dataclass
class Inputs:
    """Objects of a variant with functions that its generated kernels call, by how they are linked.

    `read_objects` creates it.

    Attributes:
        bitcode: (name, bitcode) of objects that LLVM links and inlines.
        libraries: PTX objects that pydispatch links as text.
        machine: (object with machine code or LTO-IR, its kind as nvJitLink names it) of objects that nvJitLink links.
        serial: Names of C functions that do not read thread ids: they may be written for a CPU, where one call computes
            a whole workgroup. A workgroup of a kernel that calls one on buffers gets a single thread by default.
    """

    bitcode: list[tuple[str, bytes]] = field(default_factory=list)
    libraries: list[PtxLibrary] = field(default_factory=list)
    machine: list[tuple[ObjectFile, str]] = field(default_factory=list)
    serial: set[str] = field(default_factory=set)

    def names(self) -> list[str]:
        """Return the functions that the inputs define, as far as known: those of LTO-IR and fat binaries are not."""
        names = [name for _, data in self.bitcode for name in bitcode_symbols(data)]
        names += [name for library in self.libraries for name in library.names()]
        return names + [name for file, _ in self.machine for name in _functions_of(file)]

    def files(self) -> list[str]:
        """Return the names of the objects."""
        return [
            *(name for name, _ in self.bitcode), *(library.name for library in self.libraries),
            *(file.name for file, _ in self.machine),
        ]  # fmt: skip


def generate(variant: Variant, arch: str, dump: Dump | None = None) -> LinkedKernels:
    """Generate the kernels of a variant for an architecture, and link them with its objects.

    The result is PTX whose undefined functions are imports, resolved when the program is loaded. With an object of
    machine code or LTO-IR it is a complete cubin.

    Args:
        variant: The variant.
        arch: Architecture, such as "sm_80".
        dump: Receives (suffix, LLVM IR); None for no dump.

    Raises:
        CompileError: A kernel cannot be compiled, or an object cannot be read or linked.
    """
    kernels = variant.module
    assert kernels is not None
    _check_names(kernels)
    inputs = read_objects(variant.objects, arch)
    provided = frozenset(inputs.names())
    exports = tuple(_with_one_thread_if_serial(export, kernels, inputs) for export in variant.exports)
    variant = replace(variant, exports=exports)
    compiled = _compiled(variant, arch, inputs.bitcode, provided, dump)

    # Link the PTX with that of the objects.
    ptx = compiled.data.decode()
    module = resolve_fallbacks(kernels, lambda: provided)  # calls of a missing function are calls of its fallback
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    # Without libraries and declared functions there is nothing to link: the result is the generated PTX.
    linked = LinkedPtx(ptx, providers={}, unresolved=(), target=arch)
    if inputs.libraries or any(is_declaration(function) for function in functions.values()):
        linked = _with_libraries(ptx, inputs.libraries, variant)
    if inputs.machine:  # the result is machine code; NVIDIA's linker itself reports undefined symbols
        return replace(compiled, data=link_machine_code(linked.data, inputs.machine, arch), kind="cubin")

    # Check that objects, or imports at load, define every function that the PTX calls.
    unresolved = linked.unresolved
    check_static(unresolved, functions, LANGUAGE, known=inputs.names(), files=inputs.files())
    imports, calls = imports_at_load(unresolved, functions, variant, LANGUAGE)
    _require_all_resolved(unresolved, imports, variant, inputs)
    if inputs.libraries:
        _check_by_ptxas(linked, variant, inputs)
    warnings = tuple(
        f"object '{name}' is for a newer architecture than {arch}: executable '@{variant.executable}' now needs "
        f"{linked.target}"
        for name in linked.raised  # the objects because of which the linked PTX has a newer target
    )
    return replace(compiled, data=linked.data.encode(), imports=imports, calls=calls, warnings=warnings)


def _compiled(
    variant: Variant, arch: str, bitcode: Sequence[tuple[str, bytes]], provided: Collection[str], dump: Dump | None
) -> LinkedKernels:
    """Return the kernels of a variant as PTX that is not linked yet; LLVM inlines the functions of `bitcode`.

    `provided` are the symbols that the objects of the variant define.
    """
    from pydispatch.compiler.backends.cuda import llvm

    generated = llvm.generate(variant, arch, bitcode, provided, dump)
    if dump is not None and generated.llvm:
        dump(".ll", generated.llvm)
    return LinkedKernels(
        data=generated.ptx.encode(),
        kind="ptx",
        blocks=generated.blocks,
        shared=generated.shared,
        alignment=generated.alignment,
    )


def _check_by_ptxas(linked: LinkedPtx, variant: Variant, inputs: Inputs) -> None:
    """Raise CompileError if ptxas, where it is installed, refuses PTX that is linked with objects of the user."""
    where = f"executable '@{variant.executable}'"
    problem = tools.assemble_problem(linked.data.encode(), where, linked.target, is_open=bool(linked.unresolved))
    if problem:
        raise CompileError(f"{where} with {', '.join(inputs.files())} is not valid PTX:\n{problem}", variant.location)


def _with_libraries(ptx: str, libraries: Sequence[PtxLibrary], variant: Variant) -> LinkedPtx:
    """Link generated PTX with the objects' PTX. Raises CompileError, also for a symbol that two objects define."""
    where = f"executable '@{variant.executable}'"
    try:
        return link.link(ptx, libraries, optional=(), where=where, unique=True)
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), variant.location) from None


def _check_names(module: ModuleOp) -> None:
    """Raise CompileError for a declared function whose name is not a PTX identifier."""
    for function in module.body.block.ops:
        if isinstance(function, FuncOp) and is_declaration(function):
            name = bare_symbol(function)
            if not re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", name):
                raise CompileError(
                    f"function '{name}' has a name that PTX cannot have",
                    location_of(function),
                    "use letters, digits, _ and $, and no digit in front; hal.import.name gives another symbol",
                )


def read_objects(objects: Sequence[ObjectFile], arch: str) -> Inputs:
    """Read the objects as bitcode, PTX libraries, or inputs of NVIDIA's linker; sources are compiled. Raises
    CompileError.
    """
    inputs = Inputs()
    for file in map(with_kind, objects):
        kind = file.suffix
        if kind == BITCODE:
            inputs.bitcode.append((file.name, cuda_bitcode.of_bitcode(file, arch)))
        elif kind == C:
            data = cuda_bitcode.of_c(file, arch)
            inputs.bitcode.append((file.name, data))
            # C may be written for a CPU, where one call computes a whole workgroup; CUDA C++ never is.
            inputs.serial |= cuda_bitcode.serial_functions(data)
        elif kind == CU and not tools.has_cuda_compiler():  # then clang compiles it, which emits bitcode
            inputs.bitcode.append((file.name, cuda_bitcode.of_cu(file, arch)))
        elif kind in (CU, PTX):
            data = tools.compile_cu(file, arch, relocatable=True) if kind == CU else file.data
            inputs.libraries.append(_library(data, file))
        elif kind in MACHINE:  # NVIDIA's linker has a name for each kind: ".cubin" is "CUBIN"
            inputs.machine.append((file, MACHINE[kind]))
        else:
            raise CompileError(
                f"object '{file.name}' of kind '{kind or 'unknown'}' cannot be used for CUDA",
                file.location,
                f"known kinds of functions: {', '.join(KINDS)}",
            )
    return inputs


def _with_one_thread_if_serial(export: Export, module: ModuleOp, inputs: Inputs) -> Export:
    """Return the export with a workgroup of one thread if it states no workgroup size and calls a serial function over
    buffers: C that was written for a CPU, where one call computes a whole workgroup. Return other exports unchanged.
    """
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    kernel = functions.get(export.name)
    # pyd.invocations is the number of invocations of a workgroup, which lowering has chosen.
    if any(export.workgroup_size) or kernel is None or "pyd.invocations" in kernel.attributes:
        return export
    reached = [functions[name] for name in reachable(functions, export.name) if name in functions]
    serial = [f for f in reached if is_declaration(f) and bare_symbol(f) in inputs.serial]
    takes_buffers = any(isinstance(type_, MemRefType) for f in serial for type_ in f.function_type.inputs.data)
    return replace(export, workgroup_size=(1, 1, 1)) if takes_buffers else export


def _library(data: bytes, file: ObjectFile) -> PtxLibrary:
    """Return PTX as a library of functions; raise CompileError, at the object `file`, if it is malformed."""
    try:
        return link.open_library(data, file.name)
    except (ArtifactError, InvalidArgumentError) as error:
        raise CompileError(str(error), file.location) from None


def _functions_of(file: ObjectFile) -> list[str]:
    """Return the device functions of a cubin; none for other files."""
    if not cubin.is_cubin(file.data):
        return []
    try:
        return cubin.functions(file.data, file.name)
    except ArtifactError as error:
        raise CompileError(str(error), file.location) from None


def _require_all_resolved(unresolved: Sequence[str], imports: Sequence[str], variant: Variant, inputs: Inputs) -> None:
    """Raise CompileError for an undefined symbol that the program does not import.

    Args:
        unresolved: Symbols that are still undefined after linking.
        imports: Symbols to resolve at load; `?name` marks an optional one.
        variant: The variant.
        inputs: Its objects, for the message.
    """
    missing = [name for name in unresolved if name not in imports and f"?{name}" not in imports]
    if missing:
        raise CompileError(
            f"the objects of executable '@{variant.executable}' refer to {', '.join(map(repr, missing))}, "
            "which nothing defines",
            variant.location,
            f"searched: {', '.join(inputs.files())}; add an object that defines it",
        )


def prototype(symbol: str, function: FuncOp) -> str:
    """Return the CUDA C++ prototype of a function. Each memref is passed as two pointers, an offset, sizes and strides:
    `extern "C" __device__ float f(float* a0, float* a0_aligned, size_t a0_offset, size_t a0_size0, ..., int)`. A scalar
    parameter has no name. With the attribute `llvm.bareptr`, a memref is one pointer to its elements.
    """
    bare = is_set(function, "llvm.bareptr")
    parameters: list[str] = []
    for index, type_ in enumerate(function.function_type.inputs.data):
        if not isinstance(type_, MemRefType):
            parameters.append(_cuda(type_))
            continue
        element = _cuda(type_.element_type)
        if bare:
            parameters.append(f"{element}* a{index}")
            continue
        rank = len(type_.get_shape())
        parameters += [f"{element}* a{index}", f"{element}* a{index}_aligned", f"size_t a{index}_offset"]
        parameters += [f"size_t a{index}_size{i}" for i in range(rank)]
        parameters += [f"size_t a{index}_stride{i}" for i in range(rank)]
    outputs = function.function_type.outputs.data
    result = _cuda(outputs[0]) if outputs else "void"
    return f'extern "C" __device__ {result} {symbol}({", ".join(parameters)})'


def _cuda(type_: Attribute) -> str:
    """Return the name of a scalar type in CUDA C++. Floats of 16 or 8 bits are passed as unsigned integers of their
    bits.
    """
    if isinstance(type_, IndexType):
        return "size_t"
    width = bit_width(type_)
    if is_float(type_):
        return {32: "float", 64: "double", 16: "unsigned short"}.get(width, "unsigned char")
    return {1: "bool", 8: "signed char", 16: "short", 32: "int"}.get(width, "long long")


LANGUAGE = Language(name="CUDA", key="cuda", prototype=prototype, remedy="add a .ptx, .bc, .cu or .c with {prototype}")
"""Form in which messages and the manifest show functions of CUDA to users."""
