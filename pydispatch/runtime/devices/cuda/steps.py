"""Commands of a plan as driver operations, which are launched on a stream or added to a graph as nodes.

A step is created with its constant properties (kernel, grid, sizes). `bind` sets addresses, constants and patterns, and
returns whether they changed. A step belongs to one graph, or to one plan under the context's lock.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydispatch._core import commands
from pydispatch.runtime.devices.cuda.context import StepName

if TYPE_CHECKING:
    from pydispatch.runtime.devices.cuda.context import Context
    from pydispatch.runtime.devices.cuda.modules import CudaKernel, Modules

Result = tuple[Any, ...]
"""Of a function of the driver: a status, then what it gives."""
MAX_COPY_BYTES = 1 << 30
"""Bytes of one copy: a copy node of a graph describes one row of an image, whose width the driver limits."""
_DEVICE = "CU_MEMORYTYPE_DEVICE"


class Step(ABC):
    """Driver operation of a plan: a launch on a stream or a graph node. Steps of one region may run concurrently."""

    region: int
    name: StepName

    @property
    def label(self) -> str:
        """Description for messages."""
        return self.name.label

    @abstractmethod
    def bind(self, addresses: Sequence[int], constants: bytes, patterns: Sequence[int]) -> bool:
        """Set the addresses of the plan's buffers, constants and patterns; return whether a graph node must be
        updated.
        """

    @abstractmethod
    def launch(self, stream: Any) -> Result:
        """Enqueue the step on a stream and return the driver's result. The context must be current."""

    @abstractmethod
    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add the step to a graph as a node that depends on the nodes `after`, and return the driver's result."""

    @abstractmethod
    def update(self, executable: Any, node: Any) -> Result:
        """Update the node of an instantiated graph to the bound values, and return the driver's result."""


class Dispatch(Step):
    """Kernel launch. The driver reads the parameters from `memory`, which this object owns."""

    def __init__(self, context: Context, command: commands.Dispatch, kernel: CudaKernel) -> None:
        driver, packer = context.driver, kernel.packer
        self.region, self.kernel = command.region, kernel
        label = f"{kernel.label} {'x'.join(map(str, command.grid))}"
        self.name = StepName(label, kernel.executable, kernel.export)
        self.grid, self.first = command.grid, command.first_constant
        self.slots = [(slot.buffer, slot.offset) for slot in command.slots]
        self.memory = bytearray(max(1, packer.size))
        self.packed = b""
        memory_address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.pointers = (ctypes.c_void_p * max(1, len(packer.offsets)))(
            *[memory_address + offset for offset in packer.offsets]
        )
        self.pack_into, self.unpack_from = packer.pack_into, packer.unpack_from
        self.parameters = ctypes.addressof(self.pointers)
        self.driver = driver
        self.launch_kernel = driver.cuLaunchKernel
        self.arguments = (*self.grid, *kernel.block, kernel.shared)
        node = self.node = driver.CUDA_KERNEL_NODE_PARAMS()
        node.func = kernel.function
        node.gridDimX, node.gridDimY, node.gridDimZ = self.grid
        node.blockDimX, node.blockDimY, node.blockDimZ = kernel.block
        node.sharedMemBytes, node.kernelParams, node.extra = kernel.shared, self.parameters, 0

    def bind(self, addresses: Sequence[int], constants: bytes, patterns: Sequence[int]) -> bool:
        """Write the parameters of the kernel. Return whether they have changed."""
        memory = self.memory
        self.pack_into(
            memory, 0, *[addresses[buffer] + offset for buffer, offset in self.slots],
            *self.unpack_from(constants, 4 * self.first),
        )  # fmt: skip
        packed = bytes(memory)
        if packed == self.packed:
            return False
        self.packed = packed
        return True

    def launch(self, stream: Any) -> Result:
        result: Result = self.launch_kernel(self.kernel.function, *self.arguments, stream, self.parameters, 0)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        result: Result = self.driver.cuGraphAddKernelNode(graph, list(after), len(after), self.node)
        return result

    def update(self, executable: Any, node: Any) -> Result:
        result: Result = self.driver.cuGraphExecKernelNodeSetParams(executable, node, self.node)
        return result


class Copy(Step):
    """Copy between ranges that do not overlap. source, target: (buffer, offset)."""

    def __init__(
        self, context: Context, region: int, source: tuple[int, int], target: tuple[int, int], size: int
    ) -> None:
        driver = self.driver = context.driver
        self.context, self.region, self.size = context, region, size
        self.source, self.target, self.name = source, target, StepName(f"copy {size} bytes")
        self.bound_values = (-1, -1)
        node = self.node = driver.CUDA_MEMCPY3D()
        node.srcMemoryType = node.dstMemoryType = getattr(driver.CUmemorytype, _DEVICE)
        node.WidthInBytes, node.Height, node.Depth = size, 1, 1
        node.srcPitch = node.dstPitch = size
        node.srcHeight = node.dstHeight = 1

    def bind(self, addresses: Sequence[int], constants: bytes, patterns: Sequence[int]) -> bool:
        """Set the addresses. Return whether they have changed."""
        (source, at), (target, to) = self.source, self.target
        bound = addresses[source] + at, addresses[target] + to
        if bound == self.bound_values:
            return False
        self.bound_values = bound
        self.node.srcDevice, self.node.dstDevice = bound
        return True

    def launch(self, stream: Any) -> Result:
        source, target = self.bound_values
        result: Result = self.driver.cuMemcpyDtoDAsync(target, source, self.size, stream)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add a node to a graph, which runs after the nodes `after`."""
        result: Result = self.driver.cuGraphAddMemcpyNode(
            graph, list(after), len(after), self.node, self.context.handle
        )
        return result

    def update(self, executable: Any, node: Any) -> Result:
        result: Result = self.driver.cuGraphExecMemcpyNodeSetParams(executable, node, self.node, self.context.handle)
        return result


class Fill(Step):
    """Fill with elements of 1, 2 or 4 bytes. A fill with a pattern of another size is several steps, each of which
    writes some bytes of the pattern.

    Args:
        context: The device.
        region: Number of its region: steps of one region may run concurrently.
        command_index: Index of the command, and of its pattern among those of a run.
        target: Index of the buffer, and byte offset in it.
        element: Bytes of an element.
        count: Number of elements.
        part: Bytes of the pattern, lowest first, that precede those of an element.
        pitch: Bytes between elements; 0 if they are adjacent.
    """

    def __init__(
        self, context: Context, region: int, command_index: int, target: tuple[int, int], element: int, count: int,
        part: int = 0, pitch: int = 0,
    ) -> None:  # fmt: skip
        driver = self.driver = context.driver
        self.context, self.region, self.command_index, self.target = context, region, command_index, target
        self.element, self.count, self.part, self.pitch = element, count, part, pitch
        self.name = StepName(f"fill {element * count} bytes")
        self.bound_values = (-1, -1)
        node = self.node = driver.CUDA_MEMSET_NODE_PARAMS()
        node.elementSize, node.pitch = element, pitch
        node.width, node.height = (1, count) if pitch else (count, 1)

    def bind(self, addresses: Sequence[int], constants: bytes, patterns: Sequence[int]) -> bool:
        """Set the address and the value of an element. Return whether they have changed.

        addresses: by buffer. patterns: by command, as integers.
        """
        buffer, offset = self.target
        element_mask = (1 << 8 * self.element) - 1
        value = patterns[self.command_index] >> 8 * self.part & element_mask
        bound = addresses[buffer] + offset + self.part, value
        if bound == self.bound_values:
            return False
        self.bound_values = bound
        self.node.dst, self.node.value = bound
        return True

    def launch(self, stream: Any) -> Result:
        """Enqueue the fill on a stream."""
        driver, (address, value) = self.driver, self.bound_values
        result: Result
        if self.pitch:
            function = {1: driver.cuMemsetD2D8Async, 4: driver.cuMemsetD2D32Async}[self.element]
            result = function(address, self.pitch, value, 1, self.count, stream)
        else:
            function = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, 4: driver.cuMemsetD32Async}[self.element]
            result = function(address, value, self.count, stream)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add a node to a graph, which runs after the nodes `after`."""
        result: Result = self.driver.cuGraphAddMemsetNode(
            graph, list(after), len(after), self.node, self.context.handle
        )
        return result

    def update(self, executable: Any, node: Any) -> Result:
        result: Result = self.driver.cuGraphExecMemsetNodeSetParams(executable, node, self.node, self.context.handle)
        return result


def fills(context: Context, command: commands.Fill, index: int, is_deferred: bool) -> list[Fill]:
    """Return the fills that implement a fill command whose pattern has 1, 2, 4 or 8 bytes, at any alignment.

    CUDA fills with elements of 1, 2 or 4 bytes that are aligned to their size. Other patterns are divided into such
    elements, each of which has a fill of its own with the pattern's size as its pitch.

    Args:
        context: The device.
        command: The fill command.
        index: Position of the command in the plan.
        is_deferred: Whether the pattern depends on the call, so that it cannot be simplified here.
    """
    offset, length = command.target.offset, command.target.size
    region, size = command.region, command.pattern_size
    target, pattern_value = (command.target.buffer, offset), command.pattern & (1 << 8 * size) - 1
    pattern_bytes = pattern_value.to_bytes(size, "little")
    if not is_deferred and pattern_bytes == pattern_bytes[:1] * size:
        return [Fill(context, region, index, target, 1, length)]
    if size == 8 and offset % 4 == 0:
        if not is_deferred and pattern_bytes[:4] == pattern_bytes[4:]:
            return [Fill(context, region, index, target, 4, length // 4)]
        return [Fill(context, region, index, target, 4, length // 8, part, 8) for part in (0, 4)]
    if size in (1, 2, 4) and offset % size == 0:
        return [Fill(context, region, index, target, size, length // size)]
    return [Fill(context, region, index, target, 1, length // size, part, size) for part in range(size)]


def copies(context: Context, region: int, source: tuple[int, int], target: tuple[int, int], size: int) -> list[Step]:
    """Return copies of at most `MAX_COPY_BYTES` each, which is the limit of a graph's copy node."""
    (source_buffer, source_offset), (target_buffer, target_offset) = source, target
    return [
        Copy(
            context,
            region,
            (source_buffer, source_offset + copied),
            (target_buffer, target_offset + copied),
            min(MAX_COPY_BYTES, size - copied),
        )
        for copied in range(0, size, MAX_COPY_BYTES)
    ]


def steps_of(
    context: Context, plan: Sequence[commands.Command], is_deferred: bool, modules: Modules, scratch: int
) -> tuple[list[list[Step]], int]:
    """Return the steps of each command, and the bytes of scratch memory that they need.

    A copy between overlapping ranges of a buffer becomes two copies through the scratch memory. scratch: buffer index
    of that memory.
    """
    steps: list[list[Step]] = []
    scratch_bytes = 0
    for index, command in enumerate(plan):
        if isinstance(command, commands.Dispatch):
            kernel = modules.kernel_of(command)
            modules.check_grid(kernel, command.grid)
            steps.append([Dispatch(context, command, kernel)])
        elif isinstance(command, commands.Fill):
            steps.append(list(fills(context, command, index, is_deferred)))
        else:
            assert isinstance(command, commands.Copy)
            source, source_offset, size = command.source.buffer, command.source.offset, command.source.size
            target, target_offset = command.target.buffer, command.target.offset
            region = command.region
            if source != target or abs(source_offset - target_offset) >= size:
                steps.append(copies(context, region, (source, source_offset), (target, target_offset), size))
            elif source_offset == target_offset:
                steps.append([])
            else:
                to_scratch = copies(context, region, (source, source_offset), (scratch, scratch_bytes), size)
                steps.append(
                    to_scratch + copies(context, region, (scratch, scratch_bytes), (target, target_offset), size)
                )
                scratch_bytes += -(-size // 256) * 256
    return steps, scratch_bytes
