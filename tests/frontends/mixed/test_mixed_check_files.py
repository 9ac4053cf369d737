"""Functions without arguments that check themselves, in the spellings that files of tests have had over the years."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

CHECKS = """
func.func @sum_of_rows.f32() {
  %x = util.unfoldable_constant dense<[[1.0, 2.0], [3.0, 4.5]]> : tensor <2x2xf32>
  %zero = util.unfoldable_constant dense<0.0> : tensor<f32>
  %sums = "stablehlo.reduce"(%x, %zero) ( {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):   // no predecessors
    %c = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%c) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
  check.expect_almost_eq_const(%sums, dense<[3.0, 7.5]> : tensor <2xf32>, 1.0e-4) : tensor<2xf32>
  return
}
func.func @types_after_a_space() {
  %x = util.unfoldable_constant dense<[1, 2]> : tensor <2xi32>
  %y = util.unfoldable_constant dense<[1, 2, 3]> : tensor <3xi32>
  %z = util.unfoldable_constant dense<[1.0, 2.0, 3.0]> : tensor
      <3xf32>
  check.expect_eq_const(%x, dense<[1, 2]> : tensor<2xi32>) : tensor<2xi32>
  check.expect_eq_const(%y, dense<[1, 2, 3]> : tensor<3xi32>) : tensor<3xi32>
  check.expect_eq_const(%z, dense<[1.0, 2.0, 3.0]> : tensor<3xf32>) : tensor<3xf32>
  return
}
func.func @sides_with_a_static_and_a_dynamic_size() {
  %x = util.unfoldable_constant dense<[1, 2]> : tensor<2xi32>
  %y = tensor.cast %x : tensor<2xi32> to tensor<?xi32>
  "check.expect_eq"(%y, %x) : (tensor<?xi32>, tensor<2xi32>) -> ()
  return
}
func.func @slices() {
  %x = util.unfoldable_constant dense<[[01, 02, 03], [04, 05, 06], [07, 08, 09]]> : tensor<3x3xi32>
  %one = util.unfoldable_constant dense<1> : tensor<i64>
  %two = util.unfoldable_constant dense<2> : tensor<i64>
  %slice = "stablehlo.dynamic_slice"(%x, %one, %two) {
    slice_sizes = dense<[2, 1]> : tensor<2xi64>
  } : (tensor<3x3xi32>, tensor<i64>, tensor<i64>) -> tensor<2x1xi32>
  check.expect_eq_const(%slice, dense<[[6], [9]]> : tensor<2x1xi32>) : tensor<2x1xi32>
  return
}
func.func @slices_of_sizes_at_run_time() {
  %x = util.unfoldable_constant dense<[[0, 1, 2, 3], [10, 11, 12, 13]]> : tensor<2x4xi32>
  %i = util.unfoldable_constant dense<[[[0, 3], [1, 2]]]> : tensor<1x2x2xi64>
  %sizes = util.unfoldable_constant dense<[1, 1]> : tensor<2xi64>
  %r = "stablehlo.dynamic_gather"(%x, %i, %sizes) {
    dimension_numbers = #stablehlo.gather<offset_dims = [], collapsed_slice_dims = [1], operand_batching_dims = [0],
      start_indices_batching_dims = [1], start_index_map = [1], index_vector_dim = 0>,
    indices_are_sorted = false
  } : (tensor<2x4xi32>, tensor<1x2x2xi64>, tensor<2xi64>) -> tensor<2x2xi32>
  check.expect_eq_const(%r, dense<[[0, 3], [11, 12]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  return
}
func.func @no_slices() {
  %x = util.unfoldable_constant dense<[[10, 11]]> : tensor<1x2xi32>
  %i = flow.tensor.dynamic_constant dense<> : tensor<0x1xi32> -> tensor<?x1xi32>
  %r = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
      index_vector_dim = 1>,
    slice_sizes = dense<[1, 2]> : tensor<2xi64>, indices_are_sorted = false
  } : (tensor<1x2xi32>, tensor<?x1xi32>) -> tensor<?x2xi32>
  %n = stablehlo.get_dimension_size %r, dim = 0 : (tensor<?x2xi32>) -> tensor<i32>
  check.expect_eq_const(%n, dense<0> : tensor<i32>) : tensor<i32>
  return
}
func.func public @reflections() -> () {
  %m = util.unfoldable_constant dense<[[1.0, 0.0], [0.5, 1.0], [0.25, 0.5]]> : tensor<3x2xf32>
  %t = util.unfoldable_constant dense<[0.0, 0.0]> : tensor<2xf32>
  %q = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%m, %t)
      : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  check.expect_almost_eq_const(%q, dense<[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]> : tensor<3x2xf32>): tensor<3x2xf32>
  return
}
func.func @clauses() {
  %x = util.unfoldable_constant dense<[[2.0, 9.0], [3.0, -4.0]]> : tensor<2x2xf32>
  %clamped = tosa.clamp %x min_val(1.0 : f32) max_val(4.0 : f32) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %most = tosa.reduce_max %clamped axis(0) : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %turned = tosa.transpose %most perms([1, 0]) : (tensor<1x2xf32>) -> (tensor<2x1xf32>)
  %shape = tosa.const_shape values(dense<[2]> : tensor<1xindex>) : () -> !tosa.shape<1>
  %flat = tosa.reshape %turned, %shape : (tensor<2x1xf32>, !tosa.shape<1>) -> tensor<2xf32>
  %barrier = util.optimization_barrier %flat : tensor<2xf32>
  check.expect_eq_const(%barrier, dense<[3.0, 4.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
func.func @a_gather_with_a_body() {
  %x = util.unfoldable_constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi32>
  %old = util.unfoldable_constant dense<[10, 20]> : tensor<2xi32>
  %i = util.unfoldable_constant dense<[1]> : tensor<1xi32>
  %r = iree_linalg_ext.gather dimension_map = [0] ins(%x, %i : tensor<2x2xi32>, tensor<1xi32>)
      outs(%old : tensor<2xi32>) {
  ^bb0(%new: i32, %before: i32):
    %y = arith.muli %new, %before : i32
    iree_linalg_ext.yield %y : i32
  } -> tensor<2xi32>
  %plain = iree_linalg_ext.gather dimension_map = [0] ins(%x, %i : tensor<2x2xi32>, tensor<1xi32>)
      outs(%old : tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const(%r, dense<[20, 60]> : tensor<2xi32>) : tensor<2xi32>
  check.expect_eq_const(%plain, dense<[2, 3]> : tensor<2xi32>) : tensor<2xi32>
  return
}
func.func @attention_of_sizes_at_run_time() {
  %x = flow.tensor.dynamic_constant dense<[[[1.0, 0.0], [0.0, 1.0]]]> : tensor<1x2x2xf32> -> tensor<?x?x?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %a = tensor.dim %x, %c0 : tensor<?x?x?xf32>
  %b = tensor.dim %x, %c1 : tensor<?x?x?xf32>
  %c = tensor.dim %x, %c2 : tensor<?x?x?xf32>
  %init = tensor.empty(%a, %b, %c) : tensor<?x?x?xf32>
  %scale = arith.constant 0.0 : f32
  %r = iree_linalg_ext.attention <
    indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>,
      affine_map<(d0, d1, d2, d3, d4) -> ()>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
    ]
  > ins(%x, %x, %x, %scale : tensor<?x?x?xf32>, tensor<?x?x?xf32>, tensor<?x?x?xf32>, f32)
    outs(%init : tensor<?x?x?xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<?x?x?xf32>
  %static = tensor.cast %r : tensor<?x?x?xf32> to tensor<1x2x2xf32>
  check.expect_almost_eq_const(%static, dense<0.5> : tensor<1x2x2xf32>) : tensor<1x2x2xf32>
  return
}
func.func @rows_that_are_masked_as_a_whole() {
  %x = util.unfoldable_constant dense<[[[1.0, 2.0], [3.0, 4.0]]]> : tensor<1x2x2xf32>
  %mask = util.unfoldable_constant dense<[[[0.0, 0xFF800000], [0xFF800000, 0xFF800000]]]> : tensor<1x2x2xf32>
  %init = tensor.empty(1, 2, 2) : tensor<1x2x2xf32>
  %scale = arith.constant 0.5 : f32
  %r = iree_linalg_ext.attention {indexing_maps = [
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d2)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d4)>,
      affine_map<(d0, d1, d2, d3, d4) -> ()>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>,
      affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>]}
    ins(%x, %x, %x, %scale, %mask : tensor<1x2x2xf32>, tensor<1x2x2xf32>, tensor<1x2x2xf32>, f32, tensor<1x2x2xf32>)
    outs(%init : tensor<1x2x2xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<1x2x2xf32>
  check.expect_eq_const(%r, dense<[[[1.0, 2.0], [0.0, 0.0]]]> : tensor<1x2x2xf32>) : tensor<1x2x2xf32>
  return
}
func.func @a_sort_of_inputs() {
  %x = util.unfoldable_constant dense<[[5, 6], [3, 7]]> : tensor<2x2xi32>
  %n = util.unfoldable_constant 2 : index
  %empty = tensor.empty(%n, 2) : tensor<?x2xi32>
  %out = tensor.cast %empty : tensor<?x2xi32> to tensor<2x2xi32>
  %0 = iree_linalg_ext.sort dimension(0) ins(%x : tensor<2x2xi32>) outs(%out : tensor<2x2xi32>) {
  ^bb0(%a: i32, %b: i32):
    %before = arith.cmpi slt, %a, %b : i32
    iree_linalg_ext.yield %before : i1
  } -> tensor<2x2xi32>
  check.expect_eq_const(%0, dense<[[3, 6], [5, 7]]> : tensor<2x2xi32>) : tensor<2x2xi32>
  return
}
func.func @a_state_of_words() {
  %state = util.unfoldable_constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %new, %bits = "stablehlo.rng_bit_generator"(%state) {rng_algorithm = #stablehlo<rng_algorithm PHILOX>}
      : (tensor<4xi32>) -> (tensor<4xi32>, tensor<8xi32>)
  check.expect_eq_const(%new, dense<[1, 2, 3, 6]> : tensor<4xi32>) : tensor<4xi32>
  check.expect_eq_const(%bits, dense<[-1788415499, 854201270, -855525523, 2043148971, 110723240, 146396481, -1258660138,
      -1968502964]> : tensor<8xi32>) : tensor<8xi32>
  return
}
func.func @branches_with_checks() {
  %true = util.unfoldable_constant dense<true> : tensor<i1>
  %x = util.unfoldable_constant dense<10> : tensor<i32>
  %path = util.unfoldable_constant 1 : i32
  %y = tosa.cond_if %true : tensor<i1> -> tensor<i32> {
    check.expect_true(%path) : i32
    %z = tosa.add %x, %x : (tensor<i32>, tensor<i32>) -> tensor<i32>
    tosa.yield %z : tensor<i32>
  } else {
    check.expect_false(%path) : i32
    tosa.yield %x : tensor<i32>
  }
  check.expect_eq_const(%y, dense<20> : tensor<i32>) : tensor<i32>
  return
}
"""
RANDOM = """
func.func @draw(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %low = arith.constant dense<-1.0> : tensor<f32>
  %high = util.unfoldable_constant dense<1.0> : tensor<f32>
  %shape = util.unfoldable_constant dense<[4]> : tensor<1xi32>
  %a = "stablehlo.rng"(%low, %high, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>}
      : (tensor<f32>, tensor<f32>, tensor<1xi32>) -> tensor<4xf32>
  %b = "stablehlo.rng"(%low, %high, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>}
      : (tensor<f32>, tensor<f32>, tensor<1xi32>) -> tensor<4xf32>
  %c = arith.addf %b, %x : tensor<4xf32>
  return %a, %c : tensor<4xf32>, tensor<4xf32>
}
"""


@pytest.mark.parametrize("device", ["cpu", "vulkan:0"])
def test_each_function(device: str) -> None:
    program = pd.device(device).load(pd.compile(CHECKS, targets=device.partition(":")[0]))
    assert len(program.functions) == CHECKS.count("func.func")
    for function in program.functions.values():
        function()


def test_checks_in_a_module_of_tosa_alone() -> None:
    text = """func.func @doubled() {
  %x = "tosa.const"() {value = dense<[1, 2]> : tensor<2xi32>} : () -> tensor<2xi32>
  %y = tosa.add %x, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const(%y, dense<[2, 4]> : tensor<2xi32>) : tensor<2xi32>
  return
}"""
    pd.device("cpu").load(pd.compile(text)).doubled()
    with pytest.raises(pd.Error, match=r"element \[1\] is 4, expected 5"):
        pd.device("cpu").load(pd.compile(text.replace("dense<[2, 4]>", "dense<[2, 5]>"))).doubled()


def test_random_numbers_beside_other_dialects() -> None:
    """Each operation and each call draws numbers of its own."""
    program = pd.device("cpu").load(pd.compile(RANDOM))
    x = np.zeros(4, np.float32)
    drawn = np.concatenate([np.asarray(part) for _ in range(3) for part in program.draw(x)])
    assert len(set(drawn.tolist())) == drawn.size and (np.abs(drawn) <= 1).all()


def replaced(old: str, new: str) -> str:
    assert old in CHECKS
    return CHECKS.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("axis(0)", "axes(0)"), "'axes' is not a property of 'tosa.reduce_max'"),
        (replaced("yield %y : i32", "yield %new, %y : i32, i32"), r"the body yields \(i32, i32\), expected \(i32\)"),
        (replaced("<\n    indexing_maps", "<\n    maps"), "'maps' is not a property of 'iree_linalg_ext.attention'"),
        (replaced("axis(0)", "axis 0"), r"'\(' expected"),
        (replaced("empty(1, 2, 2)", "empty(1, 3, 2)"), r"the sizes \(1, 3, 2\) are not those of tensor<1x2x2xf32>"),
        (replaced("empty(%n, 2)", "empty(2, 2)"), r"the sizes \(2, 2\) are not those of tensor<\?x2xi32>"),
        (
            replaced("ins(%x : tensor<2x2xi32>) outs(%out", "ins(%x, %x : tensor<2x2xi32>, tensor<2x2xi32>) outs(%out"),
            "expected 0 or 1 input",
        ),
        (replaced("[1, 2, 3]> : tensor <3xi32>", "[1, 2, 3]> : tensor <2xi32>"), "shape mismatch"),
    ],
)
def test_wrong_texts(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(pd.CompileError, match=message):
        pd.compile(text)


def test_a_slice_size_that_a_call_finds_wrong() -> None:
    text = replaced(
        "%sizes = util.unfoldable_constant dense<[1, 1]>", "%sizes = util.unfoldable_constant dense<[1, 2]>"
    )
    program: Any = pd.device("cpu").load(pd.compile(text))
    with pytest.raises(pd.Error, match=r"lack axis 1 of .*, so their size along it is 1, not 2"):
        program.slices_of_sizes_at_run_time()
