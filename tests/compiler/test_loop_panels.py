"""Weights that are arguments are packed once before a loop that multiplies by them in every iteration."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.constants.loop_panels import MIN_ITERATIONS, MIN_ROWS
from pydispatch.compiler.driver.pipeline import compile_to

DEPTH, COLUMNS = 160, 160

LOOP = """
func.func @run(%h0: tensor<{rows}x160xf32>, %w: tensor<160x160xf32>) -> tensor<{rows}x160xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant {iterations} : index
  %zero = arith.constant 0.0 : f32
  %fill = tensor.splat %zero : tensor<{rows}x160xf32>
  %h = scf.for %i = %c0 to %end step %c1 iter_args(%state = %h0) -> tensor<{rows}x160xf32> {{
    %a = {product}
    %next = math.tanh %a : tensor<{rows}x160xf32>
    scf.yield %next : tensor<{rows}x160xf32>
  }}
  return %h : tensor<{rows}x160xf32>
}}
"""

PRODUCT = """linalg.matmul ins(%state, %w : tensor<{rows}x160xf32>, tensor<160x160xf32>)
        outs(%fill : tensor<{rows}x160xf32>) -> tensor<{rows}x160xf32>"""

TRANSPOSED = """linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
        affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
        ins(%state, %w : tensor<{rows}x160xf32>, tensor<160x160xf32>) outs(%fill : tensor<{rows}x160xf32>) {{
    ^bb0(%l: f32, %r: f32, %o: f32):
      %p = arith.mulf %l, %r : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    }} -> tensor<{rows}x160xf32>"""


BRANCHES = 6
CONDITIONAL_PRODUCT = """
    %a{index} = scf.if %condition -> tensor<4x160xf32> {{
      %product = linalg.matmul ins({state}, %w{index} : tensor<4x160xf32>, tensor<160x160xf32>)
          outs(%fill : tensor<4x160xf32>) -> tensor<4x160xf32>
      scf.yield %product : tensor<4x160xf32>
    }} else {{
      scf.yield {state} : tensor<4x160xf32>
    }}"""


def loop(product: str = PRODUCT, iterations: int = MIN_ITERATIONS, rows: int = 4) -> str:
    """A state of some rows that is multiplied by a matrix in each iteration of a loop."""
    return LOOP.format(product=product.format(rows=rows), iterations=iterations, rows=rows)


def is_packed(text: str) -> bool:
    """Return whether the product of a program reads panels of the matrix."""
    formed = compile_to("dispatches", text, targets="cpu", cpu="x86-64-v3")
    return re.search(r"func\.func @run_dispatch_\d+_matmul\w*\(.*tensor<5x160x32xf32>", str(formed)) is not None


@pytest.mark.parametrize("product", [PRODUCT, TRANSPOSED], ids=["rows", "transposed"])
def test_arguments_are_packed_before_the_loop(product: str) -> None:
    text = loop(product)
    assert is_packed(text)
    rng = np.random.default_rng(1)
    state, w = rng.standard_normal((4, 160)).astype(np.float32), rng.standard_normal((160, 160)).astype(np.float32) / 16
    got = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu="native")).run(state, w)
    expected = state.astype(np.float64)
    for _ in range(MIN_ITERATIONS):
        expected = np.tanh(expected @ (w if product is PRODUCT else w.T).astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("iterations", "rows"), [(MIN_ITERATIONS - 1, 4), (MIN_ITERATIONS, MIN_ROWS - 1)])
def test_short_loops_and_single_rows_read_the_matrix_in_place(iterations: int, rows: int) -> None:
    assert not is_packed(loop(iterations=iterations, rows=rows))


def test_a_matrix_that_the_loop_computes_is_not_packed() -> None:
    computed = loop().replace("%a = linalg.matmul", "%v = arith.negf %w : tensor<160x160xf32>\n    %a = linalg.matmul")
    assert not is_packed(computed.replace("ins(%state, %w", "ins(%state, %v"))


def test_factors_are_packed_in_the_order_of_their_products() -> None:
    states = ["%state", *(f"%a{index}" for index in range(BRANCHES))]
    products = "".join(CONDITIONAL_PRODUCT.format(state=states[index], index=index) for index in range(BRANCHES))
    weights = "".join(f", %w{index}: tensor<160x160xf32>" for index in range(BRANCHES))
    text = LOOP.format(product="PRODUCTS", iterations=MIN_ITERATIONS, rows=4)
    text = text.replace(", %w: tensor<160x160xf32>", f", %condition: i1{weights}")
    text = text.replace("%a = PRODUCTS", products).replace("math.tanh %a", f"math.tanh {states[-1]}")
    host = str(compile_to("dispatches", text, targets="cpu", cpu="x86-64-v3"))
    packed = re.findall(r"flow\.dispatch @\S+\((%w\d)\) : \(tensor<160x160xf32>\) -> tensor<5x160x32xf32>", host)
    assert packed == [f"%w{index}" for index in range(BRANCHES)]
