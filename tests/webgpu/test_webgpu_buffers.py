"""Buffers of a device: content, lifetime, reuse, and calls on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from webgpu_programs import SHADER, source

import pydispatch as pd


@pytest.fixture
def program(device: Any, wgsl: Any) -> Any:
    return device.load(pd.compile(source([wgsl("mul", SHADER)]), targets="webgpu"))


def test_a_buffer_that_is_too_large(device: Any) -> None:
    with pytest.raises(pd.OutOfMemoryError, match=r"webgpu:0: \d+ bytes in one buffer, the device has at most"):
        device.empty(1 << 40, np.uint8)


def test_a_part_of_a_word_is_written_while_the_device_works(device: Any, program: Any) -> None:
    """Uploads of odd sizes between calls that nobody waits for: what is behind the last byte stays."""
    context, a = device._context, np.ones(64, np.float32)
    y = device.upload(a)
    bytes_ = device.upload(np.arange(16, dtype=np.uint8))
    for size in (1, 2, 3, 5, 7):
        y = program.mul(y, a)
        context.copy_in(bytes_.memory.block, np.full(size, 200 + size, np.uint8), size)
        expected = np.arange(16, dtype=np.uint8)
        expected[:size] = 200 + size
        expected[size:7] = np.arange(size, 7)
        found = np.empty(9, np.uint8)
        context.copy_out(bytes_.memory.block, found, 9, 3)
        np.testing.assert_array_equal(found, expected[3:12])
    np.testing.assert_array_equal(y, a)
