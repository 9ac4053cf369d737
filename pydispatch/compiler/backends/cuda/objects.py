"""Objects that contain whole CUDA kernels: PTX, cubins, and CUDA C++ that is compiled here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydispatch.compiler.backends.cuda import tools
from pydispatch.compiler.backends.cuda.target import number_of
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain.bitcode import is_bitcode
from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.formats.elf import cubin
from pydispatch.formats.ptx import interface, read
from pydispatch.formats.ptx.interface import NAMES
from pydispatch.formats.ptx.lex import is_ptx
from pydispatch.link.ptx import link

if TYPE_CHECKING:
    from pydispatch.formats.elf.cubin import Cubin
    from pydispatch.formats.ptx.module import PtxFunction, PtxModule
    from pydispatch.link.ptx.link import PtxLibrary

PTX, CUBIN, SOURCES = ".ptx", ".cubin", (".cu",)
KINDS = (PTX, CUBIN, *SOURCES)
"""Suffixes of objects that may hold whole kernels."""
NEWEST = (9, 5)
"""The newest PTX `.version` that this reader knows."""

UNNAMED = "inline.o"
"""The name of an inline object without a name."""

Threads = tuple[int, int, int]
"""Block size: threads along x, y and z."""


@dataclass(frozen=True)
class CudaKernel:
    """Kernel (entry point) of a PTX or cubin object.

    Attributes:
        name: Name of the entry point.
        where: File and line, for messages.
        parameters: Size of each parameter in bytes.
        required: Block size that the kernel requires (`.reqntid`); None if it states none.
        maximum: Largest block size that the kernel allows (`.maxntid`); None if it states none.
        ptx: The parsed kernel; None in a cubin.
    """

    name: str
    where: str
    parameters: tuple[int, ...]
    required: Threads | None
    maximum: Threads | None
    ptx: PtxFunction | None = None


@dataclass(frozen=True)
class CudaModule:
    """PTX or cubin module of a variant.

    Attributes:
        data: Its bytes as stored in the artifact.
        kind: "ptx" or "cubin".
        name: Its name in messages.
        target: GPU architecture that it is for, such as "sm_80".
        kernels: Its entry points.
        requires: Features that a device must have, such as "sm_80" for PTX or "cubin_sm_80".
        file: The object that it was read from; None for a generated module.
        ptx: The parsed module; None for a cubin.
        unresolved: Functions that it calls and no object defines; they are resolved when the program is loaded.
    """

    data: bytes
    kind: str
    name: str
    target: str
    kernels: tuple[CudaKernel, ...]
    requires: tuple[str, ...]
    file: ObjectFile | None = None
    ptx: PtxModule | None = None
    unresolved: tuple[str, ...] = ()

    def kernel(self, name: str) -> CudaKernel | None:
        """Return the kernel of this name, or None."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)


def open_object(file: ObjectFile, arch: str) -> CudaModule:
    """Open an object as a module; a source is compiled for `arch`. Raises CompileError if it cannot be used."""
    data, name = file.data, file.name
    if file.suffix in SOURCES:
        data, name = tools.compile_cu(file, arch), f"{file.name} (as PTX)"
    elif file.suffix not in (PTX, CUBIN):
        raise CompileError(
            f"object '{file.name}' of kind '{file.suffix or 'unknown'}' cannot hold whole CUDA kernels",
            file.location,
            f"known kinds: {', '.join(KINDS)}; functions for kernels in the program may be "
            ".bc, .ptx, .cu, .c, .o, .cubin, .ltoir or .fatbin",
        )
    try:
        if cubin.is_cubin(data):
            return of_cubin(data, name, file)
        module = of_ptx(data, name, file)
    except ArtifactError as error:
        raise CompileError(str(error), file.location, _remedy(file)) from None
    return module


def open_objects(files: Sequence[ObjectFile], arch: str) -> list[CudaModule]:
    """Open the objects of a variant, and return the modules that contain kernels.

    Functions of other objects that a module calls are linked into it. Objects without kernels only provide functions.
    Raises CompileError for an object that cannot be read or linked, or that has neither kernels nor functions.
    """
    opened = [open_object(with_kind(file), arch) for file in files]
    libraries = [_library(module) for module in opened]
    modules = []
    for module, own_library in zip(opened, libraries, strict=True):
        if module.kernels:
            others = [library for library in libraries if library is not None and library is not own_library]
            modules.append(_linked_and_checked(module, others))
        elif own_library is None:
            location = None if module.file is None else module.file.location
            raise CompileError(f"object '{module.name}' has no kernel", location, 'write extern "C" __global__')
    return modules


def with_kind(file: ObjectFile) -> ObjectFile:
    """Give an unnamed inline object a name with the suffix of its content, such as `inline.cu`; return other objects
    unchanged.
    """
    if file.name != UNNAMED:
        return file
    if cubin.is_cubin(file.data):
        suffix = CUBIN
    elif is_bitcode(file.data):
        suffix = ".bc"
    else:
        suffix = PTX if is_ptx(file.data) else ".cu"
    return replace(file, name=f"inline{suffix}")


def _library(module: CudaModule) -> PtxLibrary | None:
    """Return a module as a library of its PTX functions that other modules can call.

    Return None if it has none, or is a cubin.
    """
    if module.ptx is None or not any(f.body is not None and not f.is_entry for f in module.ptx.functions):
        return None
    try:
        return link.open_library(module.data, module.name)
    except InvalidArgumentError:  # all its functions are hidden, so that no other module can call them
        return None


def _linked_and_checked(module: CudaModule, libraries: Sequence[PtxLibrary]) -> CudaModule:
    """Link the functions of libraries that a module calls into it, check it by ptxas if available, and return it.

    Functions that no library defines stay `.extern`; the module has their names in `unresolved`. A cubin, and a module
    that is not one of the user's files, are returned unchanged. `kernels` still have the lines of the user's file.

    Args:
        module: A module with kernels.
        libraries: The other objects of the variant that define functions.

    Raises:
        CompileError: Two libraries define the same function, one does not fit its declaration, or ptxas refuses the
            result.
    """
    file = module.file
    if module.ptx is None or file is None:
        return module
    if link.imports_of(module.ptx, module.name):
        try:
            # unique: a symbol that two libraries define is an error.
            linked = link.link(module.ptx, libraries, optional=(), where=module.name, unique=True)
            after = of_ptx(linked.data.encode(), module.name, file)  # a newer library raises the target
        except (ArtifactError, InvalidArgumentError) as error:
            raise CompileError(str(error), file.location) from None
        lines = {kernel.name: kernel.where for kernel in module.kernels}
        kernels = tuple(replace(kernel, where=lines[kernel.name]) for kernel in after.kernels)
        module = replace(after, kernels=kernels, unresolved=linked.unresolved)
    problem = tools.assemble_problem(module.data, module.name, module.target, is_open=bool(module.unresolved))
    if problem:
        raise CompileError(f"object '{module.name}' is not valid PTX:\n{problem}", file.location, _remedy(file))
    return module


def _remedy(file: ObjectFile) -> str:
    """Return the command that compiles an object again, for messages."""
    if file.suffix == CUBIN:
        return "compile it again: nvcc -cubin -arch=sm_80 kernels.cu"
    return "compile it again: nvcc -ptx -arch=sm_80 kernels.cu -o kernels.ptx"


def of_ptx(data: bytes, name: str, file: ObjectFile | None = None) -> CudaModule:
    """Parse a PTX text as a module.

    Raises ArtifactError for a malformed text, an unknown `.target`, or a `.version` that is too old for the `.target`.
    A newer `.target` than the known ones is accepted.
    """
    ptx = read.read(data, name)
    if problem := interface.target_problem(ptx):
        raise ArtifactError(f"{name}: {problem}")
    kernels = tuple(
        CudaKernel(
            name=entry.name,
            where=f"{name}:{entry.line}",
            parameters=tuple(interface.parameter_sizes(entry)),
            required=_threads(entry, "reqntid"),
            maximum=_threads(entry, "maxntid"),
            ptx=entry,
        )
        for entry in ptx.entries
    )
    return CudaModule(
        data=data,
        kind="ptx",
        name=name,
        target=ptx.target,
        kernels=kernels,
        requires=tuple(interface.requirements(ptx.target)),
        file=file,
        ptx=ptx,
    )


def _threads(entry: PtxFunction, name: str) -> Threads | None:
    """Return the block size that the directive `name` ("reqntid" or "maxntid") of an entry states; None if it is
    absent.

    A directive may state fewer than three sizes; the others are 1.
    """
    sizes = entry.directives.get(name)
    if not sizes:
        return None
    x, y, z = (*sizes, 1, 1)[:3]
    return (x, y, z)


def of_cubin(data: bytes, name: str, file: ObjectFile | None = None) -> CudaModule:
    """Parse machine code as a module. Raises ArtifactError for a malformed or relocatable file."""
    facts: Cubin = cubin.read(data, name)
    if facts.relocatable:
        raise ArtifactError(f"{name} is a relocatable cubin, which has to be linked: leave out -rdc=true and -dc")
    if facts.target not in NAMES:
        raise ArtifactError(f"{name} is for {facts.target}, which this pydispatch does not know")
    kernels = tuple(
        CudaKernel(e.name, where=name, parameters=e.parameters, required=e.required, maximum=e.maximum)
        for e in facts.entries
    )
    return CudaModule(
        data=data,
        kind="cubin",
        name=name,
        target=facts.target,
        kernels=kernels,
        requires=cubin_requirements(facts.architecture),
        file=file,
    )


def cubin_requirements(arch_number: int) -> tuple[str, ...]:
    """Return the features that a device must have for machine code of an architecture.

    For 86 these are each `sm_X` up to sm_86, then cubin_sm_80 and cubin_sm_86. A device of the same major version and
    of at least the minor version has all of them: it has `cubin_X` for each X of its major version up to its own.
    """
    names = tuple(interface.requirements(f"sm_{arch_number}"))
    older = [name for name in NAMES if name_major(name) == arch_number // 10 and number_of(name) <= arch_number]
    return (*names, *(f"cubin_{name}" for name in older))


def name_major(name: str) -> int:
    """Return the major version of an architecture name: 8 for sm_86, 12 for sm_120."""
    return number_of(name) // 10
