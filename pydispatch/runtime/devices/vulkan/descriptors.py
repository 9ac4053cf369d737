"""Descriptor pools, from which the descriptor sets of command buffers are allocated."""

from __future__ import annotations

from typing import Any

from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice

STORAGE_BUFFER = 7
"""VK_DESCRIPTOR_TYPE_STORAGE_BUFFER."""
POOL_SETS = 128
"""Capacity of one pool, in descriptor sets. A smaller one makes programs need more pools; a larger one takes
memory that small programs do not use.
"""
POOL_DESCRIPTORS = 1024
"""Capacity of one pool, in descriptors, unless one allocation needs more."""


class Descriptors:
    """Descriptor pools of a context. A new pool is created when the others are full. Used under the context's lock."""

    def __init__(self, context: LogicalDevice) -> None:
        """Begin without pools: the first allocation creates one."""
        self.context = context
        self.pools: list[Any] = []

    def allocate(self, layouts: list[Any], sets: Any, descriptors: int) -> Any:
        """Allocate one descriptor set per layout, all from one pool, and return that pool.

        Args:
            layouts: VkDescriptorSetLayout of each set, at most POOL_SETS.
            sets: `VkDescriptorSet[]` that receives the sets.
            descriptors: Number of storage buffers of all sets together.
        """
        context, arena = self.context, api.Arena()
        array = arena.array("VkDescriptorSetLayout", layouts)
        info = arena.new("VkDescriptorSetAllocateInfo", descriptorSetCount=len(layouts), pSetLayouts=array)
        # Try the newest pool first: it is the least likely to be full. An allocation in a full pool fails.
        for pool in reversed(self.pools):
            info.descriptorPool = pool
            if context.calls.vkAllocateDescriptorSets(context.handle, info, sets) == 0:
                return pool
        info.descriptorPool = pool = self._pool(max(POOL_DESCRIPTORS, descriptors))
        api.check(context.calls.vkAllocateDescriptorSets(context.handle, info, sets), "vkAllocateDescriptorSets")
        return pool

    def _pool(self, descriptors: int) -> Any:
        """Create a pool of POOL_SETS sets with `descriptors` storage buffers in all; append it to `pools`."""
        context, ffi, arena = self.context, self.context.ffi, api.Arena()
        sizes = arena.array("VkDescriptorPoolSize", 1)
        sizes[0].type, sizes[0].descriptorCount = STORAGE_BUFFER, descriptors
        create_info = arena.new(
            "VkDescriptorPoolCreateInfo",
            flags=api.POOL_FREES_SETS,
            maxSets=POOL_SETS,
            poolSizeCount=1,
            pPoolSizes=sizes,
        )
        handle = ffi.new("VkDescriptorPool*")
        result = context.calls.vkCreateDescriptorPool(context.handle, create_info, ffi.NULL, handle)
        api.check(result, "vkCreateDescriptorPool")
        self.pools.append(handle[0])
        return handle[0]
