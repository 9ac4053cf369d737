"""Generated kernels of single operations against NumPy, on sizes that meet every edge."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

SIZES = [0, 1, 2, 7, 64, 1031]


@cache
def program(text: str) -> Any:
    return pd.device("cpu").load(pd.compile(text))


def run(text: str, *arguments: Any) -> Any:
    result = program(text).f(*arguments)
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else np.asarray(result)


def values(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    random = np.random.default_rng(seed + sum(shape))
    if np.issubdtype(dtype, np.floating):
        return random.standard_normal(shape).astype(dtype)
    return random.integers(-100, 100, shape).astype(dtype)


def generic(maps: str, iterators: str, ins: str, outs: str, body: str, result: str) -> str:
    return f"""linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}}
      ins({ins}) outs({outs}) {{
      {body}
      }} -> {result}"""


BROADCAST = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %a, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(j)>, affine_map<(i,j)->(i,j)>],
    iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<?x?xf32>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %x, %y : f32
    %t = arith.addf %s, %k : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("n", [0, 1, 3, 65])
def test_broadcast_and_index(m: int, n: int) -> None:
    a, b = values(m, n), values(n)
    want = (a + b) + np.arange(m, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(run(BROADCAST, a, b), want)


TRANSPOSE = """
func.func @f(%a: tensor<5x7x11xi32>) -> tensor<11x5x7xi32> {
  %e = tensor.empty() : tensor<11x5x7xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j,k)->(j,k,i)>, affine_map<(i,j,k)->(i,j,k)>],
    iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<5x7x11xi32>) outs(%e : tensor<11x5x7xi32>) {
  ^bb0(%x: i32, %o: i32):
    linalg.yield %x : i32
  } -> tensor<11x5x7xi32>
  return %r : tensor<11x5x7xi32>
}"""


def test_transpose() -> None:
    a = values(5, 7, 11, dtype=np.int32)
    np.testing.assert_array_equal(run(TRANSPOSE, a), a.transpose(2, 0, 1))


TURNED = """
func.func @f(%a: tensor<?x?x?xf32>, %b: tensor<?x?x?xf32>) -> tensor<?x?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %d0 = tensor.dim %a, %c0 : tensor<?x?x?xf32>
  %d1 = tensor.dim %a, %c1 : tensor<?x?x?xf32>
  %d2 = tensor.dim %a, %c2 : tensor<?x?x?xf32>
  %e = tensor.empty(%d2, %d0, %d1) : tensor<?x?x?xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j,k)->(j,k,i)>, affine_map<(i,j,k)->(i,j,k)>,
    affine_map<(i,j,k)->(i,j,k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%a, %b : tensor<?x?x?xf32>, tensor<?x?x?xf32>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %s = arith.subf %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}"""


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 0, 5), (2, 8, 16), (7, 33, 65), (1, 300, 3), (129, 9, 8)])
def test_turned_sums(shape: tuple[int, int, int]) -> None:
    a = values(*shape)
    b = values(shape[2], shape[0], shape[1], seed=1)
    np.testing.assert_array_equal(run(TURNED, a, b), a.transpose(2, 0, 1) - b)


def reduction(axis: str, out: str, dims: str, op: str, init: str) -> str:
    shape = f"tensor<{'x'.join('?' * len(dims))}xf32>" if dims else "tensor<f32>"
    sizes = "".join(f", %d{d}" for d in dims)[2:]
    return f"""
func.func @f(%a: tensor<?x?x?xf32>) -> {shape} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %d0 = tensor.dim %a, %c0 : tensor<?x?x?xf32>
  %d1 = tensor.dim %a, %c1 : tensor<?x?x?xf32>
  %d2 = tensor.dim %a, %c2 : tensor<?x?x?xf32>
  %z = arith.constant {init} : f32
  %e = tensor.empty({sizes}) : {shape}
  %s = linalg.fill ins(%z : f32) outs(%e : {shape}) -> {shape}
  %r = linalg.generic {{indexing_maps = [affine_map<(d0,d1,d2)->(d0,d1,d2)>, affine_map<(d0,d1,d2)->({out})>],
    iterator_types = [{axis}]}} ins(%a : tensor<?x?x?xf32>) outs(%s : {shape}) {{
  ^bb0(%x: f32, %o: f32):
    %y = arith.{op} %x, %o : f32
    linalg.yield %y : f32
  }} -> {shape}
  return %r : {shape}
}}"""


P, R = '"parallel"', '"reduction"'
REDUCTIONS = {
    "inner": (f"{P}, {P}, {R}", "d0, d1", "01", (2,)),
    "outer": (f"{R}, {P}, {P}", "d1, d2", "12", (0,)),
    "middle": (f"{P}, {R}, {P}", "d0, d2", "02", (1,)),
    "ends": (f"{R}, {P}, {R}", "d1", "1", (0, 2)),
    "two": (f"{P}, {R}, {R}", "d0", "0", (1, 2)),
    "first_two": (f"{R}, {R}, {P}", "d2", "2", (0, 1)),
    "all": (f"{R}, {R}, {R}", "", "", (0, 1, 2)),
    "turned": (f"{P}, {P}, {R}", "d1, d0", "10", (2,)),
}


@pytest.mark.parametrize("shape", [(3, 5, 7), (1, 1, 1), (0, 4, 3), (4, 3, 0), (2, 67, 129), (130, 3, 33), (5, 4, 600)])
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(("op", "init"), [("addf", "0.0"), ("maximumf", "0xFF800000")])
def test_reductions(name: str, shape: tuple[int, ...], op: str, init: str) -> None:
    iterators, out, dims, axes = REDUCTIONS[name]
    a = values(*shape)
    got = run(reduction(iterators, out, dims, op, init), a)
    if op == "addf":
        want = a.astype(np.float64).sum(axes)
        want = want.T if name == "turned" else want
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)
    else:
        want = a.max(axes, initial=-np.inf)
        np.testing.assert_array_equal(got, want.T if name == "turned" else want)


@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 56, 56), (2, 3, 1)])
@pytest.mark.parametrize("name", ["two", "ends", "first_two", "all"])
def test_reductions_of_known_sizes(name: str, shape: tuple[int, int, int]) -> None:
    iterators, out, dims, axes = REDUCTIONS[name]
    text = reduction(iterators, out, dims, "addf", "0.0").replace("?x?x?x", "x".join(map(str, shape)) + "x")
    left = [shape[int(d)] for d in dims]
    text = text.replace(f"tensor<{'x'.join('?' * len(dims))}xf32>", f"tensor<{'x'.join(map(str, left))}xf32>")
    text = text.replace(f"tensor.empty({', '.join('%d' + d for d in dims)})", "tensor.empty()")
    a = values(*shape)
    np.testing.assert_allclose(run(text, a), a.astype(np.float64).sum(axes), rtol=1e-5, atol=1e-4)


ARGMAX = """
func.func @f(%a: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xi32>) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %ninf = arith.constant 0xFF800000 : f32
  %z = arith.constant 0 : i32
  %e = tensor.splat %ninf[%m] : tensor<?xf32>
  %i = tensor.splat %z[%m] : tensor<?xi32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i)>, affine_map<(i,j)->(i)>],
    iterator_types = ["parallel", "reduction"]} ins(%a : tensor<?x?xf32>) outs(%e, %i : tensor<?xf32>, tensor<?xi32>) {
  ^bb0(%x: f32, %o: f32, %p: i32):
    %j = linalg.index 1 : index
    %k = arith.index_cast %j : index to i32
    %g = arith.cmpf ogt, %x, %o : f32
    %v = arith.select %g, %x, %o : f32
    %w = arith.select %g, %k, %p : i32
    linalg.yield %v, %w : f32, i32
  } -> (tensor<?xf32>, tensor<?xi32>)
  return %r#0, %r#1 : tensor<?xf32>, tensor<?xi32>
}"""


@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (130, 5), (0, 3)])
def test_two_results(shape: tuple[int, int]) -> None:
    a = values(*shape)
    value, index = run(ARGMAX, a)
    np.testing.assert_array_equal(value, a.max(1))
    np.testing.assert_array_equal(index, a.argmax(1))


POOL = """
func.func @f(%a: tensor<2x9x9x3xf32>) -> tensor<2x4x4x3xf32> {
  %w = tensor.empty() : tensor<3x3xf32>
  %c = arith.constant dense<0xFF800000> : tensor<2x4x4x3xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n,h,w,c,i,j)->(n,h*2+i,w*2+j,c)>, affine_map<(n,h,w,c,i,j)->(i,j)>,
      affine_map<(n,h,w,c,i,j)->(n,h,w,c)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
    ins(%a, %w : tensor<2x9x9x3xf32>, tensor<3x3xf32>) outs(%c : tensor<2x4x4x3xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %v = arith.maximumf %x, %o : f32
    linalg.yield %v : f32
  } -> tensor<2x4x4x3xf32>
  return %r : tensor<2x4x4x3xf32>
}"""


def test_windows() -> None:
    a = values(2, 9, 9, 3)
    want = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(1, 2))[:, ::2, ::2].max((-1, -2))
    np.testing.assert_array_equal(run(POOL, a), want)


def unary(op: str, source: str, result: str) -> str:
    return f"func.func @f(%a: {source}) -> {result} {{\n  %r = {op}\n  return %r : {result}\n}}"


MOVES = {
    "slice": (
        unary("tensor.extract_slice %a[2, 1] [3, 4] [2, 3] : tensor<9x13xf32> to tensor<3x4xf32>",
              "tensor<9x13xf32>", "tensor<3x4xf32>"),
        (9, 13), lambda a: a[2:8:2, 1:13:3],
    ),
    "slice that loses a unit": (
        unary("tensor.extract_slice %a[2, 0, 5] [1, 4, 1] [1, 1, 1] : tensor<3x4x9xf32> to tensor<4xf32>",
              "tensor<3x4x9xf32>", "tensor<4xf32>"),
        (3, 4, 9), lambda a: a[2, :, 5],
    ),
    "collapse of a slice": (
        """func.func @f(%a: tensor<6x10xf32>) -> tensor<12xf32> {
          %s = tensor.extract_slice %a[1, 2] [3, 4] [1, 2] : tensor<6x10xf32> to tensor<3x4xf32>
          %r = tensor.collapse_shape %s [[0, 1]] : tensor<3x4xf32> into tensor<12xf32>
          return %r : tensor<12xf32>
        }""",
        (6, 10), lambda a: a[1:4, 2:10:2].reshape(12),
    ),
    "expand of a slice": (
        """func.func @f(%a: tensor<30xf32>) -> tensor<2x3x4xf32> {
          %s = tensor.extract_slice %a[3] [24] [1] : tensor<30xf32> to tensor<24xf32>
          %n = math.absf %s : tensor<24xf32>
          %r = tensor.expand_shape %n [[0, 1, 2]] output_shape [2, 3, 4] : tensor<24xf32> into tensor<2x3x4xf32>
          %q = arith.negf %r : tensor<2x3x4xf32>
          return %q : tensor<2x3x4xf32>
        }""",
        (30,), lambda a: -np.abs(a[3:27]).reshape(2, 3, 4),
    ),
    "pad": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<6x9xf32> {
          %z = arith.constant 1.5 : f32
          %r = tensor.pad %a low[1, 2] high[2, 3] {
          ^bb0(%i: index, %j: index):
            tensor.yield %z : f32
          } : tensor<3x4xf32> to tensor<6x9xf32>
          return %r : tensor<6x9xf32>
        }""",
        (3, 4), lambda a: np.pad(a, ((1, 2), (2, 3)), constant_values=1.5),
    ),
    "concat": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<3x9xf32> {
          %n = arith.negf %a : tensor<3x4xf32>
          %s = tensor.extract_slice %a[0, 1] [3, 1] [1, 1] : tensor<3x4xf32> to tensor<3x1xf32>
          %r = tensor.concat dim(1) %a, %s, %n : (tensor<3x4xf32>, tensor<3x1xf32>, tensor<3x4xf32>) -> tensor<3x9xf32>
          return %r : tensor<3x9xf32>
        }""",
        (3, 4), lambda a: np.concatenate([a, a[:, 1:2], -a], 1),
    ),
    "generate": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<4x3xf32> {
          %r = tensor.generate {
          ^bb0(%i: index, %j: index):
            %x = tensor.extract %a[%j, %i] : tensor<3x4xf32>
            %y = arith.negf %x : f32
            tensor.yield %y : f32
          } : tensor<4x3xf32>
          return %r : tensor<4x3xf32>
        }""",
        (3, 4), lambda a: -a.T,
    ),
    "insert_slice": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<7x9xf32> {
          %z = arith.constant dense<2.0> : tensor<7x9xf32>
          %n = arith.negf %a : tensor<3x4xf32>
          %r = tensor.insert_slice %n into %z[1, 1] [3, 4] [2, 2] : tensor<3x4xf32> into tensor<7x9xf32>
          return %r : tensor<7x9xf32>
        }""",
        (3, 4), lambda a: put(np.full((7, 9), 2.0, np.float32), (slice(1, 7, 2), slice(1, 9, 2)), -a),
    ),
    "insert": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
          %z = arith.constant 9.0 : f32
          %i = arith.constant 2 : index
          %r = tensor.insert %z into %a[%i, %i] : tensor<3x4xf32>
          return %r : tensor<3x4xf32>
        }""",
        (3, 4), lambda a: put(a.copy(), (2, 2), 9.0),
    ),
    "small constant": (
        """func.func @f(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
          %z = arith.constant dense<[[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]> : tensor<2x3xf32>
          %r = arith.mulf %a, %z : tensor<2x3xf32>
          return %r : tensor<2x3xf32>
        }""",
        (2, 3), lambda a: a * np.array([[1, -2, 3], [4, 5, -6]], np.float32),
    ),
    "bytes": (
        """func.func @f(%a: tensor<3x4xf32>) -> tensor<3x16xi8> {
          %n = arith.negf %a : tensor<3x4xf32>
          %r = flow.tensor.bitcast %n : tensor<3x4xf32> -> tensor<3x16xi8>
          return %r : tensor<3x16xi8>
        }""",
        (3, 4), lambda a: (-a).view(np.int8),
    ),
    "bits in another shape": (
        """func.func @f(%a: tensor<2x6xf32>) -> tensor<3x4xi32> {
          %n = arith.negf %a : tensor<2x6xf32>
          %b = flow.tensor.bitcast %n : tensor<2x6xf32> -> tensor<3x4xi32>
          %r = arith.addi %b, %b : tensor<3x4xi32>
          return %r : tensor<3x4xi32>
        }""",
        (2, 6), lambda a: 2 * (-a).view(np.int32).reshape(3, 4),
    ),
    "rank 0": (
        """func.func @f(%a: tensor<f32>) -> tensor<f32> {
          %n = arith.addf %a, %a : tensor<f32>
          return %n : tensor<f32>
        }""",
        (), lambda a: a + a,
    ),
}  # fmt: skip


def put(target: Any, where: Any, what: Any) -> Any:
    target[where] = what
    return target


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    text, shape, expected = MOVES[name]
    a = values(*shape)
    np.testing.assert_array_equal(run(text, a), expected(a))


GATHER = """
func.func @f(%a: tensor<9x5xf32>, %i: tensor<4x1xi32>) -> (tensor<4x5xf32>, tensor<4x1x5xf32>) {
  %r = tensor.gather %a[%i] gather_dims([0]) : (tensor<9x5xf32>, tensor<4x1xi32>) -> tensor<4x5xf32>
  %s = tensor.gather %a[%i] gather_dims([0]) : (tensor<9x5xf32>, tensor<4x1xi32>) -> tensor<4x1x5xf32>
  return %r, %s : tensor<4x5xf32>, tensor<4x1x5xf32>
}"""

SCATTER = """
func.func @f(%a: tensor<9x5xf32>, %i: tensor<4x1xi32>, %u: tensor<4x5xf32>) -> tensor<9x5xf32> {
  %n = arith.negf %u : tensor<4x5xf32>
  %r = tensor.scatter %n into %a[%i] scatter_dims([0]) unique
    : (tensor<4x5xf32>, tensor<9x5xf32>, tensor<4x1xi32>) -> tensor<9x5xf32>
  return %r : tensor<9x5xf32>
}"""


def test_gather_and_scatter() -> None:
    a, i, u = values(9, 5), np.array([[8], [0], [3], [5]], np.int32), values(4, 5, seed=1)
    both = run(GATHER, a, i)
    np.testing.assert_array_equal(both[0], a[i[:, 0]])
    np.testing.assert_array_equal(both[1], a[i[:, 0]][:, None])
    np.testing.assert_array_equal(run(SCATTER, a, i, u), put(a.copy(), i[:, 0], -u))


def test_a_gather_stays_inside() -> None:
    a, i = values(9, 5), np.array([[-7], [100], [9], [8]], np.int32)
    np.testing.assert_array_equal(run(GATHER, a, i)[0], a[[0, 8, 8, 8]])


def test_what_cannot_be_lowered_is_named() -> None:
    text = """
func.func @f(%a: tensor<4x4xf32>) -> tensor<7xf32> {
  %z = arith.constant dense<0.0> : tensor<7xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i,j)->(i,j)>, affine_map<(i,j)->(i+j)>],
    iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x4xf32>) outs(%z : tensor<7xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<7xf32>
  return %r : tensor<7xf32>
}"""
    with pytest.raises(pd.CompileError, match=r"linalg\.generic.*projected permutation") as caught:
        pd.compile(text)
    assert caught.value.location is not None and caught.value.location.line == 4


NIBBLES = """
func.func @f(%a: tensor<?x5xi8>) -> tensor<5x?xi8> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %a, %c0 : tensor<?x5xi8>
  %r = arith.trunci %a : tensor<?x5xi8> to tensor<?x5xi4>
  %b = util.optimization_barrier %r : tensor<?x5xi4>
  %e = tensor.empty(%m) : tensor<5x?xi4>
  %t = linalg.generic {indexing_maps = [affine_map<(i,j)->(j,i)>, affine_map<(i,j)->(i,j)>],
    iterator_types = ["parallel", "parallel"]} ins(%b : tensor<?x5xi4>) outs(%e : tensor<5x?xi4>) {
  ^bb0(%x: i4, %y: i4):
    linalg.yield %x : i4
  } -> tensor<5x?xi4>
  %c = util.optimization_barrier %t : tensor<5x?xi4>
  %s = arith.extsi %c : tensor<5x?xi4> to tensor<5x?xi8>
  return %s : tensor<5x?xi8>
}"""


@pytest.mark.parametrize("m", SIZES)
def test_packed_elements(m: int) -> None:
    a = np.random.default_rng(m).integers(-8, 8, (m, 5)).astype(np.int8)
    np.testing.assert_array_equal(run(NIBBLES, a), a.T)
