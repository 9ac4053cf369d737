"""map, reduce, transpose, broadcast, softmax, packing, fills, flow tensors, globals and checks, normalised and run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_normalize import close, normal, run

from pydispatch import ir
from pydispatch.compiler.normalize import normalize
from pydispatch.errors import CompileError

RNG = np.random.default_rng(7)
A = RNG.standard_normal((3, 5)).astype(np.float32)
TWO = "%a: tensor<3x5xf32>, %b: tensor<3x5xf32>"


def function(arguments: str, body: str, result: str) -> str:
    return f"func.func @f({arguments}) -> {result} {{\n{body}\n  return %0 : {result}\n}}\n"


def calculate(arguments: str, body: str, result: str, *values: Any) -> Any:
    return run(normal(function(arguments, body, result)), "f", *values)[0]


def test_map() -> None:
    b = RNG.standard_normal((3, 5)).astype(np.float32)
    for payload in (
        "{ arith.subf } ins(%a, %b : tensor<3x5xf32>, tensor<3x5xf32>) outs(%a : tensor<3x5xf32>)",
        "ins(%a, %b : tensor<3x5xf32>, tensor<3x5xf32>) outs(%a : tensor<3x5xf32>) (%x: f32, %y: f32) "
        "{ %r = arith.subf %x, %y : f32 linalg.yield %r : f32 }",
        "ins(%a, %b : tensor<3x5xf32>, tensor<3x5xf32>) outs(%a : tensor<3x5xf32>) (%x: f32, %y: f32, %o: f32) "
        "{ %r = arith.subf %x, %y : f32 linalg.yield %r : f32 }",
    ):
        close(calculate(TWO, f"  %0 = linalg.map {payload}", "tensor<3x5xf32>", A, b), A - b)


def test_reduce() -> None:
    start = RNG.standard_normal(3).astype(np.float32)
    arguments = "%a: tensor<3x5xf32>, %s: tensor<3xf32>"
    ends = "ins(%a : tensor<3x5xf32>) outs(%s : tensor<3xf32>) dimensions = [1]"
    body = f"  %0 = linalg.reduce {{ arith.addf }} {ends}"
    close(calculate(arguments, body, "tensor<3xf32>", A, start), start + A.sum(1))
    # The short spelling takes the running value first.
    one = calculate(arguments, f"  %0 = linalg.reduce {{ arith.subf }} {ends}", "tensor<3xf32>", A, start)
    close(one, start - A.sum(1))
    body = f"""  %0 = linalg.reduce {ends} (%x: f32, %acc: f32) {{
      %r = arith.maximumf %x, %acc : f32
      linalg.yield %r : f32
    }}"""
    close(calculate(arguments, body, "tensor<3xf32>", A, start), np.maximum(start, A.max(1)))


def test_moves() -> None:
    body = "  %0 = linalg.transpose ins(%a : tensor<3x5xf32>) outs(%o : tensor<5x3xf32>) permutation = [1, 0]"
    close(calculate("%a: tensor<3x5xf32>, %o: tensor<5x3xf32>", body, "tensor<5x3xf32>", A, A.T), A.T)
    cube = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    body = "  %0 = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs(%o : tensor<4x2x3xf32>) permutation = [2, 0, 1]"
    moved = cube.transpose(2, 0, 1)
    close(calculate("%a: tensor<2x3x4xf32>, %o: tensor<4x2x3xf32>", body, "tensor<4x2x3xf32>", cube, moved), moved)
    body = "  %0 = linalg.broadcast ins(%a : tensor<3x5xf32>) outs(%o : tensor<3x2x5xf32>) dimensions = [1]"
    wide = np.repeat(A[:, None], 2, 1)
    close(calculate("%a: tensor<3x5xf32>, %o: tensor<3x2x5xf32>", body, "tensor<3x2x5xf32>", A, wide), wide)


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("type", ["tensor<3x5xf32>", "tensor<?x?xf32>"])
def test_softmax(dimension: int, type: str) -> None:
    body = f"  %0 = linalg.softmax dimension({dimension}) ins(%a : {type}) outs(%o : {type}) -> {type}"
    powers = np.exp(A - A.max(dimension, keepdims=True))
    close(calculate(f"%a: {type}, %o: {type}", body, type, A, A), powers / powers.sum(dimension, keepdims=True))


def test_fill() -> None:
    body = """  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x5xf32>
  %v = arith.constant 2 : i32
  %e = tensor.empty(%n) : tensor<?x5xf32>
  %0 = linalg.fill ins(%v : i32) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>"""
    close(calculate("%a: tensor<?x5xf32>", body, "tensor<?x5xf32>", A), np.full((3, 5), 2, np.float32))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("tile", [(2, 4), (1, 5), (3, 3)])
def test_pack_and_unpack(tile: tuple[int, int], dynamic: bool) -> None:
    """Against a padded array in tiles; tiles may also be values that only the run knows."""
    a, b = tile
    counts = (-(-3 // a), -(-5 // b))
    packed = np.full((counts[0] * a, counts[1] * b), 9, np.float32)
    packed[:3, :5] = A
    packed = packed.reshape(counts[0], a, counts[1], b).transpose(2, 0, 1, 3)
    sizes = "[%i, %j]" if dynamic else f"[{a}, {b}]"
    inner = "?x?" if dynamic else f"{a}x{b}"
    target = f"tensor<?x?x{inner}xf32>" if dynamic else f"tensor<{counts[1]}x{counts[0]}x{inner}xf32>"
    arguments = f"%a: tensor<3x5xf32>, %o: {target}, %p: f32, %i: index, %j: index"
    body = (
        "  %0 = linalg.pack %a padding_value(%p : f32) outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] "
        f"inner_tiles = {sizes} into %o : tensor<3x5xf32> -> {target}"
    )
    values = (A, np.zeros_like(packed), np.float32(9), a, b)
    close(calculate(arguments, body, target, *values), packed)
    body = (
        f"  %0 = linalg.unpack %o outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = {sizes} "
        f"into %a : {target} -> tensor<3x5xf32>"
    )
    close(calculate(arguments, body, "tensor<3x5xf32>", np.zeros_like(A), packed, *values[2:]), A)


def test_pack_of_dynamic_sizes() -> None:
    target = "tensor<?x?x2x4xf32>"
    body = (
        "  %0 = tensor.pack %a padding_value(%p : f32) inner_dims_pos = [0, 1] inner_tiles = [2, 4] into %o : "
        f"tensor<?x?xf32> -> {target}"
    )
    normal(function(f"%a: tensor<?x?xf32>, %o: {target}, %p: f32", body, target))


def test_flow_tensors_become_tensors() -> None:
    module = normal("""
util.global private @p = #stream.parameter.named<"model"::"w"> : tensor<4xf32>
ml_program.global private mutable @g(dense<0> : tensor<4xi32>) : tensor<4xi32>
util.func @f(%a: tensor<?x8xf32>, %d: index, %s: f32) -> tensor<?x?xf32> {
  %c = arith.constant 0 : index
  %0 = flow.tensor.constant #flow.parameter.named<"model"::"w"> : tensor<4xf32>
  %1 = flow.tensor.dynamic_constant dense<1.0> : tensor<4x8xf32> -> tensor<?x8xf32>
  %2 = util.unfoldable_constant 1 : i64
  %3 = ml_program.global_load @g : tensor<4xi32>
  ml_program.global_store @g = %3 : tensor<4xi32>
  %4 = flow.tensor.splat %s : tensor<?x8xf32>{%d}
  %5 = flow.tensor.tie_shape %a : tensor<?x8xf32>{%d}
  %6 = flow.tensor.clone %5 : tensor<?x8xf32>{%d}
  %7 = flow.tensor.load %6[%c, %c] : tensor<?x8xf32>{%d}
  %8 = flow.tensor.store %7, %4[%c, %c] : tensor<?x8xf32>{%d}
  %9 = flow.tensor.slice %8[%c, %c for %d, %d] : tensor<?x8xf32>{%d} -> tensor<?x?xf32>{%d, %d}
  %10 = flow.tensor.update %9, %8[%c, %c] : tensor<?x?xf32>{%d, %d} -> %8 as tensor<?x8xf32>{%d}
  util.return %9 : tensor<?x?xf32>
}""")
    names = [op.name for op in module.walk()]
    assert not [n for n in names if n.startswith(("flow.", "ml_program.", "util.unfoldable"))]
    # One global for one parameter, under whichever name it had.
    assert names.count("util.global") == 2
    loads = [op.properties["global"] for op in module.walk() if op.name == "util.global.load"]
    assert [str(load) for load in loads] == ["@p", "@g"]
    assert names.count("util.optimization_barrier") == 2
    for name in ("tensor.splat", "tensor.extract", "tensor.insert", "tensor.extract_slice", "tensor.insert_slice"):
        assert name in names


def test_checks_against_constants() -> None:
    module = normal("""
func.func @f() {
  %0 = util.unfoldable_constant dense<1.0> : tensor<2xf32>
  check.expect_almost_eq_const(%0, dense<1.0> : tensor<2xf32>, atol 1.0e-2, rtol 1.0e-3) : tensor<2xf32>
  check.expect_almost_eq(%0, %0) : tensor<2xf32>
  check.expect_almost_eq_const(%0, dense<1.0> : tensor<2xf32>, 0.5) : tensor<2xf32>
  check.expect_eq_const(%0, dense<[1.0, 1.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}""")
    checks = [op for op in module.walk() if op.name.startswith("check.")]
    assert [op.name for op in checks] == ["check.expect_almost_eq"] * 3 + ["check.expect_eq"]
    assert checks[0].tolerance == pytest.approx((1e-2, 1e-3))  # type: ignore[attr-defined]
    assert checks[1].tolerance == (1e-4, 0.0)  # type: ignore[attr-defined]
    assert checks[2].tolerance == (0.5, 0.0)  # type: ignore[attr-defined]


T, U = "tensor<3x5xf32>", "tensor<5x3xf32>"
# body, what the message says
WRONG = {
    "contraction": (f"%0 = linalg.matmul ins(%a, %b : {T}, {T}) outs(%a : {T}) -> {T}", "input 1 has size 3 where input 0 has 5"),  # noqa: E501
    "rank": (f"%0 = linalg.matvec ins(%a, %b : {T}, {T}) outs(%a : {T}) -> {T}", "input 1 is tensor<3x5xf32> of rank 2, expected rank 1"),  # noqa: E501
    "inputs": (f"%0 = linalg.add ins(%a : {T}) outs(%a : {T}) -> {T}", "expected 2 input(s) and 1 output(s), got 1 and 1"),  # noqa: E501
    "types": (f"%0 = linalg.matmul ins(%a : {T}, {T}) outs(%a : {T}) -> {T}", "1 operand(s) are given, but 2 type(s)"),
    "result": (f"%0 = linalg.exp ins(%a : {T}) outs(%a : {T}) -> {U}", "the results are (tensor<5x3xf32>), expected (tensor<3x5xf32>)"),  # noqa: E501
    "kind": (f"%0 = linalg.elementwise <cosine> ins(%a : {T}) outs(%a : {T}) -> {T}", "'cosine' is not known, expected one of abs"),  # noqa: E501
    "maps": (f"%0 = linalg.contract ins(%a, %b : {T}, {T}) outs(%a : {T}) -> {T}", "expected indexing_maps"),
    "permutation": (f"%0 = linalg.transpose ins(%a : {T}) outs(%a : {T}) permutation = [1, 0]", "expected the shape 5x3"),  # noqa: E501
    "no permutation": (f"%0 = linalg.transpose ins(%a : {T}) outs(%a : {T}) permutation = [0, 0]", "permutation [0, 0] is not"),  # noqa: E501
    "broadcast": (f"%0 = linalg.broadcast ins(%a : {T}) outs(%a : {T}) dimensions = [1]", "rank 2, expected 2 of the input and 1 new"),  # noqa: E501
    "reduce": (f"%0 = linalg.reduce {{ arith.addf }} ins(%a : {T}) outs(%a : {T}) dimensions = [2]", "do not rise from 0 to at most 1"),  # noqa: E501
    "reduce rank": (f"%0 = linalg.reduce {{ arith.addf }} ins(%a : {T}) outs(%a : {T}) dimensions = [1]", "expected rank 1"),  # noqa: E501
    "map": (f"%0 = linalg.map ins(%a : {T}) outs(%a : {T}) (%x: i32) {{ linalg.yield %x : i32 }}", "the body takes (i32), expected the elements (f32)"),  # noqa: E501
    "map yield": (f"%0 = linalg.map ins(%a : {T}) outs(%a : {T}) (%x: f32) {{ %c = arith.constant 1 : i32 linalg.yield %c : i32 }}", "yields (i32), expected (f32)"),  # noqa: E501
    "payload": (f"%0 = linalg.map {{ arith.adf }} ins(%a : {T}) outs(%a : {T})", "operation 'arith.adf' is not known"),
    "softmax": (f"%0 = linalg.softmax dimension(2) ins(%a : {T}) outs(%a : {T}) -> {T}", "no dimension 2"),
    "fill": (f"%0 = linalg.fill ins(%a : {T}) outs(%a : {T}) -> {T}", "expected a scalar to fill with"),
    "pack": (f"%c = tensor.empty() : tensor<2x5x2xf32>\n %0 = linalg.pack %a inner_dims_pos = [0] inner_tiles = [2] into %c : {T} -> tensor<2x5x2xf32>", "a padding_value is needed"),  # noqa: E501
    "pack shape": (f"%d = tensor.empty() : tensor<3x2x5xf32>\n %0 = linalg.pack %a inner_dims_pos = [1] inner_tiles = [5] into %d : {T} -> tensor<3x2x5xf32>", "expected the shape 3x1x5"),  # noqa: E501
    "window": ("%i = tensor.empty() : tensor<1x4x1xf32>\n %k = tensor.empty() : tensor<3x1x1xf32>\n %o = tensor.empty() : tensor<1x3x1xf32>\n %0 = linalg.conv_1d_nwc_wcf ins(%i, %k : tensor<1x4x1xf32>, tensor<3x1x1xf32>) outs(%o : tensor<1x3x1xf32>) -> tensor<1x3x1xf32>", "input 0 has size 4, but (d1 + d3) reaches 4"),  # noqa: E501
    "strides": ("%i = tensor.empty() : tensor<1x4x1xf32>\n %k = tensor.empty() : tensor<3x1x1xf32>\n %o = tensor.empty() : tensor<1x2x1xf32>\n %0 = linalg.conv_1d_nwc_wcf {strides = dense<1> : tensor<2xi64>} ins(%i, %k : tensor<1x4x1xf32>, tensor<3x1x1xf32>) outs(%o : tensor<1x2x1xf32>) -> tensor<1x2x1xf32>", "expected 1 integer(s)"),  # noqa: E501
    "unknown": (f"%0 = linalg.winograd_filter_transform ins(%a : {T}) outs(%a : {T}) -> {T}", "operation 'linalg.winograd_filter_transform' is not known"),  # noqa: E501
    "random": (f"%0 = linalg.fill_rng_2d ins(%a : {T}) outs(%a : {T}) -> {T}", "operation 'linalg.fill_rng_2d' is not known"),  # noqa: E501
    "extension": ("%0 = iree_linalg_ext.exp_reduction dimension(0)", "operation 'iree_linalg_ext.exp_reduction' is not known"),  # noqa: E501
    "iterators": (f'%0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "window"]}} outs(%a : {T}) {{ ^bb0(%x: f32): linalg.yield %x : f32 }} -> {T}', '"parallel" and "reduction"'),  # noqa: E501
    "no maps": (f'%0 = linalg.generic {{iterator_types = ["parallel"]}} outs(%a : {T}) {{ ^bb0(%x: f32): linalg.yield %x : f32 }} -> {T}', "needs indexing_maps"),  # noqa: E501
    "size of a loop": (f'%0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}} outs(%a : {T}) {{ ^bb0(%x: f32): linalg.yield %x : f32 }} -> {T}', "no operand gives the size of iteration d2"),  # noqa: E501
    "reduced output": (f'%0 = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "reduction"]}} outs(%a : {T}) {{ ^bb0(%x: f32): linalg.yield %x : f32 }} -> {T}', "an output is reached by a reduction"),  # noqa: E501
    "check types": (f"check.expect_eq_const(%a, dense<1.0> : tensor<2xf32>) : {T}", "one type, got tensor<3x5xf32> and tensor<2xf32>"),  # noqa: E501
    "almost integers": ("%i = arith.constant dense<1> : tensor<2xi32>\n check.expect_almost_eq(%i, %i) : tensor<2xi32>", "'almost' compares floats"),  # noqa: E501
    "tolerance": (f"check.expect_almost_eq(%a, %b, tol 1.0) : {T}", "expected one atol and one rtol, got 'tol'"),
    "truth": (f"check.expect_true(%a) : {T}", "a truth is an integer"),
    "all true": (f"check.expect_all_true(%a) : {T}", "truths are integers"),
    "parameter": ('%0 = flow.tensor.constant #flow.parameter.named<"a"::"b">', "and the type of the parameter"),
    "parallel insertion": (f"%0 = scf.forall (%i) in (3) shared_outs(%o = %a) -> ({T}) {{ scf.forall.in_parallel {{ tensor.parallel_insert_slice %b into %o[%i] [1] [1] : {T} into {T} }} }}", "takes 2 offsets, sizes and strides, got 1"),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    body, message = WRONG[name]
    with pytest.raises(CompileError) as caught:
        ir.parse(f"func.func @f({TWO}) {{\n  {body}\n  return\n}}\n", "prog.mlir")
    assert message in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == 2 + body.count("\n")


UNSUPPORTED = {
    "exp of integers": ("%0 = linalg.exp ins(%i : tensor<2xi32>) outs(%i : tensor<2xi32>) -> tensor<2xi32>", "exp of i32 is not supported"),  # noqa: E501
    "mixed": ("%0 = linalg.add ins(%i, %b : tensor<2xi32>, tensor<2xf32>) outs(%i : tensor<2xi32>) -> tensor<2xi32>", "the elements differ in type"),  # noqa: E501
    "output": ("%0 = linalg.add ins(%i, %i : tensor<2xi32>, tensor<2xi32>) outs(%b : tensor<2xf32>) -> tensor<2xf32>", "gives i32, but the output holds f32"),  # noqa: E501
    "unsigned float": ("%0 = linalg.div_unsigned ins(%b, %b : tensor<2xf32>, tensor<2xf32>) outs(%b : tensor<2xf32>) -> tensor<2xf32>", "div_unsigned of f32 is not supported"),  # noqa: E501
    "softmax": ("%0 = linalg.softmax dimension(0) ins(%i : tensor<2xi32>) outs(%i : tensor<2xi32>) -> tensor<2xi32>", "tensors of floats"),  # noqa: E501
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(name: str) -> None:
    body, message = UNSUPPORTED[name]
    module = ir.parse(f"func.func @f(%i: tensor<2xi32>, %b: tensor<2xf32>) {{\n  {body}\n  return\n}}\n", "prog.mlir")
    with pytest.raises(CompileError) as caught:
        normalize(module)
    assert message in str(caught.value)
    assert body.split()[2] in str(caught.value)
    assert caught.value.location is not None and caught.value.location.line == 2
