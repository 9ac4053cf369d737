"""Schedule of a batch of thread blocks in the PTX interpreter. A block of code is a straight sequence of instructions.
Threads of one function call (activation) at the same block of code form a group, and run together. The group with the
lowest program counter runs first, so that divergent threads reconverge; groups that spin in a loop waiting for others
are run round-robin. A group is ready if it can run, and parked if its threads wait for other lanes of their warps.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pydispatch.errors import KernelError
from pydispatch.runtime.simulators.ptx import report
from pydispatch.runtime.simulators.ptx.barriers import Barriers
from pydispatch.runtime.simulators.ptx.code import CodeBlock, FunctionCode
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.groups import Activation, CopyResults, ThreadGroup
from pydispatch.runtime.simulators.ptx.threads import LANE_BITS, WARP_LANES, Launched, ThreadBatch

_BLOCKS_BEFORE_YIELD = 1024
"""Blocks of code that a group runs before another ready group gets its turn: fewer cost divergent threads that would
reconverge, more make waiting for a spinning group longer."""
_FEWEST_BLOCKS_BEFORE_YIELD = 16
"""Lower bound of the blocks of code that a group runs before another one gets its turn. Their number is divided by 4
each time that a group seems to spin, so that the group that it waits for runs sooner."""
GroupKey = tuple[tuple[int, int], int]
"""Program counter of a group: (`Activation.priority`, index of the block of code). The least runs first."""


class Running(Launched, Protocol):
    """Interface of a launch to its batches: it counts instructions, and checks limits.

    Attributes:
        steps: Instructions that groups of threads have run so far, each counted once for the whole group.
        check_at: The value of `steps` at which batches call `check`, which then sets the next one.
    """

    steps: int
    check_at: int

    def check(self, batch: ThreadBatch, block: CodeBlock, frame: Frame) -> None:
        """Raise KernelError when the launch must end."""


class Batch(ThreadBatch):
    """Thread blocks that are simulated together, and the schedule of their groups of threads.

    The launch calls `start` and then `run`. A group is the threads of one function call that are at the same block of
    code; it is ready, or parked until the other threads of its warps come, or waits at `barriers`, or runs. Steps and
    ends of blocks of code call the other methods: `activate` for a call, `split` for a divergent branch,
    `retire_returned` and `retire_exited`.
    """

    def __init__(self, launch: Running, first: int, count: int) -> None:
        """Create the batch of `count` thread blocks of a launch, from block `first` on. No thread runs yet."""
        super().__init__(launch, first, count)
        # The base class has this object as `self.launch`, but of the type Launched, without the members of Running.
        self._launch = launch
        self.barriers = Barriers(self, self.make_ready)
        self._ready: dict[GroupKey, ThreadGroup] = {}  # groups that can run
        self._parked: dict[GroupKey, ThreadGroup] = {}  # groups that wait for other threads of their warps
        self._activations: list[Activation] = []  # function calls that have not ended, callers before callees
        self._serial = 0  # number of activations so far, by which activations of one call depth are ordered
        # Blocks of code that a group runs until another gets its turn; fewer each time that a group seems to spin.
        self._blocks_before_yield = _BLOCKS_BEFORE_YIELD
        self._is_round_robin_next = False  # whether the next group is the one that has not run for longest

    # -- Scheduling ----------------------------------------------------------------------------------------------

    def activate(
        self, code: FunctionCode, caller: Activation, positions: Any, return_block: int, copy_results: CopyResults,
        local_offset: int,
    ) -> Activation:  # fmt: skip
        """Begin a function for some threads of a caller, which wait until it returns.

        The call of a function by some threads is an activation: it has a frame, which holds the registers of these
        threads. It is appended to the batch's activations and returned; the caller makes its threads ready.

        Args:
            code: The function.
            caller: The activation that calls it.
            positions: Positions of the calling threads in the caller's frame.
            return_block: Index of the caller's block of code after the call.
            copy_results: Copies the results of threads that return.
            local_offset: Where the function's local memory begins in the local memory of a thread, in bytes.
        """
        frame = Frame(self, code, caller.frame.threads[positions], local_offset)
        return self._append_activation(
            Activation(
                frame,
                caller=caller,
                caller_positions=positions,
                return_block=return_block,
                copy_results=copy_results,
                serial=self._serial,
            )
        )

    def start(self, code: FunctionCode) -> None:
        """Begin the kernel for all threads of the batch."""
        frame = Frame(self, code, np.arange(self.n), local_offset=0)
        # A kernel has no caller to return to.
        activation = self._append_activation(
            Activation(frame, caller=None, caller_positions=None, return_block=-1, copy_results=None, serial=0)
        )
        self.make_ready(ThreadGroup(activation, block=0, index=None))  # all threads, at the first block of code

    def _append_activation(self, activation: Activation) -> Activation:
        """Add a function call to the calls of the batch, and return it.

        Also advance the serial number for the next call: of calls of one depth, the scheduler runs the oldest first.
        """
        self._serial += 1
        self._activations.append(activation)
        return activation

    def make_ready(self, group: ThreadGroup) -> None:
        """Make a group ready to run, merged with a ready or parked group of its activation at the same block of code.

        The key (priority, block) is the same for both groups, because each activation has a priority of its own.
        """
        key = (group.activation.priority, group.block)
        other = self._ready.pop(key, None) or self._parked.pop(key, None)
        if other is not None:
            group.release_frame()
            other.release_frame()
            positions = np.sort(np.concatenate((group.positions(), other.positions())))
            merged = ThreadGroup(group.activation, group.block, positions)
            merged.last_run = min(group.last_run, other.last_run)
            group = merged
        self._ready[key] = group

    def split(self, group: ThreadGroup, is_branching: Any, target: int, after: int) -> None:
        """Continue the threads where `is_branching` holds at the block of code `target`, and the others at `after`.

        is_branching: bool [group.size].
        """
        group.release_frame()
        positions = group.positions()
        for mask, block in ((is_branching, target), (~is_branching, after)):
            part = ThreadGroup(group.activation, block, positions[mask])
            part.last_run = group.last_run
            self.make_ready(part)

    def run(self) -> None:
        """Run the groups of the batch until all threads have exited.

        The next group is that of the deepest call at the lowest program counter. After a group that may be spinning on
        another one (see `_detect_spinning`), it is the group that has not run for longest.
        """
        while True:
            if self._ready:
                if self._is_round_robin_next:
                    key = min(self._ready, key=lambda k: (self._ready[k].last_run, k))
                else:
                    key = min(self._ready)
                self._advance(self._ready.pop(key))
            elif not self._unblock():
                break
        for activation in self._activations:
            activation.frame.return_stores_to_pool()

    def _advance(self, group: ThreadGroup) -> None:
        """Run a group block by block until it diverges, waits, ends, or yields to another ready group.

        A group is the threads of one function call that are at the same block of code, a straight sequence of
        instructions. Each step of a block is a closure that runs one instruction for all threads of a frame.

        It yields in two cases:

        - Another group has a lower key (deeper call, then lower program counter), or the same one. Groups with the same
          key merge in `make_ready`: divergent threads reconverge in this way.
        - It has run so many blocks that it may be spinning on another group (see `_detect_spinning`).

        A group that was chosen because another one seemed to spin (`is_round_robin`) does not yield in the first case.
        Otherwise a spinning group at a lower program counter would run again at once.
        """
        activation, launch, ready = group.activation, self._launch, self._ready
        blocks = activation.frame.code.blocks
        frame, block_index, blocks_run = group.acquire_frame(), group.block, 0
        is_round_robin, is_subset = self._is_round_robin_next, not group.has_all_threads
        self._is_round_robin_next = False
        while True:
            # Wait if needed: a block with `sync` begins with an instruction such as shfl.sync, which waits for other
            # threads of its warps, unless all living threads are in the group.
            block = blocks[block_index]
            if block.sync is not None and group.size != self.living:
                group.block = block_index
                if not self._join_parked_or_meet_warps(group, block):
                    return
            # Run the block.
            if is_subset:  # the frame has copies of registers, which are loaded for each block
                frame.load_registers(block)
            regs = frame.regs
            for step in block.steps:
                step(regs)
            launch.steps += block.count
            # Raises if the kernel has run too many instructions or was cancelled.
            if launch.steps >= launch.check_at:
                launch.check(self, block, frame)
            # Find the next block.
            if block.end is None:  # no branch: control falls through
                block_index += 1
            else:
                group.block = block_index
                block_index = block.end(self, group, frame)
                if block_index < 0:  # the group waits, has split or has ended
                    return
            # Yield to another group that can run.
            if ready:
                blocks_run += 1
                # The group with the least key runs first: it is in the deepest call, at the lowest program counter.
                is_other_first = not is_round_robin and min(ready) <= (activation.priority, block_index)
                if self._detect_spinning(blocks_run, is_round_robin) or is_other_first:
                    group.block, group.last_run = block_index, launch.steps
                    self.make_ready(group)
                    return

    def _detect_spinning(self, blocks_run: int, is_round_robin: bool) -> bool:
        """Return whether a group has run so long that it may be spinning, and then let the longest waiting group run.

        The scheduler then chooses the group that has not run for longest, and groups run fewer blocks of code in turn.
        If the group itself was chosen in this way, neither is changed.

        Args:
            blocks_run: Blocks of code that the group has run while another one was ready.
            is_round_robin: Whether the group was chosen because it had waited longest.
        """
        if blocks_run < self._blocks_before_yield:
            return False
        if not is_round_robin:
            self._blocks_before_yield = max(_FEWEST_BLOCKS_BEFORE_YIELD, self._blocks_before_yield // 4)
            self._is_round_robin_next = True
        return True

    # -- Waiting -------------------------------------------------------------------------------------------------

    def _join_parked_or_meet_warps(self, group: ThreadGroup, block: CodeBlock) -> bool:
        """Return whether a group may run `block`, at which it waits for other lanes of its warps.

        If other threads of the call are parked at the block, the group joins them instead: the scheduler chooses the
        merged group again. The caller must not use the group after the result False.
        """
        if (group.activation.priority, group.block) in self._parked:
            self.make_ready(group)  # merges the groups
            return False
        return self._meet_warps(group, block)

    def _meet_warps(self, group: ThreadGroup, block: CodeBlock) -> bool:
        """Return whether all threads of a group may run a block that begins with an instruction of whole warps (shfl).

        A thread may run it if all living lanes that its mask names are in the group. If that holds for all threads, the
        result is True, and the caller runs the block. If not, this function runs the block for these threads and parks
        the others: they are stored in `_parked` until their missing lanes come or exit. The caller must not use the
        group after the result False.

        Say that the group has all lanes of warp 0 and lanes 0 to 15 of warp 1, with masks of all lanes. Then warp 0
        runs the block now, and the 16 lanes of warp 1 are parked.
        """
        is_complete = self._find_complete(group, block)
        if is_complete.all():
            return True
        # Split the group. Both parts have the same key: that of the block at which they are.
        group.release_frame()
        positions = group.positions()
        key = (group.activation.priority, group.block)
        self._parked[key] = ThreadGroup(group.activation, group.block, positions[~is_complete])
        if is_complete.any():
            complete = ThreadGroup(group.activation, group.block, positions[is_complete])
            complete.last_run = group.last_run
            # Not make_ready(): it would merge these lanes with those that were parked above, under the same key.
            self._run_met_block(complete)  # these lanes need not wait again
        return False

    def _find_complete(self, group: ThreadGroup, block: CodeBlock) -> Any:
        """Return for each thread of a group whether all living lanes that it waits for are in the group, bool [size].

        These are the lanes in its mask, or all lanes of its warp without one.
        """
        assert block.sync is not None
        frame = group.acquire_frame()
        if frame.is_partial:
            frame.load_registers(block)
        # For each warp, the masks of the lanes that are in the group, and of those that have not exited.
        lanes = self.lane_numbers()[frame.threads]
        present_lanes, living_lanes = self._words_of(lanes), self._words_of(self.lane_numbers()[self.alive])
        warp = lanes >> LANE_BITS
        awaited = living_lanes[warp]
        if block.sync.mask_slot is not None:
            awaited = awaited & frame.regs[block.sync.mask_slot]
        return (awaited & ~present_lanes[warp]) == 0

    def _words_of(self, lanes: Any) -> Any:
        """Return a 32-bit word for each warp of the batch, in which the bits of `lanes` (warp * 32 + lane) are set."""
        is_set = np.zeros(self.warps * WARP_LANES, bool)
        is_set[lanes] = True
        return np.packbits(is_set, bitorder="little").view("<u4")

    def _run_met_block(self, group: ThreadGroup) -> None:
        """Run a block that begins with a warp instruction (shfl), for a group with all lanes that it waits for.

        Then make the group ready for its next block. The group itself must not be in `_ready`, because another ready
        group may have the same key: threads that have reached the same block, and may have to wait for other lanes.
        """
        frame = group.acquire_frame()
        block = frame.code.blocks[group.block]
        if frame.is_partial:
            frame.load_registers(block)
        for step in block.steps:
            step(frame.regs)
        self._launch.steps += block.count
        next_block = group.block + 1 if block.end is None else block.end(self, group, frame)
        if next_block >= 0:  # negative: the group waits, has split or has ended
            group.block = next_block
            self.make_ready(group)

    def _unblock(self) -> bool:
        """Make progress when no group is ready. Return False if no group is left.

        The first of these that makes progress ends the search:

        1. Open the barriers at which all threads have arrived.
        2. Run parked threads whose missing lanes have exited since they were parked.
        3. Let the threads that have returned from a call continue, although others of the call are blocked.

        Raise KernelError for a deadlock: none of them makes progress, and threads are parked or wait at barriers.
        """
        # 1. Barriers.
        if self.barriers.release():
            return True
        # 2. Parked groups: they are before an instruction of whole warps (shfl), and wait for other lanes.
        parked = list(self._parked.values())
        self._parked.clear()  # _meet_warps() parks again what still waits
        sizes = [group.size for group in parked]
        for group in parked:
            block = group.activation.frame.code.blocks[group.block]
            if self._meet_warps(group, block):
                self._run_met_block(group)
        # Threads that have run may already wait at a barrier or have ended, so that no group is ready. Then fewer
        # threads are parked than before.
        has_progress = bool(self._ready) or [group.size for group in self._parked.values()] != sizes
        if has_progress:
            return True
        # 3. Calls from which some threads have returned, the deepest first.
        for activation in reversed(self._activations):
            if activation.returned and activation.unfinished_count:
                self._resume(activation)
                return True
        if self._parked or self.barriers.waiting:
            raise KernelError(report.deadlock(self, list(self._parked.values()), self.barriers.waiting))
        return False

    # -- Ends ----------------------------------------------------------------------------------------------------

    def retire_returned(self, group: ThreadGroup) -> None:
        """Retire a group at the end of its function. The caller continues when all groups of the call have returned."""
        activation = group.activation
        if activation.caller is None:
            self.retire_exited(group)
            return
        positions = group.positions()
        group.release_frame()
        activation.returned.append(positions)
        activation.unfinished_count -= group.size
        if activation.unfinished_count == 0:
            self._resume(activation)

    def retire_exited(self, group: ThreadGroup) -> None:
        """Retire a group whose threads have exited."""
        group.release_frame()
        threads = group.activation.frame.threads
        self.alive[threads if group.has_all_threads else threads[group.index]] = False
        self.living -= group.size
        activation: Activation | None = group.activation
        while activation is not None:  # the threads no longer count in the callers either
            activation.unfinished_count -= group.size
            if activation.unfinished_count == 0 and activation.returned:
                self._resume(activation)
            activation = activation.caller

    def _resume(self, activation: Activation) -> None:
        """Make the threads that have returned from a call ready in its caller, and copy the results to them.

        Remove the call from the calls of the batch when all of its threads have returned or exited.
        """
        positions = np.sort(np.concatenate(activation.returned))
        activation.returned = []
        caller = activation.caller
        assert caller is not None
        caller_positions = activation.caller_positions[positions]
        assert activation.copy_results is not None
        activation.copy_results(activation.frame, positions, caller.frame, caller_positions)
        if activation.unfinished_count == 0:
            self._activations.remove(activation)
            activation.frame.return_stores_to_pool()
        self.make_ready(ThreadGroup(caller, activation.return_block, caller_positions))
