"""`custom_op`: operations on tiles that the program states, compared with NumPy, and the operands that it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from harness import refused

import pydispatch as pd

BODY = """%zero = arith.constant 0.0 : f32
    %1 = linalg.fill ins(%zero : f32) outs(%t3 : tensor<?x?xf32>) -> tensor<?x?xf32>
    %2 = linalg.matmul ins(%t0, %t1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%1 : tensor<?x?xf32>) -> tensor<?x?xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
        iterator_types = ["parallel", "parallel"]}
        ins(%2 : tensor<?x?xf32>) outs(%t3 : tensor<?x?xf32>) {
      ^bb0(%x: f32, %y: f32):
        %4 = arith.mulf %x, %t2 : f32
        linalg.yield %4 : f32
    } -> tensor<?x?xf32>
    iree_linalg_ext.yield %3 : tensor<?x?xf32>"""
TILES = "%t0: tensor<?x?xf32>, %t1: tensor<?x?xf32>, %t2: f32, %t3: tensor<?x?xf32>"
MAPS = ["(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (s0, d1)", "(d0, d1)[s0] -> ()", "(d0, d1)[s0] -> (d0, d1)"]


def program(lhs: str = "3x2", rhs: str = "2x4", out: str = "3x4", maps: list[str] = MAPS, tiles: str = TILES,
            body: str = BODY) -> str:  # fmt: skip
    """A matrix product times a number, as one operation."""
    types = [f"tensor<{shape}xf32>" for shape in (lhs, rhs, out)]
    return f"""func.func @main(%a: {types[0]}, %b: {types[1]}, %s: f32, %o: {types[2]}) -> {types[2]} {{
  %r = iree_linalg_ext.custom_op {{indexing_maps = [{", ".join(f"affine_map<{m}>" for m in maps)}],
      iterator_types = [#iree_linalg_ext.iterator_type<parallel>, #iree_linalg_ext.iterator_type<parallel>]}}
      ins(%a, %b, %s : {types[0]}, {types[1]}, f32) outs(%o : {types[2]}) {{
  ^bb0({tiles}):
    {body}
  }} -> {types[2]}
  return %r : {types[2]}
}}"""


@pytest.mark.parametrize("shapes", [("3x2", "2x4", "3x4"), ("?x?", "?x?", "?x?"), ("3x?", "?x4", "?x4")])
def test_a_product_as_one_operation(shapes):
    random = np.random.default_rng(3)
    a, b, o = (random.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (2, 4), (3, 4)))
    found = pd.device("cpu").load(pd.compile(program(*shapes))).main(a, b, np.float32(2.5), o)
    np.testing.assert_allclose(found, 2.5 * (a @ b), rtol=1e-6, atol=1e-6)


REFUSED = {
    "4 operand(s) need as many indexing maps, got 3": program(maps=MAPS[:3]),
    "the body has 3 argument(s) for 4 operand(s)": program(
        tiles=TILES.replace("%t2: f32, ", ""), body="iree_linalg_ext.yield %t3 : tensor<?x?xf32>"
    ),
    "the argument tensor<?xf32> is no tile of the operand tensor<3x2xf32>": program(
        tiles=TILES.replace("%t0: tensor<?x?xf32>", "%t0: tensor<?xf32>"),
        body="iree_linalg_ext.yield %t3 : tensor<?x?xf32>",
    ),
    "the argument tensor<?x?xf16> is no tile of the operand tensor<2x4xf32>": program(
        tiles=TILES.replace("%t1: tensor<?x?xf32>", "%t1: tensor<?x?xf16>"),
        body="iree_linalg_ext.yield %t3 : tensor<?x?xf32>",
    ),
    "the argument tensor<3x?xf32> is no tile of the operand tensor<2x4xf32>": program(
        tiles=TILES.replace("%t1: tensor<?x?xf32>", "%t1: tensor<3x?xf32>"),
        body="iree_linalg_ext.yield %t3 : tensor<?x?xf32>",
    ),
    "the yielded value f32 is no tile of the output tensor<3x4xf32>": program(body="iree_linalg_ext.yield %t2 : f32"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    assert message in refused(REFUSED[message])
