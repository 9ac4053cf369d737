"""Integer instructions of WGSL; what operations mean is in `shaders/integers.py`.

Integers of up to 32 bits are i32, wider ones two words.
"""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.integers import Division, Extreme, Integers
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned


class _Integers(WgslRegisters, Integers[FunctionEmitter, Name]):
    """Lowerings of integer arithmetic to WGSL."""

    def divided(self, emitter: FunctionEmitter, division: Division, width: int, lhs: Name, rhs: Name) -> Name:
        """Emit a quotient or remainder of registers of `width` bits; for 64 bits it is a call of a library function."""
        if width == 64:
            sign, part = "i" if division.is_signed else "u", "div" if division.is_quotient else "rem"
            return emitter.call(f"pyd_{sign}64_{part}", lhs, rhs)
        operator = "/" if division.is_quotient else "%"
        if division.is_signed:
            return emitter.let(f"{lhs} {operator} {rhs}")
        return emitter.let(f"i32({as_unsigned(lhs)} {operator} {as_unsigned(rhs)})")

    def extreme(self, emitter: FunctionEmitter, extreme: Extreme, width: int, lhs: Name, rhs: Name) -> Name:
        """Emit a minimum or maximum of registers of `width` bits.

        Registers of 32 bits are i32; for an unsigned extreme, they are converted to u32, and the result back to i32.
        """
        if width == 32:
            name = "max" if extreme.is_larger else "min"
            if extreme.is_signed:
                return emitter.let(f"{name}({lhs}, {rhs})")
            return emitter.let(f"i32({name}({as_unsigned(lhs)}, {as_unsigned(rhs)}))")
        is_lhs_below = emitter.let(emitter.less(lhs, rhs, 64, unsigned=not extreme.is_signed))
        if_false, if_true = (lhs, rhs) if extreme.is_larger else (rhs, lhs)
        return emitter.let(f"select({if_false}, {if_true}, {is_lhs_below})")

    def product(self, emitter: FunctionEmitter, is_signed: bool, lhs: Name, rhs: Name) -> tuple[Name, Name]:
        """Return (low, high), the two words of the product of 32-bit registers, both as i32."""
        words = (lhs, rhs) if is_signed else (as_unsigned(lhs), as_unsigned(rhs))
        pair = emitter.call("pyd_i32_product" if is_signed else "pyd_u32_product", *words)
        return emitter.let(f"i32({pair}.x)"), emitter.let(f"i32({pair}.y)")


ROWS: dict[str, Lowering] = _Integers().rows()
"""Name of an operation → function that emits WGSL for it."""
