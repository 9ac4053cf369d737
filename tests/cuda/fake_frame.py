# ruff: noqa: N802, N803
"""The frame of the fake driver: devices, contexts, streams and events, errors on request, counted calls."""

from __future__ import annotations

import threading
import time
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from fake_streams import Event, Stream, Streams
from fake_types import ENUMS, STRUCTURES, CUdevice_attribute, CUresult

from pydispatch.runtime.simulators.ptx.machine import Machine

Result = tuple[Any, ...]


class Failure(Exception):
    def __init__(self, status: CUresult) -> None:
        self.status = status


class Device:
    """One GPU. sticky: the error that it gives from now on."""

    def __init__(self, index: int, numbers: Callable[[], int], memory: int) -> None:
        self.index, self.total, self.used = index, memory, 0
        self.context, self.retained = numbers(), 0
        self.streams = Streams(numbers)
        self.sticky: CUresult | None = None
        self.sizes: dict[int, int] = {}  # of allocations, by address


class Loaded:
    """A module: machine code of the machine, and its text."""

    def __init__(self, device: Device, made: Any, module: Any) -> None:
        self.device, self.made, self.module, self.is_gone = device, made, module, False


class Function:
    def __init__(self, loaded: Loaded, kernel: Any, sizes: tuple[int, ...], entry: Any) -> None:
        self.loaded, self.device, self.kernel, self.sizes, self.entry = loaded, loaded.device, kernel, sizes, entry
        self.dynamic_limit = 48 << 10


class Frame(types.ModuleType):
    """fail[name] = a status (or several, one per call) that a function returns instead of working. calls: how often
    each was called. limit_bytes: memory of a device. pinned: addresses of host memory that count as pinned."""

    def __init__(
        self, devices: int = 1, capability: tuple[int, int] = (9, 0), version: int = 13000, memory: int = 1 << 30
    ) -> None:
        super().__init__("cuda.bindings.driver")
        for kind in (*ENUMS, *STRUCTURES):
            setattr(self, kind.__name__, kind)
        self.cuuint64_t = int
        self.capability, self.version = capability, version
        self.machine = Machine(capability)
        self.next_number = 0x10000
        self.devices = [Device(i, self._number, memory) for i in range(devices)]
        self.calls: Counter[str] = Counter()
        self.fail: dict[str, list[CUresult]] = {}
        self.has_library = True
        self.is_started = False
        self.needs_current = True
        self.never_ends = False
        self.pinned: set[int] = set()
        self.objects: dict[int, Any] = {}
        self.links: dict[int, dict[str, Any]] = {}
        self.local = threading.local()
        self.lock = threading.RLock()
        self.launches: list[tuple[str, tuple[int, int, int]]] = []
        self.shared_optin = 100 << 10
        self.threads_limit = 1024
        for name in self.functions():
            setattr(self, name, self._guarded(name))

    @classmethod
    def functions(cls) -> list[str]:
        """Names of the functions of the driver that are there."""
        return [
            name.removeprefix("_")
            for kind in cls.__mro__
            for name in vars(kind)
            if name.startswith("_cu") and name[3].isupper()
        ]

    # The frame around every function

    def _number(self) -> int:
        self.next_number += 0x40
        return self.next_number

    def _new(self, value: Any) -> int:
        number = self._number()
        self.objects[number] = value
        return number

    def _guarded(self, name: str) -> Callable[..., Result]:
        work = getattr(self, f"_{name}")
        results = _results(name)

        def function(*args: Any) -> Result:
            with self.lock:
                self.calls[name] += 1
                planned = self.fail.get(name)
                if planned:
                    status = planned.pop(0)
                    if status:
                        return (status, *[None] * results)
                try:
                    values = work(*args)
                except Failure as failure:
                    return (failure.status, *[None] * results)
                return (CUresult.CUDA_SUCCESS, *values)

        return function

    def _stack(self) -> list[Device]:
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        stack: list[Device] = self.local.stack
        return stack

    def _current(self) -> Device:
        stack = self._stack()
        if not stack:
            raise Failure(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self._alive(stack[-1])

    def _alive(self, device: Device) -> Device:
        if device.sticky is not None:
            raise Failure(device.sticky)
        if not device.retained:
            raise Failure(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return device

    def _stream(self, stream: Any) -> tuple[Device, Stream]:
        """The device and queue of a stream; the default stream is that of the current device."""
        number = int(stream)
        stack = self._stack()
        if number <= 1:
            device = self._current()
            return device, device.streams.legacy
        for device in self.devices:
            found = device.streams.by_number.get(number)
            if found is not None:
                if self.needs_current and (not stack or stack[-1] is not device):
                    status = CUresult.CUDA_ERROR_INVALID_HANDLE if stack else CUresult.CUDA_ERROR_INVALID_CONTEXT
                    raise Failure(status)
                return self._alive(device), found
        raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)

    def _put(self, stream: Any, work: Callable[[], None]) -> None:
        device, queue = self._stream(stream)
        device.streams.put(queue, lambda: None if device.sticky else work())

    def _drain(self, device: Device, queue: Stream) -> None:
        queue.drain()
        if device.sticky is not None:
            raise Failure(device.sticky)

    def _get(self, number: Any, kind: type) -> Any:
        found = self.objects.get(int(number))
        if not isinstance(found, kind):
            raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)
        return found

    # Driver and devices

    def _cuInit(self, Flags: int) -> Result:
        if not self.has_library:
            raise RuntimeError('"cuda" is an NVIDIA driver library and was not found')
        if not self.devices:
            raise Failure(CUresult.CUDA_ERROR_NO_DEVICE)
        self.is_started = True
        return ()

    def _cuDriverGetVersion(self) -> Result:
        return (self.version,)

    def _cuDeviceGetCount(self) -> Result:
        assert self.is_started, "cuInit comes first"
        return (len(self.devices),)

    def _cuDeviceGet(self, ordinal: int) -> Result:
        if not 0 <= ordinal < len(self.devices):
            raise Failure(CUresult.CUDA_ERROR_INVALID_DEVICE)
        return (ordinal,)

    def _cuDeviceGetName(self, length: int, dev: Any) -> Result:
        return (b"Fake GPU\0" + b"\0" * (length - 9),)

    def _cuDeviceTotalMem(self, dev: Any) -> Result:
        return (self.devices[int(dev)].total,)

    def _cuDeviceGetAttribute(self, attrib: CUdevice_attribute, dev: Any) -> Result:
        known = {
            1: self.threads_limit, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 48 << 10, 10: 32,
            13: 1000000, 16: 4, 36: 1000000, 37: 64, 38: 1 << 20, 75: self.capability[0], 76: self.capability[1],
            97: self.shared_optin, 115: 1,
        }  # fmt: skip
        return (known[int(attrib)],)

    def _cuDevicePrimaryCtxRetain(self, dev: Any) -> Result:
        device = self.devices[int(dev)]
        device.retained += 1
        return (device.context,)

    def _cuDevicePrimaryCtxRelease(self, dev: Any) -> Result:
        device = self.devices[int(dev)]
        assert device.retained > 0
        device.retained -= 1
        return ()

    def _cuCtxPushCurrent(self, ctx: Any) -> Result:
        device = next(device for device in self.devices if device.context == int(ctx))
        self._stack().append(device)
        return ()

    def _cuCtxGetCurrent(self) -> Result:
        return (self._stack()[-1].context if self._stack() else 0,)

    def _cuCtxPopCurrent(self) -> Result:
        return (self._stack().pop().context,)

    def _cuGetErrorString(self, error: CUresult) -> Result:
        return (CUresult(error).name.removeprefix("CUDA_ERROR_").replace("_", " ").lower().encode(),)

    # Streams and events

    def _cuStreamCreate(self, Flags: int) -> Result:
        return (self._current().streams.create(Flags),)

    def _cuStreamDestroy(self, hStream: Any) -> Result:
        device, queue = self._stream(hStream)
        queue.drain()
        del device.streams.by_number[queue.number]
        return ()

    def _cuStreamSynchronize(self, hStream: Any) -> Result:
        self._drain(*self._stream(hStream))
        return ()

    def _cuStreamQuery(self, hStream: Any) -> Result:
        """Asking lets one operation run."""
        device, queue = self._stream(hStream)
        if not self.never_ends:
            queue.run_to(queue.done + 1)
            self._alive(device)
        if queue.done < len(queue.queue):
            raise Failure(CUresult.CUDA_ERROR_NOT_READY)
        return ()

    def _cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: int) -> Result:
        event = self._get(hEvent, Event)
        stream, position = event.stream, event.position
        self._put(hStream, lambda: stream.run_to(position) if stream is not None else None)
        return ()

    def _cuEventCreate(self, Flags: int) -> Result:
        self._current()
        return (self._new(Event(not Flags & 2)),)

    def _cuEventRecord(self, hEvent: Any, hStream: Any) -> Result:
        event = self._get(hEvent, Event)
        _, queue = self._stream(hStream)

        def stamp() -> None:
            event.time = time.perf_counter()

        self._put(hStream, stamp)
        event.stream, event.position = queue, len(queue.queue)
        return ()

    def _cuEventQuery(self, hEvent: Any) -> Result:
        if not self._get(hEvent, Event).is_done:
            raise Failure(CUresult.CUDA_ERROR_NOT_READY)
        return ()

    def _cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> Result:
        start, end = self._get(hStart, Event), self._get(hEnd, Event)
        if not (start.is_timed and end.is_timed):
            raise Failure(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if not (start.is_done and end.is_done):
            raise Failure(CUresult.CUDA_ERROR_NOT_READY)
        return ((end.time - start.time) * 1e3,)

    def _cuEventDestroy(self, hEvent: Any) -> Result:
        self._get(hEvent, Event)
        del self.objects[int(hEvent)]
        return ()


def _results(name: str) -> int:
    """How many values a function gives besides its status; the real ones give None for them when they fail."""
    if name in ("cuModuleGetGlobal", "cuLinkComplete"):
        return 2
    parts = ("Get", "Create", "Alloc", "Load", "Node", "Instantiate", "Retain", "Elapsed", "Pop")
    return int(any(part in name for part in parts) and "SetParams" not in name)
