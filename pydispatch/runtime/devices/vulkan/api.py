"""The C interface of the `vulkan` package through cffi, with its results as exceptions. No other module imports the
package.

The Python wrappers of the package are not used: they build every structure anew, which takes longer than the calls.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydispatch.errors import DeviceUnavailableError, Error, InternalError, OutOfMemoryError
from pydispatch.packages import importing

SUCCESS, NOT_READY, TIMEOUT, INCOMPLETE = 0, 1, 2, 5
OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY, DEVICE_LOST = -1, -2, -4
INITIALIZATION_FAILED, LAYER_NOT_PRESENT, EXTENSION_NOT_PRESENT, FEATURE_NOT_PRESENT = -3, -6, -7, -8
INCOMPATIBLE_DRIVER, UNKNOWN, INVALID_SHADER = -9, -13, -1000012000
FOREVER = 0xFFFFFFFFFFFFFFFF  # timeout of a wait, in ns
WHOLE_SIZE = 0xFFFFFFFFFFFFFFFF  # VK_WHOLE_SIZE: all bytes from an offset
VERSION_1_2 = 1 << 22 | 2 << 12  # as VK_MAKE_API_VERSION encodes it
VERSION_1_3 = 1 << 22 | 3 << 12

NAMES = {
    -1: "VK_ERROR_OUT_OF_HOST_MEMORY", -2: "VK_ERROR_OUT_OF_DEVICE_MEMORY", -3: "VK_ERROR_INITIALIZATION_FAILED",
    -4: "VK_ERROR_DEVICE_LOST", -5: "VK_ERROR_MEMORY_MAP_FAILED", -6: "VK_ERROR_LAYER_NOT_PRESENT",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT", -8: "VK_ERROR_FEATURE_NOT_PRESENT", -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -10: "VK_ERROR_TOO_MANY_OBJECTS", -12: "VK_ERROR_FRAGMENTED_POOL", -13: "VK_ERROR_UNKNOWN",
    -1000069000: "VK_ERROR_OUT_OF_POOL_MEMORY", -1000012000: "VK_ERROR_INVALID_SHADER_NV",
}  # fmt: skip
"""Error code of VkResult → its name in Vulkan."""

SHADER_ERRORS = (INITIALIZATION_FAILED, UNKNOWN, INVALID_SHADER)
"""VkResults that drivers return for shaders that they cannot compile."""

UNAVAILABLE = (
    INITIALIZATION_FAILED, LAYER_NOT_PRESENT, EXTENSION_NOT_PRESENT, FEATURE_NOT_PRESENT, INCOMPATIBLE_DRIVER,
)  # fmt: skip
"""VkResults that say that a device or instance cannot be created."""

COMPUTE_STAGE = 0x20  # VK_SHADER_STAGE_COMPUTE_BIT
BIND_COMPUTE = 1  # VK_PIPELINE_BIND_POINT_COMPUTE
POOL_RESETS_BUFFERS = 2  # VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT
POOL_FREES_SETS = 1  # VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT
TIMELINE_SEMAPHORE = 1  # VK_SEMAPHORE_TYPE_TIMELINE
TIMESTAMP_QUERY = 2  # VK_QUERY_TYPE_TIMESTAMP
QUERY_64_BITS, QUERY_WAITS = 1, 2  # VK_QUERY_RESULT_64_BIT, VK_QUERY_RESULT_WAIT_BIT
VALIDATE_SYNCHRONIZATION = 4  # VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
ALL_MESSAGE_TYPES = 7  # general, validation and performance messages of VK_EXT_debug_utils
CACHE_HEADER_BYTES, CACHE_HEADER_VERSION = 32, 1  # of VkPipelineCacheHeaderVersionOne


class DeviceLostError(DeviceUnavailableError):
    """Loss of a device with all its memory, because a driver reset it or it was removed."""


@cache
def binding() -> tuple[Any, Any]:
    """Return (ffi, lib) of the `vulkan` package. Raise DeviceUnavailableError if it or the Vulkan loader is missing."""

    try:
        with importing("Vulkan", "vulkan", DeviceUnavailableError):
            from vulkan._vulkan import ffi, lib
    except DeviceUnavailableError as error:
        # The package loads libvulkan when it is imported. An OSError or AttributeError means that the package is there,
        # and that the loader cannot be used.
        if not isinstance(error.__cause__, OSError | AttributeError):
            raise
        raise DeviceUnavailableError(
            f"the Vulkan loader (libvulkan.so.1) cannot be used: {error.__cause__}; install libvulkan1 and a driver, "
            "for example mesa-vulkan-drivers"
        ) from None
    return ffi, lib


def check(result: int, call: str) -> None:
    """Raise the exception for a VkResult that is an error. call: what returned the result; begins the message."""
    if result >= 0:  # VK_SUCCESS, or a status such as VK_TIMEOUT
        return
    name = NAMES.get(result, f"VkResult {result}")
    if result in (OUT_OF_HOST_MEMORY, OUT_OF_DEVICE_MEMORY):
        raise OutOfMemoryError(f"{call}: {name}")
    if result == DEVICE_LOST:
        raise DeviceLostError(f"{call}: {name}: the device was lost; open it again with pydispatch.device()")
    if result in UNAVAILABLE:
        raise DeviceUnavailableError(f"{call}: {name}")
    raise InternalError(f"{call}: {name}")


class Arena:
    """Owner of C structures that point at each other: cffi frees a structure when Python does not reference it."""

    def __init__(self) -> None:
        """Create an arena without structures."""
        self.ffi, self.lib = binding()
        self.retained: list[Any] = []  # the C structures and arrays

    def new(self, struct: str, /, **fields: Any) -> Any:
        """Return a pointer to a zeroed structure of the C type `struct` with `fields` set.

        Its sType is set for the types in STRUCTURES. Values that are C data live as long as the arena.
        """
        pointer = self.ffi.new(f"{struct}*")
        if struct in STRUCTURES:
            pointer.sType = STRUCTURES[struct]
        for name, value in fields.items():
            setattr(pointer, name, value)
            if isinstance(value, self.ffi.CData):
                self.retained.append(value)
        self.retained.append(pointer)
        return pointer

    def array(self, kind: str, items: Any) -> Any:
        """Return an array of the C type `kind`, which lives as long as the arena.

        items: the elements, or an int for so many zeroed ones.
        """
        array = self.ffi.new(f"{kind}[]", items)
        self.retained.append(array)
        if not isinstance(items, int):
            self.retained.append(items)
        return array

    def text(self, value: str) -> Any:
        """Return a NUL-terminated `char[]`, which lives as long as the arena."""
        characters = self.ffi.new("char[]", value.encode())
        self.retained.append(characters)
        return characters

    def texts(self, values: list[str]) -> Any:
        """Return an array of C strings, which lives as long as the arena; NULL for an empty list."""
        return self.array("char*", [self.text(v) for v in values]) if values else self.ffi.NULL


# Name of a structure → its VkStructureType, the value of its field `sType`.
STRUCTURES = {
    "VkApplicationInfo": 0, "VkInstanceCreateInfo": 1, "VkDeviceQueueCreateInfo": 2, "VkDeviceCreateInfo": 3,
    "VkSubmitInfo": 4, "VkMemoryAllocateInfo": 5, "VkFenceCreateInfo": 8, "VkSemaphoreCreateInfo": 9,
    "VkQueryPoolCreateInfo": 11, "VkBufferCreateInfo": 12, "VkShaderModuleCreateInfo": 16,
    "VkPipelineCacheCreateInfo": 17, "VkPipelineShaderStageCreateInfo": 18, "VkComputePipelineCreateInfo": 29,
    "VkPipelineLayoutCreateInfo": 30, "VkDescriptorSetLayoutCreateInfo": 32, "VkDescriptorPoolCreateInfo": 33,
    "VkDescriptorSetAllocateInfo": 34, "VkWriteDescriptorSet": 35, "VkCommandPoolCreateInfo": 39,
    "VkCommandBufferAllocateInfo": 40, "VkCommandBufferBeginInfo": 42, "VkMemoryBarrier": 46,
    "VkPhysicalDeviceVulkan11Features": 49, "VkPhysicalDeviceVulkan12Features": 51,
    "VkPhysicalDeviceVulkan13Features": 53, "VkPhysicalDeviceVulkan13Properties": 54,
    "VkPhysicalDeviceSubgroupProperties": 1000094000, "VkPhysicalDeviceFeatures2": 1000059000,
    "VkPhysicalDeviceProperties2": 1000059001, "VkPhysicalDeviceMaintenance3Properties": 1000168000,
    "VkPhysicalDeviceDriverProperties": 1000196000, "VkSemaphoreTypeCreateInfo": 1000207002,
    "VkTimelineSemaphoreSubmitInfo": 1000207003, "VkSemaphoreWaitInfo": 1000207004,
    "VkDebugUtilsObjectNameInfoEXT": 1000128000, "VkDebugUtilsMessengerCreateInfoEXT": 1000128004,
    "VkDebugUtilsLabelEXT": 1000128002, "VkValidationFeaturesEXT": 1000247000,
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT": 1000260000,
}  # fmt: skip


def functions(names: tuple[str, ...], resolve: Any, owner: Any) -> Any:
    """Return an object with Vulkan functions as attributes, which call the driver without the loader's dispatch.

    Args:
        names: Names of the functions, such as "vkQueueSubmit".
        resolve: vkGetDeviceProcAddr or vkGetInstanceProcAddr.
        owner: The VkDevice or VkInstance that `resolve` takes.

    Raises:
        Error: The driver lacks a function.
    """
    ffi, _ = binding()

    class Functions:  # a class for each table, since its slots have these names
        """Table of Vulkan functions, with one slot per function name."""

        __slots__ = names

    table = Functions()
    for name in names:
        pointer = resolve(owner, name.encode())
        if pointer == ffi.NULL:
            raise Error(f"the Vulkan driver has no {name}")
        setattr(table, name, ffi.cast(f"PFN_{name}", pointer))
    return table
