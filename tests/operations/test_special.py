"""Bessel functions; derivatives of digamma and the zeta function where PyTorch's formulas round to other values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pydispatch.operations import elementwise, gamma, special


def derivative(run, n: int, x: np.ndarray) -> np.ndarray:
    (found,) = run(lambda b, x: elementwise.apply(b, lambda s, v: gamma.digamma_derivative(s, n, v), x), x)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 30])
def test_derivatives_of_digamma(run, n: int, dtype: str) -> None:
    x = np.array([-1.0, -7.0, -math.inf, math.inf, 0.0, -0.0, math.nan, 2.5], dtype)
    sign = 1.0 if n % 2 else -1.0
    terms = sum((2.5 + k) ** (-n - 1.0) for k in range(100_000)) + 100_002.0**-n / n
    wanted = np.array([math.inf] * 3 + [0.0] + [math.inf] * 2 + [math.nan, math.factorial(n) * terms])
    np.testing.assert_allclose(derivative(run, n, x), sign * wanted, rtol=1e-5 if dtype == "float32" else 1e-9)


@pytest.mark.parametrize("n", [2, 4, 30])
def test_even_derivatives_halfway_between_poles(run, n: int) -> None:
    """Terms of both sides cancel; the others start at 1 - x."""
    x = np.array([-0.5, -1.5, -4.5])
    wanted = [-math.factorial(n) * sum((1 - v + k) ** (-n - 1.0) for k in range(20_000)) for v in x]
    np.testing.assert_allclose(derivative(run, n, x), wanted, rtol=1e-7)


def test_derivatives_of_a_high_order_are_finite_where_their_factorial_is_not(run) -> None:
    x = np.array([20.0, 100.0], np.float32)
    wanted = [-math.factorial(40) * sum((v + k) ** -41.0 for k in range(2000)) for v in x.tolist()]
    np.testing.assert_allclose(derivative(run, 40, x), wanted, rtol=3e-5)


def test_zeta_of_a_large_order_or_place(run) -> None:
    x, q = np.array([[2.0, 3.0, 1e5]]), np.array([[1e200], [math.inf], [3.0]])
    (found,) = run(lambda b, x, q: elementwise.apply(b, gamma.hurwitz_zeta, x, q), x, q)
    third = [[math.pi**2 / 6 - 1.25, 1.2020569031595942 - 1.125, 0.0]]
    np.testing.assert_allclose(found, [[1e-200, 0.0, 0.0], [0.0] * 3, *third], rtol=1e-9)


def test_zeta_of_chlo_far_below_zero(run) -> None:
    """Terms are summed from q on, however many are negative. Poles of odd orders are NaN, those of even orders inf."""
    x = np.array([[3.0], [4.0]])
    q = np.array([-0.25, -8.75, -20.5, -40.125, -3.0])
    (found,) = run(lambda b, x, q: elementwise.apply(b, gamma.zeta, x, q), x, q)
    wanted = [[sum((v + k) ** -order for k in range(20_000)) for v in q[:-1]] for order in (3.0, 4.0)]
    np.testing.assert_allclose(found, [[*wanted[0], math.nan], [*wanted[1], math.inf]], rtol=1e-8, atol=2e-9)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_modified_bessel_functions(run, order: int, dtype: str) -> None:
    x = np.array([0.0, 1e-3, -0.5, 3.0, -7.9, 8.0, 8.1, 20.0, -30.0], dtype)
    series = [sum((v / 2) ** (2 * k + order) / math.factorial(k) / math.factorial(k + order) for k in range(90))
              for v in x.tolist()]  # fmt: skip
    wanted, scale = np.array(series), np.exp(-np.abs(x.astype(np.float64)))
    rounding = 4e-6 if dtype == "float32" else 1e-14
    for name, expected in ((f"bessel_i{order}", wanted), (f"bessel_i{order}e", wanted * scale)):
        (found,) = run(lambda b, v, name=name: elementwise.apply(b, getattr(special, name), v), x)
        np.testing.assert_allclose(found, expected, rtol=rounding)
