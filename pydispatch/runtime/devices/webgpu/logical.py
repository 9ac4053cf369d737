"""An open device, as those who record and make pipelines see it: pydispatch.runtime.devices.webgpu.context.Context."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from pydispatch.formats.wgsl.interface import WgslFeatures
from pydispatch.runtime.devices.webgpu.adapters import Adapter
from pydispatch.runtime.devices.webgpu.api import Errors
from pydispatch.runtime.devices.webgpu.memory import Block, BufferPool


class LogicalDevice(Protocol):
    """A WGPUDevice. Everything of wgpu is called under `lock`.

    enabled: features of the device. names: what variants may require. garbage: (release function, object) of what
    nobody uses, which the collector may add to while the lock is held. pipelines, moves: those of these files.
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
    names: WgslFeatures
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

    def submit(self, encoder: Any, what: str) -> None:
        """Put what was recorded on the queue. what: for messages."""

    def abandon(self, encoder: Any) -> None:
        """Drop what was recorded."""

    def wait(self) -> None:
        """Wait until all submitted work is complete."""

    def write(self, block: Block, source: Any, size: int) -> None:
        """Copy `size` bytes from a `char*` to the start of a block."""

    def read_mapped(self, block: Block, target: Any, size: int) -> None:
        """Copy the first `size` bytes of a `readback` block to host memory."""

    def release(self, block: Block) -> None:
        """Take a block back."""
