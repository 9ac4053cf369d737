"""Buffers of CPU devices: the same calls as on other devices, on memory of the process."""

from __future__ import annotations

import numpy as np
import programs
import pytest

import pydispatch as pd
from pydispatch.errors import InvalidArgumentError


def test_buffers_are_arrays_in_their_memory() -> None:
    with pd.device("cpu?workers=2") as device:
        buffer = device.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
        assert (buffer.shape, buffer.dtype, buffer.device, buffer.is_mapped) == ((2, 3), np.float32, device.name, True)
        view = np.asarray(buffer)
        assert view.ctypes.data % 64 == 0
        view[0] = 7
        np.testing.assert_array_equal(buffer.download(), [[7, 7, 7], [3, 4, 5]])
        empty = device.empty((4,), np.int16)
        empty.upload(np.arange(4, dtype=np.int16))
        assert empty.tolist() == [0, 1, 2, 3] and device.empty(0).nbytes == 0


def test_calls_take_them() -> None:
    device = pd.device("cpu")
    program = device.load(programs.standard())
    a, b = device.upload(np.full(8, 4, np.float32)), device.upload(np.full(8, 3, np.float32))
    result = program.chain(a, b)
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, program.chain(np.asarray(a), np.asarray(b)))


def test_what_is_no_array() -> None:
    device = pd.device("cpu")
    with pytest.raises(InvalidArgumentError, match="upload: array: expected an array of numbers"):
        device.upload(["a"])
    with pytest.raises(InvalidArgumentError, match="empty: shape: expected a size"):
        device.empty((-1,))
    with pytest.raises(InvalidArgumentError, match="empty: dtype: "):
        device.empty(3, "nothing")


@pytest.mark.parametrize("shape", [1 << 40, (1 << 62, 4), (1 << 44, 3)])
@pytest.mark.parametrize("name", ["cpu", "vulkan:0", "ptx-interpreter"])
def test_buffers_that_are_too_large(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(pd.OutOfMemoryError, match=r"bytes"):
        pd.device(name).empty(shape)
