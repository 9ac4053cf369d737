"""Products of slices in loops are computed for all slices before the loop; arguments that never change leave it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import scf

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.flatten.loop_arguments import without_invariant_arguments
from pydispatch.compiler.flatten.sliced_products import hoist_sliced_products
from pydispatch.compiler.normalize import normalize
from pydispatch.ir.structured import as_structured

STEPS, ROWS, DEPTH, COLUMNS = 7, 3, 12, 20
FORWARD, BACKWARD = "%i", "%last"

RECURRENCE = """
func.func @run(%x: tensor<{steps}x{rows}x{depth}xf32>, %w: tensor<{depth}x{columns}xf32>,
               %r: tensor<{columns}x{columns}xf32>) -> (tensor<{rows}x{columns}xf32>, tensor<{depth}x{columns}xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant {count} : index
  %one_less = arith.constant {one_less} : index
  %zero = arith.constant 0.0 : f32
  %h0 = tensor.splat %zero : tensor<{rows}x{columns}xf32>
  %h, %weights = scf.for %i = %c0 to %end step %c1 iter_args(%state = %h0, %u = %w)
      -> (tensor<{rows}x{columns}xf32>, tensor<{depth}x{columns}xf32>) {{
    %last = arith.subi %one_less, %i : index
    %slice = tensor.extract_slice %x[{index}, 0, 0] [1, {rows}, {depth}] [1, 1, 1]
        : tensor<{steps}x{rows}x{depth}xf32> to tensor<{rows}x{depth}xf32>
    %fill = tensor.splat %zero : tensor<{rows}x{columns}xf32>
    %a = linalg.matmul ins(%slice, %u : tensor<{rows}x{depth}xf32>, tensor<{depth}x{columns}xf32>)
        outs(%fill : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
    %b = linalg.matmul ins(%state, %r : tensor<{rows}x{columns}xf32>, tensor<{columns}x{columns}xf32>)
        outs(%fill : tensor<{rows}x{columns}xf32>) -> tensor<{rows}x{columns}xf32>
    %sum = arith.addf %a, %b : tensor<{rows}x{columns}xf32>
    %next = math.tanh %sum : tensor<{rows}x{columns}xf32>
    scf.yield %next, %u : tensor<{rows}x{columns}xf32>, tensor<{depth}x{columns}xf32>
  }}
  return %h, %weights : tensor<{rows}x{columns}xf32>, tensor<{depth}x{columns}xf32>
}}
"""


def recurrence(index: str = FORWARD, count: int = STEPS, rows: int = ROWS) -> str:
    """A recurrent network, whose weights are an iteration argument. count: iterations, of STEPS slices."""
    return RECURRENCE.format(
        index=index, count=count, one_less=count - 1, rows=rows, steps=STEPS, depth=DEPTH, columns=COLUMNS
    )


def products_in_loop(text: str) -> tuple[int, int]:
    """Return the number of contractions that stay in the loop of a program, and of its iteration arguments."""
    module = ir.parse(text)
    normalize(module)
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    loop = without_invariant_arguments(loop)
    hoist_sliced_products(loop)
    module.verify()
    structures = [as_structured(op) for op in loop.body.block.ops]
    return sum(s is not None and s.contracts for s in structures), len(loop.iter_args)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 2


@pytest.mark.parametrize("index", [FORWARD, BACKWARD])
@pytest.mark.parametrize(("count", "rows", "stay"), [(STEPS, ROWS, 1), (STEPS - 2, ROWS, 2), (STEPS, DEPTH + 1, 2)])
def test_recurrent_network(count: int, rows: int, stay: int, index: str) -> None:
    """The product of the inputs leaves the loop, unless slices are not read or the product exceeds the weights."""
    text = recurrence(index, count, rows)
    assert products_in_loop(text) == (stay, 1)
    x, w, r = random(STEPS, rows, DEPTH), random(DEPTH, COLUMNS), random(COLUMNS, COLUMNS)
    state = np.zeros((rows, COLUMNS), np.float32)
    for step in range(count) if index == FORWARD else reversed(range(count)):
        state = np.tanh(x[step] @ w + state @ r)
    got, weights = pd.device("cpu").load(pd.compile(text, targets="cpu", cpu="native")).run(x, w, r)
    np.testing.assert_allclose(got, state, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(weights, w)


VECTORS = """
func.func @run(%x: tensor<7x12xf32>, %w: tensor<12x20xf32>) -> tensor<20xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant 7 : index
  %zero = arith.constant 0.0 : f32
  %h0 = tensor.splat %zero : tensor<20xf32>
  %h = scf.for %i = %c0 to %end step %c1 iter_args(%state = %h0) -> tensor<20xf32> {
    %row = tensor.extract_slice %x[%i, 0] [1, 12] [1, 1] : tensor<7x12xf32> to tensor<1x12xf32>
    %slice = tensor.collapse_shape %row [[0, 1]] : tensor<1x12xf32> into tensor<12xf32>
    %fill = tensor.splat %zero : tensor<20xf32>
    %a = linalg.vecmat ins(%slice, %w : tensor<12xf32>, tensor<12x20xf32>)
        outs(%fill : tensor<20xf32>) -> tensor<20xf32>
    %half = arith.addf %state, %a : tensor<20xf32>
    %next = math.tanh %half : tensor<20xf32>
    scf.yield %next : tensor<20xf32>
  }
  return %h : tensor<20xf32>
}
"""


def test_vectors_become_rows_of_one_product() -> None:
    assert products_in_loop(VECTORS) == (0, 1)
    x, w = random(7, 12), random(12, 20)
    state = np.zeros(20, np.float32)
    for row in x:
        state = np.tanh(state + row @ w)
    got = pd.device("cpu").load(pd.compile(VECTORS, targets="cpu", cpu="native")).run(x, w)
    np.testing.assert_allclose(got, state, rtol=1e-5, atol=1e-5)


def test_factors_that_a_loop_computes_stay() -> None:
    """Weights that every iteration changes, and sums that begin with its state, belong to the iteration."""
    changed = recurrence().replace(
        "scf.yield %next, %u", "%v = arith.negf %u : tensor<12x20xf32>\n scf.yield %next, %v"
    )
    assert products_in_loop(changed) == (2, 2)
    begun = recurrence().replace("outs(%fill", "outs(%state", 1)
    assert products_in_loop(begun) == (2, 1)
