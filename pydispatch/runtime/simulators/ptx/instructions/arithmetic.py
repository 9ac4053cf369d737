"""Arithmetic of all types, dispatched by type to the integer and float modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from pydispatch.formats.ptx.module import Instruction
from pydispatch.runtime.simulators.ptx.builder import Builder, Step
from pydispatch.runtime.simulators.ptx.instructions.floats import FLOAT
from pydispatch.runtime.simulators.ptx.instructions.floats_small import small
from pydispatch.runtime.simulators.ptx.instructions.integer import INTEGER, carried, is_integer
from pydispatch.runtime.simulators.ptx.registry import handles

_PACKED = {"u16x2": np.dtype("u2"), "s16x2": np.dtype("i2")}


@handles(*sorted({*INTEGER, *FLOAT}), "addc", "subc", "madc")
def arithmetic(b: Builder, i: Instruction) -> Step:
    type_ = i.modifiers[-1] if i.modifiers else ""
    if i.opcode in ("addc", "subc", "madc") or "cc" in i.modifiers:
        if not is_integer(type_):
            b.fail(i)
        return carried(b, i)
    if type_ in ("f32", "f64") and i.opcode in FLOAT:
        return FLOAT[i.opcode](b, i)
    if type_ in ("f16", "bf16", "f16x2", "bf16x2"):
        return small(b, i)
    if is_integer(type_) and i.opcode in INTEGER:
        return INTEGER[i.opcode](b, i)
    if type_ not in _PACKED:
        b.fail(i)
    return _packed(b, i, _PACKED[type_])


def _packed(b: Builder, i: Instruction, dtype: np.dtype[Any]) -> Step:
    """add, min and max of two 16-bit integers."""
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(i.opcode)
    if ufunc is None or set(i.modifiers[:-1]) - {"relu"}:
        b.fail(i)
    d, x, y = b.operands(i, 3)
    s, t, target = b.source(i, x, "u32"), b.source(i, y, "u32"), b.target(i, d, "u32")
    relu = "relu" in i.modifiers
    operation = ufunc

    def step(regs: list[Any]) -> None:
        n = regs[0].n
        left, right = (np.array(np.broadcast_to(regs[k], n)).view(dtype) for k in (s, t))
        result = operation(left, right)
        if relu:
            result = np.maximum(result, dtype.type(0))
        regs[target][...] = result.view(np.uint32)

    return step
