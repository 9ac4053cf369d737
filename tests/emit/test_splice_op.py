"""pyd.splice by itself: all shifts against NumPy, and what it refuses."""

from __future__ import annotations

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch.ir as ir
from pydispatch.errors import CompileError

KERNEL = """
func.func @kernel() {{
  %a = hal.interface.binding.subspan binding(0) : memref<100x{t}>
  %b = hal.interface.binding.subspan binding(1) : memref<{n}x{t}>
  %low = memref.reinterpret_cast %a to offset: [7], sizes: [{n}], strides: [{s}]
      : memref<100x{t}> to memref<{n}x{t}, strided<[{s}], offset: 7>>
  %high = memref.reinterpret_cast %a to offset: [50], sizes: [{n}], strides: [{s}]
      : memref<100x{t}> to memref<{n}x{t}, strided<[{s}], offset: 50>>
  pyd.splice %low, %high, %b first = {first} : i64 : memref<{n}x{t}, strided<[{s}], offset: 7>>,
      memref<{n}x{t}, strided<[{s}], offset: 50>>, memref<{n}x{t}>
  func.return
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("type_", ["f32", "i32", "f64", "i8"])
def test_splice(type_: str, cpu: str) -> None:
    """Lines are a vector, a part of one, and one element."""
    dtype = {"f32": np.float32, "i32": np.int32, "f64": np.float64, "i8": np.int8}[type_]
    values = np.arange(100).astype(dtype)
    for n in (16, 5, 1):
        both = np.concatenate([values[7 : 7 + n], values[50 : 50 + n]])
        for first in {0, 1, n // 2, n - 1} & set(range(n)):
            kernel = load(KERNEL.format(n=n, s=1, t=type_, first=first), cpu=cpu, bindings=2)
            a, b = buffer(values), buffer(np.zeros(n, dtype))
            assert kernel.run(a, b) == 0
            np.testing.assert_array_equal(b, both[first : first + n])


REFUSED = {
    "first = 8 : i64 : memref<8xf32>, memref<8xf32>, memref<8xf32>": "begins in the first line, of 8 elements",
    "first = -1 : i64 : memref<8xf32>, memref<8xf32>, memref<8xf32>": "begins in the first line",
    "first = 1 : i64 : memref<?xf32>, memref<?xf32>, memref<?xf32>": "static lines of one type",
    "first = 0 : i64 : memref<8x2xf32>, memref<8x2xf32>, memref<8x2xf32>": "static lines of one type",
    "first = 1 : i64 : memref<8xf32>, memref<4xf32>, memref<8xf32>": "static lines of one type",
    "first = 1 : i64 : memref<8xf32>, memref<8xf32>, memref<8xi32>": "static lines of one type",
}


@pytest.mark.parametrize("line", REFUSED)
def test_splice_that_is_refused(line: str) -> None:
    types = line.split("i64 : ")[1].split(", ")
    arguments = ", ".join(f"%{name}: {type_}" for name, type_ in zip("abc", types, strict=True))
    text = f"func.func @f({arguments}) {{\n  pyd.splice %a, %b, %c {line}\n  func.return\n}}"
    with pytest.raises(CompileError, match=REFUSED[line]):
        ir.verify(ir.parse(text))


def test_elements_apart_are_refused() -> None:
    with pytest.raises(CompileError, match="contiguous"):
        load(KERNEL.format(n=16, s=2, t="f32", first=1), bindings=2)


def test_splice_printed_as_read() -> None:
    line = "pyd.splice %a, %a, %a first = 3 : i64 : memref<8xf32>, memref<8xf32>, memref<8xf32>"
    printed = ir.print_module(ir.parse(f"func.func @f(%a: memref<8xf32>) {{\n  {line}\n  func.return\n}}"))
    assert line in printed
