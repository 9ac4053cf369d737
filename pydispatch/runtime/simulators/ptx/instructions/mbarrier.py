"""PTX mbarrier: barriers that are words of shared memory. A handler returns a closure `step(regs)`, which runs the
instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an
operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
`memory_operand` returns a function `resolve(regs)` of an address operand: it returns a `MemoryAccess` for each
allocation that the threads access, with the threads and their byte offsets in it. PTX leaves the format of the word
open. Here bits 0 to 19 are the arrivals that the current phase still waits for (pending), bits 20 to 39 the arrivals of
each phase (expected), and the bits from 40 on the number of the phase, from 0. The token that an arrival returns is the
previous word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.addresses import memory_operand
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import BOOL
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.atomics import AtomicOperation, in_order
from pydispatch.runtime.simulators.ptx.memory import MemoryAccess
from pydispatch.runtime.simulators.ptx.registry import handles

_WORD = np.dtype("u8")
"""NumPy type of a barrier, which is a 64-bit word of shared memory."""
_LOG2_WORD_BYTES = 3  # shifts an offset in bytes to an index of a barrier
_FIELD, _EXPECTED, _PHASE = np.uint64((1 << 20) - 1), np.uint64(20), np.uint64(40)
"""The bits of the lowest field (pending arrivals), and the first bits of the other two."""
_MEMORY = ("shared", "shared::cta", "b64")
"""Modifiers of all kinds: state space and type of the barrier word."""
_ARRIVAL = (*_MEMORY, "release", "relaxed", "cta", "cluster", "noComplete")
"""Modifiers of arrivals, also their memory order and scope."""
_WAIT = (*_MEMORY, "acquire", "relaxed", "cta", "cluster", "parity")
"""Modifiers of waits."""
_MODIFIERS = {
    "init": _MEMORY, "inval": _MEMORY, "arrive": _ARRIVAL, "arrive_drop": _ARRIVAL, "test_wait": _WAIT,
    "try_wait": _WAIT,
}  # fmt: skip
"""Kind of operation → its other modifiers: state space, type, order, scope, and variants of arrivals and waits."""


def _arrive(old: Any, operands: list[Any]) -> Any:
    """Return the words of barriers after arrivals, of which the last one ends the phase and begins the next.

    A word has the number of the phase (from bit 40), expected arrivals (bits 20 to 39) and pending arrivals (bits 0 to
    19). The next phase begins with as many pending arrivals as it expects.

    old: the words, u64. operands: one array with the number of arrivals at each, u64.
    """
    count = operands[0]
    pending = (old & _FIELD) - count
    expected = (old >> _EXPECTED) & _FIELD
    next_phase = (old >> _PHASE) + np.uint64(1)
    word_of_next_phase = next_phase << _PHASE | expected << _EXPECTED | expected
    return np.where(pending == 0, word_of_next_phase, (old & ~_FIELD) | (pending & _FIELD))


def _leave(old: Any, operands: list[Any]) -> Any:
    """Return the words after arrivals of arrive_drop, which also lower the expected arrivals of later phases.

    old: the words, u64. operands: one array with the number of arrivals at each, u64.
    """
    return _arrive(old - (operands[0] << _EXPECTED), operands)


def _end_phases(frame: Frame, access: MemoryAccess, old_words: Any, new_words: Any) -> None:
    """Advance the epoch of each thread block in which a phase has ended: this orders its accesses for race detection.

    old_words, new_words: the barrier words before and after the arrivals, one for each accessing thread.
    """
    has_ended_phase = old_words >> _PHASE != new_words >> _PHASE
    blocks_of_threads = frame.batch.block_indices()[access.select_threads(frame.threads)]
    frame.batch.epochs[np.unique(blocks_of_threads[has_ended_phase])] += 1


@handles("mbarrier")
def mbarrier(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of an mbarrier instruction: init, inval, arrive, arrive_drop, test_wait or try_wait.

    A barrier is a word of shared memory with the number of its phase, and of expected and pending arrivals. When none
    is pending, the next phase begins, in which the expected ones are pending.
    """
    kind, qualifiers = instruction.modifiers[0] if instruction.modifiers else "", instruction.modifiers[1:]
    if kind not in _MODIFIERS:
        builder.fail(instruction)
    builder.require_modifiers(instruction, _MODIFIERS[kind], qualifiers)
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
    if kind in ("init", "inval"):
        return _init(builder, instruction, is_invalidation=kind == "inval")
    return _wait(builder, instruction, is_by_parity="parity" in qualifiers)


def _init(builder: FunctionBuilder, instruction: Instruction, is_invalidation: bool) -> Step:
    """Build the closure of mbarrier.init, or of mbarrier.inval, which stores a word that expects no arrivals."""
    operands = builder.operands(instruction, 1, most=2)
    count = builder.constant(np.uint32(0)) if is_invalidation else builder.source(instruction, operands[1], "u32")
    resolve = memory_operand(builder, instruction, operands[0], _WORD.itemsize, write=True)

    def init(regs: list[Any]) -> None:
        """Store barrier words of phase 0, which expect as many arrivals as the operand `count` states.

        The number is stored as expected arrivals (bits 20 to 39) and as pending ones (bits 0 to 19).
        """
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):
            counts = access.select_threads(np.broadcast_to(regs[count], n)).astype(np.uint64)
            access.memory.views[_WORD][access.offsets >> _LOG2_WORD_BYTES] = counts << _EXPECTED | counts

    return init


def _wait(builder: FunctionBuilder, instruction: Instruction, is_by_parity: bool) -> Step:
    """Build the closure of mbarrier.test_wait or try_wait: `mbarrier.test_wait.shared.b64 p, [address], phase`.

    The barrier word holds the number of its current phase, 0, 1, 2, ... An awaited phase is complete once the current
    phase is another one.

    is_by_parity: the last operand is the lowest bit of the number of the awaited phase (`.parity`): 1 for phase 3. Else
    it is the token of an arrival in that phase, an earlier barrier word, which holds the number itself.
    """
    operands = builder.operands(instruction, 3, most=4)
    phase_operand = builder.source(instruction, operands[2], "u32" if is_by_parity else "u64")
    target = builder.target(instruction, operands[0], BOOL)
    resolve = memory_operand(builder, instruction, operands[1], _WORD.itemsize, write=False, atomic=True)

    def wait(regs: list[Any]) -> None:
        """Assign to the target of each thread whether the phase that it waits for is complete.

        `phase_operand` is the slot of the awaited phase: its parity if `is_by_parity`, else a token. try_wait does not
        block here: like test_wait it returns at once, and programs repeat it.
        """
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):  # one for each memory, with the threads that access it
            # The current phase: programs wait for it or the one before it, so its lowest bit tells them apart.
            phase = access.memory.views[_WORD][access.offsets >> _LOG2_WORD_BYTES] >> _PHASE
            awaited = access.select_threads(np.broadcast_to(regs[phase_operand], n))
            is_complete = (phase & np.uint64(1) != awaited) if is_by_parity else (phase != awaited >> _PHASE)
            access.assign_threads(regs[target], is_complete)

    return wait


def arrival(
    builder: FunctionBuilder, instruction: Instruction, result: Any, address: Any, count: Any, drop: bool
) -> Step:
    """Return a closure for threads that arrive at a barrier, one after the other.

    An arrival lowers the pending arrivals in the barrier word. The last one of a phase begins the next phase. The token
    of an arrival is the word before it, by which `_wait` recognizes the phase.

    Example:
        The barrier expects 2 arrivals, in phase 0. Words are written as (phase, expected, pending). The first arrival
        changes (0, 2, 2) to (0, 2, 1), the second one changes (0, 2, 1) to (1, 2, 2).

    Args:
        builder: Builder of the function.
        instruction: The instruction.
        result: Operand that receives the token; None for no token.
        address: Operand with the address of the barrier word.
        count: Operand with the number of arrivals of each thread; None for 1.
        drop: Whether the thread also leaves later phases, which then expect `count` arrivals less.
    """
    count_slot = builder.source(instruction, count, "u32") if count is not None else builder.constant(np.uint32(1))
    target = builder.target(instruction, result, "u64") if result is not None else -1  # -1: no token is returned
    resolve = memory_operand(builder, instruction, address, _WORD.itemsize, write=True, atomic=True)
    # No ufunc computes a word after several arrivals, one of which may begin the next phase.
    operation = AtomicOperation(_WORD, _leave if drop else _arrive, associative_ufunc=None)

    def arrive(regs: list[Any]) -> None:
        """Update the barrier words thread by thread, and store their old values as tokens in `target` (-1: none).

        `count_slot` has the number of arrivals of each thread.
        """
        n = regs[FRAME_SLOT].n
        for access in resolve(regs):  # one for each memory, with the threads that access it
            words, index = access.memory.views[_WORD], access.offsets >> _LOG2_WORD_BYTES
            counts = access.select_threads(np.broadcast_to(regs[count_slot], n)).astype(np.uint64)
            old = in_order(words, index, [counts], operation)
            if target >= 0:
                access.assign_threads(regs[target], old)
            if regs[FRAME_SLOT].batch.races is not None:
                # Accesses of different phases of a barrier are ordered, which the race detector must know.
                _end_phases(regs[FRAME_SLOT], access, old, words[index])

    return arrive
