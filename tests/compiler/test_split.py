"""Large reductions into few results, or into columns, in parts that workers share, and products with many steps."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

AXES = {(0, 1): "()", (0,): "(b)", (1,): "(a)"}


def reduction(rows: int, columns: int, axes: tuple[int, ...], op: str, start: str) -> str:
    left = [n for d, n in enumerate((rows, columns)) if d not in axes]
    out = f"tensor<{''.join(f'{n}x' for n in left)}f32>"
    kinds = ", ".join('"reduction"' if d in axes else '"parallel"' for d in (0, 1))
    return f"""
func.func @f(%x: tensor<{rows}x{columns}xf32>) -> {out} {{
  %start = arith.constant {start} : f32
  %e = tensor.empty() : {out}
  %z = linalg.fill ins(%start : f32) outs(%e : {out}) -> {out}
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> {AXES[axes]}>],
      iterator_types = [{kinds}]}} ins(%x : tensor<{rows}x{columns}xf32>) outs(%z : {out}) {{
    ^bb0(%v: f32, %acc: f32):
      %t = arith.{op} %acc, %v : f32
      linalg.yield %t : f32
  }} -> {out}
  return %r : {out}
}}
"""


def product(m: int, k: int, n: int) -> str:
    a, b, c = (f"tensor<{x}x{y}xf32>" for x, y in ((m, k), (k, n), (m, n)))
    return f"""
func.func @f(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {c}
  %z = linalg.fill ins(%zero : f32) outs(%e : {c}) -> {c}
  %r = linalg.matmul ins(%a, %b : {a}, {b}) outs(%z : {c}) -> {c}
  return %r : {c}
}}
"""


def check(text: str, expected: np.ndarray, *arguments: np.ndarray) -> list[str]:
    """The commands of a call with right results, of the same bits for every number of workers."""
    artifact = pd.compile(text, targets="cpu", cpu="native")
    functions = [pd.device(f"cpu?workers={workers}").load(artifact).f for workers in (1, 2, 3)]
    results = [np.asarray(function(*arguments)) for function in functions]
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()
    return functions[0].plan_of(*arguments)


@pytest.mark.parametrize("axes", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize(
    ("rows", "columns"), [(1031, 1033), (1009, 1013), (4096, 300), (200003, 6), (7, 150001), (131, 8209)]
)
def test_reductions(rows: int, columns: int, axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, columns), dtype=np.float32)
    check(reduction(rows, columns, axes, "addf", "0.5"), x.astype(np.float64).sum(axes) + 0.5, x)
    check(reduction(rows, columns, axes, "maximumf", "0.25"), np.maximum(x.max(axes), 0.25), x)


@pytest.mark.parametrize(("m", "k", "n"), [(64, 16384, 40), (8, 8209, 64), (3, 20001, 5), (1, 65536, 33)])
def test_products(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32)
    assert len(check(product(m, k, n), a.astype(np.float64) @ b, a, b)) > 1


def test_a_peeled_reduction_is_split() -> None:
    """Of 131 x 1001 steps, no number of parts divides either; 128 x 1001 alone would be too few to be split."""
    x = np.random.default_rng(5).standard_normal((131, 1001), dtype=np.float32)
    text = reduction(131, 1001, (0, 1), "addf", "0.5")
    assert len(check(text, x.astype(np.float64).sum() + 0.5, x)) == 2  # 64 parts; the peeled steps with the parts
    fewer = reduction(131, 997, (0, 1), "addf", "0.5")
    assert len(check(fewer, x[:, :997].astype(np.float64).sum() + 0.5, np.ascontiguousarray(x[:, :997]))) == 1


def test_whole_rows() -> None:
    """Columns of many rows are summed in parts of rows, and the parts then."""
    x = np.random.default_rng(1).standard_normal((4096, 512), dtype=np.float32)
    assert len(check(reduction(4096, 512, (0,), "addf", "0.0"), x.astype(np.float64).sum(0), x)) == 2


def runs(places: int, groups: int, channels: int, op: str, value: str, start: str) -> str:
    """Over the places of an image and the channels of each group, which lie side by side."""
    x, out = f"tensor<{places}x3x{groups}x{channels}xf32>", f"tensor<{groups}xf32>"
    return f"""
func.func @f(%x: {x}) -> {out} {{
  %start = arith.constant {start} : f32
  %e = tensor.empty() : {out}
  %z = linalg.fill ins(%start : f32) outs(%e : {out}) -> {out}
  %r = linalg.generic {{indexing_maps = [affine_map<(a, b, g, c) -> (a, b, g, c)>, affine_map<(a, b, g, c) -> (g)>],
      iterator_types = ["reduction", "reduction", "parallel", "reduction"]}} ins(%x : {x}) outs(%z : {out}) {{
    ^bb0(%v: f32, %acc: f32):
      %s = {value}
      %t = arith.{op} %acc, %s : f32
      linalg.yield %t : f32
  }} -> {out}
  return %r : {out}
}}
"""


@pytest.mark.parametrize(("places", "groups", "channels"), [(64, 8, 8), (300, 5, 3), (4099, 4, 64), (8, 8, 8)])
def test_short_runs(places: int, groups: int, channels: int) -> None:
    """Columns for each channel first, where there are many runs; the same bits for every number of workers."""
    x = np.random.default_rng(places).standard_normal((places, 3, groups, channels), dtype=np.float32)
    wide = x.astype(np.float64)
    lines = check(
        runs(places, groups, channels, "addf", "arith.mulf %v, %v : f32", "0.5"), (wide**2).sum((0, 1, 3)) + 0.5, x
    )
    dispatches = [line for line in lines if "dispatch" in line]
    assert len(dispatches) >= 2 if places * 3 >= 64 else len(dispatches) == 1
    check(runs(places, groups, channels, "maximumf", "arith.negf %v : f32", "-1.0e30"), (-wide).max((0, 1, 3)), x)


@pytest.mark.parametrize("groups", [1, 5])
def test_short_runs_of_a_dynamic_number_of_groups(groups: int) -> None:
    x = np.random.default_rng(groups).standard_normal((70, groups, 48), dtype=np.float32)
    start = np.linspace(-1, 1, groups, dtype=np.float32)
    text = """
func.func @f(%x: tensor<70x?x48xf32>, %start: tensor<?xf32>) -> tensor<?xf32> {
  %r = linalg.reduce { arith.addf } ins(%x : tensor<70x?x48xf32>) outs(%start : tensor<?xf32>) dimensions = [0, 2]
  return %r : tensor<?xf32>
}
"""
    assert len(check(text, x.astype(np.float64).sum((0, 2)) + start, x, start)) == 2


def test_short_runs_keep_the_order_of_sums_where_it_is_stated() -> None:
    text = runs(64, 8, 8, "addf", "arith.mulf %v, %v : f32", "0.0")
    program = pd.device("cpu").load(pd.compile(text, targets="cpu", reassociate=False))
    x = np.ones((64, 3, 8, 8), np.float32)
    assert len([line for line in program.f.plan_of(x) if "dispatch" in line]) == 1


@pytest.mark.parametrize(
    ("m", "k", "n", "parts"),
    [(1, 2048, 512, True), (8, 4096, 1024, True), (3, 1501, 1200, True), (9, 4096, 1024, False), (1, 700, 300, False)],
)
def test_few_rows_times_an_argument(m: int, k: int, n: int, parts: bool) -> None:
    """Up to eight rows times a large matrix go in parts of K, each of which reads whole rows."""
    random = np.random.default_rng(m)
    a, b = random.standard_normal((m, k), dtype=np.float32), random.standard_normal((k, n), dtype=np.float32)
    plan = check(product(m, k, n), a.astype(np.float64) @ b, a, b)
    assert (len([line for line in plan if "dispatch" in line]) > 1) == parts, plan


def test_factors_that_differ_between_rows_stay_whole() -> None:
    """Products of each head with its own matrix, as in attention, are left to chains."""
    text = """
func.func @f(%a: tensor<2x1x4096xf32>, %b: tensor<2x4096x512xf32>) -> tensor<2x1x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x1x512xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x1x512xf32>) -> tensor<2x1x512xf32>
  %r = linalg.batch_matmul ins(%a, %b : tensor<2x1x4096xf32>, tensor<2x4096x512xf32>)
      outs(%z : tensor<2x1x512xf32>) -> tensor<2x1x512xf32>
  return %r : tensor<2x1x512xf32>
}
"""
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 1, 4096), np.float32), random.standard_normal((2, 4096, 512), np.float32)
    plan = check(text, a.astype(np.float64) @ b, a, b)
    assert len([line for line in plan if "dispatch" in line]) == 1, plan


@pytest.mark.parametrize(
    ("m", "k", "n", "cpu", "parts"),
    [
        (1, 784, 512, "sapphirerapids", 8), (2, 512, 512, "sapphirerapids", 4), (3, 784, 512, "sapphirerapids", 0),
        (1, 2048, 128, "sapphirerapids", 0), (1, 511, 512, "sapphirerapids", 0), (1, 784, 512, "znver4", 0),
        (1, 784, 512, "x86-64-v4", 0),
    ],
)  # fmt: skip
def test_workers_share_matrices_that_cores_wait_for(m: int, k: int, n: int, cpu: str, parts: int) -> None:
    """One or two rows times a matrix of 1 MiB go in parts where the cache after the second-level one is slow."""
    text = str(compile_to("dispatches", product(m, k, n), targets="cpu", cpu=cpu))
    assert (f"tensor<{parts}x{k // parts}x{n}xf32>" in text) if parts else text.count("flow.dispatch @") == 1


def test_shared_matrices() -> None:
    """The sums of parts are those of the product, on the CPU that has the parts and on others."""
    random = np.random.default_rng(4)
    a, b = random.standard_normal((1, 784), dtype=np.float32), random.standard_normal((784, 512), dtype=np.float32)
    check(product(1, 784, 512), a.astype(np.float64) @ b, a, b)
