"""Constants and packed elements of host code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

try:
    from ml_dtypes import int4
except ImportError:  # One byte for each element all the same.
    int4 = np.int8


def load(text: str) -> Any:
    return pd.device("local-sync").load(pd.compile(text))


PACKED = """
func.func @constant() -> tensor<5xi4> {
  %r = arith.constant dense<[1, -2, 7, -8, 3]> : tensor<5xi4>
  return %r : tensor<5xi4>
}
func.func @same(%a: tensor<?x3xi4>) -> tensor<?x3xi4> {
  return %a : tensor<?x3xi4>
}
func.func @rows(%a: tensor<?x2xi4>, %i: index, %n: index) -> tensor<?x2xi4> {
  %r = tensor.extract_slice %a[%i, 0] [%n, 2] [1, 1] : tensor<?x2xi4> to tensor<?x2xi4>
  return %r : tensor<?x2xi4>
}
func.func @fill(%n: index) -> tensor<?xi4> {
  %v = arith.constant -3 : i4
  %r = tensor.splat %v[%n] : tensor<?xi4>
  return %r : tensor<?xi4>
}
func.func @many() -> tensor<20000xi4> {
  %r = arith.constant dense<5> : tensor<20000xi4>
  return %r : tensor<20000xi4>
}
"""


def test_packed_elements() -> None:
    program = load(PACKED)
    np.testing.assert_array_equal(program.constant(), [1, -2, 7, -8, 3])
    for n in (0, 1, 3, 4):
        a = np.random.default_rng(n).integers(-8, 8, (n, 3)).astype(int4)
        np.testing.assert_array_equal(program.same(a), a)
        b = np.random.default_rng(n).integers(-8, 8, (n + 2, 2)).astype(int4)
        np.testing.assert_array_equal(program.rows(b, 1, n), b[1 : n + 1])
        np.testing.assert_array_equal(program.fill(n), np.full(n, -3))
    np.testing.assert_array_equal(program.many(), np.full(20000, 5))


DENSE = """
func.func @strings() -> (tensor<2x2xf32>, tensor<3xi1>, tensor<2xbf16>, tensor<0x4xf32>, tensor<f64>) {
  %a = arith.constant dense<"0x0000803F000000400000404000008040"> : tensor<2x2xf32>
  %b = arith.constant dense<[true, false, true]> : tensor<3xi1>
  %c = arith.constant dense<[1.5, -2.0]> : tensor<2xbf16>
  %d = arith.constant dense<> : tensor<0x4xf32>
  %e = arith.constant dense<0.1> : tensor<f64>
  return %a, %b, %c, %d, %e : tensor<2x2xf32>, tensor<3xi1>, tensor<2xbf16>, tensor<0x4xf32>, tensor<f64>
}
func.func @resource() -> tensor<4xi16> {
  %a = arith.constant dense_resource<blob> : tensor<4xi16>
  return %a : tensor<4xi16>
}
func.func @hidden() -> tensor<?xf32> {
  %a = flow.tensor.dynamic_constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32> -> tensor<?xf32>
  %b = arith.addf %a, %a : tensor<?xf32>
  return %b : tensor<?xf32>
}
{-#
  dialect_resources: { builtin: { blob: "0x020000000100020003000400" } }
#-}
"""


def test_dense_constants() -> None:
    program = load(DENSE)
    a, b, c, d, e = program.strings()
    np.testing.assert_array_equal(a, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(b, [True, False, True])
    np.testing.assert_array_equal(np.asarray(c).astype(np.float32), [1.5, -2])
    assert np.asarray(d).shape == (0, 4)
    assert float(np.asarray(e)) == 0.1
    np.testing.assert_array_equal(program.resource(), [1, 2, 3, 4])
    np.testing.assert_array_equal(program.hidden(), [2, 4, 6])


def test_equal_constants_are_stored_once() -> None:
    artifact = pd.compile("""
func.func @f() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = arith.constant dense<[1, 2]> : tensor<2xi32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>
}""")
    assert len(artifact.manifest.constants) == 2


@pytest.mark.parametrize("type", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E8M0FNU", "f4E2M1FN", "i2", "i4", "bf16"])
def test_narrow_elements_everywhere_a_host_program_keeps_them(type: str) -> None:
    one = "1.0" if "f" in type else "1"
    program = load(f"""
util.global private mutable @g = {one} : {type}
func.func @splat(%n: index) -> tensor<?x{type}> {{
  %v = arith.constant {one} : {type}
  %r = tensor.splat %v[%n] : tensor<?x{type}>
  return %r : tensor<?x{type}>
}}
func.func @filled() -> tensor<9001x{type}> {{
  %r = arith.constant dense<{one}> : tensor<9001x{type}>
  return %r : tensor<9001x{type}>
}}
func.func @swap(%v: {type}) -> {type} {{
  %a = util.global.load @g : {type}
  util.global.store %v, @g : {type}
  return %a : {type}
}}
func.func @read(%i: index) -> tensor<2x{type}> {{
  %c = arith.constant dense<[{one}, {one}, {one}]> : tensor<3x{type}>
  %b = util.optimization_barrier %c : tensor<3x{type}>
  %e = tensor.extract %b[%i] : tensor<3x{type}>
  %r = tensor.splat %e : tensor<2x{type}>
  return %r : tensor<2x{type}>
}}""")
    for n in (0, 1, 3):
        assert np.asarray(program.splat(n)).astype(np.float32).tolist() == [1] * n
    assert (np.asarray(program.filled()).astype(np.float32) == 1).all()
    assert np.asarray(program.read(2)).astype(np.float32).tolist() == [1, 1]
    assert float(program.swap(1)) == 1
    assert float(program.swap(1)) == 1
