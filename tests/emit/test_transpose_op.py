"""pyd.transpose by itself: sizes of elements, strides, squares of every side, and what it refuses."""

from __future__ import annotations

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch.ir as ir
from pydispatch.errors import CompileError

KERNEL = """
func.func @kernel() {{
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<40x70x{t}>
  %b = hal.interface.binding.subspan binding(1) : memref<40x70x{t}>
  %x = memref.reinterpret_cast %a to offset: [3], sizes: [{r}, {c}], strides: [70, 1]
      : memref<40x70x{t}> to memref<{r}x{c}x{t}, strided<[70, 1], offset: 3>>
  %y = memref.reinterpret_cast %b to offset: [5], sizes: [{c}, {r}], strides: [{s}, 1]
      : memref<40x70x{t}> to memref<{c}x{r}x{t}, strided<[{s}, 1], offset: 5>>
  pyd.transpose %x, %y : memref<{r}x{c}x{t}, strided<[70, 1], offset: 3>>, memref<{c}x{r}x{t}, strided<[{s}, 1], offset: 5>>
  func.return
}}
"""  # noqa: E501
TYPES = {"f64": np.float64, "f32": np.float32, "i16": np.int16, "i8": np.int8, "f16": np.float16}


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(("r", "c"), [(1, 1), (16, 16), (32, 16), (8, 24), (6, 4), (5, 3), (16, 32)])
def test_block(r: int, c: int, type_: str, cpu: str) -> None:
    kernel = load(KERNEL.format(r=r, c=c, s=r + 3, t=type_), cpu=cpu, bindings=2)
    rng = np.random.default_rng(1)
    a = buffer(rng.integers(-100, 100, (40, 70)).astype(TYPES[type_]))
    b = buffer(np.full((40, 70), 7, TYPES[type_]))
    expected = b.copy()
    view = np.lib.stride_tricks.as_strided(expected.ravel()[5:], (c, r), ((r + 3) * a.itemsize, a.itemsize))
    view[...] = np.lib.stride_tricks.as_strided(a.ravel()[3:], (r, c), (70 * a.itemsize, a.itemsize)).T
    assert kernel.run(a, b) == 0
    np.testing.assert_array_equal(b, expected)


def test_target_of_fewer_rows_and_columns() -> None:
    """Elements that the target has no place for are not stored anywhere."""
    text = KERNEL.format(r=16, c=32, s=19, t="i8")
    text = text.replace("sizes: [32, 16]", "sizes: [21, 10]").replace("memref<32x16xi8", "memref<21x10xi8")
    kernel = load(text, bindings=2)
    a, b = buffer(np.arange(2800).astype(np.int8).reshape(40, 70)), buffer(np.full((40, 70), 7, np.int8))
    expected = b.copy()
    view = np.lib.stride_tricks.as_strided(expected.ravel()[5:], (21, 10), (19, 1))
    view[...] = np.lib.stride_tricks.as_strided(a.ravel()[3:], (10, 21), (70, 1)).T
    assert kernel.run(a, b) == 0
    np.testing.assert_array_equal(b, expected)


REFUSED = {
    "memref<?x8xf32>, memref<8x?xf32>": "static blocks",
    "memref<4x8xf32>, memref<4x8xf32>": "is not memref<4x8xf32>",
    "memref<4x8xf32>, memref<8x4xi32>": "is not memref<8x4xi32>",
    "memref<4x8xf32>, memref<9x4xf32>": "is not memref<9x4xf32>, nor a part of it",
    "memref<4x8xf32>, memref<8x5xf32>": "is not memref<8x5xf32>, nor a part of it",
}


@pytest.mark.parametrize("types", REFUSED)
def test_refused(types: str) -> None:
    names = [f"%{v}: {t}" for v, t in zip("ab", types.split(", "), strict=True)]
    text = f"func.func @f({', '.join(names)}) {{\n  pyd.transpose %a, %b : {types}\n  func.return\n}}"
    with pytest.raises(CompileError, match=REFUSED[types]):
        ir.verify(ir.parse(text))


def test_rows_apart_are_refused() -> None:
    text = KERNEL.format(r=4, c=4, s=8, t="f32").replace("[8, 1]", "[8, 2]")
    with pytest.raises(CompileError, match="rows that are contiguous"):
        load(text, bindings=2)


def test_printed_as_read() -> None:
    text = "func.func @f(%a: memref<4x8xf32>, %b: memref<8x4xf32>) {\n" \
           "  pyd.transpose %a, %b : memref<4x8xf32>, memref<8x4xf32>\n  func.return\n}"  # fmt: skip
    printed = ir.print_module(ir.parse(text))
    assert "pyd.transpose %a, %b : memref<4x8xf32>, memref<8x4xf32>" in printed
    assert ir.print_module(ir.parse(printed)) == printed
