"""Interface of an open Vulkan device for code that creates objects on it, and submissions to its queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.features import Features
from pydispatch.runtime.devices.vulkan.memory import ChunkPool

OBJECT_BUFFER, OBJECT_SHADER_MODULE, OBJECT_PIPELINE = 9, 15, 19  # VkObjectType


class LogicalDevice(Protocol):
    """Interface of a logical device (`context.Context`) that other parts of the Vulkan device use.

    Attributes:
        ffi: The cffi interface.
        calls: Functions of the device by name.
        handle: VkDevice.
        features: Features and limits of the device.
        index: Index of the device, as in "vulkan:0".
        model: The driver's name of the GPU, for messages.
        cache: `cache.PipelineCache` of the device, stored in a file between processes.
        command_pool: VkCommandPool of all command buffers.
        descriptors: `descriptors.Descriptors`, which allocates descriptor sets.
        garbage: Functions that free objects of dead recordings and programs. The garbage collector of Python appends
            to it at any time; `recorded_buffer.free_garbage` calls them.
        recordings: Weak set of all live recordings, which add themselves.
        alignment: Alignment in bytes that offsets of bindings need.
        max_range: Largest size of a binding in bytes.
        ends_loops: Whether the driver (llvmpipe) silently ends the loops of a shader after 65,535 iterations.
        pool: Device memory.
        staging: Memory that the host can access: `pool` if device memory is mapped.
        semaphores: Array of one VkSemaphore, the timeline of submissions.
    """

    ffi: Any
    calls: Any
    handle: Any
    features: Features
    index: int
    model: str
    cache: Any
    command_pool: Any
    descriptors: Any
    garbage: deque[Callable[[], None]]
    recordings: Any
    alignment: int
    max_range: int
    ends_loops: bool
    pool: ChunkPool
    staging: Any
    semaphores: Any

    def set_name(self, kind: int, handle: Any, text: str) -> None:
        """Set the debug name of a Vulkan handle. kind: its VkObjectType."""

    def release(self, block: Any) -> None:
        """Return a block to the pool of memory."""

    def new_submission(self, command_buffer: Any) -> Submission:
        """Return the structures that submit a VkCommandBuffer, once or more often."""


class Submission:
    """VkSubmitInfo and VkSemaphoreWaitInfo of a command buffer, which are filled once and used for each submission.

    Attributes:
        value: Value of the timeline semaphore when the submission is complete. It is written before each submission, so
            at most one is in flight.
        addresses: Addresses of the two structures.
    """

    __slots__ = ("_arena", "addresses", "value")

    def __init__(self, context: LogicalDevice, command_buffer: Any) -> None:
        """Fill the structures for a VkCommandBuffer. `Context.run` submits them, and waits for `value`."""
        arena = api.Arena()
        self.value = arena.array("uint64_t", [0])
        timeline = arena.new(
            "VkTimelineSemaphoreSubmitInfo", signalSemaphoreValueCount=1, pSignalSemaphoreValues=self.value
        )
        command_buffers = arena.array("VkCommandBuffer", [command_buffer])
        info = arena.new(
            "VkSubmitInfo", pNext=timeline, commandBufferCount=1, pCommandBuffers=command_buffers,
            signalSemaphoreCount=1, pSignalSemaphores=context.semaphores,
        )  # fmt: skip
        wait_info = arena.new(
            "VkSemaphoreWaitInfo", semaphoreCount=1, pSemaphores=context.semaphores, pValues=self.value
        )
        self.addresses = int(context.ffi.cast("uintptr_t", info)), int(context.ffi.cast("uintptr_t", wait_info))
        self._arena = arena  # keeps the structures alive
