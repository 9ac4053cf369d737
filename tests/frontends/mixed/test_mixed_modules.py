"""Modules in which StableHLO, CHLO and TOSA are dialects beside others, in functions, regions and initializers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

BRANCHES = """
func.func @branch(%n: index, %x: tensor<?xf32>) -> tensor<?xf32> {
  %three = arith.constant 3 : index
  %is_small = arith.cmpi slt, %n, %three : index
  %chosen = scf.if %is_small -> (tensor<?xf32>) {
    %a = stablehlo.add %x, %x : tensor<?xf32>
    scf.yield %a : tensor<?xf32>
  } else {
    %a = stablehlo.multiply %x, %x : tensor<?xf32>
    %b = chlo.tan %a : tensor<?xf32> -> tensor<?xf32>
    scf.yield %b : tensor<?xf32>
  }
  %result = stablehlo.exponential %chosen : tensor<?xf32>
  return %result : tensor<?xf32>
}
"""

BLOCKS = """
func.func @add_times(%n: i32, %x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : i32
  cf.br ^loop(%zero, %x : i32, tensor<?xf32>)
^loop(%i: i32, %sum: tensor<?xf32>):
  %more = arith.cmpi slt, %i, %n : i32
  cf.cond_br %more, ^body, ^end
^end:
  %negative = stablehlo.negate %sum : tensor<?xf32>
  return %negative : tensor<?xf32>
^body:
  %next = stablehlo.add %sum, %x : tensor<?xf32>
  %one = arith.constant 1 : i32
  %j = arith.addi %i, %one : i32
  cf.br ^loop(%j, %next : i32, tensor<?xf32>)
}
"""

STATE = """
util.global private mutable @total = dense<0.0> : tensor<4xf32>
util.global private @squares : tensor<4xf32>
util.initializer {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %s = stablehlo.multiply %c, %c : tensor<4xf32>
  util.global.store %s, @squares : tensor<4xf32>
  util.return
}
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.multiply %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @accumulate(%x: tensor<4xf32>) -> tensor<4xf32> {
  %old = util.global.load @total : tensor<4xf32>
  %square = func.call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %new = stablehlo.add %old, %square : tensor<4xf32>
  util.global.store %new, @total : tensor<4xf32>
  %squares = util.global.load @squares : tensor<4xf32>
  %result = tosa.add %new, %squares : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %result : tensor<4xf32>
}
"""

LOOP = """
func.func @in_loop(%x: tensor<3xf32>) -> tensor<3xf32> {
  %start = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%a = %start, %v = %x) : tensor<i32>, tensor<3xf32>
   cond {
    %less = stablehlo.compare LT, %a, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  } do {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %w = scf.for %k = %c0 to %c2 step %c1 iter_args(%u = %v) -> (tensor<3xf32>) {
      %sum = stablehlo.add %u, %x : tensor<3xf32>
      %square = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
          iterator_types = ["parallel"]} ins(%sum : tensor<3xf32>) outs(%sum : tensor<3xf32>) {
      ^bb0(%p: f32, %q: f32):
        %z = arith.mulf %p, %p : f32
        linalg.yield %z : f32
      } -> tensor<3xf32>
      %root = stablehlo.sqrt %square : tensor<3xf32>
      scf.yield %root : tensor<3xf32>
    }
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.add %a, %one : tensor<i32>
    stablehlo.return %b, %w : tensor<i32>, tensor<3xf32>
  }
  return %r#1 : tensor<3xf32>
}
"""

CHECKED = """
func.func @unsigned() {
  %a = util.unfoldable_constant dense<[200, 100]> : tensor<2xui8>
  %b = stablehlo.constant dense<[3, 7]> : tensor<2xui8>
  %c = stablehlo.divide %a, %b : tensor<2xui8>
  check.expect_eq_const(%c, dense<[66, 14]> : tensor<2xui8>) : tensor<2xui8>
  return
}
func.func @complex() {
  %a = util.unfoldable_constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  %c = stablehlo.multiply %a, %a : tensor<2xcomplex<f32>>
  %r = stablehlo.real %c : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_almost_eq_const(%r, dense<[-3.0, -7.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func private @doubled(%a: tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>> {
  %b = stablehlo.add %a, %a : tensor<?xcomplex<f32>>
  return %b : tensor<?xcomplex<f32>>
}
func.func @dynamic_complex() {
  %a = flow.tensor.dynamic_constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>> -> tensor<?xcomplex<f32>>
  %b = call @doubled(%a) : (tensor<?xcomplex<f32>>) -> tensor<?xcomplex<f32>>
  %c = stablehlo.constant dense<[(2.0, 4.0), (6.0, 8.0)]> : tensor<2xcomplex<f32>>
  stablehlo.custom_call @check.expect_eq(%b, %c) : (tensor<?xcomplex<f32>>, tensor<2xcomplex<f32>>) -> ()
  return
}
func.func @dynamic_scatter() {
  %x = util.unfoldable_constant dense<1> : tensor<6x3xi32>
  %rows = flow.tensor.dynamic_constant dense<[[2], [4]]> : tensor<2x1xi32> -> tensor<?x1xi32>
  %new = flow.tensor.dynamic_constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32> -> tensor<?x3xi32>
  %y = "stablehlo.scatter"(%x, %rows, %new) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %sum = stablehlo.add %a, %b : tensor<i32>
    "stablehlo.return"(%sum) : (tensor<i32>) -> ()
  }) {indices_are_sorted = false, unique_indices = false,
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  } : (tensor<6x3xi32>, tensor<?x1xi32>, tensor<?x3xi32>) -> tensor<6x3xi32>
  check.expect_eq_const(%y, dense<[[1, 1, 1], [1, 1, 1], [2, 3, 4], [1, 1, 1], [5, 6, 7], [1, 1, 1]]>
      : tensor<6x3xi32>) : tensor<6x3xi32>
  return
}
func.func @wrong() {
  %a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = tosa.add %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const(%b, dense<[2.0, 5.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
"""


def load(text: str) -> Any:
    return pd.device("cpu").load(pd.compile(text))


def test_operations_in_regions_of_other_dialects() -> None:
    program = load(BRANCHES)
    x = np.float32([0.1, 0.2, 0.3])
    np.testing.assert_allclose(program.branch(2, x), np.exp(2 * x), rtol=1e-6)
    np.testing.assert_allclose(program.branch(3, x), np.exp(np.tan(x * x)), rtol=1e-6)


def test_operations_in_several_blocks_that_are_not_in_order() -> None:
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(load(BLOCKS).add_times(3, x), -4 * x)


def test_initializers_private_functions_and_two_frontends() -> None:
    program = load(STATE)
    x, squares = np.float32([1, 2, 3, 4]), np.float32([1, 4, 9, 16])
    np.testing.assert_array_equal(program.accumulate(x), x * x + squares)
    np.testing.assert_array_equal(program.accumulate(x), 2 * x * x + squares)


def test_other_dialects_in_a_loop_of_stablehlo() -> None:
    x = np.float32([1, 2, 3])
    np.testing.assert_allclose(load(LOOP).in_loop(x), 7 * x, rtol=1e-6)


def test_checks_with_unfoldable_and_dynamic_constants() -> None:
    program = load(CHECKED)
    for name in ("unsigned", "complex", "dynamic_complex", "dynamic_scatter"):
        program[name]()
    with pytest.raises(pd.Error, match="expect_eq"):
        program.wrong()


def test_the_dump_has_the_module_before_and_after(tmp_path: Any) -> None:
    pd.compile(BRANCHES, dump=tmp_path)
    before, after = ((tmp_path / f"module.{name}.mlir").read_text() for name in ("source", "input"))
    assert "stablehlo.exponential" in before and "chlo.tan" in before and "scf.if" in before
    assert "stablehlo" not in after and "chlo" not in after and "scf.if" in after and "linalg.generic" in after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('%b = "stablehlo.send"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "'stablehlo.send'"),
        ("%b = stablehlo.add %n, %n : index", "index"),
        (
            "%b = func.call @missing(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  %c = stablehlo.add %b, %x : tensor<4xf32>",
            "@missing",
        ),
        (
            "%b = func.call @f(%n, %x) : (index, tensor<4xf32>) -> tensor<4xf32>\n"
            "  %c = stablehlo.add %b, %x : tensor<4xf32>",
            "@f",
        ),
    ],
)
def test_what_is_refused_is_named(text: str, message: str) -> None:
    source = f"""
func.func @f(%n: index, %x: tensor<4xf32>) -> tensor<4xf32> {{
  %one = arith.constant 1 : index
  {text}
  return %x : tensor<4xf32>
}}"""
    with pytest.raises(pd.CompileError, match=message) as error:
        pd.compile(source)
    assert error.value.location is not None and 1 < error.value.location.line < 7


SPEC = """
pdl.pattern @double : benefit(1) {
  %type = pdl.type
  %x = pdl.operand : %type
  %root = pdl.operation "stablehlo.add" (%x, %x : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %new = pdl.operation "stablehlo.negate" (%x : !pdl.value) -> (%type : !pdl.type)
    pdl.replace %root with %new
  }
}
"""


@pytest.mark.parametrize("spec", [SPEC, {"before-input-conversion": SPEC}])
def test_a_spec_replaces_operations_before_they_are_lowered(spec: Any) -> None:
    model = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""
    artifact = pd.compile(model, pdl_spec=spec, require_match=True)
    x = np.float32([1, 2, 3, 4])
    np.testing.assert_array_equal(pd.device("cpu").load(artifact).main(x), -x)
    with pytest.raises(pd.CompileError, match="double"):
        pd.compile(model, pdl_spec={"preprocessing": SPEC}, require_match=True)


def test_public_functions_beside_main_are_exported_unless_they_are_called() -> None:
    text = """
func.func @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func public @decode(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @helper(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.negate %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
    program = load(text)
    x = np.float32([1, 2, 3, 4])
    assert sorted(program.functions) == ["decode", "main"]
    np.testing.assert_array_equal(program.decode(x), 2 * x)
    np.testing.assert_array_equal(program.main(x), -x)
    assert sorted(load(text.replace("@main", "@first")).functions) == ["decode", "first", "helper"]
