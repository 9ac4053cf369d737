"""Vulkan instance of this process, its physical devices, and the validation layer if requested."""

from __future__ import annotations

import os
from typing import Any

from pydispatch._core.driver import CALLBACKS, Mailbox
from pydispatch._core.process_lock import process_lock
from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.devices.vulkan import api

LAYER = "VK_LAYER_KHRONOS_validation"
"""Validation layer of the Vulkan SDK, which reports incorrect calls."""
VARIABLE = "PYDISPATCH_VULKAN_VALIDATION"
"""Environment variable that enables the validation layer, unless it is "" or "0"."""
# VkPhysicalDeviceType → name
KINDS = {0: "other", 1: "integrated GPU", 2: "discrete GPU", 3: "virtual GPU", 4: "CPU"}
_ERROR_BITS = 0x1000 | 0x100  # VkDebugUtilsMessageSeverityFlagBitsEXT of errors and warnings
_GRAPHICS, _COMPUTE = 1, 2  # VkQueueFlagBits


def _no_driver() -> str:
    """Return the message for a machine without a Vulkan driver."""
    settings = [f"{name}={os.environ[name]}" for name in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES") if name in os.environ]
    if settings:
        return f"there is no Vulkan driver where {' and '.join(settings)} says: correct the variable, or unset it"
    return "no Vulkan driver is installed: install that of the GPU, or mesa-vulkan-drivers, which needs none"


class Instance:
    """Vulkan instance (VkInstance), with the validation layer if PYDISPATCH_VULKAN_VALIDATION is set.

    Attributes:
        ffi, lib: cffi's binding of the Vulkan loader.
        validates: Whether the validation layer is enabled.
        has_debug_utils: Whether VK_EXT_debug_utils is enabled, for names of objects and messages of the layer.
        handle: VkInstance.
    """

    def __init__(self) -> None:
        """Create the instance, for Vulkan 1.3, with VK_EXT_debug_utils if the loader has it.

        If PYDISPATCH_VULKAN_VALIDATION is set, the instance has the validation layer, with its checks of
        synchronization, and collects the messages of the layer.

        Raises:
            DeviceUnavailableError: There is no driver, or the layer is requested and not installed.
        """
        self.ffi, self.lib = api.binding()
        # Extensions and layers.
        arena = api.Arena()  # owns the C structures below until this function returns
        self.validates = os.environ.get(VARIABLE, "0") not in ("", "0")
        self._mailbox = Mailbox()  # receives the messages of the layer from a C callback
        self._messages = list[str]()  # messages that `messages` has taken out of the mailbox
        available_layers, extensions = self._layers(), self._extensions(layer=None)
        self.has_debug_utils = "VK_EXT_debug_utils" in extensions
        enabled_extensions = ["VK_EXT_debug_utils"] if self.has_debug_utils else []
        enabled_layers = [LAYER] if self.validates else []
        if self.validates and LAYER not in available_layers:
            raise DeviceUnavailableError(
                f"{VARIABLE} is set and the layer {LAYER} is not installed: apt-get install vulkan-validationlayers"
            )
        # The layer checks synchronization only if VkInstanceCreateInfo has this structure as `pNext`.
        next_structure = self.ffi.NULL
        if self.validates and "VK_EXT_validation_features" in self._extensions(LAYER):
            enabled_extensions.append("VK_EXT_validation_features")
            enables = arena.array("VkValidationFeatureEnableEXT", [api.VALIDATE_SYNCHRONIZATION])
            next_structure = arena.new(
                "VkValidationFeaturesEXT", enabledValidationFeatureCount=1, pEnabledValidationFeatures=enables
            )
        # The instance.
        application = arena.new(
            "VkApplicationInfo", pApplicationName=arena.text("pydispatch"), apiVersion=api.VERSION_1_3
        )
        create_info = arena.new(
            "VkInstanceCreateInfo", pNext=next_structure, pApplicationInfo=application,
            enabledLayerCount=len(enabled_layers),
            ppEnabledLayerNames=arena.texts(enabled_layers), enabledExtensionCount=len(enabled_extensions),
            ppEnabledExtensionNames=arena.texts(enabled_extensions),
        )  # fmt: skip
        handle = self.ffi.new("VkInstance*")
        result = self.lib.vkCreateInstance(create_info, self.ffi.NULL, handle)
        if result == api.INCOMPATIBLE_DRIVER:
            raise DeviceUnavailableError(_no_driver())
        api.check(result, "vkCreateInstance")
        self.handle = handle[0]
        if self.validates and self.has_debug_utils:
            self._listen()

    def _names(self, enumerate: Any, struct: str, field: str, *leading_arguments: Any) -> set[str]:
        """Return the names of the layers or extensions that a Vulkan function enumerates.

        Args:
            enumerate: The function; it returns the count if the array is NULL.
            struct: Type of the structures that it fills, such as "VkLayerProperties".
            field: Field of such a structure that has the name.
            leading_arguments: Arguments of the function before the count and the structures.
        """
        count = self.ffi.new("uint32_t*")
        is_failure = enumerate(*leading_arguments, count, self.ffi.NULL) < 0  # VkResult of errors is negative
        if is_failure or not count[0]:
            return set()
        properties = self.ffi.new(f"{struct}[]", count[0])
        enumerate(*leading_arguments, count, properties)
        return {self.ffi.string(getattr(properties[i], field)).decode() for i in range(count[0])}

    def _layers(self) -> set[str]:
        """Return the names of the installed layers."""
        return self._names(self.lib.vkEnumerateInstanceLayerProperties, "VkLayerProperties", "layerName")

    def _extensions(self, layer: str | None) -> set[str]:
        """Return the names of the instance extensions that a layer, or for None the loader, provides."""
        name = self.ffi.NULL if layer is None else self.ffi.new("char[]", layer.encode())
        enumerate = self.lib.vkEnumerateInstanceExtensionProperties
        return self._names(enumerate, "VkExtensionProperties", "extensionName", name)

    @property
    def messages(self) -> list[str]:
        """All messages of the validation layer since the instance was created, oldest first."""
        self._messages += [text for *_, text in self._mailbox.take()]
        return self._messages

    def _listen(self) -> None:
        """Register the C callback that puts errors and warnings of the validation layer into the mailbox."""
        arena = api.Arena()  # owns the C structure until this function returns
        create = self.function("vkCreateDebugUtilsMessengerEXT")
        callback_type = "PFN_vkDebugUtilsMessengerCallbackEXT"
        info = arena.new(
            "VkDebugUtilsMessengerCreateInfoEXT", messageSeverity=_ERROR_BITS, messageType=api.ALL_MESSAGE_TYPES,
            pfnUserCallback=self.ffi.cast(callback_type, CALLBACKS[callback_type]),
            pUserData=self.ffi.cast("void*", self._mailbox.address),
        )  # fmt: skip
        messenger = self.ffi.new("VkDebugUtilsMessengerEXT*")
        api.check(create(self.handle, info, self.ffi.NULL, messenger), "vkCreateDebugUtilsMessengerEXT")

    def function(self, name: str) -> Any:
        """Return a function of the instance or of one of its enabled extensions, by its name such as
        "vkSetDebugUtilsObjectNameEXT".
        """
        return self.ffi.cast(f"PFN_{name}", self.lib.vkGetInstanceProcAddr(self.handle, name.encode()))

    def physical_devices(self) -> list[Any]:
        """Return handles of the devices that can compute with Vulkan 1.2, as the loader orders them."""
        count = self.ffi.new("uint32_t*")
        api.check(self.lib.vkEnumeratePhysicalDevices(self.handle, count, self.ffi.NULL), "vkEnumeratePhysicalDevices")
        if not count[0]:
            return []
        devices = self.ffi.new("VkPhysicalDevice[]", count[0])
        api.check(self.lib.vkEnumeratePhysicalDevices(self.handle, count, devices), "vkEnumeratePhysicalDevices")
        usable = [devices[i] for i in range(count[0]) if self.queue_family(devices[i]) is not None]
        return [device for device in usable if self.properties(device).apiVersion >= api.VERSION_1_2]

    def properties(self, device: Any) -> Any:
        """Return the properties of a physical device."""
        properties = self.ffi.new("VkPhysicalDeviceProperties*")
        self.lib.vkGetPhysicalDeviceProperties(device, properties)
        return properties

    def queue_family(self, device: Any) -> int | None:
        """Return the index of the queue family to use; None if no family can compute.

        The first family that can compute but not draw is used, because GPUs run it beside graphics. Without one, the
        first family that can compute is used.
        """
        count = self.ffi.new("uint32_t*")
        self.lib.vkGetPhysicalDeviceQueueFamilyProperties(device, count, self.ffi.NULL)
        families = self.ffi.new("VkQueueFamilyProperties[]", max(1, count[0]))
        self.lib.vkGetPhysicalDeviceQueueFamilyProperties(device, count, families)
        compute = [i for i in range(count[0]) if families[i].queueFlags & _COMPUTE]
        without_graphics = [i for i in compute if not families[i].queueFlags & _GRAPHICS]
        return next(iter(without_graphics or compute), None)


_lock = process_lock()  # guards `_instance` and `_owner`
_instance: Instance | None = None  # the only one of the process, None before the first use
_owner = 0  # id of the process that created `_instance`


def instance() -> Instance:
    """Return the instance of this process, created on first use.

    Raises DeviceUnavailableError without a loader or a driver.
    """
    global _instance, _owner
    with _lock:
        if _instance is None or _owner != os.getpid():  # a child of fork cannot use the parent's
            _instance, _owner = Instance(), os.getpid()
        return _instance
