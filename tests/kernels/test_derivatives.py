"""Derivatives that were stated for kernels and programs: what is loaded beside them, and what is refused."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations.gradients import loaded

Vector = Annotated[pd.View, pd.f64["n"]]
Array = Annotated[np.ndarray, pd.f64["n"]]
F64 = Annotated[float, pd.f64]


@pd.kernel(workgroup=64)
def swish(x: Vector, y: Vector, beta: F64) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] / (1 + pd.exp(-beta * x[i]))


@pd.program
def swish_vjp(x: Array, y: Array, beta: F64, dy: Array) -> Any:
    s = 1 / (1 + np.exp(-beta * x))
    return dy * (s + beta * x * s * (1 - s))


@pd.program
def products(x: Array, y: Array) -> Any:
    return x * y, x * x


@pd.program
def products_vjp(x: Array, y: Array, da: Array, db: Array) -> Any:
    return da * y + 2 * x * db, da * x


def slopes(function: Any, args: list[Any], place: int, weights: list[np.ndarray]) -> np.ndarray:
    """Central differences of the weighted sum of the results along each element of an argument."""
    found = np.empty_like(args[place])
    for i in range(len(found)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            moved[place][i] += step
            results = function(*moved)
            results = results if isinstance(results, tuple) else (results,)
            ends.append(sum(float((r * w).sum()) for r, w in zip(results, weights, strict=True)))
        found[i] = (ends[0] - ends[1]) / 2e-6
    return found


@pytest.mark.parametrize(
    ("function", "rule", "numbers", "results"), [(swish, swish_vjp, (1.5,), 1), (products, products_vjp, (), 2)]
)
def test_gradients_are_differences(function: Any, rule: Any, numbers: tuple[float, ...], results: int) -> None:
    pd.vjp(function, rule)
    compiled, gradient = loaded(function)
    assert gradient is not None
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(5), rng.standard_normal(5), *numbers]
    weights = [rng.standard_normal(5) for _ in range(results)]
    made = gradient.rule(*map(np.asarray, args), *weights)
    for found, place in zip(made if isinstance(made, tuple) else (made,), gradient.positions, strict=True):
        np.testing.assert_allclose(found, slopes(compiled, args, place, weights), rtol=1e-5, atol=1e-7)


def test_what_is_refused() -> None:
    @pd.program
    def other(x: Array, y: Array) -> Any:
        return x * y

    @pd.program
    def narrow(x: Array, y: Array, da: Array, db: Array) -> Any:
        return da * y

    wrong = pd.InvalidArgumentError
    for rule, text in ((other, "takes .*expected its arguments and a gradient for each result"),
                       (narrow, "gives .*expected the gradients of x, y, of their types")):  # fmt: skip
        pd.vjp(products, rule)
        with pytest.raises(wrong, match=f"the derivative '{rule.name}' of 'products' {text}"):
            loaded(products)
    with pytest.raises(wrong, match=r"vjp: wrt: expected names of arrays among the arguments of 'swish' \(x, y\), got"):
        pd.vjp(swish, swish_vjp, wrt=["beta"])
    with pytest.raises(wrong, match="vjp: rule: expected a program in Python"):
        pd.vjp(swish, swish)  # type: ignore[arg-type]
    with pytest.raises(wrong, match="vjp: function: expected a kernel or a program"):
        pd.vjp(np.sin, swish_vjp)  # type: ignore[arg-type]
    with pytest.raises(wrong, match="expected a function of a program on the CPU"):
        loaded(np.sin)
