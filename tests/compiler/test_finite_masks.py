"""Masks that hide keys with finite numbers, or that are in memory: hidden keys are skipped, and results are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact import dispatches

Array = np.ndarray[Any, Any]
HEADS, QUERIES, KEYS, SIZE = 2, 5, 200, 8
LOWEST = np.finfo(np.float32).min
TYPES = {
    "queries": Annotated[Any, pd.f32[HEADS, QUERIES, SIZE]],
    "keys": Annotated[Any, pd.f32[HEADS, KEYS, SIZE]],
    "values": Annotated[Any, pd.f32[HEADS, KEYS, SIZE]],
    "limit": Annotated[Any, pd.i32[QUERIES]],
}

Masked = Callable[[Any, Any, Any], Any]
"""Returns scores [heads, queries, keys] with a mask. Arguments: scores, the last visible key of each query, the mask
in memory."""


def visible(limit: Any) -> Any:
    return np.arange(KEYS, dtype=np.int32) <= limit[:, None]


FORMS: dict[str, tuple[Masked, Any]] = {
    "selected -1e9": (lambda s, limit, mask: np.where(visible(limit), s, np.float32(-1e9)), None),
    "selected lowest, scaled": (lambda s, limit, mask: np.where(visible(limit), s, LOWEST) * np.float32(0.5), None),
    "a selected condition": (
        lambda s, limit, mask: np.where(np.where(visible(limit), s > LOWEST, np.False_), s, np.float32(-1e9)), None),
    "a selected inverted condition": (
        lambda s, limit, mask: np.where(np.where(visible(limit), s < LOWEST, np.True_), LOWEST, s), None),
    "a narrowed position": (
        lambda s, limit, mask: np.where(
            np.arange(KEYS, dtype=np.int64).astype(np.int32) <= limit[:, None], s, np.float32(-1e9)), None),
    "a position for each key": (
        lambda s, limit, mask: np.where(
            limit[:, None] + np.zeros((QUERIES, KEYS), np.int32, like=limit) >= np.arange(KEYS, dtype=np.int32),
            s, LOWEST), None),
    "selected lowest, beyond f32": (
        lambda s, limit, mask: np.where(visible(limit), s, LOWEST) * np.float32(3), None),
    "added lowest": (lambda s, limit, mask: s + np.where(visible(limit), np.float32(0), LOWEST), None),
    "selected by memory": (lambda s, limit, mask: np.where(mask, s, np.float32(-1e4)), np.bool_),
    "selected by inverted memory": (lambda s, limit, mask: np.where(~mask, np.float32(-np.inf), s), np.bool_),
    "selected by integers": (lambda s, limit, mask: np.where(mask > 0, s, np.float32(-np.inf)), np.int32),
    "memory and a comparison": (
        lambda s, limit, mask: np.where(mask & visible(limit), s, LOWEST), np.bool_),
    "added memory": (lambda s, limit, mask: s + mask, np.float32),
    "added memory of f16": (lambda s, limit, mask: s + mask.astype(np.float32), np.float16),
    "added memory and a bias": (lambda s, limit, mask: s + mask + np.float32(0.25) * limit[:, None], np.float32),
}  # fmt: skip
"""Masks, and the type of the one in memory."""


def program(masked: Masked, dtype: Any) -> Any:
    def attend(queries, keys, values, limit, mask):  # type: ignore[no-untyped-def]
        scores = masked(np.einsum("htd,hsd->hts", queries, keys), limit, mask)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.einsum("hts,hsd->htd", powers / powers.sum(axis=-1, keepdims=True), values)

    element = {np.bool_: pd.i1, np.int32: pd.i32, np.float16: pd.f16}.get(dtype, pd.f32)
    attend.__annotations__ = {**TYPES, "mask": Annotated[Any, element[QUERIES, KEYS]]}
    return pd.program(attend)


def arguments(limit: Array, dtype: Any) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = ((HEADS, QUERIES, SIZE), (HEADS, KEYS, SIZE), (HEADS, KEYS, SIZE))
    mask = visible(limit)
    if dtype in (np.bool_, np.int32):
        stored = mask.astype(dtype)
    else:
        dtype = dtype or np.float32
        stored = np.where(mask, dtype(0), np.finfo(dtype).min)
    return [*(random.standard_normal(shape, np.float32) for shape in shapes), limit, stored]


def expected(masked: Masked, queries: Array, keys: Array, values: Array, limit: Array, mask: Array) -> Array:
    """Compute attention with all keys, scores in f32 and the rest in f64."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = masked(np.einsum("htd,hsd->hts", queries, keys), limit, mask).astype(np.float64)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(np.einsum("hts,hsd->htd", powers / powers.sum(axis=-1, keepdims=True), values))


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[Masked, Any, Any]:
    """A mask, the type of the one in memory, and the loaded attention, which is one dispatch."""
    masked, dtype = FORMS[request.param]
    artifact = pd.compile(program(masked, dtype))
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["attend"]) == 1
    return masked, dtype, pd.device("cpu").load(artifact).attend


def test_hidden_keys_are_not_read(form: tuple[Masked, Any, Any]) -> None:
    masked, dtype, run = form
    queries, keys, values, *mask = arguments(np.array([3, 60, 9, 0, 40], np.int32), dtype)
    wanted = expected(masked, queries, keys, values, *mask)
    keys[:, 64:], values[:, 64:] = np.nan, np.nan
    np.testing.assert_allclose(run(queries, keys, values, *mask), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("limit", [[199, 0, 130, 64, 63], [-1, 3, 5, 100, -1], [-1, -1, -1, -1, -1]])
def test_all_keys_of_rows_without_visible_ones(form: tuple[Masked, Any, Any], limit: list[int]) -> None:
    masked, dtype, run = form
    inputs = arguments(np.array(limit, np.int32), dtype)
    wanted = expected(masked, *inputs)
    np.testing.assert_allclose(run(*inputs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["selected -1e9", "selected by memory"])
def test_visible_scores_as_low_as_hidden_ones(name: str) -> None:
    """All keys count where the visible scores are near the fill, or below it."""
    masked, dtype = FORMS[name]
    run = pd.device("cpu").load(pd.compile(program(masked, dtype))).attend
    for factor in (0.49, 0.51, 1.0, 2.0):
        queries, keys, values, *mask = arguments(np.array([3, 0, 70, 5, 9], np.int32), dtype)
        fill = 1e9 if name == "selected -1e9" else 1e4
        queries[...], keys[...] = fill * factor / SIZE, -1.0
        wanted = expected(masked, queries, keys, values, *mask)
        np.testing.assert_allclose(run(queries, keys, values, *mask), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [lambda p, s: p / (p + np.exp(s)).sum(axis=-1, keepdims=True),
                                   lambda p, s: p / p.sum(axis=-1, keepdims=True) + s * np.float32(1e-9)])  # fmt: skip
def test_weights_that_depend_on_hidden_scores(share: Callable[[Any, Any], Any]) -> None:
    """Weights that are no softmax of the scores are computed from the scores of all keys."""

    def attend(queries, keys, values, limit):  # type: ignore[no-untyped-def]
        scores = np.where(visible(limit), np.einsum("htd,hsd->hts", queries, keys), np.float32(-1e9))
        weights = share(np.exp(scores - scores.max(axis=-1, keepdims=True)), scores)
        return np.einsum("hts,hsd->htd", weights, values)

    attend.__annotations__ = TYPES
    *inputs, _ = arguments(np.array([3, 0, 70, 5, 9], np.int32), np.float32)
    result = pd.device("cpu").load(pd.compile(pd.program(attend))).attend(*inputs)
    np.testing.assert_allclose(result, attend(*inputs), rtol=1e-4, atol=1e-3)
