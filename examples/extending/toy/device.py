"""A device that runs the code of toy/target.py. It opens as `pydispatch.device("toy")`."""

import numpy as np
from pydispatch._core.commands import Copy, Dispatch, Fill
from pydispatch._core.profile import Timing

from pydispatch.errors import DeviceUnavailableError
from pydispatch.runtime.accelerators import context, execute
from pydispatch.runtime.accelerators.context import view_of
from pydispatch.runtime.accelerators.device import AcceleratorDevice
from pydispatch.runtime.accelerators.plan import label
from pydispatch.runtime.options import check_options
from pydispatch.runtime.program.variants import DeviceProperties
from toy.interpreter import Kernel

FORMAT = "toy-kernel-ir"
"""Format of the code in an artifact, as toy/target.py writes it."""


def available():
    """Return the names of the devices of this kind that can be opened here."""
    return ["toy"]


def open(name, options):
    """Open the device. It has no options, and any is refused."""
    check_options("toy", options, known=())
    return ToyDevice("toy", Context(), Language())


class Block:
    """One allocation. Its number identifies it in the keys of prepared calls, so no number is used twice."""

    numbers = iter(range(1, 2**62))

    def __init__(self, size):
        """Create a block of `size` zero bytes."""
        self.number, self.bytes = next(self.numbers), np.zeros(size, np.uint8)


class Context(context.Context):
    """The memory of the device, which is memory of the process. The garbage collector frees blocks.

    Work is complete when it is submitted, so nothing waits. Offsets `at` and `to` are in bytes.
    """

    name = "toy"
    closed = False
    transfers = context.Transfers()

    def acquire(self, size):
        """Return a block of `size` bytes, all zero."""
        return Block(size)

    def release(self, block):
        """Do nothing: the garbage collector frees a block when nothing refers to it."""

    def copy_in(self, block, source, size):
        """Copy host memory to the start of a block, and count the transfer."""
        self.transfers.add("to_device", size)
        block.bytes[:size] = np.frombuffer(view_of(source, size), np.uint8)

    def copy_out(self, block, target, size, at=0):
        """Copy bytes of a block, from byte `at` on, to host memory, and count the transfer."""
        self.transfers.add("from_device", size)
        view_of(target, size, writable=True)[:] = block.bytes[at : at + size].data

    def copy(self, source, target, size, at=0, to=0):
        """Copy `size` bytes from byte `at` of the block `source` to byte `to` of the block `target`."""
        target.bytes[to : to + size] = source.bytes[at : at + size]

    def view(self, block, size):
        """Return the first `size` bytes of a block as a memoryview, without a copy."""
        return block.bytes[:size].data

    def require_usable(self):
        """Raise DeviceUnavailableError if the device was closed."""
        if self.closed:
            raise DeviceUnavailableError("toy was closed")

    def stats(self):
        """Return zeros: this device does not count the memory of its blocks."""
        return {"live_bytes": 0, "free_bytes": 0, "peak_bytes": 0, "live_blocks": 0}  # not counted

    def trim(self):
        """Do nothing: there is no pool with free blocks."""

    def close(self):
        self.closed = True


class Language:
    """Terms of the device for messages about libraries of functions, of which it links none (`libraries.Dialect`)."""

    kind, language, device, functions, suffix = "toy", "kernel IR", "the toy device", "functions", ".mlir"
    prototypes, library_command, library_hint = "toy", "nothing", "nothing compiles a library"

    def is_code(self, data):
        """Return False: no file is a library of functions for this device."""
        return False  # no file is a library


class Executor(execute.Executor):
    """The kernels of one program, by index of the executable and ordinal of the export in it."""

    def __init__(self, context):
        """Begin without kernels on an open device; `load` adds those of each executable."""
        super().__init__(context)
        self.kernels = {}

    def load(self, executable):
        """Parse the kernels of an executable, whose code is the text of a module of kernel IR."""
        text = bytes(executable.code).decode()
        for export in executable.exports:
            self.kernels[executable.index, export.ordinal] = Kernel(text, export.name)

    def run(self, record, blocks, constants, fill_patterns):
        """Run the commands of a plan in order. constants: bytes of 32-bit words. fill_patterns: one per command."""
        self.context.require_usable()
        words = np.frombuffer(constants, np.uint32)

        def memory(slot):  # a range of bytes in a buffer of the plan
            return blocks[slot.buffer].bytes[slot.offset : slot.offset + slot.size]

        for command, pattern in zip(record.commands, fill_patterns, strict=True):
            if isinstance(command, Dispatch):
                kernel = self.kernels[command.executable, command.ordinal]
                own = words[command.first_constant : command.first_constant + command.constant_count]
                kernel.run(command.grid, [memory(slot) for slot in command.slots], own)
            elif isinstance(command, Fill):
                memory(command.target).view(f"u{command.pattern_size}")[:] = pattern
            elif isinstance(command, Copy):
                memory(command.target)[:] = memory(command.source).copy()  # they may be ranges of one buffer

    def time(self, record, blocks, constants, fill_patterns):
        """Run the commands of a plan, and return a time of 0 for each."""
        self.run(record, blocks, constants, fill_patterns)
        return [Timing(label(command, "kernel"), 0.0) for command in record.commands]  # it does not measure


class ToyDevice(AcceleratorDevice):
    """A device that interprets kernels one operation after another: an example, too slow for use."""

    def _executor(self):
        """Return a new executor for one program on this device."""
        return Executor(self._context)

    def _properties(self):
        """Return the properties by which the variant of a program is chosen: its format, and no features."""
        return DeviceProperties(
            (self.name,), FORMAT, features=frozenset(), queryable=frozenset(), processor_data=(0,) * 8, workers=1
        )

    def _check_code(self, data, where):  # raises if a file is not a text
        data.decode()

    def describe(self):
        return {"name": self.name, "format": FORMAT}
