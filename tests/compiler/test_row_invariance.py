"""The bits of a row of a result do not depend on how many rows there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import machine_levels
import numpy as np
import pytest
from quantized_products import Case

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

ROWS = 1, 4, 16, 33, "n"
"""Numbers of rows; "n" is decided by calls."""

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.standard_normal((320, 72), np.float32)
LARGE = RANDOM.standard_normal((1024, 1024), np.float32)
KEYS = RANDOM.standard_normal((2, 320, 16), np.float32)
QUANTIZED = Case((1,), 128, 256, 32, terms="number")
_STORED = QUANTIZED.arguments()


def attention(x: Any) -> Any:
    """Rows of x are queries of two heads."""
    queries = x[:, :32].reshape(x.shape[0], 2, 16).transpose(1, 0, 2)
    scores = np.exp(queries @ KEYS.swapaxes(1, 2))
    return (scores / scores.sum(axis=-1, keepdims=True)) @ KEYS


def norm(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


FUNCTIONS: dict[str, tuple[int, int, Callable[[Any], Any]]] = {
    "product": (320, 0, lambda x: np.maximum(x @ WEIGHTS, 0)),
    "transposed": (72, 0, lambda x: x @ WEIGHTS.T),
    "linear layer": (72, 0, lambda x: np.einsum("ti,oi->to", x, WEIGHTS)),
    "large linear layer": (1024, 0, lambda x: np.einsum("ti,oi->to", x, LARGE)),
    "two products": (320, 0, lambda x: np.tanh(x @ WEIGHTS) @ WEIGHTS.T),
    "attention": (320, 1, attention),
    "softmax": (320, 0, lambda x: np.exp(x - x.max(axis=1, keepdims=True))),
    "norm": (320, 0, norm),
    "4 bits": (256, 0, lambda x: x @ QUANTIZED.weights(_STORED["q"], _STORED["s"]).T),
}
"""The columns of x, the axis of rows of the result, and the function."""
OTHER_ORDER = {("linear layer", 1)}
"""Functions and numbers of rows whose sums have another order, as docs/contractions.md states."""


def program(rows: int | str, columns: int, function: Callable[[Any], Any]) -> Any:
    def f(x):  # type: ignore[no-untyped-def]
        return function(x)

    f.__annotations__ = {"x": Annotated[np.ndarray, pd.f32[rows, columns]], "return": np.ndarray}
    return pd.program(f)


@pytest.mark.parametrize("cpu", machine_levels.parameters(["generic", "x86-64-v3", "native"]))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_independent(name: str, cpu: str) -> None:
    columns, axis, function = FUNCTIONS[name]
    x = RANDOM.standard_normal((33, columns), np.float32)
    sources: Any = {f"rows_{rows}": program(rows, columns, function) for rows in ROWS}
    loaded = pd.device("cpu?workers=1").load(pd.compile(sources, targets="cpu", cpu=cpu))
    whole = np.moveaxis(np.asarray(loaded.rows_33(x)), axis, 0)
    np.testing.assert_allclose(whole, np.moveaxis(function(x), axis, 0), rtol=1e-3, atol=1e-3)
    for rows in ROWS:
        count = 5 if isinstance(rows, str) else rows
        result = np.moveaxis(np.asarray(loaded[f"rows_{rows}"](x[:count])), axis, 0)
        if (name, rows) in OTHER_ORDER:
            np.testing.assert_allclose(result, whole[:count], rtol=1e-4, atol=1e-4)
            continue
        np.testing.assert_array_equal(result.view(np.uint32), whole[:count].view(np.uint32))


def test_long_sums_of_few_results_are_split_unless_their_order_is_stated() -> None:
    x = RANDOM.standard_normal((33, 1 << 17), np.float32)
    weights = RANDOM.standard_normal((1 << 17, 1), np.float32)
    one, many = (program(rows, 1 << 17, lambda x: x @ weights) for rows in (1, 33))
    assert compile_to("dispatches", one).count("= flow.dispatch @") == 2
    assert compile_to("dispatches", one, reassociate=False).count("= flow.dispatch @") == 1
    first, row = (
        np.asarray(pd.device("cpu").load(pd.compile(source, reassociate=False)).f(x[:rows]))[0]
        for source, rows in ((one, 1), (many, 33))
    )
    np.testing.assert_array_equal(first, row)
