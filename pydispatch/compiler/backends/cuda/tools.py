"""Optional tools of NVIDIA: nvcc or NVRTC to compile sources, ptxas to check PTX.

`PYDISPATCH_NVCC` and `PYDISPATCH_PTXAS` set the path of a tool; `off` disables it. None of them needs a GPU.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import cache
from pydispatch.compiler.toolchain.programs import prerequisites, run_within
from pydispatch.errors import CompileError, Location

SECONDS = 300
"""Time limit of a tool."""

_INTEGERS = "".join(
    f"typedef {sign}{kind} {name}{bits}_t;\n"
    for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))
    for sign, name in (("signed ", "int"), ("unsigned ", "uint"))
)
"""Fixed-width integer types of <stdint.h>, a header that NVRTC lacks."""
_HEADERS = {
    "stddef.h": "typedef decltype(nullptr) nullptr_t;\n", "cstddef": "", "math.h": "", "cmath": "",
    "stdint.h": _INTEGERS, "cstdint": _INTEGERS, "cuda_runtime.h": "",
}  # fmt: skip
"""Name → content of headers that sources include and NVRTC lacks. Those with "" are built into NVRTC."""
_OLDEST_OF_PTXAS = 75
"""Architecture for which ptxas checks PTX of older ones, which ptxas 13 no longer knows."""


def tool(name: str) -> str | None:
    """Return the path of nvcc or ptxas; None if it is not installed or disabled. Raises CompileError if the environment
    names a program that cannot be run.
    """
    variable = f"PYDISPATCH_{name.upper()}"
    setting = os.environ.get(variable, "")
    if setting.lower() in ("0", "off", "none"):
        return None
    path = shutil.which(setting or name)
    if setting and path is None:
        raise CompileError(
            f"{variable}={setting} is no program that can be run",
            location=None,
            note=f"give the path of {name}, or off",
        )
    return path


def describe() -> dict[str, str]:
    """Return the versions of the tools that compile CUDA C++ and check PTX: keys `cuda` and `ptxas`."""
    versions = {}
    for key, name in (("cuda", "nvcc"), ("ptxas", "ptxas")):
        try:
            path = tool(name)
            versions[key] = f"{version(path).rpartition('release ')[2]} from {path}" if path else "none"
        except CompileError as error:
            versions[key] = error.message
    if versions["cuda"] == "none":
        versions["cuda"] = _nvrtc_version() or "none (nvcc, or pip install cuda-bindings nvidia-cuda-nvrtc)"
    return versions


def _nvrtc_version() -> str:
    """Return the version of NVRTC, such as 'NVRTC 13.0'; '' if it is not installed."""
    try:
        from cuda.bindings import nvrtc

        _, major, minor = nvrtc.nvrtcVersion()
    except Exception:  # the loader of the library raises exceptions of various types
        return ""
    return f"NVRTC {major}.{minor}"


@functools.lru_cache(maxsize=8)
def version(path: str) -> str:
    """Return the line with the release from a tool's `--version`. Raises CompileError if the tool cannot be run."""
    done = _run("finding its version", None, [path, "--version"], folder=".")
    lines = [line for line in done.stdout.splitlines() if "release" in line]
    return lines[0] if lines else done.stdout.strip()


def has_cuda_compiler() -> bool:
    """Return whether `compile_cu` finds a compiler."""
    return bool(tool("nvcc") or _nvrtc_version())


def compile_cu(file: ObjectFile, arch: str, *, relocatable: bool = False) -> bytes:
    """Compile CUDA C++ to PTX by nvcc, whose results are cached, or, without nvcc, by NVRTC.

    relocatable: keep all functions, as a library. Raises CompileError with the compiler's diagnostics, or if there is
    no compiler.
    """
    if nvcc := tool("nvcc"):
        return _nvcc(nvcc, file, arch, relocatable)
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        nvrtc = None
    if nvrtc is None:
        raise CompileError(
            f"compiling '{file.name}' needs nvcc or NVRTC, and neither is there",
            file.location,
            "install the CUDA toolkit, or: pip install cuda-bindings nvidia-cuda-nvrtc; "
            "or compile it elsewhere with nvcc -ptx and give the .ptx",
        )
    return _nvrtc(nvrtc, file, arch, relocatable)


def _nvcc(nvcc: str, file: ObjectFile, arch: str, relocatable: bool) -> bytes:
    """Compile CUDA C++ to PTX by nvcc, or return the cached PTX if neither the source nor a file that it includes has
    changed. Raises CompileError with nvcc's diagnostics.
    """
    flags = ["-ptx", f"-arch={arch}", *(["-rdc=true"] if relocatable else []), *_flags_of(file, "-I", "-D")]
    key = cache.digest("nvcc", version(nvcc), flags, file.name, file.data)
    if (kept := cache.load(key)) is not None:
        return kept
    with tempfile.TemporaryDirectory(prefix="pydispatch-nvcc-") as folder:
        # The name is relative to the folder: nvcc derives names of static variables from the path.
        source = Path(folder, re.sub(r"[^\w.-]", "_", Path(file.name).name))
        source.write_bytes(file.data)
        # -MD -MF: nvcc also writes the list of included files, in make's format, to `deps`.
        command = [nvcc, *flags, "-MD", "-MF", "deps", "-o", "out.ptx", "-x", "cu", source.name]
        done = _run(f"compiling {file.name}", file.location, command, folder)
        output = Path(folder, "out.ptx")
        if done.returncode or not output.is_file():
            said = (done.stdout + done.stderr).replace(source.name, file.name).strip()
            raise _compile_error(file, arch, said)
        data = output.read_bytes()
        deps = Path(folder, "deps")
        included = _included(prerequisites(deps.read_text(errors="replace")) if deps.is_file() else [])
    cache.store(key, data, files=included)
    return data


def _flags_of(file: ObjectFile, include: str, define: str) -> list[str]:
    """Return the flags for the folders of includes and the defines of a source.

    A source that is a file includes from its own folder first. include, define: the options before a folder and a
    macro.
    """
    own = [Path(file.name).parent] if Path(file.name).is_file() else []
    folders = [f"{include}{folder.resolve()}" for folder in (*own, *file.include_dirs)]
    return [*folders, *(f"{define}{macro}" for macro in file.defines)]


def _included(names: Sequence[str]) -> list[str]:
    """Return the included files whose change makes a cached result of nvcc invalid.

    Headers of the toolkit and the system are left out: the version of nvcc, which is part of the cache's key, stands
    for them. So is the source, the only relative name, whose content is in the key.

    Args:
        names: File names of nvcc's dependency list (`-MD`).
    """
    files = [Path(name).resolve() for name in names if Path(name).is_absolute()]
    # nvcc includes its cuda_runtime.h first, which shows the folder of the toolkit's headers. The folder that nvcc is
    # installed under, such as /usr, is no sign: it may have headers of other packages.
    toolkit = [file.parent for file in files if file.name == "cuda_runtime.h"][:1]
    excluded = (*toolkit, Path("/usr/include"), Path("/usr/lib"))
    return sorted({str(file) for file in files if not any(file.is_relative_to(folder) for folder in excluded)})


def _nvrtc(nvrtc: Any, file: ObjectFile, arch: str, relocatable: bool) -> bytes:
    """Compile CUDA C++ to PTX by NVRTC, NVIDIA's compiler as a library. Raises CompileError with its diagnostics.

    nvrtc: the module `cuda.bindings.nvrtc`. Its functions return the error code, 0 for success, before their results.
    """
    options = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", "--std=c++17"]
    options += ["--relocatable-device-code=true"] if relocatable else []
    options += _flags_of(file, "--include-path=", "--define-macro=")
    try:
        # NVRTC takes headers as texts: those that it lacks.
        texts = [f"#pragma once\n{text}".encode() for text in _HEADERS.values()]
        names = [name.encode() for name in _HEADERS]
        _, program = nvrtc.nvrtcCreateProgram(file.data, file.name.encode(), len(names), texts, names)
    except Exception as error:  # the bindings load their library here; its loader has its own errors
        raise CompileError(
            f"compiling '{file.name}' needs nvcc or NVRTC; NVRTC cannot be loaded: {error}",
            file.location,
            "pip install nvidia-cuda-nvrtc, or compile it elsewhere with nvcc -ptx and give the .ptx",
        ) from None
    try:
        (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if int(code):
            log = _read_output(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            raise _compile_error(file, arch, log.rstrip(b"\0 \n").decode("utf-8", "replace"))
        return _read_output(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read_output(
    program: Any, size_of: Callable[[Any], tuple[Any, int]], fill: Callable[[Any, bytes], object]
) -> bytes:
    """Return an output of NVRTC: `size_of` returns (error code, bytes), and `fill` writes the output."""
    _, size = size_of(program)
    data = b" " * size  # `fill` writes to it, although Python's bytes are immutable
    fill(program, data)
    return data


def _compile_error(file: ObjectFile, arch: str, said: str) -> CompileError:
    """Return the CompileError for a source that does not compile. said: the output of the compiler."""
    note = None
    if "Unsupported gpu architecture" in said or "invalid value for --gpu-architecture" in said:
        note = f"this compiler knows no {arch} any more, or not yet: name another target, or give a .ptx for {arch}"
    return CompileError(f"{file.name} does not compile for {arch}:\n{said}", file.location, note)


def assemble_problem(text: bytes, name: str, target: str, *, is_open: bool = False) -> str:
    """Assemble a PTX text by ptxas, and return its errors.

    Return "" if there are none, or if ptxas is missing, or too old or too new for the text: the driver then checks the
    text when the program is loaded. That a text was accepted is cached.

    Args:
        text: The text.
        name: Its name in messages.
        target: GPU architecture of the text, such as "sm_80".
        is_open: Whether it may use undefined functions, because it is linked later.
    """
    ptxas = tool("ptxas")
    if ptxas is None:
        return ""
    arch_number = int("".join(c for c in target if c.isdigit()) or 0)
    arch = f"sm_{_OLDEST_OF_PTXAS}" if arch_number < _OLDEST_OF_PTXAS else target
    key = cache.digest("ptxas", version(ptxas), arch, is_open, text)
    if cache.load(key) is not None:
        return ""
    with tempfile.TemporaryDirectory(prefix="pydispatch-ptxas-") as folder:
        Path(folder, "module.ptx").write_bytes(text.rstrip(b"\0"))
        mode = ["-c"] if is_open else []  # a relocatable object may have undefined symbols
        command = [ptxas, f"-arch={arch}", *mode, "module.ptx", "-o", "out.cubin"]
        done = _run(f"checking {name}", None, command, folder)
    if done.returncode == 0:
        cache.store(key, b"ok")
        return ""
    said = (done.stdout + done.stderr).replace("module.ptx", name).strip()
    if re.search(r"Unsupported \.version|is not defined for option 'gpu-name'|Unsupported \.target|SM version", said):
        return ""  # an older or newer ptxas than this text is for: the driver decides
    lines = [line for line in said.splitlines() if "aborted" not in line and line.strip()]  # without the closing line
    return re.sub(r"(?m)^ptxas ", "", "\n".join(lines[:8])) or f"ptxas ended with code {done.returncode}"


def _run(task: str, location: Location | None, command: Sequence[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, and return its output and status. For the arguments and errors see `run_within`."""
    return run_within(
        SECONDS, task, location, command, stdin=subprocess.DEVNULL, text=True, errors="replace", cwd=folder
    )
