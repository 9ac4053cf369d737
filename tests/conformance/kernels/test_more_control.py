# ruff: noqa: E501  (lines of MLIR)
"""Loops with reductions, forall, affine accesses, regions, views and atomics against NumPy and Python."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, variant
from test_control import HEAD, N, run

from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.errors import CompileError


def test_parallel_reductions() -> None:
    """Two results over two dimensions, and a range without points."""
    out = run("""
      %big = arith.constant -1000 : i64
      %c3 = arith.constant 3 : index
      %sum, %max = scf.parallel (%i, %j) = (%c0, %c1) to (%n, %c3) step (%c2, %c1) init (%zero, %big) -> (i64, i64) {
        %x = memref.load %in[%i] : memref<?xi64>
        %k = arith.index_cast %j : index to i64
        %p = arith.muli %x, %k : i64
        scf.reduce(%p, %x : i64, i64) {
        ^bb0(%l: i64, %r: i64):
          %a = arith.addi %l, %r : i64
          scf.reduce.return %a : i64
        }, {
        ^bb0(%l: i64, %r: i64):
          %a = arith.maxsi %l, %r : i64
          scf.reduce.return %a : i64
        }
      }
      %none = scf.parallel (%i) = (%n) to (%c0) step (%c1) init (%big) -> i64 {
        scf.reduce(%zero : i64) {
        ^bb0(%l: i64, %r: i64):
          scf.reduce.return %r : i64
        }
      }
      memref.store %sum, %out[%c0] : memref<?xi64>
      memref.store %max, %out[%c1] : memref<?xi64>
      memref.store %none, %out[%c2] : memref<?xi64>""", data=np.arange(N, dtype=np.int64) * 7 % 23)  # fmt: skip
    x = (np.arange(N) * 7 % 23)[::2]
    assert list(out[:3]) == [(x[:, None] * [1, 2]).sum(), x.max(), -1000]


def test_forall() -> None:
    out = run("""
      scf.forall (%i, %j) in (%c2, 5) {
        %at = affine.linearize_index [%i, %j] by (2, 5) : index
        %x = memref.load %in[%at] : memref<?xi64>
        %y = arith.addi %x, %x : i64
        memref.store %y, %out[%at] : memref<?xi64>
      }
      scf.forall (%i) = (10) to (%n) step (3) {
        memref.store %zero, %out[%i] : memref<?xi64>
      }""")
    expected = [2 * i if i < 10 else (0 if (i - 10) % 3 == 0 else -1) for i in range(N)]
    assert list(out) == expected


def test_affine() -> None:
    """affine.for with maps, affine.load and store with maps, affine.if with else, affine.min and max, affine.parallel."""
    out = run("""
      affine.for %i = 0 to 8 {
        %x = affine.load %in[%i + 2] : memref<?xi64>
        affine.if affine_set<(d0) : (d0 - 3 >= 0, 6 - d0 >= 0)>(%i) {
          affine.store %x, %out[%i * 2] : memref<?xi64>
        } else {
          affine.store %zero, %out[%i * 2] : memref<?xi64>
        }
      }
      %a = affine.max affine_map<(d0)[s0] -> (d0 - 40, s0 floordiv 5, 1)>(%n)[%n]
      %b = affine.min affine_map<(d0) -> (d0 mod 7, d0 - 3)>(%n)
      %a64 = arith.index_cast %a : index to i64
      %b64 = arith.index_cast %b : index to i64
      %c17 = arith.constant 17 : index
      %c19 = arith.constant 19 : index
      memref.store %a64, %out[%c17] : memref<?xi64>
      memref.store %b64, %out[%c19] : memref<?xi64>
      affine.parallel (%i) = (20) to (24) step (2) {
        affine.store %a64, %out[%i] : memref<?xi64>
      }""")
    expected = np.full(N, -1)
    for i in range(8):
        expected[2 * i] = i + 2 if 3 <= i <= 6 else 0
    expected[17], expected[19] = max(N - 40, N // 5, 1), min(N % 7, N - 3)
    expected[20] = expected[22] = expected[17]
    assert list(out) == list(expected)


def test_regions_and_views() -> None:
    """Regions that give values, bytes seen as numbers, ranks and raw addresses."""
    out = run("""
      %five = arith.constant 5 : i64
      %v = scf.execute_region -> i64 {
        %is = arith.cmpi sgt, %five, %zero : i64
        cf.cond_br %is, ^a, ^b
      ^a:
        scf.yield %five : i64
      ^b:
        scf.yield %zero : i64
      }
      memref.store %v, %out[%c0] : memref<?xi64>
      "memref.alloca_scope"() ({
        %bytes = memref.alloca() : memref<64xi8>
        %c8 = arith.constant 8 : index
        %words = memref.view %bytes[%c8][] : memref<64xi8> to memref<4xi64>
        memref.store %five, %words[%c1] : memref<4xi64>
        %x = memref.load %words[%c1] : memref<4xi64>
        memref.store %x, %out[%c1] : memref<?xi64>
        "memref.alloca_scope.return"() : () -> ()
      }) : () -> ()
      %rank = "memref.rank"(%in) : (memref<?xi64>) -> index
      %rank64 = arith.index_cast %rank : index to i64
      memref.store %rank64, %out[%c2] : memref<?xi64>
      %p = memref.extract_aligned_pointer_as_index %in : memref<?xi64> -> index
      %q = memref.extract_aligned_pointer_as_index %out : memref<?xi64> -> index
      %same = arith.cmpi eq, %p, %q : index
      %same64 = arith.extui %same : i1 to i64
      %c3 = arith.constant 3 : index
      memref.store %same64, %out[%c3] : memref<?xi64>""")
    assert list(out[:4]) == [5, 5, 1, 0]


ATOMICS = [("addi", 3), ("assign", 9), ("maxs", 20), ("maxu", -1), ("mins", -4), ("minu", 2), ("ori", 5), ("andi", 6), ("xori", 11)]  # fmt: skip


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_integer_atomics(width: int) -> None:
    """Each kind on an element of its own; the old value comes back."""
    lines = []
    for i, (kind, value) in enumerate(ATOMICS):
        lines.append(f"%i{i} = arith.constant {i} : index\n%v{i} = arith.constant {value} : i{width}\n"
                     f"%o{i} = memref.atomic_rmw {kind} %v{i}, %m[%i{i}] : (i{width}, memref<9xi{width}>) -> i{width}\n"
                     f"memref.store %o{i}, %old[%i{i}] : memref<9xi{width}>")  # fmt: skip
    source = f"""func.func @kernel() {{
      %m = hal.interface.binding.subspan binding(0) : memref<9xi{width}>
      %old = hal.interface.binding.subspan binding(1) : memref<9xi{width}>
      {chr(10).join(lines)}
      func.return
    }}"""
    dtype = np.dtype(f"int{width}")
    data, old = buffer(np.full(9, 7, dtype)), buffer(np.zeros(9, dtype))
    assert load(source, bindings=2).run(data, old) == 0
    assert list(data) == [10, 9, 20, -1, -4, 2, 7, 6, 12] and list(old) == [7] * 9


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("kind", ["maximumf", "minimumf", "maxnumf", "minnumf"])
def test_float_atomics(kind: str, element: str) -> None:
    source = f"""func.func @kernel() {{
      %c0 = arith.constant 0 : index
      %id = hal.interface.workgroup.id[0] : index
      %in = hal.interface.binding.subspan binding(0) : memref<8x{element}>
      %out = hal.interface.binding.subspan binding(1) : memref<1x{element}>
      %x = memref.load %in[%id] : memref<8x{element}>
      %old = memref.atomic_rmw {kind} %x, %out[%c0] : ({element}, memref<1x{element}>) -> {element}
      func.return
    }}"""
    dtype = np.float32 if element == "f32" else np.float64
    values = np.array([1, -2, np.inf if "num" in kind else 3, 0.5, -7, 6, np.nan, 2], dtype)
    out = buffer(np.zeros(1, dtype))
    kernel = load(source, bindings=2)
    assert kernel.run(buffer(values), out, grid=(8, 1, 1)) == 0
    wanted = {"maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}[kind]
    np.testing.assert_array_equal(out[0], wanted.reduce(np.append(values, dtype(0))))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%f = arith.constant 1.0 : f32\n%m = memref.alloca() : memref<4xf32>\n%x = memref.atomic_rmw andi %f, %m[%c0] : (f32, memref<4xf32>) -> f32", "atomic 'andi' on f32"),
        ("%w = memref.alloc(%n) : memref<?xf32, #gpu.address_space<workgroup>>", "has no size known while compiling"),
        ("%m = memref.alloca() : memref<4xf32>\n%t = scf.forall (%i) in (4) shared_outs(%o = %m) -> (memref<4xf32>) {\nscf.forall.in_parallel {\n}\n}", "shared_outs"),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_variant(variant(HEAD + body + "\nfunc.return\n}", constants=1, bindings=2))
    assert message in caught.value.message
