"""Atomic operations on floats, and on elements that share a word, on every device."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd
from pydispatch.formats.spirv.validator import validate

F32 = Annotated[pd.View, pd.f32["n"]]
N = 1000


def bins(x: F32, total: Annotated[pd.View, pd.f32[3]], most: Annotated[pd.View, pd.f32[3]],
         half: Annotated[pd.View, pd.f16[3]], brain: Annotated[pd.View, pd.f32[1]],
         least: Annotated[pd.View, pd.f16[3]], byte: Annotated[pd.View, pd.i8[5]]) -> None:  # fmt: skip
    i, lane = pd.global_id(0), pd.local_id(0)
    shared = pd.shared((3,), pd.f32)
    shared_half = pd.shared((3,), pd.f16)
    if lane < 3:
        shared[lane] = 0
        shared_half[lane] = 0
    brains = pd.shared((1,), pd.bf16)
    if lane == 0:
        brains[0] = 63
    pd.barrier()
    if i < x.shape[0]:
        bin = i % 3
        pd.atomic_add(shared, bin, x[i])
        pd.atomic_add(shared_half, bin, pd.f16(1))
        pd.atomic_max(most, bin, x[i])
        pd.atomic_add(brains, 0, pd.bf16(0.25))
        pd.atomic_min(least, bin, pd.f16(x[i]))
        pd.atomic_add(byte, i % 5, pd.i8(1))
    pd.barrier()
    if lane < 3:
        pd.atomic_add(total, lane, shared[lane])
        pd.atomic_add(half, lane, shared_half[lane])
    if lane == 0:
        pd.atomic_max(brain, 0, pd.f32(brains[0]))


@pytest.mark.parametrize("device", DEVICES)
def test_sums_and_extremes_of_bins(device: str) -> None:
    kernel = pd.kernel(workgroup=64, grid=lambda x, *_: pd.cdiv(x.shape[0], 64))(bins)
    x = np.arange(N, dtype=np.float32) % 97 - 40
    at = pd.device(device)
    given = [np.zeros(3, np.float32), np.full(3, -100, np.float32), np.zeros(3, np.float16), np.zeros(1, np.float32),
             np.full(3, 7, np.float16), np.full(5, -3, np.int8)]  # fmt: skip
    program = at.load(pd.compile(kernel, targets={"ptx-interpreter": "cuda"}.get(device, device.split(":")[0])))
    total, most, half, brain, least, byte = map(np.asarray, program.bins(x, *given))
    np.testing.assert_array_equal(total, [x[b::3].sum() for b in range(3)])
    np.testing.assert_array_equal(most, [x[b::3].max() for b in range(3)])
    np.testing.assert_array_equal(half, [len(x[b::3]) for b in range(3)])
    assert brain == 64  # which 0.25 does not change in bf16
    np.testing.assert_array_equal(least, [x[b::3].min() for b in range(3)])
    np.testing.assert_array_equal(byte, np.full(5, N // 5 - 3).astype(np.int8))


def wide(x: Annotated[pd.View, pd.f64["n"]], total: Annotated[pd.View, pd.f64[2]],
         most: Annotated[pd.View, pd.i64[2]]) -> None:  # fmt: skip
    i = pd.global_id(0)
    shared = pd.shared((2,), pd.f64)
    if pd.local_id(0) < 2:
        shared[pd.local_id(0)] = 0
    pd.barrier()
    if i < x.shape[0]:
        pd.atomic_max(shared, i % 2, x[i])
        pd.atomic_add(total, i % 2, x[i])
        pd.atomic_add(most, i % 2, pd.i64(1) << 33)
    pd.barrier()
    if i < 2:
        pd.atomic_max(total, i, shared[i])


@pytest.mark.parametrize("device", DEVICES)
def test_elements_of_8_bytes(device: str) -> None:
    kernel = pd.kernel(workgroup=32, grid=lambda x, *_: pd.cdiv(x.shape[0], 32))(wide)
    x = np.arange(100) + 0.125
    target = {"ptx-interpreter": "cuda"}.get(device, device.split(":")[0])
    if target == "webgpu":
        with pytest.raises(pd.CompileError, match=r"atomic .* on f64 cannot(.|\n)*on 1 or 2 or 4 bytes"):
            pd.compile(kernel, targets=target)
        return
    total, most = pd.device(device).load(pd.compile(kernel, targets=target)).wide(x, np.zeros(2), np.zeros(2, np.int64))
    np.testing.assert_array_equal(total, [x[::2].sum(), x[1::2].sum()])
    np.testing.assert_array_equal(most, [50 << 33] * 2)


def test_threads_that_meet_lose_nothing() -> None:
    @pd.kernel(workgroup=1, grid=256)
    def add(x: F32, y: Annotated[pd.View, pd.f32[1]], z: Annotated[pd.View, pd.f16[3]]) -> None:
        for i in range(x.shape[0]):
            pd.atomic_add(y, 0, x[i])
            pd.atomic_max(z, i % 3, pd.f16(x[i]))

    y, z = np.zeros(1, np.float32), np.zeros(3, np.float16)
    add(np.ones(1000, np.float32), y, z)
    assert y[0] == 256_000
    assert z.tolist() == [1, 1, 1]


@pytest.mark.parametrize("kernel", [bins, wide])
def test_modules_are_valid(kernel: Callable[..., None], tmp_path: Path) -> None:
    """spirv-val, where it is installed."""
    made = pd.kernel(workgroup=64, grid=lambda x, *_: pd.cdiv(x.shape[0], 64))(kernel)
    pd.compile(made, targets="vulkan").save(tmp_path / "program.pdx")
    with zipfile.ZipFile(tmp_path / "program.pdx") as file:
        (code,) = (file.read(name) for name in file.namelist() if name.endswith(".spv"))
    assert validate(code) == ""


def test_devices_use_their_instructions() -> None:
    @pd.kernel(workgroup=32)
    def add(x: F32, y: Annotated[pd.View, pd.f32[1]], z: Annotated[pd.View, pd.f64[1]]) -> None:
        i = pd.global_id(0)
        if i < x.shape[0]:
            pd.atomic_add(y, 0, x[i])
            pd.atomic_add(z, 0, pd.f64(x[i]))

    ptx = add.code("cuda")
    assert "atom.global.gpu.add.f32" in ptx or "atom.global.add.f32" in ptx
    assert ".add.f64" in ptx
    assert ".cas" not in ptx
