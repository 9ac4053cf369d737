"""Recordings of plans: command buffers and graphs, cached by the memory that they refer to."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from pydispatch.runtime.accelerators.execute import Executor
from pydispatch.runtime.accelerators.plan import Blocks, DevicePlan

R = TypeVar("R")
"""Class of a device's recordings, such as a Vulkan command buffer with what it refers to."""


class RecordingCache(Generic[R]):
    """LRU cache of the recordings of one plan.

    A recording is removed while it is in use, so that no other thread submits it. Each method is one atomic dictionary
    operation, so no lock is needed.

    A key identifies what a recording refers to: memory, constants and fill patterns.

    capacity: Maximum number of recordings. If it is smaller than the number of sets of blocks between which calls
        alternate, every call records again. If it is larger, more driver memory is used.
    """

    def __init__(self, capacity: int) -> None:
        """Create an empty cache of at most `capacity` recordings."""
        self.capacity = capacity
        self._recordings: OrderedDict[Any, R] = OrderedDict()  # by key; the most recently used one is last

    def __len__(self) -> int:
        return len(self._recordings)

    def take(self, key: Any) -> R | None:
        """Take out and return the recording of a key, or return None."""
        return self._recordings.pop(key, None)

    def take_oldest(self) -> R:
        """Take out and return the least recently used recording."""
        return self._recordings.popitem(last=False)[1]

    def put(self, key: Any, recording: R) -> None:
        """Insert a recording as the most recently used one, and drop the least recently used beyond the capacity."""
        self._recordings[key] = recording
        if len(self._recordings) > self.capacity:
            self._recordings.popitem(last=False)


class RecordingExecutor(Executor, Generic[R]):
    """Executor that records the commands of a plan once for each set of blocks, and submits the recording in each run.

    A recording, such as a Vulkan command buffer, refers to the blocks of device memory that it was recorded for. A run
    takes the recording of `key_of(...)` out of `recordings(plan)`, or calls `record` if there is none. It submits the
    recording, and puts it back. `DevicePlan.state` of a plan is the cache of its recordings.
    """

    CAPACITY = 8
    """Recordings of one plan: enough for double-buffered loops over a few inputs and outputs."""

    def __init__(self, context: Any) -> None:
        """Create the executor, and register it with the device `context`, which calls `forget` when it is closed."""
        super().__init__(context)
        with context.lock:
            context.executors.add(self)

    @abstractmethod
    def record(
        self, plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int], timed: bool = False
    ) -> R:
        """Record the commands of a plan over blocks, and return the recording. The caller holds the context's lock.

        Args:
            plan: The plan.
            blocks: Device memory of each buffer of the plan; None for unused buffers.
            constants: Push constants of this call, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
            timed: Whether to record time stamps around each command.
        """

    def recordings(self, plan: DevicePlan) -> RecordingCache[R]:
        """Return the cache of a plan's recordings; create it on the first call."""
        if plan.state is None:
            with self.context.lock:
                if plan.state is None:  # no other thread has created it meanwhile
                    plan.state = RecordingCache(self.CAPACITY)
        cache: RecordingCache[R] = plan.state
        return cache

    @staticmethod
    def key_of(plan: DevicePlan, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> Any:
        """Return the cache key of a recording: block numbers, and constants and fill patterns if they are deferred.

        Deferred values depend on the scalars of a call; other values are the same in all calls of the plan. Block
        numbers identify blocks. Addresses do not, because a new block may have the address of a destroyed one.

        Example:
            For blocks with the numbers 7 and 9, and an unused buffer between them: (7, 0, 9). If values are deferred:
            ((7, 0, 9), constants, fill patterns).
        """
        numbers = tuple([block.number if block is not None else 0 for block in blocks])
        return (numbers, constants, tuple(fill_patterns)) if plan.has_deferred else numbers


class FixedRecording(Generic[R]):
    """Recording of a plan over fixed memory: the same blocks in all runs, until `update` binds others.

    Base class of the devices' implementations of `execute.Fixed`. They add `run`, which records the plan if `recorded`
    is None, and submits the recording.

    Attributes:
        executor: Executor that records the plan.
        context: Open device of the executor.
        plan: The plan.
        recorded: The recording; None until the first run after the last `update`.
        arguments: (blocks, constants, fill patterns) that the recording is for.
    """

    def __init__(
        self,
        executor: RecordingExecutor[R],
        plan: DevicePlan,
        blocks: Blocks,
        constants: bytes,
        fill_patterns: Sequence[int],
    ) -> None:
        """Bind a plan to fixed memory.

        Args:
            executor: Executor that records the plan.
            plan: The plan.
            blocks: Device memory of each buffer of the plan.
            constants: Push constants of all dispatches, words of 32 bits.
            fill_patterns: Fill pattern of each command; unused for commands that do not fill.
        """
        self.executor, self.context, self.plan = executor, executor.context, plan
        self.recorded: R | None = None  # the commands are recorded in the first run
        self.update(blocks, constants, fill_patterns)

    def update(self, blocks: Blocks, constants: bytes, fill_patterns: Sequence[int]) -> None:
        """Take other memory, constants or fill patterns; the next run records again."""
        self.arguments, self.recorded = (blocks, constants, fill_patterns), None
