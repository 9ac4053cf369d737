# ruff: noqa: E501  (lines of MLIR)
"""Wrong host programs: each is refused where the fault is, in words that say what is expected."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd

GLOBAL = "util.global private @g = dense<1.0> : tensor<2xf32>\n"
REFUSED = {
    "there is no global '@nope'": "%0 = util.global.load @nope : tensor<f32>",
    "global '@g' is tensor<2xf32>, here it is tensor<f32>": "%0 = util.global.load @g : tensor<f32>",
    "global '@g' is not mutable": "%c = arith.constant dense<2.0> : tensor<2xf32>\n"
    "  util.global.store %c, @g : tensor<2xf32>",
    "'@f' calls itself": "call @f() : () -> ()",
    "there is no @g2 in this module": "call @g2() : () -> ()",
    "Expected [3] shape from the type, but got [2]": "%a = arith.constant dense<[1.0, 2.0]> : tensor<3xf32>",
    "6 bytes": '%a = arith.constant dense<"0x000000000000"> : tensor<3xf32>',
    "the data of resource 'nope' is not in this text": "%a = arith.constant dense_resource<nope> : tensor<3xf32>",
    "'almost' compares floats, got tensor<2xi32>; use the exact check": "%a = arith.constant dense<1> : tensor<2xi32>\n"
    "  check.expect_almost_eq(%a, %a) : tensor<2xi32>",
    "the two sides of a check have one type": "%a = arith.constant dense<1> : tensor<2xi32>\n"
    "  check.expect_eq_const(%a, dense<1> : tensor<2xi64>) : tensor<2xi32>",
    "a truth is an integer such as i1 or i32": "%a = arith.constant 1 : index\n  check.expect_true(%a) : index",
    "expected one atol and one rtol, got 'etol'": "%a = arith.constant dense<1.0> : tensor<2xf32>\n"
    "  check.expect_almost_eq(%a, %a, etol 0.1) : tensor<2xf32>",
    "'arith.truncf' narrows": "%a = arith.constant dense<1.0> : tensor<2xf32>\n"
    "  %b = arith.truncf %a : tensor<2xf32> to tensor<2xf64>",
    "nearest: math.exp": "%a = arith.constant dense<1.0> : tensor<2xf32>\n  %b = math.exp3 %a : tensor<2xf32>",
    "dialect 'handmade' is not known": "%a = arith.constant 1.0 : f32\n  %b = handmade.add %a, %a : f32",
    "12 is not 16": "%a = util.unfoldable_constant dense<1> : tensor<3xi32>\n"
    "  %b = flow.tensor.reshape %a : tensor<3xi32> -> tensor<2x2xi32>\n  check.expect_eq(%b, %b) : tensor<2x2xi32>",
    "takes 2 elements from 2 of axis 0, which has 3": "%c2 = arith.constant 2 : index\n"
    "  %a = util.unfoldable_constant dense<1> : tensor<3xi32>\n"
    "  %b = flow.tensor.slice %a[%c2 for %c2] : tensor<3xi32> -> tensor<2xi32>\n  check.expect_eq(%b, %b) : tensor<2xi32>",
    "'output_shape' expected": "%a = flow.tensor.dynamic_constant dense<1> : tensor<4xi32> -> tensor<?xi32>\n"
    "  %b = tensor.expand_shape %a [[0, 1]] : tensor<?xi32> into tensor<?x2xi32>",
    "region 1 returns values of types (f32) but expected (i32)": "%i = util.unfoldable_constant 2 : index\n"
    "  %r = scf.index_switch %i -> i32\n  case 1 {\n    %a = arith.constant 1.0 : f32\n    scf.yield %a : f32\n  }\n"
    "  default {\n    %a = arith.constant 1 : i32\n    scf.yield %a : i32\n  }",
    "elements of index do not become f32": "%i = util.unfoldable_constant 2 : index\n"
    "  %a = tensor.from_elements %i, %i : tensor<2xindex>\n  %b = tensor.empty() : tensor<2xf32>\n"
    "  %c = linalg.copy ins(%a : tensor<2xindex>) outs(%b : tensor<2xf32>) -> tensor<2xf32>\n"
    "  check.expect_eq(%c, %c) : tensor<2xf32>",
    "the second region yields (f32), expected (i32)": "%i = util.unfoldable_constant 2 : i32\n"
    "  %r = scf.while (%a = %i) : (i32) -> i32 {\n    %t = arith.constant true\n    scf.condition(%t) %a : i32\n  } do {\n"
    "  ^bb0(%b: i32):\n    %q = arith.constant 1.0 : f32\n    scf.yield %q : f32\n  }",
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_when_compiled(message: str) -> None:
    text = f"{GLOBAL}func.func @f() {{\n  {REFUSED[message]}\n  return\n}}\n"
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(text)
    assert message in str(caught.value)


def test_memory_is_no_argument_of_a_host_function() -> None:
    type = "memref<4xf32>"
    copy = f"linalg.copy ins(%a : {type}) outs(%b : {type})"
    with pytest.raises(pd.CompileError, match="argument 0 of @f has the type memref<4xf32>"):
        pd.compile(f"func.func @f(%a: {type}, %b: {type}) {{\n  {copy}\n  return\n}}\n")


STOPPED = {
    "loaded before anything was stored": "%0 = util.global.load @late : tensor<2xf32>\n"
    "  check.expect_eq(%0, %0) : tensor<2xf32>",
    "index 5 is outside the 2 elements of axis 0": "%a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
    "  %i = util.unfoldable_constant 5 : index\n  %x = tensor.extract %a[%i] : tensor<2xf32>\n"
    "  %b = arith.cmpf oeq, %x, %x : f32\n  check.expect_true(%b) : i1",
    "0 is divided by zero": "%a = util.unfoldable_constant 0 : i32\n  %b = arith.divsi %a, %a : i32\n"
    "  check.expect_true(%b) : i32",
    "the step of a loop must be positive": "%z = util.unfoldable_constant 0 : index\n  %t = arith.constant true\n"
    "  %n = util.unfoldable_constant 3 : index\n  %r = scf.for %i = %z to %n step %z iter_args(%x = %t) -> (i1) {\n"
    "    scf.yield %x : i1\n  }\n  check.expect_true(%r) : i1",
    "element [1, 0] is 3, expected 5; 1 of 4 elements differ": "%a = util.unfoldable_constant dense<[[1, 2], [3, 4]]> "
    ": tensor<2x2xi32>\n  check.expect_eq_const(%a, dense<[[1, 2], [5, 4]]> : tensor<2x2xi32>) : tensor<2x2xi32>",
    "element [1] is 2, expected 2.00999999": "%a = util.unfoldable_constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
    "  check.expect_almost_eq_const(%a, dense<[1.0, 2.01]> : tensor<2xf32>, tolerance 0.001) : tensor<2xf32>",
    "element [0] is nan, expected 1": "%a = util.unfoldable_constant dense<[0x7FC00000]> : tensor<1xf32>\n"
    "  check.expect_eq_const(%a, dense<1.0> : tensor<1xf32>) : tensor<1xf32>",
    "1 of 2 elements false, the first at [1]": "%a = util.unfoldable_constant dense<[true, false]> : tensor<2xi1>\n"
    "  check.expect_all_true(%a) : tensor<2xi1>",
    "expected a false value, got 1": "%a = util.unfoldable_constant 1 : i32\n  check.expect_false(%a) : i32",
}


@pytest.mark.parametrize("message", STOPPED)
def test_stopped_when_run(message: str) -> None:
    text = f"util.global private mutable @late : tensor<2xf32>\nfunc.func @f() {{\n  {STOPPED[message]}\n  return\n}}\n"
    program = pd.device("cpu").load(pd.compile(text))
    with pytest.raises(pd.Error) as caught:
        program.f()
    assert message in str(caught.value)


@pytest.mark.parametrize("initial", [": tensor<?xf32>", "= #util.uninitialized : tensor<?xf32>"])
def test_a_global_of_dynamic_size_has_no_value_before_the_first_store(initial: str) -> None:
    program = pd.device("cpu").load(
        pd.compile(f"""
util.global private mutable @state {initial}
func.func @put(%x: tensor<?xf32>) {{
  util.global.store %x, @state : tensor<?xf32>
  return
}}
func.func @get() -> tensor<?xf32> {{
  %x = util.global.load @state : tensor<?xf32>
  return %x : tensor<?xf32>
}}
""")
    )
    with pytest.raises(pd.InvalidArgumentError, match="global '@state' is loaded before anything was stored to it"):
        program.get()
    for size in (3, 5):
        program.put(np.arange(size, dtype=np.float32))
        np.testing.assert_array_equal(program.get(), np.arange(size))


def test_nans_are_equal_whatever_their_bits() -> None:
    text = """
func.func @f() {
  %a = util.unfoldable_constant dense<[0x7FC00000, 1.0]> : tensor<2xf32>
  check.expect_eq_const(%a, dense<[0xFFC00001, 1.0]> : tensor<2xf32>) : tensor<2xf32>
  return
}
"""
    pd.device("cpu").load(pd.compile(text)).f()
