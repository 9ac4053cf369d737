"""Open CUDA device: the primary context of this process, one stream for all work, memory and errors."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pydispatch._core.device import poison_requested
from pydispatch._core.trace import Kind
from pydispatch.errors import DeviceUnavailableError, KernelError
from pydispatch.runtime.accelerators import context as base
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.closing import Closing
from pydispatch.runtime.accelerators.context import HostMemory, view_of
from pydispatch.runtime.devices.cuda import driver as cuda
from pydispatch.runtime.devices.cuda.current import Current
from pydispatch.runtime.devices.cuda.memory import Block, StreamOrderedPool

if TYPE_CHECKING:
    from collections.abc import Callable

_RECENT_LAUNCHES = 32
"""Number of latest launches whose dispatches the message of a hardware error can name."""
_DISABLE_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_EAGER_SECONDS, _POLL_SECONDS = 0.02, 0.0005
"""Time of continuous polling for short kernels, and the interval afterwards, which leaves the CPU to other threads."""
_ATTRIBUTES = {
    "threads": "MAX_THREADS_PER_BLOCK", "block_x": "MAX_BLOCK_DIM_X", "block_y": "MAX_BLOCK_DIM_Y",
    "block_z": "MAX_BLOCK_DIM_Z", "grid_x": "MAX_GRID_DIM_X", "grid_y": "MAX_GRID_DIM_Y", "grid_z": "MAX_GRID_DIM_Z",
    "shared": "MAX_SHARED_MEMORY_PER_BLOCK", "shared_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "warp": "WARP_SIZE", "processors": "MULTIPROCESSOR_COUNT", "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE", "bus_bits": "GLOBAL_MEMORY_BUS_WIDTH", "l2": "L2_CACHE_SIZE",
    "major": "COMPUTE_CAPABILITY_MAJOR", "minor": "COMPUTE_CAPABILITY_MINOR", "pools": "MEMORY_POOLS_SUPPORTED",
}  # fmt: skip
"""Key of `Context.attributes` → name of a CUdevice_attribute without "CU_DEVICE_ATTRIBUTE_"."""


class StepName(NamedTuple):
    """Name of an executed step for messages.

    Attributes:
        label: Description of the step.
        executable: Executable of a dispatch; None for other steps.
        export: Export of a dispatch; None for other steps.
    """

    label: str
    executable: str | None = None
    export: str | None = None


class Context(Closing, base.Context):
    """Open CUDA device: its context, memory, copies, events and errors.

    All work is enqueued on `stream`, in the order of the calls; `synchronize` waits for it. Results of the driver go
    through `check`. After `close` the device refuses work, and it is destroyed with the last buffer. `lock` is held
    while operations that belong together are enqueued. On the device, `stream` and the default stream of the process
    wait for each other.

    Attributes:
        index: Number of the device, from 0.
        attributes: Device attributes by the keys of `_ATTRIBUTES`; 0 for one that the driver does not know.
        is_checked: Whether each step is waited for, so that an error is attributed to the step that caused it.
        loss_reason: Error that made the device unusable for this process; "" if it is usable.
        is_shut: Whether the device is lost or closed.
        recent_launches: (function, names of steps) of the last launches. A hardware error is reported by a later call,
            whose message names them.
        capability: Compute capability, (major, minor).
        handle: CUcontext of the device, the primary one.
        current: Context manager that makes `handle` the current context of the thread.
        modules: Loaded code of all programs.
        garbage: (function of the driver, handle) of each unused object that must be destroyed.
    """

    def __init__(self, index: int, is_checked: bool) -> None:
        """Open a device; raise DeviceUnavailableError if there is none, or if it lacks a required feature."""
        driver = self.driver = cuda.binding()
        self.index, self.name, self.is_checked = index, f"cuda:{index}", is_checked
        self._require_existing()
        self.loss_reason, self.is_shut = "", False
        self.transfers = base.Transfers()  # counts copies between host and device
        self.is_poisoned = poison_requested()  # whether new blocks are filled with NaN: PYDISPATCH_CHECK=poison
        self.lock = threading.RLock()
        super().__init__()  # of Closing: replaces `lock` in a forked child, and destroys the device after `close`
        # (function, names of its steps) of the launches since the last synchronization, for messages about errors
        self.recent_launches: deque[tuple[str, tuple[StepName, ...]]] = deque(maxlen=_RECENT_LAUNCHES)
        # What the device is, and what it can do.
        self.device = self.check(driver.cuDeviceGet(index), f"cuDeviceGet({index})")
        self.attributes = self._device_attributes()
        self.version = int(self.check(driver.cuDriverGetVersion(), "cuDriverGetVersion"))
        self.total_bytes = int(self.check(driver.cuDeviceTotalMem(self.device), "cuDeviceTotalMem"))
        name_size = 128  # bytes, with the final 0
        name = self.check(driver.cuDeviceGetName(name_size, self.device), "cuDeviceGetName")
        self.model = bytes(name).split(b"\0")[0].decode(errors="replace")
        self.capability = self.attributes["major"], self.attributes["minor"]
        if not self.attributes["pools"]:  # StreamOrderedPool allocates from a memory pool of the driver
            raise DeviceUnavailableError(
                f"{self.name} ({self.model}) has no memory pools, which pydispatch needs; its driver lacks them"
            )
        # The device's primary context, which other libraries of the process share, and all work in it.
        retained = driver.cuDevicePrimaryCtxRetain(self.device)
        self.handle = self.check(retained, f"{self.name} ({self.model}): its context")
        self.current = Current(driver, self.handle, self.raise_failure)
        self.unload_module = driver.cuModuleUnload
        self.modules: weakref.WeakSet[Any] = weakref.WeakSet()  # `modules.Modules` of all loaded programs
        self.garbage: deque[tuple[Any, Any]] = deque()  # (function that destroys it, handle) of unused objects
        # (event, borrowed blocks that work before the event uses): released once the event is complete. Borrowed blocks
        # are over memory of other libraries, such as a tensor of PyTorch that a call uses: see release_unused().
        self._borrowed_until: deque[tuple[Any, list[Block]]] = deque()
        self._events: list[Any] = []  # events that may be recorded again
        try:
            with self.current:
                # Flag 0: the stream and the default stream of the process wait for each other.
                self.stream = self.check(driver.cuStreamCreate(0), "cuStreamCreate")
                self.pool = StreamOrderedPool(self)
        except BaseException:
            driver.cuDevicePrimaryCtxRelease(self.device)
            raise
        self.stream_number = int(self.stream)  # the CUstream as host commands receive it

    def _require_existing(self) -> None:
        """Raise DeviceUnavailableError if the machine has no device of this index."""
        count = cuda.device_count()
        if self.index >= count:
            devices = ", ".join(f"cuda:{i}" for i in range(count)) or "no device that CUDA can use"
            raise DeviceUnavailableError(f"there is no device '{self.name}'; this machine has: {devices}")

    def _device_attributes(self) -> dict[str, int]:
        """Return the device attributes that are needed, by the keys of `_ATTRIBUTES`; 0 for unknown ones."""
        values = dict.fromkeys(_ATTRIBUTES, 0)
        for key, name in _ATTRIBUTES.items():
            attribute = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}", None)
            if attribute is None:  # newer than this version of cuda-bindings
                continue
            result = self.driver.cuDeviceGetAttribute(attribute, self.device)  # (status, value)
            if not result[0]:
                values[key] = int(result[1])
        return values

    def retry(self, work: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        """Repeat a driver call that failed because another context, or none, was current in this thread.

        Device 0 stays current afterwards if there was no context, as with the CUDA runtime.
        """
        status, previous = self.driver.cuCtxGetCurrent()
        has_no_context = not status and int(previous) == 0
        if self.index == 0 and has_no_context:
            self.driver.cuCtxPushCurrent(self.handle)
            return work()
        with self.current:
            return work()

    # Results of the driver

    def check(self, result: tuple[Any, ...], action: str) -> Any:
        """Return the value of a driver call, or a tuple of several; raise the error of its status.

        result: tuple that the driver returned: status, then values. action: what the call does, for the message.
        """
        if result[0]:
            self.raise_failure(result[0], action)
        return result[1] if len(result) == 2 else result[1:]

    def raise_failure(self, status: Any, action: str) -> None:
        """Raise the error of a driver status.

        After a hardware error, such as an illegal address, the device is lost: the driver repeats the error in each
        call. The first time this raises KernelError, which names the dispatches since the last synchronization, or
        DeviceLostError if there are none. Later it raises DeviceLostError with the first reason.

        action: what failed, for the message.
        """
        error = cuda.failure(self.driver, status, f"{self.name}: {action}")
        if not isinstance(error, cuda.DeviceLostError):
            raise error
        if self.loss_reason:
            self.require_usable()  # raises the first error, since the driver repeats it in each call
        # The first hardware error: the device is lost.
        reason = f"{cuda.describe(self.driver, status)}; {cuda.STICKY[int(status)]}"
        self.loss_reason, self.is_shut = reason, True
        # `recent_launches` has (function, names of its steps) of each launch. Keep one of equal names, in order.
        recent = list(self.recent_launches)
        dispatches = list(dict.fromkeys(name for _, names in recent for name in names))
        if not dispatches:
            self.require_usable()  # raises DeviceLostError: there is no dispatch to name
        # Name what may have caused it: the recent dispatches, and other libraries that share the device.
        functions = ", ".join(dict.fromkeys(f"@{function}" for function, _ in recent if function))
        executable = export = None  # set if only one dispatch can have failed
        hint = ""
        if len(dispatches) == 1:
            label, executable, export = dispatches[0]
            culprit = f"dispatch {label}"
        else:
            culprit = f"one of the dispatches {', '.join(name.label for name in dispatches)}"
            hint = f"; pydispatch.device('{self.name}?check=1') says which"
        others = [name for name in ("torch", "cupy", "jax", "numba") if name in sys.modules]
        if others:
            hint += f"; or a kernel of {', '.join(others)}, which shares the device with it"
        if functions:
            culprit += f" of {functions}"
        raise KernelError(
            f"{self.name}: {culprit}: {reason}{hint}\n{self.name} is lost "
            "for this process, with its buffers; other devices go on, and a new process can use it\n"
            "pydispatch.device('ptx-interpreter') runs the same program without a GPU and names the line and thread",
            executable, export, workgroup=None, code=int(status),
        )  # fmt: skip

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device is closed or lost."""
        if self.loss_reason:
            raise cuda.DeviceLostError(
                f"{self.name} is lost for this process: {self.loss_reason}; start a new process to use it again"
            )
        if self.is_shut:
            raise DeviceUnavailableError(f"{self.name} was closed; open it again with pydispatch.device()")

    def synchronize(self) -> None:
        """Wait until all enqueued work is complete. Ctrl-C interrupts the wait, even if a kernel never ends.

        If another library has made another context current in this thread, the driver rejects the first query; `retry`
        repeats it in the context of this device.
        """
        if self.loss_reason:
            self.require_usable()
        with traced.span(Kind.WAIT):
            result = self._wait()
        if result[0] and cuda.is_of_other_context(result[0]):
            result = self.retry(self._wait)
        if result[0]:
            self.raise_failure(result[0], "waiting for the stream")
        self.recent_launches.clear()

    def _wait(self) -> tuple[Any, ...]:
        """Poll the stream until it is idle or failed, and return the driver's last result, the tuple (status,).

        Poll continuously for `_EAGER_SECONDS`, then every `_POLL_SECONDS`. Python can handle Ctrl-C between two polls.
        """
        query, stream = self.driver.cuStreamQuery, self.stream
        result: tuple[Any, ...] = query(stream)
        start = time.perf_counter() if result[0] else 0.0
        while result[0] and int(result[0]) == cuda.NOT_READY:
            if time.perf_counter() - start > _EAGER_SECONDS:
                time.sleep(_POLL_SECONDS)
            result = query(stream)
        return result

    def allocate(self, size: int) -> Block:
        return self.pool.acquire(size)

    def release(self, block: Block) -> None:
        """Release a block to the pool; the last one of a closed device destroys the device."""
        self.pool.release(block)
        if self._is_closed:
            self.pool.unused_borrowed.clear()  # no work is in flight
            self.destroy_if_unused()

    # Moving bytes

    def upload(self, block: Block, source: HostMemory, size: int) -> None:
        """Copy bytes of the host into a block; the source may change when the call returns.

        The driver reads pageable memory before it returns, but pinned memory later. The bytes of pinned memory are
        therefore copied to pageable memory first.
        """
        self.require_usable()
        address, source_memory = _address(source, size)
        with self.current:
            if self._is_pinned(address):
                source_memory = bytes(view_of(address, size))
                address = np.frombuffer(source_memory, np.uint8).__array_interface__["data"][0]
            result = self.driver.cuMemcpyHtoDAsync(block.address, address, size, self.stream)
        self.check(result, f"copying {size} bytes to the device")
        del source_memory  # it kept the bytes at `address` alive up to here

    def copy_out(self, block: Block, target: HostMemory, size: int, at: int = 0) -> None:
        """Wait for the work on a block, then copy from the block to host memory. Also works after `close`."""
        if size == 0:
            return
        if self.loss_reason:
            self.require_usable()
        self.transfers.add("from_device", size)
        address, _ = _address(target, size)
        self.synchronize()
        with self.current:
            try:
                started = self.driver.cuMemcpyDtoHAsync(address, block.address + at, size, self.stream)
            finally:  # also when a signal's handler raises: the copy writes memory of the caller
                ended = self.driver.cuStreamSynchronize(self.stream)
            self.check(started, f"copying {size} bytes from the device")
            self.check(ended, f"copying {size} bytes from the device")

    def copy(self, source: Block, target: Block, size: int, at: int = 0, to: int = 0) -> None:
        """Enqueue a copy of `size` bytes from byte `at` of one block to byte `to` of another."""
        if size == 0:
            return
        self.require_usable()
        with self.current:
            result = self.driver.cuMemcpyDtoDAsync(target.address + to, source.address + at, size, self.stream)
        self.check(result, f"copying {size} bytes on the device")

    def _is_pinned(self, address: int) -> bool:
        """Return whether the driver has pinned (page-locked) the host memory at an address."""
        kind = self.driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        status, memory_type = self.driver.cuPointerGetAttribute(kind, address)
        return not status and int(memory_type) != 0  # 0: memory that the driver does not know

    def view(self, block: Block, size: int) -> memoryview | None:
        """Return None: the processor cannot access device memory in place."""
        return None

    def stats(self) -> dict[str, int]:
        return self.pool.stats()

    def trim(self) -> None:
        """Return unused memory to the driver."""
        self.require_usable()
        self.release_unused()
        self.pool.trim()

    # Other streams

    def event(self) -> Any:
        """Return an event without timing, from `_events` if it has one; append it there to release it."""
        if self._events:
            return self._events.pop()
        return self.check(self.driver.cuEventCreate(_DISABLE_TIMING), "cuEventCreate")

    def follow(self, stream: Any) -> None:
        """Make later work on this device's stream wait, on the device, for the current work of another stream."""
        self._order(stream, self.stream)

    def order_before(self, stream: Any) -> None:
        """Make later work on `stream` wait, on the device, for the work that this device's stream has now."""
        self._order(self.stream, stream)

    def _order(self, earlier: Any, later: Any) -> None:
        """Make later work on stream `later` wait, on the device, for the present work on stream `earlier`."""
        self.require_usable()
        driver = self.driver
        with self.lock, self.current:
            event = self.event()
            self.check(driver.cuEventRecord(event, earlier), "cuEventRecord")
            self.check(driver.cuStreamWaitEvent(later, event, 0), "cuStreamWaitEvent")  # 0: no flags
            self._events.append(event)  # may be recorded again: the wait refers to the record before

    def release_unused(self) -> None:
        """Destroy unused objects of the driver, and release borrowed memory that no work in flight uses any more.

        A borrowed block is over memory of another library, such as a tensor of PyTorch that was passed to a call, and
        keeps that tensor alive. No buffer refers to the blocks in `pool.unused_borrowed` any more, but enqueued work
        may still use them. An event is therefore recorded on the stream after that work. The first call of this method
        after the event is complete drops the blocks.
        """
        unused_borrowed = self.pool.unused_borrowed
        if not (unused_borrowed or self._borrowed_until or self.garbage):
            return
        driver = self.driver
        with self.lock, self.current:
            self._destroy_garbage()
            if unused_borrowed:  # mark the end of the work that may use them
                event, blocks = self.event(), []
                while unused_borrowed:
                    blocks.append(unused_borrowed.popleft())
                self.check(driver.cuEventRecord(event, self.stream), "cuEventRecord")
                self._borrowed_until.append((event, blocks))
            # Drop the blocks of complete events.
            while self._borrowed_until:
                event, _blocks = self._borrowed_until[0]
                status = driver.cuEventQuery(event)[0]
                if status:  # the event, and so all later ones, are not complete
                    break
                self._borrowed_until.popleft()
                self._events.append(event)  # to be recorded again

    def _destroy_garbage(self) -> None:
        """Destroy unused driver objects. Before a module is unloaded, wait for the stream, which may run its code."""
        is_idle = False
        while self.garbage:
            destroy, handle = self.garbage.popleft()
            if not is_idle and destroy is self.unload_module:
                self.driver.cuStreamSynchronize(self.stream)
                is_idle = True
            destroy(handle)

    def close(self) -> None:
        """Wait for work in flight, and refuse further work.

        Programs lose their kernels and constants. Buffers keep their content; the device is released with the last
        buffer.
        """
        with self.lock:
            if self.is_shut:
                return
            self.synchronize()
            self.release_unused()
            self.is_shut = True
            for module in list(self.modules):
                module.destroy()
            self._borrowed_until.clear()  # no work is in flight: releases these blocks
            self.release_programs()
        self.destroy_if_unused()

    def _pools(self) -> tuple[StreamOrderedPool]:
        """Return the pools of device memory: while one has live blocks, a closed device is not destroyed."""
        return (self.pool,)

    def _destroy(self) -> None:
        """Destroy all driver objects; no block is in use."""
        driver = self.driver
        with self.current:
            self._destroy_garbage()
            for event in self._events:
                driver.cuEventDestroy(event)
            self._events.clear()
            self.pool.destroy()
            driver.cuStreamDestroy(self.stream)
        driver.cuDevicePrimaryCtxRelease(self.device)


def _address(source: HostMemory, size: int) -> tuple[int, Any]:
    """Return the address of `size` bytes of host memory, and the object that keeps them alive (None for an address)."""
    if type(source) is int:
        return source, None
    if isinstance(source, np.ndarray):
        return int(source.__array_interface__["data"][0]), source
    view = view_of(source, size)
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]), view
