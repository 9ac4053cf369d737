"""State of the simulated threads of a batch, and the memory that belongs to them. A batch is some consecutive thread
blocks of a launch, which are simulated together: arrays have an element for each of their threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.async_copies import AsyncCopies
from pydispatch.runtime.simulators.ptx.code import FunctionCode
from pydispatch.runtime.simulators.ptx.elements import aligned
from pydispatch.runtime.simulators.ptx.memory import Allocation, GlobalMemory, MemoryAccess

LANE_BITS = 5
"""Low bits of the number of a thread that are its lane: a warp has 32 lanes."""
WARP_LANES, LANE_MASK = 1 << LANE_BITS, (1 << LANE_BITS) - 1
"""Lanes of a warp. Of the linear number of a thread, the low bits are its lane, and the others its warp."""

LOCAL_LIMIT = 512 << 10
"""Most bytes of local memory of a thread, as on a GPU."""

Dim3 = tuple[int, int, int]
"""Sizes or indices along x, y and z."""


def coordinates(linear: Any, size: Dim3) -> tuple[Any, Any, Any]:
    """Return (x, y, z) of a linear index in a grid or block, where x varies fastest.

    linear: an integer, or an array of integers, then x, y and z are arrays.
    """
    width, height, _ = size
    return linear % width, linear // width % height, linear // (width * height)


class RaceObserver(Protocol):
    """Interface of the detector of data races to instructions. Its frames are those of `frame.py`."""

    def access(
        self, frame: Any, instruction: Instruction, access: MemoryAccess, size: int, write: bool, strong: bool
    ) -> None:
        """Record that threads of a frame read or write `size` bytes each, and check for races with earlier accesses.

        strong: whether the access is strong in PTX's memory model (atomic or volatile, for example): it does not race
        with another strong one.
        """

    def fence(self, frame: Any) -> None:
        """Record that the writes of a frame's blocks are visible to the other blocks."""

    def warp_sync(self, frame: Any) -> None:
        """Record that the lanes of the frame's warps have met at bar.warp.sync."""


class Launched(Protocol):
    """The launch as seen by threads. Sizes are in bytes.

    Attributes:
        grid, block: Number of blocks of the grid, and of threads of a block, in x, y and z.
        threads: Number of threads of a block.
        dynamic_shared: Shared memory of a block whose size the launch states.
        shared_bytes: All shared memory of a block.
        shared_stride: Distance between the shared memories of two blocks.
        params: Memory of the kernel's parameters.
        memory: Global memory.
        races: `races.RaceDetector`; None if races are not detected.
        kernel: The `image.PtxKernel` that is launched. Its type is Any to avoid a cycle of imports.
    """

    grid: Dim3
    block: Dim3
    threads: int
    dynamic_shared: int
    shared_bytes: int
    shared_stride: int
    params: Allocation
    memory: GlobalMemory
    races: Any
    kernel: Any


class ThreadBatch:
    """Threads of some consecutive thread blocks of a launch. Thread t of block b has index `b * threads_per_block + t`.

    It has the state and memory that do not depend on a function; `batch.Batch`, its subclass, schedules the threads.

    Attributes:
        launch: The launch.
        first, count: Index of the first block in the launch, and number of blocks.
        threads_per_block, n: Threads of a block, and of the batch.
        warps_per_block, warps: Warps of a block, and of the batch.
        alive: Mask of the threads that have not exited, bool [n].
        living: Number of these.
        memory: Global memory.
        races: The detector of data races, if there is one.
        shared: Shared memory of all blocks, `launch.shared_stride` bytes each.
        local, local_stride: Local memory of all threads, and bytes of each; it grows with the depth of calls.
        async_copies: Copies that the threads have begun and not waited for.
        epochs: Number of barriers that each block has passed, int64 [count], for the detector of data races.
    """

    def __init__(self, launch: Launched, first: int, count: int) -> None:
        """Create the threads of the `count` blocks of a launch from block `first` on.

        Their shared memories are one array, one after the other. They have no local memory until `reserve_local` is
        called.
        """
        self.launch = launch
        self.first, self.count = first, count  # blocks of the launch
        self.threads_per_block: int = launch.threads
        self.n: int = self.threads_per_block * count
        self.warps_per_block = -(-self.threads_per_block // WARP_LANES)
        self.warps = self.warps_per_block * count
        self.alive = np.ones(self.n, bool)  # by thread
        self.living = self.n  # number of threads that have not exited
        self.memory = launch.memory
        self.races: RaceObserver | None = launch.races
        size = count * launch.shared_stride
        self.shared = Allocation(0, size, np.full(size, launch.memory.initial_shared_byte, np.uint8), "shared")
        self.local_stride = 0  # bytes of a thread; reserve_local() makes it larger
        self.local = Allocation(0, 0, np.zeros(0, np.uint8), "local")
        self.epochs = np.zeros(count, np.int64)  # barriers that each block has passed
        self.async_copies = AsyncCopies(self.n)
        self._per_thread: dict[str, Any] = {}  # name → array over the threads

    def per_thread(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return the array over the batch's threads that is cached as `name`, computed by `compute` on first use."""
        values = self._per_thread.get(name)
        if values is None:
            values = self._per_thread[name] = compute()
        return values

    def block_indices(self) -> Any:
        """Return which block of the batch each thread belongs to, int64 [n]."""
        return self.per_thread("block", lambda: np.repeat(np.arange(self.count), self.threads_per_block))

    def lane_numbers(self) -> Any:
        """Return warp * 32 + lane of each thread, int64 [n]. Warps are numbered through the batch; each block begins
        with a new one, so that numbers are skipped if its threads are no multiple of 32.
        """

        def lanes_of_threads() -> Any:
            """Return warp * 32 + lane of each thread of the batch, int64 [n]; the caller caches it."""
            index_in_block = np.tile(np.arange(self.threads_per_block), self.count)
            return self.block_indices() * (self.warps_per_block * WARP_LANES) + index_in_block

        return self.per_thread("lanes", lanes_of_threads)

    def reserve_local(self, size: int, refuse: Callable[[str], NoReturn] | None = None) -> None:
        """Reserve `size` bytes of local memory for each thread: a larger array, with a copy of the contents.

        refuse: called with a message if `size` exceeds the limit; raises an error that names the call. None: raise
        KernelError here.
        """
        if size <= self.local_stride:
            return
        if size > LOCAL_LIMIT:
            why = f"the call needs {size} bytes of local memory, {LOCAL_LIMIT} is the most: recursion without an end?"
            if refuse is not None:
                refuse(why)
            raise KernelError(f"kernel '{self.launch.kernel.name}': {why}")
        # At least doubled, so that deep recursion copies the memory only a few times; not near the limit.
        doubled_stride = 2 * self.local_stride if size <= LOCAL_LIMIT // 2 else 0
        stride = max(aligned(size, 16), doubled_stride)
        grown = np.zeros((self.n, stride), np.uint8)
        grown[:, : self.local_stride] = self.local.data.reshape(self.n, self.local_stride)
        self.local, self.local_stride = Allocation(0, grown.size, grown.reshape(-1), "local"), stride

    def block_of(self, thread: int) -> Dim3:
        """Return the index in the grid, (x, y, z), of the block of a thread of the batch."""
        return coordinates(self.first + thread // self.threads_per_block, self.launch.grid)

    def describe_thread(self, thread: int) -> str:
        """Return `block (x, y, z), thread (x, y, z)` of a thread of the batch, for messages."""
        thread_in_block = coordinates(thread % self.threads_per_block, self.launch.block)
        return f"block {self.block_of(thread)}, thread {thread_in_block}"

    def fault(self, code: FunctionCode, instruction: Instruction, thread: int, why: str) -> NoReturn:
        """Raise KernelError about one thread: kernel, line, instruction, block and thread."""
        kernel = self.launch.kernel.name
        in_function = "" if code.name == kernel else f", in '{code.name}'"
        where = f"{code.builder.module}:{instruction.line}: '{code.builder.text(instruction)}'"
        by = self.describe_thread(thread)
        raise KernelError(f"kernel '{kernel}'{in_function}: {where} by {by}: {why}", workgroup=self.block_of(thread))
