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


WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "ALiBi": lambda scores, sink: softmax(causal(scores + DISTANCES * SLOPES)),
    "soft cap": lambda scores, sink: softmax(causal(np.tanh(scores / np.float32(5)) * np.float32(5))),
    "sliding window": lambda scores, sink: softmax(causal(scores, window=20)),
    "sink": lambda scores, sink: with_sink(causal(scores), sink),
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
