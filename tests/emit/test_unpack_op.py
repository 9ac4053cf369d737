"""pyd.unpack by itself: weights of 4 and 8 bits as scaled floats and as bytes, and what it refuses."""

from __future__ import annotations

from typing import Any

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch.ir as ir
from pydispatch.errors import CompileError

CPUS = machine_levels.parameters(["generic", "x86-64-v3", "native"])
WEIGHTS = "memref<3x24x{s}xi{b}, strided<[{r}, {s}, 1], offset: {o}>>"
KERNEL = """
func.func @kernel() {{
  %w = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<3x40x{s}xi{b}>
  %t = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<{t}x24xf32>
  %y = hal.interface.binding.subspan binding(2) : memref<{target}>
  %x = memref.reinterpret_cast %w to offset: [{o}], sizes: [3, 24, {s}], strides: [{r}, {s}, 1]
      : memref<3x40x{s}xi{b}> to {weights}
  pyd.unpack %x, %y {scaled} : {weights}, memref<{target}>{terms}
  func.return
}}
"""


def text(bits: int, terms: int, target: str = "") -> str:
    """The kernel that unpacks the columns 16 to 39 of three groups of 40; terms: 0 for bytes."""
    steps = 32 // bits
    sizes = {"s": steps, "b": bits, "r": 40 * steps, "o": 16 * steps, "t": max(terms, 2)}
    target = target or (f"{3 * steps}x24xf32" if terms else f"{3 * steps // 4}x24x4xi8")
    scaled, types = ("scaled %t", f", memref<{terms}x24xf32>") if terms else ("", "")
    return KERNEL.format(weights=WEIGHTS.format(**sizes), target=target, scaled=scaled, terms=types, **sizes)


def steps_of(words: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """The weights of groups of bytes [group][column][byte], as [group][step][column]."""
    halves = [words & 15, words >> 4] if bits == 4 else [words]
    return np.concatenate([np.moveaxis(half[:, 16:], 2, 1) for half in halves], 1)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("terms", [2, 3])
@pytest.mark.parametrize("bits", [4, 8])
def test_scaled_floats(bits: int, terms: int, cpu: str) -> None:
    rng = np.random.default_rng(bits)
    words = buffer(rng.integers(0, 256, (3, 40, 4)).astype(np.uint8))
    per_column = buffer(rng.standard_normal((terms, 24)).astype(np.float32))
    result = buffer(np.zeros((3 * 32 // bits, 24), np.float32))
    assert load(text(bits, terms), cpu=cpu, bindings=3).run(words, per_column, result) == 0
    expected = (steps_of(words, bits).astype(np.float32) - per_column[0]) * per_column[1] + sum(per_column[2:])
    np.testing.assert_array_equal(result, expected.reshape(result.shape).astype(np.float32))


@pytest.mark.parametrize("cpu", CPUS)
def test_bytes(cpu: str) -> None:
    words = buffer(np.random.default_rng(0).integers(0, 256, (3, 40, 4)).astype(np.uint8))
    result = buffer(np.zeros((6, 24, 4), np.uint8))
    assert load(text(4, 0), cpu=cpu, bindings=3).run(words, buffer(np.zeros((2, 24), np.float32)), result) == 0
    expected = steps_of(words, 4).reshape(3, 2, 4, 24).transpose(0, 1, 3, 2).reshape(6, 24, 4)
    np.testing.assert_array_equal(result, expected)


REFUSED = {
    "terms of another count": (text(4, 2).replace("memref<2x24xf32>", "memref<4x24xf32>"), "two or three f32 terms"),
    "floats without terms": (text(4, 0, "24x24xf32"), "without terms makes bytes"),
    "bytes of bytes": (text(8, 0, "3x24x4xi8"), "without terms makes bytes"),
    "fewer steps": (text(4, 2, "23x24xf32"), "makes f32 of the same steps"),
    "groups of 4 of i4": (text(4, 2).replace("24, 8]", "24, 4]").replace("x8xi4", "x4xi4"), "takes groups of 8"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    kernel, message = REFUSED[name]
    with pytest.raises(CompileError, match=message):
        ir.verify(ir.parse(kernel))
