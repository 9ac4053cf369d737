"""Scores of attention as models modify them: one dispatch on the CPU, with the results of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact import dispatches

HEADS, LENGTH, SIZE = 3, 96, 16
POSITIONS = np.arange(LENGTH, dtype=np.int32)
DISTANCES = (POSITIONS[None] - POSITIONS[:, None]).astype(np.float32)
SLOPES = (2.0 ** -np.arange(1, HEADS + 1, dtype=np.float32))[:, None, None]


def causal(scores: Any, window: int = LENGTH) -> Any:
    is_seen = (POSITIONS[None] <= POSITIONS[:, None]) & (POSITIONS[None] > POSITIONS[:, None] - window)
    return np.where(is_seen, scores, np.float32(-np.inf))


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def with_sink(scores: Any, sink: Any) -> Any:
    """Return the softmax with one more score for each head, whose weight is dropped."""
    most = np.maximum(scores.max(axis=-1, keepdims=True), sink[:, None, None])
    powers = np.exp(scores - most)
    return powers / (powers.sum(axis=-1, keepdims=True) + np.exp(sink[:, None, None] - most))


def with_column(scores: Any, sink: Any) -> Any:
    """Return the same weights as `with_sink`, in the way of gpt-oss in `transformers`: the sink is one more column."""
    column = np.broadcast_to(sink[:, None, None], (HEADS, LENGTH, 1))
    combined = np.concatenate([scores, column], axis=-1)
    return softmax(combined - combined.max(axis=-1, keepdims=True))[..., :-1]


WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "ALiBi": lambda scores, sink: softmax(causal(scores + DISTANCES * SLOPES)),
    "soft cap": lambda scores, sink: softmax(causal(np.tanh(scores / np.float32(5)) * np.float32(5))),
    "sliding window": lambda scores, sink: softmax(causal(scores, window=20)),
    "sink": lambda scores, sink: with_sink(causal(scores), sink),
    "sink as a column": lambda scores, sink: with_column(causal(scores), sink),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_one_dispatch(name: str) -> None:
    def attend(queries, keys, values, sink):  # type: ignore[no-untyped-def]
        scores = np.einsum("htd,hsd->hts", queries, keys) * np.float32(SIZE**-0.5)
        return np.einsum("hts,hsd->htd", WEIGHTS[name](scores, sink), values)

    operand = Annotated[Any, pd.f32[HEADS, LENGTH, SIZE]]
    sink = Annotated[Any, pd.f32[HEADS]]
    attend.__annotations__ = dict.fromkeys(("queries", "keys", "values"), operand) | {"sink": sink}
    artifact = pd.compile(pd.program(attend))
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["attend"]) == 1
    random = np.random.default_rng(0)
    arguments = [random.standard_normal(shape, np.float32) for shape in (*[(HEADS, LENGTH, SIZE)] * 3, (HEADS,))]
    result = pd.device("cpu").load(artifact).attend(*arguments)
    np.testing.assert_allclose(result, attend(*arguments), rtol=1e-4, atol=1e-5)


def twice(y: Any) -> Any:
    shifted = y - y.max(axis=1, keepdims=True)
    return shifted * np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)


COLUMNS: dict[str, Callable[[Any, Any], Any]] = {
    "two columns": lambda x, column: softmax(np.concatenate([x, column, 2 * column], axis=1))[:, :-2],
    "some rows and columns": lambda x, column: softmax(np.concatenate([x, column], axis=1))[1:3, :4],
    "the axis of one element": lambda x, column: softmax(np.concatenate([x[:1], column[:1]], axis=1))[:, :4],
    "a value that is read twice": lambda x, column: twice(np.concatenate([x, column], axis=1))[:, :-1],
    "the first axis": lambda x, column: np.exp(np.concatenate([x, column[None, :, 0][:, :4]], axis=0)).sum(axis=0),
    "the column is read": lambda x, column: softmax(np.concatenate([x, column], axis=1))[:, 1:],
    "the whole is read": lambda x, column: softmax(np.concatenate([x, column], axis=1)),
    "columns come first": lambda x, column: softmax(np.concatenate([column, x], axis=1))[:, 1:],
    "another axis is reduced": lambda x, column: np.concatenate([x, column], axis=1).sum(axis=0),
    "columns differ": lambda x, column: np.concatenate([x, column], axis=1) * np.arange(5, dtype=np.float32),
}
"""Functions of f32[4, 4] and f32[4, 1]; of the last ones, a concatenation is computed."""


@pytest.mark.parametrize("name", COLUMNS)
def test_concatenations_with_columns(name: str) -> None:
    def joined(x, column):  # type: ignore[no-untyped-def]
        return COLUMNS[name](x, column)

    joined.__annotations__ = {"x": Annotated[Any, pd.f32[4, 4]], "column": Annotated[Any, pd.f32[4, 1]]}
    program = pd.device("cpu").load(pd.compile(pd.program(joined)))
    random = np.random.default_rng(0)
    x, column = random.standard_normal((4, 4), np.float32), random.standard_normal((4, 1), np.float32)
    np.testing.assert_allclose(program.joined(x, column), joined(x, column), rtol=1e-5, atol=1e-6)
