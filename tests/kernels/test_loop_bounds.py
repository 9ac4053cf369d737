"""Tests of `global_id(0)` that bound the loop over invocations, and statements before them that all invocations run."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

SIZE, COUNT = 16, 4
Marks = Annotated[pd.View, pd.i32[SIZE + 1]]
I64 = Annotated[int, pd.i64]


def named_twice(y: Marks, n: I64) -> None:
    i = pd.global_id(0)
    j = i
    i = j
    if i < n:
        y[i] = 1


def named_before_it_changes(y: Marks, n: I64) -> None:
    k = pd.group_id(0)
    i = k
    k = pd.global_id(0)
    if i < n:
        y[k] = 1


def exchanged(y: Marks, n: I64) -> None:
    i, k = pd.group_id(0), pd.global_id(0)
    i, k = k, i
    if k < n:
        y[i] = 1


def exchanged_before_the_bound(y: Marks, n: I64) -> None:
    i, k = pd.global_id(0), SIZE - pd.global_id(0)
    i, k = k, i
    if k < n:
        y[i] = 1


def stored_before(y: Marks, n: I64) -> None:
    i = pd.global_id(0)
    y[i] = 1
    if i < n:
        y[i] = 2


def counted_before(y: Marks, n: I64) -> None:
    i = pd.global_id(0)
    if pd.atomic_add(y, SIZE, 1) < 100 and i < n:
        y[i] = 1


def unpacked_before(y: Marks, n: I64) -> None:
    i, (one, two) = pd.global_id(0), (1, 2)
    if i < n:
        y[i] = one + two


def marked(below: int, others: int, last: int = 0) -> np.ndarray:
    """Return marks of the first `COUNT` invocations, of the others, and the element after those of invocations."""
    return np.array([below] * COUNT + [others] * (SIZE - COUNT) + [last], np.int32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (named_twice, marked(1, 0)),
        (named_before_it_changes, marked(1, 1)),
        (exchanged, marked(1, 1)),
        (exchanged_before_the_bound, marked(1, 0)[::-1]),
        (stored_before, marked(2, 1)),
        (counted_before, marked(1, 0, SIZE)),
        (unpacked_before, marked(3, 0)),
    ],
)
def test_what_invocations_above_a_bound_do(function: Any, expected: np.ndarray) -> None:
    y = np.zeros(SIZE + 1, np.int32)
    pd.kernel(workgroup=SIZE, grid=1)(function)(y, COUNT)
    np.testing.assert_array_equal(y, expected)
