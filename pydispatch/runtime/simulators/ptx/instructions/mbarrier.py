"""mbarrier: barriers that are words of shared memory, and cp.async.mbarrier.arrive.

The word is the machine's own: bits 0 to 19 threads that are still to come, 20 to 39 how many come in each phase, from
40 the number of the phase. The token returned by an arrival is the previous word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.addresses import memory_operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import BOOL
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.atomics import in_order
from pydispatch.runtime.simulators.ptx.memory import MemoryAccess
from pydispatch.runtime.simulators.ptx.registry import handles

_WORD = np.dtype("u8")
_LOG2_WORD_BYTES = 3
_FIELD, _EXPECTED, _PHASE = np.uint64((1 << 20) - 1), np.uint64(20), np.uint64(40)
_WORDS = {
    "shared", "shared::cta", "b64", "release", "acquire", "relaxed", "cta", "cluster", "noComplete", "noinc", "parity",
    "async",
}  # fmt: skip


def _arrive(old: Any, operands: list[Any]) -> Any:
    """Return the word of a barrier after `count` threads have arrived; the last arrival ends the phase."""
    count = operands[0]
    pending = (old & _FIELD) - count
    expected = (old >> _EXPECTED) & _FIELD
    ended = ((old >> _PHASE) + np.uint64(1)) << _PHASE | expected << _EXPECTED | expected
    return np.where(pending == 0, ended, (old & ~_FIELD) | (pending & _FIELD))


def _leave(old: Any, operands: list[Any]) -> Any:
    """Return the barrier word after an arrival that also lowers the thread count of later phases."""
    return _arrive(old - (operands[0] << _EXPECTED), operands)


def _end_phases(frame: Frame, access: MemoryAccess, old_words: Any, new_words: Any) -> None:
    """Advance the epoch of each block with an ended phase: this orders the block's accesses for race detection."""
    threads = access.select_threads(frame.threads)
    blocks = np.unique(frame.batch.block_slots()[threads][old_words >> _PHASE != new_words >> _PHASE])
    frame.batch.epochs[blocks] += 1


@handles("mbarrier")
def mbarrier(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of an mbarrier instruction. A barrier is a word of shared memory with a phase, and the numbers
    of expected and pending arrivals.
    """
    kind, qualifiers = instruction.modifiers[0] if instruction.modifiers else "", instruction.modifiers[1:]
    if set(qualifiers) - _WORDS:
        builder.fail(instruction)
    if kind in ("arrive", "arrive_drop"):
        result, address, *counts = builder.operands(instruction, 2, most=3)
        return arrival(
            builder,
            instruction,
            result=result,
            address=address,
            count=counts[0] if counts else None,
            drop=kind == "arrive_drop",
        )
    if kind in ("init", "inval"):  # an invalidated word expects no arrivals: it is 0
        operands = builder.operands(instruction, 1, most=2)
        count = builder.source(instruction, operands[1], "u32") if kind == "init" else builder.constant(np.uint32(0))
        resolve = memory_operand(builder, instruction, operands[0], _WORD.itemsize, write=True)

        def init(regs: list[Any]) -> None:
            """Store words that expect this many arrivals, none of which has happened."""
            n = regs[FRAME_SLOT].n
            for access in resolve(regs):
                counts = access.select_threads(np.broadcast_to(regs[count], n)).astype(np.uint64)
                access.memory.views[_WORD][access.offsets >> _LOG2_WORD_BYTES] = counts << _EXPECTED | counts

        return init
    if kind not in ("test_wait", "try_wait"):
        builder.fail(instruction)
    operands = builder.operands(instruction, 3, most=4)
    parity = "parity" in qualifiers
    token = builder.source(instruction, operands[2], "u32" if parity else "u64")
    target = builder.target(instruction, operands[0], BOOL)
    resolve = memory_operand(builder, instruction, operands[1], _WORD.itemsize, write=False, atomic=True)

    def wait(regs: list[Any]) -> None:
        """Assign to the target whether the awaited phase, or phase parity, is complete."""
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):  # one for each memory, with the threads that access it
            phase = access.memory.views[_WORD][access.offsets >> _LOG2_WORD_BYTES] >> _PHASE
            awaited = access.select_threads(np.broadcast_to(regs[token], n))
            is_complete = (phase & np.uint64(1) != awaited) if parity else (phase != awaited >> _PHASE)
            access.assign_threads(regs[target], is_complete)

    return wait


def arrival(
    builder: FunctionBuilder, instruction: Instruction, result: Any, address: Any, count: Any, drop: bool
) -> Step:
    """Return a closure for threads that arrive at a barrier, one after the other. count: of each; None: 1."""
    slot = builder.source(instruction, count, "u32") if count is not None else builder.constant(np.uint32(1))
    target = builder.target(instruction, result, "u64") if result is not None else -1  # -1: no token is returned
    resolve = memory_operand(builder, instruction, address, _WORD.itemsize, write=True, atomic=True)
    update = _leave if drop else _arrive

    def step(regs: list[Any]) -> None:
        """Update the barrier words thread by thread, and return their old values."""
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):
            words, index = access.memory.views[_WORD], access.offsets >> _LOG2_WORD_BYTES
            counts = access.select_threads(np.broadcast_to(regs[slot], n)).astype(np.uint64)
            old = in_order(words, index, [counts], update, associative_ufunc=None)
            if target >= 0:
                access.assign_threads(regs[target], old)
            if regs[FRAME_SLOT].batch.races is not None:
                _end_phases(regs[FRAME_SLOT], access, old, words[index])  # for the detector: a phase orders accesses

    return step
