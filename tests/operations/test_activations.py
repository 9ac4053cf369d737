"""Activation functions against NumPy in double precision, also where exponentials and products could overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pydispatch.operations import activations
from pydispatch.operations.formulas import Element, formula

Array = np.ndarray[Any, Any]

VALUES = np.array([-np.inf, -3e38, -100.0, -4.0, -3.0, -1.5, -1e-3, 0.0, 1e-3, 0.5, 2.0, 3.0, 5.0, 100.0, 3e38, np.inf,
                   np.nan], np.float32)  # fmt: skip
ERF = np.vectorize(math.erf)


def negative(x: Array, below: Array, above: Array) -> Array:
    return np.where(x < 0, below, above)


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


CASES: dict[str, tuple[Callable[[Element], Element], Callable[[Array], Array]]] = {
    "relu": (activations.relu, lambda x: np.maximum(x, 0)),
    "relu6": (activations.relu6, lambda x: np.clip(x, 0, 6)),
    "leaky_relu": (lambda e: activations.leaky_relu(e, 0.25), lambda x: negative(x, 0.25 * x, x)),
    "thresholded_relu": (lambda e: activations.thresholded_relu(e, 1.0), lambda x: np.where(x > 1, x, 0)),
    "elu": (lambda e: activations.elu(e, 0.5), lambda x: negative(x, 0.5 * np.expm1(x), x)),
    "scaled elu": (lambda e: activations.elu(e, 1.5, 0.5, 2.0),
                   lambda x: negative(x, 0.75 * np.expm1(2 * x), 0.5 * x)),
    "celu": (lambda e: activations.celu(e, 2.0), lambda x: negative(x, 2 * np.expm1(x / 2), x)),
    "gelu": (activations.gelu, lambda x: x / 2 * (1 + ERF(x / math.sqrt(2)))),
    "tanh_gelu": (activations.tanh_gelu,
                  lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "silu": (activations.silu, lambda x: x * logistic(x)),
    "swish": (lambda e: activations.swish(e, 1.702), lambda x: x * logistic(1.702 * x)),
    "softplus": (activations.softplus, softplus),
    "log_sigmoid": (activations.log_sigmoid, lambda x: -softplus(-x)),
    "softsign": (activations.softsign, lambda x: x / (1 + abs(x))),
    "mish": (activations.mish, lambda x: x * np.tanh(softplus(x))),
    "hard_sigmoid": (lambda e: activations.hard_sigmoid(e, 0.2, 0.5), lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
    "hard_swish": (activations.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "shrink": (lambda e: activations.shrink(e, 0.5, 1.0),
               lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(run: Any, name: str) -> None:
    written, reference = CASES[name]
    (found,) = run(lambda b, x: formula(b, written, x), VALUES)
    with np.errstate(all="ignore"):
        expected = reference(VALUES.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
