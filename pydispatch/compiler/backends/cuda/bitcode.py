"""Bitcode for nvptx64 of functions that generated CUDA kernels call: provided, or compiled here from C or CUDA C++.

LLVM cannot call a C library on a GPU: an intrinsic such as `llvm.exp.f32`, which compilers emit for `expf`, would abort
the process. Such intrinsics are replaced by calls of pydispatch's device library.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

from pydispatch.compiler import devlib
from pydispatch.compiler.backends.cuda import prepare
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import cache, objects, tools
from pydispatch.compiler.worker import llvm_process
from pydispatch.errors import CompileError

ARCH, TRIPLE = "nvptx64", "nvptx64-nvidia-cuda"
SHIM = Path(__file__).parent / "cuda_shim.h"
"""Replacement for the parts of CUDA's headers that sources need, for a clang without CUDA."""

_CALLED = ("llrint", "llround", "lrint", "lround", "modf", "sincos")
"""C functions whose calls are kept: clang would turn them into intrinsics that LLVM cannot lower for CUDA."""
# Loops are not vectorized: GPU threads compute scalars, and vector intrinsics could not be replaced by calls.
# -fno-builtin-NAME keeps calls of the functions in _CALLED, instead of intrinsics.
_FLAGS = (
    "-fno-vectorize", "-fno-slp-vectorize",
    *(f"-fno-builtin-{name}{suffix}" for name in _CALLED for suffix in ("", "f")),
)  # fmt: skip
_EMIT = """
import sys
from llvmlite import binding as b
b.initialize_all_targets(); b.initialize_all_asmprinters()
m = b.parse_bitcode(sys.stdin.buffer.read())
b.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=sys.argv[1], opt=3).emit_assembly(m)
"""
"""Python program that compiles bitcode from standard input to PTX for the architecture in its argument."""


def of_bitcode(file: ObjectFile, arch: str) -> bytes:
    """Check a bitcode file and prepare it for linking. Raises CompileError for a malformed file, or one for another
    machine.
    """
    objects.check_bitcode(file)
    return prepared(file.data, arch, file)


def of_c(file: ObjectFile, arch: str) -> bytes:
    """Compile C functions to bitcode, from the same source as for a CPU. Raises CompileError with the compiler's
    diagnostics.
    """
    import pydispatch

    return _compiled(file, arch, [*file.include_path, Path(pydispatch.get_include())], flags=(), language="c")


def of_cu(file: ObjectFile, arch: str) -> bytes:
    """Compile CUDA C++ functions to bitcode by a clang without CUDA's headers. Keywords, threadIdx and similar
    variables, barriers, shuffles and C functions are available. Raises CompileError with the compiler's diagnostics.
    """
    flags = ("-include", str(SHIM), "-fno-rtti")
    return _compiled(file, arch, file.include_path, flags, "c++")


def _compiled(file: ObjectFile, arch: str, include: list[Path], flags: tuple[str, ...], language: str) -> bytes:
    """Compile C or CUDA C++ to bitcode for a GPU. Raises CompileError with the compiler's messages.

    Args:
        file: The source.
        arch: Architecture, such as "sm_80".
        include: Folders of includes.
        flags: Further flags of clang.
        language: "c" or "c++".
    """
    try:
        data = tools.find().compile_c(
            file.data, arch=ARCH, cpu=arch, emit="bc", include_dirs=include, defines=file.defines,
            extra_args=(*_FLAGS, *flags), language=language,
        )  # fmt: skip
    except tools.ToolchainError as error:
        shown = error.stderr.replace("<stdin>", file.name).strip()
        raise CompileError(
            f"{file.name} does not compile for {arch}" + (f":\n{shown}" if shown else f": {error.message}"),
            file.location,
        ) from error
    return prepared(data, arch, file)


def prepared(data: bytes, arch: str, file: ObjectFile) -> bytes:
    """Return bitcode of the user in a form that can be linked into a generated module and compiled to PTX.

    Attributes of a machine, such as target-cpu, are removed. The functions of the device library that the bitcode
    calls, such as expf, are linked in.

    Args:
        data: Bitcode that LLVM can read.
        arch: Architecture, such as "sm_80".
        file: The object that the bitcode comes from, for messages.

    Raises:
        CompileError: The bitcode is for another machine, or LLVM cannot compile it to PTX.
    """
    try:
        # Undefined functions that the device library has; others may be defined by other objects.
        wanted = llvm_process.call(prepare.undefined, data) & devlib.inlinable_symbols()
        library = devlib.bitcode(ARCH, arch, symbols=wanted) if wanted else b""
        result = llvm_process.call(prepare.prepared, data, library)
    except CompileError as error:
        raise CompileError(f"object '{file.name}' {error.message}", file.location, error.note) from None
    problem = _codegen_problem(result, arch)  # a trial, whose error names this object
    if problem:
        raise CompileError(
            f"object '{file.name}' cannot become PTX: {problem}",
            file.location,
            "it uses something that LLVM has not for CUDA: compile it with nvcc -ptx -rdc=true and give the .ptx",
        )
    return result


@functools.lru_cache(maxsize=32)
def serial_functions(data: bytes) -> frozenset[str]:
    """Return the functions of a module that do not read thread ids, directly or through calls."""
    return llvm_process.call(prepare.serial_functions, data)


@functools.lru_cache(maxsize=32)
def _codegen_problem(data: bytes, arch: str) -> str:
    """Return why LLVM cannot compile bitcode to PTX; '' if it can. Runs in another process, since LLVM may abort."""
    key = cache.digest("emits PTX", llvm_process.version(), arch, data)
    if cache.load(key) is not None:  # an entry means success; failures are not cached
        return ""
    done = subprocess.run([sys.executable, "-c", _EMIT, arch], input=data, capture_output=True, check=False)
    if done.returncode == 0:
        cache.store(key, b"ok")
        return ""
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    # The line that states the error, else the last one, which is usually the reason of an abort.
    message = next((line for line in lines if "error" in line.lower() or "Cannot" in line), "")
    return message or (lines[-1] if lines else f"LLVM ended with code {done.returncode}")
