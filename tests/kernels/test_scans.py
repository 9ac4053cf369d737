"""Scans of tiles and places of extremes on every device, against NumPy."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

M, N = 6, 9


def larger_by_sign(before: Any, element: Any) -> Any:
    """A combination that has an order: 0 begins anew."""
    if element == 0.0:
        return element
    return before + 2.0 * element


@pd.kernel(workgroup=32, grid=1)
def scans(
    x: Annotated[pd.View, pd.f32[M, N]],
    sums: Annotated[pd.View, pd.f32[M, N]],
    down: Annotated[pd.View, pd.f32[M, N]],
    combined: Annotated[pd.View, pd.f32[M, N]],
    places: Annotated[pd.View, pd.i32[2, M]],
    extremes: Annotated[pd.View, pd.f32[1, N]],
    numbers: Annotated[pd.View, pd.f32[3]],
) -> None:
    t = x[:, :]
    sums[:, :] = pd.cumsum(t, axis=1)
    down[:, :] = pd.cumsum(t * 2.0, axis=0)
    combined[:, :] = pd.scan(t, larger_by_sign, axis=-1)
    best, place = pd.argmax(t, axis=1)
    places[0, :] = place
    least, column = pd.argmin(t, axis=0, keepdims=True)
    extremes[:, :] = least
    places[1, :] = pd.sum(column) + pd.arange(M)
    most, at = pd.argmax(best)
    numbers[0], numbers[1] = most, pd.f32(at)
    numbers[2] = pd.f32(pd.sum(pd.cumsum(pd.arange(5)) % 2))


@pytest.mark.parametrize("device", DEVICES)
def test_scans_and_places(device: str) -> None:
    x = np.random.default_rng(2).integers(-3, 4, (M, N)).astype(np.float32)
    x[2, 4] = x[2, 6] = np.nan
    given = [np.zeros((M, N), np.float32) for _ in range(3)]
    given += [np.zeros((2, M), np.int32), np.zeros((1, N), np.float32), np.zeros(3, np.float32)]
    artifact = pd.compile(scans, targets={"ptx-interpreter": "cuda"}.get(device, device))
    sums, down, combined, places, extremes, numbers = map(np.asarray, pd.device(device).load(artifact).scans(x, *given))
    np.testing.assert_array_equal(sums, np.cumsum(x, axis=1))
    np.testing.assert_array_equal(down, np.cumsum(x * 2, axis=0))
    expected = x.copy()
    for j in range(1, N):
        expected[:, j] = np.where(x[:, j] == 0, 0, expected[:, j - 1] + 2 * x[:, j])
    np.testing.assert_array_equal(combined, expected)
    np.testing.assert_array_equal(places[0], x.argmax(1))
    np.testing.assert_array_equal(places[1], x.argmin(0).sum() + np.arange(M))
    np.testing.assert_array_equal(extremes[0], x.min(0))
    np.testing.assert_array_equal(numbers, [np.nan, 2, 2])  # a row has a NaN; 0 1 3 6 10 has two that are odd


@pd.kernel(workgroup=32, grid=1)
def reshaped(
    x: Annotated[pd.View, pd.f32[6, 4]],
    y: Annotated[pd.View, pd.f32[3, 8]],
    z: Annotated[pd.View, pd.f32[24]],
) -> None:
    """Of slices, transposed tiles, expressions and products."""
    t = x[:, :]
    y[:, :] = pd.reshape(t.T, (3, -1)) + pd.sum(pd.reshape(t * 2.0, (3, 8)), axis=1, keepdims=True)
    z[:] = pd.reshape(pd.reshape(t @ x[0:4, :], (2, 3, 4)) * 1.0, 24)


@pytest.mark.parametrize("device", [*DEVICES, "python"])
def test_reshape_equals_numpy(device: str) -> None:
    x = np.random.default_rng(4).integers(-9, 9, (6, 4)).astype(np.float32)
    outputs = np.zeros((3, 8), np.float32), np.zeros(24, np.float32)
    if device == "python":
        reshaped.python(x, *outputs)
        y, z = outputs
    else:
        artifact = pd.compile(reshaped, targets={"ptx-interpreter": "cuda"}.get(device, device))
        y, z = map(np.asarray, pd.device(device).load(artifact).reshaped(x, *outputs))
    np.testing.assert_array_equal(y, x.T.reshape(3, 8) + (2 * x).reshape(3, 8).sum(1, keepdims=True))
    np.testing.assert_array_equal(z, (x @ x[:4]).ravel())
