"""The programs of the benchmarks, for both sides, and the peer's calls. Needs the `bench` extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "mixed"

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
    """iree-compile for the CPU."""
    source = output.with_suffix(".mlir")
    source.write_text(text)
    tool = Path(sys.executable).with_name("iree-compile")
    subprocess.run(
        [tool, source, "-o", output, "--iree-hal-target-device=local",
         "--iree-hal-local-target-device-backends=llvm-cpu", *flags],
        check=True, capture_output=True,
    )  # fmt: skip
    return output


class Peer:
    """A loaded program of the peer on one of its devices."""

    def __init__(self, vmfb: Path, device: str) -> None:
        import iree.runtime as rt

        self.rt = rt
        self.config = rt.Config(device)
        self.context = rt.SystemContext(config=self.config)
        self.module = rt.VmModule.mmap(self.context.instance, str(vmfb))
        self.context.add_vm_module(self.module)
        self.device = self.config.device

    def function(self, name: str) -> Any:
        """The high-level callable: NumPy arrays in, a device array out."""
        return self.context.modules[self.module.name][name]

    def raw(self, name: str, *arrays: Any) -> Any:
        """The cheapest way from Python: arguments packed and on the device, one VM call, the result list returned."""
        rt = self.rt
        function = self.module.lookup_function(name)
        device_arrays = [rt.asdevicearray(self.device, a) for a in arrays]
        arguments = rt.VmVariantList(len(arrays))
        for array in device_arrays:
            arguments.push_ref(array._buffer_view)
        context = self.context.vm_context

        def call() -> Any:
            results = rt.VmVariantList(1)
            context.invoke(function, arguments, results)
            return results

        call.keep = device_arrays  # type: ignore[attr-defined]
        return call


def with_bytecode() -> dict[str, str]:
    """The environment of a process that may keep the bytecode of its modules, as users' processes do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
