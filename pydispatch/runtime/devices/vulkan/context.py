"""Open Vulkan device: its queue, the timeline semaphore that counts submissions, memory and pipeline cache."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pydispatch._core.device import memory_at, poison_requested
from pydispatch._core.driver import submit_and_wait
from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.accelerators import context as base
from pydispatch.runtime.accelerators.closing import Closing
from pydispatch.runtime.devices.vulkan import api, cache
from pydispatch.runtime.devices.vulkan.descriptors import Descriptors
from pydispatch.runtime.devices.vulkan.features import ATOMIC_FLOAT, Features
from pydispatch.runtime.devices.vulkan.instance import KINDS, Instance
from pydispatch.runtime.devices.vulkan.logical import OBJECT_BUFFER, Submission
from pydispatch.runtime.devices.vulkan.memory import Block, ChunkPool, heap_bytes_of, memory_types
from pydispatch.runtime.devices.vulkan.record import CommandBufferRecorder
from pydispatch.runtime.devices.vulkan.recorded_buffer import RecordedBuffer, free_garbage

CALLS = tuple(
    [
        "vkGetDeviceQueue",
        "vkQueueSubmit",
        "vkDeviceWaitIdle",
        "vkWaitSemaphores",
        "vkCreateSemaphore",
        "vkDestroySemaphore",
        "vkDestroyDevice",
        "vkCreateBuffer",
        "vkDestroyBuffer",
        "vkGetBufferMemoryRequirements",
        "vkAllocateMemory",
        "vkFreeMemory",
        "vkBindBufferMemory",
        "vkMapMemory",
        "vkCreateShaderModule",
        "vkDestroyShaderModule",
        "vkCreateDescriptorSetLayout",
        "vkDestroyDescriptorSetLayout",
        "vkCreatePipelineLayout",
        "vkDestroyPipelineLayout",
        "vkCreateComputePipelines",
        "vkDestroyPipeline",
        "vkCreatePipelineCache",
        "vkDestroyPipelineCache",
        "vkGetPipelineCacheData",
        "vkCreateDescriptorPool",
        "vkDestroyDescriptorPool",
        "vkAllocateDescriptorSets",
        "vkFreeDescriptorSets",
        "vkUpdateDescriptorSets",
        "vkCreateCommandPool",
        "vkDestroyCommandPool",
        "vkAllocateCommandBuffers",
        "vkFreeCommandBuffers",
        "vkBeginCommandBuffer",
        "vkEndCommandBuffer",
        "vkResetCommandBuffer",
        "vkCmdBindPipeline",
        "vkCmdBindDescriptorSets",
        "vkCmdPushConstants",
        "vkCmdDispatch",
        "vkCmdPipelineBarrier",
        "vkCmdCopyBuffer",
        "vkCmdFillBuffer",
        "vkCmdWriteTimestamp",
        "vkCmdResetQueryPool",
        "vkCreateQueryPool",
        "vkDestroyQueryPool",
        "vkGetQueryPoolResults",
    ]
)
"""Functions of the Vulkan API that are called on a device, at the addresses that its driver returns for them."""

_MAX_BLOCK_BYTES = 1 << 40
"""Largest size of one block in bytes (1 TiB), for drivers that state a larger heap; otherwise the heap is the limit."""

_MAX_HOST_COPY_BYTES = 4096
"""Bytes of the largest copy between mapped blocks that the host does: it takes less time than a submission."""


class Context(Closing, base.Context):
    """Open Vulkan device, a logical device (VkDevice): its queue, memory and pipeline cache.

    A caller records a command buffer under `lock`, and passes it to `run`, which submits it and waits until the work is
    complete; the wait does not hold `lock`. `close` ends the use. `logical.LogicalDevice` describes the attributes that
    are not listed here.

    Attributes:
        kind: Kind of the device, a value of KINDS.
        family: Index of the queue family of `queue`, the only queue.
        lost, closed: Whether the driver has lost the device, and whether the user has closed it.
        semaphore, value: Timeline semaphore, and the value that the most recent submission sets it to when it is
            complete.
        is_mapped: Whether the host can access device memory; if not, copies use staging memory.
        heap_bytes: Size of the memory heap that buffers are allocated from.
    """

    def __init__(self, instance: Instance, physical: Any, index: int, force_staging: bool = False) -> None:
        """Create the logical device; raise DeviceUnavailableError if its driver lacks timeline semaphores.

        Args:
            instance: The Vulkan instance.
            physical: VkPhysicalDevice.
            index: Its index among the devices of the instance.
            force_staging: Whether device memory is not mapped even if it can be, so that all copies use staging memory.
        """
        # What the physical device is, and what it can do.
        super().__init__()
        self.instance, self.physical, self.index = instance, physical, index
        self.ffi, lib = instance.ffi, instance.lib
        self.features = Features(instance, physical)
        if "timelineSemaphore" not in self.features.features:
            raise DeviceUnavailableError(f"vulkan:{index}: it has no timeline semaphores; update its driver")
        properties = self.features.properties
        self.name = f"vulkan:{index}"
        self.model = self.ffi.string(properties.deviceName).decode("utf-8", "replace")
        # llvmpipe silently ends the loops of a shader after 65,535 iterations of all of them together.
        self.ends_loops = self.model.startswith("llvmpipe")
        self.kind = KINDS.get(properties.deviceType, "other")
        self.arena = api.Arena()
        self.transfers = base.Transfers()
        self.is_poisoned = poison_requested()  # PYDISPATCH_CHECK=poison: new blocks are filled with NaN
        # The logical device and its queue.
        family = instance.queue_family(physical)
        assert family is not None, "instances list only devices that can compute"
        self.family = family
        self.handle = self._create(lib)
        self.calls = api.functions(CALLS, lib.vkGetDeviceProcAddr, self.handle)
        self.lock = threading.RLock()
        queue = self.ffi.new("VkQueue*")
        self.calls.vkGetDeviceQueue(self.handle, self.family, 0, queue)
        self.queue = queue[0]
        # Addresses that submit_and_wait() takes: vkQueueSubmit, the queue, vkWaitSemaphores, the device.
        self.addresses = tuple(
            int(self.ffi.cast("uintptr_t", pointer))
            for pointer in (self.calls.vkQueueSubmit, self.queue, self.calls.vkWaitSemaphores, self.handle)
        )
        self.lost = self.closed = False
        self._set_object_name = instance.function("vkSetDebugUtilsObjectNameEXT") if instance.has_debug_utils else None
        # What submissions, allocations and recordings use. The timeline semaphore counts completed submissions; `value`
        # is the number of the last one.
        self._create_timeline()  # sets semaphore, semaphores and value
        self._make_pools(lib, force_staging)  # sets pool, staging, is_mapped and heap_bytes
        pool = self.ffi.new("VkCommandPool*")
        create_info = self.arena.new(
            "VkCommandPoolCreateInfo", flags=api.POOL_RESETS_BUFFERS, queueFamilyIndex=self.family
        )
        api.check(self.calls.vkCreateCommandPool(self.handle, create_info, self.ffi.NULL, pool), "vkCreateCommandPool")
        self.command_pool = pool[0]
        self.cache = cache.PipelineCache(self)
        self.descriptors = Descriptors(self)
        self.garbage: deque[Callable[[], None]] = deque()  # functions that free objects of dead recordings and programs
        limits = self.features.limits
        # At least 8 bytes, because generated code reads pairs of 4-byte words.
        self.alignment = max(8, limits["minStorageBufferOffsetAlignment"])
        self.max_range = limits["maxStorageBufferRange"]

    def _create(self, lib: Any) -> Any:
        """Create the VkDevice with one queue of `family`, and with the features and extensions that shaders may use.

        lib: functions of the loader.
        """
        arena, features = self.arena, self.features
        extensions = [ATOMIC_FLOAT] if ATOMIC_FLOAT in features.extensions else []
        queue = arena.new(
            "VkDeviceQueueCreateInfo",
            queueFamilyIndex=self.family,
            queueCount=1,
            pQueuePriorities=arena.array("float", [1.0]),
        )
        # `enabled` is the chain of structures with the features that shaders may use.
        create_info = arena.new(
            "VkDeviceCreateInfo", pNext=features.enabled, queueCreateInfoCount=1, pQueueCreateInfos=queue,
            enabledExtensionCount=len(extensions), ppEnabledExtensionNames=arena.texts(extensions),
        )  # fmt: skip
        handle = self.ffi.new("VkDevice*")
        result = lib.vkCreateDevice(self.physical, create_info, self.ffi.NULL, handle)
        api.check(result, f"vulkan:{self.index}: vkCreateDevice")
        return handle[0]

    def _create_timeline(self) -> None:
        """Create the timeline semaphore, and set `value`, the number of submissions so far, to 0.

        Submission n sets the semaphore to n when its work is complete.
        """
        arena = self.arena
        type_info = arena.new("VkSemaphoreTypeCreateInfo", semaphoreType=api.TIMELINE_SEMAPHORE, initialValue=0)
        create_info = arena.new("VkSemaphoreCreateInfo", pNext=type_info)
        self.semaphores = arena.array("VkSemaphore", 1)  # structures of submissions and waits point to this array
        result = self.calls.vkCreateSemaphore(self.handle, create_info, self.ffi.NULL, self.semaphores)
        api.check(result, "vkCreateSemaphore")
        self.semaphore = self.semaphores[0]
        self.value = 0

    def _make_pools(self, lib: Any, force_staging: bool) -> None:
        """Create the pools of device memory and of staging memory, which are one pool if device memory is mapped.

        Staging memory is host memory through which the host copies to and from device memory that it cannot access.

        lib: functions of the loader. force_staging: whether device memory is not mapped even if it can be.
        """
        properties = self.ffi.new("VkPhysicalDeviceMemoryProperties*")
        lib.vkGetPhysicalDeviceMemoryProperties(self.physical, properties)
        types = memory_types(properties, force_staging)
        self.is_mapped = types.is_mapped
        self.heap_bytes = heap_bytes_of(properties, types.buffers)

        def pool_of(memory_type: int, mapped: bool, name: str) -> ChunkPool:
            """Return the pool of a memory type, which is limited by the heap of that type."""
            heap_bytes = total_bytes = heap_bytes_of(properties, memory_type)
            if self.kind == "CPU":  # lavapipe allocates more than its heap states: the host's memory is the limit
                total_bytes = max(total_bytes, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
            return ChunkPool(
                self.handle, self.calls, memory_type, mapped=mapped, name=name, limit=min(heap_bytes, _MAX_BLOCK_BYTES),
                total=total_bytes,
            )  # fmt: skip

        self.pool = pool_of(types.buffers, mapped=self.is_mapped, name=self.name)
        self.staging = self.pool
        if not self.is_mapped:
            self.staging = pool_of(types.staging, mapped=True, name=f"{self.name} staging")
        # A pool calls this with each VkBuffer that it creates, and its name for debuggers.
        for pool in self._pools():
            pool.name_buffer = lambda buffer, text: self.set_name(OBJECT_BUFFER, buffer, text)

    def set_name(self, kind: int, handle: Any, text: str) -> None:
        """Set the debug name of a Vulkan handle, which tools and the validation layer show. kind: its VkObjectType."""
        if self._set_object_name is None:  # without VK_EXT_debug_utils
            return
        arena = api.Arena()
        handle_bits = int(self.ffi.cast("uintptr_t", handle))
        info = arena.new(
            "VkDebugUtilsObjectNameInfoEXT", objectType=kind, objectHandle=handle_bits, pObjectName=arena.text(text)
        )
        self._set_object_name(self.handle, info)

    # Submitting

    def new_submission(self, command_buffer: Any) -> Submission:
        """Return the structures that submit `command_buffer`, which are filled once."""
        return Submission(self, command_buffer)

    def run(self, prepare: Callable[[], RecordedBuffer], even_closed: bool = False) -> RecordedBuffer:
        """Submit the commands that `prepare` returns, wait until they are done, and return them.

        The work is done even if an exception is raised, so that memory that the device uses is not released before.

        Args:
            prepare: Function that returns the commands; called under the lock.
            even_closed: Whether to submit also on a closed device, whose live buffers can be read.
        """
        recorded: list[RecordedBuffer] = []

        def submission() -> tuple[int, int]:
            """Prepare a recording for submission, and return the addresses of its submit and wait structures.

            The device sets the timeline semaphore to the new `self.value` when the submission is complete.
            """
            is_refused_as_closed = self.closed and not even_closed
            if self.lost or self.is_forked or is_refused_as_closed:
                self.require_usable()  # raises
            recorded.append(recording := prepare())
            self.value = recording.submission.value[0] = self.value + 1
            return recording.submission.addresses

        submit, queue, wait, device = self.addresses
        # A C function, so that no Python exception is raised between the submission and its end. It calls
        # `submission` under the lock, and waits without the lock.
        failure = submit_and_wait(self.lock, submission, submit, queue, wait, device)
        if failure is not None:
            function, status = failure
            self._failed(status, function)  # raises
        # A kernel may report that the device ended one of its loops early, as llvmpipe does: its results are wrong.
        recorded[0].raise_if_ended_early()
        return recorded[0]

    def _failed(self, result: int, function: str) -> None:
        """Raise the error for a VkResult other than success, and record if the device was lost.

        function: name of the Vulkan function that returned the result.
        """
        if result == api.DEVICE_LOST:
            self.lost = True
        api.check(result, f"vulkan:{self.index}: {function}")

    def require_usable(self) -> None:
        """Raise DeviceUnavailableError if the device was closed or lost, or belongs to the parent process of a fork."""
        self.require_own_process()
        if self.lost:
            raise api.DeviceLostError(f"vulkan:{self.index} was lost; open it again with pydispatch.device()")
        if self.closed:
            raise DeviceUnavailableError(f"vulkan:{self.index} was closed")

    # Memory

    def allocate(self, size: int) -> Block:
        """Return a block of at least `size` bytes. Raise DeviceUnavailableError in a forked child process."""
        if self.is_forked:
            self.require_own_process()
        return self.pool.acquire(size)

    def forget_locks(self) -> None:
        """Replace the locks of the device and its pools in a forked child: a thread of the parent may hold them."""
        super().forget_locks()
        for pool in self._pools():
            pool.lock = threading.RLock()

    def view(self, block: Block, size: int) -> memoryview | None:
        """Return the first `size` bytes of a block as writable memory; None if it is not mapped.

        There is no work to wait for: all work is complete when the method that submitted it returns.
        """
        return memory_at(block.address, size, writable=True) if block.pointer is not None else None

    def stats(self) -> dict[str, int]:
        """Return live_bytes, free_bytes, peak_bytes and live_blocks of the device memory."""
        return self.pool.stats()

    def trim(self) -> None:
        """Return free memory to the driver once the device is idle."""
        with self.lock:
            if self.closed or self.is_forked:
                return
            self.calls.vkDeviceWaitIdle(self.handle)
            for pool in self._pools():
                pool.trim()

    def upload(self, block: Block, source: base.HostMemory, size: int) -> None:
        """Copy `size` bytes of host memory to the start of a block, through staging memory if it is not mapped."""
        if type(source) is int:
            source = self.ffi.cast("char*", source)
        if block.pointer is not None:
            self.ffi.memmove(block.pointer, source, size)
            return
        stage = self.staging.acquire(size)
        try:
            self.ffi.memmove(stage.pointer, source, size)
            self.copy(stage, block, size)
        finally:
            self.staging.release(stage)

    def copy_out(self, block: Block, target: base.HostMemory, size: int, at: int = 0) -> None:
        """Copy `size` bytes from byte `at` of a block to host memory. The copy is complete on return.

        A mapped block is read by the host. Otherwise the device copies to a block of staging memory, which is mapped,
        and the host copies from there.

        Args:
            block: Block of device memory.
            target: Object with the buffer protocol, or the address of the host memory as an int.
            size: Number of bytes.
            at: Offset of the first byte in the block.
        """
        if size == 0:
            return
        self.transfers.add("from_device", size)  # statistics of the device
        if type(target) is int:
            target = self.ffi.cast("char*", target)
        if block.pointer is not None:
            self.ffi.memmove(target, block.pointer + at, size)
            return
        stage = self.staging.acquire(size)
        try:
            self.copy(block, stage, size, at)
            self.ffi.memmove(target, stage.pointer, size)
        finally:
            self.staging.release(stage)

    def copy(self, source: Block, target: Block, size: int, at: int = 0, to: int = 0) -> None:
        """Copy `size` bytes between blocks, from byte `at` of the source to byte `to` of the target.

        The copy is complete on return. Between mapped blocks the host copies a few bytes itself, which takes less time
        than a submission. A closed device copies too, because its live buffers can still be read.
        """
        if size == 0:
            return
        if size <= _MAX_HOST_COPY_BYTES and source.pointer is not None and target.pointer is not None:
            self.ffi.memmove(target.pointer + to, source.pointer + at, size)
            return

        def prepare() -> RecordedBuffer:
            """Record the copy; `run` calls this under the lock."""
            recorder = CommandBufferRecorder(self)
            recorder.copy(source, at, target, to, size)
            return recorder.finish()

        self.run(prepare, even_closed=True)

    def close(self) -> None:
        """Wait for work in flight and refuse further work.

        Programs lose their kernels, recordings and constants. Buffers keep their content as long as they live; the
        device is destroyed with the last buffer.
        """
        with self.lock:
            if self.closed:
                return
            self.closed = True
            if self.is_forked:  # the driver's objects belong to the parent process
                return
            if not self.lost:
                self.calls.vkDeviceWaitIdle(self.handle)
                self.cache.save()
            self.release_programs()
        self.destroy_if_unused()

    def _pools(self) -> set[ChunkPool]:
        """Return the pools of device memory and of staging memory."""
        return {self.pool, self.staging}

    def _destroy(self) -> None:
        """Destroy all driver objects; no block is in use."""
        calls, handle, null = self.calls, self.handle, self.ffi.NULL
        free_garbage(self)  # first: command buffers and descriptor sets are freed to pools that are destroyed next
        calls.vkDestroyCommandPool(handle, self.command_pool, null)
        for pool in self.descriptors.pools:
            calls.vkDestroyDescriptorPool(handle, pool, null)
        for memory in self._pools():
            memory.destroy()
        calls.vkDestroyPipelineCache(handle, self.cache.handle, null)
        calls.vkDestroySemaphore(handle, self.semaphore, null)
        calls.vkDestroyDevice(handle, null)
