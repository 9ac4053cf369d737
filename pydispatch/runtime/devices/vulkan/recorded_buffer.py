"""Recorded Vulkan command buffers, which may be submitted many times."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from pydispatch.errors import KernelError
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice, Submission
from pydispatch.runtime.devices.vulkan.memory import Block
from pydispatch.runtime.devices.vulkan.pipelines import VulkanKernel


class RecordedBuffer:
    """Command buffer with the resources that its commands refer to. It may be submitted again once it is complete.

    The submitting call keeps it alive until then. It owns the resources from the first command on, so that an exception
    while commands are recorded releases them.

    Attributes:
        buffer: VkCommandBuffer; None once it was released.
        sets: Descriptor sets: (descriptor pool, array of sets, length of the array).
        blocks: Memory that the recording owns.
        queries: VkQueryPool of the timestamps; None if commands are not timed.
        watches: (`uint32_t*` to a word that is not 0 after a loop ended early, kernel) of each dispatch that reports
            such loops.
        submission: Structures that submit the command buffer.
        epoch: `ChunkPool.epoch`, the number of destroyed chunks of memory, at the time of the recording. If it has
            grown since, the commands may refer to destroyed memory, and must not be submitted again.
    """

    __slots__ = ("__weakref__", "blocks", "buffer", "context", "epoch", "queries", "sets", "submission", "watches")

    def __init__(self, context: LogicalDevice, buffer: Any) -> None:
        """Own a command buffer; `context` calls `release` on the recording when the device is closed."""
        self.sets: list[tuple[Any, Any, int]] = []  # (descriptor pool, array of sets, length of the array)
        self.blocks: list[Block] = []  # memory that the recording owns
        self.queries: Any = None  # VkQueryPool of the timestamps
        self.watches: list[tuple[Any, VulkanKernel]] = []  # (word that reports loops that ended early, kernel)
        self.context, self.buffer = context, buffer
        self.submission: Submission = context.new_submission(buffer)
        self.epoch = context.pool.epoch
        context.recordings.add(self)

    def raise_if_ended_early(self) -> None:
        """Raise KernelError if, in the completed run, the device ended a loop early."""
        incomplete = [kernel for word, kernel in self.watches if word[0]]
        for word, _ in self.watches:
            word[0] = 0  # for the next run
        if incomplete:
            kernel = incomplete[0]
            raise KernelError(
                f"{kernel.label}: vulkan:{self.context.index} ({self.context.model}) ends all loops of a shader "
                "when an invocation has run 65,535 iterations, and this kernel has longer ones: its results are "
                "not complete; give more invocations less each, use static sizes, or another device",
                kernel.executable, kernel.export,
            )  # fmt: skip

    def release(self) -> None:
        """Release the resources of a recording that is not running.

        The garbage collector may call this under any lock, so the command buffer is only queued and freed with the next
        recording.
        """
        buffer, self.buffer = self.buffer, None
        if buffer is not None:
            self.context.garbage.append(partial(_free, self.context, buffer, self.sets, self.queries))
            for block in self.blocks:
                self.context.release(block)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Release the resources of the recording.

        is_finalizing: a default argument, which remains valid when the interpreter ends and `sys` is empty.
        """
        # When the interpreter ends, its modules are emptied, so release() could not use them; the end of the
        # process frees the device.
        if not is_finalizing() and hasattr(self, "buffer"):  # a signal handler's exception can leave __init__ anywhere
            self.release()


def _free(context: LogicalDevice, buffer: Any, sets: list[tuple[Any, Any, int]], queries: Any) -> None:
    """Free a command buffer, its descriptor sets and its query pool.

    sets: (descriptor pool, array of sets, length of the array). queries: VkQueryPool, or None.
    """
    ffi, calls, handle = context.ffi, context.calls, context.handle
    calls.vkFreeCommandBuffers(handle, context.command_pool, 1, ffi.new("VkCommandBuffer[]", [buffer]))
    for pool, array, count in sets:
        calls.vkFreeDescriptorSets(handle, pool, count, array)
    if queries is not None:
        calls.vkDestroyQueryPool(handle, queries, ffi.NULL)


def free_garbage(context: LogicalDevice) -> None:
    """Free the resources of destroyed recordings and programs. The caller holds the context's lock."""
    while context.garbage:
        context.garbage.popleft()()
