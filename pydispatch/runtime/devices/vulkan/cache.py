"""Pipeline cache of a device, stored in a file between processes."""

from __future__ import annotations

import struct

from pydispatch.formats.storage import cache
from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.logical import LogicalDevice

_MAX_BYTES = 256 << 20


class PipelineCache:
    """A VkPipelineCache. A file that is missing, broken, or of another driver counts as empty."""

    def __init__(self, context: LogicalDevice) -> None:
        self.context = context
        properties = context.features.properties
        self.uuid = bytes(properties.pipelineCacheUUID)
        self.header = (
            struct.pack(
                "<IIII", api.CACHE_HEADER_BYTES, api.CACHE_HEADER_VERSION, properties.vendorID, properties.deviceID
            )
            + self.uuid
        )
        self.entry = "vulkan", f"{properties.vendorID:04x}-{properties.deviceID:04x}-{self.uuid.hex()}.bin"
        data = self._load()
        self.stored = len(data)
        ffi, arena = context.ffi, api.Arena()
        create = arena.new("VkPipelineCacheCreateInfo")
        if data:
            create.initialDataSize, create.pInitialData = len(data), arena.array("char", data)
        handle = ffi.new("VkPipelineCache*")
        api.check(
            context.calls.vkCreatePipelineCache(context.handle, create, ffi.NULL, handle), "vkCreatePipelineCache"
        )
        self.handle = handle[0]

    def _load(self) -> bytes:
        data = cache.load(*self.entry)
        return data if data is not None and len(data) <= _MAX_BYTES and data[:32] == self.header else b""

    def save(self) -> None:
        """Write what was added since it was read; a failure to write is no failure."""
        context, ffi = self.context, self.context.ffi
        size = ffi.new("size_t*")
        if context.calls.vkGetPipelineCacheData(context.handle, self.handle, size, ffi.NULL) < 0:
            return
        if size[0] <= max(32, self.stored) or size[0] > _MAX_BYTES:
            return
        data = ffi.new("char[]", size[0])
        if context.calls.vkGetPipelineCacheData(context.handle, self.handle, size, data) != 0:
            return
        cache.store(bytes(ffi.buffer(data, size[0])), *self.entry)
        self.stored = size[0]
