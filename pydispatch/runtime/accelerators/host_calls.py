"""Host commands on accelerators: their operands, and the call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pydispatch._core.arrays import type_of
from pydispatch._core.commands import Custom
from pydispatch._core.host_command import Context as CommandContext
from pydispatch._core.host_command import Native, check_result, scalar_of
from pydispatch._core.trace import Kind
from pydispatch.errors import CommandError, InvalidArgumentError
from pydispatch.formats.program.opcodes import Access
from pydispatch.formats.program.tables import HostOperand
from pydispatch.runtime.accelerators import traced
from pydispatch.runtime.accelerators.plan import Blocks
from pydispatch.runtime.buffer import Buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class LinkedCommand:
    """Host command of a loaded program.

    Attributes:
        name: Its name in programs.
        operands: Its operands.
        function: Python function, or None for a C function.
        address: Address of a C function.
        context: Address that a C function is called with, as its registration states; 0 for none.
        synchronous: Whether all earlier work is complete when it is called.
    """

    name: str
    operands: Sequence[HostOperand]
    function: Callable[..., Any] | None
    address: int
    context: int
    synchronous: bool


class OperandMemory:
    """Memory of an operand, valid during the call of a host command; implements `runtime.buffer.Memory`.

    Attributes:
        size: Bytes of the operand.
        handle: Handle of the memory, or its address, for the driver.
        offset: Offset of the operand in the memory of that handle, in bytes.
    """

    def __init__(
        self, context: Any, block: Any, block_offset: int, size: int, address: tuple[int, int], access: Access
    ) -> None:
        """Create the memory of an operand.

        Args:
            context: The device.
            block: Block of device memory that contains the operand.
            block_offset: Offset of the operand in the block, in bytes.
            size: Bytes of the operand.
            address: (handle, offset), as `Surroundings.address_of` returns them: the VkBuffer that contains the block,
                and the offset of the operand in it; on CUDA, the address of the operand, and 0.
            access: Access of the host command to the operand; `write` refuses `Access.READ`.
        """
        self.handle, self.offset = address
        self.size, self._context, self._block, self._block_offset = size, context, block, block_offset
        self._access = access
        self._is_over = False  # set when the host command has returned: later accesses are refused

    @property
    def device_name(self) -> str:
        """Name of the device that has the memory, such as "cuda:0"."""
        return str(self._context.name)

    def view(self) -> memoryview | None:
        """Return None: arrays of operands are copies, because they may outlive the call."""
        return None

    def read(self, target: memoryview) -> None:
        """Copy the operand to `target`."""
        self._require_valid()
        mapped = self._context.view(self._block, self._block_offset + self.size)
        if mapped is None:
            self._context.copy_out(self._block, target, len(target), self._block_offset)
        else:
            target[:] = mapped[self._block_offset : self._block_offset + len(target)]

    def write(self, source: memoryview) -> None:
        """Copy `source` to the operand. Raise InvalidArgumentError for an operand that is only read."""
        self._require_valid()
        if self._access is Access.READ:
            raise InvalidArgumentError("upload: the program gives this operand to the command to be read only")
        # The first bytes of the block as host memory; None if the host cannot access the block.
        mapped = self._context.view(self._block, self._block_offset + self.size)
        if mapped is not None:
            mapped[self._block_offset : self._block_offset + len(source)] = source
            return
        if self._block_offset == 0:
            self._context.copy_in(self._block, source, len(source))
            return
        # `copy_in` writes from the start of a block: the device copies from a staging block to the operand.
        stage = self._context.acquire(len(source))
        try:
            self._context.copy_in(stage, source, len(source))
            self._context.copy(stage, self._block, len(source), to=self._block_offset)
        finally:
            self._context.release(stage)

    def _require_valid(self) -> None:
        """Raise InvalidArgumentError if the host command has returned."""
        if self._is_over:
            raise InvalidArgumentError("the host command that this buffer was given to has returned; keep a copy")

    def invalidate(self) -> None:
        """Refuse further use of the memory, because the host command has returned."""
        self._is_over = True


class OperandBuffer(Buffer):
    """Tensor operand of a host command. Its arrays are copies; `upload` writes it.

    is_written: whether the command may write the operand.
    """

    __slots__ = ("is_written",)

    def __init__(self, memory: OperandMemory, shape: tuple[int, ...], operand: HostOperand) -> None:
        """Create an operand. operand: its element type and access, as the program states them."""
        super().__init__(memory, shape, type_of(operand.dtype), memory.size)
        self.is_written = operand.access is not Access.READ

    def numpy(self) -> NDArray[Any]:
        """Return a copy of the content, read-only if the operand is."""
        array = self.download()
        array.flags.writeable = self.is_written
        return array


@dataclass(frozen=True)
class Surroundings:
    """Device state that a host command receives; `Executor.surroundings` creates it for each call of a command.

    Handles are those of the device's driver, as integers.

    Attributes:
        kind: Name of the kind of device, such as "cuda".
        context: The device.
        address_of: Returns, for a block and an offset in bytes, the handle of the memory and the offset in it: the
            VkBuffer or WGPUBuffer that contains the block; on other devices the address of the byte, and 0.
        stream: CUstream that the command enqueues its work on; None on devices other than CUDA.
        command_buffer: VkCommandBuffer or WGPUCommandEncoder that the command records its work into; None on other
            devices, and if all earlier work is complete when the command is called.
        handle: CUcontext, VkDevice or WGPUDevice; None for the PTX interpreter.
        current: Context manager that is active while the command runs. On CUDA it makes the CUcontext current in the
            thread; elsewhere it does nothing.
    """

    kind: str
    context: Any
    address_of: Callable[[Any, int], tuple[int, int]]
    stream: int | None = None
    command_buffer: int | None = None
    handle: int | None = None
    current: AbstractContextManager[Any] = field(default_factory=nullcontext)


class HostCalls:
    """Caller of the host commands of one program: functions of the host that a plan calls between dispatches.

    The executor calls `call` for each command of a plan. The device is current during the call, and the command's
    context and operands are invalid after it.

    Attributes:
        commands: The commands by their index in the program.
        names: Index of a public function in the program → its name, for messages.
    """

    def __init__(self, commands: Sequence[LinkedCommand], names: dict[int, str]) -> None:
        """Create a caller; no thread runs a command yet.

        commands: the commands by their index in the program. names: index of a public function → its name, for
        messages.
        """
        self.commands, self.names = commands, names
        self._inside: set[int] = set()  # ids of the threads that run a command

    def require_outside_host_command(self) -> None:
        """Raise InvalidArgumentError if this thread is running a host command of the program."""
        if threading.get_ident() in self._inside:
            raise InvalidArgumentError(
                "the program was called by a host command of its own; a command may call other programs"
            )

    def label(self, command: Custom) -> str:
        """Return the name of a host command for messages."""
        return f"host command '{self.commands[command.command].name}'"

    def call(
        self, function: int, command: Custom, blocks: Blocks, constants: bytes, surroundings: Surroundings
    ) -> None:
        """Call a host command, a function in Python or C. Raise CommandError, which names it, if it fails.

        A Python function is called as f(context, *operands): with the operands tensor x, scalar n, tensor y, it is
        f(context, x, n, y). The context has the handles of the device; it and the tensors are invalid after the call.

        Args:
            function: Index of the function whose plan contains the command.
            command: The command.
            blocks: Device memory of each buffer of the plan.
            constants: Push constants of the call, words of 32 bits, with the scalar operands.
            surroundings: State of the device for the command.
        """
        linked, thread = self.commands[command.command], threading.get_ident()
        tensors, scalars = self._operands(linked, command, blocks, constants, surroundings)
        context = CommandContext(
            surroundings.kind, linked.name, surroundings.stream, surroundings.command_buffer, surroundings.handle
        )
        try:
            self._inside.add(thread)  # until it returns, the command cannot call its own program in this thread
            # `current` makes the CUDA context current in this thread; on other devices it does nothing.
            with surroundings.current, traced.span(Kind.HOST, linked.name):
                if linked.function is None:
                    self._call_native(linked, tensors, scalars, surroundings)
                else:
                    # Merge tensors and scalars in the order of the signature.
                    next_tensors, next_scalars = iter(tensors), iter(scalars)
                    operands = [
                        next(next_scalars) if operand.sizes is None else next(next_tensors)
                        for operand in linked.operands
                    ]
                    check_result(linked.function(context, *operands), operands)
        except Exception as error:
            name = self.names.get(function)  # functions that procedures run have no name
            where = self.label(command) if name is None else f"function '{name}', {self.label(command)}"
            text = str(error) if isinstance(error, CommandError) else f"{type(error).__name__}: {error}"
            raise CommandError(f"{where}: {text}", linked.name) from error
        finally:
            self._inside.discard(thread)
            # The function may have kept its arguments: refuse their later use.
            context.end()
            for buffer in tensors:
                buffer.memory.invalidate()

    def _operands(
        self, linked: LinkedCommand, command: Custom, blocks: Blocks, constants: bytes, surroundings: Surroundings
    ) -> tuple[list[Any], list[Any]]:
        """Return the tensors of a host command as OperandBuffers, and its scalars as numbers, each in order.

        Args:
            linked: What the command's function takes: types and sizes of its operands, in order.
            command: The command of the program's plan. It has one slot (a part of a buffer) per tensor, the sizes of
                all tensors, concatenated, and two words of the constants per scalar.
            blocks: Device memory of each buffer of the call.
            constants: The 32-bit words of the call's constants.
            surroundings: The device and how operands are addressed in its memory.

        Example:
            The operands tensor of 2x3, scalar, tensor of 5 have two slots and the sizes (2, 3, 5). With first_constant
            4, words 4 and 5 are the scalar, low word first.
        """
        slots, sizes = iter(command.slots), iter(command.sizes)
        offset = 4 * command.first_constant  # of the next scalar in `constants`, in bytes
        tensors: list[Any] = []
        scalars: list[Any] = []
        for operand in linked.operands:
            if operand.sizes is None:  # a scalar
                scalars.append(scalar_of(operand.dtype, int.from_bytes(constants[offset : offset + 8], "little")))
                offset += 8  # two constant words for each scalar
                continue
            slot = next(slots)
            shape = tuple([next(sizes) for _ in operand.sizes])  # operand.sizes itself has -1 for dynamic sizes
            block = blocks[slot.buffer]
            address = surroundings.address_of(block, slot.offset)
            memory = OperandMemory(surroundings.context, block, slot.offset, slot.size, address, operand.access)
            tensors.append(OperandBuffer(memory, shape, operand))
        return tensors, scalars

    def _call_native(
        self, linked: LinkedCommand, tensors: list[Any], scalars: list[Any], surroundings: Surroundings
    ) -> None:
        """Call a C function with host copies of the tensors if it is synchronous, else with driver handles.

        Args:
            linked: The function, its operands in order, and whether it is synchronous.
            tensors, scalars: The operands of this call, OperandBuffers and numbers, each in order.
            surroundings: State of the device, with its handles.
        """
        native = Native(
            surroundings.kind, linked.name, surroundings.stream, surroundings.command_buffer, surroundings.handle
        )
        # Add the operands in the order of the signature.
        next_tensors, next_scalars = iter(tensors), iter(scalars)
        staged: list[tuple[Any, Any]] = []  # (operand, its copy in host memory)
        for operand in linked.operands:
            if operand.sizes is None:  # a scalar
                native.add_scalar(operand.dtype, next(next_scalars))
                continue
            buffer = next(next_tensors)
            data, offset = buffer.memory.handle, buffer.memory.offset
            if linked.synchronous:  # the function reads and writes memory of the host
                array = np.empty(max(1, buffer.nbytes), np.uint8)  # an empty operand has an address too
                data, offset = array.ctypes.data, 0
                staged.append((buffer, array))
                if operand.access & Access.READ:
                    buffer.memory.read(memoryview(cast(Any, array))[: buffer.nbytes])
            native.add_tensor(operand.dtype, buffer.shape, int(operand.access), buffer.nbytes, data, offset)
        native.call(linked.address, linked.context)
        # Copy the results back to the device.
        for buffer, array in staged:
            if buffer.is_written:
                buffer.memory.write(memoryview(cast(Any, array))[: buffer.nbytes])
