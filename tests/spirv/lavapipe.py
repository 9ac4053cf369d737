"""Runs a shader on the CPU's Vulkan device, with the validation layer on, through the plain `vulkan` package."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np
import vulkan as vk

from pydispatch.formats.spirv.check import check

WHOLE = 0xFFFFFFFFFFFFFFFF
MAX_BUFFERS = 32
LAYER = "VK_LAYER_KHRONOS_validation"


def validate(data: bytes, environment: str = "vulkan1.1") -> None:
    """AssertionError with what spirv-val says and the text of the module."""
    check(data)  # what spirv-val accepts, so do we
    command = ["spirv-val", "--target-env", environment, "-"]
    done = subprocess.run(command, input=data, capture_output=True)
    if done.returncode:
        text = subprocess.run(["spirv-dis", "-"], input=data, capture_output=True).stdout.decode()
        raise AssertionError(f"{done.stderr.decode()}\n{text}")


class Lavapipe:
    """One device. `said`: what the validation layer reported."""

    def __init__(self) -> None:
        self.said: list[str] = []
        application = vk.VkApplicationInfo(apiVersion=vk.VK_MAKE_VERSION(1, 3, 0))
        self.instance = vk.vkCreateInstance(
            vk.VkInstanceCreateInfo(
                pApplicationInfo=application,
                ppEnabledLayerNames=[LAYER],
                ppEnabledExtensionNames=["VK_EXT_debug_utils"],
            ),
            None,
        )
        create = vk.vkGetInstanceProcAddr(self.instance, "vkCreateDebugUtilsMessengerEXT")
        self._messenger = create(
            self.instance,
            vk.VkDebugUtilsMessengerCreateInfoEXT(messageSeverity=0x1100, messageType=7, pfnUserCallback=self._heard),
            None,
        )
        found = [
            p for p in vk.vkEnumeratePhysicalDevices(self.instance)
            if "llvmpipe" in vk.vkGetPhysicalDeviceProperties(p).deviceName
        ]  # fmt: skip
        assert found, "lavapipe is not installed: apt-get install mesa-vulkan-drivers"
        self.physical = found[0]
        features = vk.VkPhysicalDeviceFeatures(shaderInt64=1, shaderFloat64=1, shaderInt16=1)
        v12 = vk.VkPhysicalDeviceVulkan12Features(
            storageBuffer8BitAccess=1, shaderBufferInt64Atomics=1, shaderSharedInt64Atomics=1
        )
        v11 = vk.VkPhysicalDeviceVulkan11Features(pNext=v12, storageBuffer16BitAccess=1)
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=0, queueCount=1, pQueuePriorities=[1.0])
        self.device = vk.vkCreateDevice(
            self.physical,
            vk.VkDeviceCreateInfo(pNext=v11, pQueueCreateInfos=[queue], pEnabledFeatures=features),
            None,
        )
        self.queue = vk.vkGetDeviceQueue(self.device, 0, 0)
        self.pool = vk.vkCreateCommandPool(self.device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=0), None)

    def _heard(self, severity: int, kind: int, data: Any, user: Any) -> int:
        self.said.append(vk.ffi.string(data.pMessage).decode())
        return 0

    def buffer(self, data: np.ndarray) -> tuple[Any, Any, Any]:
        """(buffer, memory, mapping) with the bytes of an array."""
        size = max(16, -(-data.nbytes // 4) * 4)  # whole words, as the device binds them
        usage = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
        made = vk.vkCreateBuffer(self.device, vk.VkBufferCreateInfo(size=size, usage=usage), None)
        need = vk.vkGetBufferMemoryRequirements(self.device, made)
        memory = vk.vkAllocateMemory(self.device, vk.VkMemoryAllocateInfo(allocationSize=need.size), None)
        vk.vkBindBufferMemory(self.device, made, memory, 0)
        mapped = vk.vkMapMemory(self.device, memory, 0, size, 0)
        np.frombuffer(mapped, np.uint8)[: data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)
        return made, memory, mapped

    def run(
        self,
        code: bytes,
        entry: str,
        grid: Sequence[int],
        buffers: Sequence[np.ndarray],
        words: Sequence[int] = (),
        specialization: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """The buffers after one dispatch. AssertionError for whatever the validation layer finds."""
        assert len(buffers) <= MAX_BUFFERS, f"{len(buffers)} buffers, the device has {MAX_BUFFERS}"
        self.said.clear()
        d = self.device
        bindings = [vk.VkDescriptorSetLayoutBinding(binding=i, descriptorType=7, descriptorCount=1, stageFlags=32)
                    for i in range(len(buffers))]  # fmt: skip
        set_layout = vk.vkCreateDescriptorSetLayout(d, vk.VkDescriptorSetLayoutCreateInfo(pBindings=bindings), None)
        push = [vk.VkPushConstantRange(stageFlags=32, offset=0, size=4 * len(words))] if words else []
        layout = vk.vkCreatePipelineLayout(
            d, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[set_layout], pPushConstantRanges=push), None
        )
        shader = vk.vkCreateShaderModule(d, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None)
        special = None
        if specialization:
            values = np.array(specialization, np.uint32)
            entries = [vk.VkSpecializationMapEntry(constantID=i, offset=4 * i, size=4) for i in range(len(values))]
            special = vk.VkSpecializationInfo(
                pMapEntries=entries, dataSize=values.nbytes, pData=vk.ffi.from_buffer(values)
            )
        stage = vk.VkPipelineShaderStageCreateInfo(stage=32, module=shader, pName=entry, pSpecializationInfo=special)
        pipeline = vk.vkCreateComputePipelines(
            d, None, 1, [vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)], None
        )[0]
        made = [self.buffer(b) for b in buffers]
        sizes = [vk.VkDescriptorPoolSize(type=7, descriptorCount=max(1, len(buffers)))]
        pool = vk.vkCreateDescriptorPool(d, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=sizes), None)
        sets = vk.vkAllocateDescriptorSets(
            d, vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[set_layout])
        )
        for number, (buffer, _, _) in enumerate(made):
            info = vk.VkDescriptorBufferInfo(buffer=buffer, offset=0, range=WHOLE)
            write = vk.VkWriteDescriptorSet(
                dstSet=sets[0], dstBinding=number, descriptorType=7, descriptorCount=1, pBufferInfo=[info]
            )
            vk.vkUpdateDescriptorSets(d, 1, [write], 0, None)
        commands = vk.vkAllocateCommandBuffers(
            d, vk.VkCommandBufferAllocateInfo(commandPool=self.pool, level=0, commandBufferCount=1)
        )
        vk.vkBeginCommandBuffer(commands[0], vk.VkCommandBufferBeginInfo(flags=1))
        vk.vkCmdBindPipeline(commands[0], 1, pipeline)
        vk.vkCmdBindDescriptorSets(commands[0], 1, layout, 0, 1, sets, 0, None)
        if words:
            values = np.array(words, np.uint32)
            vk.vkCmdPushConstants(commands[0], layout, 32, 0, values.nbytes, vk.ffi.from_buffer(values))
        vk.vkCmdDispatch(commands[0], *grid)
        vk.vkEndCommandBuffer(commands[0])
        vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands[0]])], None)
        vk.vkQueueWaitIdle(self.queue)
        results = [np.frombuffer(bytes(m[: b.nbytes]), b.dtype).reshape(b.shape)
                   for b, (_, _, m) in zip(buffers, made, strict=True)]  # fmt: skip
        for buffer, memory, _ in made:
            vk.vkDestroyBuffer(d, buffer, None)
            vk.vkFreeMemory(d, memory, None)
        vk.vkDestroyDescriptorPool(d, pool, None)
        vk.vkDestroyPipeline(d, pipeline, None)
        vk.vkDestroyShaderModule(d, shader, None)
        vk.vkDestroyPipelineLayout(d, layout, None)
        vk.vkDestroyDescriptorSetLayout(d, set_layout, None)
        assert not self.said, "\n".join(self.said)
        return results


@functools.cache
def device() -> Lavapipe:
    """The device, made once."""
    return Lavapipe()
