"""Atomic operations whose results are used, on every device: exchanges, bits, and compare-and-swap of all widths."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd

N = 100


@pd.kernel(workgroup=32, grid=4)
def updates(
    order: Annotated[pd.View, pd.i32[N], pd.partial],
    bits: Annotated[pd.View, pd.u32[3]],
    bytes: Annotated[pd.View, pd.i8[3]],
    last: Annotated[pd.View, pd.f32[2]],
) -> None:
    """Each invocation notes its number at the place that it gets from a counter, and adds 1 under a lock."""
    i, lane = pd.global_id(0), pd.local_id(0)
    least = pd.shared(1, pd.i32)
    if lane == 0:
        least[0] = 1000
    pd.barrier()
    if i < N:
        place = pd.atomic_add(bits, 0, 1)
        order[place] = pd.i32(i)
        pd.atomic_or(bits, 1, pd.u32(1) << (pd.u32(i) % 7))
        pd.atomic_xor(bits, 2, pd.u32(i))
        pd.atomic_and(bytes, 0, pd.i8(127 - (i % 2)))
        seen = pd.atomic_cas(bytes, 1, pd.i8(-1), pd.i8(5))
        if seen == -1:
            pd.atomic_add(bytes, 2, 1)
        was = pd.atomic_cas(least, 0, 1000, pd.i32(i))
        if was == 1000:
            pd.atomic_add(last, 1, 1.0)
        pd.atomic_exchange(last, 0, 7.0)


@pytest.mark.parametrize("device", DEVICES)
def test_results_of_atomic_operations(device: str) -> None:
    given = [np.full(N, -1, np.int32), np.zeros(3, np.uint32), np.array([-1, -1, 0], np.int8), np.zeros(2, np.float32)]
    artifact = pd.compile(updates, targets={"ptx-interpreter": "cuda"}.get(device, device))
    order, bits, bytes, last = map(np.asarray, pd.device(device).load(artifact).updates(*given))
    np.testing.assert_array_equal(np.sort(order), np.arange(N))
    assert bits.tolist() == [N, 127, np.bitwise_xor.reduce(np.arange(N))]
    assert bytes.tolist() == [126, 5, 1]  # one invocation saw the -1
    assert last.tolist() == [7, 4]  # one of each workgroup saw the 1000


def test_threads_that_take_turns() -> None:
    @pd.kernel(workgroup=1, grid=64)
    def count(lock: Annotated[pd.View, pd.i32[1]], total: Annotated[pd.View, pd.i32[1]]) -> None:
        for _ in range(200):
            while pd.atomic_cas(lock, 0, 0, 1) != 0:
                pass
            pd.atomic_exchange(total, 0, pd.atomic_or(total, 0, 0) + 1)
            pd.atomic_exchange(lock, 0, 0)

    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    count(lock, total)
    assert (lock[0], total[0]) == (0, 64 * 200)


@pd.kernel(workgroup=1, grid=1)
def unchanged(x: Annotated[pd.View, pd.i32[4]], seen: Annotated[pd.View, pd.i32[4]]) -> None:
    """Read elements by operations that keep them, and one by an operation that does not."""
    seen[0] = pd.atomic_or(x, 0, 0)
    seen[1] = pd.atomic_add(x, 1, 0)
    seen[2] = pd.atomic_xor(x, 2, 0)
    seen[3] = pd.atomic_and(x, 3, 0)


@pytest.mark.parametrize("device", DEVICES)
def test_operations_that_keep_an_element(device: str) -> None:
    x, seen = np.array([3, 5, 7, 9], np.int32), np.zeros(4, np.int32)
    artifact = pd.compile(unchanged, targets={"ptx-interpreter": "cuda"}.get(device, device))
    after, result = map(np.asarray, pd.device(device).load(artifact).unchanged(x, seen))
    assert (after.tolist(), result.tolist()) == ([3, 5, 7, 0], [3, 5, 7, 9])


def test_operations_that_keep_an_element_are_loads(tmp_path: Path) -> None:
    pd.compile(unchanged, targets="cpu", dump=tmp_path)
    (code,) = (path.read_text("utf-8") for path in tmp_path.glob("*.ll") if "optimized" not in path.name)
    assert (code.count("load atomic"), code.count("atomicrmw")) == (3, 1)
