"""Rows and columns: reductions with what is computed around them, in one dispatch, against NumPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

LENGTHS = st.sampled_from([0, 1, 2, 3, 7, 16, 61, 64, 65, 257])
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def program(text: str) -> Any:
    return pd.device("cpu").load(pd.compile(text))


def run(text: str, *arguments: Any) -> Any:
    result = program(text).f(*arguments)
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else np.asarray(result)


def dispatches(text: str) -> int:
    return compile_to("dispatches", text).count("flow.dispatch @")


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def reduce(name: str, source: str, init: str, op: str, maps: str = "#full, #row") -> str:
    return f"""
  {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [#p, #r]}}
    ins({source} : !full) outs({init} : !row) {{
  ^bb0(%in: f32, %acc: f32):
    %t0 = arith.{op} %acc, %in : f32
    linalg.yield %t0 : f32
  }} -> !row"""


def each(name: str, ins: str, maps: str, types: str, arguments: str, body: str) -> str:
    return f"""
  {name} = linalg.generic {{indexing_maps = [{maps}, #full], iterator_types = [#p, #p]}}
    ins({ins} : {types}) outs(%e : !full) {{
  ^bb0({arguments}, %out: f32):
    {body}
    linalg.yield %u : f32
  }} -> !full"""


def spelled(text: str, rows: str = "?", columns: str = "?") -> str:
    """The program for static or dynamic sizes."""
    dims = [n for n, s in (("%m", rows), ("%n", columns)) if s == "?"]
    text = text.replace("!full", f"tensor<{rows}x{columns}xf32>").replace("!row", f"tensor<{rows}xf32>")
    text = text.replace("#full", "affine_map<(i, j) -> (i, j)>").replace("#row", "affine_map<(i, j) -> (i)>")
    text = text.replace("#column", "affine_map<(i, j) -> (j)>")
    text = text.replace("#p", '"parallel"').replace("#r", '"reduction"')
    return text.replace("DIMS", ", ".join(dims)).replace("ROWS", f"[{dims[0]}]" if rows == "?" else "")


HEAD = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : !full
  %n = tensor.dim %x, %c1 : !full
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty(DIMS) : !full
  %zeros = tensor.splat %zero ROWS : !row
  %lows = tensor.splat %low ROWS : !row"""

SOFTMAX = (
    "func.func @f(%x: !full) -> !full {" + HEAD + reduce("%max", "%x", "%lows", "maximumf")
    + each("%exp", "%x, %max", "#full, #row", "!full, !row", "%a: f32, %b: f32",
           "%t1 = arith.subf %a, %b : f32\n    %u = math.exp %t1 : f32")
    + reduce("%sum", "%exp", "%zeros", "addf")
    + each("%y", "%exp, %sum", "#full, #row", "!full, !row", "%a: f32, %b: f32", "%u = arith.divf %a, %b : f32")
    + "\n  return %y : !full\n}"
)  # fmt: skip


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


@QUICK
@given(m=LENGTHS, n=LENGTHS)
def test_softmax_of_any_size(m: int, n: int) -> None:
    x = values(m, n)
    np.testing.assert_allclose(run(spelled(SOFTMAX), x), softmax(x), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(("m", "n"), [(5, 1), (3, 64), (1, 1031), (2, 20000), (130, 17)])
def test_softmax_of_one_size(m: int, n: int) -> None:
    x = values(m, n)
    text = spelled(SOFTMAX, str(m), str(n))
    assert dispatches(text) == 1
    np.testing.assert_allclose(run(text, x), softmax(x), rtol=5e-6, atol=1e-7)


def test_softmax_is_one_dispatch_that_computes_each_exponential_once() -> None:
    for sizes in (("512", "1024"), ("?", "?")):
        text = spelled(SOFTMAX, *sizes)
        assert dispatches(text) == 1
        assert compile_to("executables", text).count("math.exp ") == 1


PARTS = (
    "func.func @f(%x: !full) -> (!full, !row) {" + HEAD + reduce("%max", "%x", "%lows", "maximumf")
    + each("%exp", "%x, %max", "#full, #row", "!full, !row", "%a: f32, %b: f32",
           "%t1 = arith.subf %a, %b : f32\n    %u = math.exp %t1 : f32")
    + reduce("%sum", "%exp", "%zeros", "addf") + "\n  return %exp, %sum : !full, !row\n}"
)  # fmt: skip


@QUICK
@given(m=LENGTHS, n=LENGTHS)
def test_a_row_and_its_sum(m: int, n: int) -> None:
    x = values(m, n)
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    exp, total = run(spelled(PARTS), x)
    np.testing.assert_allclose(exp, e, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(total, e.sum(-1), rtol=5e-6, atol=1e-6)


NORM = (
    "func.func @f(%x: !full, %g: tensor<?xf32>) -> (!full, !row) {" + HEAD + reduce("%sum", "%x", "%zeros", "addf")
    + """
  %ni = arith.index_cast %n : index to i32
  %nf = arith.sitofp %ni : i32 to f32
  %mean = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = [#p]}
    ins(%sum : !row) outs(%zeros : !row) {
  ^bb0(%a: f32, %out: f32):
    %u = arith.divf %a, %nf : f32
    linalg.yield %u : f32
  } -> !row"""
    + each("%d", "%x, %mean", "#full, #row", "!full, !row", "%a: f32, %b: f32", "%u = arith.subf %a, %b : f32")
    + each("%sq", "%d", "#full", "!full", "%a: f32", "%u = arith.mulf %a, %a : f32")
    + reduce("%var", "%sq", "%zeros", "addf")
    + each("%y", "%d, %var, %g", "#full, #row, #column", "!full, !row, tensor<?xf32>", "%a: f32, %b: f32, %c: f32",
           """%t1 = arith.divf %b, %nf : f32
    %t2 = arith.constant 1.0e-5 : f32
    %t3 = arith.addf %t1, %t2 : f32
    %t4 = math.rsqrt %t3 : f32
    %t5 = arith.mulf %a, %t4 : f32
    %u = arith.mulf %t5, %c : f32""")
    + "\n  return %y, %mean : !full, !row\n}"
)  # fmt: skip


@QUICK
@given(m=LENGTHS, n=LENGTHS)
def test_layer_norm_with_its_mean(m: int, n: int) -> None:
    x, g = values(m, n), values(n, seed=3)
    text = spelled(NORM)
    assert dispatches(text) == 1
    y, mean = run(text, x, g)
    with np.errstate(all="ignore"):
        want = x.astype(np.float64).mean(-1) if n else np.full(m, np.nan)
        d = x - want[:, None]
        full = d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g if n else d
    np.testing.assert_allclose(mean, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y, full, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 130, 65), (1, 1, 1), (4, 1, 600)])
def test_softmax_over_each_dimension(axis: int, shape: tuple[int, ...]) -> None:
    t = f"tensor<{'x'.join(map(str, shape))}xf32>"
    text = f"""func.func @f(%x: {t}) -> {t} {{
      %e = tensor.empty() : {t}
      %y = linalg.softmax dimension({axis}) ins(%x : {t}) outs(%e : {t}) -> {t}
      return %y : {t}
    }}"""
    x = values(*shape)
    want = np.moveaxis(softmax(np.moveaxis(x, axis, -1)), -1, axis)
    np.testing.assert_allclose(run(text, x), want, rtol=5e-6, atol=1e-7)


HALVES = """
func.func @f(%x: tensor<?x?xf16>) -> tensor<?x?xf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf16>
  %n = tensor.dim %x, %c1 : tensor<?x?xf16>
  %w = arith.extf %x : tensor<?x?xf16> to tensor<?x?xf32>
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %y = linalg.softmax dimension(1) ins(%w : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %h = arith.truncf %y : tensor<?x?xf32> to tensor<?x?xf16>
  return %h : tensor<?x?xf16>
}"""


@QUICK
@given(m=LENGTHS, n=LENGTHS)
def test_softmax_between_conversions(m: int, n: int) -> None:
    x = values(m, n).astype(np.float16)
    want = softmax(x.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(run(HALVES, x), want, rtol=2e-3, atol=1e-6)


MOMENTS = """
func.func @f(%x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<?x?xf32>
  %zero = arith.constant 0.0 : f32
  %z = tensor.splat %zero[%n] : tensor<?xf32>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
    ins(%x : tensor<?x?xf32>) outs(%z, %z : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%a: f32, %s: f32, %q: f32):
    %aa = arith.mulf %a, %a : f32
    %t = arith.addf %s, %a : f32
    %u = arith.addf %q, %aa : f32
    linalg.yield %t, %u : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  %root = math.sqrt %r#1 : tensor<?xf32>
  return %r#0, %root : tensor<?xf32>, tensor<?xf32>
}"""


@QUICK
@given(m=LENGTHS, n=st.sampled_from([0, 1, 3, 64, 1024, 1025, 2300]))
def test_columns_with_two_results_and_an_epilogue(m: int, n: int) -> None:
    x = values(m, n)
    total, root = run(MOMENTS, x)
    np.testing.assert_allclose(total, x.astype(np.float64).sum(0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(root, np.sqrt((x.astype(np.float64) ** 2).sum(0)), rtol=1e-5, atol=1e-5)


def test_reduced_rows_over_two_dimensions() -> None:
    text = """
func.func @f(%x: tensor<4x6x9xf32>) -> tensor<4x6x9xf32> {
  %z = arith.constant dense<0.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x6x9xf32>
  %exp = math.exp %x : tensor<4x6x9xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i)>],
    iterator_types = ["parallel", "reduction", "reduction"]} ins(%exp : tensor<4x6x9xf32>) outs(%z : tensor<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %acc, %a : f32
    linalg.yield %t : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i)>,
    affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%exp, %s : tensor<4x6x9xf32>, tensor<4xf32>) outs(%e : tensor<4x6x9xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %q = arith.divf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<4x6x9xf32>
  return %y : tensor<4x6x9xf32>
}"""
    x = values(4, 6, 9)
    e = np.exp(x)
    assert dispatches(text) == 1
    np.testing.assert_allclose(run(text, x), e / e.sum((1, 2), keepdims=True), rtol=1e-5)


def test_a_row_needs_its_own_reduction() -> None:
    """One value for everything is not a row: the reduction has a dispatch of its own."""
    text = """
func.func @f(%x: tensor<640x90xf32>) -> tensor<640x90xf32> {
  %z = arith.constant dense<0.0> : tensor<f32>
  %e = tensor.empty() : tensor<640x90xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>],
    iterator_types = ["reduction", "reduction"]} ins(%x : tensor<640x90xf32>) outs(%z : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %t = arith.addf %acc, %a : f32
    linalg.yield %t : f32
  } -> tensor<f32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>,
    affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
    ins(%x, %s : tensor<640x90xf32>, tensor<f32>) outs(%e : tensor<640x90xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %q = arith.subf %a, %b : f32
    linalg.yield %q : f32
  } -> tensor<640x90xf32>
  return %y : tensor<640x90xf32>
}"""
    x = values(640, 90)
    assert dispatches(text) == 2
    np.testing.assert_allclose(run(text, x), x - x.sum(dtype=np.float64), rtol=1e-4, atol=1e-4)
