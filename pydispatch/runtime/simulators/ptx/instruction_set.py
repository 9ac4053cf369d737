"""Import of all instruction modules, which fill the table, and the list of instructions that synchronize a warp."""

from __future__ import annotations

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx import functions
from pydispatch.runtime.simulators.ptx.instructions import (
    arithmetic,
    asynchronous,
    atomics,
    bitwise,
    compare,
    convert,
    loads,
    matrix,
    mbarrier,
    mma,
    moves,
    video,
    warp,
    wmma,
)

LOADED = (
    arithmetic, asynchronous, atomics, bitwise, compare, convert, functions, loads, matrix, mbarrier, mma, moves, video,
    warp, wmma,
)  # fmt: skip

"""The imported modules, whose import registers the handlers of instructions. Without this use, the linter would report
the imports as unused.
"""

_MASKS = {"shfl": 4, "vote": 2, "match": 2, "redux": 2, "elect": 1}
"""Instruction with .sync → index of its operand with the mask of the lanes that take part."""


def waits_for(instruction: Instruction) -> int | None:
    """Return which lanes of its warp an instruction waits for.

    It is the index of the operand with the mask of these lanes, -1 for the whole warp, or None if it does not wait.
    """
    if instruction.opcode in ("mma", "ldmatrix", "stmatrix", "wmma", "movmatrix"):
        return -1
    if instruction.opcode == "bar" and instruction.modifiers[:2] == ("warp", "sync"):
        return 0  # the mask is its only operand
    if "sync" in instruction.modifiers:
        return _MASKS.get(instruction.opcode)
    return None
