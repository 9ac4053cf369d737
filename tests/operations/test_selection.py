"""Distinct elements and rows, whose number each call computes, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.operations import selection

NAN = np.nan


@pytest.mark.parametrize("dynamic", [False, True])
def test_distinct_elements_beside_nan(run: Any, dynamic: bool) -> None:
    x = np.array([2, NAN, 2, NAN, 1, 2, -np.inf, NAN, np.inf, 1], np.float32)
    values, first, inverse, counts = run(
        lambda b, x: selection.distinct_slices(b, x, axis=0, sort=True), x, dynamic=dynamic
    )
    wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    for result, expected in zip((values, first, inverse, counts), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_distinct_rows_beside_nan(run: Any) -> None:
    x = np.array([[3, 1], [NAN, 2], [3, 1], [2, NAN], [NAN, 1], [3, 1], [2, 5], [2, NAN], [2, 5]], np.float32)
    values, first, inverse, counts = run(lambda b, x: selection.distinct_slices(b, x, axis=0, sort=True), x)
    np.testing.assert_array_equal(values[:4], [[2, 5], [2, NAN], [2, NAN], [3, 1]])
    assert first.tolist() == [6, 3, 7, 0, 1, 4] and counts.tolist() == [2, 1, 1, 3, 1, 1]
    np.testing.assert_array_equal(values[inverse], x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_no_elements_have_no_distinct_ones(run: Any, shape: tuple[int, ...], dynamic: bool) -> None:
    def write(b: Any, x: Any) -> list[Any]:
        x = b.as_shape(x, (x.shape[0], *shape[1:]))
        return [
            *selection.distinct_slices(b, x, axis=0, sort=False),
            *selection.distinct_neighbours(b, x, axis=0),
        ]

    values, *rest = run(write, np.zeros(shape, np.float32), dynamic=dynamic)
    assert values.shape == shape
    assert [result.shape for result in rest] == [(0,), (0,), (0,), shape, (0,), (0,)]


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("dynamic", [False, True])
def test_slices_without_elements_are_equal(run: Any, dynamic: bool, count: int) -> None:
    def write(b: Any, x: Any) -> list[Any]:
        x = b.as_shape(x, (x.shape[0], 0))
        return [*selection.distinct_slices(b, x, axis=0, sort=True), *selection.distinct_neighbours(b, x, axis=0)]

    values, first, inverse, counts, runs, run_index, lengths = run(
        write, np.zeros((count, 0), np.float32), dynamic=dynamic
    )
    distinct_count = min(count, 1)
    assert values.shape == runs.shape == (distinct_count, 0)
    assert first.tolist() == [0] * distinct_count
    assert inverse.tolist() == run_index.tolist() == [0] * count
    assert counts.tolist() == lengths.tolist() == [count] * distinct_count


@pytest.mark.parametrize(("dynamic", "count"), [(False, "65"), (True, "n0_1")])
def test_slices_of_too_many_elements(run: Any, dynamic: bool, count: str) -> None:
    message = rf"along axis 0 have {count} elements each; distinct slices of at most 64 elements, .* are supported"
    with pytest.raises(pd.CompileError, match=message):
        run(lambda b, x: selection.distinct_slices(b, x, axis=0, sort=True), np.zeros((2, 65)), dynamic=dynamic)
