"""Derivatives by reverse mode of programs in Python, against JAX: alone on random shapes, and in its functions."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pydispatch as pd

jax.config.update("jax_enable_x64", True)
Rows = Annotated[np.ndarray, pd.f64["n", "m"]]
Weights = Annotated[np.ndarray, pd.f64["m", 3]]


def layers(x: Any, w: Any, numpy: Any) -> tuple[Any, Any]:
    """A softmax of products beside extremes, products of all and slices of rows."""
    hidden = numpy.tanh(x @ w)
    powers = numpy.exp(hidden - hidden.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    rows = numpy.where(x > 0, x, 0.1 * x).prod(axis=1) + x[:, 0] * x.min(axis=1)
    return numpy.concatenate([shares, rows[:, None]], axis=1), numpy.einsum("ni,nj->ij", shares, x)


@pd.program
def network(x: Rows, w: Weights) -> Any:
    return layers(x, w, np)


pd.vjp(network)
operator = pd.to_jax(network)


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m = (int(size) for size in random.integers(1, 40, 2))
    x, w = random.standard_normal((n, m)), random.standard_normal((m, 3))
    seeds = random.standard_normal((n, 4)), random.standard_normal((3, m))
    results, pull_back = jax.vjp(lambda x, w: layers(x, w, jnp), x, w)
    rule, _ = network.derivative
    found = rule(x, w, *seeds)
    for gradient, expected in zip(found, pull_back(tuple(map(jnp.asarray, seeds))), strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)
    for result, expected in zip(network(x, w), results, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


def test_in_a_function_of_jax() -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((4, 5)), random.standard_normal((5, 3))

    def loss(of: Any, w: jax.Array) -> jax.Array:
        shares, products = of(jnp.asarray(x), w)
        return (shares**2).sum() + jnp.sin(products).sum()

    found = jax.jit(jax.grad(lambda w: loss(operator, w)))(w)
    np.testing.assert_allclose(found, jax.grad(lambda w: loss(lambda x, w: layers(x, w, jnp), w))(w), rtol=1e-9)


@pd.program
def ranked(x: Annotated[np.ndarray, pd.f64["n"]]) -> Any:
    return x * x, x.argmax()


def test_results_that_are_integers() -> None:
    pd.vjp(ranked)
    squares = pd.to_jax(ranked)
    x = np.array([0.5, -1.0, 2.0])
    np.testing.assert_array_equal(jax.grad(lambda x: squares(x)[0].sum())(x), 2 * x)
