"""Operations on subgroups, on every device, against NumPy."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

N, GROUP = 160, 80  # of subgroups of 32, 32 and 16


@pd.kernel(workgroup=(20, 4), grid=2)
def subgroups(
    x: Annotated[pd.View, pd.f32[N]],
    sums: Annotated[pd.View, pd.f32[N]],
    most: Annotated[pd.View, pd.i32[N]],
    turned: Annotated[pd.View, pd.f32[N]],
    bits: Annotated[pd.View, pd.u32[N]],
    scan: Annotated[pd.View, pd.f32[N]],
) -> None:
    own = pd.local_id(1) * 20 + pd.local_id(0)
    i, lane = pd.group_id(0) * GROUP + own, own % 32
    total = pd.subgroup_sum(x[i])
    size = pd.subgroup_sum(1)
    pd.barrier()
    sums[i] = total + pd.f32(size)
    largest = pd.subgroup_max(pd.i32(x[i]))
    opposite = pd.subgroup_shuffle(x[i], 31 - lane)
    ballot = pd.subgroup_ballot(x[i] > 0)
    is_positive = pd.subgroup_shuffle(x[i] > 0, 0)
    most[i], turned[i], bits[i] = largest if is_positive else -largest, opposite, ballot
    value, step = x[i], 1
    while step < 32:
        before = pd.subgroup_shuffle(value, lane - step)
        if lane >= step:
            value += before
        step *= 2
    scan[i] = value


@pytest.mark.parametrize("device", DEVICES)
def test_subgroups(device: str) -> None:
    x = np.random.default_rng(3).integers(-9, 10, N).astype(np.float32)
    given = [np.zeros(N, dtype) for dtype in (np.float32, np.int32, np.float32, np.uint32, np.float32)]
    artifact = pd.compile(subgroups, targets={"ptx-interpreter": "cuda"}.get(device, device))
    sums, most, turned, bits, scan = map(np.asarray, pd.device(device).load(artifact).subgroups(x, *given))
    starts = [group + start for group in (0, GROUP) for start in (0, 32, 64)]
    for start in starts:
        part = slice(start, start + (32 if start % GROUP < 64 else 16))
        values = x[part]
        np.testing.assert_array_equal(sums[part], values.sum() + len(values))
        np.testing.assert_array_equal(most[part], values.max() if values[0] > 0 else -values.max())
        np.testing.assert_array_equal(turned[part], values[::-1] if len(values) == 32 else values)
        np.testing.assert_array_equal(bits[part], sum(1 << k for k, value in enumerate(values) if value > 0))
        np.testing.assert_array_equal(scan[part], values.cumsum())


@pd.kernel(workgroup=32, grid=1)
def rotated(x: Annotated[pd.View, pd.i32[32]], y: Annotated[pd.View, pd.i32[32]]) -> None:
    """The lanes are read from memory that the invocations write after they have met."""
    lanes = pd.shared(32, pd.i32)
    own = pd.local_id(0)
    lanes[own] = pd.i32((own + 1) % 32)
    pd.barrier()
    value = pd.subgroup_shuffle(x[own], lanes[31 - own])
    lanes[own] = 0
    y[own] = value


@pytest.mark.parametrize("device", DEVICES)
def test_lane_is_read_before_invocations_meet(device: str) -> None:
    x = np.arange(32, dtype=np.int32) * 3
    artifact = pd.compile(rotated, targets={"ptx-interpreter": "cuda"}.get(device, device))
    result = pd.device(device).load(artifact).rotated(x, np.zeros(32, np.int32))
    np.testing.assert_array_equal(np.asarray(result), x[(32 - np.arange(32)) % 32])
