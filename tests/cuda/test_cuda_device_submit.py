"""Submitted calls on a device that runs plans by itself: the same futures as on the CPU."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from cuda_fake import device, fake
from test_cuda_device_calls import given, mixed

import pydispatch as pd

__all__ = ["device", "fake"]  # fixtures


def test_submitted_calls(device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 1000)
    expected = b * (a * b)
    future = f.submit(a, b)
    assert isinstance(future, pd.Future)
    np.testing.assert_array_equal(future.result(60), expected)
    np.testing.assert_array_equal(f.submit(f.submit(a, b), b).result(60), b * (expected * b))
    for value in f.submit_many([(a, b)] * 5).result(60):
        np.testing.assert_array_equal(value, expected)
    for value in f.map(((a, b) for _ in range(6)), in_flight=2):
        np.testing.assert_array_equal(value, expected)

    async def main() -> Any:
        return await f.submit(a, b)

    np.testing.assert_array_equal(asyncio.run(main()), expected)


def test_failures(device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, 100)
    assert isinstance(f.submit(a).exception(60), pd.InvalidArgumentError)
    with pytest.raises(pd.InvalidArgumentError) as caught:
        f.submit_many([(a, b), (a,), (a, b)]).result(60)
    first, second, third = caught.value.outcomes  # type: ignore[attr-defined]
    assert second is caught.value
    np.testing.assert_array_equal(first, third)
    with pytest.raises(pd.InvalidArgumentError):
        f.map([(a, b)], in_flight=0)
