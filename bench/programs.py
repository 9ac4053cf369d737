"""Programs of several benchmarks, for both sides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pydispatch.bench.peers import iree

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "mixed"

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
EMPTY_WORKGROUPS = 4096 * 4096


def example_text(object_file: Path | None = None) -> str:
    """examples/mixed for x86_64 alone; `object_file` replaces the C source by an object."""
    text = (EXAMPLE / "program.mlir").read_text()
    text = text.replace("[#x86_64, #aarch64, #riscv64]", "[#x86_64]")
    if object_file is not None:
        text = text.replace("functions.c", str(object_file))
    return text


def compile_object(folder: Path) -> Path:
    """The example's C functions as an object file for this machine."""
    from pydispatch.compiler.toolchain import tools

    path = folder / "functions.o"
    path.write_bytes(
        tools.find().compile_c(EXAMPLE / "functions.c", arch="x86_64", cpu="generic", features=(), emit="obj")
    )
    return path


def peer_compile(text: str, output: Path, *flags: str) -> Path:
    """By iree-compile, for any CPU where flags say nothing else."""
    source = output.with_suffix(".mlir")
    source.write_text(text)
    subprocess.run([iree.compiler(), source, "-o", output, *iree.CPU, *flags], check=True, capture_output=True)
    return output


def with_bytecode() -> dict[str, str]:
    """The environment of a process that may keep the bytecode of its modules, as users' processes do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
