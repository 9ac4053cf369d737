"""Matrix products of tiles, compared with NumPy on every device."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_works import check
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernels.tiles.stages import stage_loops
from pydispatch.ir import parse

A, B = Annotated[pd.View, pd.f32["m", "k"]], Annotated[pd.View, pd.f32["k", "n"]]
C = Annotated[pd.View, pd.f32["m", "n"]]
EACH = 16


def tiles(a: Any, b: Any, c: Any) -> tuple[int, int]:
    return pd.cdiv(c.shape[1], EACH), pd.cdiv(c.shape[0], EACH)


@pd.kernel(grid=tiles)
def matmul(a: A, b: B, c: C) -> None:
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in range(0, a.shape[1], EACH):
        total += a[i : i + EACH, k : k + EACH] @ b[k : k + EACH, j : j + EACH]
    c[i : i + EACH, j : j + EACH] = total


@pd.kernel(grid=tiles)
def turned(a: Annotated[pd.View, pd.f32["k", "m"]], b: Annotated[pd.View, pd.f32["n", "k"]], c: C) -> None:
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in range(0, a.shape[0], EACH):
        left = a[k : k + EACH, i : i + EACH]
        total = left.T @ b[j : j + EACH, k : k + EACH].T + total
    c[i : i + EACH, j : j + EACH] = pd.maximum(total, 0.0)


@pd.kernel(grid=tiles)
def turned_sums(a: A, b: Annotated[pd.View, pd.f32["n", "k"]], c: C) -> None:
    """The transpose of a tile that is computed, of 16 rows and 8 columns."""
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in range(0, a.shape[1], 8):
        right = b[j : j + EACH, k : k + 8] * 2.0 + b[j : j + EACH, k][:, None]
        total += a[i : i + EACH, k : k + 8] @ right.T
    c[i : i + EACH, j : j + EACH] = total


@pd.kernel(grid=lambda a, b, c, shift: tiles(a, b, c))
def shifted(a: A, b: B, c: C, shift: Annotated[int, pd.i64]) -> None:
    """The columns of the first factor begin anywhere; those outside of it are 0."""
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in range(0, a.shape[1], EACH):
        total += a[i : i + EACH, k + shift : k + shift + EACH] @ b[k : k + EACH, j : j + EACH]
    c[i : i + EACH, j : j + EACH] = total


def random(m: int, k: int, n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    a, b = numbers.standard_normal((m, k), np.float32), numbers.standard_normal((k, n), np.float32)
    return a, b, np.full((m, n), np.nan, np.float32)


def close(a: Any, b: Any, err_msg: str = "") -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=err_msg)


@pytest.mark.parametrize("shape", [(32, 32, 16), (33, 19, 18)])
def test_products_on_devices(shape: tuple[int, int, int]) -> None:
    a, b, c = random(*shape)
    check(matmul, (a, b, c), a @ b, close)
    check(turned, (a.T.copy(), b.T.copy(), c), np.maximum(a @ b, 0), close)
    firsts = np.repeat(b[::8], 8, axis=0)[: len(b)]  # of each 8 steps
    check(turned_sums, (a, b.T.copy(), c), a @ (2 * b + firsts), close)


def test_the_transpose_of_a_computed_tile_is_computed_in_its_own_order() -> None:
    """The loop that reads the view stores 16 rows of 8, each of them contiguous in the view."""
    reads = [line for line in turned_sums.mlir().splitlines() if "memref.store" in line and "memref<16x8xf32" in line]
    assert len(reads) == 1


def test_steps_beyond_one_factor_alone_multiply_zeros_on_every_device() -> None:
    """0 * inf is NaN, whether a device reads factors in place or copies them."""
    a, b, c = random(18, 24, 20)
    b[20] = np.inf  # A ends before it: at step 24 - 5
    moved = np.concatenate([a[:, 5:], np.zeros((18, 5), np.float32)], axis=1)
    with np.errstate(invalid="ignore"):
        expected = moved @ b
    assert np.isnan(expected).all()
    check(shifted, (a, b, c, 5), expected, close)
    b[20] = 1.0
    check(shifted, (a, b, c, 5), moved @ b, close)


@pytest.mark.parametrize("turned", ["", " turned"])
@pytest.mark.parametrize("strided", [0, 1])
def test_a_hand_written_read_of_every_second_column(strided: int, turned: str) -> None:
    """Products read a view in place only if its rows are contiguous. `%i` is 0, which the compiler does not know."""
    view = "memref<16x16xf32, strided<[32, 2]>>"
    types = [view, "memref<16x16xf32>"][:: 1 if strided == 0 else -1]
    names = ["%second", "%y"][:: 1 if strided == 0 else -1]
    tile = "memref<16x16xf32, 3>"
    turns = [turned if strided == i else "" for i in (0, 1)]
    program = pd.compile(f"""
stream.executable private @e {{
  stream.executable.export public @k workgroups() -> (index, index, index) {{
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }}
  builtin.module {{
    func.func @k(%0: !stream.binding, %1: !stream.binding, %2: !stream.binding, %i: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %zero = arith.constant 0.0 : f32
      %x = stream.binding.subspan %0[%c0] : !stream.binding -> memref<16x32xf32>
      %y = stream.binding.subspan %1[%c0] : !stream.binding -> memref<16x16xf32>
      %z = stream.binding.subspan %2[%c0] : !stream.binding -> memref<16x16xf32>
      %second = memref.subview %x[0, 0] [16, 16] [1, 2] : memref<16x32xf32> to {view}
      %a = memref.alloc() : {tile}
      %b = memref.alloc() : {tile}
      %c = memref.alloc() : {tile}
      scf.for %r = %c0 to %c16 step %c1 {{
        scf.for %s = %c0 to %c16 step %c1 {{
          memref.store %zero, %c[%r, %s] : {tile}
        }}
      }}
      pyd.read_tile {names[0]}[%i, %c0], %a{turns[0]} : {types[0]}, {tile}
      pyd.read_tile {names[1]}[%c0, %i], %b{turns[1]} : {types[1]}, {tile}
      pyd.matmul %a, %b, %c : {tile}, {tile}, {tile}
      scf.for %r = %c0 to %c16 step %c1 {{
        scf.for %s = %c0 to %c16 step %c1 {{
          %v = memref.load %c[%r, %s] : {tile}
          memref.store %v, %z[%r, %s] : memref<16x16xf32>
        }}
      }}
      return
    }}
  }}
}}
func.func @f(%a: tensor<16x32xf32>, %b: tensor<16x16xf32>, %i: index) -> tensor<16x16xf32> {{
  %r = flow.dispatch @e::@k(%a, %b, %i) : (tensor<16x32xf32>, tensor<16x16xf32>, index) -> tensor<16x16xf32>
  return %r : tensor<16x16xf32>
}}
""")
    x, y = random(16, 32, 1)[0], random(16, 16, 1, seed=2)[0]
    second = x[:, ::2].T if turned else x[:, ::2]
    close(pd.device("cpu").load(program).f(x, y, 0), second @ y if strided == 0 else y @ second)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_products(m: int, k: int, n: int, seed: int) -> None:
    a, b, c = random(m, k, n, seed)
    matmul(a, b, c)
    close(c, a.astype(np.float64) @ b)
    turned(a.T.copy(), b.T.copy(), c)
    close(c, np.maximum(a.astype(np.float64) @ b, 0))


@pd.kernel(grid=1)
def chain(q: Annotated[pd.View, pd.f32["m", 24]], k: Annotated[pd.View, pd.f32["n", 24]], y: C) -> None:
    """Factors that are computed, of sizes that are no multiples of vectors."""
    left = q[0:13, 0:24]
    scores = left @ k[0:21, 0:24].T
    weights = pd.exp(scores - pd.max(scores, axis=1, keepdims=True))
    both = weights @ (2 * k[0:21, 0:24]) + left + left @ pd.full((24, 24), 0.5, pd.f32)
    y[0:13, 0:21] = (both @ k[0:21, 0:24].T) * 0.125


def test_factors_that_are_computed() -> None:
    numbers = np.random.default_rng(3)
    q, k = numbers.standard_normal((13, 24), np.float32), numbers.standard_normal((21, 24), np.float32)
    scores = q @ k.T
    weights = np.exp(scores - scores.max(1, keepdims=True))
    both = weights @ (2 * k) + q + q @ np.full((24, 24), 0.5, np.float32)
    check(chain, (q, k, np.zeros((13, 21), np.float32)), both @ k.T * 0.125, close)


@pd.kernel(grid=1)
def f16s(a: pd.View[pd.f16, 20, 18], b: pd.View[pd.f16, 18, 30], c: pd.View[pd.f32, 20, 30]) -> None:
    c[0:32, 0:32] = a[0:32, 0:32] @ b[0:32, 0:32]


@pd.kernel(grid=1)
def i8s(a: pd.View[pd.i8, 20, 18], b: pd.View[pd.i8, 18, 30], c: pd.View[pd.i32, 20, 30]) -> None:
    c[0:32, 0:32] = a[0:32, 0:32] @ b[0:32, 0:32]


@pd.kernel(grid=1)
def i32s(a: pd.View[pd.i32, 20, 18], b: pd.View[pd.i32, 18, 30], c: pd.View[pd.i32, 20, 30]) -> None:
    c[0:32, 0:32] = a[0:32, 0:32] @ b[0:32, 0:32]


@pd.kernel(grid=1)
def f64s(a: pd.View[pd.f64, 20, 18], b: pd.View[pd.f64, 18, 30], c: pd.View[pd.f64, 20, 30]) -> None:
    c[0:32, 0:32] = a[0:32, 0:32] @ b[0:32, 0:32]


@pytest.mark.parametrize(
    ("kernel", "element", "total"),
    [
        (f16s, np.float16, np.float32),
        (i8s, np.int8, np.int32),
        (i32s, np.int32, np.int32),
        (f64s, np.float64, np.float64),
    ],
    ids=["f16", "i8", "i32", "f64"],
)
def test_types(kernel: Any, element: Any, total: Any) -> None:
    numbers = np.random.default_rng(2)
    a, b = (numbers.integers(-9, 9, shape).astype(element) for shape in ((20, 18), (18, 30)))
    check(kernel, (a, b, np.zeros((20, 30), total)), a.astype(total) @ b.astype(total))


HalfA, HalfB = Annotated[pd.View, pd.f16["m", "k"]], Annotated[pd.View, pd.f16["k", "n"]]


@pd.kernel(workgroup=64, grid=lambda a, b, c: (pd.cdiv(c.shape[1], 32), pd.cdiv(c.shape[0], 32)))
def halves(a: HalfA, b: HalfB, c: C) -> None:
    i, j = pd.group_id(1) * 32, pd.group_id(0) * 32
    total = pd.full((32, 32), 1, pd.f32)
    for k in range(0, a.shape[1], 16):
        total += a[i : i + 32, k : k + 16] @ b[k : k + 16, j : j + 32]
    c[i : i + 32, j : j + 32] = total


@pd.kernel(workgroup=64, grid=1)
def twice(a: Annotated[pd.View, pd.f32[32, 8]], b: Annotated[pd.View, pd.f32[8, 32]], c: C) -> None:
    """Sums that other statements of the loop read, too."""
    total = pd.zeros((32, 32), pd.f32)
    for _ in range(2):
        total += a[:, :] @ b[:, :]
        total = total * 0.5
    c[0:32, 0:32] = total


def test_products_by_groups_of_invocations() -> None:
    a, b, c = random(40, 33, 35)
    a, b = a.astype(np.float16), b.astype(np.float16)
    check(halves, (a, b, c), 1 + a.astype(np.float32) @ b.astype(np.float32), close)
    a, b, c = random(32, 8, 32)
    check(twice, (a, b, c), a @ b * 0.75, close)


def ptx_of(kernel: Any, target: str, folder: Path) -> str:
    path = folder / f"{kernel.name}.{target}.pdx"
    pd.compile(kernel, targets=target).save(path)
    with zipfile.ZipFile(path) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".ptx"))
        return archive.read(name).decode()


def test_tensor_cores_are_used(tmp_path: Path) -> None:
    ptx = ptx_of(halves, "sm_80", tmp_path)
    assert ptx.count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == 4
    assert ptx.index("mma.sync") > ptx.index("ldmatrix") and ".local" not in ptx
    assert "mma.sync" not in ptx_of(halves, "sm_70", tmp_path)
    assert ptx_of(twice, "sm_80", tmp_path).count("fma.rn.f32") == 32 * 32 * 8 // 64


def product_of(t: Any) -> Any:
    t = t + 1
    return t @ t.T


@pd.kernel(grid=1)
def nested(a: Annotated[pd.View, pd.f32[6, 4]], c: Annotated[pd.View, pd.f32[6, 6]]) -> None:
    """Products in expressions, whose memory lasts as long as the statement, around a function with its own."""
    t = a[:, :]
    u = t * 2
    both = t @ u.T + product_of(t @ t.T @ t) * (t @ t.T)
    last = both - u @ t.T
    c[:, :] = last + both


def test_products_in_expressions() -> None:
    a = np.random.default_rng(5).integers(-2, 3, (6, 4)).astype(np.float32)
    inner = a @ a.T @ a + 1
    both = 2 * a @ a.T + inner @ inner.T * (a @ a.T)
    check(nested, (a, np.zeros((6, 6), np.float32)), both - 2 * a @ a.T + both)


@pytest.mark.parametrize("shift", [0, 3, -5, 40, -40, (1 << 63) - 1, -(1 << 63)])
def test_factors_that_begin_anywhere(shift: int) -> None:
    a, b, c = random(20, 33, 17)
    moved = np.stack([a[:, k + shift] if 0 <= k + shift < 33 else np.zeros(20, np.float32) for k in range(33)], axis=1)
    shifted(a, b, c, shift)
    close(c, moved @ b)


STAGES = 3


@pd.kernel(workgroup=64, grid=tiles)
def staged(a: A, b: B, c: C) -> None:
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in pd.range(0, a.shape[1], EACH, stages=STAGES):
        total += a[i : i + EACH, k : k + EACH] @ b[k : k + EACH, j : j + EACH]
    c[i : i + EACH, j : j + EACH] = total


@pd.kernel(workgroup=32, grid=tiles)
def staged_halves(a: Annotated[pd.View, pd.f16["m", "k"]], b: Annotated[pd.View, pd.f16["n", "k"]], c: C) -> None:
    """The second factor is transposed, so that its neighbours in memory are none in the tile; the loop begins at 16."""
    i, j = pd.group_id(1) * EACH, pd.group_id(0) * EACH
    total = pd.zeros((EACH, EACH), pd.f32)
    for k in pd.range(16, a.shape[1], EACH, stages=2):
        total += a[i : i + EACH, k : k + EACH] @ b[j : j + EACH, k : k + EACH].T
    c[i : i + EACH, j : j + EACH] = total


@pd.kernel(workgroup=64, grid=1)
def powers(a: Annotated[pd.View, pd.f32[16, 16]], rows: Annotated[pd.View, pd.i32["count"]], b: B) -> None:
    """Tiles that cannot be read ahead: the loop writes the view of one, and reads the place of the other."""
    for k in pd.range(rows.shape[0], stages=3):
        first = rows[k]
        a[0:16, 0:16] = a[0:16, 0:16] @ b[first : first + 16, 0:16]


@pd.kernel(workgroup=64, grid=1)
def two_products(a: Annotated[pd.View, pd.f32[16, 16]], b: B, c: Annotated[pd.View, pd.f32[16, 16]]) -> None:
    """Both second factors are read into the same memory, one after the other."""
    total = pd.zeros((16, 16), pd.f32)
    for k in pd.range(0, b.shape[0], 16, stages=2):
        scores = a[:, :] @ b[k : k + 16, 0:16].T
        total += scores @ b[k : k + 16, 0:16]
    c[:, :] = total


def on_sm_80(kernel: Any, *arrays: np.ndarray) -> Any:
    """Run a kernel that was compiled for sm_80 on the interpreter, which looks for races."""
    program = pd.device("ptx-interpreter?races=1").load(pd.compile(kernel, targets="sm_80"))
    return program.functions[kernel.name](*arrays)


@pytest.mark.parametrize(("shape", "offset"), [((32, 64, 16), 0), ((32, 64, 16), 1), ((33, 19, 18), 0), ((3, 1, 5), 0)])
def test_tiles_are_read_ahead(shape: tuple[int, int, int], offset: int) -> None:
    a, b, c = random(*shape)
    padded = np.zeros(a.size + offset, np.float32)  # begins at an address that is no multiple of 16 with an offset
    padded[offset:] = a.ravel()
    if not offset:
        check(staged, (a, b, c), a @ b, close)
    close(on_sm_80(staged, padded[offset:].reshape(a.shape), b, c), a @ b)
    halves = a.astype(np.float16), b.T.astype(np.float16).copy()
    expected = halves[0].astype(np.float32)[:, 16:] @ halves[1].T.astype(np.float32)[16:]
    close(on_sm_80(staged_halves, *halves, c), expected)


def test_tiles_of_several_products_are_read_ahead() -> None:
    numbers = np.random.default_rng(3)
    a, b = numbers.standard_normal((16, 16), np.float32), numbers.standard_normal((40, 16), np.float32)
    close(on_sm_80(two_products, a, b, np.zeros_like(a)), a @ b.T @ b)


def test_tiles_that_cannot_be_read_ahead() -> None:
    numbers = np.random.default_rng(2)
    a, b = numbers.integers(-1, 2, (16, 16)).astype(np.float32), numbers.integers(-1, 2, (64, 16)).astype(np.float32)
    rows = np.array([48, 0, 16], np.int32)
    expected = a @ b[48:] @ b[:16] @ b[16:32]
    np.testing.assert_array_equal(on_sm_80(powers, a, rows, b), expected)
    powers.python(a, rows, b)
    np.testing.assert_array_equal(a, expected)


@pytest.mark.parametrize("is_inside", [False, True])
def test_views_that_a_loop_defines_are_not_read_ahead(is_inside: bool) -> None:
    offset = "%k" if is_inside else "%n"
    view = f"""%view = memref.reinterpret_cast %x to offset: [{offset}], sizes: [16, 16], strides: [16, 1]
        : memref<65536xf32> to memref<16x16xf32, strided<[16, 1], offset: ?>>"""
    module = parse(f"""
func.func @kernel(%x: memref<65536xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.alloc() : memref<16x16xf32, 3>
  %c = memref.alloc() : memref<16x16xf32, 3>
  {"" if is_inside else view}
  scf.for %k = %c0 to %n step %c1 {{
    {view if is_inside else ""}
    pyd.read_tile %view[%c0, %c0], %a : memref<16x16xf32, strided<[16, 1], offset: ?>>, memref<16x16xf32, 3>
    pyd.matmul %a, %a, %c : memref<16x16xf32, 3>, memref<16x16xf32, 3>, memref<16x16xf32, 3>
  }} {{pyd.stages = 2 : i64}}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    stage_loops(function, invocations=64, generation=80)
    function.verify()
    assert ("pyd.copy_async" in str(module)) == (not is_inside)


def test_copies_are_asynchronous_from_sm_80_on(tmp_path: Path) -> None:
    for target, kernel, is_asynchronous in (
        ("sm_80", staged, True), ("sm_80", staged_halves, True), ("sm_80", two_products, True),
        ("sm_80", powers, False), ("sm_75", staged, False),
    ):  # fmt: skip
        text = ptx_of(kernel, target, tmp_path)
        assert ("cp.async.cg.shared.global" in text) == is_asynchronous
        assert ("cp.async.wait_group" in text) == is_asynchronous
