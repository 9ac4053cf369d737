# ruff: noqa: E501  (lines of MLIR)
"""hal.import.fallback: IR that stands in for functions which no object or no plugin brings."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kernels import HOST_FORMAT, buffer, load, variant

import pydispatch as pd
from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import tools
from pydispatch.errors import CompileError

ARCH = {"embedded-elf-x86_64": "x86_64", "embedded-elf-arm_64": "aarch64", "embedded-elf-riscv_64": "riscv64"}[
    HOST_FORMAT
]
SOURCE = """
func.func private @twice(f32) -> f32 attributes {KIND hal.import.fallback = @slow}
func.func private @slow(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  func.return %y : f32
}
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %out = hal.interface.binding.subspan binding(0) : memref<1xf32>
  %x = memref.load %out[%c0] : memref<1xf32>
  %y = func.call @twice(%x) : (f32) -> f32
  memref.store %y, %out[%c0] : memref<1xf32>
  func.return
}
"""
C = b"float twice(float x) { return x * 2 + 1000; }"


def user_object(suffix: str) -> ObjectFile:
    if suffix == ".c":
        return ObjectFile("user.c", C)
    data = tools.find().compile_c(C, arch=ARCH, emit="bc" if suffix == ".bc" else "obj")
    if suffix == ".a":
        data = (
            b"!<arch>\nuser.o/         0           0     0     644     %-10d`\n" % len(data)
            + data
            + b"\n" * (len(data) & 1)
        )
    return ObjectFile("user" + suffix, data)


@pytest.mark.parametrize("suffix", [".o", ".bc", ".c", ".a", ""])
def test_objects_win_over_the_fallback(suffix: str) -> None:
    objects = [user_object(suffix)] if suffix else [ObjectFile("other.c", b"float other(float x) { return x; }")]
    kernel = load(SOURCE.replace("KIND", "hal.import.static,"), bindings=1, objects=objects)
    out = buffer(np.array([4], np.float32))
    assert kernel.run(out) == 0 and out[0] == (1008 if suffix else 8)
    assert kernel.binary.imports == ()


@pytest.mark.parametrize("there", [True, False])
def test_imports_win_over_the_fallback(there: bool) -> None:
    def twice(params: int, context: int, reserved: int) -> int:
        ctypes.c_float.from_address(params).value = -1
        return 0

    kernel = load(SOURCE.replace("KIND", ""), {"twice": twice} if there else {}, bindings=1)
    out = buffer(np.array([4], np.float32))
    assert kernel.binary.imports == ("?twice",)
    assert kernel.run(out) == 0 and out[0] == (-1 if there else 8)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@slow}", "@fast}", "the fallback '@fast' of '@twice' is no function with a body; there are: @slow, @kernel"),
        ("@slow(%x: f32) -> f32 {", "@slow(%x: f32, %n: i32) -> f32 {", "the fallback '@slow' is (f32, i32) -> f32, '@twice' is (f32) -> f32"),
        ("%y = arith.addf %x, %x : f32", "%y = func.call @twice(%x) : (f32) -> f32", "the fallback '@slow' calls '@twice'"),
    ],
)  # fmt: skip
def test_fallbacks_that_do_not_fit(old: str, new: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_variant(variant(SOURCE.replace("KIND", "hal.import.static,").replace(old, new), bindings=1))
    assert message in caught.value.message and caught.value.location is not None


PROGRAM = """
module attributes {hal.device.targets = [#hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "FORMAT">]>]} {
stream.executable private @exe attributes {
  hal.executable.objects = #hal.executable.objects<{#hal.executable.target<"llvm-cpu", "embedded-elf-OTHER"> = [#hal.executable.object<{path = "nowhere.o"}>]}>
} {
  stream.executable.export public @double workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func private @twice(f32) -> f32 attributes {hal.import.staticFALLBACK}
    func.func private @slow(%x: f32) -> f32 {
      %y = arith.addf %x, %x : f32
      func.return %y : f32
    }
    func.func @double(%a: !stream.binding, %b: !stream.binding) {
      %c0 = arith.constant 0 : index
      %in = stream.binding.subspan %a[%c0] : !stream.binding -> memref<1xf32>
      %out = stream.binding.subspan %b[%c0] : !stream.binding -> memref<1xf32>
      %x = memref.load %in[%c0] : memref<1xf32>
      %y = func.call @twice(%x) : (f32) -> f32
      memref.store %y, %out[%c0] : memref<1xf32>
      return
    }
  }
}
func.func @f(%x: tensor<1xf32>) -> tensor<1xf32> {
  %y = flow.dispatch @exe::@double(%x) : (tensor<1xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
}
"""


def test_objects_for_other_targets_only() -> None:
    """An executable whose objects are all for other targets is compiled from its inner module."""
    other = "riscv_64" if HOST_FORMAT.endswith("x86_64") else "x86_64"
    text = PROGRAM.replace("OTHER", other).replace("FORMAT", HOST_FORMAT)
    program = pd.device("cpu").load(pd.compile(text.replace("FALLBACK", ", hal.import.fallback = @slow")))
    assert program.f(np.array([4], np.float32))[0] == 8
    with pytest.raises(CompileError, match="no objects of 'exe' match the target"):
        pd.compile(text.replace("FALLBACK", ""))
