"""Programs whose derivatives the user has stated: what gradients use of them, and rules that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.integrations.gradients import loaded

Vector = Annotated[np.ndarray, pd.f64["n"]]
Floats = Annotated[np.ndarray, pd.f32["n"]]
X, Y = np.array([0.5, -1.0, 2.0]), np.array([1.0, 3.0, -2.0])


@pd.program
def grid(x: Vector, steps: pd.static = 2) -> Any:
    return np.rint(x * steps) / steps


@pd.program
def by_steps(x: Vector, dy: Vector, steps: pd.static = 2) -> Any:
    return dy * steps


pd.vjp(grid, by_steps)


def test_static_parameters_of_a_rule_are_those_of_its_program() -> None:
    quarters = grid.specialize(steps=4)

    @pd.program
    def loss(x: Vector) -> Any:
        return quarters(x).sum() + 10 * grid(x, steps=3).sum() + 100 * grid(x).sum()

    np.testing.assert_array_equal(pd.grad(loss)(X), np.full(3, 234.0))
    gradient = loaded(quarters).gradient
    assert gradient is not None
    np.testing.assert_array_equal(gradient.rule.function(X, np.ones(3)), np.full(3, 4.0))


def test_the_gradient_of_the_program_itself_is_the_stated_one() -> None:
    @pd.program
    def count(x: Vector) -> Any:
        return np.rint(x).sum()

    @pd.program
    def tripled(x: Vector) -> Any:
        return 3 * x.sum()

    derived = pd.vjp(count)
    np.testing.assert_array_equal(pd.grad(count)(X), 0 * X)
    pd.vjp(count, pd.vjp(tripled))  # a rule may be derived from another program
    np.testing.assert_array_equal(pd.grad(count)(X), np.full(3, 3.0))
    value, gradient = pd.value_and_grad(count)(X)
    assert value == np.rint(X).sum()
    np.testing.assert_array_equal(gradient, np.full(3, 3.0))
    np.testing.assert_array_equal(derived(X, np.float64(1)), 0 * X)


def test_numbers_have_the_types_of_their_parameters() -> None:
    @pd.program
    def stretched(x: Floats, by: Annotated[float, pd.f32]) -> Any:
        return np.rint(x * by)

    @pd.program
    def rule(x: Floats, by: Annotated[float, pd.f32], dy: Floats) -> Any:
        return dy * by

    pd.vjp(stretched, rule)

    @pd.program
    def loss(x: Floats) -> Any:
        return stretched(x, 1.5).sum()

    np.testing.assert_array_equal(pd.grad(loss)(X.astype(np.float32)), np.full(3, 1.5, np.float32))


def test_a_program_is_compiled_again_when_a_rule_changes() -> None:
    scale = np.ones(1)

    @pd.program
    def steps(x: Vector) -> Any:
        return np.rint(x)

    @pd.program
    def scaled(x: Vector, dy: Vector) -> Any:
        return dy * scale

    @pd.program
    def loss(x: Vector) -> Any:
        return steps(x).sum()

    of_caller, own = pd.grad(loss), pd.vjp(steps)
    np.testing.assert_array_equal(of_caller(X), 0 * X)
    pd.vjp(steps, scaled)
    np.testing.assert_array_equal(of_caller(X), np.ones(3))
    scale[0] = 5
    np.testing.assert_array_equal(of_caller(X), np.full(3, 5.0))
    np.testing.assert_array_equal(own(X, np.ones(3)), 0 * X)


def test_values_that_outlive_the_derived_function() -> None:
    """State and variables of Python keep arguments and results of calls that are differentiated."""
    latest, kept = pd.state(np.zeros(3)), list[Any]()

    @pd.program
    def loss(x: Annotated[np.ndarray, pd.f64[3]], y: Annotated[np.ndarray, pd.f64[3]]) -> Any:
        near = grid(x)
        latest.value = x
        kept[:] = [near, y]
        return (near * y).sum()

    gradient = pd.grad(loss, wrt=["x", "y"])

    @pd.program
    def step(x: Annotated[np.ndarray, pd.f64[3]], y: Annotated[np.ndarray, pd.f64[3]]) -> Any:
        before = latest.value.copy()
        return *gradient(x, y), before, *kept

    for before in (np.zeros(3), X):
        for found, expected in zip(step(X, Y), (2 * Y, X, before, X, Y), strict=True):
            np.testing.assert_array_equal(found, expected)


def gradient_with(rule: Callable[..., Any]) -> Any:
    """Return the gradient of a program that calls one with a stated derivative."""

    @pd.program
    def doubled(x: Vector) -> Any:
        return x * 2

    pd.vjp(doubled, pd.program(rule), wrt=["x"])

    @pd.program
    def loss(x: Vector) -> Any:
        return doubled(x).sum() + x.sum()

    return pd.grad(loss)


def too_few(dy: Vector) -> Any:
    return dy


def too_many(x: Vector, dy: Vector) -> Any:
    return dy, dy


def of_another_type(x: Vector, dy: Vector) -> Any:
    return dy.astype(np.float32)


def too_long(x: Vector, dy: Vector) -> Any:
    return np.concatenate([dy, dy])


def one_element(x: Vector, dy: Vector) -> Any:
    return dy[:1]


def three_elements(x: Vector, dy: Vector) -> Any:
    return np.asarray(np.arange(3.0), like=x)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (too_few, r"'too_few' of 'doubled' takes 1 arguments \(dy\); expected"),
        (too_many, r"gives \(f64\[n\], f64\[n\]\); expected those of x"),
        (of_another_type, r"gives \(f32\[n\]\); expected those of x: f64"),
        (too_long, r"gives \(f64\[2\*n\]\); expected those of x: f64\[n\]"),
    ],
)
def test_rules_that_do_not_fit(rule: Callable[..., Any], message: str) -> None:
    with pytest.raises(pd.CompileError, match=message) as error:
        gradient_with(rule).mlir()
    assert error.value.location is not None
    assert error.value.location.file == __file__


@pytest.mark.parametrize(("rule", "size"), [(one_element, 1), (three_elements, 3)])
def test_sizes_of_gradients_are_checked_in_each_call(rule: Callable[..., Any], size: int) -> None:
    gradient = gradient_with(rule)
    assert gradient(np.ones(size)).shape == (size,)
    message = f"a result of the derivative '{rule.__name__}' has the size {size} along axis 0; expected 5"
    with pytest.raises(pd.InvalidArgumentError, match=message):
        gradient(np.ones(5))


def test_gradients_of_results_that_do_not_fit() -> None:
    @pd.program
    def joined(x: Vector) -> Any:
        return np.concatenate([x, x])

    backward = pd.vjp(joined)
    np.testing.assert_array_equal(backward(X, np.arange(6.0)), [3, 5, 7])
    with pytest.raises(pd.InvalidArgumentError, match="'dresult' of program 'joined_vjp' has the size 5 along axis 0"):
        backward(X, np.ones(5))

    @pd.program
    def of_half(x: Vector) -> Any:
        return backward(x, x)

    with pytest.raises(pd.CompileError, match=r"'dresult' of program 'joined_vjp' is f64\[n\], and the result is"):
        of_half.mlir()

    @pd.program
    def rotated(x: Vector) -> Any:
        return x * 1j

    with pytest.raises(pd.InvalidArgumentError, match="result 'result' of program 'rotated' is complex, which has no"):
        pd.vjp(rotated)
