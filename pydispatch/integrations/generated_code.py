"""Text of the code that a kernel is compiled to, for each target."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydispatch._core.tables import columns, paragraph
from pydispatch.errors import Error, InvalidArgumentError
from pydispatch.kernels.kernel import KernelSource

TARGETS: Mapping[str, str] = {"cpu": ".s", "cuda": ".ptx", "webgpu": ".wgsl", "vulkan": ".spv"}
"""Target -> how the file that a dump of its compilation has ends."""


def code(kernel: KernelSource, target: str, **options: Any) -> str:
    """Return the code of a kernel for a target: assembler, PTX, WGSL or SPIR-V.

    SPIR-V is disassembled by spirv-dis, or listed as words if that is not installed. Errors of compiling are raised.
    """
    from pydispatch.tuning.compile import compile as compile_

    if target not in TARGETS:
        raise InvalidArgumentError(f"code: target: expected one of {', '.join(TARGETS)}, got {target!r}")
    with tempfile.TemporaryDirectory() as folder:
        compile_(kernel.mlir(), targets=target, dump=folder, **options)
        file = next(path for path in sorted(Path(folder).iterdir()) if path.name.endswith(TARGETS[target]))
        return _disassembled(file) if file.suffix == ".spv" else file.read_text()


def _disassembled(file: Path) -> str:
    """Return SPIR-V as text."""
    import shutil
    import subprocess

    if tool := shutil.which("spirv-dis"):
        return subprocess.run([tool, "--no-color", file], capture_output=True, text=True, check=True).stdout
    words = memoryview(file.read_bytes()).cast("I")
    lines = (" ".join(f"{word:08x}" for word in words[at : at + 8]) for at in range(0, len(words), 8))
    return "; spirv-dis is not installed\n" + "\n".join(lines)


def html_of(kernel: KernelSource) -> str:
    """Return a kernel in a notebook: its source, and beside it the code for each target, or why there is none."""
    texts = [("Python", kernel.source.text)]
    for target in TARGETS:
        try:
            texts.append((target, code(kernel, target)))
        except Error as error:
            texts.append((target, str(error)))
    return paragraph(repr(kernel)) + columns(texts)
