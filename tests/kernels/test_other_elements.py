"""Views of integers without sign and of floats of 8 bits, on every device."""

from typing import Annotated, Any

import ml_dtypes
import numpy as np
import pytest
from kernel_works import DEVICES

import pydispatch as pd
from pydispatch.kernels.writer import signless

KINDS = {
    "u8": (pd.u8, np.uint8, pd.i32, np.int32), "u32": (pd.u32, np.uint32, pd.i64, np.int64),
    "u64": (pd.u64, np.uint64, pd.u64, np.uint64),
}  # fmt: skip


def arithmetic(kind: str) -> Any:
    dtype, _, wide, _ = KINDS[kind]
    vector = Annotated[pd.View, dtype["n"]]

    @pd.kernel(workgroup=32)
    def kernel(
        x: vector,
        y: vector,
        limit: Annotated[int, dtype],
        out: Annotated[pd.View, dtype["n", 11]],
        f: Annotated[pd.View, pd.f32["n"]],
        w: Annotated[pd.View, wide["n"]],
        extremes: Annotated[pd.View, dtype[3]],
    ) -> None:
        i = pd.global_id(0)
        shared = pd.shared((1,), dtype)
        if pd.local_id(0) == 0:
            shared[0] = 0
        pd.barrier()
        a, b = dtype(0), dtype(1)
        if i < x.shape[0]:
            a, b = x[i], y[i]
            out[i, 0] = a + b
            out[i, 1] = a - b
            out[i, 2] = a * b
            out[i, 3] = a // b
            out[i, 4] = a % b
            out[i, 5] = a >> 3
            out[i, 6] = max(a, b)
            out[i, 7] = min(a, b)
            out[i, 8] = dtype(1 if a < b else 0)
            out[i, 9] = min(a, limit) ^ 5
            out[i, 10] = dtype(pd.f32(a % 100) / 2)
            f[i] = pd.f32(a)
            w[i] = a + wide(1)
            pd.atomic_max(extremes, 0, a)
            pd.atomic_min(extremes, 1, a)
            pd.atomic_max(shared, 0, b)
        most = pd.group_max(a)
        if pd.local_id(0) == 0:
            pd.atomic_max(extremes, 2, max(most, shared[0]))

    return kernel


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_integers_without_sign(kind: str, name: str) -> None:
    if kind == "u64" and name == "webgpu":  # it has no atomic operations of 8 bytes
        with pytest.raises(pd.CompileError, match="atomic 'maxu' on i64 cannot be compiled"):
            pd.compile(arithmetic(kind), targets="webgpu")
        return
    _, dtype, _, wide = KINDS[kind]
    random, top = np.random.default_rng(4), np.iinfo(dtype).max
    x, y = (random.integers(1, top, 50, dtype=dtype, endpoint=True) for _ in range(2))
    x[:3], y[0], y[1] = top, 1, 3
    device = pd.device(name)
    limit = int(top // 2 + 9)
    made = np.zeros((50, 11), dtype), np.zeros(50, np.float32), np.zeros(50, wide), np.array([0, top, 0], dtype)
    first, second, out, f, w, extremes = map(device.upload, (x, y, *made))
    arithmetic(kind)(first, second, limit, out, f, w, extremes)
    with np.errstate(over="ignore"):
        expected = [x + y, x - y, x * y, x // y, x % y, x >> dtype(3), np.maximum(x, y), np.minimum(x, y), x < y,
                    np.minimum(x, dtype(limit)) ^ dtype(5), (x % dtype(100)) // dtype(2)]  # fmt: skip
        np.testing.assert_array_equal(np.asarray(out), np.stack([each.astype(dtype) for each in expected], 1))
        np.testing.assert_array_equal(np.asarray(w), x.astype(wide) + wide(1))
    np.testing.assert_array_equal(np.asarray(f), x.astype(np.float32))
    assert np.asarray(extremes).tolist() == [x.max(), x.min(), max(x.max(), y.max())]


def test_what_integers_meet() -> None:
    @pd.kernel(workgroup=1, grid=1)
    def mixed(x: Annotated[pd.View, pd.u32[4]], n: Annotated[int, pd.i32], y: Annotated[pd.View, pd.u32[4]]) -> None:
        y[0] = x[0] + n

    @pd.kernel(workgroup=1, grid=1)
    def negative(x: Annotated[pd.View, pd.u32[4]], y: Annotated[pd.View, pd.u32[4]]) -> None:
        y[0] = max(x[0], -1)

    @pd.kernel(workgroup=1, grid=1)
    def indexed(x: Annotated[pd.View, pd.u8[4]], y: Annotated[pd.View, pd.u32[256]]) -> None:
        for i in range(x.shape[0]):
            y[x[i]] += pd.bitcast(pd.i32(-1), pd.u32)

    with pytest.raises(pd.CompileError, match=r"'\+' of u32 and i32"):
        pd.compile(mixed)
    with pytest.raises(pd.CompileError, match="the number -1 does not fit into u32"):
        pd.compile(negative)
    y = np.zeros(256, np.uint32)
    indexed(np.array([3, 255, 3, 200], np.uint8), y)
    assert y[[3, 200, 255, 0]].tolist() == [2**32 - 2, 2**32 - 1, 2**32 - 1, 0]
    with pytest.raises(pd.InvalidArgumentError, match="expected 4xui8"):
        indexed(np.zeros(4, np.int8), y)
    with pytest.raises(pd.InvalidArgumentError, match=r"is u32\[n\]: programs have .* write pydispatch.i32"):
        pd.pattern(_pattern)


def _pattern(x: pd.u32["n"]) -> Any:  # noqa: F821
    return x


_pattern.__annotations__ = {"x": pd.u32["n"]}


def test_types_in_text() -> None:
    line = '%u32 = memref.load %p_u32[%3, %u8] : memref<?x4xu32> -> u8 loc("/u32/u8.py":1:2)'
    assert signless(line) == '%u32 = memref.load %p_u32[%3, %u8] : memref<?x4xi32> -> i8 loc("/u32/u8.py":1:2)'
    assert signless("tensor<4xu16>", "ui") == "tensor<4xui16>"


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_floats_of_8_bits(kind: str, name: str) -> None:
    dtype = getattr(pd, kind)
    numbers = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}[kind]
    vector = Annotated[pd.View, dtype["n"]]

    @pd.kernel(workgroup=32)
    def scaled(x: vector, s: Annotated[pd.View, pd.f32["n"]], y: vector, z: Annotated[pd.View, pd.f32["n"]],
               most: Annotated[pd.View, dtype[1]]) -> None:  # fmt: skip
        i = pd.global_id(0)
        if i < x.shape[0]:
            z[i] = pd.f32(x[i]) * s[i]
            y[i] = dtype(s[i]) + x[i] * 0.5
            pd.atomic_max(most, 0, x[i])

    random = np.random.default_rng(5)
    x = random.standard_normal(50).astype(np.float32).astype(numbers)
    s = (random.standard_normal(50) * 100).astype(np.float32)
    device = pd.device(name)
    given = [x, s, np.zeros(50, numbers), np.zeros(50, np.float32), np.zeros(1, numbers)]
    buffers = list(map(device.upload, given))
    scaled(*buffers)
    y, z, most = (np.asarray(each) for each in buffers[2:])
    np.testing.assert_array_equal(z, x.astype(np.float32) * s)
    half = (x.astype(np.float32) * 0.5).astype(numbers).astype(np.float32)
    expected = (s.astype(numbers).astype(np.float32) + half).astype(numbers)
    np.testing.assert_array_equal(y.view(np.uint8), expected.view(np.uint8))
    assert float(most.view(numbers)[0]) == float(x.astype(np.float32).max())


def test_numbers_outside_of_kernels() -> None:
    assert pd.u8(3) == np.uint8(3) and type(pd.f32(0.5)) is np.float32 and type(pd.i64(1)) is np.int64
    assert pd.f8E5M2(1.5) == 1.5 and pd.bf16(1.0) == 1.0 and type(pd.i1(1)) is np.bool_


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF80FFFF, 0x7FC00000, 0x7F810000])
def test_nan_stays_nan_as_bf16(bits: int) -> None:
    value = np.array([bits], np.uint32).view(np.float32)[0]
    result = pd.bf16(value)
    assert np.isnan(result) and np.signbit(result) == np.signbit(value)
    assert pd.bf16(np.inf) == np.inf and pd.bf16(-1.0039062) == -1.0
