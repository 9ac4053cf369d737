"""Terminators of blocks of code in the PTX interpreter: branches, barriers, calls and returns. A handler returns a
function of (label, after): `label(name)` is the number of the block of code at a label, `after` that of the next one.
It is called when all labels are known, and returns the closure `end(batch, group, frame)`, which runs the terminator
for a group of threads. `end` returns the number of the group's next block; -1 if the group ends, because its threads
return, exit, wait or go to different blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pydispatch.formats.ptx.module import Immediate, Instruction, Not, Operand, PtxFunction, PtxSymbol, Register
from pydispatch.runtime.simulators.ptx.barriers import Reduction, Waiting
from pydispatch.runtime.simulators.ptx.batch import Batch
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder
from pydispatch.runtime.simulators.ptx.calls import call, is_call
from pydispatch.runtime.simulators.ptx.code import End
from pydispatch.runtime.simulators.ptx.elements import BOOL
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.groups import ThreadGroup

Label = Callable[[str], int]
"""Returns the number of the block of code at a label."""
BuildEnd = Callable[[Label, int], End]
"""Returns the closure of a terminator, from the labels and the number of the block that follows it."""


def is_terminator(instruction: Instruction) -> bool:
    """Return whether an instruction ends a block of code."""
    if instruction.opcode in ("bar", "barrier"):  # bar.warp.sync is a step: it does not wait for other warps
        return instruction.modifiers[:1] != ("warp",)
    if instruction.opcode == "call":
        return is_call(instruction)
    return instruction.opcode in TERMINATORS


def branch_if(slot: int, wanted: bool, target: int, after: int) -> End:
    """Return the end of a block: threads whose predicate is `wanted` go to the block `target`, others to `after`.

    A block of code is a straight sequence of instructions. Its end chooses the next block for a group: the threads of
    one call that are at the same block.

    slot: index in `frame.regs` of the predicate, a bool for each thread of the group.
    """

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """Return the next block if all threads of the group go there; else split the group, and return -1.

        Threads whose predicate, in `slot`, is `wanted` go to `target`, the others to `after`.
        """
        predicate = frame.regs[slot]
        true_count = int(np.count_nonzero(predicate))
        if true_count == 0:
            return after if wanted else target
        if true_count == frame.n:
            return target if wanted else after
        batch.split(group, predicate if wanted else ~predicate, target, after)
        return -1  # the scheduler continues with both parts of the group

    return end


def _bra(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build the branch `bra label`, which is conditional if it has a guard (`@p bra label`, `@!p bra label`).

    The result is called once all blocks of code have numbers, with a lookup of labels and the number of the block after
    the branch. It returns the closure that runs the branch: given a group of threads, the closure returns the number of
    the block where they continue, or -1 if it has split the group, as some threads branch and some do not.

    function: the PTX function that has the instruction; only other terminators need it.
    """
    builder.require_modifiers(instruction, ("uni",))
    operand = builder.operands(instruction, 1)[0]
    if not isinstance(operand, PtxSymbol):
        builder.fail(instruction, "jumps to no label")
    name = operand.name
    if instruction.guard is None:

        def jump(label: Label, after: int) -> End:
            """Build the closure of an unconditional branch: all threads go to the block of code at the label `name`.

            label: returns the number of the block at a label. after: the block after the branch, which is not reached.
            """
            target = label(name)
            return lambda batch, group, frame: target

        return jump
    # A thread jumps if p is `wanted`: False for the guard `@!p`. The slot is the index of p in `frame.regs`.
    is_negated = isinstance(instruction.guard, Not)
    predicate = instruction.guard.operand if isinstance(instruction.guard, Not) else instruction.guard
    slot = builder.source(instruction, predicate, BOOL)
    return lambda label, after: branch_if(slot, wanted=not is_negated, target=label(name), after=after)


def _brx(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build `brx.idx index, table`: each thread jumps to the label number `index` of a `.branchtargets` list.

    With `table: .branchtargets L0, L1, L2;`, threads with the index 2 continue at L2. The result builds the closure of
    the jump once the labels of the function are known.
    """
    builder.require_modifiers(instruction, ("idx", "uni"))
    index, table = builder.operands(instruction, 2)
    slot = builder.source(instruction, index, "u32")
    names = function.tables.get(table.name) if isinstance(table, PtxSymbol) else None
    if names is None:
        builder.fail(instruction, "names no .branchtargets of this function")
    target_names = names  # a name that is never None, for the type checker
    return lambda label, after: _jump_by_index(instruction, slot, [label(name) for name in target_names])


def _jump_by_index(instruction: Instruction, slot: int, targets: Sequence[int]) -> End:
    """Return the end of a block: each thread goes to the block targets[i], where i is its value of an index.

    Args:
        instruction: The jump, for faults.
        slot: Index of the values of i in `frame.regs`.
        targets: Numbers of blocks of code.
    """

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """Return the block that all threads jump to. If they disagree, split the group by index, and return -1.

        A group is the threads of one call that are at the same block of code; `frame` has their registers. An index
        beyond the targets is a fault.

        Example: with the targets [7, 3] and the indices [0, 1, 0] of three threads, one new group has threads 0 and
        2, at block 7, and another has thread 1, at block 3.
        """
        chosen = np.broadcast_to(frame.regs[slot], frame.n)  # a constant index is a scalar
        if (chosen >= len(targets)).any():
            thread = int(np.argmax(chosen >= len(targets)))
            frame.fault(instruction, thread, f"the index is {int(chosen[thread])}, the list has {len(targets)} targets")
        first = int(chosen[0])
        if (chosen == first).all():
            return targets[first]
        chosen = chosen.copy()  # the group's registers are not used after release_frame()
        group.release_frame()
        thread_positions = group.positions()  # in the frame of the activation
        for target in np.unique(chosen):
            part = type(group)(group.activation, targets[int(target)], thread_positions[chosen == target])
            batch.make_ready(part)
        return -1  # the scheduler continues with the parts

    return end


def _return(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build `ret`: the threads return from the function."""
    builder.require_modifiers(instruction, ("uni",))

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """Return from the function, and return -1: the group ends."""
        batch.retire_returned(group)
        return -1

    return lambda label, after: end


def _exit(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build `exit`: the threads end, also inside of a called function."""
    builder.require_modifiers(instruction, ())

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """End the threads, and return -1: the group ends."""
        batch.retire_exited(group)
        return -1

    return lambda label, after: end


def _trap(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build `trap`, by which a kernel aborts: it is reported as a fault."""
    builder.require_modifiers(instruction, ())

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """Raise KernelError for the group, and never return."""
        frame.fault(instruction, position=0, why="the kernel gave up")  # the message names the first thread

    return lambda label, after: end


class _BarReduction(NamedTuple):
    """Operands of a reduction at a barrier, the instruction bar.red.

    Attributes:
        operation: "popc", "and" or "or".
        predicate: Slot (index in `frame.regs`) of the predicate that is reduced.
        result: Index of the register of the result among the registers of the PTX function.
    """

    operation: str
    predicate: int
    result: int


class _BarrierOperands(NamedTuple):
    """Operands of a barrier instruction.

    Attributes:
        instruction: The instruction, for faults.
        waits: Whether threads wait at the barrier; those of bar.arrive do not.
        is_constant: Whether the number of the barrier is a constant, one that blocks have.
        barrier: Slot (index in `frame.regs`) of the number of the barrier.
        thread_count: Slot of the number of threads that the barrier waits for; None: all of the block.
        reduction: Reduction of bar.red; None for other instructions.
    """

    instruction: Instruction
    waits: bool
    is_constant: bool
    barrier: int
    thread_count: int | None
    reduction: _BarReduction | None


def _barrier(builder: FunctionBuilder, instruction: Instruction, function: PtxFunction) -> BuildEnd:
    """Build a barrier, at which the threads of a block wait for each other. Forms of the instruction:

        bar.sync a{, b};                        waits until all threads have arrived
        bar.arrive a, b;                        arrives without waiting; b is required
        bar.red.popc.u32 d, a{, b}, {!}p;       waits, and counts the threads whose p is true
        bar.red.and.pred d, a{, b}, {!}p;       waits, and computes the conjunction of all p; .or: the disjunction

    `barrier` may be written for `bar`, with or without `.cta`. a is the number of one of the block's sixteen barriers,
    b the number of threads that it waits for, by default all of the block.

    Returns:
        The function that `Translator` calls when all labels are known; it returns the closure of `_barrier_end`.
    """
    kinds = [m for m in instruction.modifiers if m in ("sync", "arrive", "red")]
    if len(kinds) != 1:
        builder.fail(instruction)
    reduction_words = (*_BARRIER_REDUCTIONS, "u32", "pred") if kinds == ["red"] else ()
    builder.require_modifiers(instruction, ("cta", "aligned", kinds[0], *reduction_words))
    least, most = _BARRIER_OPERAND_COUNTS[kinds[0]]
    operands = list(builder.operands(instruction, least, most=most))
    # The operands in order: the result of bar.red, the barrier, the thread count, and the predicate of bar.red.
    reduction = None
    if kinds == ["red"]:
        reduction = _bar_reduction(builder, instruction, target=operands.pop(0), predicate=operands.pop())
    barrier = operands[0]
    if isinstance(barrier, Immediate) and not 0 <= barrier.value <= 15:
        builder.fail(instruction, f"names barrier {barrier.value}; 15 is the last")
    barrier_operands = _BarrierOperands(
        instruction,
        waits=kinds != ["arrive"],
        is_constant=isinstance(barrier, Immediate),
        barrier=builder.source(instruction, barrier, "u32"),
        thread_count=builder.source(instruction, operands[1], "u32") if len(operands) > 1 else None,
        reduction=reduction,
    )
    return lambda label, after: _barrier_end(barrier_operands, after)


def _bar_reduction(
    builder: FunctionBuilder, instruction: Instruction, target: Operand | None, predicate: Operand | None
) -> _BarReduction:
    """Return the reduction of bar.red. target, predicate: its first and its last operand."""
    # popc counts, with a u32 result; and, or have a predicate as result.
    operations = [m for m in instruction.modifiers if m in _BARRIER_REDUCTIONS]
    types = [m for m in instruction.modifiers if m in ("u32", "pred")]
    if len(operations) != 1 or types != [_BARRIER_REDUCTIONS[operations[0]]]:
        builder.fail(instruction)
    (operation,), (type_,) = operations, types
    slot = builder.source(instruction, predicate, BOOL)
    builder.target(instruction, target, type_)  # records that the instruction writes the register
    result = builder.storage(target.name) if isinstance(target, Register) else None
    if result is None:
        builder.fail(instruction, "has no register for its result")
    return _BarReduction(operation, slot, result)


def _barrier_end(operands: _BarrierOperands, after: int) -> End:
    """Return the closure by which threads arrive at a barrier.

    Args:
        operands: Slots of the instruction's operands.
        after: Number of the block of code that follows the barrier.
    """
    instruction, waits, is_constant, barrier, count, reduction = operands
    # The barrier is the same one for all threads, and it waits for all living threads without a result.
    is_plain = is_constant and count is None and reduction is None

    def end(batch: Batch, group: ThreadGroup, frame: Frame) -> int:
        """Let the threads of a group arrive; return the group's next block of code, or -1 if its threads wait.

        - If all living threads of the batch arrive together at a plain barrier (`is_plain`), they go on at once.
        - bar.arrive: the threads are counted, and go on.
        - Else the group ends, and its threads wait in `batch.barriers`. When as many threads have arrived as the
          barrier needs, `Barriers.release` makes new groups of them, at block `after`.

        `barrier` and `count` are the slots, indices in `regs`, of the barrier's number and of the thread count (None:
        all).
        """
        barriers = batch.barriers
        # No thread has arrived at any barrier, and the group has all living threads: the barrier opens at once. It
        # begins a new epoch of each block; race detection takes accesses of different epochs as ordered.
        if is_plain and barriers.is_unused and group.size == batch.living:
            batch.epochs += 1
            return after
        barrier_numbers, needed = frame.regs[barrier], None if count is None else frame.regs[count]
        if not waits:
            barriers.arrive(frame, instruction, barrier_numbers, needed, wait=None)
            return after
        group.release_frame()
        barriers.arrive(frame, instruction, barrier_numbers, needed, _waiting(operands, group, frame, after))
        return -1

    return end


def _waiting(operands: _BarrierOperands, group: ThreadGroup, frame: Frame, after: int) -> Waiting:
    """Return the threads of a group, with registers in `frame`, as waiting to go on at the block of code `after`."""
    wait = Waiting(
        group.activation,
        after,
        group.positions(),
        thread_blocks=None,  # these are set as the threads arrive
        barrier_numbers=None,
        instruction=operands.instruction,
    )
    reduction = operands.reduction
    if reduction is not None:
        values = np.broadcast_to(frame.regs[reduction.predicate], frame.n).copy()
        wait.reduction = Reduction(reduction.operation, values, store=frame.code.store_of[reduction.result])
    return wait


_BARRIER_OPERAND_COUNTS = {"sync": (1, 2), "arrive": (2, 2), "red": (3, 4)}
"""Kind of a barrier instruction → its least and its largest number of operands."""
_BARRIER_REDUCTIONS = {"popc": "u32", "and": "pred", "or": "pred"}
"""Modifier of bar.red that names its operation → type of the result."""

TERMINATORS: dict[str, Callable[[FunctionBuilder, Instruction, PtxFunction], BuildEnd]] = {
    "bra": _bra,
    "brx": _brx,
    "ret": _return,
    "exit": _exit,
    "trap": _trap,
    "bar": _barrier,
    "barrier": _barrier,
    "call": call,
}
"""Opcode of an instruction that ends a block of code → function that builds its closure."""
