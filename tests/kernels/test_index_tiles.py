"""Parts of views by tiles of indices, in all the places of a subscript, on every device against NumPy."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

A, B, C, N = 3, 5, 6, 4


@pd.kernel(workgroup=32, grid=1)
def parts(
    q: Annotated[pd.View, pd.f32["a", "b", "c"]],
    short: Annotated[pd.View, pd.i8[N]],
    unsigned: Annotated[pd.View, pd.u32[N]],
    first: Annotated[pd.View, pd.f32[N, 2]],
    square: Annotated[pd.View, pd.f32[N, N]],
    last: Annotated[pd.View, pd.f32[2, N]],
    other: Annotated[pd.View, pd.f32[N]],
    stored: Annotated[pd.View, pd.f32["b", "c"]],
    order: Annotated[pd.View, pd.i32[N]],
    counts: Annotated[pd.View, pd.i32[N]],
) -> None:
    s, u = short[:], unsigned[:]
    first[:, :] = q[s, 3:5, 2]
    square[:, :] = q[1, s[:, None], u]
    last[:, :] = q[0:2, u, s] * 2.0
    other[:] = pd.load(q[0, 1, pd.i32(s) * 2 - 2], 7.0)
    stored[u, 1:3] = q[0, 0:4, 0:2]
    stored[u, pd.i32(u) + 2] += 10.0
    rows = stored[u, :6]
    stored[u, 0:6] = rows + 1.0
    order[order[order[:]]] = pd.cumsum(order[:])
    counts[counts[:] % 2] += 1
    pd.atomic_add(counts, counts[:] - 1, counts[:])


@pytest.mark.parametrize("device", [*DEVICES, "python"])
def test_parts(device: str) -> None:
    q = np.random.default_rng(5).standard_normal((A, B, C)).astype(np.float32)
    short, unsigned = np.array([2, 0, 1, 4], np.int8), np.array([3, 1, 0, 4], np.uint32)
    results: list[Any] = [np.zeros(shape, np.float32) for shape in ((N, 2), (N, N), (2, N), N, (B, C))]
    results += [np.array([3, 0, 1, 2], np.int32), np.array([4, 1, 2, 1], np.int32)]
    if device == "python":
        parts.python(q, short, unsigned, *results)
    else:
        artifact = pd.compile(parts, targets={"ptx-interpreter": "cuda"}.get(device, device))
        results = [*map(np.asarray, pd.device(device).load(artifact).parts(q, short, unsigned, *results))]
    s, u = short.astype(int), unsigned.astype(int)
    first, square, last, other, stored, order, counts = results
    inside = s < A
    np.testing.assert_array_equal(first, np.where(inside[:, None], q[np.minimum(s, A - 1), 3:5, 2], 0))
    np.testing.assert_array_equal(square, q[1, s[:, None], u])
    np.testing.assert_array_equal(last, q[0:2, u, s] * 2)
    np.testing.assert_array_equal(other, [q[0, 1, 2], 7, q[0, 1, 0], 7])  # of 2, -2, 0 and 6
    expected = np.zeros((B, C), np.float32)
    expected[u, 1:3] = q[0, 0:4, 0:2]
    expected[u[:3], u[:3] + 2] += 10  # the last one is outside
    expected[u] += 1
    np.testing.assert_array_equal(stored, expected)
    np.testing.assert_array_equal(order, [4, 6, 3, 3])  # at 2, 3, 0 and 1
    np.testing.assert_array_equal(counts, [6, 6, 2, 1])  # after 5, 2, 2 and 1; the first addition is outside
