"""pyd.prefetch by itself: one instruction for each cache line, and what it refuses."""

from __future__ import annotations

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch.ir as ir
from pydispatch.errors import CompileError

KERNEL = """
func.func @kernel() {{
  %a = hal.interface.binding.subspan binding(0) : memref<40x70x{t}>
  %x = memref.reinterpret_cast %a to offset: [3], sizes: [{r}, {c}], strides: [{s}, {u}]
      : memref<40x70x{t}> to memref<{r}x{c}x{t}, strided<[{s}, {u}], offset: 3>>
  pyd.prefetch %x : memref<{r}x{c}x{t}, strided<[{s}, {u}], offset: 3>>
  func.return
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize(("r", "c", "s"), [(1, 1, 70), (16, 64, 70), (3, 70, 100000)])
def test_memory_is_unchanged(r: int, c: int, s: int, cpu: str) -> None:
    """Prefetches write nothing, and may be of memory that does not exist."""
    kernel = load(KERNEL.format(r=r, c=c, s=s, u=1, t="f32"), cpu=cpu, bindings=1)
    memory = buffer(np.arange(2800, dtype=np.float32).reshape(40, 70))
    expected = memory.copy()
    assert kernel.run(memory) == 0
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize(("type_", "stride", "message"), [("f32", 2, "contiguous rows"), ("i4", 1, "whole bytes")])
def test_blocks_that_are_refused(type_: str, stride: int, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        load(KERNEL.format(r=4, c=8, s=70, u=stride, t=type_), bindings=1)


@pytest.mark.parametrize("type_", ["memref<?x8xf32>", "memref<8xf32>"])
def test_shapes_that_are_refused(type_: str) -> None:
    with pytest.raises(CompileError, match="static block of two dimensions"):
        ir.verify(ir.parse(f"func.func @f(%a: {type_}) {{\n  pyd.prefetch %a : {type_}\n  func.return\n}}"))
