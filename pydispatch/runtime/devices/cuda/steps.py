"""Commands of a plan as operations of the CUDA driver, launched on a stream or added to a graph as nodes.

A step is created with its constant properties (kernel, grid, sizes). `bind` sets addresses, constants and fill
patterns, and returns whether they changed. A step belongs to one graph, or to one plan under the context's lock.
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
"""Result of a function of the CUDA driver: its status (CUresult), then the values that it returns."""
MAX_COPY_BYTES = 1 << 30
"""Bytes of one copy: a copy node of a graph describes one row of an image, whose width the driver limits."""
_DEVICE = "CU_MEMORYTYPE_DEVICE"
"""Kind of memory at both ends of a copy, a member of CUmemorytype: device memory."""


class Step(ABC):
    """Driver operation of a plan (kernel launch, copy or fill), launched on a stream or added to a graph as a node.

    `bind` sets the values of a call. Then `launch` enqueues the step, or `add` puts it into a graph; after a later
    `bind`, `update` changes its node there.

    Attributes:
        region: Index of its region in the plan. Steps of one region may run concurrently; regions run in order.
        name: Name of the step in messages and profiles.
    """

    region: int
    name: StepName

    @property
    def label(self) -> str:
        """Description for messages."""
        return self.name.label

    @abstractmethod
    def bind(self, addresses: Sequence[int], constants: bytes, fill_patterns: Sequence[int]) -> bool:
        """Set the values of one call, and return whether they differ from those that were bound before.

        If they differ, a graph node of this step must be updated.

        Args:
            addresses: Device address of each buffer of the plan.
            constants: Push constants of all dispatches of the plan, 4 bytes each.
            fill_patterns: Fill pattern of each command of the plan, as an integer; unused for other commands.
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
    """Step of a CUDA plan that launches a kernel, on a stream or as a node of a graph.

    Attributes:
        region: Index of its region in the plan. Steps of one region may run concurrently; regions run in order.
        name: Name of the step in messages and profiles.
        kernel: The loaded kernel.
        grid: Number of workgroups in x, y and z.
        first_constant: Index of the dispatch's first push constant, a 32-bit word, among those of the plan.
        slots: (buffer, byte offset) of each binding.
        arguments: Arguments of cuLaunchKernel that are constant: grid, block and bytes of shared memory.
        memory: Values of the kernel parameters, which the driver reads at each launch.
        packed: The last bound content of `memory`; empty before the first `bind`.
        pointers: Address in `memory` of each kernel parameter.
        parameters: Address of `pointers`: the `kernelParams` of cuLaunchKernel.
        node_params: The launch as parameters of a graph node.
    """

    def __init__(self, context: Context, command: commands.Dispatch, kernel: CudaKernel) -> None:
        """Prepare the launch of `command`; only the values of the kernel parameters are left to `bind`.

        The driver reads the parameters through an array of pointers. For a kernel of two bindings and one constant,
        `memory` has 20 bytes: two addresses of 8 bytes, then 4 bytes. `pointers` has the addresses of bytes 0, 8, 16.

        Args:
            context: The device.
            command: The dispatch, which states grid, bindings and constants.
            kernel: Its loaded kernel, whose `packer` has the offsets of the parameters.
        """
        driver, packer = context.driver, kernel.packer
        self.region, self.kernel = command.region, kernel
        label = f"{kernel.label} {'x'.join(map(str, command.grid))}"
        self.name = StepName(label, kernel.executable, kernel.export)
        self.grid, self.first_constant = command.grid, command.first_constant
        self.slots = [(slot.buffer, slot.offset) for slot in command.slots]
        # The values of the kernel parameters, and the array of their addresses that the driver receives.
        self.memory = bytearray(max(1, packer.size))  # not empty, because ctypes has no address of empty memory
        self.packed = b""  # nothing is bound yet
        memory_address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        pointer_array = ctypes.c_void_p * max(1, len(packer.offsets))  # a type
        self.pointers = pointer_array(*[memory_address + offset for offset in packer.offsets])
        # `struct` functions of `bind`: one writes the parameters to `memory`, the other reads the constants of a call.
        self.pack_into, self.unpack_from = packer.pack_into, packer.unpack_from
        self.parameters = ctypes.addressof(self.pointers)
        # The launch as a call, and as a graph node.
        self.driver = driver
        self.launch_kernel = driver.cuLaunchKernel
        self.arguments = (*self.grid, *kernel.block, kernel.shared)
        params = self.node_params = driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = kernel.function
        params.gridDimX, params.gridDimY, params.gridDimZ = self.grid
        params.blockDimX, params.blockDimY, params.blockDimZ = kernel.block
        # `extra` is the driver's alternative to `kernelParams`, and must be null.
        params.sharedMemBytes, params.kernelParams, params.extra = kernel.shared, self.parameters, 0

    def bind(self, addresses: Sequence[int], constants: bytes, fill_patterns: Sequence[int]) -> bool:
        """Write the kernel parameters to `memory`: binding addresses, then push constants. Return whether they changed.

        addresses: device address of each buffer of the plan. constants: push constants of all dispatches, 4 bytes each.
        fill_patterns: unused.
        """
        memory = self.memory
        self.pack_into(
            memory, 0, *[addresses[buffer] + offset for buffer, offset in self.slots],
            *self.unpack_from(constants, 4 * self.first_constant),
        )  # fmt: skip
        packed = bytes(memory)
        if packed == self.packed:
            return False
        self.packed = packed
        return True

    def launch(self, stream: Any) -> Result:
        """Launch the kernel on a stream."""
        extra = 0  # alternative to `kernelParams`, unused
        result: Result = self.launch_kernel(self.kernel.function, *self.arguments, stream, self.parameters, extra)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add the launch to a graph as a node that depends on the nodes `after`."""
        result: Result = self.driver.cuGraphAddKernelNode(graph, list(after), len(after), self.node_params)
        return result

    def update(self, executable: Any, node: Any) -> Result:
        """Set the arguments of the launch in node `node` of an executable graph."""
        result: Result = self.driver.cuGraphExecKernelNodeSetParams(executable, node, self.node_params)
        return result


class Copy(Step):
    """Step of a CUDA plan that copies a range of one buffer to another range, which does not overlap it."""

    def __init__(
        self, context: Context, region: int, source: tuple[int, int], target: tuple[int, int], size: int
    ) -> None:
        """Create a copy.

        Args:
            context: The device.
            region: Index of its region: steps of one region may run concurrently.
            source: (buffer index, byte offset) that is read.
            target: (buffer index, byte offset) that is written.
            size: Number of bytes.
        """
        driver = self.driver = context.driver
        self.context, self.region, self.size = context, region, size
        self.source, self.target, self.name = source, target, StepName(f"copy {size} bytes")
        self.bound_values = (-1, -1)  # addresses of source and target; set by bind()
        params = self.node_params = driver.CUDA_MEMCPY3D()
        params.srcMemoryType = params.dstMemoryType = getattr(driver.CUmemorytype, _DEVICE)
        params.WidthInBytes, params.Height, params.Depth = size, 1, 1  # an image of one row
        params.srcPitch = params.dstPitch = size
        params.srcHeight = params.dstHeight = 1

    def bind(self, addresses: Sequence[int], constants: bytes, fill_patterns: Sequence[int]) -> bool:
        """Set the addresses of source and target. Return whether they have changed.

        addresses: device address of each buffer of the plan. The other arguments are unused.
        """
        (source, source_offset), (target, target_offset) = self.source, self.target
        new_values = addresses[source] + source_offset, addresses[target] + target_offset
        if new_values == self.bound_values:
            return False
        self.bound_values = new_values
        self.node_params.srcDevice, self.node_params.dstDevice = new_values
        return True

    def launch(self, stream: Any) -> Result:
        """Enqueue the copy on a stream."""
        source, target = self.bound_values
        result: Result = self.driver.cuMemcpyDtoDAsync(target, source, self.size, stream)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add a node to a graph, which runs after the nodes `after`."""
        result: Result = self.driver.cuGraphAddMemcpyNode(
            graph, list(after), len(after), self.node_params, self.context.handle
        )
        return result

    def update(self, executable: Any, node: Any) -> Result:
        """Set the addresses of the copy in an executable graph."""
        result: Result = self.driver.cuGraphExecMemcpyNodeSetParams(
            executable, node, self.node_params, self.context.handle
        )
        return result


class Fill(Step):
    """Fill of memory with one element of 1, 2 or 4 bytes: adjacent elements, or one at each multiple of `pitch`.

    A fill command with an 8-byte pattern, for example, needs two of these steps: both write elements of 4 bytes with a
    pitch of 8 bytes, one with pattern bytes 0 to 3, the other with pattern bytes 4 to 7.
    """

    def __init__(
        self, context: Context, region: int, command_index: int, target: tuple[int, int], *, element_bytes: int,
        count: int, pattern_byte: int = 0, pitch: int = 0,
    ) -> None:  # fmt: skip
        """Create a fill of `count` elements that all have the same value.

        For example, element_bytes=1, count=3, pattern_byte=1, pitch=2 at offset 4 of a buffer writes byte 1 of the
        pattern, the second lowest, to bytes 5, 7 and 9.

        Args:
            context: The device.
            region: Index of its region: steps of one region may run concurrently.
            command_index: Index of the fill command in the plan, and of its pattern in the `fill_patterns` of `bind`.
            target: (buffer index, byte offset) of the command's memory.
            element_bytes: Bytes of an element: 1, 2 or 4.
            count: Number of elements.
            pattern_byte: Index of the first byte of the pattern that elements have; 0 is the lowest byte.
            pitch: Bytes from one element to the next: the size of the pattern if an element is only a part of it, and
                other fills write the rest; 0 if the elements are adjacent.
        """
        driver = self.driver = context.driver
        self.context, self.region, self.command_index, self.target = context, region, command_index, target
        self.element_bytes, self.count, self.pattern_byte, self.pitch = element_bytes, count, pattern_byte, pitch
        self.name = StepName(f"fill {element_bytes * count} bytes")
        self.bound_values = (-1, -1)  # address and element value; set by bind()
        params = self.node_params = driver.CUDA_MEMSET_NODE_PARAMS()
        params.elementSize, params.pitch = element_bytes, pitch
        # A memset node fills an image: `count` rows of one element with a pitch, else one row.
        params.width, params.height = (1, count) if pitch else (count, 1)

    def bind(self, addresses: Sequence[int], constants: bytes, fill_patterns: Sequence[int]) -> bool:
        """Set the address of the first element and the value of all elements. Return whether they have changed.

        The elements have the bytes of the command's pattern from `pattern_byte` on, so the first one is
        `pattern_byte` bytes after the start of the memory.

        addresses: device address of each buffer of the plan. constants: unused. fill_patterns: fill pattern of each
        command of the plan, as an integer.
        """
        buffer, offset = self.target
        element_mask = (1 << 8 * self.element_bytes) - 1
        value = (fill_patterns[self.command_index] >> (8 * self.pattern_byte)) & element_mask
        new_values = addresses[buffer] + offset + self.pattern_byte, value
        if new_values == self.bound_values:
            return False
        self.bound_values = new_values
        self.node_params.dst, self.node_params.value = new_values
        return True

    def launch(self, stream: Any) -> Result:
        """Enqueue the fill on a stream, as a 2-D fill of width 1 if the elements are not adjacent."""
        driver, (address, value) = self.driver, self.bound_values
        result: Result
        if self.pitch:
            # Elements of 2 bytes are always adjacent: patterns are only divided into elements of 1 or 4 bytes.
            memset_of_size = {1: driver.cuMemsetD2D8Async, 4: driver.cuMemsetD2D32Async}
            width, height = 1, self.count
            result = memset_of_size[self.element_bytes](address, self.pitch, value, width, height, stream)
        else:
            memset_of_size = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, 4: driver.cuMemsetD32Async}
            result = memset_of_size[self.element_bytes](address, value, self.count, stream)
        return result

    def add(self, graph: Any, after: Sequence[Any]) -> Result:
        """Add a node to a graph, which runs after the nodes `after`."""
        result: Result = self.driver.cuGraphAddMemsetNode(
            graph, list(after), len(after), self.node_params, self.context.handle
        )
        return result

    def update(self, executable: Any, node: Any) -> Result:
        """Set the address and the value of the fill in an executable graph."""
        result: Result = self.driver.cuGraphExecMemsetNodeSetParams(
            executable, node, self.node_params, self.context.handle
        )
        return result


def fills(context: Context, command: commands.Fill, index: int, is_deferred: bool) -> list[Fill]:
    """Return the fills that implement a fill command whose pattern has 1, 2, 4 or 8 bytes, at any alignment.

    CUDA fills with elements of 1, 2 or 4 bytes that are aligned to their size. A pattern that is no such element is
    divided into several, each of which has a fill of its own with the pattern's size as its pitch. For example, the
    2-byte pattern (1, 2) from byte 5 on is a fill of bytes 5, 7, 9, ... with 1 and one of bytes 6, 8, 10, ... with 2.

    Args:
        context: The device.
        command: The fill command.
        index: Index of the command in the plan.
        is_deferred: Whether the pattern depends on the call, so that it cannot be simplified here.
    """
    offset, length = command.target.offset, command.target.size
    size = command.pattern_size
    pattern_value = command.pattern & ((1 << 8 * size) - 1)
    pattern_bytes = pattern_value.to_bytes(size, "little")

    def fill(element_bytes: int, pattern_byte: int = 0, pitch: int = 0) -> Fill:
        """Return the fill of the command's memory with elements that begin with byte `pattern_byte` of the pattern.

        pitch: bytes from one element to the next; 0 if they are adjacent.
        """
        return Fill(
            context, command.region, index, (command.target.buffer, offset), element_bytes=element_bytes,
            count=length // (pitch or element_bytes), pattern_byte=pattern_byte, pitch=pitch,
        )  # fmt: skip

    # The first byte repeated, such as zeros: at any alignment.
    if not is_deferred and pattern_bytes == pattern_bytes[:1] * size:
        return [fill(1)]
    # 8 bytes at a multiple of 4: a 4-byte element if the halves are equal, else one for each half.
    if size == 8 and offset % 4 == 0:
        if not is_deferred and pattern_bytes[:4] == pattern_bytes[4:]:
            return [fill(4)]
        return [fill(4, pattern_byte, pitch=8) for pattern_byte in (0, 4)]
    # The pattern is an aligned element.
    if size in (1, 2, 4) and offset % size == 0:
        return [fill(size)]
    # Unaligned: one element for each byte of the pattern.
    return [fill(1, pattern_byte, pitch=size) for pattern_byte in range(size)]


def copies(context: Context, region: int, source: tuple[int, int], target: tuple[int, int], size: int) -> list[Step]:
    """Return a copy of `size` bytes as copies of at most `MAX_COPY_BYTES` each, the limit of a graph's copy node.

    source, target: (buffer index, byte offset); the ranges do not overlap. region: index of the copies' region in the
    plan: commands of one region may run concurrently.
    """
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
    context: Context, plan: Sequence[commands.Command], is_deferred: bool, modules: Modules, scratch_buffer: int
) -> tuple[list[list[Step]], int]:
    """Return the steps of each command, and the bytes of scratch memory that they need.

    A step is one operation of the driver: the launch of a kernel, a copy or a fill. Steps of one region may run
    concurrently. A copy between overlapping ranges of a buffer becomes two copies through the scratch memory.

    Args:
        context: The device.
        plan: The commands.
        is_deferred: Whether fill patterns depend on the call, so that they are known only in `Step.bind`.
        modules: The loaded kernels.
        scratch_buffer: Index that the scratch memory has among the buffers of the plan.
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
            source = command.source.buffer, command.source.offset
            target = command.target.buffer, command.target.offset
            size, region = command.source.size, command.region
            is_one_buffer = command.source.buffer == command.target.buffer
            distance = abs(command.source.offset - command.target.offset)
            if source == target:
                steps.append([])  # a copy of bytes to themselves
            elif not is_one_buffer or distance >= size:
                steps.append(copies(context, region, source, target, size))
            else:
                own_scratch = scratch_buffer, scratch_bytes  # (buffer index, byte offset)
                to_scratch = copies(context, region, source, own_scratch, size)
                steps.append(to_scratch + copies(context, region, own_scratch, target, size))
                # Copies that run concurrently have ranges of their own, aligned to 256 bytes.
                scratch_bytes += -(-size // 256) * 256
    return steps, scratch_bytes
