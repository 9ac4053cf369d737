"""Kernels keep denormals or flush them as the thread that calls does: kept, unless the caller asked otherwise."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import pydispatch as pd

# Where fenv_t of glibc holds the control register, and the bits that flush results and inputs.
CONTROL = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
MACHINE = platform.machine()

# A product and, behind a barrier that fusion does not cross, a hand-written kernel: one workgroup for each element.
TEXT = """
#t = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#a = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
module attributes {hal.device.targets = [#hal.device.target<"local", [#t, #a]> : !hal.device]} {
  stream.executable private @kernels {
    stream.executable.export public @halve workgroups(%size: index) -> (index, index, index) {
      %one = arith.constant 1 : index
      stream.return %size, %one, %one : index, index, index
    }
    builtin.module {
      func.func @halve(%b0: !stream.binding, %b1: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %half = arith.constant 0.5 : f32
        %id = stream.dispatch.workgroup.id[0] : index
        %in = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %out = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %x = memref.load %in[%id] : memref<?xf32>
        %y = arith.mulf %x, %half : f32
        memref.store %y, %out[%id] : memref<?xf32>
        return
      }
    }
  }
  func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %zero = arith.constant 0 : index
    %size = tensor.dim %a, %zero : tensor<?xf32>
    %product = arith.mulf %a, %b : tensor<?xf32>
    %halves = flow.dispatch @kernels::@halve[%size](%a, %size) : (tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}
    return %product, %halves : tensor<?xf32>, tensor<?xf32>
  }
}
"""


@contextmanager
def flushing() -> Iterator[None]:
    libm = ctypes.CDLL("libm.so.6")
    offset, bits = CONTROL[MACHINE]
    saved, changed = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    assert libm.fegetenv(saved) == 0
    changed[:] = saved[:]
    word = ctypes.c_uint32.from_buffer(changed, offset)
    word.value |= bits
    assert libm.fesetenv(changed) == 0
    try:
        yield
    finally:
        assert libm.fesetenv(saved) == 0


@pytest.mark.skipif(MACHINE not in CONTROL, reason="the denormal mode of this machine is not known here")
@pytest.mark.parametrize("device", ["local-sync", "cpu?workers=4"])
def test_denormals_are_those_of_the_caller(device: str) -> None:
    program = pd.device(device).load(pd.compile(TEXT))
    n = 200_000  # enough that every worker takes part
    tiny = np.finfo(np.float32).tiny
    a, b = np.full(n, tiny, np.float32), np.full(n, 0.25, np.float32)
    product, halves = program.main(a, b)
    assert (product == np.float32(tiny * 0.25)).all() and (product > 0).all()
    assert (halves == np.float32(tiny * 0.5)).all() and (halves > 0).all()
    with flushing():
        results = program.main(a, b)
    for result in results:
        assert (result.view(np.uint32) == 0).all()
    again, _ = program.main(a, b)
    assert again.tobytes() == product.tobytes()
