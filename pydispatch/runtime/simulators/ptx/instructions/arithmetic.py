"""PTX arithmetic of all types, dispatched by type. A handler returns a closure `step(regs)`, which runs the instruction
for all threads of a frame: those that execute it together. A slot is an index in `regs`: regs[slot] is an operand, an
array with an element per thread or a scalar for all of them, and regs[FRAME_SLOT] is the frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import FRAME_SLOT, FunctionBuilder, Step
from pydispatch.runtime.simulators.ptx.instructions.floats import FLOAT
from pydispatch.runtime.simulators.ptx.instructions.floats_small import small_float_operation
from pydispatch.runtime.simulators.ptx.instructions.integer import INTEGER, carried, is_integer
from pydispatch.runtime.simulators.ptx.registry import handles

_PACKED = {"u16x2": np.dtype("u2"), "s16x2": np.dtype("i2")}
"""PTX type of a register with two packed integers → NumPy type of one."""


@handles(*sorted({*INTEGER, *FLOAT}), "addc", "subc", "madc")
def arithmetic(builder: FunctionBuilder, instruction: Instruction) -> Step:
    """Build the closure of an arithmetic instruction by its type: integer, float, half precision or packed.

    A closure runs the instruction for all threads of a frame. The type is the last modifier: add.cc.u32 is of u32. Fail
    for a type that the instruction does not have.
    """
    type_ = instruction.modifiers[-1] if instruction.modifiers else ""
    # These read (addc) or write (add.cc) the carry.
    if instruction.opcode in ("addc", "subc", "madc") or "cc" in instruction.modifiers:
        if not is_integer(type_):
            builder.fail(instruction)
        return carried(builder, instruction)
    if type_ in ("f32", "f64") and instruction.opcode in FLOAT:
        return FLOAT[instruction.opcode](builder, instruction)
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        return small_float_operation(builder, instruction)
    if is_integer(type_) and instruction.opcode in INTEGER:
        return INTEGER[instruction.opcode](builder, instruction)
    # Two 16-bit integers in a register, u16x2 or s16x2.
    if type_ not in _PACKED:
        builder.fail(instruction)
    return _packed(builder, instruction, _PACKED[type_])


def _packed(builder: FunctionBuilder, instruction: Instruction, dtype: np.dtype[Any]) -> Step:
    """Build the closure of add, min or max of two packed 16-bit integers. dtype: NumPy type of one of them.

    With .relu a negative result becomes 0.
    """
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(instruction.opcode)
    words = instruction.modifiers[:-1]  # the last one is the type
    if ufunc is None or set(words) - {"relu"}:
        builder.fail(instruction)
    d, a, b = builder.bind(instruction, "u32", "u32", "u32")
    relu = "relu" in instruction.modifiers
    operation = ufunc  # a name that is never None, for the type checker

    def combine_parts(regs: list[Any]) -> None:
        """Combine registers a and b into d: each u32 is viewed as two 16-bit integers, computed separately."""
        n = regs[FRAME_SLOT].n
        left, right = (np.array(np.broadcast_to(regs[slot], n)).view(dtype) for slot in (a, b))
        result = operation(left, right)
        if relu:
            result = np.maximum(result, dtype.type(0))
        regs[d][...] = result.view(np.uint32)

    return combine_parts
