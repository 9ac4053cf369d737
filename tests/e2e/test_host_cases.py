"""Small programs of host code, each with what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

CASES: dict[str, tuple[str, tuple[Any, ...], Any]] = {}

CASES["joined rows"] = (
    """
func.func @f(%a: tensor<2x3xf32>, %b: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = tensor.concat dim(0) %a, %b : (tensor<2x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}""",
    (np.ones((2, 3), np.float32), np.zeros((3, 3), np.float32)),
    [[1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]],
)

CASES["a part put into its own tensor"] = (
    """
func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = arith.addf %a, %a : tensor<4xf32>
  %s = tensor.extract_slice %x[0] [3] [1] : tensor<4xf32> to tensor<3xf32>
  %r = tensor.insert_slice %s into %x[1] [3] [1] : tensor<3xf32> into tensor<4xf32>
  return %r : tensor<4xf32>
}""",
    (np.arange(4, dtype=np.float32),),
    [0, 0, 2, 4],
)

CASES["a global in a loop"] = (
    """
util.global private mutable @acc = dense<0.0> : tensor<2xf32>
func.func @f(%n: index) -> tensor<2xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant dense<1.0> : tensor<2xf32>
  scf.for %i = %c0 to %n step %c1 {
    %a = util.global.load @acc : tensor<2xf32>
    %b = arith.addf %a, %one : tensor<2xf32>
    util.global.store %b, @acc : tensor<2xf32>
  }
  %r = util.global.load @acc : tensor<2xf32>
  return %r : tensor<2xf32>
}""",
    (5,),
    [5, 5],
)

CASES["a store in a branch"] = (
    """
util.global private mutable @acc = 0 : i32
func.func @f(%c: i1) -> i32 {
  %k = arith.constant 3 : i32
  scf.if %c {
    util.global.store %k, @acc : i32
  }
  %r = util.global.load @acc : i32
  return %r : i32
}""",
    (True,),
    3,
)

CASES["a view in a branch"] = (
    """
func.func @f(%c: i1, %a: tensor<2x3xf32>) -> tensor<6xf32> {
  %k = tensor.collapse_shape %a [[0, 1]] : tensor<2x3xf32> into tensor<6xf32>
  %r = scf.if %c -> tensor<6xf32> {
    scf.yield %k : tensor<6xf32>
  } else {
    %t = arith.addf %k, %k : tensor<6xf32>
    scf.yield %t : tensor<6xf32>
  }
  return %r : tensor<6xf32>
}""",
    (True, np.arange(6, dtype=np.float32).reshape(2, 3)),
    [0, 1, 2, 3, 4, 5],
)

CASES["a choice by an element"] = (
    """
func.func @f(%x: tensor<4xf32>, %i: index) -> tensor<4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.extract %x[%i] : tensor<4xf32>
  %c = arith.cmpf olt, %e, %z : f32
  %n = arith.negf %x : tensor<4xf32>
  %r = arith.select %c, %n, %x : tensor<4xf32>
  return %r : tensor<4xf32>
}""",
    (np.array([-1, 2, 3, 4], np.float32), 0),
    [1, -2, -3, -4],
)

CASES["an initializer with a loop"] = (
    """
util.global private @t : tensor<3xf32>
util.initializer {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %one = arith.constant dense<1.0> : tensor<3xf32>
  %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %one) -> tensor<3xf32> {
    %b = arith.addf %a, %a : tensor<3xf32>
    scf.yield %b : tensor<3xf32>
  }
  util.global.store %r, @t : tensor<3xf32>
  util.return
}
func.func @f() -> tensor<3xf32> {
  %r = util.global.load @t : tensor<3xf32>
  return %r : tensor<3xf32>
}""",
    (),
    [16, 16, 16],
)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["local-sync", "cpu?workers=2"])
def test_what_it_gives(name: str, device: str) -> None:
    text, arguments, expected = CASES[name]
    program = pd.device(device).load(pd.compile(text))
    np.testing.assert_array_equal(program.f(*arguments), expected)


def test_constants_and_arguments_come_back_from_either_branch() -> None:
    program = pd.device("local-sync").load(
        pd.compile("""
func.func @f(%c: i1, %a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, i32) {
  %k = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = arith.constant 3 : i32
  cf.cond_br %c, ^x, ^y
^x:
  return %k, %a, %s : tensor<2xf32>, tensor<2xf32>, i32
^y:
  %t = arith.addf %a, %k : tensor<2xf32>
  return %a, %t, %s : tensor<2xf32>, tensor<2xf32>, i32
}""")
    )
    a = np.array([5, 6], np.float32)
    for choice, expected in ((True, ([1, 2], [5, 6])), (False, ([5, 6], [6, 8]))):
        first, second, third = program.f(choice, a)
        np.testing.assert_array_equal(first, expected[0])
        np.testing.assert_array_equal(second, expected[1])
        assert int(third) == 3
        np.asarray(first)[:] = 99
        assert a.tolist() == [5, 6]
    np.testing.assert_array_equal(program.f(True, a)[0], [1, 2])
