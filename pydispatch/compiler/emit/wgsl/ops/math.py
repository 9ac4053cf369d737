"""Counts of bits in WGSL; what operations of `math` on integers mean is in `shaders/math.py`."""

from __future__ import annotations

from pydispatch.compiler.emit.shaders.math import IntegerMath
from pydispatch.compiler.emit.wgsl.function import FunctionEmitter, Lowering
from pydispatch.compiler.emit.wgsl.ops.registers import WgslRegisters
from pydispatch.compiler.emit.wgsl.words import Name, as_unsigned

NARROW = {"ctlz": "countLeadingZeros", "cttz": "countTrailingZeros", "ctpop": "countOneBits"}
"""Kind of a count -> built-in function for 32 bits."""
WIDE = {"ctlz": "pyd_i64_clz", "cttz": "pyd_i64_ctz", "ctpop": "pyd_i64_ones"}
"""Kind of a count -> function of the library for two words."""


class _IntegerMath(WgslRegisters, IntegerMath[FunctionEmitter, Name]):
    """Bit counts in WGSL."""

    def counted(self, emitter: FunctionEmitter, kind: str, value: Name, width: int) -> Name:
        """Emit a population count (ctpop), or the number of leading (ctlz) or trailing (cttz) zeros.

        Those of 64 bits are functions of the library, which return an i32.
        """
        if width == 32:
            return emitter.let(f"i32({NARROW[kind]}({as_unsigned(value)}))")
        return emitter.call("pyd_i64_from_i32", emitter.call(WIDE[kind], value))


ROWS: dict[str, Lowering] = _IntegerMath().rows()
"""Name of an operation → function that emits WGSL for it."""
