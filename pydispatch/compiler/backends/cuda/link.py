"""Linking of machine code and LTO-IR into generated kernels by NVIDIA's nvJitLink, which needs no GPU.

The linker terminates its process for some malformed inputs, and therefore runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import cache
from pydispatch.compiler.toolchain.programs import run_within
from pydispatch.errors import CompileError

SECONDS = 300
"""Time limit of the linker."""
_REFUSED, _MISSING = 3, 4
"""Exit codes of the linker's process: an input was refused; nvJitLink cannot be loaded."""

_PROGRAM = f"""
import json, sys
head = json.loads(sys.stdin.buffer.readline())
data = [(name, kind, sys.stdin.buffer.read(size)) for name, kind, size in head["inputs"]]
try:
    from cuda.bindings import nvjitlink as nj
    handle = nj.create(len(head["options"]), head["options"])
except Exception as error:
    sys.stderr.write(f"{{error}}")
    sys.exit({_MISSING})
try:
    for name, kind, content in data:
        nj.add_data(handle, getattr(nj.InputType, kind), content, len(content), name)
    nj.complete(handle)
    code = bytearray(nj.get_linked_cubin_size(handle))
    nj.get_linked_cubin(handle, code)
except Exception as error:
    log = bytearray(nj.get_error_log_size(handle))
    if log:
        nj.get_error_log(handle, log)
    sys.stderr.buffer.write(bytes(log).rstrip(b"\\0 \\n") or str(error).encode())
    sys.exit({_REFUSED})
sys.stdout.buffer.write(code)
"""
"""Python program of the linker's process: reads a line of JSON and the inputs, and writes the cubin or an error."""


def link_machine_code(ptx: str, inputs: Sequence[tuple[ObjectFile, str]], arch: str) -> bytes:
    """Link PTX with machine code or LTO-IR to a cubin, and cache the result.

    Args:
        ptx: The generated kernels.
        inputs: At least one object, each with its kind, a name of nvJitLink's InputType such as "LTOIR".
        arch: Architecture of the cubin, such as "sm_80".

    Raises:
        CompileError: The linker reports an error, such as an undefined symbol, takes too long, or cannot be loaded.
    """
    # (name, kind, content) of each input of the linker.
    files = [("kernels.ptx", "PTX", ptx.encode() + b"\0"), *((file.name, kind, file.data) for file, kind in inputs)]
    has_lto_ir = any(kind == "LTOIR" for _, kind in inputs)
    options = [f"-arch={arch}", *(["-lto"] if has_lto_ir else [])]
    key = cache.digest("nvJitLink", _version(), options, [(kind, data) for _, kind, data in files])
    if (cached_code := cache.load(key)) is not None:
        return cached_code
    # nvJitLink runs in a process of its own, since it may end the process over an input. The input of the Python
    # program _PROGRAM is a line of JSON with the size of each file, then their contents; its output is the cubin.
    header = {"options": options, "inputs": [(name, kind, len(data)) for name, kind, data in files]}
    stdin = json.dumps(header).encode() + b"\n" + b"".join(data for _, _, data in files)
    task = f"linking {', '.join(file.name for file, _ in inputs)}"
    process = run_within(SECONDS, task, inputs[0][0].location, [sys.executable, "-c", _PROGRAM], input=stdin)
    if process.returncode == 0:
        cache.store(key, process.stdout)
        return process.stdout
    raise _link_error(process, inputs, arch)


def _link_error(
    process: subprocess.CompletedProcess[bytes], inputs: Sequence[tuple[ObjectFile, str]], arch: str
) -> CompileError:
    """Return the error for a failed link, with the linker's diagnostics and a remedy.

    Args:
        process: The process that ran nvJitLink; it ended with _REFUSED, _MISSING or, if the linker terminated it, with
            another exit code than 0.
        inputs: The objects, each with its kind; at least one.
        arch: Architecture, such as "sm_80".
    """
    names, location = ", ".join(file.name for file, _ in inputs), inputs[0][0].location
    lines = process.stderr.decode("utf-8", "replace").strip("\0 \n").splitlines()
    # "ERROR 4: ..." repeats the lines before it, if any.
    diagnostics = "\n".join([line for line in lines if not line.startswith("ERROR ")] or lines)
    diagnostics = diagnostics or f"it ended with code {process.returncode}"
    if process.returncode == _MISSING:
        return CompileError(
            f"linking {names} needs nvJitLink, which cannot be loaded: {diagnostics}", location,
            "pip install cuda-bindings nvidia-nvjitlink, or give the functions as .ptx, .bc or .cu",
        )  # fmt: skip
    note = None
    if "Undefined reference" in diagnostics:
        note = (
            "machine code cannot be completed when it is loaded: add an object that defines the symbol, or "
            "give all functions as .ptx, .bc or .cu"
        )
    elif "INPUT_LTOIR" in diagnostics:
        note = f"nvcc -dc -dlto -ltoir -arch={arch} makes LTO-IR"
    elif process.returncode != _REFUSED:  # the linker terminated the process
        note = "the linker ended over them: build them anew"
    return CompileError(f"{names} cannot be linked into the kernels for {arch}:\n{diagnostics}", location, note)


def _version() -> str:
    """Return the versions of nvJitLink and of its Python bindings for cache keys; '' if one is not installed."""
    from importlib import metadata

    try:
        return ", ".join(metadata.version(name) for name in ("nvidia-nvjitlink", "cuda-bindings"))
    except metadata.PackageNotFoundError:
        return ""
