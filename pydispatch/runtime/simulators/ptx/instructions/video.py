"""PTX video instructions on packed bytes or halves. A handler returns a closure `step(regs)`, which runs the
instruction for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an
operand, an array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.elements import dtype_of
from pydispatch.runtime.simulators.ptx.registry import handles

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": np.add, "vsub": np.subtract, "vmin": np.minimum, "vmax": np.maximum,
    "vabsdiff": lambda x, y: np.abs(x - y), "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
}  # fmt: skip
"""Opcode without its number of parts → function of two arrays of int64.

vavrg adds 1 to a sum of 0 or more before it is halved, so that an average of x.5 rounds away from zero.
"""


@dataclass(frozen=True)
class _PackedOperation:
    """Operation on the parts of words: four bytes or two halves.

    Attributes:
        compute: The operation on two arrays of int64.
        part_count: Parts of a word, 4 or 2.
        a, b: Slots of the words whose parts are combined.
        a_type, b_type: Types of their parts.
        part: Unsigned type of a part.
        limits: Range of a part of the result for .sat; None: the low bits of the result.
    """

    compute: Callable[[Any, Any], Any]
    part_count: int
    a: int
    b: int
    a_type: np.dtype[Any]
    b_type: np.dtype[Any]
    part: np.dtype[Any]
    limits: tuple[int, int] | None

    def results(self, regs: list[Any]) -> Any:
        """Return the result of each part, int64 [threads, parts]."""
        n = regs[FRAME_SLOT].n
        a, b = self._parts(regs[self.a], n, self.a_type), self._parts(regs[self.b], n, self.b_type)
        result = self.compute(a, b)
        return result if self.limits is None else np.clip(result, *self.limits)

    def pack(self, results: Any) -> Any:
        """Return the words whose parts have the low bits of results [threads, parts], uint32 [threads]."""
        return np.ascontiguousarray(results.astype(self.part)).view(np.uint32)[:, 0]

    def _parts(self, words: Any, n: int, part_type: np.dtype[Any]) -> Any:
        """Return the parts of the words of n threads, lowest first, int64 [n, parts]."""
        return np.array(np.broadcast_to(words, n)).view(part_type).astype(np.int64).reshape(n, self.part_count)


@handles(*(f"{name}{part_count}" for name in _OPERATIONS for part_count in (2, 4)))
def video(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of a SIMD video instruction, such as `vadd4.u32.u32.u32 d, a, b, c`.

    It computes each byte (or half, for opcodes that end in 2) of d from the same byte of a and of b. With .add, d is c
    plus the sum of these results. Without it, c is ignored.
    """
    types = [m for m in instruction.modifiers if m not in ("sat", "add")]
    if len(types) != 3 or any(type_ not in ("u32", "s32") for type_ in types):
        builder.fail(instruction)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "u32")
    part_count = int(instruction.opcode[-1])
    bits = 32 // part_count
    d_type, a_type, b_type = (dtype_of(f"{type_[0]}{bits}") for type_ in types)
    # With .sat each result is clamped to the range of its type.
    limits = None
    if "sat" in instruction.modifiers:
        limits = int(np.iinfo(d_type).min), int(np.iinfo(d_type).max)
    compute = _OPERATIONS[instruction.opcode[:-1]]
    operation = _PackedOperation(compute, part_count, a, b, a_type, b_type, part=dtype_of(f"u{bits}"), limits=limits)

    def pack(regs: list[Any]) -> None:
        """Compute each byte or half, and store the results as the bytes or halves of d."""
        regs[d][...] = operation.pack(operation.results(regs))

    def add(regs: list[Any]) -> None:
        """Compute each byte or half, and store the sum of all results and c."""
        regs[d][...] = (operation.results(regs).sum(axis=1) + regs[c]).astype(np.uint32)

    return add if "add" in instruction.modifiers else pack
