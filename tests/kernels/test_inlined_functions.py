"""Functions that kernels inline: parameters that are assigned again, and returns at any place, as in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from kernel_works import check

import pydispatch as pd

Vector = Annotated[pd.View, pd.f32["n"]]
Doubles = Annotated[pd.View, pd.f64["n"]]
KNOWN = 1
X = np.array([-1, 1, 7, 12], np.float32)


class Pair(NamedTuple):
    first: Any
    second: Any = 2.0


def is_assigned_in_a_loop(x: Any) -> Any:
    return series(x, 1.0)


def series(x: Any, q: Any) -> Any:
    s = 0.0
    for _ in range(4):
        s += x * q
        q = 2.0
    return s


def decides_in_a_loop(x: Any) -> Any:
    return late(x, 0)


def late(x: Any, q: Any) -> Any:
    s = 0.0
    for _ in range(3):
        if q > 1:
            s += x
        q = 2
    return s


def moves_in_a_loop(x: Any) -> Any:
    return shifted(x, 1.0)


def shifted(x: Any, q: Any) -> Any:
    s = 0.0
    for _ in range(3):
        t = q
        q = s
        s += x + t
    return s


def ends_a_loop(x: Any) -> Any:
    return counted(x, 0)


def counted(x: Any, q: Any) -> Any:
    while q < 3:
        q = q + 1
        x = x + 1.0
    return x


def is_returned_after_a_loop(x: Any) -> Any:
    return accumulated(x, 0.0)


def accumulated(x: Any, q: Any) -> Any:
    for _ in range(3):
        q = x + q
    return q


def is_a_named_tuple(x: Any) -> Any:
    return paired(x, Pair(0.0, 1))


def paired(x: Any, p: Any) -> Any:
    for _ in range(3):
        p = Pair(p.first + x, p.second * 2)
    return p.first + (1.0 if p.second == 8 else 0.0)


def is_an_item_of_a_tuple(x: Any) -> Any:
    s = 0.0
    for w in (1.0, x, 3.0):
        for _ in range(2):
            s += w
            w = 5.0
    return s


def is_a_function(x: Any) -> Any:
    function = math.fabs
    for _ in range(2):
        function = math.floor
        x = function(x / 2)
    return x


def takes_the_type_of_its_condition(x: Any) -> Any:
    return at_least(x, 0.0)


def at_least(x: Any, low: Any) -> Any:
    if x > low:
        low = x
    return low


def is_the_same_in_both_branches(x: Any) -> Any:
    t = 1.0
    if x > 3:
        t = x
    else:
        t = x
    return t


def returns_in_an_inner_condition(x: Any) -> Any:
    if x > 0:
        if x > 10:
            return 3
        x = x * 2.0
    return x + 1.0


def returns_the_same_in_both_branches(x: Any) -> Any:
    if x > 3:
        return x
    return x


def returns_between_assignments(x: Any) -> Any:
    if x > 0:
        if x > 10:
            return Pair(x).second
        t = x
    else:
        t = 5.0
    return t


def returns_where_a_known_condition_holds(x: Any) -> Any:
    if x > 3:
        t = x
    else:
        if KNOWN > 0:
            if x > 0:
                return 1.0
            else:  # noqa: RET505
                return 2.0
        t = 3.0
    return t


def breaks_where_a_known_condition_holds(x: Any) -> Any:
    n = 0.0
    while n < 5:
        n += 1.0
        while n < x:
            n += 1.0
        if KNOWN < 0:
            break
    return n


def has_defaults_and_names(x: Any) -> Any:
    return scaled(x) + scaled(s=4.0, v=x) + scaled(x, offset=(1.0, x))


def scaled(v: Any, s: Any = 2.0, offset: Any = (0.5, 1)) -> Any:
    for _ in range(2):
        v = v * s
        s = 3.0
    return v + offset[0] - offset[1]


FUNCTIONS: list[Callable[[Any], Any]] = [
    is_assigned_in_a_loop, decides_in_a_loop, moves_in_a_loop, ends_a_loop, is_returned_after_a_loop, is_a_named_tuple,
    is_an_item_of_a_tuple, is_a_function, takes_the_type_of_its_condition, is_the_same_in_both_branches,
    returns_in_an_inner_condition, returns_the_same_in_both_branches, returns_between_assignments,
    returns_where_a_known_condition_holds, breaks_where_a_known_condition_holds, has_defaults_and_names,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_value(function: Callable[[Any], Any]) -> None:
    @pd.kernel
    def kernel(x: Vector, y: Vector) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = function(x[i])

    found = np.zeros_like(X)
    kernel(X, found)
    np.testing.assert_array_equal(found, [function(float(x)) for x in X])


def test_the_type_of_an_argument_that_a_branch_assigns() -> None:
    @pd.kernel
    def kernel(x: Doubles, y: Doubles) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = at_least(x[i], 0.1)

    x = np.array([-1, 0.25])
    found = np.zeros_like(x)
    kernel(x, found)
    np.testing.assert_array_equal(found, [0.1, 0.25])


def store_unless_large(y: Any, i: Any, x: Any) -> None:
    if x > 3:
        if x > 10:
            return
        y[i] = 4.0
    for _ in range(3):
        if y[i] > x:
            return
        y[i] += 1.0
    y[i] += 10.0


@pd.kernel
def stores(x: Vector, y: Vector) -> None:
    i = pd.global_id(0)
    if i < x.shape[0]:
        store_unless_large(y, i, x[i])


def test_no_value() -> None:
    expected = np.zeros_like(X)
    for i, x in enumerate(X):
        store_unless_large(expected, i, x)
    check(stores, (X, np.zeros_like(X)), expected)


def total_of(t: Any, total: Any) -> Any:
    for _ in range(3):
        total = total + pd.sum(t)
    return total


@pd.kernel(grid=1)
def tiles(x: Vector, y: Vector) -> None:
    y[0:4] = total_of(total=1.0, t=x[0:4]) + x[0:4]


def test_an_argument_of_a_kernel_with_tiles() -> None:
    check(tiles, (X, np.zeros_like(X)), X + 1 + 3 * X.sum())
