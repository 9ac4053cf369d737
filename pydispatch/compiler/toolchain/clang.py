"""C → an ELF object or LLVM bitcode, stored in a content-addressed cache.

Floating point in user C follows clang's default, `-ffp-contract=on`: products and sums inside *one expression* fuse
where the target has fused multiply-add. Results are the same for every run of one variant, and may differ in the last
bit between variants (x86-64-v2 against v3). `-ffp-contract=off` in `extra_args` gives the same bits everywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydispatch import files
from pydispatch.compiler.toolchain import cache
from pydispatch.compiler.toolchain.programs import Tool, ToolchainError, prerequisites
from pydispatch.errors import SystemError_

ARCHES = ("x86_64", "aarch64", "riscv64")
"""Architectures that C is compiled for as objects or bitcode."""
GPU_ARCHES = ("nvptx64",)
"""Architectures that C is compiled for as bitcode only; `cpu` is a name such as sm_75."""
_HEADERS_OF = {"nvptx64": "x86_64"}
"""Architecture → the one whose C library headers it uses: C types have the same sizes on NVIDIA GPUs and x86-64."""
_GENERIC_CPU = {
    "x86_64": ["-march=x86-64"],
    "aarch64": ["-march=armv8-a"],
    "riscv64": ["-march=rv64gc", "-mabi=lp64d"],
}
"""Architecture → clang's flags for its generic CPU."""

# The triple is that of Linux (`_target_flags`), and -ffreestanding is missing: a freestanding compile marks every
# function "no-builtins", and LLVM refuses to inline such a function into generated kernels. The price is that mem* and
# libm calls may appear; the device library provides them.
_CC_FLAGS = (
    "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
    "-fno-stack-protector", "-fno-sanitize=all", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=on",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions", "-fno-common", "-Qunused-arguments",
    "-fno-ident", "-fno-color-diagnostics", "-ftls-model=local-exec",
)  # fmt: skip


def compile_c(
    clang: Tool,
    source: Path | bytes,
    *,
    arch: str,
    cpu: str = "generic",
    features: Sequence[str] = (),
    emit: str = "obj",
    include_dirs: Sequence[Path | str] = (),
    defines: Sequence[str] = (),
    opt: str = "-O3",
    extra_args: Sequence[str] = (),
    language: str = "c",
) -> bytes:
    """Compile C for a freestanding target to an ELF object or LLVM bitcode.

    The result depends only on the arguments, the included files and the compiler, and is cached by them.

    Args:
        clang: The compiler.
        source: A file, or text in bytes (`<stdin>` in diagnostics).
        arch: One of ARCHES, or of GPU_ARCHES with `emit="bc"`.
        cpu: An LLVM CPU name or "generic"; the caller must resolve "native".
        features: LLVM names with a sign, such as "+avx2".
        emit: "obj" for an ELF object, "bc" for bitcode.
        include_dirs: Directories of headers.
        defines: Macros, `NAME` or `NAME=VALUE`.
        opt: Optimization level, such as "-O2"; "" is "-O3".
        extra_args: Further arguments of clang.
        language: "c" or "c++".

    Raises:
        ToolchainError: clang fails; `stderr` has its diagnostics.
        ValueError: The arch, emit or cpu is unknown.
    """
    flags = _target_flags(arch, cpu, features)
    standard = "gnu11" if language == "c" else "gnu++17"
    flags += ["-O3" if opt == "" else opt, f"-std={standard}", *_CC_FLAGS]
    flags += [f"-D{define}" for define in defines]
    for folder in include_dirs:
        flags += ["-I", os.fspath(folder)]
    flags += list(extra_args)
    if emit == "bc":
        flags.append("-emit-llvm")
    text, name = (source, "-") if isinstance(source, bytes) else (_read(source), str(source))
    # The version stands for the compiler's own headers; the other headers are dependencies of the cache entry.
    key = cache.digest(clang.argv[0], clang.version, flags, name, text)
    cached = cache.load(key)
    if cached is not None:
        return cached
    result, dependencies = _run_clang(clang, flags, arch, language, name, text if isinstance(source, bytes) else b"")
    cache.store(key, result, dependencies)
    return result


def _run_clang(
    clang: Tool, flags: Sequence[str], arch: str, language: str, name: str, text: bytes
) -> tuple[bytes, list[str]]:
    """Run clang on one source, and return its output and the paths of the included files. Raises ToolchainError.

    Args:
        clang: The compiler.
        flags: Its flags, without those of system headers and files.
        arch: Architecture, which selects the headers of the C library.
        language: "c" or "c++".
        name: Path of the source, or "-" for the standard input.
        text: The standard input.
    """
    with tempfile.TemporaryDirectory(prefix="pydispatch-") as scratch:
        output, deps = Path(scratch, "out"), Path(scratch, "deps")
        argv = [*clang.argv, *flags]
        for folder in clang.isystem:
            argv += ["-isystem", folder.replace("{arch}", _HEADERS_OF.get(arch, arch))]
        # -MD -MF writes the paths of the included files to `deps`, as a make rule for "out".
        argv += ["-c", "-MD", "-MF", str(deps), "-MT", "out", "-o", str(output), "-x", language, name]
        process = subprocess.run(argv, input=text, capture_output=True, check=False)
        if process.returncode != 0:
            source = "<stdin>" if name == "-" else name
            raise ToolchainError(f"compiling {source} for {arch} failed", argv, process.stderr.decode(errors="replace"))
        return output.read_bytes(), _dependencies(deps, name, clang)


def _target_flags(arch: str, cpu: str, features: Sequence[str]) -> list[str]:
    """Return clang's flags that select a target: ["--target=...", "-nostdlibinc", "-march=...", ...].

    Args:
        arch: One of ARCHES or GPU_ARCHES.
        cpu: An LLVM CPU name; "generic" or "" for any CPU of the architecture.
        features: LLVM names with a sign, such as "+avx2".

    Raises:
        ValueError: The arch is unknown, the cpu is "native", or a feature has no sign.
    """
    require(arch, (*ARCHES, *GPU_ARCHES), "arch")
    if cpu == "native":
        raise ValueError("cpu 'native' must be resolved to a CPU name and features before compiling")
    flags = [f"--target={arch}-unknown-linux-musl", "-nostdlibinc"]
    if arch in GPU_ARCHES:
        flags = [f"--target={arch}-nvidia-cuda", "-nostdlibinc", f"-march={cpu}"]
    elif cpu in ("", "generic"):
        flags += _GENERIC_CPU[arch]
    elif arch == "x86_64":
        flags.append(f"-march={cpu}")
    else:
        flags.append(f"-mcpu={cpu}")
        flags += ["-mabi=lp64d"] if arch == "riscv64" else []
    for feature in features:
        if not re.fullmatch(r"[+-][A-Za-z0-9._-]+", feature):
            raise ValueError(f"feature {feature!r}: expected a sign and an LLVM feature name, such as '+avx2'")
        flags += ["-Xclang", "-target-feature", "-Xclang", feature]
    # Outlined atomics are calls of a runtime library, which kernels do not have.
    return flags + (["-mno-outline-atomics"] if arch == "aarch64" else [])


def _dependencies(deps: Path, name: str, clang: Tool) -> list[str]:
    """Return the paths of the included files, without the compiler's own headers: its version stands for these.

    Args:
        deps: The make rule that clang wrote for `-MD`.
        name: Path of the source file, or "-" for the standard input. It is left out: its text is in the cache key.
        clang: The compiler.
    """
    files = prerequisites(deps.read_text(errors="replace"))
    # Only ziglang's clang has `isystem`: its headers, also those of the C library, are in the folder lib beside it.
    own_headers = (str(Path(clang.argv[0]).parent / "lib") + os.sep,) if clang.isystem else ()
    return [file for file in files if file not in (name, "-") and not file.startswith(own_headers)]


def _read(path: Path) -> bytes:
    """Read a file of C; raise ToolchainError if that is not possible."""
    try:
        return files.read(path)
    except SystemError_ as error:
        raise ToolchainError(f"C source: {error}") from None


def require(value: str, allowed: Sequence[str], option: str) -> None:
    """Raise ValueError unless the value of an option is allowed. option: its name, for the message."""
    if value not in allowed:
        raise ValueError(f"{option} {value!r}: expected one of {', '.join(allowed)}")
