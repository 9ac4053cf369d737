"""The devices that run plans by themselves: what differs between them for a user who brings two kernels.

The kernels are `mul`, which multiplies vectors a and b of n elements into c, and `inplace`, which multiplies b by a.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda_programs
import vulkan_programs
import webgpu_programs

import pydispatch as pd

PTX = Path(cuda_programs.__file__).parent / "data" / "kernels_sm_75.ptx"
BLOCK = "attributes {workgroup_size = [64 : index, 1 : index, 1 : index]}"
MUL = vulkan_programs.export("mul", 0, 1, ("in", "in", "out"), more=BLOCK)
INPLACE = vulkan_programs.export("inplace", 1, 1, ("in", "out"), more=BLOCK)
PROGRAM = (
    vulkan_programs.binary("mul")
    + """
  func.func @mixed(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
    %c0 = arith.constant 0 : index
    %d = tensor.dim %a, %c0 : tensor<?xf32>
    %n = arith.index_cast %d : index to i32
    %0 = flow.dispatch @executable::@mul[%d](%n, %a, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d})
      -> tensor<?xf32>{%d}
    %1 = flow.dispatch @executable::@inplace[%d](%n, %0, %b) : (i32, tensor<?xf32>{%d}, tensor<?xf32>{%d}) -> %b{%d}
    return %1 : tensor<?xf32>
  }
  func.func @views(%a: tensor<100xf32>, %b: tensor<100xf32>)
      -> (tensor<3xf32>, tensor<100xf32>, tensor<7xi8>, tensor<9xi64>) {
    %p = tensor.extract_slice %a[5] [3] [1] : tensor<100xf32> to tensor<3xf32>
    %q = tensor.extract_slice %b[17] [3] [1] : tensor<100xf32> to tensor<3xf32>
    %d = arith.constant 3 : index
    %n = arith.constant 3 : i32
    %r = flow.dispatch @executable::@mul[%d](%n, %p, %q) : (i32, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %s = tensor.insert_slice %r into %a[9] [3] [1] : tensor<3xf32> into tensor<100xf32>
    %k = arith.constant -5 : i8
    %t = tensor.splat %k : tensor<7xi8>
    %l = arith.constant 81985529216486895 : i64
    %u = tensor.splat %l : tensor<9xi64>
    return %r, %s, %t, %u : tensor<3xf32>, tensor<100xf32>, tensor<7xi8>, tensor<9xi64>
  }"""
)


def spirv(folder: Path, bindings: Sequence[str] = ("-a", "-b", "c")) -> list[Path]:
    """Write the kernels as SPIR-V, compiled by glslangValidator; `mul` with other bindings if they are given."""
    texts = {
        "mul": vulkan_programs.buffers(*bindings) + vulkan_programs.PUSH + vulkan_programs.MUL,
        "inplace": vulkan_programs.buffers("-a", "b") + vulkan_programs.PUSH
        + "void main() { uint i = gl_GlobalInvocationID.x; if (i < n) b[i] *= a[i]; }",
    }  # fmt: skip
    for name, text in texts.items():
        source = folder / f"{name}.comp"
        source.write_text(f"#version 450\nlayout(local_size_x = 64) in;\n{text}")
        words = ["glslangValidator", "-V", "--target-env", "vulkan1.1", source, "-o", source.with_suffix(".spv")]
        subprocess.run(words, check=True, capture_output=True)
    return [folder / f"{name}.spv" for name in texts]


def wgsl(folder: Path) -> list[Path]:
    inplace = webgpu_programs.kernel("inplace", "if (i < given.n) { b[i] *= a[i]; }")
    declared = webgpu_programs.buffers("-a", "b") + webgpu_programs.PUSH
    texts = {"mul": webgpu_programs.SHADER, "inplace": declared + inplace}
    for name, text in texts.items():
        (folder / f"{name}.wgsl").write_text(text)
    return [folder / f"{name}.wgsl" for name in texts]


def ptx(folder: Path) -> list[Path]:
    """Write both kernels as one file, as nvcc does."""
    path = folder / "kernels.ptx"
    path.write_text(PTX.read_text().replace("simple_mul_inplace", "inplace").replace("simple_mul", "mul"))
    return [path]


@dataclass(frozen=True)
class Misfit:
    """Kernels that are refused, and the patterns of the messages.

    no_entry: for an export `mull` when compiling.
    broken: turns a folder and the code of good kernels into code that does not fit the export `mul`.
    """

    no_entry: str
    broken: Callable[[Path, bytes], bytes]
    message: str
    foreign: bytes
    foreign_message: str


@dataclass(frozen=True)
class Device:
    """device: for `pydispatch.device`. attribute: the target in MLIR. is_fake: needs the fake CUDA driver."""

    name: str
    device: str
    target: str
    attribute: str
    kernels: Callable[[Path], list[Path]]
    misfit: Misfit
    is_fake: bool = False

    def compiled(self, objects: Sequence[Path], exports: str = MUL + INPLACE, functions: str = PROGRAM) -> Any:
        """Return the artifact of a program with one executable. objects: none for one that is given at run time."""
        listed = ", ".join(f'#hal.executable.object<{{path = "{path}"}}>' for path in objects)
        given = f"objects([{listed}])" if objects else ""
        variant = f"hal.executable.variant public @v target({self.attribute}) {given} {{ {exports} }}"
        text = f"module {{ hal.executable private @executable {{ {variant} }}\n{functions} }}"
        return pd.compile(text, targets=self.target)


_SPIRV = Misfit(
    r"is no entry point(.|\n)*name the file like the export \(mull.spv\)",
    lambda folder, code: spirv(folder, ("-a", "-b", "x", "c"))[0].read_bytes(),
    r"'B3' \(set 0, binding 3\) is beyond the 3 bindings of the layout",
    b"nothing like that, and long enough!!", "no SPIR-V",
)  # fmt: skip
_WGSL = Misfit(
    r"is no entry point(.|\n)*did you mean 'mul'\?",
    lambda folder, code: code.replace(b"binding(2)", b"binding(3)"),
    "entry point 'mul': binding 3 of group 0 is beyond the 3 bindings",
    b"\x03\x02\x23\x07 nothing like that \xff", "is no WGSL",
)  # fmt: skip
_PTX = Misfit(
    "is no entry of the objects of executable '@executable'",
    lambda folder, code: code.replace(b"mul(", b"other("), "there is no entry 'mul'", b"hello",
    "add_executable 'executable': 5 bytes",
)  # fmt: skip
_VULKAN = ("vulkan", vulkan_programs.TARGET, spirv, _SPIRV)
_WEBGPU = ("webgpu", webgpu_programs.TARGET, wgsl, _WGSL)
_CUDA = ("cuda", cuda_programs.target(), ptx, _PTX)
DEVICES = (
    Device("vulkan", "vulkan:0", *_VULKAN),
    Device("vulkan-staged", "vulkan:0?staging=1", *_VULKAN),
    Device("webgpu", "webgpu:0", *_WEBGPU),
    Device("webgpu-staged", "webgpu:0?staging=1", *_WEBGPU),
    Device("webgpu-standard", "webgpu:0?standard=1", *_WEBGPU),
    Device("ptx-interpreter", "ptx-interpreter", *_CUDA),
    Device("cuda", "cuda:0", *_CUDA, is_fake=True),
)


def name_of(row: Device) -> str:
    return row.name
