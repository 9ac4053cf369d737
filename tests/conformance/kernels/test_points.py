"""Loops over points: which of them run, reductions over them, and memory that changes hands between loops."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from points import LOOPS, TURNED, f32, invocations, kernel, packed_elements, private_memory, reductions_in_loop


@pytest.mark.parametrize("size", [(0, 0, 0), (32, 1, 1), (8, 4, 2), (5, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("points", [0, 1, 63, 64, 65, 256, 300, 1000])
def test_every_point_once(size: tuple[int, int, int], points: int) -> None:
    """Static and dynamic numbers of points, whatever the shape of the workgroup."""
    source = kernel(f"""
      %n = hal.interface.constant.load ordinal(0) : index
      %static = hal.interface.binding.subspan binding(0) : memref<{max(points, 1)}xi32>
      %dynamic = hal.interface.binding.subspan binding(1) : memref<?xi32>{{%n}}
      %top = arith.constant {points} : index
      %one = arith.constant 1 : i32
      scf.parallel (%i) = (%c0) to (%top) step (%c1) {{
        %x = memref.load %static[%i] : memref<{max(points, 1)}xi32>
        %y = arith.addi %x, %one : i32
        memref.store %y, %static[%i] : memref<{max(points, 1)}xi32>
      }}
      scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
        %x = memref.load %dynamic[%i] : memref<?xi32>
        %y = arith.addi %x, %one : i32
        memref.store %y, %dynamic[%i] : memref<?xi32>
      }}""")
    one, two = np.zeros(max(points, 1), np.int32), np.zeros(max(points, 1), np.int32)
    load(source, bindings=2, constants=1, workgroup_size=size).run(one, two, constants=[points])
    assert one.sum() == two.sum() == points and (one[:points] == 1).all() and (two[:points] == 1).all()


@pytest.mark.parametrize("width", [32, 64])
def test_dimensions_and_steps(width: int) -> None:
    """Ranges with steps, empty and turned ones, numbered in 32 and in 64 bits."""
    source = kernel("""
      %m = hal.interface.binding.subspan binding(0) : memref<7x9x11xi32>
      %low = hal.interface.constant.load ordinal(0) : index
      %high = hal.interface.constant.load ordinal(1) : index
      %minus = arith.constant -4 : index
      %three = arith.constant 3 : i32
      scf.parallel (%i, %j, %k) = (%low, %c1, %c0) to (%high, %high, %c5) step (%c2, %c3, %c1) {
        memref.store %three, %m[%i, %j, %k] : memref<7x9x11xi32>
      }
      scf.parallel (%i, %j) = (%high, %high) to (%low, %low) step (%c1, %c1) {
        memref.store %three, %m[%c0, %c0, %c0] : memref<7x9x11xi32>
      }
      scf.parallel (%i, %j) = (%c0, %low) to (%minus, %c0) step (%c1, %c1) {
        memref.store %three, %m[%c0, %c0, %c0] : memref<7x9x11xi32>
      }""", f"attributes {{pyd.index_width = {width} : i64}}")  # fmt: skip
    out = np.zeros((7, 9, 11), np.int32)
    load(source, bindings=1, constants=2).run(out, constants=[1, 7])
    want = np.zeros_like(out)
    want[1:7:2, 1:7:3, 0:5] = 3
    assert np.array_equal(out, want)


OPS = {
    "addi": ("i32", np.sum), "muli": ("i32", np.prod), "andi": ("i32", np.bitwise_and.reduce),
    "ori": ("i32", np.bitwise_or.reduce), "xori": ("i32", np.bitwise_xor.reduce), "minsi": ("i32", np.min),
    "maxsi": ("i32", np.max), "maximumf": ("f32", np.max), "minimumf": ("f32", np.min),
}  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 16, 32, 64, 96, 48, 256, 1024])
@pytest.mark.parametrize("name", OPS)
def test_distributed_reductions(name: str, count: int) -> None:
    """Warps, parts of one, and numbers that are neither; two results at once, used by all invocations."""
    type_, reference = OPS[name]
    source = kernel(f"""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<1000x{type_}>
      %b = hal.interface.binding.subspan binding(1) : memref<2000x{type_}>
      %start = memref.load %a[%c0] : memref<1000x{type_}>
      %r:2 = scf.parallel (%i) = (%c1) to (%c1000) step (%c1) init (%start, %start) -> ({type_}, {type_}) {{
        %x = memref.load %a[%i] : memref<1000x{type_}>
        scf.reduce(%x, %x : {type_}, {type_}) {{
        ^bb0(%l: {type_}, %r: {type_}):
          %s = arith.{name} %l, %r : {type_}
          scf.reduce.return %s : {type_}
        }}, {{
        ^bb0(%l: {type_}, %r: {type_}):
          %s = arith.{name} %r, %l : {type_}
          scf.reduce.return %s : {type_}
        }}
      }}
      %top = arith.constant 2000 : index
      scf.parallel (%i) = (%c0) to (%top) step (%c2) {{
        memref.store %r#0, %b[%i] : memref<2000x{type_}>
        %j = arith.addi %i, %c1 : index
        memref.store %r#1, %b[%j] : memref<2000x{type_}>
      }}""", invocations(count))  # fmt: skip
    rng = np.random.default_rng(count)
    a = f32(1000, seed=count) if type_ == "f32" else rng.integers(-(2**31), 2**31, 1000, dtype=np.int32)
    b = np.zeros(2000, a.dtype)
    load(source, bindings=2).run(a, b)
    with np.errstate(over="ignore"):
        assert (b == reference(a).astype(a.dtype)).all()


@pytest.mark.parametrize("type_", ["i1", "i4", "i8", "i16", "i64", "f16", "bf16", "f64"])
def test_reductions_of_all_widths(type_: str) -> None:
    """Registers of every width go through shuffles and workgroup memory."""
    name, wide = ("maximumf", "f64") if "f" in type_ else ("xori", "i64")
    to, back = ("truncf", "extf") if "f" in type_ else ("trunci", "extui")

    def cast(op: str, value: str, source: str, target: str) -> str:
        return (
            f"arith.{op} {value} : {source} to {target}"
            if source != target
            else f"arith.bitcast {value} : {source} to {source}"
        )

    source = kernel(f"""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<256x{wide}>
      %b = hal.interface.binding.subspan binding(1) : memref<1x{wide}>
      %w = memref.load %a[%c0] : memref<256x{wide}>
      %start = {cast(to, "%w", wide, type_)}
      %r = scf.parallel (%i) = (%c1) to (%c256) step (%c1) init (%start) -> {type_} {{
        %v = memref.load %a[%i] : memref<256x{wide}>
        %x = {cast(to, "%v", wide, type_)}
        scf.reduce(%x : {type_}) {{
        ^bb0(%l: {type_}, %r: {type_}):
          %s = arith.{name} %l, %r : {type_}
          scf.reduce.return %s : {type_}
        }}
      }}
      %out = {cast(back, "%r", type_, wide)}
      memref.store %out, %b[%c0] : memref<1x{wide}>""", invocations(128))  # fmt: skip
    rng = np.random.default_rng(3)
    if "f" in type_:
        a = np.floor(rng.standard_normal(256) * 50) / 4
        want: float = a.max()
    else:
        a = rng.integers(0, 2**62, 256)
        want = int(np.bitwise_xor.reduce(a)) & ((1 << int(type_[1:])) - 1)
    b = np.zeros(1, a.dtype)
    load(source, bindings=2).run(a, b)
    assert b[0] == want


@pytest.mark.parametrize("count", [48, 64, 256])
@pytest.mark.parametrize("name", LOOPS)
def test_reductions_in_loops(name: str, count: int) -> None:
    """A turn does not overwrite what slow invocations of the one before still read."""
    source = reductions_in_loop(name, count)
    a, b = f32(64), np.zeros(64, np.float32)
    load(source, bindings=2).run(a, b)
    turns = [0, 1] if name == "nested" else [n for n in range(5) if name != "sometimes" or n != 2]
    want = np.zeros(64, np.float32)
    want[turns] = a.max()
    assert np.array_equal(b, want)


def test_memory_changes_hands() -> None:
    source = kernel(TURNED, invocations(64))
    a, b = f32(64), np.zeros(64, np.float32)
    load(source, bindings=2).run(a, b)
    want = np.zeros(64, np.float32)
    for _ in range(3):
        want = (a[::-1] + want) + a[5]
    assert np.array_equal(b, want)


def test_uniform_code_stores_once() -> None:
    """One invocation stores, the others see it; branches, loops and switches of uniform code stay in step."""
    source = kernel("""
      %a = hal.interface.binding.subspan binding(0) : memref<100xi32>
      %n = hal.interface.constant.load ordinal(0) : index
      %one = arith.constant 1 : i32
      scf.for %i = %c0 to %n step %c1 {
        %x = memref.load %a[%c0] : memref<100xi32>
        %y = arith.addi %x, %one : i32
        memref.store %y, %a[%c0] : memref<100xi32>
        %odd = arith.remui %i, %c2 : index
        %is = arith.cmpi eq, %odd, %c1 : index
        scf.if %is {
          memref.store %y, %a[%i] : memref<100xi32>
        } else {
          %z = memref.load %a[%c1] : memref<100xi32>
          %t = arith.addi %z, %one : i32
          memref.store %t, %a[%c1] : memref<100xi32>
        }
        scf.index_switch %odd
        case 0 {
          %u = memref.atomic_rmw addi %one, %a[%c2] : (i32, memref<100xi32>) -> i32
          scf.yield
        }
        default {
          scf.yield
        }
      }
      scf.parallel (%i) = (%c5) to (%c100) step (%c1) {
        %x = memref.load %a[%c0] : memref<100xi32>
        memref.store %x, %a[%i] : memref<100xi32>
      }
      %done = memref.load %a[%c64] : memref<100xi32>
      memref.store %done, %a[%c3] : memref<100xi32>""", invocations(64))  # fmt: skip
    a = np.zeros(100, np.int32)
    load(source, bindings=1, constants=1).run(a, constants=[5])
    want = np.zeros(100, np.int32)
    for i in range(5):
        want[0] += 1
        if i % 2:
            want[i] = want[0]
        else:
            want[1] += 1
            want[2] += 1
    want[5:] = want[0]
    want[3] = want[64]
    assert np.array_equal(a, want)


def test_blocks_of_cf_in_uniform_code() -> None:
    """Branches between blocks: what any of them wrote has been waited for."""
    source = kernel("""
      %a = hal.interface.binding.subspan binding(0) : memref<100xi32>
      %one = arith.constant 1 : i32
      cf.br ^head(%c0 : index)
    ^head(%i: index):
      %go = arith.cmpi slt, %i, %c5 : index
      cf.cond_br %go, ^body, ^end
    ^body:
      scf.parallel (%p) = (%c0) to (%c100) step (%c1) {
        %x = memref.load %a[%p] : memref<100xi32>
        %y = arith.addi %x, %one : i32
        memref.store %y, %a[%p] : memref<100xi32>
      }
      %next = arith.addi %i, %c1 : index
      cf.br ^head(%next : index)
    ^end:
      %last = memref.load %a[%c64] : memref<100xi32>
      memref.store %last, %a[%c0] : memref<100xi32>""", invocations(32))  # fmt: skip
    a = np.zeros(100, np.int32)
    a[64] = 7
    load(source, bindings=1).run(a)
    want = np.full(100, 5)
    want[[0, 64]] = 12
    assert np.array_equal(a, want)


def test_private_memory() -> None:
    """Memory of each invocation, kept from loop to loop over as many points as there are invocations."""
    a, b = f32(3, 64), np.zeros(64, np.float32)
    load(private_memory(), bindings=2).run(a, b)
    assert np.array_equal(b, (a[0] + a[1]) + a[2])


def test_copies_and_storage() -> None:
    """memref.copy is spread; plain storage that points write is the workgroup's, storage inside points is their own."""
    source = kernel("""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<100xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<100xf32>
      %m = memref.alloca() : memref<100xf32>
      memref.copy %a, %m : memref<100xf32> to memref<100xf32>
      %top = arith.constant 99 : index
      scf.parallel (%i) = (%c0) to (%c100) step (%c1) {
        %own = memref.alloca() : memref<2xf32>
        %j = arith.subi %top, %i : index
        %x = memref.load %m[%j] : memref<100xf32>
        memref.store %x, %own[%c1] : memref<2xf32>
        %y = memref.load %own[%c1] : memref<2xf32>
        memref.store %y, %b[%i] : memref<100xf32>
      }""")
    a, b = f32(100), np.zeros(100, np.float32)
    load(source, bindings=2).run(a, b)
    assert np.array_equal(b, a[::-1])


@pytest.mark.parametrize("whole", [False, True])
def test_packed_elements(whole: bool) -> None:
    """Points that share bytes write them by atomic operations, unless a store says that its byte is its own."""
    a, b = np.random.default_rng(1).integers(0, 256, 50, dtype=np.uint8), np.full(50, 0xF5, np.uint8)
    load(packed_elements(whole), bindings=2).run(a, b)
    assert np.array_equal(a[:49], b[:49])
    assert b[49] == (0xF5 if whole else 0xF0 | a[49] & 15)


def test_packed_elements_in_place() -> None:
    """What a point reads of a byte that others write is its own."""
    source = kernel(
        """
      %c99 = arith.constant 99 : index
      %b = hal.interface.binding.subspan binding(0) : memref<99xi4>
      %one = arith.constant 1 : i4
      scf.parallel (%i) = (%c0) to (%c99) step (%c1) {
        %x = memref.load %b[%i] : memref<99xi4>
        %y = arith.addi %x, %one : i4
        memref.store %y, %b[%i] : memref<99xi4>
      }""",
        invocations(64),
    )
    b = np.random.default_rng(2).integers(0, 256, 50, dtype=np.uint8)
    exact = b.copy()
    exact[:49] = (b[:49] + 1 & 15) | ((b[:49] & 240) + 16)
    exact[49] = (b[49] & 240) | (b[49] + 1 & 15)
    load(source, bindings=1).run(b)
    assert np.array_equal(b, exact)


def test_an_atomic_sum_in_workgroup_memory_has_the_width_of_its_type() -> None:
    source = kernel(
        """
      %b = hal.interface.binding.subspan binding(0) : memref<2xi32>
      %shared = memref.alloc() : memref<1xi8, #gpu.address_space<workgroup>>
      %one = arith.constant 1 : i8
      %start = arith.constant 100 : i8
      memref.store %start, %shared[%c0] : memref<1xi8, #gpu.address_space<workgroup>>
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
        %old = memref.atomic_rmw addi %one, %shared[%c0] : (i8, memref<1xi8, #gpu.address_space<workgroup>>) -> i8
        scf.reduce
      }
      %sum = memref.load %shared[%c0] : memref<1xi8, #gpu.address_space<workgroup>>
      %wide = arith.extsi %sum : i8 to i32
      memref.store %wide, %b[%c0] : memref<2xi32>
      %is_negative = arith.cmpi slt, %sum, %start : i8
      %bit = arith.extui %is_negative : i1 to i32
      memref.store %bit, %b[%c1] : memref<2xi32>""",
        invocations(64),
    )
    b = np.zeros(2, np.int32)
    load(source, bindings=1).run(b)
    assert b.tolist() == [100 + 64 - 256, 1]
