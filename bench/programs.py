"""Programs that several benchmarks measure, for pydispatch and for IREE."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pydispatch.bench.peers import iree

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "mixed"
"""Folder of the example with C functions: MLIR, C source."""

PAUSE = 0.06
"""Seconds between contenders: threads of OpenBLAS, onnxruntime and IREE spin for a while after their last call, on a
core that the next one needs."""

EMPTY = """
stream.executable private @grid {
  stream.executable.export public @empty workgroups(%x: index, %y: index) -> (index, index, index) {
    %one = arith.constant 1 : index
    stream.return %x, %y, %one : index, index, index
  }
  builtin.module {
    func.func @empty(%out: !stream.binding) { return }
  }
}
func.func @run(%out: tensor<4xf32>) -> tensor<4xf32> {
  %x = arith.constant 4096 : index
  %y = arith.constant 4096 : index
  %r = flow.dispatch @grid::@empty[%x, %y](%out) : (tensor<4xf32>) -> %out
  return %r : tensor<4xf32>
}
"""
"""A dispatch whose workgroups do nothing: what starting a workgroup costs."""
EMPTY_WORKGROUPS = 4096 * 4096
"""Workgroups of a call of EMPTY."""


def example_text(object_file: Path | None = None) -> str:
    """Return the program of examples/mixed with x86_64 as its only target; `object_file` replaces its C source."""
    text = (EXAMPLE / "program.mlir").read_text()
    text = text.replace("[#x86_64, #aarch64, #riscv64]", "[#x86_64]")
    if object_file is not None:
        text = text.replace("functions.c", str(object_file))
    return text


def compile_object(folder: Path) -> Path:
    """Compile the example's C functions to an object file for any x86_64 CPU, and return its path in `folder`."""
    from pydispatch.compiler.toolchain import tools

    path = folder / "functions.o"
    path.write_bytes(
        tools.find().compile_c(EXAMPLE / "functions.c", arch="x86_64", cpu="generic", features=(), emit="obj")
    )
    return path


def peer_compile(text: str, output: Path, *flags: str) -> Path:
    """Compile the MLIR in `text` with iree-compile to the file `output`, and return `output`.

    The code is for any CPU unless a flag names one.
    """
    source = output.with_suffix(".mlir")
    source.write_text(text)
    subprocess.run([iree.compiler(), source, "-o", output, *iree.CPU, *flags], check=True, capture_output=True)
    return output


def with_bytecode() -> dict[str, str]:
    """Return an environment without PYTHONDONTWRITEBYTECODE: a process caches bytecode, as users' processes do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
