# ruff: noqa: E501  (lines of MLIR)
"""Tensor programs through the GPU lowering on lavapipe, against NumPy: one of each family, sizes that fit no tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

rng = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def run(text: str, *inputs: Any) -> Any:
    program = pd.device("vulkan:0").load(pd.compile(text, targets=("vulkan",)))
    results = program.f(*inputs)
    return [np.asarray(r) for r in results] if isinstance(results, tuple | list) else np.asarray(results)


@pytest.mark.parametrize(("rows", "columns"), [(1, 7), (5, 33), (3, 300), (70, 5000), (200, 10)])
def test_softmax(rows: int, columns: int) -> None:
    t = f"tensor<{rows}x{columns}xf32>"
    x = normal(rows, columns)
    found = run(f"""func.func @f(%a: {t}) -> {t} {{
      %e = tensor.empty() : {t}
      %s = linalg.softmax dimension(1) ins(%a : {t}) outs(%e : {t}) -> {t}
      return %s : {t} }}""", x)  # fmt: skip
    np.testing.assert_allclose(found, softmax(x), 1e-5, 1e-7)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 64, 40), (33, 70, 19), (64, 512, 32), (40, 10, 100), (9, 129, 1), (17, 600, 12)]
)
@pytest.mark.parametrize("element", ["f32", "f16", "i8"])
def test_matmul(m: int, n: int, k: int, element: str) -> None:
    dtype = {"f32": np.float32, "f16": np.float16, "i8": np.int8}[element]
    out = "i32" if element == "i8" else "f32"
    a = rng.integers(-9, 9, (m, k)).astype(dtype)
    b = rng.integers(-9, 9, (k, n)).astype(dtype)
    bias = rng.integers(-9, 9, n).astype(np.int32 if element == "i8" else np.float32)
    add = "arith.addi" if element == "i8" else "arith.addf"
    r = f"tensor<{m}x{n}x{out}>"
    zero = "0" if element == "i8" else "0.0"
    found = run(f"""func.func @f(%a: tensor<{m}x{k}x{element}>, %b: tensor<{k}x{n}x{element}>, %c: tensor<{n}x{out}>) -> {r} {{
      %z = arith.constant {zero} : {out}
      %e = tensor.empty() : {r}
      %i = linalg.fill ins(%z : {out}) outs(%e : {r}) -> {r}
      %p = linalg.matmul ins(%a, %b : tensor<{m}x{k}x{element}>, tensor<{k}x{n}x{element}>) outs(%i : {r}) -> {r}
      %w = linalg.broadcast ins(%c : tensor<{n}x{out}>) outs(%e : {r}) dimensions = [0]
      %s = {add} %p, %w : {r}
      return %s : {r} }}""", a, b, bias)  # fmt: skip
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64) + bias)


def test_matmul_of_open_sizes() -> None:
    found_for: list[np.ndarray] = []
    text = """func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %m = tensor.dim %a, %c0 : tensor<?x?xf32>
      %n = tensor.dim %b, %c1 : tensor<?x?xf32>
      %z = arith.constant 0.0 : f32
      %e = tensor.empty(%m, %n) : tensor<?x?xf32>
      %i = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
      %p = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%i : tensor<?x?xf32>) -> tensor<?x?xf32>
      return %p : tensor<?x?xf32> }"""
    program = pd.device("vulkan:0").load(pd.compile(text, targets=("vulkan",)))
    for m, k, n in ((3, 5, 7), (65, 9, 130), (1, 1, 1), (8, 64, 64)):
        a, b = normal(m, k), normal(k, n)
        found_for.append(np.asarray(program.f(a, b)))
        np.testing.assert_allclose(found_for[-1], a @ b, 1e-4, 1e-5)


@pytest.mark.parametrize("shape", [(5,), (65536,), (70, 33), (3, 4, 500)])
def test_reductions_to_one_number(shape: tuple[int, ...]) -> None:
    x = rng.integers(-100, 100, shape).astype(np.int32)
    t, dims = "x".join(map(str, shape)), ", ".join(map(str, range(len(shape))))
    found = run(f"""func.func @f(%a: tensor<{t}xi32>, %b: tensor<i32>) -> (tensor<i32>, tensor<i32>) {{
      %s = linalg.reduce {{ arith.addi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<i32>) dimensions = [{dims}]
      %m = linalg.reduce {{ arith.maxsi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<i32>) dimensions = [{dims}]
      return %s, %m : tensor<i32>, tensor<i32> }}""", x, np.array(3, np.int32))  # fmt: skip
    assert (int(found[0]), int(found[1])) == (int(x.sum()) + 3, max(3, int(x.max())))


@pytest.mark.parametrize("dim", [0, 1])
def test_sums_of_rows_and_columns(dim: int) -> None:
    x = normal(130, 77)
    kept = x.shape[1 - dim]
    found = run(f"""func.func @f(%a: tensor<130x77xf32>) -> tensor<{kept}xf32> {{
      %z = arith.constant dense<0.0> : tensor<{kept}xf32>
      %s = linalg.reduce {{ arith.addf }} ins(%a : tensor<130x77xf32>) outs(%z : tensor<{kept}xf32>) dimensions = [{dim}]
      return %s : tensor<{kept}xf32> }}""", x)  # fmt: skip
    np.testing.assert_allclose(found, x.sum(dim), 1e-4, 1e-5)


def test_argmax_has_an_order() -> None:
    x = rng.integers(0, 9, (6, 90)).astype(np.float32)
    found = run("""#m0 = affine_map<(d0, d1) -> (d0, d1)>
    #m1 = affine_map<(d0, d1) -> (d0)>
    func.func @f(%a: tensor<6x90xf32>) -> (tensor<6xf32>, tensor<6xi64>) {
      %v = arith.constant dense<-1.0> : tensor<6xf32>
      %i = arith.constant dense<0> : tensor<6xi64>
      %r:2 = linalg.generic {indexing_maps = [#m0, #m1, #m1], iterator_types = ["parallel", "reduction"]}
        ins(%a : tensor<6x90xf32>) outs(%v, %i : tensor<6xf32>, tensor<6xi64>) {
      ^bb0(%x: f32, %best: f32, %at: i64):
        %d = linalg.index 1 : index
        %n = arith.index_cast %d : index to i64
        %c = arith.cmpf ogt, %x, %best : f32
        %s = arith.select %c, %x, %best : f32
        %p = arith.select %c, %n, %at : i64
        linalg.yield %s, %p : f32, i64
      } -> (tensor<6xf32>, tensor<6xi64>)
      return %r#0, %r#1 : tensor<6xf32>, tensor<6xi64> }""", x)  # fmt: skip
    np.testing.assert_array_equal(found[0], x.max(1))
    np.testing.assert_array_equal(found[1], x.argmax(1))


def test_convolution() -> None:
    x, w = normal(2, 9, 11, 5), normal(3, 3, 5, 40)
    found = run("""func.func @f(%x: tensor<2x9x11x5xf32>, %w: tensor<3x3x5x40xf32>) -> tensor<2x7x9x40xf32> {
      %z = arith.constant dense<0.0> : tensor<2x7x9x40xf32>
      %c = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
        ins(%x, %w : tensor<2x9x11x5xf32>, tensor<3x3x5x40xf32>) outs(%z : tensor<2x7x9x40xf32>) -> tensor<2x7x9x40xf32>
      return %c : tensor<2x7x9x40xf32> }""", x, w)  # fmt: skip
    expected = sum(np.einsum("nhwc,cf->nhwf", x[:, i : i + 7, j : j + 9], w[i, j]) for i in range(3) for j in range(3))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


def test_moves() -> None:
    x = normal(13, 70)
    found = run("""func.func @f(%a: tensor<13x70xf32>) -> (tensor<70x13xf32>, tensor<15x74xf32>, tensor<4x20xf32>) {
      %e = tensor.empty() : tensor<70x13xf32>
      %t = linalg.transpose ins(%a : tensor<13x70xf32>) outs(%e : tensor<70x13xf32>) permutation = [1, 0]
      %z = arith.constant 7.0 : f32
      %p = tensor.pad %a low[1, 3] high[1, 1] { ^bb0(%i: index, %j: index): tensor.yield %z : f32 } : tensor<13x70xf32> to tensor<15x74xf32>
      %s = tensor.extract_slice %a[2, 5][4, 20][3, 2] : tensor<13x70xf32> to tensor<4x20xf32>
      return %t, %p, %s : tensor<70x13xf32>, tensor<15x74xf32>, tensor<4x20xf32> }""", x)  # fmt: skip
    np.testing.assert_array_equal(found[0], x.T)
    np.testing.assert_array_equal(found[1], np.pad(x, ((1, 1), (3, 1)), constant_values=7))
    np.testing.assert_array_equal(found[2], x[2:14:3, 5:45:2])


def test_gather_stays_inside() -> None:
    """Coordinates beyond the border are moved to it, also those that 32 bits do not hold."""
    x = normal(50, 6)
    at = np.array([[0], [49], [7], [-3], [1 << 40], [-(1 << 40)]], np.int64)
    found = run("""func.func @f(%a: tensor<50x6xf32>, %i: tensor<6x1xi64>) -> tensor<6x6xf32> {
      %c = arith.index_cast %i : tensor<6x1xi64> to tensor<6x1xindex>
      %g = tensor.gather %a[%c] gather_dims([0]) : (tensor<50x6xf32>, tensor<6x1xindex>) -> tensor<6x6xf32>
      return %g : tensor<6x6xf32> }""", x, at)  # fmt: skip
    np.testing.assert_array_equal(found, x[np.clip(at[:, 0], 0, 49)])


@pytest.mark.parametrize("size", [1, 63, 65, 100001])
@pytest.mark.parametrize("element", ["f32", "f64", "f16", "i8", "i16", "i64"])
def test_elementwise(element: str, size: int) -> None:
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i64": np.int64}[
        element
    ]
    ops = ("arith.muli", "arith.addi") if element[0] == "i" else ("arith.mulf", "arith.addf")
    a, b = (rng.integers(-50, 50, size).astype(dtype) for _ in range(2))
    t = f"tensor<{size}x{element}>"
    found = run(f"""func.func @f(%a: {t}, %b: {t}) -> {t} {{
      %p = {ops[0]} %a, %b : {t}
      %s = {ops[1]} %p, %a : {t}
      return %s : {t} }}""", a, b)  # fmt: skip
    np.testing.assert_array_equal(found, a * b + a)


@pytest.mark.parametrize("rows", ["70000", "?"])
def test_more_rows_than_workgroups(rows: str) -> None:
    """A grid has 65,535 workgroups at most: further rows are done in turn."""
    x = rng.integers(-9, 9, (70000, 40)).astype(np.float32)
    size = "" if rows != "?" else "(%n)"
    found = run(f"""func.func @f(%a: tensor<{rows}x40xf32>) -> tensor<{rows}xf32> {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %a, %c0 : tensor<{rows}x40xf32>
      %z = arith.constant 0.0 : f32
      %e = tensor.empty{size or "()"} : tensor<{rows}xf32>
      %i = linalg.fill ins(%z : f32) outs(%e : tensor<{rows}xf32>) -> tensor<{rows}xf32>
      %s = linalg.reduce {{ arith.addf }} ins(%a : tensor<{rows}x40xf32>) outs(%i : tensor<{rows}xf32>) dimensions = [1]
      return %s : tensor<{rows}xf32> }}""", x)  # fmt: skip
    np.testing.assert_array_equal(found, x.sum(1))


@pytest.mark.parametrize(("shape", "dim"), [((8, 70000), 1), ((70000, 8), 0), ((3, 70, 1000), 2), ((1000, 33), 0)])
def test_few_results_of_long_reductions(shape: tuple[int, ...], dim: int) -> None:
    """A workgroup does each; one invocation alone would make more turns than lavapipe lets it."""
    x = rng.integers(-100, 100, shape).astype(np.int32)
    t, kept = "x".join(map(str, shape)), "x".join(str(n) for i, n in enumerate(shape) if i != dim)
    found = run(f"""func.func @f(%a: tensor<{t}xi32>) -> tensor<{kept}xi32> {{
      %b = arith.constant dense<1> : tensor<{kept}xi32>
      %s = linalg.reduce {{ arith.addi }} ins(%a : tensor<{t}xi32>) outs(%b : tensor<{kept}xi32>) dimensions = [{dim}]
      return %s : tensor<{kept}xi32> }}""", x)  # fmt: skip
    np.testing.assert_array_equal(found, x.sum(dim) + 1)
