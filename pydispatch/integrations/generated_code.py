"""Text of the code that a kernel is compiled to, for each target."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydispatch._core.tables import columns, paragraph
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.kernels.kernel import KernelSource

TARGETS: Mapping[str, str] = {"cpu": ".s", "cuda": ".ptx", "webgpu": ".wgsl", "vulkan": ".spv"}
"""Target -> end of the name of the dumped file with its code."""

CPU_PARTS: Mapping[str, str] = {"vectors": ".vectors.txt", "LLVM IR": ".optimized.ll"}
"""Texts that are shown for CPUs besides the assembler of TARGETS, as title -> end of the dumped file's name. "vectors"
says whether invocations of the kernel are lanes of vectors, or why not."""


def code(kernel: KernelSource, target: str, **options: Any) -> str:
    """Return the code of a kernel for one of TARGETS: assembler, PTX, WGSL or SPIR-V as text.

    SPIR-V is disassembled by spirv-dis, or listed as words if that is not installed. options: as for
    `pydispatch.compile`, whose errors are raised.
    """
    if target not in TARGETS:
        raise InvalidArgumentError(f"code: target: expected one of {', '.join(TARGETS)}, got {target!r}")
    (text,) = texts_of(kernel, target, [TARGETS[target]], **options)
    return text


def texts_of(source: KernelSource | str, target: str, endings: Sequence[str], **options: Any) -> list[str]:
    """Compile a kernel, or the MLIR text of a program, for a target, and return texts that the compiler dumps.

    For each of `endings`, such as ".ptx", return the first dumped file by name with this ending; "" without such a
    file.
    """
    from pydispatch.tuning.compile import compile as compile_

    with tempfile.TemporaryDirectory() as folder:
        compile_(source, targets=target, dump=folder, **options)
        files = sorted(Path(folder).iterdir())
        dumped = [next((file for file in files if file.name.endswith(ending)), None) for ending in endings]
        return ["" if file is None else _text(file) for file in dumped]


def _text(file: Path) -> str:
    """Return a dumped file as text; SPIR-V is disassembled."""
    return _disassembled(file) if file.suffix == ".spv" else file.read_text()


def _disassembled(file: Path) -> str:
    """Return a file of SPIR-V as text, by spirv-dis or as hexadecimal words."""
    import shutil
    import subprocess

    tool = shutil.which("spirv-dis")
    if tool:
        return subprocess.run([tool, "--no-color", file], capture_output=True, text=True, check=True).stdout
    words = memoryview(file.read_bytes()).cast("I")  # SPIR-V is a stream of 32-bit words
    rows = (words[start : start + 8] for start in range(0, len(words), 8))
    lines = (" ".join(f"{word:08x}" for word in row) for row in rows)
    return "; spirv-dis is not installed\n" + "\n".join(lines)


def html_of(kernel: KernelSource) -> str:
    """Return a kernel as HTML for a notebook: its source, and next to it the code for each target, or the error."""
    texts = [("Python", kernel.source.text)]
    for target, ending in TARGETS.items():
        parts = {target: ending, **(CPU_PARTS if target == "cpu" else {})}
        try:
            texts += zip(parts, texts_of(kernel, target, list(parts.values())), strict=True)
        except Error as error:
            texts.append((target, str(error)))
    texts = [(title, text) for title, text in texts if text]
    return paragraph(repr(kernel)) + columns(texts)
