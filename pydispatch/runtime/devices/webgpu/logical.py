"""Interface of an open WebGPU device for code that records commands and creates pipelines; `context.Context` has it."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from pydispatch.formats.wgsl.interface import WgslFeatures
from pydispatch.runtime.devices.webgpu.adapters import Adapter
from pydispatch.runtime.devices.webgpu.api import Errors
from pydispatch.runtime.devices.webgpu.memory import Block, BufferPool


class LogicalDevice(Protocol):
    """Interface of an open WebGPU device (`context.Context`). All functions of wgpu are called under `lock`.

    Attributes:
        name: Name of the device, as in "webgpu:0".
        ffi, lib: cffi's binding of wgpu.
        lock: Reentrant lock of the device.
        device, queue: WGPUDevice and its WGPUQueue.
        adapter: Adapter that the device was opened on.
        errors: Collector of the device's errors.
        enabled: Names of the WebGPU features that the device was opened with.
        features: Features and limits that variants may require.
        limits: Name of a limit in the WebGPU standard → its value.
        pool: Device memory.
        readback: Staging buffers that the host can map, for downloads.
        alignment: Alignment of the offsets of storage buffer bindings, in bytes.
        uniform_alignment: Alignment of the offsets of uniform buffer bindings, in bytes.
        garbage: (release function, object) of unused objects; the garbage collector appends to it at any time.
        recordings: The recorded plans that are alive.
        pipelines: `pipelines.Pipelines` of the device.
        moves: `moves.Moves` of the device: pipelines of copies and fills that WebGPU commands cannot express.
    """

    name: str
    ffi: Any
    lib: Any
    lock: Any
    device: Any
    queue: Any
    adapter: Adapter
    errors: Errors
    enabled: set[str]
    features: WgslFeatures
    limits: dict[str, int]
    alignment: int
    uniform_alignment: int
    pool: BufferPool
    readback: BufferPool
    garbage: deque[tuple[Any, Any]]
    recordings: Any
    pipelines: Any
    moves: Any

    def encoder(self) -> Any:
        """Return a new command encoder, in an error scope that `submit` or `abandon` ends."""

    def submit(self, encoder: Any, where: str) -> None:
        """Finish an encoder and submit its commands to the queue. where: text that error messages begin with."""

    def abandon(self, encoder: Any) -> None:
        """Discard an encoder and its commands."""

    def wait(self) -> None:
        """Wait until all submitted work is complete."""

    def write(self, block: Block, source: Any, size: int) -> None:
        """Copy `size` bytes from a `char*` to the start of a block."""

    def read_mapped(self, block: Block, target: Any, size: int) -> None:
        """Copy the first `size` bytes of a `readback` block to host memory."""

    def release(self, block: Block) -> None:
        """Release a block to its pool."""
