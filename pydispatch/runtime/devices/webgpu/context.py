"""Open WebGPU device: its queue, its memory, and copies between device and host memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Any

from pydispatch._core.device import poison_requested
from pydispatch._core.driver import copy_mapped
from pydispatch._core.trace import Kind
from pydispatch.errors import DeviceUnavailableError
from pydispatch.formats.wgsl.interface import FEATURES, GUARANTEED_LIMITS, WgslFeatures
from pydispatch.runtime.accelerators import context as base
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.closing import Closing
from pydispatch.runtime.devices.webgpu import api
from pydispatch.runtime.devices.webgpu.adapters import OPTIONAL_FEATURES, Adapter, instance_of, limits_of
from pydispatch.runtime.devices.webgpu.memory import GRANULE, USAGE, Block, BufferPool
from pydispatch.runtime.devices.webgpu.moves import Moves
from pydispatch.runtime.devices.webgpu.pipelines import Pipelines
from pydispatch.runtime.devices.webgpu.record import PassRecorder

_MAX_IN_FLIGHT = 64
"""Submissions in flight after which the host waits for the older half: more hold memory of the driver, fewer stall."""


class Context(Closing, base.Context):
    """Open WebGPU device (WGPUDevice): its queue, memory and copies. All calls of wgpu hold `lock`.

    To submit work, a caller gets an `encoder`, adds commands to it, and passes it to `submit`, or to `abandon` after an
    error. Work is enqueued, but not complete, when `submit` returns; `wait` waits for all of it. `close` ends the use.
    `logical.LogicalDevice` describes the attributes that are not listed here.

    Attributes:
        closed: Whether the user has closed the device.
        is_mapped: Whether the host can map the blocks of `pool`; if not, uploads and downloads use staging buffers.
    """

    def __init__(self, name: str, adapter: Adapter, backend: str, staging: bool, standard: bool) -> None:
        """Open the device of an adapter; raise DeviceUnavailableError if the adapter gives none.

        Args:
            name: Name of the device in messages.
            adapter: The adapter.
            backend: Back end that the user asked for, such as "vulkan"; "" for the default, any but OpenGL. It selects
                the wgpu instance that owns the adapter.
            staging: Whether buffers are never mapped: uploads go through the queue, and downloads through staging
                buffers, which the host can map.
            standard: Whether the device has only the limits that the WebGPU standard guarantees, and no features.
        """
        # State that opening the device needs, then the device and its queue.
        super().__init__()
        self.name, self.adapter = name, adapter
        self.ffi, self.lib = api.binding()
        self.lock = threading.RLock()
        self.errors = api.Errors(name)
        self.closed = False
        self.transfers = base.Transfers()
        self.is_poisoned = poison_requested()  # PYDISPATCH_CHECK=poison: new blocks are filled with NaN
        self.enabled: set[str] = set() if standard else adapter.features  # features that `_open` requests
        self.device = self.errors.device = self._open(backend, standard)
        lib, ffi = self.lib, self.ffi
        self.queue = lib.wgpuDeviceGetQueue(self.device)
        # What shaders may use, and how buffers are bound.
        limits = ffi.new("WGPULimits*")
        lib.wgpuDeviceGetLimits(self.device, limits)
        self.limits = GUARANTEED_LIMITS if standard else limits_of(limits)
        self.features = WgslFeatures(() if standard else adapter.features & FEATURES.keys(), self.limits)
        # Alignments of the offsets of bindings: at least 4, because shaders access whole words, and at least 16 for
        # uniform buffers, which hold vectors of 16 bytes.
        self.alignment = max(4, self.limits["minStorageBufferOffsetAlignment"])
        self.uniform_alignment = max(16, self.limits["minUniformBufferOffsetAlignment"])
        # Mappable storage buffers are fast only where CPU and GPU share memory.
        can_be_mapped = "mappable-primary-buffers" in self.enabled
        shares_memory = adapter.kind != "discrete GPU"
        self.is_mapped = can_be_mapped and shares_memory and not staging
        # Pools of device memory, and of staging buffers for downloads.
        total_bytes = _memory_bytes(adapter)
        limit = self.limits["maxBufferSize"] // GRANULE * GRANULE  # sizes of blocks are multiples of GRANULE
        usage = USAGE | (api.MAP_READ | api.MAP_WRITE if self.is_mapped else 0)
        readback_usage = api.MAP_READ | api.COPY_TARGET
        self.pool = BufferPool(self.errors, self.lock, usage, name, limit=limit, total=total_bytes)
        self.readback = BufferPool(
            self.errors, self.lock, readback_usage, f"{name} staging", limit=limit, total=total_bytes
        )
        # Objects of wgpu that recordings share, and the state of the queue.
        self.garbage: deque[tuple[Any, Any]] = deque()  # (release function, handle) of unused objects
        self.pipelines = Pipelines(self)
        self.moves = Moves(self)  # shaders for copies and fills that WebGPU commands cannot express
        # Addresses of the functions that `copy_mapped` calls: to write to a mapped buffer, and to read from one.
        map_buffer, poll, unmap = map(_address, ("wgpuBufferMapAsync", "wgpuDevicePoll", "wgpuBufferUnmap"))
        self._write_functions = map_buffer, poll, _address("wgpuBufferGetMappedRange"), unmap
        self._read_functions = map_buffer, poll, _address("wgpuBufferGetConstMappedRange"), unmap
        self._submissions: deque[int] = deque()  # indices of submissions that may be running
        self._has_writes = False  # whether wgpuQueueWriteBuffer was called since the last submission
        self._commands = ffi.new("WGPUCommandBuffer[1]")  # argument of each submission
        self._submission_index = ffi.new("WGPUSubmissionIndex*")  # argument of a wait

    def _open(self, backend: str, standard: bool) -> Any:
        """Request the WGPUDevice of the adapter, with the features in `enabled`, and return it.

        Raise DeviceUnavailableError if the adapter gives none.

        Args:
            backend: Back end that the user asked for, such as "vulkan"; "" for the default. Its wgpu instance owns the
                adapter.
            standard: Whether to request only the limits that the WebGPU standard guarantees, else all of the adapter.
        """
        ffi, lib, arena, adapter = self.ffi, self.lib, api.Arena(), self.adapter
        feature_codes = FEATURES | OPTIONAL_FEATURES
        features = arena.array("WGPUFeatureName", [feature_codes[name] for name in sorted(self.enabled)])
        descriptor = arena.new(
            "WGPUDeviceDescriptor", requiredFeatureCount=len(self.enabled), requiredFeatures=features,
            requiredLimits=_guaranteed_limits(adapter.supported_limits) if standard else adapter.supported_limits,
        )  # fmt: skip
        descriptor.deviceLostCallbackInfo = self.errors.on_lost
        descriptor.uncapturedErrorCallbackInfo = self.errors.on_error
        # The callback posts the device, or the reason why there is none, to the mailbox of `errors`. read_mailbox()
        # sets `opened` to (address of the device or 0, reason).
        info = arena.new("WGPURequestDeviceCallbackInfo", **self.errors.callback("WGPURequestDeviceCallback"))
        lib.wgpuAdapterRequestDevice(adapter.handle, descriptor, info[0])
        self.errors.read_mailbox()
        if self.errors.opened is None:  # the callback has not been called yet
            lib.wgpuInstanceProcessEvents(instance_of(backend))
            self.errors.read_mailbox()
        handle, message = self.errors.opened or (0, "no answer")
        if not handle:
            reason = api.without_frame(message)  # without lines such as "Caused by:"
            raise DeviceUnavailableError(f"{self.name}: {adapter.model} gives no device: {reason}")
        return ffi.cast("WGPUDevice", handle)

    # Submitting, under the lock

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device was closed or lost, or belongs to the parent process of a fork."""
        self.require_own_process()
        if self.errors.lost is not None:
            self.errors.raise_lost()
        if self.closed:
            raise DeviceUnavailableError(f"{self.name} was closed")

    def encoder(self) -> Any:
        """Return a new command encoder. It opens an error scope, which `submit` or `abandon` closes."""
        self.require_own_process()
        if self.errors.lost is not None:
            self.errors.raise_lost()
        if self.garbage:
            self._release_garbage()
        self.errors.begin()
        return self.lib.wgpuDeviceCreateCommandEncoder(self.device, self.ffi.NULL)

    def submit(self, encoder: Any, where: str) -> None:
        """Finish an encoder and submit its commands to the queue.

        The call closes the error scope that was opened with the encoder. For an invalid command it raises the error,
        and nothing is submitted. If more than `_MAX_IN_FLIGHT` submissions may be running, it waits for the older half.

        where: text that error messages begin with.
        """
        lib, commands = self.lib, self._commands
        commands[0] = lib.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)
        lib.wgpuCommandEncoderRelease(encoder)
        try:
            self.errors.end(where)  # before submitting: wgpu aborts the process if it is passed invalid commands
            with traced.span(Kind.SUBMIT):
                index = lib.wgpuQueueSubmitForIndex(self.queue, 1, commands)
        finally:
            lib.wgpuCommandBufferRelease(commands[0])
        self._submissions.append(index)
        self._has_writes = False
        if len(self._submissions) > _MAX_IN_FLIGHT:
            half = _MAX_IN_FLIGHT // 2
            self._submission_index[0] = self._submissions[half]
            lib.wgpuDevicePoll(self.device, api.WAIT, self._submission_index)
            for _ in range(half + 1):  # submissions 0 to `half` are complete
                self._submissions.popleft()

    def abandon(self, encoder: Any) -> None:
        """Discard an encoder and its commands, and close its error scope."""
        self.lib.wgpuCommandEncoderRelease(encoder)
        self.errors.take()

    def wait(self) -> None:
        """Wait until all submitted work is complete."""
        with self.lock, traced.span(Kind.WAIT):
            self.require_usable()
            self.lib.wgpuDevicePoll(self.device, api.WAIT, self.ffi.NULL)
            self._submissions.clear()
            self.require_usable()  # the wait also ends if the device is lost

    def _release_garbage(self) -> None:
        """Release the objects in `garbage`. The garbage collector appends to it, also while a thread holds the lock."""
        while self.garbage:
            release, handle = self.garbage.popleft()
            release(handle)

    # Memory

    def allocate(self, size: int) -> Block:
        """Return a block of at least `size` bytes. Raise DeviceUnavailableError in a forked child process."""
        if self.is_forked:
            self.require_own_process()
        return self.pool.acquire(size)

    def forget_locks(self) -> None:
        """Replace the lock of the device and its pools in a forked child: a thread of the parent may hold it."""
        super().forget_locks()
        for pool in self._pools():
            pool.lock = self.lock

    def view(self, block: Block, size: int) -> memoryview | None:
        """Return None: mapped memory cannot be used by the device, so there is no memory that both access."""
        return None

    def stats(self) -> dict[str, int]:
        """Return live_bytes, free_bytes, peak_bytes and live_blocks of the device memory."""
        return self.pool.stats()

    def trim(self) -> None:
        """Return free memory to the driver."""
        if self.is_forked:
            return
        for pool in (self.pool, self.readback):
            pool.trim()

    def upload(self, block: Block, source: base.HostMemory, size: int) -> None:
        """Copy `size` bytes of host memory to the start of a block, as `write` does."""
        with self.lock:
            self.write(block, self._bytes(source), size)

    def write(self, block: Block, source: Any, size: int) -> None:
        """Copy `size` bytes from a `char*` to the start of a block; the caller holds the lock.

        If the host can map the memory (`is_mapped`) and no submitted work may be running, the bytes are copied to the
        mapped block. Otherwise wgpu copies them at once, and writes them to the block in the order of the queue:
        between earlier and later submissions. It does so only for whole 4-byte words: of 10 bytes, it writes 8, and
        `_write_tail` the last 2.
        """
        is_idle = not self._submissions and not self._has_writes
        if self.is_mapped and is_idle:
            self._copy_mapped(
                block, source, size, is_read=False, map_offset=0, map_length=_rounded_to_words(size), copy_offset=0
            )
            return
        word_bytes = size & ~3  # bytes of whole words
        if word_bytes:
            self.errors.begin()
            self.lib.wgpuQueueWriteBuffer(self.queue, block.buffer, 0, source, word_bytes)
            self._has_writes = True
            self.errors.end(f"{self.name}: an upload of {size} bytes")
        if word_bytes < size:
            self._write_tail(block, self.ffi.buffer(source, size)[word_bytes:], word_bytes)

    def _bytes(self, source: base.HostMemory, writable: bool = False) -> Any:
        """Return host memory as a `char*` or a cffi buffer. writable: raise BufferError if the memory is read-only."""
        if type(source) is int:
            return self.ffi.cast("char*", source)
        return self.ffi.from_buffer(source, require_writable=writable)

    def _write_tail(self, block: Block, data: bytes, at: int) -> None:
        """Write the last one to three bytes of an upload at byte `at`, through a staging block.

        wgpuQueueWriteBuffer takes whole words only, and the other bytes of the word must not change.
        """
        stage = self.pool.acquire(4)
        try:
            self.lib.wgpuQueueWriteBuffer(self.queue, stage.buffer, 0, data.ljust(4, b"\0"), 4)
            self.copy(stage, block, len(data), at=0, to=at)
        finally:
            self.release(stage)

    def copy_out(self, block: Block, target: base.HostMemory, size: int, at: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to host memory.

        The mapped range starts at a multiple of 8 bytes, as WebGPU requires. A block that cannot be mapped is copied to
        a staging block first.
        """
        if size == 0:
            return
        self.transfers.add("from_device", size)
        target = self._bytes(target, writable=True)
        start = at & ~7  # of the mapped range: `at` rounded down to a multiple of 8
        length, copy_offset = _rounded_to_words(at + size - start), at - start
        with self.lock:
            if self.is_mapped:
                self._copy_mapped(
                    block, target, size, is_read=True, map_offset=start, map_length=length, copy_offset=copy_offset
                )
                return
            stage = self.readback.acquire(length)
            try:
                encoder = self.encoder()
                self.lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, block.buffer, start, stage.buffer, 0, length)
                self.submit(encoder, f"{self.name}: a download of {size} bytes")
                self._copy_mapped(
                    stage, target, size, is_read=True, map_offset=0, map_length=length, copy_offset=copy_offset
                )
            finally:
                self.release(stage)

    def read_mapped(self, block: Block, target: Any, size: int) -> None:
        """Copy the first `size` bytes of a `readback` block to host memory; the caller holds the lock."""
        target = self._bytes(target, writable=True)
        self._copy_mapped(block, target, size, is_read=True, map_offset=0, map_length=size, copy_offset=0)

    def _copy_mapped(
        self, block: Block, host: Any, size: int, *, is_read: bool, map_offset: int, map_length: int, copy_offset: int
    ) -> None:
        """Wait for all submitted work, map a block, copy `size` bytes between it and host memory, and unmap it.

        The C function `copy_mapped` does this in one call, so that no Python exception is raised while the block is
        mapped: wgpu aborts the process if a mapped buffer is used.

        Args:
            block: The block, which must be mappable.
            host: The host memory.
            size: Number of bytes to copy.
            is_read: Whether to copy from the block to host memory, else from host memory to the block.
            map_offset: First byte of the mapped range, a multiple of 8.
            map_length: Length of the mapped range in bytes, a multiple of 4.
            copy_offset: First byte to copy, counted from `map_offset`.
        """
        self.require_own_process()
        if self.errors.lost is not None:
            self.errors.raise_lost()
        if self._has_writes:  # uploads wait for the next submission: submit no command buffers, only the uploads
            self.lib.wgpuQueueSubmit(self.queue, 0, self.ffi.NULL)
            self._has_writes = False
        self.errors.begin()
        functions = self._read_functions if is_read else self._write_functions
        mailbox = self.errors.box  # receives the driver's message if mapping fails: `errors.mapping`
        status = copy_mapped(
            functions, _handle_bits(self.device), _handle_bits(block.buffer), is_read, map_offset, map_length,
            copy_offset, _handle_bits(host), size, mailbox,
        )  # fmt: skip
        self._submissions.clear()  # all are complete
        self.errors.end(f"{self.name}: mapping {size} bytes")  # raises an error that the device reported since `begin`
        if status != api.MAP_SUCCEEDED:
            raise DeviceUnavailableError(f"{self.name}: {size} bytes cannot be mapped: {self.errors.mapping}")

    def copy(self, source: Block, target: Block, size: int, at: int = 0, to: int = 0) -> None:
        """Enqueue a copy of `size` bytes from byte `at` of a block to byte `to` of a block, which may be the same."""
        if size == 0:
            return
        with self.lock:
            recorder = PassRecorder(self)
            recorder.copy(source, at, target, to, size)
            recorder.finish().run(f"{self.name}: a copy of {size} bytes")

    def close(self) -> None:
        """Wait for work in flight and refuse further work.

        Programs lose their kernels, recordings and constants. Buffers keep their content; the device is destroyed after
        the last one.
        """
        with self.lock:
            was_closed, self.closed = self.closed, True
            if was_closed or self.is_forked:  # in the child of a fork the device belongs to the parent process
                return
            if self.errors.lost is None:
                self.lib.wgpuDevicePoll(self.device, api.WAIT, self.ffi.NULL)
            self.release_programs()
            self._release_garbage()
            self.trim()
        self.destroy_if_unused()

    def _pools(self) -> tuple[BufferPool, ...]:
        """Return the pools of device memory and of buffers for read-backs."""
        return self.pool, self.readback

    def _destroy(self) -> None:
        """Release all objects of wgpu; no block is in use."""
        self.pipelines.release()
        self._release_garbage()
        for pool in self._pools():
            pool.close()
        self.lib.wgpuQueueRelease(self.queue)
        self.lib.wgpuDeviceDestroy(self.device)
        self.lib.wgpuDeviceRelease(self.device)


def _memory_bytes(adapter: Adapter) -> int:
    """Return how many bytes all buffers of an adapter may have together.

    A device that uses the host's memory has the size of that memory, because its driver promises more than there is.
    Others have no limit: WebGPU does not state the memory of a GPU, and the driver reports when there is none left.
    """
    if adapter.kind in ("CPU", "integrated GPU") and hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 1 << 40  # 1 TiB, more than any GPU has


def _handle_bits(pointer: Any) -> int:
    """Return a cffi pointer, such as a handle of wgpu, as an integer."""
    return int(api.binding()[0].cast("uintptr_t", pointer))


def _address(function: str) -> int:
    """Return the address of a C function of wgpu."""
    ffi, lib = api.binding()
    return _handle_bits(ffi.addressof(lib, function))


def _rounded_to_words(size: int) -> int:
    """Return a number of bytes rounded up to whole 4-byte words."""
    return size + 3 & ~3


def _guaranteed_limits(supported: Any) -> Any:
    """Return a copy of an adapter's WGPULimits, `supported`, with the standard limits lowered to those of every device.

    The option `standard=1` requests these: a program that runs with them runs on every WebGPU device.
    """
    ffi, _ = api.binding()
    limits = ffi.new("WGPULimits*", supported[0])
    for name, guaranteed in GUARANTEED_LIMITS.items():
        setattr(limits, name, guaranteed)
    return limits
