"""Memory of others on a CUDA device, and ours for others: who waits for whom, and who keeps what alive.

The streams of the fake driver run nothing before somebody waits: an order that is not stated shows.
"""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_device_programs import STEPS
from cuda_fake import device, fake, install, unfilled
from cuda_programs import MIXED, MUL, TWO, source, target, vectors
from fake_driver import FakeDriver
from pydispatch._core.dlpack import make_capsule, open_capsule
from tools import DATA

import pydispatch as pd

__all__ = ["device", "fake", "unfilled"]  # fixtures

N = 100


def mixed() -> Any:
    return pd.compile(source({target(): [DATA / "kernels_sm_75.ptx"]}, TWO, MIXED), targets="cuda")


def given(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes, dtype=np.float32)


class Other:
    """Another library with a stream of its own, whose work on its arrays waits in that stream."""

    def __init__(self, fake: FakeDriver, index: int = 0, flags: int = 1) -> None:
        self.fake, self.index = fake, index
        fake.cuDevicePrimaryCtxRetain(index)
        self.context = fake.devices[index].context
        fake.cuCtxPushCurrent(self.context)
        self.stream = fake.cuStreamCreate(flags)[1]
        pool = fake.CUmemPoolProps()
        pool.location.type, pool.location.id = 1, index
        self.pool = fake.cuMemPoolCreate(pool)[1]

    def array(self, data: Any) -> Tensor:
        """An array that gets its content when the stream comes to it."""
        made = Tensor(
            self, data.shape, data.dtype, self.fake.cuMemAllocFromPoolAsync(data.nbytes, self.pool, self.stream)[1]
        )
        self.fill(made, data)
        return made

    def fill(self, tensor: Tensor, data: Any) -> None:
        self.fake.cuMemcpyHtoDAsync(tensor.address, np.ascontiguousarray(data), data.nbytes, self.stream)

    def read(self, address: int, shape: Any, dtype: Any = np.float32) -> Any:
        """What the stream sees, when it is done."""
        out = np.empty(shape, dtype)
        self.fake.cuMemcpyDtoHAsync(out, address, out.nbytes, self.stream)
        return out


class Tensor:
    """With DLPack, as PyTorch has it: whoever takes it names a stream, which is made to wait."""

    def __init__(self, owner: Other, shape: Any, dtype: Any, address: int) -> None:
        self.owner, self.shape, self.dtype, self.address = owner, shape, np.dtype(dtype), address
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.asked: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.owner.index

    def __dlpack__(self, stream: Any = None, max_version: Any = None) -> Any:
        self.asked.append((stream, max_version))
        fake = self.owner.fake
        event = fake.cuEventCreate(2)[1]
        fake.cuEventRecord(event, self.owner.stream)
        assert fake.cuStreamWaitEvent(stream, event, 0)[0] == 0
        code = {"f": 2, "i": 0}[self.dtype.kind]
        bits, versioned = 8 * self.dtype.itemsize, max_version is not None
        return make_capsule(self, self.address, self.shape, code, bits, 2, self.owner.index, versioned)


class OldTensor(Tensor):
    """Before versions were asked for."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return super().__dlpack__(stream)


class Array:
    """With `__cuda_array_interface__` alone, as Numba has it."""

    def __init__(self, tensor: Tensor, **entries: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tensor.shape, "typestr": tensor.dtype.str, "data": (tensor.address, False), "strides": None,
            "version": 3, "stream": tensor.owner.stream, **entries,
        }  # fmt: skip


def test_tensors_of_others_are_used_where_they_lie(unfilled: None, fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    x, y = other.array(a), other.array(b)
    fake.calls.clear()
    z = f(x, y)
    assert fake.calls["cuMemcpyHtoDAsync"] == fake.calls["cuStreamQuery"] == 0 and fake.launches == []
    assert x.asked == [(device.stream, (1, 1))]
    np.testing.assert_array_equal(z, b * (a * b))
    old = OldTensor(other, x.shape, x.dtype, x.address)
    np.testing.assert_array_equal(f(old, y), b * (a * b))
    call = f.prepare(x, y)
    np.testing.assert_array_equal(call(), b * (a * b))
    np.testing.assert_array_equal(call(y, x), a * (b * a))


def test_arrays_with_the_interface_of_cuda(fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    x, y = other.array(a), other.array(b)
    np.testing.assert_array_equal(f(Array(x), Array(y, strides=(4,))), b * (a * b))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"strides": (8,)}, "is not contiguous"), ({"mask": 1}, "its mask would be lost"),
        ({"typestr": "<i4"}, "expected .*f32"), ({"shape": (50, 2)}, "a buffer of"),
    ]  # fmt: skip
    for entries, expected in cases:
        with pytest.raises(pd.InvalidArgumentError, match=expected):
            f(Array(x, **entries), b)


def test_what_is_used_is_kept_alive_until_it_is_done(fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    x = other.array(a)
    alive = weakref.ref(x)
    z = f(x, b)
    del x
    gc.collect()
    f.prepare(b, b)
    assert alive() is not None  # nothing has run yet
    np.testing.assert_array_equal(z, b * (a * b))
    f(b, b), gc.collect()
    assert alive() is None


def test_results_go_to_others(fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    y = f(a, b)
    assert y.__dlpack_device__() == (2, 0)
    fake.calls.clear()
    capsule = y.__dlpack__(stream=other.stream)
    assert fake.calls["cuStreamQuery"] == 0 and fake.launches == []
    seen = open_capsule(capsule)
    assert seen.shape == (N,) and seen.dtype == np.float32
    address = seen.__array_interface__["data"][0]
    np.testing.assert_array_equal(other.read(address, N), b * (a * b))  # its stream has waited for ours
    alive = device.memory()["live_blocks"]
    del y
    assert device.memory()["live_blocks"] == alive  # the capsule keeps it
    del seen
    assert device.memory()["live_blocks"] == alive - 1
    y = f(a, b)
    facts = y.__cuda_array_interface__
    assert facts["version"] == 3 and facts["shape"] == (N,) and facts["typestr"] == "<f4"
    assert facts["stream"] == device.stream
    fake.calls.clear()
    copy = open_capsule(y.__dlpack__(stream=-1, copy=True))  # the consumer knows to wait
    assert copy.__array_interface__["data"][0] != facts["data"][0] and fake.calls["cuStreamWaitEvent"] == 0
    np.testing.assert_array_equal(np.from_dlpack(_OnCpu(y)), b * (a * b))
    with pytest.raises(BufferError, match="copy it to DLPack device"):
        y.__dlpack__(dl_device=(2, 3))
    with pytest.raises(BufferError, match="for the CPU needs a copy"):
        y.__dlpack__(dl_device=(1, 0), copy=False)
    assert open_capsule(y.__dlpack__(copy=False)).__array_interface__["data"][0] == facts["data"][0]
    empty = device.empty((0, 3))
    assert empty.__cuda_array_interface__["data"][0] == 0
    assert open_capsule(device.empty(3, np.int16).__dlpack__()).dtype == np.int16


@pytest.mark.parametrize("in_thread", [False, True], ids=["same thread", "another thread"])
def test_tensors_outlive_a_closed_device(fake: FakeDriver, in_thread: bool) -> None:
    """A closed device is destroyed by the deleter of its last tensor: until then the memory and the context are there.

    Another thread that runs the deleter has no current context.
    """
    other, fresh = Other(fake), pd.device("cuda:0?check=1")
    x = given(N)
    buffer: Any = fresh.upload(x)
    consumed, unconsumed = [open_capsule(buffer.__dlpack__())], [buffer.__dlpack__()]
    retained = fake.devices[0].retained
    fresh.close()
    with pytest.raises(pd.DeviceUnavailableError, match="cuda:0 was closed"):
        buffer.__dlpack__()
    np.testing.assert_array_equal(np.from_dlpack(_OnCpu(buffer)), x)
    del buffer
    np.testing.assert_array_equal(other.read(consumed[0].__array_interface__["data"][0], N), x)
    unconsumed.clear()
    assert fake.devices[0].retained == retained
    if in_thread:
        thread = threading.Thread(target=consumed.clear)
        thread.start()
        thread.join()
    else:
        consumed.clear()
    assert fake.devices[0].retained == retained - 1
    assert fake.calls["cuMemPoolDestroy"] == fake.calls["cuStreamDestroy"] == 1
    assert set(fake.devices[0].streams.by_number) == {0, 1, other.stream}  # of the default and the other library


class _OnCpu:
    """Asks for a copy in the memory of the process, as NumPy does with device="cpu"."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.buffer.__dlpack__(dl_device=(1, 0), **{k: v for k, v in options.items() if k != "dl_device"})


def test_types_of_elements(device: Any) -> None:
    import ml_dtypes

    for dtype, code in ((np.float16, 2), (np.bool_, 6), (np.complex64, 5), (np.uint8, 1), (ml_dtypes.bfloat16, 4)):
        buffer = device.empty(4, dtype)
        array = open_capsule(buffer.__dlpack__())
        assert array.dtype == dtype, code
        if dtype is ml_dtypes.bfloat16:
            assert not hasattr(buffer, "__cuda_array_interface__")
        else:
            assert np.dtype(buffer.__cuda_array_interface__["typestr"]) == dtype


@pytest.mark.parametrize("flags", [0, 1], ids=["ordered with the default stream", "on its own"])
def test_the_stream_of_the_caller(fake: FakeDriver, device: Any, flags: int) -> None:
    """`stream=`: what is on it comes before the call, what is put there later comes behind it."""
    other, f = Other(fake, flags=flags), device.load(mixed()).mixed_invocation
    a, b, c = given(3, N)
    x, out = other.array(a), other.array(b)

    class WithoutDlpack:
        __cuda_array_interface__ = Array(x, stream=None).__cuda_array_interface__

    class Target:
        __cuda_array_interface__ = Array(out, stream=None).__cuda_array_interface__

    fake.calls.clear()
    target_ = Target()
    for stream in (other.stream, _Torch(other.stream), _Protocol(other.stream)):
        assert f(WithoutDlpack(), b, out=target_, stream=stream) is target_
        other.fill(x, c)  # behind the call: it has read the content that was there before
        np.testing.assert_array_equal(other.read(out.address, N), b * (a * b))
        a = c
    assert fake.calls["cuStreamQuery"] == 0
    call = f.prepare(WithoutDlpack(), device.upload(b))
    for data in (a, b):
        other.fill(x, data)
        y = call(stream=other.stream)
        other.fill(x, np.zeros_like(a))
        seen = other.read(y.__cuda_array_interface__["data"][0], N)  # its stream has waited
        np.testing.assert_array_equal(seen, b * (data * b))
    assert fake.calls["cuStreamQuery"] == 0
    for wrong in ("main", -1, object()):
        with pytest.raises(pd.InvalidArgumentError, match="stream: expected the handle of a CUDA stream"):
            f(a, b, stream=wrong)


class _Torch:
    def __init__(self, handle: int) -> None:
        self.cuda_stream = handle


class _Protocol:
    def __init__(self, handle: int) -> None:
        self.handle_ = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle_


def test_the_default_stream_needs_no_word(fake: FakeDriver, device: Any) -> None:
    """PyTorch works on the default stream unless it is told otherwise; ours is in order with it by itself."""
    f = device.load(mixed()).mixed_invocation
    other = Other(fake)
    other.stream = 0
    a, b, c = given(3, N)
    x = other.array(a)
    quiet = Array(x, stream=None)
    y = f(quiet, b)
    other.fill(x, c)
    address = y.__cuda_array_interface__["data"][0]
    np.testing.assert_array_equal(other.read(address, N), b * (a * b))


def test_results_into_memory_of_others(fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    x, y = other.array(a), other.array(b)
    assert f(x, y, out=y) is y  # over an argument: it goes through a copy
    device.synchronize()
    np.testing.assert_array_equal(other.read(y.address, N), b * (a * b))
    z = other.array(np.zeros(N + 1, np.float32))
    part = Tensor(other, (N,), np.float32, z.address + 4)
    begin = Tensor(other, (N,), np.float32, z.address)
    other.fill(begin, a)
    assert f(begin, b, out=part) is part  # they share memory without being the same
    device.synchronize()
    np.testing.assert_array_equal(other.read(part.address, N), b * (a * b))


def test_memory_of_others_that_must_not_be_written(fake: FakeDriver, device: Any) -> None:
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    kept = other.array(np.zeros(N, np.float32))
    old = OldTensor(other, kept.shape, kept.dtype, kept.address)
    for wrong, text in (
        (old, r"memory that may be read-only: its DLPack capsule is of the form without a version"),
        (Array(kept, data=(kept.address, True)), "a read-only array"),
    ):
        with pytest.raises(pd.InvalidArgumentError, match=rf"out: expected an array that can be written, got {text}"):
            f(a, b, out=wrong)
    np.testing.assert_array_equal(other.read(kept.address, N), np.zeros(N))

    class Both(OldTensor):  # as older CuPy: the other interface says what DLPack cannot
        __cuda_array_interface__ = Array(kept).__cuda_array_interface__

    both = Both(other, kept.shape, kept.dtype, kept.address)
    assert f(a, b, out=both) is both
    device.synchronize()
    np.testing.assert_array_equal(other.read(kept.address, N), b * (a * b))


def test_memory_at_any_place(fake: FakeDriver, device: Any) -> None:
    """Kernels load many bytes at once: what does not begin at a multiple of 16 is moved, on the device."""
    other, f = Other(fake), device.load(mixed()).mixed_invocation
    a, b, c = given(3, N)
    whole = other.array(np.concatenate([np.zeros(1, np.float32), a]))
    part = Tensor(other, (N,), np.float32, whole.address + 4)
    right = device.upload(b)
    fake.calls.clear()
    y = f(part, right)
    call = f.prepare(part, right)
    z = call()
    assert fake.calls["cuStreamQuery"] == 0 and fake.calls["cuMemcpyDtoDAsync"] == 2
    for found in (y, z):
        np.testing.assert_array_equal(found, b * (a * b))
    other.fill(part, c)
    np.testing.assert_array_equal(call(part, right), b * (c * b))
    assert f(right, right, out=part) is part
    device.synchronize()
    np.testing.assert_array_equal(other.read(part.address, N), b * (b * b))
    for name, grid in fake.launches:
        assert grid == (2, 1, 1), name


def test_arguments_of_another_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = install(monkeypatch, tmp_path, devices=2)
    device: Any = pd.device("cuda:0")
    pd.device("cuda:1")
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, N)
    x = Other(fake, 1).array(a)
    for value in (x, Array(x)):
        with pytest.raises(pd.InvalidArgumentError, match="lies on cuda:1, the program runs on cuda:0: copy it there"):
            f(value, b)


def test_what_is_not_contiguous(fake: FakeDriver, device: Any) -> None:
    f = device.load(mixed()).mixed_invocation
    a, b = given(2, N)

    class Strided:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **options: Any) -> Any:
            return a[::2].__dlpack__()  # any memory will do: it is not looked at

    with pytest.raises(pd.InvalidArgumentError, match="is not contiguous; make it so first"):
        f(Strided(), b[:50])


def test_calls_with_steps_take_tensors_too(fake: FakeDriver, device: Any) -> None:
    text = source({target(): [DATA / "kernels_sm_75.ptx"]}, MUL, STEPS + vectors("simple_mul"))
    program = device.load(pd.compile(text, targets="cuda"))
    a = given(N)
    np.testing.assert_array_equal(program.looped(Other(fake).array(a), 2), a * a * a)
