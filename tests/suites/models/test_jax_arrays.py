"""Arrays of JAX on the CPU in and out of programs, through DLPack, and a program as a callback of a jitted function."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[3]
LAYER = """
func.func @layer(%x: tensor<?x8xf32>, %w: tensor<8x5xf32>, %b: tensor<5xf32>) -> tensor<?x5xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x5xf32>) -> tensor<?x5xf32>
  %p = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x5xf32>) outs(%z : tensor<?x5xf32>) -> tensor<?x5xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%p, %b : tensor<?x5xf32>, tensor<5xf32>) outs(%e : tensor<?x5xf32>) {
  ^bb0(%v: f32, %c: f32, %o: f32):
    %s = arith.addf %v, %c : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  } -> tensor<?x5xf32>
  return %r : tensor<?x5xf32>
}
"""


@pytest.fixture(scope="module")
def layer() -> pd.Program:
    return pd.device("cpu").load(pd.compile(LAYER))


def given(rows: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(rows), 3)
    return jax.random.normal(keys[0], (rows, 8)), jax.random.normal(keys[1], (8, 5)), jax.random.normal(keys[2], (5,))


def expected(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return jax.nn.relu(jnp.dot(x, w, precision="highest") + b)


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_a_layer_equals_jax(layer: pd.Program, rows: int) -> None:
    x, w, b = given(rows)
    found = jnp.from_dlpack(layer.layer(x, w, b))
    assert found.shape == (rows, 5) and found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected(x, w, b), rtol=1e-5, atol=1e-5)


def test_results_go_on_into_jax(layer: pd.Program) -> None:
    x, w, b = given(4)
    total = jax.jit(lambda y: (y * 2).sum())(jnp.from_dlpack(layer.layer(x, w, b)))
    np.testing.assert_allclose(total, (expected(x, w, b) * 2).sum(), rtol=1e-5)


def test_inside_a_jitted_function(layer: pd.Program) -> None:
    def call(x: jax.Array, w: jax.Array, b: jax.Array) -> np.ndarray:
        return np.asarray(layer.layer(np.asarray(x), np.asarray(w), np.asarray(b)))

    @jax.jit
    def model(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        y = jax.pure_callback(call, jax.ShapeDtypeStruct((x.shape[0], 5), jnp.float32), x, w, b)
        return jnp.tanh(y)

    x, w, b = given(6)
    np.testing.assert_allclose(model(x, w, b), jnp.tanh(expected(x, w, b)), rtol=1e-5, atol=1e-5)


def test_arrays_of_jax_are_never_written(layer: pd.Program) -> None:
    x, w, b = given(5)
    before = [np.array(a) for a in (x, w, b)]
    layer.layer(x, w, b)
    for array, old in zip((x, w, b), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_arrays_of_jax_are_refused_as_outputs(layer: pd.Program) -> None:
    kept = jnp.zeros((5, 5))
    with pytest.raises(pd.InvalidArgumentError, match=r"out 0: .*read-only.*; pass np\.empty"):
        layer.layer(*given(5), out=kept)
    assert not np.asarray(kept).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8"])
def test_every_type(dtype: str) -> None:
    name = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "int8": "i8"}[dtype]
    op = "addf" if name.startswith("f") else "addi"
    t = f"tensor<?x{name}>"
    text = f"func.func @f(%x: {t}) -> {t} {{\n%y = arith.{op} %x, %x : {t}\nreturn %y : {t} }}"
    f = pd.device("cpu").load(pd.compile(text)).f
    with jax.enable_x64(True):
        x = jnp.arange(10).astype(dtype)
        np.testing.assert_array_equal(np.asarray(f(x)).astype(dtype), np.asarray(x + x))


def test_wrong_shapes_are_refused(layer: pd.Program) -> None:
    x, w, b = given(2)
    with pytest.raises(pd.InvalidArgumentError):
        layer.layer(x[:, :7], w, b)
