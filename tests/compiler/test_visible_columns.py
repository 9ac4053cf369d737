"""Attention visits the keys that a mask shows, and reads pages of a cache in place: one dispatch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact import dispatches

TARGETS = {"ptx-interpreter": "cuda"}
"""Targets of devices that have another name."""

UNIT = 64
"""Keys that are visited or skipped as a whole."""


@dataclass(frozen=True)
class Case:
    """Sizes of attention over pages: rows, queries of a row, heads of keys and of queries for each, features."""

    rows: int = 2
    length: int = 1
    groups: int = 2
    repeats: int = 1
    size: int = 16
    page: int = 16
    table: int = 12
    dtype: Any = np.float32

    @property
    def keys(self) -> int:
        return self.page * self.table

    @property
    def pages(self) -> int:
        return self.rows * self.table + 3

    def arguments(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        random = np.random.default_rng(seed)
        queries = random.standard_normal((self.rows, self.length, self.groups, self.repeats, self.size), np.float32)
        cache = random.standard_normal((2, self.pages, self.page, self.groups, self.size), np.float32)
        table = random.permutation(self.rows * self.table).astype(np.int32)
        starts = random.integers(0, self.keys - self.length, self.rows).astype(np.int32)
        return queries, *cache.astype(self.dtype), table.reshape(self.rows, self.table), starts


Mask = Callable[[Any, Any], Any]
"""Returns whether a key at the first position is visible to a query at the second one."""


def program(
    case: Case, is_visible: Mask, weigh: Callable[[Any, Any], Any] | None = None, pages: int | str | None = None
) -> Any:
    """Return attention over pages.

    weigh: the weights of scores [..., key] and the mask; None for a softmax. pages: number of pages of the cache, or
    the name of a dynamic size; None for that of the case.
    """

    def attend(queries, keys, values, table, starts):  # type: ignore[no-untyped-def]
        keys, values = (cache[table].reshape(case.rows, case.keys, case.groups, case.size).astype(np.float32)
                        for cache in (keys, values))  # fmt: skip
        positions = starts[:, None] + np.arange(case.length, dtype=np.int32)
        scores = np.einsum("stgrd,scgd->sgrtc", queries, keys)
        mask = is_visible(np.arange(case.keys, dtype=np.int32), positions[:, None, None, :, None])
        return np.einsum("sgrtc,scgd->stgrd", (weigh or softmax)(scores, mask), values)

    cache = pd.f32 if case.dtype == np.float32 else pd.f16
    cache = cache[case.pages if pages is None else pages, case.page, case.groups, case.size]
    attend.__annotations__ = {
        "queries": Annotated[Any, pd.f32[case.rows, case.length, case.groups, case.repeats, case.size]],
        "keys": Annotated[Any, cache],
        "values": Annotated[Any, cache],
        "table": Annotated[Any, pd.i32[case.rows, case.table]],
        "starts": Annotated[Any, pd.i32[case.rows]],
    }
    return pd.program(attend)


def softmax(scores: Any, mask: Any) -> Any:
    scores = np.where(mask, scores, np.float32(-np.inf))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def expected(case: Case, is_visible: Mask, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
    """Compute attention in f64, from the visible keys of each query alone."""
    queries, keys, values, table, starts = arguments
    table = np.clip(np.where(table < 0, table + case.pages, table), 0, case.pages - 1)
    keys, values = (cache[table].reshape(case.rows, case.keys, case.groups, case.size) for cache in (keys, values))
    result = np.full(queries.shape, np.nan)
    for s, t in np.ndindex(case.rows, case.length):
        visible = np.flatnonzero(np.broadcast_to(is_visible(np.arange(case.keys), starts[s] + t), case.keys))
        scores = np.einsum("grd,cgd->grc", queries[s, t], keys[s, visible], dtype=np.float64)
        powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        result[s, t] = np.einsum("grc,cgd->grd", powers / powers.sum(-1, keepdims=True), values[s, visible])
    return result


def causal(key: Any, query: Any) -> Any:
    return key <= query


CASES = {
    "one query": Case(),
    "grouped heads": Case(repeats=4),
    "one head": Case(rows=1, groups=1, repeats=4),
    "a prompt": Case(rows=1, length=20),
    "f16": Case(dtype=np.float16),
    "pages of 24 rows": Case(page=24, table=9),
    "pages of 4 rows": Case(page=4, table=40),
    "a partial unit": Case(page=8, table=21),
    "a prompt over pages of 10 rows": Case(rows=1, length=8, page=10, table=13),
}


ON_GPUS = [
    ("vulkan", "grouped heads"), ("vulkan", "a prompt"), ("vulkan", "one head"),
    ("webgpu", "one query"), ("webgpu", "a prompt"), ("webgpu", "f16"),
    ("vulkan", "a prompt over pages of 10 rows"), ("ptx-interpreter", "one query"),
]  # fmt: skip
"""Devices and cases."""


@pytest.mark.parametrize(("device", "name"), [*(("cpu", name) for name in CASES), *ON_GPUS])
def test_hidden_keys_are_not_read_and_pages_are_read_in_place(device: str, name: str) -> None:
    case = CASES[name]
    artifact = pd.compile(program(case, causal), targets=TARGETS.get(device, device))
    attend = pd.device(device).load(artifact).attend

    def run(*arguments: np.ndarray) -> np.ndarray:
        return np.asarray(attend(*arguments))

    queries, keys, values, table, starts = case.arguments()
    table.flat[0], table.flat[1] = -3, case.pages + 5  # counted from the end, and clamped
    starts[0] = 17  # the keys from the second unit on are hidden
    wanted = expected(case, causal, (queries, keys, values, table, starts))
    unit = UNIT * case.page // np.gcd(UNIT, case.page) if case.page >= 8 else UNIT
    hidden = table[0, -(-unit // case.page) :]
    keys[hidden], values[hidden] = np.nan, np.nan
    np.testing.assert_allclose(run(queries, keys, values, table, starts)[0], wanted[0], rtol=1e-4, atol=1e-5)
    if case.rows > 1:
        np.testing.assert_allclose(run(*case.arguments()), expected(case, causal, case.arguments()), atol=1e-5)
    if case.page >= 8:
        assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["attend"]) == 1


def test_workgroups_that_would_have_a_single_row_are_other_dispatches() -> None:
    """Of eleven queries, each would be a workgroup of its own, which reads all pages."""
    case = Case(rows=1, length=11)
    artifact = pd.compile(program(case, causal), targets="vulkan")
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["attend"]) > 1
    result = pd.device("vulkan").load(artifact).attend(*case.arguments())
    np.testing.assert_allclose(result, expected(case, causal, case.arguments()), atol=1e-5)


@pytest.mark.parametrize(
    ("page", "dtype", "is_prefetched"),
    [(16, np.float32, True), (16, np.float16, True), (1024, np.float32, False)],
    ids=["f32", "f16", "long"],
)
def test_next_pages_are_prefetched_unless_they_are_long(
    page: int, dtype: Any, is_prefetched: bool, tmp_path: Path
) -> None:
    """Pages that are copied are not prefetched: those of f16 are widened where they are read."""
    case = Case(rows=1, groups=1, size=64, page=page, table=2048 // page, dtype=dtype)
    pd.compile(program(case, causal), targets="x86_64", cpu="x86-64-v3", dump=tmp_path)
    (assembly,) = tmp_path.glob("*.s")
    assert ("prefetcht1" in assembly.read_text()) == is_prefetched


def test_products_with_pages_are_not_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    """Rounded pages would be copied, and attention would be several dispatches."""
    case = Case()
    artifact = pd.compile(program(case, causal), targets="cpu", precision="bf16", explain=True)
    reason = "a factor is gathered pages, which attention reads in place"
    assert capsys.readouterr().err.count(f"stays tensor<2x2x1x1x192xf32>: {reason}") == 1
    assert len(dict(dispatches.decode(artifact.manifest.extra[dispatches.KEY]))["attend"]) == 1
    result = pd.device("cpu").load(artifact).attend(*case.arguments())
    np.testing.assert_allclose(result, expected(case, causal, case.arguments()), rtol=1e-4, atol=1e-5)


def test_caches_of_a_dynamic_number_of_pages() -> None:
    case = Case()
    run = pd.device("cpu").load(pd.compile(program(case, causal, pages="pages"))).attend
    queries, keys, values, table, starts = case.arguments()
    wanted = expected(case, causal, (queries, keys, values, table, starts))
    np.testing.assert_allclose(run(queries, keys, values, table, starts), wanted, rtol=1e-4, atol=1e-5)


MASKS: dict[str, Mask] = {
    "length": lambda key, query: key < query + 1,
    "swapped": lambda key, query: query >= key,
    "negated": lambda key, query: ~(key > query),
    "shifted": lambda key, query: key - 3 <= query * 2 - query,
    "no limit": lambda key, query: key <= query * 0 + np.iinfo(np.int32).max,
    "before all": lambda key, query: (key <= query) & (key + 1 > query * 0 + np.iinfo(np.int32).min),
    "window": lambda key, query: (key <= query) & (key > query - 5),
    "later keys": lambda key, query: key >= query,
    "both sides": lambda key, query: (key <= query) | (key > 150),
    "of the key": lambda key, query: key <= query + key % 2,
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    case, is_visible = Case(groups=1), MASKS[name]
    run = pd.device("cpu").load(pd.compile(program(case, is_visible))).attend
    arguments = case.arguments()
    np.testing.assert_allclose(run(*arguments), expected(case, is_visible, arguments), rtol=1e-4, atol=1e-5)


def _plus_mean(powers: Any) -> Any:
    return powers + powers.mean(axis=-1, keepdims=True)


def _over_sum_with_epsilon(powers: Any) -> Any:
    return powers / (powers + np.float32(0.25)).sum(axis=-1, keepdims=True)


def _times_most_of_negated(powers: Any) -> Any:
    return powers * np.exp(np.float32(0) - powers).max(axis=-1, keepdims=True)


@pytest.mark.parametrize("weigh_powers", [_plus_mean, _over_sum_with_epsilon, _times_most_of_negated])
def test_weights_that_depend_on_hidden_scores(weigh_powers: Callable[[Any], Any]) -> None:
    """Weights are no softmax if they, or what they are divided by, depend on the exponentials of hidden keys."""

    def weigh(scores: Any, mask: Any) -> Any:
        return weigh_powers(np.exp(np.where(mask, scores, np.float32(-np.inf)) * np.float32(0.5)))

    case = Case(groups=1)
    run = pd.device("cpu").load(pd.compile(program(case, causal, weigh))).attend
    queries, keys, values, table, starts = case.arguments()
    k, v = (cache[table].reshape(case.rows, case.keys, 1, case.size) for cache in (keys, values))
    mask = np.arange(case.keys) <= starts[:, None, None, None, None]
    weights = weigh(np.einsum("stgrd,scgd->sgrtc", queries, k), mask)
    wanted = np.einsum("sgrtc,scgd->stgrd", weights, v)
    np.testing.assert_allclose(run(queries, keys, values, table, starts), wanted, rtol=1e-4, atol=1e-4)


def test_rows_without_visible_keys_are_nan_as_without_a_limit() -> None:
    case = Case(groups=1)
    run = pd.device("cpu").load(pd.compile(program(case, lambda key, query: key < query))).attend
    arguments = case.arguments()
    arguments[-1][:] = 0, 5
    result = run(*arguments)
    assert np.isnan(result[0]).all() and not np.isnan(result[1]).any()


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_the_bits_of_a_row_do_not_depend_on_the_longest_sequence(device: str) -> None:
    results = []
    for table in (8, 20):
        case = Case(table=table)
        queries, keys, values, _, _ = Case().arguments()
        pages = np.zeros((2, table), np.int32)
        pages[:, :6] = np.arange(12).reshape(2, 6)
        keys, values = (np.resize(cache, (case.pages, *cache.shape[1:])) for cache in (keys, values))
        run = pd.device(device).load(pd.compile(program(case, causal), targets=device)).attend
        results.append(np.asarray(run(queries, keys, values, pages, np.array([70, 95], np.int32))))
    np.testing.assert_array_equal(*results)


def test_two_layers_with_one_mask_hide_keys_each() -> None:
    case = Case(groups=1)

    def layers(queries, keys, values, more_keys, more_values, table, starts):  # type: ignore[no-untyped-def]
        mask = np.arange(case.keys, dtype=np.int32) <= starts[:, None]
        for caches in ((keys, values), (more_keys, more_values)):
            k, v = (cache[table].swapaxes(2, 3).reshape(case.rows, case.keys, case.size) for cache in caches)
            weights = softmax(np.einsum("sd,scd->sc", queries, k), mask)
            queries = np.einsum("sc,scd->sd", weights, v)
        return queries

    caches = dict.fromkeys(("keys", "values", "more_keys", "more_values"), pd.f32[case.pages, 1, case.page, case.size])
    table, starts = pd.i32[case.rows, case.table], pd.i32[case.rows]
    types = {"queries": pd.f32[case.rows, case.size], **caches, "table": table, "starts": starts}
    layers.__annotations__ = {name: Annotated[Any, type_] for name, type_ in types.items()}
    artifact = pd.compile(pd.program(layers))
    queries, keys, values, table, _ = case.arguments()
    arrays = [cache.swapaxes(1, 2).copy() for cache in (keys, values, values, keys)]
    last = table, np.array([3, 60], np.int32)
    wanted = layers(queries.reshape(case.rows, case.size), *arrays, *last)
    for cache in arrays:
        cache[table[:, UNIT // case.page :]] = np.nan
    result = pd.device("cpu").load(artifact).layers(queries.reshape(case.rows, case.size), *arrays, *last)
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_returned", [False, True])
def test_pages_of_columns_and_pages_that_are_a_result_too(is_returned: bool) -> None:
    """Pages [features, rows] are packed, and gathered values that the program returns are stored."""
    case = Case(groups=1)

    def attend(queries, keys, values, table, starts):  # type: ignore[no-untyped-def]
        k = keys[table].transpose(0, 1, 3, 2).reshape(case.rows, case.keys, case.size)
        v = values[table].reshape(case.rows, case.keys, case.size)
        mask = np.arange(case.keys, dtype=np.int32) <= starts[:, None]
        result = np.einsum("sc,scd->sd", softmax(np.einsum("sd,scd->sc", queries, k), mask), v)
        return (result, v) if is_returned else (result, starts)

    types = {"queries": pd.f32[case.rows, case.size], "keys": pd.f32[case.pages, case.size, case.page]}
    types |= {"values": pd.f32[case.pages, case.page, case.size], "table": pd.i32[case.rows, case.table]}
    types |= {"starts": pd.i32[case.rows]}
    attend.__annotations__ = {name: Annotated[Any, type_] for name, type_ in types.items()}
    queries, keys, values, table, starts = case.arguments()
    keys = keys[:, :, 0].swapaxes(1, 2).copy()
    arguments = queries.reshape(case.rows, case.size), keys, values[:, :, 0].copy(), table, starts
    results = pd.device("cpu").load(pd.compile(pd.program(attend))).attend(*arguments)
    for result, wanted in zip(results, attend(*arguments), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
