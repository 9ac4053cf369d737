"""Kernels and programs in Python as functions of JAX with the derivatives that were stated: grad, jit, vmap."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Array = Annotated[np.ndarray, pd.f32["n"]]
F32 = Annotated[float, pd.f32]


@pd.kernel(workgroup=64)
def swish(x: Vector, y: Vector, beta: F32) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] / (1 + pd.exp(-beta * x[i]))


@pd.program
def swish_vjp(x: Array, y: Array, beta: F32, dy: Array) -> Any:
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + beta * x * s * (1 - s))


@pd.program
def scaled(x: Array, y: Array) -> Any:
    return np.exp(x) * y, x * y


@pd.program
def scaled_vjp(x: Array, y: Array, da: Array, db: Array) -> Any:
    return da * np.exp(x) * y + db * y


pd.vjp(swish, swish_vjp, wrt=("x",))
pd.vjp(scaled, scaled_vjp, wrt=["x"])
silu, pair = pd.to_jax(swish), pd.to_jax(scaled)


def layer(x: jax.Array) -> jax.Array:
    y: jax.Array = silu(x, 1.5)
    return y


def reference(x: jax.Array) -> jax.Array:
    return x * jax.nn.sigmoid(1.5 * x)


X = np.random.default_rng(0).standard_normal((3, 5), dtype=np.float32)


def test_gradients() -> None:
    np.testing.assert_allclose(jax.jit(layer)(X[0]), reference(X[0]), rtol=1e-5)
    wanted = jax.grad(lambda x: reference(x).sum())(X[0])
    for found in (jax.grad(lambda x: layer(x).sum()), jax.jit(jax.grad(lambda x: layer(x).sum()))):
        np.testing.assert_allclose(found(X[0]), wanted, rtol=1e-5)
    found, none = jax.grad(lambda x, y: pair(x, y)[0].sum(), (0, 1))(X[0], X[1])
    np.testing.assert_allclose(found, np.exp(X[0]) * X[1], rtol=1e-5)
    np.testing.assert_array_equal(none, np.zeros(5))


@pd.kernel(workgroup=64)
def powers(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = pd.exp(2 * x[i])


@pd.kernel(workgroup=64)
def powers_vjp(y: Vector, dy: Vector, dx: Vector) -> None:
    i = pd.global_id(0)
    if i < y.shape[0]:
        dx[i] = 2 * y[i] * dy[i]


@pd.kernel(workgroup=64)
def powers_second(y: Vector, dy: Vector, ddx: Vector, ddy: Vector) -> None:
    i = pd.global_id(0)
    if i < y.shape[0]:
        ddy[i] = 2 * y[i] * ddx[i]


def test_a_kernel_names_its_backward_kernel() -> None:
    pd.vjp(powers, powers_vjp)
    pd.vjp(powers_vjp, powers_second)
    power = pd.to_jax(powers)
    wanted = 2 * np.exp(2 * X[0])
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: power(x).sum()))(X[0]), wanted, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: power(x).sum()))(X), 2 * np.exp(2 * X), rtol=1e-5)
    _, pullback = jax.vjp(lambda dy: jax.vjp(power, X[0])[1](dy)[0], jnp.ones(5))
    np.testing.assert_allclose(pullback(jnp.ones(5))[0], wanted, rtol=1e-5)


def test_vmap_of_the_function_and_of_its_gradient() -> None:
    np.testing.assert_allclose(jax.vmap(layer)(X), reference(X), rtol=1e-5)
    found = jax.vmap(jax.grad(lambda x: layer(x).sum()))(X)
    np.testing.assert_allclose(found, jax.vmap(jax.grad(lambda x: reference(x).sum()))(X), rtol=1e-5)


@pd.kernel(workgroup=(8, 8))
def shifted(x: Annotated[pd.View, pd.f32["m", "n"]], w: Vector, y: Annotated[pd.View, pd.f32["m", "n"]]) -> None:
    j, i = pd.global_id(0), pd.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] + w[j] * pd.f32(pd.grid_size(1))


@pd.kernel(workgroup=64)
def added(x: Vector, y: Vector) -> None:
    """The view that is written is read, too, so that calls take it."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] += x[i]


def calls(function: Any, *args: Any) -> str:
    """Return the computation of a function, which names its calls."""
    return str(jax.make_jaxpr(function)(*args))


def test_vmap_of_a_kernel_is_one_call() -> None:
    shift, add = pd.to_jax(shifted), pd.to_jax(added)
    x = np.random.default_rng(1).standard_normal((4, 11, 9), dtype=np.float32)
    w, groups = x[:, 0], 2  # workgroups along axis 1
    np.testing.assert_array_equal(jax.jit(jax.vmap(shift))(x, w), x + groups * w[:, None])
    np.testing.assert_array_equal(jax.vmap(shift, (0, None))(x, w[0]), x + groups * w[0])
    np.testing.assert_array_equal(jax.vmap(shift, (1, None))(x, w[0]), x.swapaxes(0, 1) + w[0])  # 4 rows: one
    np.testing.assert_array_equal(jax.vmap(jax.vmap(add))(x, x), 2 * x)
    assert jax.vmap(shift)(x[:0], w[:0]).shape == (0, 11, 9)
    one = calls(jax.vmap(shift, (0, None)), x, w[0])
    assert one.count("ffi_call") == 1 and "scan" not in one and "shifted.batch" in one
    pullback = calls(jax.vmap(jax.grad(lambda x: pd.to_jax(powers)(x).sum())), X)
    assert "scan" not in pullback and "powers.vjp.batch" in pullback


def test_vmap_of_other_calls_is_a_loop() -> None:
    """A number of each element, an array that is written and not batched, and a program have a call for each."""
    slopes = np.float32([0.5, 1, 2])
    found = jax.vmap(silu, (None, 0))(X[0], slopes)
    np.testing.assert_allclose(found, [X[0] * jax.nn.sigmoid(a * X[0]) for a in slopes], rtol=1e-5)
    np.testing.assert_array_equal(jax.vmap(pd.to_jax(added), (0, None))(X, X[0]), X + X[0])
    assert "scan" in calls(jax.vmap(pair), X, X) and "scan" in calls(jax.vmap(silu, (None, 0)), X[0], slopes)


def test_without_a_derivative() -> None:
    @pd.program
    def plain(x: Array) -> Any:
        return x + 1

    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: pd.to_jax(plain)(x).sum())(X[0])
