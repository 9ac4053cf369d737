"""Generation of PTX by LLVM from kernel IR and the user's bitcode.

The LLVM of llvmlite has assertions enabled and aborts the process on unexpected input. Only intrinsics of a known list
are passed to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from pydispatch.compiler import devlib
from pydispatch.compiler.emit.llvm.emitter import emit_module
from pydispatch.compiler.emit.llvm.module import symbols_of
from pydispatch.compiler.emit.llvm.nvptx.platform import (
    STATIC_SHARED,
    SUBJECTS,
    CudaPlatform,
    binding_alignment,
    entry_symbol,
)
from pydispatch.compiler.kernel_ir.calls import AVAILABLE
from pydispatch.compiler.kernel_ir.fallbacks import resolve_fallbacks
from pydispatch.compiler.kernel_ir.kernel import Export, Variant
from pydispatch.compiler.kernel_ir.simt.distribute import distribute_kernels
from pydispatch.compiler.kernel_ir.simt.inline import copied
from pydispatch.compiler.kernel_ir.simt.workgroup import PARALLEL, Size
from pydispatch.compiler.kernel_ir.simt.workgroup import Machine as Invocations
from pydispatch.compiler.toolchain.llvm import opened
from pydispatch.compiler.worker import llvm_process
from pydispatch.errors import CompileError
from pydispatch.formats.ptx.interface import KNOWN, is_known, shared_limit, split
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.functions import CALLS

INVOCATIONS = Invocations(warp=32, divides_in_words=True, unrolls=True)
"""Properties of the GPU for the distribution of work over the invocations (threads) of a workgroup (block): warps of 32
threads, 32-bit division is faster than 64-bit division, and small loops are unrolled."""
TOGETHER = (*PARALLEL, *CALLS, AVAILABLE)
"""Operations that all invocations of a workgroup execute together, among them calls of external functions. A kernel
with one of them has several invocations if it states no workgroup size; other kernels have one."""

LIBRARY_MACHINE = ("sm_70", ("+ptx60",))
"""Architecture of the device library: the oldest one, since the library is linked into kernels for all of them."""

PTX_VERSIONS = {
    50: 60, 52: 60, 53: 60, 60: 60, 61: 60, 62: 60, 70: 60, 72: 61, 75: 65, 80: 70, 86: 71, 87: 74, 88: 90, 89: 78,
    90: 78, 100: 86, 101: 86, 103: 88, 110: 90, 120: 87, 121: 88,
}  # fmt: skip
"""Architecture → PTX version, such as 80 → 70 for sm_80 and PTX 7.0: the lowest one that supports the architecture,
`shfl.sync` and the instructions of its tensor cores."""


@dataclass(frozen=True)
class NvptxMachine:
    """NVIDIA GPU that LLVM compiles for, with the attributes of `toolchain.machines.LlvmMachine`.

    Attributes:
        cpu: Architecture, such as "sm_80".
        features: LLVM's names of features, such as "+ptx70".
        arch: LLVM's name of the architecture of all NVIDIA GPUs.
        has: Names of the features that emitters query.
        tune: GPU for whose timing code is scheduled; "" for `cpu`.
        vector_width: Preferred width of vectors in bits; 0: a GPU has none.
        triple: Target triple.
    """

    cpu: str
    features: tuple[str, ...]
    arch: str = "nvptx64"
    has: frozenset[str] = frozenset()
    tune: str = ""
    vector_width: int = 0
    triple: str = "nvptx64-nvidia-cuda"

    @property
    def llvm_features(self) -> str:
        """Features as LLVM writes them, separated by commas."""
        return ",".join(self.features)


@dataclass(frozen=True)
class GeneratedPtx:
    """Generated kernels of one variant as PTX, which LLVM has compiled.

    Attributes:
        ptx: The text; external functions are declared `.extern .func`.
        blocks: Export → workgroup size.
        shared: Export → bytes of dynamic workgroup memory; 0 if the memory that the kernel uses is static.
        alignment: Alignment in bytes that the kernels require of bindings.
        llvm: The LLVM IR, for dumps.
    """

    ptx: str
    blocks: dict[str, Size]
    shared: dict[str, int]
    alignment: int = 1
    llvm: str = ""


def machine_of(arch: str) -> NvptxMachine:
    """Return the machine that an architecture names, `sm_80` or `sm_90a`.

    Raises CompileError for one that LLVM lacks.
    """
    if not is_known(arch):
        raise CompileError(f"no code can be generated for '{arch}'", note=KNOWN)
    architecture, suffix = split(arch)
    version = PTX_VERSIONS[architecture]
    if suffix:  # names with the suffix a need PTX 8.0, those with f 8.8
        version = max(version, 80 if suffix == "a" else 88)
    # Emitters query the name of the architecture, since instructions of tensor cores depend on it.
    return NvptxMachine(arch, (f"+ptx{version}",), has=frozenset((arch,)))


def generate(
    variant: Variant, arch: str, bitcode: Sequence[tuple[str, bytes]] = (), provided: Collection[str] = (),
    keep: Callable[[str, str], object] | None = None,
) -> GeneratedPtx:  # fmt: skip
    """Generate the kernels of a variant as PTX for an architecture; deterministic and thread-safe.

    Raises CompileError at the operation that cannot be compiled.

    Args:
        variant: The variant.
        arch: Architecture, such as "sm_80".
        bitcode: (name, LLVM bitcode) whose functions are inlined.
        provided: Symbols that objects define. Calls of another statically linked function become calls of its fallback,
            a function of the module, if it has one.
        keep: Function that stores a text: called with (suffix, LLVM IR) when LLVM aborts, it returns the path of the
            file, for the message; None to store nothing.
    """
    assert variant.module is not None
    machine = machine_of(arch)
    names = [export.name for export in variant.exports]
    module = resolve_fallbacks(variant.module, provided=lambda: frozenset(provided))
    module = copied(module)  # it is compiled for other architectures, too
    # INVOCATIONS describes the GPU. All invocations of a workgroup execute the operations of TOGETHER, such as parallel
    # loops and calls, together.
    kernels = distribute_kernels(module, variant.exports, machine=INVOCATIONS, together=TOGETHER)
    # Workgroup sizes; (1, 1, 1) for an export that has no function in the module.
    sizes = {name: kernels[name].size if name in kernels else (1, 1, 1) for name in names}
    _check_sizes(variant.exports)
    functions = _functions(module.body.block.ops)
    # Kernels with more shared memory than STATIC_SHARED are emitted again, with dynamic shared memory. How much a
    # kernel has is known only when it is emitted; the second emission does not change it, and ends the loop.
    dynamic: frozenset[str] = frozenset()
    while True:
        platform = CudaPlatform(machine.has, variant.exports, sizes, variant.constants, functions, dynamic)
        text = emit_module(symbols_of(module), platform, names, subjects=SUBJECTS)  # the lowerings for CUDA
        large = frozenset(name for name, size in platform.shared.items() if size > STATIC_SHARED)
        if large == dynamic:
            break
        dynamic = large
    _check_shared(platform.shared, machine, variant)
    try:
        # Entries and executable constants stay visible: the runtime finds them by name.
        ptx = _assembly(text, machine, bitcode, {*map(entry_symbol, names), *variant.constants})
    except llvm_process.Died as died:  # LLVM, which runs in a process of its own, has aborted
        path = None if keep is None else keep(".ll", text)
        raise died.error_for(variant, arch, path) from None
    shared = {name: platform.shared[name] if name in dynamic else 0 for name in names}
    alignment = max((binding_alignment(functions[name]) for name in names), default=1)
    return GeneratedPtx(ptx=ptx, blocks=sizes, shared=shared, alignment=alignment, llvm=text)


def _functions(ops: object) -> dict[str, FuncOp]:
    """Return the functions among the operations of a module, by name."""
    return {op.sym_name.data: op for op in ops if isinstance(op, FuncOp)}  # type: ignore[attr-defined]


def _check_sizes(exports: Sequence[Export]) -> None:
    """Raise CompileError for a workgroup of more than 1024 invocations."""
    for export in exports:
        x, y, z = (max(1, n) for n in export.workgroup_size)  # 0: not stated
        if x * y * z > 1024:
            raise CompileError(
                f"export '{export.name}' has workgroups of {x}x{y}x{z} invocations, the limit is 1024", export.location
            )


def _check_shared(shared: Mapping[str, int], machine: NvptxMachine, variant: Variant) -> None:
    """Raise CompileError for an export with more workgroup memory than the architecture has.

    shared: export → bytes of workgroup memory, static or dynamic.
    """
    arch_number, _ = split(machine.cpu)  # 90 and "a" of sm_90a
    limit = shared_limit(arch_number)
    for export in variant.exports:
        if shared[export.name] > limit:
            assert variant.module is not None
            function = _functions(variant.module.body.block.ops).get(export.name)
            raise CompileError(
                f"export '{export.name}' has {shared[export.name]} bytes of workgroup memory, "
                f"the limit on {machine.cpu} is {limit}",
                location_of(function) if function is not None else export.location,
                "use smaller tiles, or a binding for what is large",
            )


def _assembly(text: str, machine: NvptxMachine, bitcode: Sequence[tuple[str, bytes]], keep: Collection[str]) -> str:
    """Compile LLVM IR to PTX, with bitcode and the device library inlined. keep: the symbols that stay visible."""
    with opened(text, machine) as module:
        for name, data in bitcode:
            module.link(name, data)
        if wanted := module.undefined() & devlib.inlinable_symbols():
            module.link("device library", devlib.bitcode(machine.arch, *LIBRARY_MACHINE, wanted))
        module.internalize(keep)
        module.optimize()
        return _tidied(module.assembly())


_CALL_NUMBER = re.compile(r"// callseq [0-9, ]+$")
"""Comment at the end of a line of PTX by which LLVM numbers calls."""


def _tidied(ptx: str) -> str:
    """Return PTX without comments and empty lines.

    LLVM numbers the calls in comments, by a counter of its process: with them, equal programs would have different
    texts.
    """
    lines = [_CALL_NUMBER.sub("", line).rstrip() for line in ptx.splitlines()]
    kept = [line for line in lines if line and not line.lstrip().startswith("//")]
    return "\n".join(kept) + "\n"
