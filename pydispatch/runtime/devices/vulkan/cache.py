"""Pipeline cache of a Vulkan device, stored in a file between processes."""

from __future__ import annotations

import struct

from pydispatch.formats.storage import cache
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice

_MAX_BYTES = 256 << 20
"""Bytes of the largest cache that is stored or read: bounds the size of the file and the time to read it."""


class PipelineCache:
    """Vulkan pipeline cache (VkPipelineCache) with the content of a file.

    A file that is missing, broken, or of another driver counts as empty.

    Attributes:
        uuid: Identifier of the driver's cache format.
        header: The 32 bytes that a cache of this driver and device begins with (VkPipelineCacheHeaderVersionOne).
        entry: (folder, name) of the file in the cache directory.
        stored: Number of bytes in the file, as last read or written; 0 if it counts as empty. `save` writes only a
            larger cache.
        handle: VkPipelineCache.
    """

    def __init__(self, context: LogicalDevice) -> None:
        """Create the cache of a device, and fill it from its file in the cache directory.

        A file that is missing, broken, or of another driver counts as empty.
        """
        self.context = context
        properties = context.features.properties
        self.uuid = bytes(properties.pipelineCacheUUID)
        # The header that a cache of this driver and device begins with (VkPipelineCacheHeaderVersionOne).
        header_fields = api.CACHE_HEADER_BYTES, api.CACHE_HEADER_VERSION, properties.vendorID, properties.deviceID
        self.header = struct.pack("<IIII", *header_fields) + self.uuid
        # (folder, name) of the file in the cache directory, and the bytes that it has.
        self.entry = "vulkan", f"{properties.vendorID:04x}-{properties.deviceID:04x}-{self.uuid.hex()}.bin"
        data = self._load()
        self.stored = len(data)
        ffi, arena = context.ffi, api.Arena()
        create_info = arena.new("VkPipelineCacheCreateInfo")
        if data:
            create_info.initialDataSize, create_info.pInitialData = len(data), arena.array("char", data)
        handle = ffi.new("VkPipelineCache*")
        result = context.calls.vkCreatePipelineCache(context.handle, create_info, ffi.NULL, handle)
        api.check(result, "vkCreatePipelineCache")
        self.handle = handle[0]

    def _load(self) -> bytes:
        """Return the content of the file; b"" if it is missing, too large, or of another driver."""
        data = cache.load(*self.entry)
        if data is None or len(data) > _MAX_BYTES or data[: api.CACHE_HEADER_BYTES] != self.header:
            return b""
        return data

    def save(self) -> None:
        """Write the cache to the file if pipelines were added since it was read.

        A failure to read the cache from the driver, or to write the file, is no error: the file only saves time.
        """
        context, ffi = self.context, self.context.ffi
        size = ffi.new("size_t*")
        is_failure = context.calls.vkGetPipelineCacheData(context.handle, self.handle, size, ffi.NULL) < 0
        if is_failure or size[0] > _MAX_BYTES:
            return
        # A cache without pipelines is its header alone. A cache only grows when a pipeline is added.
        has_new_pipelines = size[0] > max(api.CACHE_HEADER_BYTES, self.stored)
        if not has_new_pipelines:
            return
        data = ffi.new("char[]", size[0])
        if context.calls.vkGetPipelineCacheData(context.handle, self.handle, size, data) != 0:
            return  # an error, or VK_INCOMPLETE: the cache has grown since its size was queried
        cache.store(bytes(ffi.buffer(data, size[0])), *self.entry)
        self.stored = size[0]
