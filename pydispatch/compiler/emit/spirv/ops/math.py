"""Counts of bits in SPIR-V; what operations of `math` on integers mean is in `shaders/math.py`."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.math import IntegerMath
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters


class _IntegerMath(SpirvRegisters, IntegerMath[FunctionEmitter, Id]):
    """Lowerings of bit counts to SPIR-V."""

    def counted(self, emitter: FunctionEmitter, kind: str, value: Id, width: int) -> Id:
        """Emit a population count (ctpop), or the number of leading (ctlz) or trailing (cttz) zeros.

        SPIR-V counts in 32 bits. Zeros of 64 bits are counted in the word where counting begins (the high one for
        ctlz); if that word is 0, they are 32 and those of the second word.
        """
        if width == 32:
            return _count(emitter, kind, value)
        module, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
        low = let("UConvert", word, value)
        high = let("UConvert", word, let("ShiftRightLogical", module.int(64), value, module.integer(32)))
        if kind == "ctpop":
            count = let("IAdd", word, _count(emitter, kind, low), _count(emitter, kind, high))
        else:
            first_word, second_word = (high, low) if kind == "ctlz" else (low, high)
            second_count = let("IAdd", word, _count(emitter, kind, second_word), module.integer(32))
            is_empty = let("IEqual", module.bool(), first_word, module.integer(0))
            count = let("Select", word, is_empty, second_count, _count(emitter, kind, first_word))
        return let("UConvert", module.int(64), count)


def _count(emitter: FunctionEmitter, kind: str, value: Id) -> Id:
    """Emit a count of bits of a 32-bit word; `kind` is "ctpop", "ctlz" or "cttz". A word 0 has 32 zeros."""
    module, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
    if kind == "ctpop":
        return let("BitCount", word, value)
    # FindUMsb and FindILsb return the position of the highest and lowest one, counted from the low end; -1 for 0, which
    # gives 31 + 1 leading zeros, and as an unsigned number is above 32.
    if kind == "ctlz":
        return let("ISub", word, module.integer(31), emitter.code.glsl("FindUMsb", word, value))
    return emitter.code.glsl("UMin", word, emitter.code.glsl("FindILsb", word, value), module.integer(32))


ROWS: dict[str, Lowering] = _IntegerMath().rows()
"""Name of an operation → function that emits SPIR-V for it."""
