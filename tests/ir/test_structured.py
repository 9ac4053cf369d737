"""The reader of structured operations: what it reads, and that nothing old is given for an operation that changed."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation

from pydispatch import ir
from pydispatch.compiler.kernels.matmul.match import contraction_of, is_contraction
from pydispatch.ir.structured import Structured, as_structured, cached_structures, is_reduction, structured

MATMUL = """
func.func @f(%a: tensor<?x4xf32>, %b: tensor<4x8xf32>, %c: tensor<?x8xf32>) -> tensor<?x8xf32> {{
  %0 = {} outs(%c : tensor<?x8xf32>){} -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}}"""
INPUTS = "ins(%a, %b : tensor<?x4xf32>, tensor<4x8xf32>)"
NAMED = MATMUL.format(f"linalg.matmul {INPUTS}", "")
GENERIC = MATMUL.format(
    "linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
    'affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ' + INPUTS,
    """ {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %p, %z : f32
    linalg.yield %s : f32
  }""",
)


def only(text: str) -> Operation:
    (found,) = [op for op in ir.parse(text).walk() if op.name.startswith("linalg.") and op.name != "linalg.yield"]
    return found


def facts(g: Structured) -> tuple[object, ...]:
    places = [[(p.tensor.name_hint, p.axis) for p in row] for row in g.loop_dims]
    return g.maps, g.iterators, g.out_dims, g.reduced_loops, g.extents, places, g.has_reduction_loops, g.is_parallel


def test_named_and_generic_read_alike() -> None:
    named, generic = structured(only(NAMED)), structured(only(GENERIC))
    assert facts(named)[1:] == facts(generic)[1:]
    assert sorted(map(str, named.maps)) == sorted(map(str, generic.maps))
    assert generic.iterators == ("parallel", "parallel", "reduction") and generic.reduced_loops == [2]
    assert generic.extents == [None, 8, 4] and generic.has_reduction_loops and not generic.is_parallel
    assert facts(generic)[5] == [[("a", 0), ("c", 0)], [("b", 1), ("c", 1)], [("a", 1), ("b", 0)]]
    assert named.body is None and len(generic.block.args) == 3
    assert as_structured(generic.block.first_op or generic.op) is None


def test_an_operation_is_read_once_until_it_changes() -> None:
    op = only(GENERIC)
    assert structured(op) is not structured(op)
    with cached_structures():
        first = structured(op)
        product = contraction_of(op)
        assert structured(op) is first and contraction_of(op) is product is not None
        with cached_structures():
            assert structured(op) is first
        assert is_contraction(op) and is_reduction(op)
        body = op.regions[0].block
        add = list(body.ops)[1]
        body.insert_op_before(less := arith.SubfOp(*add.operands), add)
        add.results[0].replace_all_uses_with(less.result)
        assert structured(op) is not first
        assert contraction_of(op) is None and is_contraction(op)  # the addition is there, and unused
        changed = structured(op)
        op.operands[2]._type = TensorType(f32, [16, 8])
        assert structured(op).extents == [16, 8, 4]
        assert structured(op) is not changed
        other = structured(op)
        op.operands[0], op.operands[2] = op.operands[2], op.operands[0]
        assert structured(op).inputs[0] is other.outputs[0]
        copy = op.clone()
        assert structured(copy).op is copy
    assert structured(op) is not structured(op)


@pytest.mark.parametrize(("images", "places", "rows"), [(250, 32, 2), (250, 4, 0), (1, 4, 2)])
def test_rows_of_a_product_are_neighbours_where_there_are_enough(images: int, places: int, rows: int) -> None:
    """A convolution's rows are the pixels of a line, or images where lines are short and there are many images."""
    x, y = f"tensor<{images}x{places}x{places}x8xf32>", f"tensor<{images}x{places}x{places}x16xf32>"
    op = only(f"""
func.func @f(%x: {x}, %w: tensor<8x16xf32>, %y: {y}) -> {y} {{
  %0 = linalg.generic {{indexing_maps = [affine_map<(n, h, w, f, c) -> (n, h, w, c)>,
      affine_map<(n, h, w, f, c) -> (c, f)>, affine_map<(n, h, w, f, c) -> (n, h, w, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
      ins(%x, %w : {x}, tensor<8x16xf32>) outs(%y : {y}) {{
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  }} -> {y}
  return %0 : {y}
}}""")
    product = contraction_of(op)
    assert product is not None and (product.m, product.n, product.k) == (rows, 3, 4)
