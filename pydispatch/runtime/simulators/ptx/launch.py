"""Launch of a kernel on the PTX interpreter: its grid runs in batches of blocks whose registers fit the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from pydispatch.errors import InvalidArgumentError, KernelError
from pydispatch.formats.ptx.interface import MAX_SHARED
from pydispatch.runtime.simulators.ptx import report
from pydispatch.runtime.simulators.ptx.batch import Batch
from pydispatch.runtime.simulators.ptx.code import CodeBlock
from pydispatch.runtime.simulators.ptx.elements import aligned
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.image import PtxKernel
from pydispatch.runtime.simulators.ptx.memory import PARAM, Allocation, GlobalMemory
from pydispatch.runtime.simulators.ptx.races import RaceDetector
from pydispatch.runtime.simulators.ptx.threads import Dim3, ThreadBatch

THREADS_AT_ONCE = 16384
"""Threads of a batch, at most: with more, their registers leave the cache; with fewer, each instruction costs more."""
_SHARED_BYTES_AT_ONCE = 64 << 20
"""Shared memory of a batch, at most."""
_CHECK_EVERY = 1 << 14
"""Instructions between two tests of a launch: has it executed too many instructions, or been cancelled?"""


class Launch:
    """Launch of one kernel on the simulated GPU. Its creation checks the arguments, and `run` runs the grid.

    Batches of thread blocks run one after the other. Each counts its instructions in `steps`, and calls `check` when
    they reach `check_at`, by which a launch is cancelled or fails at `max_steps`.

    Args:
        memory: Global memory.
        kernel: The kernel.
        grid: Number of thread blocks in x, y and z.
        block: Number of threads of a block in x, y and z.
        params: Parameters, laid out as in `.param` space.
        dynamic_shared: Bytes of dynamic shared memory of a block.
        cancel: Function that is polled; the launch ends if it returns True. None: the launch cannot be cancelled.
        max_steps: Number of `steps` at which the launch fails.
        races: Whether data races are detected.

    Attributes:
        steps: Number of instructions so far; an instruction that several threads run together counts once.
        check_at: Number of steps at which batches call `check` next.
        threads: Number of threads of a block.
        shared_bytes: Static and dynamic shared memory of a block.
        shared_stride: Bytes between the shared memories of two blocks of a batch.
    """

    def __init__(
        self, memory: GlobalMemory, kernel: PtxKernel, grid: Dim3, block: Dim3, params: bytes, dynamic_shared: int,
        cancel: Callable[[], bool] | None, max_steps: int, races: bool,
    ) -> None:  # fmt: skip
        """Create a launch that has not begun. Raise InvalidArgumentError if the arguments do not fit the kernel."""
        self.memory, self.kernel, self.grid, self.block = memory, kernel, grid, block
        self.threads = block[0] * block[1] * block[2]
        self.dynamic_shared: int = dynamic_shared
        self.shared_bytes: int = kernel.static_shared_bytes + dynamic_shared
        # A multiple of 16 bytes, the widest access to shared memory: an offset that is aligned in a block's memory is
        # aligned in that of the batch.
        self.shared_stride = aligned(self.shared_bytes, 16)
        self.cancel, self.max_steps = cancel, max_steps
        self.steps = 0
        # The number of instructions at which the batches of threads next call `check`, which ends a launch.
        self.check_at = min(_CHECK_EVERY, max_steps)
        self._check(params)
        # Padded to whole 8-byte words, which loads may access.
        data = np.frombuffer(params.ljust(aligned(len(params), 8), b"\0"), np.uint8)
        self.params = Allocation(PARAM, data.size, data, "const", "parameters")
        self.races = RaceDetector(self) if races else None

    def _check(self, params: bytes) -> None:
        """Raise InvalidArgumentError if the grid, block, parameters or shared memory do not fit the kernel."""
        name, directives = self.kernel.name, self.kernel.function.directives
        if min(*self.grid, *self.block) < 1:
            raise InvalidArgumentError(f"kernel '{name}': grid {self.grid}, block {self.block}: sizes are 1 or more")
        if self.dynamic_shared < 0:
            raise InvalidArgumentError(
                f"kernel '{name}': expected 0 or more bytes of shared memory, got {self.dynamic_shared}"
            )
        if self.threads > 1024:  # as on GPUs
            raise InvalidArgumentError(
                f"kernel '{name}': block {self.block} has {self.threads} threads, 1024 is the most"
            )
        if len(params) != self.kernel.param_bytes:
            raise InvalidArgumentError(
                f"kernel '{name}': expected {self.kernel.param_bytes} bytes of parameters, got {len(params)}"
            )
        required = directives.get("reqntid")
        # `.reqntid 64` states the block (64, 1, 1).
        if required and (*required, 1, 1)[:3] != self.block:
            raise InvalidArgumentError(
                f"kernel '{name}': .reqntid {required} in the PTX, launched with block {self.block}"
            )
        max_block = directives.get("maxntid")
        if max_block and int(np.prod(max_block)) < self.threads:
            raise InvalidArgumentError(
                f"kernel '{name}': .maxntid {max_block} in the PTX, launched with block {self.block}"
            )
        if self.shared_bytes > MAX_SHARED:
            raise InvalidArgumentError(
                f"kernel '{name}': {self.shared_bytes} bytes of shared memory, {MAX_SHARED} is the most"
            )

    def run(self) -> None:
        """Run all thread blocks, a limited number of them at once. Raise KernelError for a fault or data races."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        # Blocks of a batch: at least one, within the limits of threads and of shared memory.
        at_once = max(1, THREADS_AT_ONCE // self.threads)
        if self.shared_stride:
            at_once = max(1, min(at_once, _SHARED_BYTES_AT_ONCE // self.shared_stride))
        with np.errstate(all="ignore"):  # overflow, division by 0 and NaN are no errors in a kernel
            for first in range(0, total, at_once):
                batch = Batch(self, first, min(at_once, total - first))
                code = self.kernel.code
                batch.reserve_local(code.local_size)
                batch.start(code)
                batch.run()
        if self.races is not None:
            self.races.finish()

    def check(self, batch: ThreadBatch, block: CodeBlock, frame: Frame) -> None:
        """Raise KernelError when the launch has taken too many steps or is cancelled. Called every `_CHECK_EVERY`
        steps.

        Args:
            batch: The thread blocks that run now.
            block: The code that they run, for the message.
            frame: The threads that run it, for the message.
        """
        if self.steps >= self.max_steps:
            self._endless(batch, block, frame)
        if self.cancel is not None and self.cancel():
            raise KernelError(f"kernel '{self.kernel.name}' was cancelled after {self.steps} steps")
        self.check_at = min(self.steps + _CHECK_EVERY, self.max_steps)

    def _endless(self, batch: ThreadBatch, block: CodeBlock, frame: Frame) -> NoReturn:
        """Raise KernelError for a kernel that still runs after `max_steps`, with the line and one of the threads there.

        batch, block, frame: the thread blocks, the code and the threads that run now.
        """
        raise KernelError(report.endless(batch, frame.code, block.line, int(frame.threads[0]), self.max_steps))
