"""Arguments, sizes and results are called as the program calls them."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd

EXPORTED = """module {
  func.func public @main(%arg0: tensor<6x5xf32> loc(unknown), %arg1: tensor<?x6xf32> loc(unknown))
      -> (tensor<?x5xf32> {jax.result_info = "result['scores']"}) {
    %0 = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?x6xf32>) -> tensor<i32>
    %1 = call @inner(%0, %arg0, %arg1) : (tensor<i32>, tensor<6x5xf32>, tensor<?x6xf32>) -> tensor<?x5xf32>
    return %1 : tensor<?x5xf32>
  }
  func.func private @inner(%arg0: tensor<i32> {jax.global_constant = "batch"} loc(unknown),
      %arg1: tensor<6x5xf32> loc("params['w']"), %arg2: tensor<?x6xf32> loc("x")) -> tensor<?x5xf32> {
    %0 = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [0]
      : (tensor<?x6xf32>, tensor<6x5xf32>) -> tensor<?x5xf32>
    return %0 : tensor<?x5xf32>
  }
}
"""


def test_names_of_an_exported_program() -> None:
    main = pd.device("cpu").load(pd.compile(EXPORTED)).main
    assert str(main.inputs) == "(params_w: float32[6, 5], x: float32[batch, 6])"
    assert [str(entry) for entry in main.outputs] == ["scores: float32[batch, 5]"]
    w, x = np.ones((6, 5), np.float32), np.ones((3, 6), np.float32)
    np.testing.assert_array_equal(main(x=x, params_w=w), np.full((3, 5), 6))


def test_a_size_that_jax_does_not_name_is_named_by_its_axis() -> None:
    """JAX computes n from the size 2*n, in functions whose arguments have an empty name."""
    main = pd.device("cpu").load(pd.compile(EXPORTED.replace('"batch"', '""'))).main
    assert str(main.inputs) == "(params_w: float32[6, 5], x: float32[d1_0, 6])"


def test_equal_sizes_have_one_name() -> None:
    """What an assertion states to be equal is one size, which each call checks."""
    text = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %1 = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %2 = stablehlo.compare EQ, %1, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%2, %1, %0) {error_message = "sizes differ", has_side_effect = true}
        : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
      %3 = stablehlo.add %x, %y : tensor<?xf32>
      return %3 : tensor<?xf32>
    }"""
    main = pd.device("cpu").load(pd.compile(text)).main
    sizes = {str(entry).split("[")[1] for entry in main.inputs}
    assert len(sizes) == 1, main.inputs
    np.testing.assert_array_equal(main(np.ones(3, np.float32), np.ones(3, np.float32)), np.full(3, 2))
    with pytest.raises(pd.Error):
        main(np.ones(3, np.float32), np.ones(4, np.float32))


def test_locations_of_the_arguments_of_a_reducer() -> None:
    text = """func.func @main(%x: tensor<3x4xf32> loc("x")) -> tensor<3xf32> {
      %c = stablehlo.constant dense<0.0> : tensor<f32> loc(unknown)
      %0 = stablehlo.reduce(%x init: %c) across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
       reducer(%a: tensor<f32> loc("reduce:"(#loc)), %b: tensor<f32> loc("reduce:"(#loc))) {
        %1 = stablehlo.maximum %a, %b : tensor<f32> loc(#loc)
        %2 = stablehlo.add %1, %1 : tensor<f32> loc(#loc)
        stablehlo.return %1 : tensor<f32> loc(#loc)
      } loc(#loc)
      return %0 : tensor<3xf32> loc(#loc)
    } loc(#loc)
    #loc = loc(unknown)
    """
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(text)).main(x), x.max(1))
