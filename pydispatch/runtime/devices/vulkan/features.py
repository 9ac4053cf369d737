"""Features to enable, SPIR-V capabilities and limits of a Vulkan physical device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydispatch.runtime.devices.vulkan import api
from pydispatch.runtime.devices.vulkan.instance import Instance

# Structure → features that are enabled where the device has them.
WANTED = {
    "VkPhysicalDeviceFeatures": ("shaderInt64", "shaderInt16", "shaderFloat64"),
    "VkPhysicalDeviceVulkan11Features": (
        "storageBuffer16BitAccess", "uniformAndStorageBuffer16BitAccess", "storagePushConstant16",
        "variablePointersStorageBuffer", "variablePointers",
    ),
    "VkPhysicalDeviceVulkan12Features": (
        "storageBuffer8BitAccess", "uniformAndStorageBuffer8BitAccess", "storagePushConstant8",
        "shaderBufferInt64Atomics", "shaderSharedInt64Atomics", "shaderFloat16", "shaderInt8", "scalarBlockLayout",
        "uniformBufferStandardLayout", "shaderSubgroupExtendedTypes", "hostQueryReset", "timelineSemaphore",
        "bufferDeviceAddress", "vulkanMemoryModel", "vulkanMemoryModelDeviceScope",
        "vulkanMemoryModelAvailabilityVisibilityChains", "runtimeDescriptorArray",
    ),
    "VkPhysicalDeviceVulkan13Features": (
        "subgroupSizeControl", "computeFullSubgroups", "shaderZeroInitializeWorkgroupMemory", "shaderIntegerDotProduct",
        "maintenance4", "synchronization2",
    ),
    "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT": (
        "shaderBufferFloat32Atomics", "shaderBufferFloat32AtomicAdd", "shaderBufferFloat64Atomics",
        "shaderBufferFloat64AtomicAdd", "shaderSharedFloat32Atomics", "shaderSharedFloat32AtomicAdd",
        "shaderSharedFloat64Atomics", "shaderSharedFloat64AtomicAdd",
    ),
}  # fmt: skip

ATOMIC_FLOAT = "VK_EXT_shader_atomic_float"
"""Extension of the device with atomic additions of floats."""

# Capability of SPIR-V → features of the device, one of which suffices for it.
CAPABILITIES = {
    "Int64": ("shaderInt64",), "Int16": ("shaderInt16",), "Float64": ("shaderFloat64",), "Int8": ("shaderInt8",),
    "Float16": ("shaderFloat16",), "StorageBuffer16BitAccess": ("storageBuffer16BitAccess",),
    "UniformAndStorageBuffer16BitAccess": ("uniformAndStorageBuffer16BitAccess",),
    "StoragePushConstant16": ("storagePushConstant16",), "StorageBuffer8BitAccess": ("storageBuffer8BitAccess",),
    "UniformAndStorageBuffer8BitAccess": ("uniformAndStorageBuffer8BitAccess",),
    "StoragePushConstant8": ("storagePushConstant8",), "VariablePointers": ("variablePointers",),
    "VariablePointersStorageBuffer": ("variablePointersStorageBuffer",),
    "Int64Atomics": ("shaderBufferInt64Atomics", "shaderSharedInt64Atomics"),
    "VulkanMemoryModel": ("vulkanMemoryModel",), "VulkanMemoryModelDeviceScope": ("vulkanMemoryModelDeviceScope",),
    "PhysicalStorageBufferAddresses": ("bufferDeviceAddress",), "RuntimeDescriptorArray": ("runtimeDescriptorArray",),
    "DotProduct": ("shaderIntegerDotProduct",), "DotProductInputAll": ("shaderIntegerDotProduct",),
    "DotProductInput4x8Bit": ("shaderIntegerDotProduct",), "DotProductInput4x8BitPacked": ("shaderIntegerDotProduct",),
    "AtomicFloat32AddEXT": ("shaderBufferFloat32AtomicAdd", "shaderSharedFloat32AtomicAdd"),
    "AtomicFloat64AddEXT": ("shaderBufferFloat64AtomicAdd", "shaderSharedFloat64AtomicAdd"),
}  # fmt: skip

# Capability of SPIR-V → its bit in VkSubgroupFeatureFlags.
SUBGROUPS = {
    "GroupNonUniform": 1, "GroupNonUniformVote": 2, "GroupNonUniformArithmetic": 4, "GroupNonUniformBallot": 8,
    "GroupNonUniformShuffle": 16, "GroupNonUniformShuffleRelative": 32, "GroupNonUniformClustered": 64,
    "GroupNonUniformQuad": 128, "SubgroupBallotKHR": 8, "SubgroupVoteKHR": 2,
}  # fmt: skip

EXTENSIONS = {"SPV_EXT_shader_atomic_float_add": ATOMIC_FLOAT}
"""Extension of SPIR-V → extension of the device that it needs."""


class Names(frozenset[str]):
    """Set of names of capabilities and features that also tests limits.

    The set contains "maxComputeSharedMemorySize>=32768" if that limit is at least 32768.
    """

    limits: dict[str, int]
    """Name of a limit → its value; assigned after creation."""

    def __contains__(self, name: object) -> bool:
        """Return whether the device has a feature, or a limit: `"maxPushConstantsSize>=128" in names`."""
        if isinstance(name, str) and ">=" in name:
            limit, _, minimum = name.partition(">=")
            # No device reaches a minimum of 20 digits or more, and int() raises ValueError for thousands of them.
            return minimum.isdecimal() and len(minimum) < 20 and self.limits.get(limit, -1) >= int(minimum)
        return frozenset.__contains__(self, name)

    def issuperset(self, names: Iterable[object]) -> bool:
        """Return whether the device has each feature, and satisfies each limit, of `names`."""
        return all(name in self for name in names)


class Features:
    """Features and limits of a physical device, queried before its logical device is created with `enabled`.

    Attributes:
        properties: VkPhysicalDeviceProperties.
        extensions: Names of the extensions that it supports.
        features: Names of the features that are enabled.
        enabled: Chained structures to create the VkDevice with.
        subgroup_size: Invocations of a subgroup.
        limits: Name of a limit in VkPhysicalDeviceLimits → its value.
        names: Capabilities and features that variants of executables may require.
    """

    def __init__(self, instance: Instance, device: Any) -> None:
        """Query a VkPhysicalDevice, and fill the structures that enable the wanted features that it has.

        Args:
            instance: The Vulkan instance.
            device: VkPhysicalDevice with at least Vulkan 1.2.
        """
        self.instance, self.device = instance, device
        ffi, lib = instance.ffi, instance.lib
        self.arena = api.Arena()
        self.properties = instance.properties(device)
        self.extensions = self._extensions()
        # Structures of features that this device knows, by its version of Vulkan and its extensions.
        structs = ["VkPhysicalDeviceVulkan11Features", "VkPhysicalDeviceVulkan12Features"]
        self.is_1_3 = self.properties.apiVersion >= api.VERSION_1_3
        if self.is_1_3:
            structs.append("VkPhysicalDeviceVulkan13Features")
        if ATOMIC_FLOAT in self.extensions:
            structs.append("VkPhysicalDeviceShaderAtomicFloatFeaturesEXT")
        self.features: set[str] = set()  # `_enable` adds the names
        self.enabled = self._enable(ffi, lib, structs)
        self.subgroup_size, subgroup_bits = self._subgroups(ffi, lib)  # bits: VkSubgroupFeatureFlags
        self.limits = self._limits(ffi)
        # A variant (the code of an executable for one kind of device) lists what it requires, for example "Float16",
        # a SPIR-V capability, and "maxPushConstantsSize>=128", which `Names` compares with `limits`.
        self.names = Names(self._names(subgroup_bits))
        self.names.limits = self.limits

    def _extensions(self) -> set[str]:
        """Return the names of the extensions that the device supports."""
        ffi, lib = self.instance.ffi, self.instance.lib
        count = ffi.new("uint32_t*")
        lib.vkEnumerateDeviceExtensionProperties(self.device, ffi.NULL, count, ffi.NULL)
        properties = ffi.new("VkExtensionProperties[]", max(1, count[0]))
        lib.vkEnumerateDeviceExtensionProperties(self.device, ffi.NULL, count, properties)
        return {ffi.string(properties[i].extensionName).decode() for i in range(count[0])}

    def _enable(self, ffi: Any, lib: Any, structs: list[str]) -> Any:
        """Enable the features in WANTED that the device has, and add their names to `features`.

        Returns the head of the chain for `pNext` of VkDeviceCreateInfo. structs: names of the structures to chain
        after VkPhysicalDeviceFeatures2; keys of WANTED.
        """
        # Two equal chains of structures: in one Vulkan reports the supported features, the other requests features.
        supported, enabled = [self.arena.new(s) for s in structs], [self.arena.new(s) for s in structs]
        heads = []
        for chain in (supported, enabled):
            for structure, successor in zip(chain, [*chain[1:], ffi.NULL], strict=True):
                structure.pNext = successor
            heads.append(self.arena.new("VkPhysicalDeviceFeatures2", pNext=chain[0]))
        supported_head, enabled_head = heads
        lib.vkGetPhysicalDeviceFeatures2(self.device, supported_head)
        # Request the wanted features that are supported. VkPhysicalDeviceFeatures is a member of the chain's head.
        structures = [("VkPhysicalDeviceFeatures", supported_head.features, enabled_head.features)]
        structures += list(zip(structs, supported, enabled, strict=True))
        for struct, supported_features, enabled_features in structures:
            for name in WANTED[struct]:
                if getattr(supported_features, name):
                    setattr(enabled_features, name, 1)
                    self.features.add(name)
        return enabled_head

    def _subgroups(self, ffi: Any, lib: Any) -> tuple[int, int]:
        """Return the size of a subgroup, and the VkSubgroupFeatureFlags that compute shaders support, 0 for none."""
        properties = self.arena.new("VkPhysicalDeviceSubgroupProperties")
        lib.vkGetPhysicalDeviceProperties2(self.device, self.arena.new("VkPhysicalDeviceProperties2", pNext=properties))
        supports_compute = properties.supportedStages & api.COMPUTE_STAGE
        return properties.subgroupSize, properties.supportedOperations if supports_compute else 0

    def _limits(self, ffi: Any) -> dict[str, int]:
        """Return the limits of the device by name; an element of an array is named `name[i]`.

        These are the numbers in VkPhysicalDeviceLimits, and "subgroupSize". Fractions are rounded toward 0.
        """
        limits: dict[str, int] = {"subgroupSize": self.subgroup_size}
        for name, field in ffi.typeof("VkPhysicalDeviceLimits").fields:
            value = getattr(self.properties.limits, name)
            if field.type.kind == "array":
                limits.update({f"{name}[{i}]": int(value[i]) for i in range(len(value))})
            elif field.type.kind == "primitive":
                limits[name] = int(value)
        return limits

    def _names(self, subgroup_bits: int) -> set[str]:
        """Return the SPIR-V capabilities and extensions that the device supports, and "spirv1.6" for Vulkan 1.3.

        subgroup_bits: VkSubgroupFeatureFlags.
        """
        names = {name for name, sufficient in CAPABILITIES.items() if self.features.intersection(sufficient)}
        names |= {name for name, bit in SUBGROUPS.items() if subgroup_bits & bit}
        names |= {name for name, extension in EXTENSIONS.items() if extension in self.extensions}
        return names | ({"spirv1.6"} if self.is_1_3 else set())
