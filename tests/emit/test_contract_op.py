"""pyd.contract by itself: strides, K at run time, every form, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import machine_levels
import numpy as np
import pytest
from kernels import buffer, load

import pydispatch as pd
import pydispatch.ir as ir
from pydispatch.errors import CompileError

KERNEL = """
func.func @kernel() {{
  %k32 = hal.interface.constant.load[0] : i32
  %k = arith.index_cast %k32 : i32 to index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<{m}x40x{t}>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<40x{n}x{t}>
  %c = hal.interface.binding.subspan binding(2) : memref<{m}x{n}x{t}>
  %x = memref.reinterpret_cast %a to offset: [0], sizes: [{m}, %k], strides: {sa}
      : memref<{m}x40x{t}> to memref<{m}x?x{t}, strided<{sa}>>
  %y = memref.reinterpret_cast %b to offset: [0], sizes: [%k, {n}], strides: {sb}
      : memref<40x{n}x{t}> to memref<?x{n}x{t}, strided<{sb}>>
  pyd.contract %x, %y, %c {how}
      : memref<{m}x?x{t}, strided<{sa}>>, memref<?x{n}x{t}, strided<{sb}>>, memref<{m}x{n}x{t}>
  func.return
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("form", ["rows", "turned a", "along k"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (4, 37), (13, 32)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_block(m: int, n: int, form: str, cpu: str, accumulate: bool) -> None:
    sa = [1, m] if form == "turned a" else [40, 1]
    sb = [1, 40] if form == "along k" else [n, 1]
    how = "accumulate" if accumulate else ""
    kernel = load(KERNEL.format(m=m, n=n, t="f32", sa=sa, sb=sb, how=how), cpu=cpu, constants=1, bindings=3)
    rng = np.random.default_rng(1)
    a, b, c = (buffer(rng.integers(-9, 9, s).astype(np.float32)) for s in ((m, 40), (40, n), (m, n)))
    left = a.ravel()[: 40 * m].reshape(40, m).T if form == "turned a" else a
    right = b.ravel().reshape(n, 40).T if form == "along k" else b
    for k in (0, 1, 7, 40):
        expected = left[:, :k] @ right[:k] + (c if accumulate else 0)
        assert kernel.run(a, b, c, constants=[k]) == 0
        np.testing.assert_array_equal(c, expected)


WINDOW = """
func.func @kernel() {{
  %h32 = hal.interface.constant.load[0] : i32
  %h = arith.index_cast %h32 : i32 to index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<48x{ta}>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<3x{k}x21{group}x{ta}>
  %c = hal.interface.binding.subspan binding(2) : memref<4x21x{tc}>
  %x = memref.reinterpret_cast %a to offset: [0], sizes: [4, %h, {k}{size}], strides: [{g}, {row}, {g}{one}]
      : memref<48x{ta}> to memref<4x?x{k}{group}x{ta}, strided<[{g}, {row}, {g}{one}]>>
  %y = memref.reinterpret_cast %b to offset: [0], sizes: [%h, {k}, 21{size}], strides: [{plane}, {line}, {g}{one}]
      : memref<3x{k}x21{group}x{ta}> to memref<?x{k}x21{group}x{ta}, strided<[{plane}, {line}, {g}{one}]>>
  pyd.contract %x, %y, %c accumulate
      : memref<4x?x{k}{group}x{ta}, strided<[{g}, {row}, {g}{one}]>>, memref<?x{k}x21{group}x{ta}, strided<[{plane}, {line}, {g}{one}]>>, memref<4x21x{tc}>
  func.return
}}
"""  # noqa: E501


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("grouped", [False, True])
def test_window(k: int, grouped: bool, cpu: str) -> None:
    """Two dimensions of K: rows of A are neighbouring windows, whose rows are 7 elements or groups apart."""
    g = 2 if grouped else 1
    parts = {"group": "x2", "size": ", 2", "one": ", 1"} if grouped else {"group": "", "size": "", "one": ""}
    types = {"ta": "i16", "tc": "i32"} if grouped else {"ta": "f32", "tc": "f32"}
    text = WINDOW.format(k=k, g=g, row=7 * g, plane=21 * k * g, line=21 * g, **parts, **types)
    kernel = load(text, cpu=cpu, constants=1, bindings=3)
    narrow, wide = (np.int16, np.int32) if grouped else (np.float32, np.float32)
    rng = np.random.default_rng(1)
    a, b, c = (buffer(rng.integers(-9, 9, s).astype(t)) for s, t in
               ((48, narrow), ((3, k, 21, g), narrow), ((4, 21), wide)))  # fmt: skip
    windows = np.array([[[[a[g * (m + 7 * h + i) + s] for s in range(g)] for i in range(k)] for h in range(3)]
                        for m in range(4)], wide)  # fmt: skip
    for h in (0, 1, 3):
        expected = np.einsum("mhks,hkns->mn", windows[:, :h], b[:h].astype(wide)) + c
        assert kernel.run(a, b, c, constants=[h]) == 0
        np.testing.assert_array_equal(c, expected)


REFUSED = {
    "memref<4x2x8xf32>, memref<3x8x4xf32>, memref<4x4xf32>": "is not memref<4x4xf32>",
    "memref<4x2x8xf32>, memref<8x4xf32>, memref<4x4xf32>": "got ranks",
    "memref<4x8xf32>, memref<9x4xf32>, memref<4x4xf32>": "is not memref<4x4xf32>",
    "memref<?x8xf32>, memref<8x4xf32>, memref<?x4xf32>": "must be static",
    "memref<4x8xf32>, memref<8x4xf32>, memref<4xf32>": "got ranks",
    "memref<4x8x3xi16>, memref<8x4x3xi16>, memref<4x4xi32>": "groups two steps of K of i16, or four or eight of i8",
    "memref<4x8x4xi16>, memref<8x4x4xi16>, memref<4x4xi32>": "groups two steps of K of i16, or four or eight of i8",
    "memref<4x8x4xi8>, memref<8x4x2xi8>, memref<4x4xi32>": "groups two steps of K of i16, or four or eight of i8",
    "memref<4x8xf64>, memref<8x4xf16>, memref<4x4xf64>": "widens rows of f16 and bf16 to f32",
    "memref<4x8xf32>, memref<8x4xi16>, memref<4x4xf32>": "widens rows of f16 and bf16 to f32",
    "memref<4x8xf32>, memref<8x4xf16, strided<[1, 8]>>, memref<4x4xf32>": "widens rows of f16 and bf16 to f32",
}


@pytest.mark.parametrize("types", REFUSED)
def test_refused(types: str) -> None:
    names = [f"%{v}: {t}" for v, t in zip("abc", re.split(", (?=memref)", types), strict=True)]
    text = f"func.func @f({', '.join(names)}) {{\n  pyd.contract %a, %b, %c : {types}\n  func.return\n}}"
    with pytest.raises(CompileError, match=REFUSED[types]):
        ir.verify(ir.parse(text))


WEIGHTS_REFUSED = {
    "memref<4x8x4xf32>, memref<8x4x4xi8>, memref<4x4xf32>": "weights that `unsigned_b` states",
    "memref<4x8x4xf32>, memref<8x4x4xi8>, memref<4x4xf64> unsigned": "multiplies f32 into f32, or i8 into i32",
    "memref<4x8x4xf32>, memref<7x4x4xi8>, memref<4x4xf32> unsigned": "in groups of 4 is not",
    "memref<4x8x4xi8>, memref<8x4x4xi4>, memref<4x4xi32> unsigned": "in groups of 8 is not",
}


@pytest.mark.parametrize("types", WEIGHTS_REFUSED)
def test_refused_weights(types: str) -> None:
    stated, how = types.removesuffix(" unsigned"), "unsigned_b " if types.endswith("unsigned") else ""
    names = [f"%{v}: {t}" for v, t in zip("abc", stated.split(", "), strict=True)]
    text = f"func.func @f({', '.join(names)}) {{\n  pyd.contract %a, %b, %c {how}: {stated}\n  func.return\n}}"
    with pytest.raises(CompileError, match=WEIGHTS_REFUSED[types]):
        ir.verify(ir.parse(text))


WEIGHTS = """
func.func @kernel() {{
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<{m}x{k}x{g}x{ta}>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<{k}x{n}x{g}x{tb}>
  %c = hal.interface.binding.subspan binding(2) : memref<{m}x{n}x{tc}>
  pyd.contract %a, %b, %c {how} unsigned_b : memref<{m}x{k}x{g}x{ta}>, memref<{k}x{n}x{g}x{tb}>, memref<{m}x{n}x{tc}>
  func.return
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize(("ta", "tb", "tc"), [("f32", "i8", "f32"), ("f32", "i4", "f32"), ("i8", "i4", "i32")])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 16, 8), (3, 37, 1), (2, 32, 11)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_weights(m: int, n: int, k: int, ta: str, tb: str, tc: str, cpu: str, accumulate: bool) -> None:
    rng, g = np.random.default_rng(1), 4 if tb == "i8" else 8
    text = WEIGHTS.format(m=m, n=n, k=k, g=g, ta=ta, tb=tb, tc=tc, how="accumulate" if accumulate else "")
    kernel = load(text, cpu=cpu, bindings=3)
    kinds = {"f32": np.float32, "i8": np.int8, "i32": np.int32}
    a, c = (buffer(rng.integers(-9, 9, s).astype(kinds[t])) for s, t in (((m, k, g), ta), ((m, n), tc)))
    stored = buffer(rng.integers(0, 256, (k, n, 4), np.uint8))
    steps = stored if tb == "i8" else np.concatenate([stored & 15, stored >> 4], 2)
    expected = np.einsum("mks,kns->mn", a.astype(np.int64), steps.astype(np.int64)) + (c if accumulate else 0)
    assert kernel.run(a, stored, c) == 0
    np.testing.assert_array_equal(c, expected)


def test_unsigned_bytes_only() -> None:
    types = "memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>"
    names = [f"%{v}: {t}" for v, t in zip("abc", types.split(", "), strict=True)]
    text = f"func.func @f({', '.join(names)}) {{\n  pyd.contract %a, %b, %c unsigned_a : {types}\n  func.return\n}}"
    with pytest.raises(CompileError, match="unsigned_a is for groups of i8"):
        ir.verify(ir.parse(text))
    with pytest.raises(CompileError, match="into_l2 is the cache that `prefetch` loads rows into; state `prefetch`"):
        ir.verify(ir.parse(text.replace("unsigned_a", "into_l2")))


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "x86-64-v4", "native"]))
def test_prefetches_change_nothing(cpu: str) -> None:
    """Rows of B far behind its end may be asked for."""
    rng = np.random.default_rng(1)
    a, b = (buffer(rng.standard_normal(s).astype(np.float32)) for s in ((5, 40), (40, 40)))
    results = []
    for how in ("", "prefetch 4096", "prefetch 4096 into_l2"):
        text = KERNEL.format(m=5, n=40, t="f32", sa="[40, 1]", sb="[40, 1]", how=how)
        kernel = load(text, cpu=cpu, constants=1, bindings=3)
        c = buffer(np.zeros((5, 40), np.float32))
        assert kernel.run(a, b, c, constants=[40]) == 0
        results.append(c.tobytes())
    assert results[0] == results[1] == results[2]


GROUPS = """
func.func @kernel() {{
  %k32 = hal.interface.constant.load[0] : i32
  %k = arith.index_cast %k32 : i32 to index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<{m}x10x4xi8>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<10x{n}x4xi8>
  %c = hal.interface.binding.subspan binding(2) : memref<{m}x{n}xi32>
  %x = memref.reinterpret_cast %a to offset: [0], sizes: [{m}, %k, 4], strides: [40, 4, 1]
      : memref<{m}x10x4xi8> to memref<{m}x?x4xi8, strided<[40, 4, 1]>>
  %y = memref.reinterpret_cast %b to offset: [0], sizes: [%k, {n}, 4], strides: [{n4}, 4, 1]
      : memref<10x{n}x4xi8> to memref<?x{n}x4xi8, strided<[{n4}, 4, 1]>>
  pyd.contract %x, %y, %c {how}
      : memref<{m}x?x4xi8, strided<[40, 4, 1]>>, memref<?x{n}x4xi8, strided<[{n4}, 4, 1]>>, memref<{m}x{n}xi32>
  func.return
}}
"""


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "x86-64-v4", "native"]))
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 5), (4, 40), (13, 32)])
@pytest.mark.parametrize("how", ["", "accumulate unsigned_a", "unsigned_b", "unsigned_a unsigned_b"])
def test_groups_of_bytes(m: int, n: int, how: str, cpu: str) -> None:
    """With the instruction, where it is native, and without it, in vectors of every width."""
    kernel = load(GROUPS.format(m=m, n=n, n4=4 * n, how=how), cpu=cpu, constants=1, bindings=3)
    rng = np.random.default_rng(1)
    a, b = (buffer(rng.integers(-128, 128, s).astype(np.int8)) for s in ((m, 10, 4), (10, n, 4)))
    c = buffer(rng.integers(-9, 9, (m, n)).astype(np.int32))
    types = [np.uint8 if f"unsigned_{name}" in how else np.int8 for name in "ab"]
    left, right = (x.view(type_).astype(np.int32) for x, type_ in zip((a, b), types, strict=True))
    for k in (0, 1, 10):
        expected = np.einsum("mks,kns->mn", left[:, :k], right[:k]) + (c if "accumulate" in how else 0)
        assert kernel.run(a, b, c, constants=[k]) == 0
        np.testing.assert_array_equal(c, expected)


def test_groups_of_eight_need_their_instruction() -> None:
    """`tests/e2e/test_emulated_models.py` runs them."""
    four = GROUPS.format(m=3, n=5, n4=20, how="")
    eight = four.replace("x4xi8", "x8xi8").replace(", 4]", ", 8]").replace("[40, 4, 1]", "[80, 8, 1]")
    text = eight.replace("[20, 4, 1]", "[40, 8, 1]")
    with pytest.raises(CompileError, match="groups of eight bytes only for aarch64 with i8mm"):
        load(text, cpu="generic", constants=1, bindings=3)


def test_printed_as_read() -> None:
    types = "memref<4x8xf32>, memref<8x4xf32>, memref<4x4xf32>"
    for how in ("", " accumulate", " prefetch 4096", " prefetch 4096 into_l2"):
        text = f"func.func @f(%a: {types.split(', ')[0]}, %b: memref<8x4xf32>, %c: memref<4x4xf32>) {{\n" \
               f"  pyd.contract %a, %b, %c{how} : {types}\n  func.return\n}}"  # fmt: skip
        printed = ir.print_module(ir.parse(text))
        assert f"%c{how} : {types}" in printed and ir.print_module(ir.parse(printed)) == printed


@pytest.mark.parametrize(("channels", "are_unrolled"), [(512, False), (8, True)])
def test_loops_that_pack_long_rows_stay_loops(channels: int, are_unrolled: bool, tmp_path: Path) -> None:
    """If LLVM unrolled the loop around one of a row, each step would become a loop."""
    c = channels
    x, f, y = f"tensor<1x14x14x{c}xf32>", f"tensor<3x3x{c}x{c}xf32>", f"tensor<1x6x6x{c}xf32>"
    convolution = (
        "stablehlo.convolution(%x, %f) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
    )
    text = f"func.func @main(%x: {x}, %f: {f}) -> {y} {{\n%y = {convolution} : ({x}, {f}) -> {y}\nreturn %y : {y}\n}}"
    pd.compile(text, targets=("x86_64",), cpu="x86-64-v4", dump=tmp_path)
    (optimized,) = tmp_path.glob("*.optimized.ll")
    emitted = optimized.with_name(optimized.name.replace(".optimized", ""))
    counts = [path.read_text().count("!llvm.loop !") for path in (emitted, optimized)]
    assert counts[1] < counts[0] if are_unrolled else counts[1] == counts[0]


TWO_PRODUCTS = """
func.func @kernel() {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = arith.constant 5 : index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<5x{k}xf32>
  %b = hal.interface.binding.subspan binding(1) flags(ReadOnly) : memref<{k}x{n}xf32>
  %d = hal.interface.binding.subspan binding(2) flags(ReadOnly) : memref<{n}x16xf32>
  %c = hal.interface.binding.subspan binding(3) : memref<5x16xf32>
  %ab = {memory} : memref<1x{n}xf32{space}>
  scf.for %i = %c0 to %count step %c1 {{
    %row = memref.subview %a[%i, 0] [1, {k}] [1, 1]
        : memref<5x{k}xf32> to memref<1x{k}xf32, strided<[{k}, 1], offset: ?>>
    %result = memref.subview %c[%i, 0] [1, 16] [1, 1]
        : memref<5x16xf32> to memref<1x16xf32, strided<[16, 1], offset: ?>>
    pyd.contract %row, %b, %ab
        : memref<1x{k}xf32, strided<[{k}, 1], offset: ?>>, memref<{k}x{n}xf32>, memref<1x{n}xf32{space}>
    pyd.contract %ab, %d, %result
        : memref<1x{n}xf32{space}>, memref<{n}x16xf32>, memref<1x16xf32, strided<[16, 1], offset: ?>>
  }}
  func.return
}}
"""


@pytest.mark.parametrize(("k", "n"), [(4, 64), (1, 16)])
@pytest.mark.parametrize("memory", ["hal.interface.binding.subspan binding(4)", "memref.alloc()"])
def test_block_is_a_factor_of_the_next_product(memory: str, k: int, n: int) -> None:
    in_workgroup = memory == "memref.alloc()"
    text = TWO_PRODUCTS.format(k=k, n=n, memory=memory, space=", 3" if in_workgroup else "")
    rng = np.random.default_rng(1)
    a, b, d = (buffer(rng.integers(-9, 9, s).astype(np.float32)) for s in ((5, k), (k, n), (n, 16)))
    c, product = buffer(np.full((5, 16), np.nan, np.float32)), buffer(np.full((1, n), np.nan, np.float32))
    assert load(text, bindings=5).run(a, b, d, c, product) == 0
    np.testing.assert_array_equal(c, a @ b @ d)


SUBSTITUTION = """
func.func @kernel() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = arith.constant 4 : index
  %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<4x4xf32>
  %x = hal.interface.binding.subspan binding(1) : memref<4x16xf32>
  scf.for %i = %c0 to %count step %c1 {
    %row = memref.subview %a[%i, 0] [1, %i] [1, 1] : memref<4x4xf32> to memref<1x?xf32, strided<[4, 1], offset: ?>>
    %before = memref.subview %x[0, 0] [%i, 16] [1, 1] : memref<4x16xf32> to memref<?x16xf32, strided<[16, 1]>>
    %here = memref.subview %x[%i, 0] [1, 16] [1, 1] : memref<4x16xf32> to memref<1x16xf32, strided<[16, 1], offset: ?>>
    pyd.contract %row, %before, %here accumulate : memref<1x?xf32, strided<[4, 1], offset: ?>>,
        memref<?x16xf32, strided<[16, 1]>>, memref<1x16xf32, strided<[16, 1], offset: ?>>
  }
  func.return
}
"""


def test_block_is_a_factor_of_a_later_iteration() -> None:
    rng = np.random.default_rng(1)
    a, x = (buffer(rng.integers(-3, 3, s).astype(np.float32)) for s in ((4, 4), (4, 16)))
    expected = x.copy()
    for i in range(4):
        expected[i] += a[i, :i] @ expected[:i]
    assert load(SUBSTITUTION, bindings=2).run(a, x) == 0
    np.testing.assert_array_equal(x, expected)
