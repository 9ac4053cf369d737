"""Buffers of a device: content, lifetime, reuse, and calls on them."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from webgpu_programs import SHADER, source

import pydispatch as pd


@pytest.fixture
def program(device: Any, wgsl: Any) -> Any:
    return device.load(pd.compile(source([wgsl("mul", SHADER)]), targets="webgpu"))


def test_content(device: Any) -> None:
    a = np.arange(15, dtype=np.int16).reshape(3, 5)
    buffer = device.upload(a)
    np.testing.assert_array_equal(buffer.download(), a)
    assert not buffer.is_mapped and buffer[1, 2] == 7 and "3x5xi16 on webgpu:0" in repr(buffer)
    with buffer.map() as content:
        content[0, 0] = 99
    assert buffer.download()[0, 0] == 99
    buffer.upload(a + 1)
    np.testing.assert_array_equal(buffer, a + 1)
    assert device.empty((0, 5), np.float32).download().shape == (0, 5)
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


def test_results_feed_calls_and_memory_is_used_again(device: Any, program: Any) -> None:
    a = np.linspace(0.5, 1.5, 500, dtype=np.float32)
    y, b = device.upload(a), device.upload(np.full(500, 1.01, np.float32))
    expected = a.copy()
    gc.collect()
    for _ in range(150):  # more than may be in the queue
        y = program.mul(y, b)
        expected = expected * np.float32(1.01)
    np.testing.assert_array_equal(y.download(), expected)
    live = device.memory()["live_blocks"]
    for _ in range(20):
        y = program.mul(y, b)
    assert device.memory()["live_blocks"] <= live + 1
    device.synchronize()
    device.trim()
    assert device.memory()["free_bytes"] == 0
    np.testing.assert_array_equal(program.mul(b, b).download(), np.full(500, 1.01, np.float32) ** 2)


def test_out_and_prepare(device: Any, program: Any) -> None:
    a, b = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    out = device.empty(64)
    assert program.mul(a, b, out=out) is out
    np.testing.assert_array_equal(out, a * 2)
    call = program.mul.prepare(a, b)
    for k in range(3):
        np.testing.assert_array_equal(np.asarray(call(a + k, b)), (a + k) * 2)


def test_threads(device: Any, program: Any) -> None:
    failed: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for n in (10, 100, 10):
                a = np.full(n, k, np.float32)
                np.testing.assert_array_equal(np.asarray(program.mul(a, program.mul(a, a))), a * a * a)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_closed_devices(wgsl: Any) -> None:
    device = pd.device("webgpu:0?backend=vulkan")
    program = device.load(pd.compile(source([wgsl("mul", SHADER)]), targets="webgpu"))
    a = np.ones(7, np.float32)
    y = program.mul(a, a)
    device.close()
    np.testing.assert_array_equal(y.download(), a)
    with pytest.raises(pd.DeviceUnavailableError, match="webgpu:0 was closed"):
        program.mul(y, y)
    np.testing.assert_array_equal(pd.device("webgpu:0?backend=vulkan").upload(a), a)
