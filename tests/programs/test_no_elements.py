"""Extremes of no elements are refused as NumPy refuses them: in the trace, or by the call that has the sizes.

Slices and ranges of no elements are empty.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import pydispatch as pd

Dynamic = Annotated[np.ndarray, pd.f32["n", "m"]]
Vector = Annotated[np.ndarray, pd.f32["n"]]
NAMES = ("max", "min", "argmax", "argmin")


@pd.program
def extremes(x: Dynamic) -> Any:
    return tuple(getattr(x, name)(axis=1) for name in NAMES)


@pd.program
def whole(x: Dynamic) -> Any:
    return x.max(), np.argmin(x), pd.loop(2, lambda i, v: v + np.min(x), np.zeros((), np.float32))


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_extremes_of_elements(shape: tuple[int, int]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for mine, theirs in zip(extremes(x), extremes.python(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_call_without_elements_is_refused_with_the_line() -> None:
    first = extremes.function.__code__.co_firstlineno
    for program, line in ((extremes, first + 2), (whole, whole.function.__code__.co_firstlineno + 2)):
        x = np.zeros((2, 0), np.float32)
        with pytest.raises(ValueError):
            program.python(x)
        with pytest.raises(
            pd.InvalidArgumentError, match=r"numpy\.max of no elements, of an array f32\[n, m\]"
        ) as error:
            program(x)
        assert f":{line}:" in str(error.value)
    assert whole(np.ones((1, 2), np.float32))[2] == 2


@pytest.mark.parametrize("name", NAMES)
def test_static_sizes_are_refused_in_the_trace(name: str) -> None:
    @pd.program
    def nothing(x: Annotated[np.ndarray, pd.f32[2, 0]]) -> Any:
        return getattr(x, name)(axis=1)

    @pd.program
    def empty(x: Annotated[np.ndarray, pd.f32[0, 2]]) -> Any:
        return getattr(x, name)(axis=1)

    with pytest.raises(
        pd.CompileError, match=rf":\d+:\d+: error: numpy\.{name} of no elements, of an array f32\[2, 0\]"
    ):
        nothing.module()
    assert empty.module()


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_ranges_of_dynamic_limits_may_have_no_elements(size: int) -> None:
    @pd.program
    def ranges(x: Vector) -> Any:
        n = x.shape[0]
        limits = ((1, n), (2, n), (n, 3, 2), (n, 0, -2), (n,))
        return tuple(np.arange(*ends, like=x) for ends in limits)

    x = np.zeros(size, np.float32)
    for result, expected in zip(ranges(x), ranges.python(x), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("size", [0, 1, 2, 5])
def test_slices_of_dynamic_sizes_may_have_no_elements(size: int) -> None:
    @pd.program
    def slices(x: Vector) -> Any:
        neighbours = x[1:] - x[:-1]
        return x[1:], x[:-1], x[1:-1], x[3:], x[2::2], x[1:][1:] + x[2:], neighbours, np.diff(x, n=2), x[::-1]

    x = np.arange(size, dtype=np.float32) ** 2
    for result, expected in zip(slices(x), slices.python(x), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_slice_of_a_known_number_of_elements_needs_them() -> None:
    @pd.program
    def two(x: Vector) -> Any:
        return x[:2] + x[-2:] + np.ones(2, np.float32)

    np.testing.assert_array_equal(two(np.array([1, 2, 3], np.float32)), [4, 6])
    for size in (0, 1):
        with pytest.raises(pd.InvalidArgumentError, match="outside"):
            two(np.zeros(size, np.float32))
