"""pyd.prefix_scan by itself: kinds, elements and sizes against NumPy, and what it refuses."""

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
  %b = hal.interface.binding.subspan binding(1) : memref<1x{t}>
  %zero = arith.constant 0 : index
  %initial = arith.constant 3 : {t}
  %x = memref.reinterpret_cast %a to offset: [7], sizes: [{n}], strides: [{s}]
      : memref<100x{t}> to memref<{n}x{t}, strided<[{s}], offset: 7>>
  %last = pyd.prefix_scan "arith.{kind}" %initial, %x : {t}, memref<{n}x{t}, strided<[{s}], offset: 7>>
  memref.store %last, %b[%zero] : memref<1x{t}>
  func.return
}}
"""
TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
KINDS = {
    "addi": np.add, "muli": np.multiply, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "maxsi": np.maximum, "minsi": np.minimum, "maxui": np.maximum, "minui": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_scan(kind: str, type_: str, cpu: str) -> None:
    """Sizes are those of a vector, of several, of a part of one, and of one element."""
    dtype = np.dtype(TYPES[type_])
    values = np.random.default_rng(1).integers(-100, 100, 100).astype(dtype)
    operands = values.view(f"u{dtype.itemsize}") if kind in ("maxui", "minui") else values
    for n in (16, 43, 5, 1):
        kernel = load(KERNEL.format(n=n, s=1, t=type_, kind=kind), cpu=cpu, bindings=2)
        a, b = buffer(values), buffer(np.zeros(1, dtype))
        assert kernel.run(a, b) == 0
        elements = np.concatenate([np.array([3], operands.dtype), operands[7 : 7 + n]])
        scanned = KINDS[kind].accumulate(elements, dtype=operands.dtype)[1:].view(dtype)
        np.testing.assert_array_equal(a, np.concatenate([values[:7], scanned, values[7 + n :]]))
        assert b[0] == scanned[-1]


REFUSED = {
    '"arith.subi" %i, %a : i32, memref<8xi32>': "combines by one of arith.addi",
    '"arith.addi" %i, %a : i32, memref<?xi32>': "a static line of i32",
    '"arith.addi" %i, %a : i32, memref<8x1xi32>': "a static line of i32",
    '"arith.addi" %i, %a : i32, memref<8xi64>': "a static line of i32, got memref<8xi64>",
    '"arith.addi" %i, %a : i4, memref<8xi4>': "a static line of i4",
}


@pytest.mark.parametrize("line", REFUSED)
def test_scan_that_is_refused(line: str) -> None:
    element, block = line.split(" : ")[1].split(", ")
    text = f"func.func @f(%i: {element}, %a: {block}) {{\n  %r = pyd.prefix_scan {line}\n  func.return\n}}"
    with pytest.raises(CompileError, match=REFUSED[line]):
        ir.verify(ir.parse(text))


def test_elements_apart_are_refused() -> None:
    with pytest.raises(CompileError, match="contiguous"):
        load(KERNEL.format(n=16, s=2, t="i32", kind="addi"), bindings=2)


def test_scan_printed_as_read() -> None:
    text = 'func.func @f(%i: i32, %a: memref<8xi32>) {\n  %r = pyd.prefix_scan "arith.addi" %i, %a : i32, memref<8xi32>'
    printed = ir.print_module(ir.parse(f"{text}\n  func.return\n}}"))
    assert '= pyd.prefix_scan "arith.addi" %i, %a : i32, memref<8xi32>' in printed
