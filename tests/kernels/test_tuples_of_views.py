"""Kernels whose parameters are tuples of views, and loops over tuples."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest

import pydispatch as pd

Vectors = Annotated[tuple[pd.View, ...], pd.f32[None], 3]


@pd.kernel(workgroup=32, grid=lambda x, y, factor: max(max(x[0].shape[0], x[1].shape[0]), x[2].shape[0]) // 32 + 1)
def scaled(x: Vectors, y: Vectors, factor: Annotated[float, pd.f32]) -> None:
    i = pd.global_id(0)
    for n, (source, target) in enumerate(zip(x, y, strict=True)):
        if i < source.shape[0]:
            target[i] = source[i] * factor + n
    if i == 0:
        y[-1][0] = pd.f32(len(x))


def test_a_kernel_is_called_with_tuples() -> None:
    x = [np.arange(n, dtype=np.float32) for n in (5, 70, 1)]
    y = tuple(map(np.zeros_like, x))
    scaled(x, y, 2.0)
    scaled.checked()(x, y, 2.0)
    flat = pd.device("cpu").load(pd.compile(scaled)).scaled(*x, *y, 2.0)
    for n, source in enumerate(x):
        expected = source * 2 + n if n < 2 else np.array([3])
        np.testing.assert_array_equal(y[n], expected)
        np.testing.assert_array_equal(flat[n], expected)


def test_a_grid_in_the_call() -> None:
    y = tuple(np.zeros(40, np.float32) for _ in range(3))
    scaled[1](y, y, 1.0)
    assert [view[-8:].sum() for view in y] == [0, 0, 0]
    assert y[1][:32].sum() == 32


def test_a_view_too_few() -> None:
    y = [np.zeros(4, np.float32)] * 3
    with pytest.raises(pd.InvalidArgumentError, match=r"takes 7 arguments \(x\.0, x\.1, x\.2, .*, factor\), got 6"):
        scaled(y[:2], y, 1.0)
