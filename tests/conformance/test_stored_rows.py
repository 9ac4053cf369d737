"""Values that a row stores for its later loops: the rows and elements that loops may read there."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend

ROWS = 3
PROGRAM = """
func.func @f(%x: tensor<3x7xf32>) -> (tensor<3x7xf32>, tensor<3xf32>) {{
  %e = tensor.empty() : tensor<3x7xf32>
  %f = tensor.empty() : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%f : tensor<3xf32>) -> tensor<3xf32>
  %y = math.tanh %x : tensor<3x7xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}}
      outs(%e : tensor<3x7xf32>) {{
  ^bb0(%o: f32):
    %c2 = arith.constant 2 : index
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %other = {row}
    %v = tensor.extract %y[%other, %j] : tensor<3x7xf32>
    linalg.yield %v : f32
  }} -> tensor<3x7xf32>
  %sum = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]}} ins(%y : tensor<3x7xf32>) outs(%z : tensor<3xf32>) {{
  ^bb0(%p: f32, %o: f32):
    %s = arith.addf %p, %o : f32
    linalg.yield %s : f32
  }} -> tensor<3xf32>
  %squares = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>,
      affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}}
      ins(%y, %sum : tensor<3x7xf32>, tensor<3xf32>) outs(%z : tensor<3xf32>) {{
  ^bb0(%p: f32, %m: f32, %o: f32):
    %d = arith.subf %p, %m : f32
    %q = arith.mulf %d, %d : f32
    %s = arith.addf %q, %o : f32
    linalg.yield %s : f32
  }} -> tensor<3xf32>
  return %r, %squares : tensor<3x7xf32>, tensor<3xf32>
}}"""


@pytest.mark.parametrize(("row", "order"), [
    ("arith.subi %c2, %i : index", [2, 1, 0]),
    ("arith.remui %c2, %c2 : index", [0, 0, 0]),
    ("arith.minui %i, %c2 : index", [0, 1, 2]),  # the stored row itself
])  # fmt: skip
def test_rows_that_are_read_elsewhere(row: str, order: list[int], backend: Backend) -> None:
    x = np.random.default_rng(3).standard_normal((ROWS, 7)).astype(np.float32)
    rows, squares = map(np.asarray, backend.load(PROGRAM.format(row=row)).f(x))
    y = np.tanh(x.astype(np.float64))
    np.testing.assert_allclose(rows, y[order], rtol=1e-5)
    np.testing.assert_allclose(squares, ((y - y.sum(1, keepdims=True)) ** 2).sum(1), rtol=1e-4)


MATRIX, ROW = "tensor<?x?xf32>", "tensor<?xf32>"
EACH, ITS_ROW = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>"


def reduced(name: str, source: str, combiner: str) -> str:
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{EACH}, {ITS_ROW}], iterator_types = ["parallel", "reduction"]}}
      ins(%{source} : {MATRIX}) outs(%z : {ROW}) {{
  ^bb0(%p: f32, %o: f32):
    %q = {combiner} %p, %o : f32
    linalg.yield %q : f32
  }} -> {ROW}"""


def with_row(name: str, source: str, row: str, operation: str) -> str:
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{EACH}, {ITS_ROW}, {EACH}], iterator_types = ["parallel", "parallel"]}}
      ins(%{source}, %{row} : {MATRIX}, {ROW}) outs(%e : {MATRIX}) {{
  ^bb0(%p: f32, %k: f32, %o: f32):
    %q = {operation} %p, %k : f32
    linalg.yield %q : f32
  }} -> {MATRIX}"""


def at_column(name: str, column: str) -> str:
    return f"""
  %{name} = linalg.generic {{indexing_maps = [{EACH}], iterator_types = ["parallel", "parallel"]}}
      outs(%e : {MATRIX}) {{
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %last = arith.subi %m, %c1 : index
    %opposite = arith.subi %last, %j : index
    %w = tensor.extract %v[%i, {column}] : {MATRIX}
    linalg.yield %w : f32
  }} -> {MATRIX}"""


DIVIDED = with_row("r", "v", "s", "arith.divf")
SPREAD = with_row("d", "v", "s", "arith.subf") + reduced("t", "d", "arith.maximumf")
READ_LATER = {
    # A reduction computes and stores the result %r before the last loop reads %v.
    "result of a reduction": (
        DIVIDED + reduced("t", "r", "arith.maximumf") + with_row("u", "v", "t", "arith.mulf"),
        {"r": MATRIX, "u": MATRIX},
        lambda x, v, s: [v / s, v * (v / s).max(1, keepdims=True)],
    ),
    # The loop that computes and stores the result %r reads %v after that.
    "after the result": (
        with_row("r", "x", "s", "arith.divf") + f"%w = arith.addf %r, %v : {MATRIX}" + reduced("t", "w", "arith.addf"),
        {"r": MATRIX, "t": ROW},
        lambda x, v, s: [x / s, (x / s + v).sum(1)],
    ),
    # One loop computes both results, of which only the second reads %v.
    "in another result": (
        f"%w = arith.addf %x, %x : {MATRIX}" + DIVIDED,
        {"w": MATRIX, "r": MATRIX},
        lambda x, v, s: [x + x, v / s],
    ),
    "in opposite columns": (
        at_column("r", "%opposite") + SPREAD,
        {"r": MATRIX, "t": ROW},
        lambda x, v, s: [v[:, ::-1], np.maximum(0, (v - s).max(1))],
    ),
    "in one column": (
        at_column("r", "%c0") + SPREAD,
        {"r": MATRIX, "t": ROW},
        lambda x, v, s: [np.broadcast_to(v[:, :1], v.shape), np.maximum(0, (v - s).max(1))],
    ),
}


@pytest.mark.parametrize("case", READ_LATER)
def test_rows_of_results_hold_values_until_the_results_are_stored(case: str, backend: Backend) -> None:
    """The row of a result has room for the exponentials that several loops read, but not in each of these programs."""
    lines, results, reference = READ_LATER[case]
    types = ", ".join(results.values())
    program = f"""
func.func @f(%x: {MATRIX}) -> ({types}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c0 : {MATRIX}
  %m = tensor.dim %x, %c1 : {MATRIX}
  %e = tensor.empty(%n, %m) : {MATRIX}
  %f = tensor.empty(%n) : {ROW}
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%f : {ROW}) -> {ROW}
  %v = math.exp %x : {MATRIX}
  {reduced("s", "v", "arith.addf")}
  {lines}
  return {", ".join(f"%{name}" for name in results)} : {types}
}}"""
    x = np.random.default_rng(3).standard_normal((ROWS, 300)).astype(np.float32)
    found = backend.load(program).f(x)
    v = np.exp(x.astype(np.float64))
    for result, want in zip(found, reference(x, v, v.sum(1, keepdims=True)), strict=True):
        np.testing.assert_allclose(np.asarray(result), want, rtol=1e-4, atol=1e-5)
