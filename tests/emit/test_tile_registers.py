"""pyd.configure_tiles: blocks of bytes in the matrix registers of AMX, where this machine has them, with the
same results as elsewhere."""

from __future__ import annotations

import re
import struct

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch.ir as ir
from pydispatch.compiler.emit.llvm.ops.tile_registers import configuration
from pydispatch.errors import CompileError

CPUS = machine_levels.parameters(["native", "sapphirerapids"])

BLOCK = """
func.func @kernel() {{
  %k32 = hal.interface.constant.load[0] : i32
  %k = arith.index_cast %k32 : i32 to index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<{m}x2x40x4xi8>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<2x40x{n}x4xi8>
  %c = hal.interface.binding.subspan binding(2) : memref<{m}x{n}xi32>
  %x = memref.reinterpret_cast %a to offset: [0], sizes: [{m}, 2, {k}, 4], strides: [320, 160, 4, 1]
      : memref<{m}x2x40x4xi8> to memref<{m}x2x{size}x4xi8, strided<[320, 160, 4, 1]>>
  %y = memref.reinterpret_cast %b to offset: [0], sizes: [2, {k}, {n}, 4], strides: [{far}, {n4}, 4, 1]
      : memref<2x40x{n}x4xi8> to memref<2x{size}x{n}x4xi8, strided<[{far}, {n4}, 4, 1]>>
  {before}
  pyd.contract %x, %y, %c {how}
      : memref<{m}x2x{size}x4xi8, strided<[320, 160, 4, 1]>>, memref<2x{size}x{n}x4xi8, strided<[{far}, {n4}, 4, 1]>>, memref<{m}x{n}xi32>
  {after}
  func.return
}}
"""  # noqa: E501
"""A product over two dimensions of K, the last of which has `size` groups, or as many as the call says."""


def block(m: int, n: int, how: str, size: int | str, tiles: str, after: str = "pyd.release_tiles") -> str:
    """The kernel with `tiles` before its product and `after` behind it."""
    k, far = "%k" if size == "?" else size, 40 * 4 * n
    return BLOCK.format(m=m, n=n, n4=4 * n, far=far, k=k, size=size, how=how, before=tiles, after=after)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize(
    ("m", "n", "steps"), [(32, 32, 16), (16, 16, 16), (1, 32, 10), (17, 16, 5), (31, 19, 8), (5, 3, 1)]
)
@pytest.mark.parametrize("how", ["", "accumulate unsigned_a", "unsigned_b", "unsigned_a unsigned_b"])
@pytest.mark.parametrize("size", ["?", 40, 37])
def test_blocks(m: int, n: int, steps: int, how: str, size: int | str, cpu: str) -> None:
    """Whole steps and what is left of K, into new sums and into old ones, for all signs."""
    kernel = load(block(m, n, how, size, f"pyd.configure_tiles {m}, {n}, {steps}"), cpu=cpu, constants=1, bindings=3)
    rng = np.random.default_rng(1)
    a, b = (buffer(rng.integers(-128, 128, s).astype(np.int8)) for s in ((m, 2, 40, 4), (2, 40, n, 4)))
    c = buffer(rng.integers(-9, 9, (m, n)).astype(np.int32))
    types = [np.uint8 if f"unsigned_{name}" in how else np.int8 for name in "ab"]
    left, right = (x.view(type_).astype(np.int32) for x, type_ in zip((a, b), types, strict=True))
    for k in (0, 1, 16, 33, 40) if size == "?" else (int(size),):
        expected = np.einsum("mjks,jkns->mn", left[:, :, :k], right[:, :k]) + (c if "accumulate" in how else 0)
        assert kernel.run(a, b, c, constants=[k]) == 0
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("cpu", [*CPUS, "generic"])
@pytest.mark.parametrize(("m", "n", "steps"), [(32, 32, 16), (1, 32, 10), (17, 16, 5), (31, 19, 8), (5, 3, 1)])
@pytest.mark.parametrize("how", ["", "accumulate"])
@pytest.mark.parametrize("size", ["?", 40, 37])
def test_blocks_of_bf16(m: int, n: int, steps: int, how: str, size: int | str, cpu: str) -> None:
    """Pairs into f32. Small integers, whose sums are exact in any order."""
    text = block(m, n, how, size, f"pyd.configure_tiles {m}, {n}, {steps}")
    text = text.replace("x4xi8", "x2xbf16").replace("xi32>", "xf32>").replace(", 4]", ", 2]").replace("4, 1]", "2, 1]")
    text = text.replace("[320, 160,", "[160, 80,").replace(f"[{160 * n}, {4 * n},", f"[{80 * n}, {2 * n},")
    kernel = load(text, cpu=cpu, constants=1, bindings=3)
    rng = np.random.default_rng(1)
    left, right = (rng.integers(-9, 9, s).astype(np.float32) for s in ((m, 2, 40, 2), (2, 40, n, 2)))
    a, b = (buffer((x.view(np.uint32) >> 16).astype(np.uint16)) for x in (left, right))
    c = buffer(rng.integers(-9, 9, (m, n)).astype(np.float32))
    for k in (0, 1, 16, 33, 40) if size == "?" else (int(size),):
        expected = np.einsum("mjks,jkns->mn", left[:, :, :k], right[:, :k]) + (c if how else 0)
        assert kernel.run(a, b, c, constants=[k]) == 0
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("cpu", CPUS)
def test_only_blocks_of_the_shape(cpu: str) -> None:
    """A product of another shape, and one after the registers were released, use other instructions."""
    twice = (
        "pyd.contract %x, %y, %c : memref<8x2x40x4xi8, strided<[320, 160, 4, 1]>>, "
        "memref<2x40x16x4xi8, strided<[2560, 64, 4, 1]>>, memref<8x16xi32>"
    )
    for tiles, after in (
        ("pyd.configure_tiles 16, 16, 8", "pyd.release_tiles"), ("", ""),
        ("pyd.configure_tiles 8, 16, 8\n  pyd.release_tiles", ""),
        (f"pyd.configure_tiles 4, 4, 4\n  {twice}\n  pyd.configure_tiles 8, 16, 8", f"{twice}\n  pyd.release_tiles"),
    ):  # fmt: skip
        kernel = load(block(8, 16, "", 40, tiles, after), cpu=cpu, constants=1, bindings=3)
        rng = np.random.default_rng(2)
        a, b = (buffer(rng.integers(-128, 128, s).astype(np.int8)) for s in ((8, 2, 40, 4), (2, 40, 16, 4)))
        c = buffer(np.zeros((8, 16), np.int32))
        assert kernel.run(a, b, c, constants=[40]) == 0
        np.testing.assert_array_equal(c, np.einsum("mjks,jkns->mn", a.astype(np.int32), b.astype(np.int32)))


def test_the_configuration_is_that_of_the_manual() -> None:
    """Palette 1; of each register the bytes of a row, then its rows."""
    data = configuration(17, 32, 12)
    widths, rows = struct.unpack_from("<8H", data, 16), struct.unpack_from("8B", data, 48)
    assert len(data) == 64 and data[:2] == b"\1\0" and not any(data[2:16]) and not any(data[56:])
    assert widths == (64, 64, 64, 64, 48, 48, 64, 64) and rows == (16, 16, 1, 1, 16, 1, 12, 12)
    assert struct.unpack_from("<8H", configuration(3, 5, 16), 16) == (20, 0, 0, 0, 64, 0, 20, 0)


@pytest.mark.parametrize("sizes", ["33, 16, 16", "16, 33, 16", "16, 16, 17", "0, 16, 16", "16, 16, 0"])
def test_refused_sizes(sizes: str) -> None:
    with pytest.raises(CompileError, match=re.escape(f"1 to 32 rows and columns, and 1 to 16 steps; got {sizes}")):
        ir.verify(ir.parse(f"func.func @f() {{\n  pyd.configure_tiles {sizes}\n  func.return\n}}"))


def test_refused_in_a_function_that_is_called() -> None:
    """It would change the registers of the caller."""
    helper = "func.func private @helper() {\n  pyd.configure_tiles 16, 16, 16\n  pyd.release_tiles\n  func.return\n}"
    text = f"{helper}\nfunc.func @kernel() {{\n  func.call @helper() : () -> ()\n  func.return\n}}"
    with pytest.raises(CompileError, match="configure_tiles is in a function that another function calls"):
        load(text, cpu="sapphirerapids", constants=0, bindings=0)


def test_printed_as_read() -> None:
    text = "func.func @f() {\n  pyd.configure_tiles 16, 32, 8\n  pyd.release_tiles\n  func.return\n}"
    printed = ir.print_module(ir.parse(text))
    assert "pyd.configure_tiles 16, 32, 8" in printed and ir.print_module(ir.parse(printed)) == printed
