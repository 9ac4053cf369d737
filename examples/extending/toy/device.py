"""A device: runs what toy/target.py makes. It opens as `pydispatch.device("toy")`."""

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


def available():
    return ["toy"]


def open(name, options):
    check_options("toy", options, known=())
    return ToyDevice("toy", Context(), Language())


class Block:
    """One allocation."""

    numbers = iter(range(1, 2**62))

    def __init__(self, size):
        self.number, self.bytes = next(self.numbers), np.zeros(size, np.uint8)


class Context(context.Context):
    """Memory is memory of the process; a block lives as long as somebody holds it."""

    name = "toy"
    closed = False
    transfers = context.Transfers()

    def acquire(self, size):
        return Block(size)

    def release(self, block):
        pass

    def copy_in(self, block, source, size):
        self.transfers.add("to_device", size)
        block.bytes[:size] = np.frombuffer(view_of(source, size), np.uint8)

    def copy_out(self, block, target, size, at=0):
        self.transfers.add("from_device", size)
        view_of(target, size, writable=True)[:] = block.bytes[at : at + size].data

    def copy(self, source, target, size, at=0, to=0):
        target.bytes[to : to + size] = source.bytes[at : at + size]

    def view(self, block, size):
        return block.bytes[:size].data

    def require_usable(self):
        if self.closed:
            raise DeviceUnavailableError("toy was closed")

    def stats(self):
        return {"live_bytes": 0, "free_bytes": 0, "peak_bytes": 0, "live_blocks": 0}  # not counted

    def trim(self):
        pass

    def close(self):
        self.closed = True


class Language:
    """What libraries of functions for the device are written in: it links none."""

    kind, language, device, functions, suffix = "toy", "kernel IR", "the toy device", "functions", ".mlir"
    prototypes, makes_library, how_libraries = "toy", "nothing", "nothing makes a library"

    def is_code(self, data):
        return False


class Executor(execute.Executor):
    """The kernels of one program by number of the executable and of the export."""

    def __init__(self, context):
        super().__init__(context)
        self.kernels = {}

    def load(self, executable):
        text = bytes(executable.code).decode()
        for export in executable.exports:
            self.kernels[executable.index, export.ordinal] = Kernel(text, export.name)
        return

    def run(self, record, blocks, constants, patterns):
        self.context.require_usable()
        words = np.frombuffer(constants, np.uint32)

        def memory(slot):
            return blocks[slot.buffer].bytes[slot.offset : slot.offset + slot.size]

        for command, pattern in zip(record.commands, patterns, strict=True):
            if isinstance(command, Dispatch):
                kernel = self.kernels[command.executable, command.ordinal]
                own = words[command.first_constant : command.first_constant + command.constant_count]
                kernel.run(command.grid, [memory(slot) for slot in command.slots], own)
            elif isinstance(command, Fill):
                memory(command.target).view(f"u{command.pattern_size}")[:] = pattern
            elif isinstance(command, Copy):
                memory(command.target)[:] = memory(command.source).copy()

    def time(self, record, blocks, constants, patterns):
        self.run(record, blocks, constants, patterns)
        return [Timing(label(command, "kernel"), 0.0) for command in record.commands]  # it does not measure


class ToyDevice(AcceleratorDevice):
    """Interprets kernels one operation after the other: to look at, not to use."""

    def _executor(self):
        return Executor(self._context)

    def _properties(self):
        return DeviceProperties((self.name,), FORMAT, frozenset(), frozenset(), (0,) * 8, workers=1)

    def _check_code(self, data, where):
        data.decode()

    def describe(self):
        return {"name": self.name, "format": FORMAT}
