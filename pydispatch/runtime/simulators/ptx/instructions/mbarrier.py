"""mbarrier: barriers that are words of shared memory, and cp.async.mbarrier.arrive.

The word is the machine's own: bits 0 to 19 threads that are still to come, 20 to 39 how many come in each phase, from
40 the number of the phase. The token returned by an arrival is the previous word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.addresses import finder
from pydispatch.runtime.simulators.ptx.builder import FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import BOOL
from pydispatch.runtime.simulators.ptx.frame import Frame
from pydispatch.runtime.simulators.ptx.instructions.atomics import in_order
from pydispatch.runtime.simulators.ptx.registry import handles

_WORD = np.dtype("u8")
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


def _ended(frame: Frame, positions: Any, old_words: Any, new_words: Any) -> None:
    """Advance the epoch of each block with an ended phase: this orders the block's accesses for race detection."""
    threads = frame.threads if positions is None else frame.threads[positions]
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
        result, address, *counts = builder.operands(instruction, 2, 3)
        return arrival(builder, instruction, result, address, counts[0] if counts else None, kind == "arrive_drop")
    if kind in ("init", "inval"):
        operands = builder.operands(instruction, 1, 2)
        count = builder.source(instruction, operands[1], "u32") if kind == "init" else builder.constant(np.uint32(0))
        find = finder(builder, instruction, operands[0], 8, write=True)

        def init(regs: list[Any]) -> None:
            """Store words that expect this many arrivals, none of which has happened."""
            n = regs[0].n
            for positions, store, at in find(regs):
                value = np.broadcast_to(regs[count], n).astype(np.uint64)
                value = value << _EXPECTED | value
                store.view(_WORD)[at >> 3] = value if positions is None else value[positions]

        return init
    if kind not in ("test_wait", "try_wait"):
        builder.fail(instruction)
    operands = builder.operands(instruction, 3, 4)
    parity = "parity" in qualifiers
    token = builder.source(instruction, operands[2], "u32" if parity else "u64")
    target = builder.target(instruction, operands[0], BOOL)
    find = finder(builder, instruction, operands[1], 8, write=False, atomic=True)

    def wait(regs: list[Any]) -> None:
        """Return whether the awaited phase, or phase parity, is complete."""
        n = regs[0].n
        for positions, store, at in find(regs):
            phase = store.view(_WORD)[at >> 3] >> _PHASE
            awaited = np.broadcast_to(regs[token], n)
            awaited = awaited if positions is None else awaited[positions]
            is_complete = (phase & np.uint64(1) != awaited) if parity else (phase != awaited >> _PHASE)
            regs[target][... if positions is None else positions] = is_complete

    return wait


def arrival(
    builder: FunctionBuilder, instruction: Instruction, result: Any, address: Any, count: Any, drop: bool
) -> Step:
    """Return a closure for threads that arrive at a barrier, one after the other. count: of each; None: 1."""
    slot = builder.source(instruction, count, "u32") if count is not None else builder.constant(np.uint32(1))
    target = builder.target(instruction, result, "u64") if result is not None else -1
    find = finder(builder, instruction, address, 8, write=True, atomic=True)
    update = _leave if drop else _arrive

    def step(regs: list[Any]) -> None:
        """Update the barrier words thread by thread, and return their old values."""
        n = regs[0].n
        for positions, store, at in find(regs):
            counts = np.broadcast_to(regs[slot], n).astype(np.uint64)
            counts = counts if positions is None else counts[positions]
            old = in_order(store.view(_WORD), at >> 3, [counts], update, None)
            if target >= 0:
                regs[target][... if positions is None else positions] = old
            if regs[0].batch.races is not None:
                _ended(regs[0], positions, old, store.view(_WORD)[at >> 3])

    return step
