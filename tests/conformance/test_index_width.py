"""An index has 64 bits wherever a program can see them: the same numbers on every backend, and NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from backends import Backend
from tensor_programs import CASES

import pydispatch as pd

SOURCE = """
func.func @f(%x: tensor<5xi64>) -> (tensor<5xi64>, tensor<5x{result}>) {{
  %wide = tensor.empty() : tensor<5xi64>
  %e = tensor.empty() : tensor<5x{result}>
  %r:2 = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<5xi64>) outs(%wide, %e : tensor<5xi64>, tensor<5x{result}>) {{
  ^bb0(%a: i64, %p: i64, %q: {result}):
    %place = linalg.index 0 : index
    %factor = arith.constant 3000000000 : index
    %product = arith.muli %place, %factor : index
    %c3 = arith.constant 3 : index
    %i = arith.index_cast %a : i64 to index
    %third = arith.divsi %i, %c3 : index
    %first = arith.index_cast %product : index to i64
    %second = arith.index_cast %third : index to {result}
    linalg.yield {yielded}, %second : i64, {result}
  }} -> (tensor<5xi64>, tensor<5x{result}>)
  return %r#0, %r#1 : tensor<5xi64>, tensor<5x{result}>
}}"""

X = np.array([7, -7, 2**33 + 10, -(2**40) - 1, 2**62], np.int64)
THIRDS = np.array([int(v) // 3 if v >= 0 else -(-int(v) // 3) for v in X], np.int64)


@pytest.mark.parametrize("result", ["i64", "i32"])
@pytest.mark.parametrize("yielded", ["%first", "%a"])
def test_indices_have_64_bits(result: str, yielded: str, backend: Backend) -> None:
    first, second = map(np.asarray, backend.load(SOURCE.format(result=result, yielded=yielded)).f(X))
    np.testing.assert_array_equal(first, np.arange(5, dtype=np.int64) * 3_000_000_000 if yielded == "%first" else X)
    np.testing.assert_array_equal(second, THIRDS.astype(np.int64 if result == "i64" else np.int32))


def test_a_gather_computes_in_32_bits() -> None:
    """Only counters are divided without sign; the index that was an integer addresses memory."""
    source, _, _ = CASES["gather"]
    artifact = pd.compile(source, targets="webgpu")
    (shader,) = (artifact.read(name) for name in artifact.members if name.endswith(".wgsl"))
    assert b"vec2u" not in shader


CLAMPED = """
func.func @f(%x: tensor<50xf32>, %y: tensor<6xf32>) -> tensor<6xf32> {{
  %e = tensor.empty() : tensor<6xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%y : tensor<6xf32>) outs(%e : tensor<6xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %wide = arith.constant {value} : i64
    %i = {cast} %wide : i64 to index
    %least = arith.constant 0 : index
    %most = arith.constant 49 : index
    %above = arith.maxsi %i, %least : index
    %inside = arith.minsi %above, %most : index
    %v = tensor.extract %x[%inside] : tensor<50xf32>
    %sum = arith.addf %a, %v : f32
    linalg.yield %sum : f32
  }} -> tensor<6xf32>
  return %r : tensor<6xf32>
}}"""


@pytest.mark.parametrize("cast", ["arith.index_cast", "arith.index_castui"])
@pytest.mark.parametrize("value", [7, (1 << 32) + 4, -(1 << 32) + 4, 1 << 31, -1])
def test_a_constant_beyond_32_bits_is_beyond_every_tensor(value: int, cast: str, backend: Backend) -> None:
    x, y = np.arange(50, dtype=np.float32), np.ones(6, np.float32)
    found = np.asarray(backend.load(CLAMPED.format(value=value, cast=cast)).f(x, y))
    np.testing.assert_array_equal(found, np.full(6, 1 + np.clip(value, 0, 49), np.float32))
