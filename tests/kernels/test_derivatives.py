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


@pd.kernel(workgroup=64)
def powers(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = pd.exp(2 * x[i])


@pd.kernel(workgroup=64)
def powers_vjp(y: Vector, dy: Vector, dx: Vector) -> None:
    i = pd.global_id(0)
    if i < y.shape[0]:
        pd.atomic_add(dx, i, 2 * y[i] * dy[i])


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
    ("function", "rule", "numbers", "results"),
    [(swish, swish_vjp, (1.5,), 1), (powers, powers_vjp, (), 1), (products, products_vjp, (), 2)],
)
def test_gradients_are_differences(function: Any, rule: Any, numbers: tuple[float, ...], results: int) -> None:
    pd.vjp(function, rule)
    loaded_function = loaded(function)
    compiled, gradient = loaded_function.function, loaded_function.gradient
    assert gradient is not None
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(5) for value in compiled.inputs if value.shape] + [*numbers]
    weights = [rng.standard_normal(5) for _ in range(results)]
    computed = compiled(*args)
    known = [*args, *(computed if isinstance(computed, tuple) else (computed,)), *weights]
    made = gradient.rule.function(*(np.asarray(known[operand]) for operand in gradient.operands))
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
    pd.vjp(swish, swish_vjp, wrt=["x", "y"])
    with pytest.raises(wrong, match=r"vjp: wrt: 'swish' returns 'y', a view that it writes as a whole.*leave 'y' out"):
        loaded(swish)
    with pytest.raises(wrong, match="vjp: rule: expected a kernel or a program in Python"):
        pd.vjp(swish, np.exp)  # type: ignore[arg-type]
    with pytest.raises(
        wrong, match="'swish' writes 'y', which is no gradient of an argument of 'swish'; there may be dx"
    ):
        pd.vjp(swish, swish)
    with pytest.raises(wrong, match=r"the results of the program 'products' have no names .* that calls 'powers_vjp'"):
        pd.vjp(products, powers_vjp)
    with pytest.raises(wrong, match=r"wrt: the kernel 'powers_vjp' names the arguments .*; leave it out"):
        pd.vjp(powers, powers_vjp, wrt=["x"])

    @pd.kernel
    def unsized(dy: Vector, dx: Annotated[pd.View, pd.f64["k"]]) -> None:
        pd.atomic_add(dx, 0, dy[pd.global_id(0)])

    pd.vjp(powers, unsized)
    with pytest.raises(pd.CompileError, match=r"'dx' is allocated .*no view that the kernel takes has the size of its"):
        loaded(powers)
    pd.vjp(powers, swish_vjp)
    with pytest.raises(wrong, match="'swish_vjp' of 'powers' takes 'beta'; it may take x, y, dy"):
        loaded(powers)

    @pd.kernel
    def scaled(x: Vector, dy: Vector, y: Vector) -> None:
        y[pd.global_id(0)] = x[pd.global_id(0)] * dy[pd.global_id(0)]

    pd.vjp(scaled, powers_vjp)
    with pytest.raises(wrong, match="takes 'dy', which is both an argument and the gradient of 'y'; rename the arg"):
        loaded(scaled)

    @pd.kernel
    def split(x: Vector, y: Vector, dy: Vector) -> None:
        y[pd.global_id(0)] = x[pd.global_id(0)]
        dy[pd.global_id(0)] = x[pd.global_id(0)] * 2

    pd.vjp(split, powers_vjp)
    with pytest.raises(wrong, match="takes 'dy', which is both an argument and the gradient of 'y'; rename the arg"):
        loaded(split)
    with pytest.raises(wrong, match="vjp: function: expected a kernel or a program"):
        pd.vjp(np.sin, swish_vjp)  # type: ignore[arg-type]
    with pytest.raises(wrong, match="expected a function of a program on the CPU"):
        loaded(np.sin)
