"""Video instructions on four bytes or two halves: vadd, vsub, vavrg, vabsdiff, vmin, vmax, with .sat and .add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.registry import handles

# vavrg adds 1 to a sum of 0 or more before it is halved, so that an average of x.5 rounds away from zero.
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": np.add, "vsub": np.subtract, "vmin": np.minimum, "vmax": np.maximum,
    "vabsdiff": lambda x, y: np.abs(x - y), "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
}  # fmt: skip


@handles(*(f"{name}{lanes}" for name in _OPERATIONS for lanes in (2, 4)))
def video(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of a SIMD video instruction, such as `vadd4.u32.u32.u32 d, a, b, c`.

    It computes each byte (or half, for opcodes that end in 2) of d from those of a and b. With .add, d is c plus the
    sum of these results. Without it, c is ignored.
    """
    lanes = int(instruction.opcode[-1])  # parts of a word: 2 halves or 4 bytes
    compute = _OPERATIONS[instruction.opcode[:-1]]
    types = [m for m in instruction.modifiers if m not in ("sat", "add")]
    if len(types) != 3 or any(type_ not in ("u32", "s32") for type_ in types):
        builder.fail(instruction)
    d_is_signed, a_is_signed, b_is_signed = (type_ == "s32" for type_ in types)
    d, a, b, c = builder.bind(instruction, "u32", "u32", "u32", "u32")
    bits = 32 // lanes
    size = bits // 8
    saturate, sums_parts = "sat" in instruction.modifiers, "add" in instruction.modifiers
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if d_is_signed else (0, (1 << bits) - 1)

    def parts(value: Any, n: int, is_signed: bool) -> Any:
        """Return the parts of words, int64 [n, lanes]."""
        values = np.array(np.broadcast_to(value, n))
        return values.view(f"{'i' if is_signed else 'u'}{size}").astype(np.int64).reshape(n, lanes)

    def step(regs: list[Any]) -> None:
        """Compute on the parts of both registers; pack the parts again, or add their sum to the third register."""
        n = regs[FRAME_SLOT].n
        result = compute(parts(regs[a], n, a_is_signed), parts(regs[b], n, b_is_signed))
        if saturate:
            result = np.clip(result, low, high)  # the range of a part of the result
        if sums_parts:
            regs[d][...] = (result.sum(axis=1) + regs[c]).astype(np.uint32)
        else:
            regs[d][...] = np.ascontiguousarray(result.astype(f"u{size}")).view(np.uint32)[:, 0]

    return step
