"""Integer instructions of SPIR-V; what operations mean is in `shaders/integers.py`."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.integers import Division, Extreme, Integers
from pydispatch.compiler.emit.spirv.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.spirv.module import Id
from pydispatch.compiler.emit.spirv.ops.registers import SpirvRegisters

DIVISIONS = {
    Division(is_signed=True, is_quotient=True): "SDiv",
    Division(is_signed=False, is_quotient=True): "UDiv",
    Division(is_signed=True, is_quotient=False): "SRem",
    Division(is_signed=False, is_quotient=False): "UMod",
}
"""Division -> its instruction, for registers of 32 and 64 bits."""


class _Integers(SpirvRegisters, Integers[FunctionEmitter, Id]):
    """Lowerings of integer arithmetic to SPIR-V."""

    def divided(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Id, rhs: Id) -> Id:
        """Emit a quotient or remainder; the divisor is not zero, and no result overflows."""
        return emitter.code.let(DIVISIONS[division], emitter.m.int(width), lhs, rhs)

    def extreme(self, emitter: FunctionEmitter, extreme: Extreme, width: int, lhs: Id, rhs: Id) -> Id:
        """Emit a minimum or maximum of registers of `width` bits; GLSL.std.450 has those of 32 bits only."""
        sign = "S" if extreme.is_signed else "U"
        if width == 32:
            return emitter.code.glsl(sign + ("Max" if extreme.is_larger else "Min"), emitter.m.int(32), lhs, rhs)
        compare = sign + ("GreaterThan" if extreme.is_larger else "LessThan")
        is_lhs = emitter.code.let(compare, emitter.m.bool(), lhs, rhs)
        return emitter.code.let("Select", emitter.m.int(64), is_lhs, lhs, rhs)

    def product(self, emitter: FunctionEmitter, is_signed: bool, lhs: Id, rhs: Id) -> tuple[Id, Id]:
        """Emit the product of two 32-bit registers, and return its low and its high word."""
        module, let, word = emitter.m, emitter.code.let, emitter.m.int(32)
        pair = let("SMulExtended" if is_signed else "UMulExtended", module.type("TypeStruct", word, word), lhs, rhs)
        return let("CompositeExtract", word, pair, 0), let("CompositeExtract", word, pair, 1)


ROWS: dict[str, Lowering] = _Integers().rows()
"""Name of an operation → function that emits SPIR-V for it."""
